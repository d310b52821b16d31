// SPDX-License-Identifier: GPL-2.0-or-later
// From the format texts of a recording to field offsets, once per file. libtraceevent reads the texts; which events
// feed which table, and which of their fields, is the table `kSpecs` in events.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectors/decode/bytes.hpp"
#include "collectors/decode/error.hpp"
#include "collectors/decode/format/prev_state.hpp"
#include "collectors/decode/tracedat/container.hpp"

namespace rewake::decode {

/// What is done with an event. Several events may share one kind; `Plan::variant` tells them apart.
enum class Kind : uint8_t {
    none,
    switch_,
    waking,
    wakeup,
    migrate,
    fork,
    exec,
    exit,
    irq,
    softirq,
    ipi,
    idle,
    freq,
    probe_in,
    probe_out,
};

/// Slots of Plan::field, per kind.
namespace slot {
enum Switch : uint8_t { prev_comm, prev_pid, prev_prio, prev_state, next_comm, next_pid, next_prio };
enum Wake : uint8_t { comm, pid, prio, target_cpu, success };  // waking, wakeup; comm, pid, prio: also migrate and exit
enum Migrate : uint8_t { orig_cpu = 3, dest_cpu };
enum Fork : uint8_t { parent_comm, parent_pid, child_comm, child_pid };
enum Exec : uint8_t { exec_pid };
enum Irq : uint8_t { vector };
enum Softirq : uint8_t { vec };
enum Ipi : uint8_t { cpu, mask };
enum Power : uint8_t { state, power_cpu };
enum Probe : uint8_t {
    wakee,
    prev_cpu,
    flags,
    recent,
    flips,
    util,
    load,
    nallowed,
    nr_idle_scan,
    has_idle_cores,
    rq_load,
    rq_nr,
    chosen = 0,
};
inline constexpr size_t kCount = 12;
}  // namespace slot

/// Where a field lies in a record. `size` 0: the event has no such field.
struct Field {
    enum class Where : uint8_t { fixed, data_loc, rel_loc };
    uint32_t offset = 0;
    uint32_t size = 0;
    bool is_signed = false;
    Where where = Where::fixed;
    explicit operator bool() const { return size != 0; }
};

/// A run of bytes in a record.
struct Span {
    const uint8_t* p;
    uint32_t n;
};

/// How to decode the records of one event.
struct Plan {
    Kind kind = Kind::none;
    uint8_t variant = 0;  ///< wakeup: is_new; irq: kind * 2 + entry; softirq, ipi: phase
    uint32_t least = 0;  ///< shortest record that holds all fixed fields
    std::array<Field, slot::kCount> field{};
};

/// Value of an integer field, sign-extended when the format says so; `f` must be present and the record at least
/// `least` long.
template <bool Big>
[[nodiscard, gnu::always_inline]] inline int64_t value(const Field& f, const uint8_t* rec) {
    const uint8_t* p = rec + f.offset;
    if (f.size == 4) [[likely]] {
        const auto v = load<uint32_t, Big>(p);
        return f.is_signed ? static_cast<int32_t>(v) : static_cast<int64_t>(v);
    }
    if (f.size == 8) {
        return static_cast<int64_t>(load<uint64_t, Big>(p));
    }
    if (f.size == 2) {
        const auto v = load<uint16_t, Big>(p);
        return f.is_signed ? static_cast<int16_t>(v) : static_cast<int64_t>(v);
    }
    return f.is_signed ? static_cast<int8_t>(*p) : static_cast<int64_t>(*p);
}

/// Bytes of an array or dynamic field; empty when they do not lie within the record of `length` bytes.
template <bool Big>
[[nodiscard, gnu::always_inline]] inline Span bytes(const Field& f, const uint8_t* rec, uint32_t length) {
    if (f.where == Field::Where::fixed) [[likely]] {
        return {rec + f.offset, f.size};
    }
    const auto loc = load<uint32_t, Big>(rec + f.offset);
    const uint32_t at = (loc & 0xffff) + (f.where == Field::Where::rel_loc ? f.offset + f.size : 0), n = loc >> 16;
    if (at > length || n > length - at) {
        return {rec, 0};
    }
    return {rec + at, n};
}

/// Code of forms ENUMS["irq_kind"] of an interrupt vector, named as its events of system irq_vectors are, without _entry
/// and _exit; kOtherVector when the list does not have it.
[[nodiscard]] uint8_t vector_code(std::string_view name);
inline constexpr uint8_t kOtherVector = 12;

/// All that the format texts say.
class Formats {
  public:
    /// Throws Error when the common fields cannot be found; an event of a table that lacks a field is left out and
    /// counted.
    Formats(const Container& c, Problems& problems);

    /// Dense number of the event kind with this common_type; the last one stands for "no format in the file".
    [[nodiscard]] uint32_t index(uint16_t type) const { return index_[type]; }
    [[nodiscard]] const Plan& plan(uint32_t index) const { return plans_[index]; }
    [[nodiscard]] const std::vector<std::string>& names() const {
        return names_;
    }  ///< by dense number, without the last
    /// False for the tracers' own records (system ftrace: print, function, ...), which cannot be asked for by name.
    [[nodiscard]] bool recordable(size_t index) const { return index >= n_ftrace_; }
    [[nodiscard]] size_t size() const { return plans_.size(); }
    [[nodiscard]] const PrevStates& prev_states() const { return prev_states_; }

    uint32_t type_offset = 0;  ///< of common_type
    Field common_flags, common_pid;
    uint32_t least = 8;  ///< shortest record that holds the common fields

  private:
    std::vector<uint32_t> index_;
    std::vector<Plan> plans_;
    std::vector<std::string> names_;
    size_t n_ftrace_ = 0;  // they come first
    PrevStates prev_states_;
};

}  // namespace rewake::decode
