// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/pftrace/stream.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace rewake::decode {
namespace {

/// FtraceEventBundle.CompactSched.
namespace compact_field {
enum : uint32_t {
    switch_timestamp = 1,
    switch_prev_state = 2,
    switch_next_pid = 3,
    switch_next_prio = 4,
    intern_table = 5,
    switch_next_comm_index = 6,
    waking_timestamp = 7,
    waking_pid = 8,
    waking_target_cpu = 9,
    waking_prio = 10,
    waking_comm_index = 11,
    waking_common_flags = 12,
};
}

constexpr uint64_t kMostTime = std::numeric_limits<int64_t>::max();

}  // namespace

void PfStream::problem(const char* what) {
    problems_->add(what, "CPU " + std::to_string(cpu_) + ", offset " + std::to_string((*bundles_)[bundle_ - 1].offset));
}

bool PfStream::next() {
    lost_ = false;
    if (begun_ && ++at_ < order_.size()) {
        return true;
    }
    last_ = begun_ && !order_.empty() ? order_.back().ts : last_;
    begun_ = true;
    at_ = 0;
    do {
        if (bundle_ == bundles_->size()) {
            if (!std::exchange(lost_within_, false) && !lost_pending_) {
                return false;
            }
            problems_->add("lost events after the last event of a CPU", "CPU " + std::to_string(cpu_));
            lost_pending_ = false;
            events_.assign(1, {});
            events_[0].what = PfEvent::What::nothing;
            order_.assign(1, {last_, 0});
            return true;
        }
    } while (!load());
    lost_ = lost_pending_;
    lost_pending_ = false;
    return true;
}

/// Whether the bundle may have `n` events. What it has more of is lost.
bool PfStream::room(size_t n) {
    if (n <= budget_.events) [[likely]] {
        return true;
    }
    problem("bundle of more events than memory allows, the others skipped");
    lost_within_ = true;
    return false;
}

/// The next bundle; false when it holds no event.
bool PfStream::load() {
    const PftraceIndex::Bundle& b = (*bundles_)[bundle_++];
    bytes_.resize(b.size);
    events_.clear();
    order_.clear();
    lost_pending_ = lost_pending_ || std::exchange(lost_within_, false) || b.dropped;
    if (b.size > budget_.bytes) {
        problem("bundle of events of more bytes than memory allows, skipped");
        lost_pending_ = true;
        return false;
    }
    if (file_->read_at(b.offset, bytes_.data(), b.size) != b.size) {
        problem("the file became shorter while it was read");
        lost_pending_ = true;
        return false;
    }
    Wire w(bytes_.data(), bytes_.size());
    WireField f;
    bool broken = false;
    while (w.next(f)) {
        if (f.number == bundle::event && f.type == 2) {
            full(f);
        } else if (f.number == bundle::compact_sched && f.type == 2) {
            compact(Wire(f));
        } else if (f.number == bundle::lost_events && f.type == 0) {
            lost_pending_ = lost_pending_ || f.value != 0;
        } else if (f.number == bundle::error || f.number == bundle::broken) {
            broken = true;
        }
    }
    if (w.damaged()) {
        problem("damaged bundle of events, read as far as it goes");
        lost_within_ = true;
    }
    if (broken) {
        problem("page of the ring buffer that the tracing service could not read");
        lost_pending_ = true;
    }
    for (size_t i = 0; i < events_.size(); ++i) {
        order_.push_back({events_[i].ts, static_cast<uint32_t>(i)});
    }
    const auto before = [](const Place& x, const Place& y) { return x.ts < y.ts; };
    if (!std::is_sorted(order_.begin(), order_.end(), before)) {
        std::stable_sort(order_.begin(), order_.end(), before);
    }
    return !order_.empty();
}

void PfStream::full(const WireField& f) {
    if (!room(events_.size() + 1)) {
        return;
    }
    Wire w(f);
    WireField g;
    PfEvent e;
    bool timed = false;
    while (w.next(g)) {
        if (g.type == 0 && g.number == 1) {
            e.ts = g.value;
            timed = g.value <= kMostTime;
        } else if (g.type == 0 && g.number == 2) {
            e.tid = static_cast<uint32_t>(g.value);
            e.has_tid = true;
        } else if (g.type == 0 && g.number == 5) {
            e.flags = static_cast<uint32_t>(g.value);
            e.has_flags = true;
        } else if (g.type == 2) {
            e.field = g.number;
            e.payload = g;
        }
    }
    if (w.damaged() || !timed) {
        return problem("damaged event, skipped");
    }
    events_.push_back(e);
}

void PfStream::compact(Wire w) {
    using namespace compact_field;
    for (auto& c : columns_) {
        c.clear();
    }
    names_.clear();
    WireField f;
    while (w.next(f)) {
        if (f.number == intern_table && f.type == 2) {
            if (room(names_.size() + 1)) {
                names_.push_back(f.text());
            }
        } else if (f.number < std::size(columns_) && f.type == 0) {
            if (room(columns_[f.number].size() + 1)) {
                columns_[f.number].push_back(f.value);
            }
        } else if (f.number < std::size(columns_) && f.type == 2) {
            Wire packed(f);
            uint64_t v = 0;
            while (!packed.end() && packed.varint(v)) {
                if (!room(columns_[f.number].size() + 1)) {
                    break;
                }
                columns_[f.number].push_back(v);
            }
            if (packed.damaged()) {
                problem("damaged column of compact events");
            }
        }
    }
    const auto rows = [&](PfEvent::What what, std::initializer_list<uint32_t> of, uint32_t tid, uint32_t prio,
                          uint32_t other, uint32_t comm) {
        size_t n = std::numeric_limits<size_t>::max(), most = 0;
        for (const uint32_t c : of) {
            n = std::min(n, columns_[c].size());
            most = std::max(most, columns_[c].size());
        }
        if (n != most) {
            problem("compact events with columns of different lengths, the longer ones cut");
            lost_within_ = true;
        }
        const std::vector<uint64_t>& flags = columns_[waking_common_flags];
        uint64_t ts = 0;
        n = room(events_.size() + n) ? n : budget_.events - std::min(budget_.events, events_.size());
        for (size_t i = 0; i < n; ++i) {
            ts += columns_[*of.begin()][i];
            if (ts > kMostTime || columns_[comm][i] >= names_.size()) {
                problem("damaged compact event, skipped with those after it");
                lost_within_ = true;
                return;
            }
            PfEvent& e = events_.emplace_back();
            e.what = what;
            e.ts = ts;
            e.next_tid = static_cast<int32_t>(columns_[tid][i]);
            e.prio = static_cast<int32_t>(columns_[prio][i]);
            e.state_or_cpu = static_cast<int64_t>(columns_[other][i]);
            e.comm = names_[columns_[comm][i]];
            if (what == PfEvent::What::compact_waking && flags.size() == most) {
                e.flags = static_cast<uint32_t>(flags[i]);
                e.has_flags = true;
            }
        }
    };
    rows(PfEvent::What::compact_waking,
         {waking_timestamp, waking_pid, waking_target_cpu, waking_prio, waking_comm_index}, waking_pid, waking_prio,
         waking_target_cpu, waking_comm_index);
    rows(PfEvent::What::compact_switch,
         {switch_timestamp, switch_prev_state, switch_next_pid, switch_next_prio, switch_next_comm_index},
         switch_next_pid, switch_next_prio, switch_prev_state, switch_next_comm_index);
}

}  // namespace rewake::decode
