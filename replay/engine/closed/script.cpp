// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/script.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "replay/engine/closed/stalls.hpp"

namespace rewake::closed {

namespace {
/// It runs, waits, or is about to.
bool on_queue(const Machine::Task* t) {
    return t && (t->state == Machine::State::running || t->state == Machine::State::queued ||
                 t->state == Machine::State::waking);
}
}  // namespace

int64_t TaskScript::work() const {
    int64_t sum = 0;
    for (const Op& op : ops) sum += op.work;
    return sum;
}

int64_t middle(std::vector<int64_t>& of) {
    const auto at = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 2);
    std::nth_element(of.begin(), at, of.end());
    return *at;
}

int64_t TaskScript::step() const {
    std::vector<int64_t> steps;
    for (size_t i = 1; i < ops.size(); ++i)
        if (ops[i].kind == Op::Kind::wake && ops[i - 1].kind == Op::Kind::wake) steps.push_back(ops[i].work);
    return steps.empty() ? -1 : middle(steps);
}

ScriptBuilder::ScriptBuilder(const Topology& topo, const TaskTable& table, const Interrupts& interrupts,
                             const Machine& at, Ns from, Ns measured, Ns to, Ns horizon, const std::vector<bool>& asks,
                             const std::vector<bool>& yields, bool stretches, const std::vector<Awaited>& awaited,
                             Ns pull)
    : topo_(topo),
      table_(table),
      interrupts_(interrupts),
      horizon_(horizon),
      cpus_(static_cast<size_t>(topo.n_cpus)),
      tasks_(table.tasks.size(), {.asleep = true, .is_first = true, .asleep_at = from}),
      stretches_(stretches ? table.tasks.size() : 0),
      asks_(asks),
      yields_(yields),
      pull_(pull),
      awaited_(awaited),
      looks_(awaited.size()) {
    script_.from = from, script_.measured = measured, script_.to = to;
    script_.of.assign(table.tasks.size(), kNone);
    for (size_t c = 0; c < cpus_.size(); ++c) {
        const Cpu cpu(static_cast<uint16_t>(c));
        const std::optional<TaskId> curr = at.curr(cpu);
        cpus_[c].curr = curr.value_or(TaskId(static_cast<uint32_t>(c)));
        cpus_[c].known = true;
        tasks_[c].asleep = tasks_[c].is_first = false;
        cpus_[c].since = cpus_[c].came = from;
        if (curr) cpus_[c].prio = at.prio_hint(*curr);
    }
    at.each_known([&](uint32_t i, const Machine::Task& known) {
        if (i >= tasks_.size()) return;
        const TaskId t(i);
        const bool there = on_queue(&known) || (known.state == Machine::State::throttled && limited(t));
        tasks_[i].asleep = tasks_[i].is_first = !there && !idle(t);
        if (there && state(t, known.prio).fair) script(t);
    });
}

TaskScript& ScriptBuilder::script(TaskId t) {
    uint32_t& at = script_.of[t.v];
    if (at == kNone) {
        at = static_cast<uint32_t>(script_.tasks.size());
        TaskScript& s = script_.tasks.emplace_back();
        s.id = t;
        s.ops.reserve(16);
    }
    return script_.tasks[at];
}

void ScriptBuilder::account(Cpu c, Ns ts) {
    CpuState& cpu = cpus_[c.v];
    const Ns since = std::exchange(cpu.since, ts);
    if (ts <= since || idle(cpu.curr)) return;
    TaskState& s = state(cpu.curr, cpu.prio);
    if (!s.fair) return;
    if (!stretches_.empty()) {
        const auto op = static_cast<uint32_t>(script(cpu.curr).ops.size());
        stretches_[cpu.curr.v].push_back({since, ts, op, s.done, topo_.cap_orig[c.v]});
    }
    s.done += (ts - since - interrupts_.within(c, since, ts)) * topo_.cap_orig[c.v];
}

void ScriptBuilder::act(TaskId t, Op::Kind kind, uint32_t arg) {
    script(t).ops.push_back({kind, arg, std::exchange(tasks_[t.v].done, 0)});
}

/// `t` leaves `c`. If that pulled a task for it, `t` had been asleep for as long as that takes, though it had not left.
void ScriptBuilder::fall_asleep(TaskId t, Cpu c, Ns ts) {
    TaskState& s = tasks_[t.v];
    if (pull_ > 0 && ts - cpus_[c.v].pulled < pull_) {
        s.done = std::max<int64_t>(0, s.done - pull_ * topo_.cap_orig[c.v]);
        ts = std::max(cpus_[c.v].came, ts - pull_);
    }
    act(t, Op::Kind::block, kNone);
    s.asleep = true;
    s.is_first = false;
    s.block_op = static_cast<uint32_t>(script(t).ops.size() - 1);
    s.ended_by = kNone;
    s.asleep_at = ts;
}

/// The sleep that `t` is in is ended by that one.
void ScriptBuilder::wake(TaskId t, uint32_t stim) {
    TaskState& s = tasks_[t.v];
    s.ended_by = s.last = stim;
    script_.stims[stim].ends = true;
    if (s.is_first)
        script(t).first = stim;
    else
        script(t).ops[s.block_op].arg = stim;
}

/// `t` got a CPU: its sleep is over, whether its end was seen or not.
void ScriptBuilder::returns(TaskId t, Cpu c, Ns ts, int prio) {
    TaskState& s = tasks_[t.v];
    if (!std::exchange(s.asleep, false)) {
        s.early = kNone;
        return;
    }
    if (s.ended_by == kNone && s.early != kNone) {
        Stim& early = script_.stims[s.early];
        early.early = true;
        if (asks(t) && early.source == Stim::Source::absolute && !early.in_task)
            early.source = Stim::Source::relative, early.device = true;  // at once
        wake(t, s.early);
    }
    if (s.ended_by == kNone) {
        Stim stim;
        stim.p = t;
        stim.ts = ts;
        stim.source = Stim::Source::resume;
        stim.prio = static_cast<int16_t>(prio);
        stim.waker = stim.prev = stim.chosen = c;
        stim.curr = TaskId(c.v);
        stim.chosen_known = true;
        script_.stims.push_back(stim);
        script(t);
        wake(t, static_cast<uint32_t>(script_.stims.size() - 1));
    }
    s.ended_by = s.early = kNone;
}

/// `t`, of a higher class, had `c` for that time.
void ScriptBuilder::reserve(Cpu c, TaskId t, int prio, Ns from, Ns to) {
    const TaskState& s = tasks_[t.v];
    const bool woken = s.woken_at >= 0;
    const auto index = static_cast<uint32_t>(script_.reservations.size());
    const uint32_t before = std::exchange(cpus_[c.v].reservation, index);
    if (before != kNone && script_.reservations[before].to == from) script_.reservations[before].next = index;
    script_.reservations.push_back(
        {woken ? s.woken_at : from, from, to, c, t, static_cast<int16_t>(prio), woken && s.timed});
}

void ScriptBuilder::on_switch(const SwitchColumns& sw, size_t i) {
    const Cpu c(sw.cpu[i]);
    const Ns ts = sw.ts[i];
    const TaskId prev(sw.prev_task[i]), next(sw.next_task[i]);
    CpuState& cpu = cpus_[c.v];
    if (!idle(prev)) {
        TaskState& s = state(prev, sw.prev_prio[i]);
        if (cpu.curr != prev) {  // it came here unseen
            cpu.since = ts;
            if (s.asleep) returns(prev, c, ts, sw.prev_prio[i]);
        }
        const Ns began = cpu.since;
        account(c, ts);
        s.woke = false;
        if (!looks_.empty()) looks_out(prev, !still_runnable(sw.prev_state[i]), ts);
        if (!s.fair) {
            if (std::exchange(cpu.moves_exec, false))
                exec_stops_.push_back(ts - began);
            else if (ts > began && cpu.curr == prev)
                reserve(c, prev, sw.prev_prio[i], began, ts);
            s.woken_at = -1;
        } else if (is_dead(sw.prev_state[i])) {
            act(prev, Op::Kind::exit, kNone);
            script(prev).exit_at = ts;
        } else if (!still_runnable(sw.prev_state[i])) {
            if (!s.asleep) fall_asleep(prev, c, ts);
        } else if (idle(next) && !limited(prev)) {  // forced to idle: it is given back when it runs again
            if (!s.asleep) fall_asleep(prev, c, ts);
            s.early = kNone;
        } else if (yields(prev) && cpu.curr == prev && cpu.sent < cpu.came) {
            act(prev, Op::Kind::yield, kNone);
        }
    }
    if (!idle(next)) {
        const TaskState& s = state(next, sw.next_prio[i]);
        if (s.fair) {
            returns(next, c, ts, sw.next_prio[i]);
            script(next);
        }
    }
    cpu.curr = next;
    cpu.since = cpu.came = ts;
    cpu.prio = sw.next_prio[i];
}

/// A timer's handler wakes a task on `cpu`: whether it has woken another one before.
bool ScriptBuilder::joins(CpuState& cpu, Ns ts) {
    const Ns before = std::exchange(cpu.timer_woke, ts);
    if (before >= 0) timer_steps_.push_back(ts - before);
    return before >= 0;
}

void ScriptBuilder::on_opening(const Opening& o, Ns ts) {
    if (o.kind == Kind::exec) return exec(o, ts);
    if (o.chosen_known) cpus_[o.chosen.v].sent = ts;
    TaskState& s = state(o.p, o.prio);
    if (o.waker_known) tasks_[o.curr.v];  // present, too
    CpuState& cpu = cpus_[(o.waker_known ? o.waker : o.prev).v];
    const bool by_timer = o.hardirq && cpu.in_timer;
    if (!s.fair) {
        s.woken_at = ts;
        s.timed = by_timer && o.waker_known && o.chosen == o.waker;
        if (by_timer) joins(cpu, ts);
        return;
    }
    const auto index = static_cast<uint32_t>(script_.stims.size());
    Stim stim;  // put there as a whole: bits of what is not in the cache yet would have to be waited for, one by one
    stim.p = o.p;
    stim.curr = o.curr;
    stim.ts = ts;
    stim.decision = o.decision;
    stim.kind = o.kind;
    stim.cls = o.cls;
    stim.in_task = o.in_task;
    stim.hardirq = o.hardirq;
    stim.chosen_known = o.chosen_known;
    stim.by_other = o.by_other;
    stim.sync = o.sync;
    stim.hint = o.hint;
    stim.scanned = o.scanned;
    stim.luck = o.luck;
    stim.prio = o.prio;
    stim.prev = o.prev;
    stim.waker = o.waker_known ? o.waker : o.prev;
    stim.chosen = o.chosen;
    const bool by_task = o.waker_known && o.by_curr && !idle(o.curr) && cpu.curr == o.curr;
    const bool given = by_task && state(o.curr, cpu.prio).fair;
    if (given) {
        account(stim.waker, ts);
        stim.source = Stim::Source::task;
        stim.on = std::exchange(tasks_[o.curr.v].woke, true);
    } else if (by_timer && s.asleep && !s.is_first) {
        stim.source = Stim::Source::relative;
        stim.delay = ts - s.asleep_at;
        stim.joined = joins(cpu, ts);
    } else if (!o.in_task && asks(o.p) && s.asleep && !s.is_first) {
        stim.source = Stim::Source::relative;
        stim.delay = ts - s.asleep_at;
        stim.device = true;
    }
    script_.stims.push_back(stim);
    if (given && looks_.empty())
        act(o.curr, Op::Kind::wake, index);
    else if (given)
        give(o, index, ts);
    if (!s.asleep) {
        s.early = index;
    } else if (s.ended_by == kNone) {
        script(o.p);
        wake(o.p, index);
    }
}

void ScriptBuilder::on_fork(TaskId child) {
    TaskState& s = tasks_[child.v];
    s.asleep = s.is_first = true;
    s.ended_by = kNone;
}

void ScriptBuilder::on_exit(TaskId t, Cpu c, Ns ts) {
    if (cpus_[c.v].curr != t || !tasks_[t.v].fair) return;
    account(c, ts);
    act(t, Op::Kind::exiting, kNone);
}

void ScriptBuilder::on_migrate(const MigrateColumns& m, size_t i, std::optional<Cause> cause) {
    const Cause why = cause.value_or(Cause::unknown);
    cpus_[m.dest_cpu[i]].sent = m.ts[i];
    if (why == Cause::exec) return exec_moves(m, i);
    if (why == Cause::newidle) cpus_[m.dest_cpu[i]].pulled = m.ts[i];
    if (why == Cause::wake || why == Cause::fork || m.orig_cpu[i] == m.dest_cpu[i]) return;
    const TaskState& s = state(TaskId(m.task[i]), m.prio[i]);
    if (!s.fair) return;
    Move move{m.ts[i], TaskId(m.task[i]), Cpu(m.orig_cpu[i]), Cpu(m.dest_cpu[i]), why, s.last, kNone};
    if (s.last != kNone)
        move.next = std::exchange(script_.stims[s.last].moves, static_cast<uint32_t>(script_.moves.size()));
    for (size_t k = script_.moves.size(); k > 0; --k) {
        Move& before = script_.moves[k - 1];
        if (before.orig != move.orig || before.dest != move.dest || move.ts - before.ts > kDetaches) break;
        before.ts = move.ts;
    }
    script_.moves.push_back(move);
}

/// When the timers that another one's interrupt served would have fired by themselves: as late as those of the same task that
/// did, within the slack.
void ScriptBuilder::join_timers() {
    if (timer_steps_.empty()) return;
    script_.timer_step = middle(timer_steps_);
    std::unordered_map<uint32_t, std::vector<int64_t>> alone;
    auto timed = [](const Stim& s) { return s.source == Stim::Source::relative && !s.device; };
    for (const Stim& s : script_.stims)
        if (timed(s) && !s.joined) alone[s.p.v].push_back(s.delay);
    for (Stim& s : script_.stims) {
        if (!timed(s) || !s.joined || alone[s.p.v].empty()) continue;
        const Ns usual = middle(alone[s.p.v]);
        if (usual > s.delay && usual <= s.delay + kTimerSlack) s.delay = usual;
    }
}

/// By majority vote.
void ScriptBuilder::find_queues() {
    script_.told_by.assign(cpus_.size(), kNone);
    std::vector<int64_t> votes(cpus_.size());
    for (const Stim& s : script_.stims) {
        if (!s.device) continue;
        if (votes[s.prev.v] == 0) script_.told_by[s.prev.v] = s.waker.v;
        votes[s.prev.v] += script_.told_by[s.prev.v] == s.waker.v ? 1 : -1;
    }
}

Script ScriptBuilder::finish() {
    script_.interrupts = interrupts_.between(script_.from, horizon_);
    join_timers();
    find_queues();
    find_stalls(script_);
    finish_ties();
    finish_execs();
    for (size_t c = 0; c < cpus_.size(); ++c) {
        const CpuState& cpu = cpus_[c];
        account(Cpu(static_cast<uint16_t>(c)), horizon_);
        // Who has it still keeps it.
        if (!idle(cpu.curr) && !state(cpu.curr, cpu.prio).fair && !cpu.moves_exec && cpu.came < horizon_)
            reserve(Cpu(static_cast<uint16_t>(c)), cpu.curr, cpu.prio, cpu.came, horizon_);
    }
    tasks_.each([this](uint32_t i, const TaskState&) { script_.present.emplace_back(i); });
    for (TaskScript& t : script_.tasks)
        if (!tasks_[t.id.v].asleep) act(t.id, Op::Kind::end, kNone);
    return std::move(script_);
}

}  // namespace rewake::closed
