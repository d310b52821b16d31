// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/perfdata/attrs.hpp"

namespace rewake::decode::perf {

void Attr::lay_out() {
    uint32_t at = kHead;
    const auto next = [&](uint64_t bit) {
        if ((sample_type & bit) == 0) {
            return kAbsent;
        }
        at += 8;
        return at - 8;
    };
    id_at = next(kIdentifier);
    next(kIp);
    next(kTid);
    time_at = next(kTime);
    next(kAddr);
    const uint32_t id = next(kId);
    id_at = id_at == kAbsent ? id : id_at;
    next(kStreamId);
    cpu_at = next(kCpu);
    next(kPeriod);
    tail = at;
    raw_is_last = (sample_type & ~(2 * static_cast<uint64_t>(kRaw) - 1) & ~static_cast<uint64_t>(kIdentifier)) == 0;
    usable = type == 2 && (sample_type & kRaw) != 0 && time_at != kAbsent && cpu_at != kAbsent;

    at = 0;
    next(kTid);
    trailer_time = next(kTime);
    trailer_id = next(kId);
    next(kStreamId);
    trailer_cpu = next(kCpu);
    const uint32_t identifier = next(kIdentifier);
    trailer_id = identifier != kAbsent ? identifier : trailer_id;
    trailer = at;
}

bool Attrs::add_id(uint64_t id, uint32_t attr) {
    if (++added_ > kMostIds) {
        return false;
    }
    if (slots_.size() < 2 * (used_ + 1)) {
        std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 2, Slot{0, kNone});
        old.swap(slots_);
        mask_ = slots_.size() - 1;
        used_ = 0;
        for (const Slot& s : old) {
            if (s.attr != kNone) {
                insert(s);
            }
        }
    }
    insert({id, attr});
    return true;
}

void Attrs::insert(const Slot& slot) {
    size_t i = hash(slot.id) & mask_;
    while (slots_[i].attr != kNone && slots_[i].id != slot.id) {
        i = (i + 1) & mask_;
    }
    used_ += slots_[i].attr == kNone ? 1 : 0;
    slots_[i] = slot;
}

}  // namespace rewake::decode::perf
