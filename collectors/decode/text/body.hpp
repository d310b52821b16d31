// SPDX-License-Identifier: GPL-2.0-or-later
// The event's own text into rows. Three spellings: the kernel's print format (KEY=VALUE), trace-cmd's plugins for
// sched_switch and the wakeups (NAME:TID [PRIO]), and raw fields (trace-cmd report -R).
#pragma once

#include <cstdint>
#include <string_view>

#include "collectors/decode/sink.hpp"

namespace rewake::decode {

/// What an event's name stands for.
enum class TextKind : uint8_t {
    none,  ///< no table
    switch_,
    waking,
    wakeup,
    wakeup_new,
    migrate,
    fork,
    exec,
    exit,
    irq_entry,
    irq_exit,
    vector_entry,
    vector_exit,
    softirq_raise,
    softirq_entry,
    softirq_exit,
    ipi_raise,
    ipi_cpu,
    ipi_mask,
    ipi_entry,
    ipi_exit,
    idle,
    freq,
    probe_in,
    probe_out,
};

struct TextEvent {
    TextKind kind = TextKind::none;
    uint8_t vector = 0;  ///< of vector_entry and vector_exit: code of forms ENUMS["irq_kind"]
};

/// By name, without the system. `body` tells interrupt vectors with a name that is not known.
TextEvent text_event(std::string_view name, std::string_view body);

/// How the file was printed: found out while it is read.
struct TextStyle {
    bool cpu_lists = false;         ///< cpumask= is a list ("1-3"), not a hexadecimal mask (trace-cmd)
    bool plugin_switch = false;     ///< sched_switch as trace-cmd's plugin prints it was seen
    uint64_t numeric_states = 0;    ///< prev_state as a number (-R)
    uint64_t uncertain_states = 0;  ///< of those, numbers whose meaning depends on the kernel
};

/// Adds the row. `lead`: blanks right before `body` that may belong to a name. False: the text is not what the event
/// prints.
bool read_body(const TextEvent& event, std::string_view body, size_t lead, const At& at, TextStyle& style, Sink& sink);

}  // namespace rewake::decode
