// SPDX-License-Identifier: GPL-2.0-or-later
// Events of a perf.data file (perf_event_attr, include/uapi/linux/perf_event.h), and where the fields of their samples
// lie. Which attr a sample belongs to is told by its id.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectors/decode/bytes.hpp"
#include "collectors/decode/hash.hpp"

namespace rewake::decode::perf {

enum SampleType : uint64_t {
    kIp = 1U << 0,
    kTid = 1U << 1,
    kTime = 1U << 2,
    kAddr = 1U << 3,
    kRead = 1U << 4,
    kCallchain = 1U << 5,
    kId = 1U << 6,
    kCpu = 1U << 7,
    kPeriod = 1U << 8,
    kStreamId = 1U << 9,
    kRaw = 1U << 10,
    kIdentifier = 1U << 16,
};

inline constexpr uint32_t kHead = 8;      // perf_event_header: u32 type, u16 misc, u16 size
inline constexpr uint32_t kAbsent = ~0U;  // no such field

/// One event as it was asked for.
struct Attr {
    uint32_t type = 0;
    uint64_t config = 0, sample_type = 0, read_format = 0;
    bool sample_id_all = false, use_clockid = false, backward = false;
    int32_t clockid = 0;
    std::string name;  ///< "SYSTEM:EVENT" for a tracepoint; empty: the file does not say

    // Of a sample, from the start of the record; kAbsent: not sampled. `tail`: first byte after the parts of fixed size.
    uint32_t id_at = kAbsent, time_at = kAbsent, cpu_at = kAbsent, tail = kHead;
    bool raw_is_last = false;
    // Of the sample_id at the end of other records: its size, and offsets in it.
    uint32_t trailer = 0, trailer_time = kAbsent, trailer_cpu = kAbsent, trailer_id = kAbsent;

    /// Whose samples can be read.
    [[nodiscard]] bool tracepoint() const { return usable; }
    bool usable = false;
    /// Works out the offsets from sample_type.
    void lay_out();
};

/// All events of a file, by id.
class Attrs {
  public:
    static constexpr uint32_t kNone = ~0U;
    static constexpr size_t kMost = 4096;  // attrs; `perf record` with every sched event has about 40
    static constexpr size_t kMostIds = 16 << 20;  // attrs x CPUs

    std::vector<Attr> all;

    /// False: more ids than any machine has, the same ones again included.
    bool add_id(uint64_t id, uint32_t attr);
    /// Attr of an id, kNone for an unknown one.
    [[nodiscard]] uint32_t find(uint64_t id) const {
        if (slots_.empty()) {
            return kNone;
        }
        for (size_t i = hash(id) & mask_;; i = (i + 1) & mask_) {
            if (slots_[i].attr == kNone || slots_[i].id == id) {
                return slots_[i].attr;
            }
        }
    }
    /// Where the id of a sample lies, the same for all attrs; kAbsent: samples carry none.
    uint32_t id_at = kAbsent;

  private:
    struct Slot {
        uint64_t id;
        uint32_t attr;
    };
    static size_t hash(uint64_t id) { return keyed_hash(id, 0); }
    void insert(const Slot& slot);
    std::vector<Slot> slots_;
    size_t used_ = 0, mask_ = 0, added_ = 0;
};

/// What was read from one PERF_RECORD_SAMPLE.
struct Sample {
    uint32_t attr = 0;
    uint64_t time = 0;
    uint32_t cpu = 0;
    const uint8_t* raw = nullptr;  ///< the tracepoint's record, common fields first
    uint32_t raw_size = 0;
};

enum class Parsed : uint8_t { ok, other_event, unknown_id, damaged };

/// The attr of a sample of `size` bytes; kNone: its id is not known.
template <bool Big>
[[nodiscard]] inline uint32_t attr_of(const Attrs& attrs, const uint8_t* rec, uint32_t size) {
    if (attrs.id_at == kAbsent) {
        return attrs.all.empty() ? Attrs::kNone : 0;
    }
    if (attrs.id_at + 8 > size) {
        return Attrs::kNone;
    }
    return attrs.find(load<uint64_t, Big>(rec + attrs.id_at));
}

/// Reads a sample of a tracepoint. `rec` holds `size` bytes, the header included.
template <bool Big>
[[nodiscard]] inline Parsed parse_sample(const Attrs& attrs, const uint8_t* rec, uint32_t size, Sample& out) {
    out.attr = attr_of<Big>(attrs, rec, size);
    if (out.attr == Attrs::kNone) [[unlikely]] {
        return Parsed::unknown_id;
    }
    const Attr& a = attrs.all[out.attr];
    if (!a.tracepoint()) {
        return Parsed::other_event;
    }
    uint64_t at = a.tail;
    if (at > size) [[unlikely]] {
        return Parsed::damaged;
    }
    out.time = load<uint64_t, Big>(rec + a.time_at);
    out.cpu = load<uint32_t, Big>(rec + a.cpu_at);
    if ((a.sample_type & kRead) != 0) [[unlikely]] {
        const bool group = (a.read_format & 8) != 0;
        const uint64_t times = ((a.read_format & 1) != 0) + ((a.read_format & 2) != 0);
        const uint64_t each = 1 + ((a.read_format & 4) != 0) + ((a.read_format & 16) != 0);
        uint64_t n = 1;
        if (group) {
            if (size - at < 8) {
                return Parsed::damaged;
            }
            n = load<uint64_t, Big>(rec + at);
            at += 8;
        }
        if (n > size / 8) {
            return Parsed::damaged;
        }
        at += 8 * (times + n * each);
    }
    if ((a.sample_type & kCallchain) != 0) [[unlikely]] {
        if (at + 8 > size) {
            return Parsed::damaged;
        }
        const uint64_t n = load<uint64_t, Big>(rec + at);
        if (n > size / 8) {
            return Parsed::damaged;
        }
        at += 8 + 8 * n;
    }
    if (at + 4 > size) [[unlikely]] {
        return Parsed::damaged;
    }
    out.raw_size = load<uint32_t, Big>(rec + at);
    out.raw = rec + at + 4;
    const uint64_t end = at + 4 + out.raw_size;
    return a.raw_is_last ? (end == size ? Parsed::ok : Parsed::damaged) : (end <= size ? Parsed::ok : Parsed::damaged);
}

/// Time and CPU that the sample_id of a record other than a sample gives; `known` false: it has none.
struct When {
    bool known = false;
    uint64_t time = 0, id = 0;
    uint32_t cpu = 0;
};
template <bool Big>
[[nodiscard]] inline When when_of(const Attrs& attrs, const uint8_t* rec, uint32_t size) {
    // Which attr wrote it is told by the identifier, the last word, where there is one; otherwise all are alike.
    if (attrs.all.empty()) {
        return {};
    }
    const Attr* a = &attrs.all[0];
    if (a->sample_id_all && (a->sample_type & kIdentifier) != 0 && size >= kHead + 8) {
        const uint32_t found = attrs.find(load<uint64_t, Big>(rec + size - 8));
        a = found != Attrs::kNone ? &attrs.all[found] : a;
    }
    if (!a->sample_id_all || a->trailer_time == kAbsent || size < kHead + a->trailer) {
        return {};
    }
    const uint8_t* at = rec + size - a->trailer;
    When w{true, load<uint64_t, Big>(at + a->trailer_time), 0, 0};
    w.cpu = a->trailer_cpu != kAbsent ? load<uint32_t, Big>(at + a->trailer_cpu) : 0;
    w.id = a->trailer_id != kAbsent ? load<uint64_t, Big>(at + a->trailer_id) : 0;
    return w;
}

}  // namespace rewake::decode::perf
