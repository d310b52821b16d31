// SPDX-License-Identifier: GPL-2.0-or-later
// Decoder::visit: from a record to a row of its table. Included where a format's records are merged.
#pragma once

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "collectors/decode/decoder.hpp"

namespace rewake::decode {
namespace detail {

/// forms ENUMS["irq_ctx"] from common_flags (TRACE_FLAG_HARDIRQ 0x08, _SOFTIRQ 0x10, _NMI 0x40).
inline constexpr std::array<uint8_t, 256> kIrqCtx = [] {
    std::array<uint8_t, 256> t{};
    for (unsigned f = 0; f < t.size(); ++f) {
        t[f] = (f & 0x40) != 0 ? 3 : (f & 0x08) != 0 ? 2 : (f & 0x10) != 0 ? 1 : 0;
    }
    return t;
}();

inline constexpr int64_t kIdleExit = 0xffffffff;  // PWR_EVENT_EXIT: the CPU leaves idle

template <class T>
bool fits(int64_t v) {
    return v >= std::numeric_limits<T>::min() && v <= std::numeric_limits<T>::max();
}

/// The only CPU of a cpumask as the kernel stores it (an array of longs), or nothing.
template <bool Big>
std::optional<uint32_t> only_cpu(Span mask, uint32_t long_size) {
    std::optional<uint32_t> cpu;
    for (uint32_t i = 0; i < mask.n; ++i) {
        // Byte order within a long: big-endian masks hold CPUs 0-7 in the last byte of the first long.
        const uint32_t byte = Big ? i / long_size * long_size + (long_size - 1 - i % long_size) : i;
        const uint8_t bits = byte < mask.n ? mask.p[byte] : uint8_t{0};
        if (bits == 0) {
            continue;
        }
        if (cpu || !std::has_single_bit(bits)) {
            return {};
        }
        cpu = i * 8 + static_cast<uint32_t>(std::countr_zero(bits));
    }
    return cpu;
}

}  // namespace detail

template <class S>
void Decoder::visit(const S& s, int64_t ns, Batch& b) {
    const uint16_t cpu = s.cpu();
    if (s.record() == nullptr) [[unlikely]] {
        streams_[cpu].loss_after = streams_[cpu].events;
        if (ns == 0) {  // of a CPU nothing could be read, not even a time
            ++losses_[cpu].gaps;
            return;
        }
    }
    if (first_ns == Tasks::kNever) [[unlikely]] {
        first_ns = ns;
    }
    if (ns < now_) [[unlikely]] {
        ++steps_back;
        first_ns = std::min(first_ns, ns);
    }
    if (s.loss() != Loss::none) [[unlikely]] {
        loss_row(cpu, s.loss() == Loss::counted, s.lost(), ns, b);
        if (s.record() == nullptr) {
            return;
        }
        streams_[cpu].late |= streams_[cpu].events == 0;
    }
    now_ = ns;
    last_ns = std::max(last_ns, ns);
    streams_[cpu].see(ns, losses_[cpu].last_ns);
    losses_[cpu].last_ns = ns;
    ++events;
    const uint32_t index = source_.formats.index(s.type());
    ++counts_[index];
    const Plan& plan = source_.formats.plan(index);
    if (plan.kind == Kind::none) {
        if (index + 1 == counts_.size()) [[unlikely]] {
            ++unknown_[s.type()];
        }
        return;
    }
    if (s.length() < plan.least) [[unlikely]] {
        source_.problems.add("record shorter than its fields, skipped", place(cpu, s.offset()));
        return;
    }
    table_row(s, plan, ns, b);
}

template <class S>
void Decoder::table_row(const S& s, const Plan& plan, int64_t ns, Batch& b) {
    const uint8_t* rec = s.record();
    const uint16_t cpu = s.cpu();
    // Inlined by force: called, each closure would first be built in memory, which costs a tenth of the decode.
    const auto get = [&](uint8_t slot) __attribute__((always_inline)) { return value<S::kBig>(plan.field[slot], rec); };
    const auto name = [&](uint32_t task, uint8_t slot) __attribute__((always_inline)) {
        const Span c = bytes<S::kBig>(plan.field[slot], rec, s.length());
        tasks_.name(task, c.p, c.n, ns);
    };
    const int64_t curr_tid = value<S::kBig>(source_.formats.common_pid, rec);
    if (!tid_ok(curr_tid)) [[unlikely]] {
        return impossible(cpu, s.offset());
    }
    const auto curr = [&]() __attribute__((always_inline)) {
        return tasks_.see(static_cast<uint32_t>(curr_tid), cpu, ns);
    };
    const auto irq_ctx = [&] { return detail::kIrqCtx[rec[source_.formats.common_flags.offset]]; };
    const auto see = [&](int64_t tid)
                         __attribute__((always_inline)) { return tasks_.see(static_cast<uint32_t>(tid), cpu, ns); };

    switch (plan.kind) {
        case Kind::switch_: {
            const int64_t prev = get(slot::prev_pid), next = get(slot::next_pid);
            const int64_t prev_prio = get(slot::prev_prio), next_prio = get(slot::next_prio);
            if (!tid_ok(prev) || !tid_ok(next) || !detail::fits<int16_t>(prev_prio) ||
                !detail::fits<int16_t>(next_prio)) [[unlikely]] {
                return impossible(cpu, s.offset());
            }
            auto& t = b.switch_;
            const size_t i = head(b, t, ns, cpu);
            const uint32_t prev_task = see(prev);
            const PrevState state = source_.formats.prev_states()[get(slot::prev_state)];
            name(prev_task, slot::prev_comm);
            if (is_dead(state)) [[unlikely]] {
                tasks_.dead(prev_task);
            }
            const uint32_t next_task = see(next);
            name(next_task, slot::next_comm);
            streams_[cpu].switched(tasks_, cpu, prev_task, next_task);
            t.prev_task.set(i, prev_task);
            t.prev_prio.set(i, static_cast<int16_t>(prev_prio));
            t.prev_state.set(i, static_cast<uint8_t>(state));
            t.next_task.set(i, next_task);
            t.next_prio.set(i, static_cast<int16_t>(next_prio));
            return;
        }
        case Kind::waking:
        case Kind::wakeup: {
            const int64_t tid = get(slot::pid), prio = get(slot::prio), target = get(slot::target_cpu);
            if (!tid_ok(tid) || !detail::fits<int16_t>(prio) || !cpu_ok(target)) [[unlikely]] {
                return impossible(cpu, s.offset());
            }
            if (plan.field[slot::success] && get(slot::success) == 0) [[unlikely]] {
                ++wakeup_failed;
                return;
            }
            const auto fill = [&](WakingTable& t, size_t i) __attribute__((always_inline)) {
                const uint32_t curr_task = curr();
                const uint32_t task = tid == 0 ? static_cast<uint32_t>(target) : see(tid);
                name(task, slot::comm);
                t.curr_task.set(i, curr_task);
                t.irq_ctx.set(i, irq_ctx());
                t.task.set(i, task);
                t.prio.set(i, static_cast<int16_t>(prio));
                t.target_cpu.set(i, static_cast<uint16_t>(target));
            };
            if (plan.kind == Kind::waking) {
                fill(b.waking, head(b, b.waking, ns, cpu));
            } else {
                const size_t i = head(b, b.wakeup, ns, cpu);
                fill(b.wakeup, i);
                b.wakeup.is_new.set(i, plan.variant != 0);
            }
            return;
        }
        case Kind::migrate: {
            const int64_t tid = get(slot::pid), prio = get(slot::prio), orig = get(slot::orig_cpu),
                          dest = get(slot::dest_cpu);
            if (!tid_ok(tid) || !detail::fits<int16_t>(prio) || !cpu_ok(orig) || !cpu_ok(dest)) [[unlikely]] {
                return impossible(cpu, s.offset());
            }
            auto& t = b.migrate;
            const size_t i = head(b, t, ns, cpu);
            const uint32_t curr_task = curr(), task = see(tid);
            name(task, slot::comm);
            t.curr_task.set(i, curr_task);
            t.irq_ctx.set(i, irq_ctx());
            t.task.set(i, task);
            t.prio.set(i, static_cast<int16_t>(prio));
            t.orig_cpu.set(i, static_cast<uint16_t>(orig));
            t.dest_cpu.set(i, static_cast<uint16_t>(dest));
            t.cause.set_null(i);
            return;
        }
        case Kind::fork: {
            const int64_t parent = get(slot::parent_pid), child = get(slot::child_pid);
            if (!tid_ok(parent) || !tid_ok(child)) [[unlikely]] {
                return impossible(cpu, s.offset());
            }
            const size_t i = head(b, b.fork, ns, cpu);
            const uint32_t task = see(parent);
            name(task, slot::parent_comm);
            const uint32_t child_task = tasks_.fork(static_cast<uint32_t>(child), task, cpu, ns);
            name(child_task, slot::child_comm);
            b.fork.task.set(i, task);
            b.fork.child.set(i, child_task);
            return;
        }
        case Kind::exec: {
            const int64_t tid = get(slot::exec_pid);
            if (!tid_ok(tid)) [[unlikely]] {
                return impossible(cpu, s.offset());
            }
            b.exec.task.set(head(b, b.exec, ns, cpu), see(tid));
            return;
        }
        case Kind::exit: {
            const int64_t tid = get(slot::pid), prio = get(slot::prio);
            if (!tid_ok(tid) || !detail::fits<int16_t>(prio)) [[unlikely]] {
                return impossible(cpu, s.offset());
            }
            const size_t i = head(b, b.exit, ns, cpu);
            const uint32_t task = see(tid);
            name(task, slot::comm);
            tasks_.exit(task, ns);
            b.exit.task.set(i, task);
            b.exit.prio.set(i, static_cast<int16_t>(prio));
            return;
        }
        case Kind::irq: {
            const int64_t vector = get(slot::vector);
            if (!detail::fits<int32_t>(vector)) [[unlikely]] {
                return impossible(cpu, s.offset());
            }
            const size_t i = head(b, b.irq, ns, cpu);
            b.irq.curr_task.set(i, curr());
            b.irq.kind.set(i, plan.variant >> 1);
            b.irq.vector.set(i, static_cast<int32_t>(vector));
            b.irq.entry.set(i, (plan.variant & 1) != 0);
            return;
        }
        case Kind::softirq: {
            const int64_t vec = get(slot::vec);
            if (!detail::fits<uint8_t>(vec)) [[unlikely]] {
                return impossible(cpu, s.offset());
            }
            const size_t i = head(b, b.softirq, ns, cpu);
            b.softirq.curr_task.set(i, curr());
            b.softirq.vec.set(i, static_cast<uint8_t>(vec));
            b.softirq.phase.set(i, plan.variant);
            return;
        }
        case Kind::ipi: {
            const size_t i = head(b, b.ipi, ns, cpu);
            b.ipi.curr_task.set(i, curr());
            b.ipi.phase.set(i, plan.variant);
            std::optional<int64_t> target;
            if (plan.field[slot::cpu]) {
                target = get(slot::cpu);
            } else if (plan.field[slot::mask]) {
                target = detail::only_cpu<S::kBig>(bytes<S::kBig>(plan.field[slot::mask], rec, s.length()),
                                                   source_.long_size);
            }
            if (target && cpu_ok(*target)) {
                b.ipi.target_cpu.set(i, static_cast<uint16_t>(*target));
            } else {
                b.ipi.target_cpu.set_null(i);
            }
            return;
        }
        case Kind::idle: {
            const int64_t state = get(slot::state), on = get(slot::power_cpu);
            if (!cpu_ok(on)) [[unlikely]] {
                return impossible(cpu, s.offset());
            }
            const size_t i = head(b, b.idle, ns, cpu);
            b.idle.idle_cpu.set(i, static_cast<uint16_t>(on));
            if ((state & detail::kIdleExit) == detail::kIdleExit) {
                b.idle.state.set_null(i);
            } else {
                b.idle.state.set(i, static_cast<uint32_t>(state));
            }
            return;
        }
        case Kind::freq: {
            const int64_t khz = get(slot::state), on = get(slot::power_cpu);
            if (!cpu_ok(on)) [[unlikely]] {
                return impossible(cpu, s.offset());
            }
            const size_t i = head(b, b.freq, ns, cpu);
            b.freq.freq_cpu.set(i, static_cast<uint16_t>(on));
            b.freq.khz.set(i, static_cast<uint32_t>(khz));
            return;
        }
        case Kind::probe_in:
        case Kind::probe_out: return probe_row(s, plan, ns, b);
        case Kind::none: return;
    }
}

/// Fields that the probe did not fetch, or whose value cannot be, are NULL.
template <class S>
void Decoder::probe_row(const S& s, const Plan& plan, int64_t ns, Batch& b) {
    const bool in = plan.kind == Kind::probe_in;
    auto& t = b.probe;
    const size_t i = head(b, t, ns, s.cpu());
    t.curr_task.set(
        i, tasks_.see(static_cast<uint32_t>(value<S::kBig>(source_.formats.common_pid, s.record())), s.cpu(), ns));
    t.phase.set(i, in ? 0 : 1);
    const auto fill = [&](auto& column, bool wanted, uint8_t slot, auto&& ok) {
        using Value = typename std::remove_reference_t<decltype(column)>::Value;
        if (wanted && plan.field[slot]) {
            const int64_t v = value<S::kBig>(plan.field[slot], s.record());
            if (ok(v)) {
                column.set(i, static_cast<Value>(v));
                return;
            }
        }
        column.set_null(i);
    };
    const auto a_cpu = [&](int64_t v) { return cpu_ok(v); };
    const auto an_i32 = [](int64_t v) { return detail::fits<int32_t>(v); };
    const auto a_size = [](int64_t v) { return v >= 0; };
    fill(t.task, in, slot::wakee, [&](int64_t v) { return tid_ok(v); });
    if (t.task.null[i] == 0) {
        t.task.set(i, tasks_.see(t.task.v[i], s.cpu(), ns));
    }
    fill(t.prev_cpu, in, slot::prev_cpu, a_cpu);
    fill(t.wake_flags, in, slot::flags, an_i32);
    fill(t.recent_cpu, in, slot::recent, a_cpu);
    fill(t.flips, in, slot::flips, [](int64_t v) { return detail::fits<uint32_t>(v); });
    fill(t.util, in, slot::util, a_size);
    fill(t.load, in, slot::load, a_size);
    fill(t.nallowed, in, slot::nallowed, an_i32);
    fill(t.nr_idle_scan, in, slot::nr_idle_scan, an_i32);
    fill(t.has_idle_cores, in, slot::has_idle_cores, an_i32);
    fill(t.rq_load, in, slot::rq_load, a_size);
    fill(t.rq_nr, in, slot::rq_nr, an_i32);
    fill(t.chosen_cpu, !in, slot::chosen, a_cpu);
}

}  // namespace rewake::decode
