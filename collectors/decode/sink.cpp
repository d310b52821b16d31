// SPDX-License-Identifier: GPL-2.0-or-later
#include "collectors/decode/sink.hpp"

#include <algorithm>
#include <limits>

namespace rewake::decode {
namespace {

constexpr int64_t kIdleExit = 0xffffffff;  // PWR_EVENT_EXIT

template <class T>
bool fits(int64_t v) {
    return v >= std::numeric_limits<T>::min() && v <= std::numeric_limits<T>::max();
}

}  // namespace

Sink::Sink(uint32_t n_cpus, size_t most, const char* unit)
    : n_cpus_(n_cpus),
      most_(std::max<size_t>(most, 2)),
      unit_(unit),
      tasks_(n_cpus),
      losses_(n_cpus),
      streams_(n_cpus),
      context_(n_cpus) {}

void Sink::start() {
    batch_ = std::make_unique<Batch>(pool_, like_);
    begin_ = next_id_;
    end_ = begin_ + static_cast<int64_t>(most_) - 1;  // an event makes two rows at most
}

std::unique_ptr<Batch> Sink::take() {
    like_ = batch_->rows();
    return next_id_ > begin_ ? std::move(batch_) : nullptr;
}

bool Sink::impossible(const At& at, bool fine) {
    if (fine) [[likely]] {
        return false;
    }
    problems.add("record with an impossible tid, CPU or priority, skipped",
                 "CPU " + std::to_string(at.cpu) + ", " + unit_ + " " + std::to_string(at.where));
    return true;
}

void Sink::loss(uint32_t cpu, int64_t ns, int64_t lost) {
    if (first_ns == Tasks::kNever) {
        first_ns = ns;
    }
    At at;
    at.ns = ns;
    at.cpu = cpu;
    const size_t i = head(batch_->loss, at);
    if (lost >= 0) {
        batch_->loss.lost.set(i, lost);
    } else {
        batch_->loss.lost.set_null(i);
    }
    losses_[cpu].add(lost, ns, first_ns);
    streams_[cpu].late |= streams_[cpu].events == 0;
    context_[cpu] = {};
}

void Sink::switched(const At& at, const Who& prev, PrevState state, const Who& next) {
    if (impossible(at, tid_ok(prev.tid) && tid_ok(next.tid) && fits<int16_t>(prev.prio) && fits<int16_t>(next.prio))) {
        return;
    }
    auto& t = batch_->switch_;
    const size_t i = head(t, at);
    const uint32_t prev_task = task_of(prev.tid, at);
    name(prev_task, prev, at);
    if (is_dead(state)) [[unlikely]] {
        tasks_.dead(prev_task);
    }
    const uint32_t next_task = task_of(next.tid, at);
    name(next_task, next, at);
    streams_[at.cpu].switched(tasks_, at.cpu, prev_task, next_task);
    t.prev_task.set(i, prev_task);
    t.prev_prio.set(i, static_cast<int16_t>(prev.prio));
    t.prev_state.set(i, static_cast<uint8_t>(state));
    t.next_task.set(i, next_task);
    t.next_prio.set(i, static_cast<int16_t>(next.prio));
    context_[at.cpu] = {0, false, next.tid};  // no task switch happens within an interrupt: an exit was missed
}

void Sink::fill_wake(WakingTable& t, size_t i, const At& at, const Who& who, int64_t target) {
    const uint32_t curr = task_of(at.tid, at);
    const uint32_t task = who.tid == 0 ? static_cast<uint32_t>(target) : task_of(who.tid, at);
    name(task, who, at);
    t.curr_task.set(i, curr);
    t.irq_ctx.set(i, at.irq_ctx);
    t.task.set(i, task);
    t.prio.set(i, static_cast<int16_t>(who.prio));
    t.target_cpu.set(i, static_cast<uint16_t>(target));
}

void Sink::waking(const At& at, const Who& who, int64_t target) {
    if (!impossible(at, tid_ok(who.tid) && tid_ok(at.tid) && fits<int16_t>(who.prio) && cpu_ok(target))) {
        fill_wake(batch_->waking, head(batch_->waking, at), at, who, target);
    }
}

void Sink::wakeup(const At& at, const Who& who, int64_t target, bool is_new) {
    if (!impossible(at, tid_ok(who.tid) && tid_ok(at.tid) && fits<int16_t>(who.prio) && cpu_ok(target))) {
        const size_t i = head(batch_->wakeup, at);
        fill_wake(batch_->wakeup, i, at, who, target);
        batch_->wakeup.is_new.set(i, is_new);
    }
}

void Sink::migrate(const At& at, const Who& who, int64_t orig, int64_t dest) {
    if (impossible(at, tid_ok(who.tid) && tid_ok(at.tid) && fits<int16_t>(who.prio) && cpu_ok(orig) && cpu_ok(dest))) {
        return;
    }
    auto& t = batch_->migrate;
    const size_t i = head(t, at);
    const uint32_t curr = task_of(at.tid, at), task = task_of(who.tid, at);
    name(task, who, at);
    t.curr_task.set(i, curr);
    t.irq_ctx.set(i, at.irq_ctx);
    t.task.set(i, task);
    t.prio.set(i, static_cast<int16_t>(who.prio));
    t.orig_cpu.set(i, static_cast<uint16_t>(orig));
    t.dest_cpu.set(i, static_cast<uint16_t>(dest));
    t.cause.set_null(i);
}

void Sink::fork(const At& at, const Who& parent, const Who& child) {
    if (impossible(at, tid_ok(parent.tid) && tid_ok(child.tid))) {
        return;
    }
    const size_t i = head(batch_->fork, at);
    const uint32_t task = task_of(parent.tid, at);
    name(task, parent, at);
    const uint32_t child_task = tasks_.fork(static_cast<uint32_t>(child.tid), task, at.cpu, at.ns);
    name(child_task, child, at);
    batch_->fork.task.set(i, task);
    batch_->fork.child.set(i, child_task);
}

void Sink::exec(const At& at, int64_t tid) {
    if (!impossible(at, tid_ok(tid))) {
        batch_->exec.task.set(head(batch_->exec, at), task_of(tid, at));
    }
}

void Sink::exit(const At& at, const Who& who) {
    if (impossible(at, tid_ok(who.tid) && fits<int16_t>(who.prio))) {
        return;
    }
    const size_t i = head(batch_->exit, at);
    const uint32_t task = task_of(who.tid, at);
    name(task, who, at);
    tasks_.exit(task, at.ns);
    batch_->exit.task.set(i, task);
    batch_->exit.prio.set(i, static_cast<int16_t>(who.prio));
}

void Sink::irq(const At& at, uint8_t kind, int64_t vector, bool entry) {
    if (impossible(at, tid_ok(at.tid) && fits<int32_t>(vector))) {
        return;
    }
    saw_irqs_ = true;
    uint32_t& hard = context_[at.cpu].hard;
    hard = entry ? hard + 1 : hard - (hard > 0 ? 1 : 0);
    const size_t i = head(batch_->irq, at);
    batch_->irq.curr_task.set(i, task_of(at.tid, at));
    batch_->irq.kind.set(i, kind);
    batch_->irq.vector.set(i, static_cast<int32_t>(vector));
    batch_->irq.entry.set(i, entry);
}

void Sink::softirq(const At& at, int64_t vec, uint8_t phase) {
    if (impossible(at, tid_ok(at.tid) && fits<uint8_t>(vec))) {
        return;
    }
    if (phase != 0) {
        context_[at.cpu].soft = phase == 1;
        saw_irqs_ = true;
    }
    const size_t i = head(batch_->softirq, at);
    batch_->softirq.curr_task.set(i, task_of(at.tid, at));
    batch_->softirq.vec.set(i, static_cast<uint8_t>(vec));
    batch_->softirq.phase.set(i, phase);
}

void Sink::ipi(const At& at, uint8_t phase, int64_t target) {
    if (impossible(at, tid_ok(at.tid))) {
        return;
    }
    const size_t i = head(batch_->ipi, at);
    batch_->ipi.curr_task.set(i, task_of(at.tid, at));
    batch_->ipi.phase.set(i, phase);
    if (cpu_ok(target)) {
        batch_->ipi.target_cpu.set(i, static_cast<uint16_t>(target));
    } else {
        batch_->ipi.target_cpu.set_null(i);
    }
}

void Sink::idle(const At& at, int64_t state, int64_t cpu) {
    if (impossible(at, cpu_ok(cpu))) {
        return;
    }
    const size_t i = head(batch_->idle, at);
    batch_->idle.idle_cpu.set(i, static_cast<uint16_t>(cpu));
    if ((state & kIdleExit) == kIdleExit) {
        batch_->idle.state.set_null(i);
    } else {
        batch_->idle.state.set(i, static_cast<uint32_t>(state));
    }
}

void Sink::freq(const At& at, int64_t khz, int64_t cpu) {
    if (impossible(at, cpu_ok(cpu))) {
        return;
    }
    const size_t i = head(batch_->freq, at);
    batch_->freq.freq_cpu.set(i, static_cast<uint16_t>(cpu));
    batch_->freq.khz.set(i, static_cast<uint32_t>(khz));
}

void Sink::probe(const At& at, bool in, const Probe& f) {
    if (impossible(at, tid_ok(at.tid))) {
        return;
    }
    auto& t = batch_->probe;
    const size_t i = head(t, at);
    t.curr_task.set(i, task_of(at.tid, at));
    t.phase.set(i, in ? 0 : 1);
    const auto fill = [&](auto& column, bool wanted, int64_t v, bool ok) {
        using Value = typename std::remove_reference_t<decltype(column)>::Value;
        if (wanted && v != Probe::kAbsent && ok) {
            column.set(i, static_cast<Value>(v));
        } else {
            column.set_null(i);
        }
    };
    fill(t.task, in, f.task, tid_ok(f.task));
    if (t.task.null[i] == 0) {
        t.task.set(i, task_of(f.task, at));
    }
    fill(t.prev_cpu, in, f.prev_cpu, cpu_ok(f.prev_cpu));
    fill(t.wake_flags, in, f.wake_flags, fits<int32_t>(f.wake_flags));
    fill(t.recent_cpu, in, f.recent_cpu, cpu_ok(f.recent_cpu));
    fill(t.flips, in, f.flips, fits<uint32_t>(f.flips));
    fill(t.util, in, f.util, f.util >= 0);
    fill(t.load, in, f.load, f.load >= 0);
    fill(t.nallowed, in, f.nallowed, fits<int32_t>(f.nallowed));
    fill(t.nr_idle_scan, in, f.nr_idle_scan, fits<int32_t>(f.nr_idle_scan));
    fill(t.has_idle_cores, in, f.has_idle_cores, fits<int32_t>(f.has_idle_cores));
    fill(t.rq_load, in, f.rq_load, f.rq_load >= 0);
    fill(t.rq_nr, in, f.rq_nr, fits<int32_t>(f.rq_nr));
    fill(t.chosen_cpu, !in, f.chosen_cpu, cpu_ok(f.chosen_cpu));
}

uint64_t& Sink::counter(std::string_view name, bool has_table) {
    auto found = counts_.find(name);
    if (found == counts_.end()) {
        found = counts_.try_emplace(counts_.size() < kMaxNames ? escape(name) : "(further names)").first;
        found->second.has_table = has_table;
    }
    return found->second.n;
}

std::map<std::string, uint64_t> Sink::counts(bool skipped_only) const {
    std::map<std::string, uint64_t> out;
    for (const auto& [name, count] : counts_) {
        if (count.n > 0 && (!skipped_only || !count.has_table)) {
            out[name] = count.n;
        }
    }
    return out;
}

}  // namespace rewake::decode
