// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/lockstep.hpp"

#include <algorithm>
#include <utility>

#include "replay/engine/closed/simulation.hpp"

namespace rewake::closed {

void Lockstep::woken(TaskId t, TaskId waker, Ns ts) {
    Task &task = tasks_[t.v], &other = tasks_[waker.v];
    const Ns busy = ts - std::exchange(other.acted_at, ts);
    if (other.by == t.v && other.close >= kFewest && task.asleep_at > other.woken_at)
        if (std::vector<Ns>& waited = waited_[waker.v]; waited.size() < kEnough)
            waited.push_back(task.asleep_at - other.woken_at);
    if (task.by == waker.v) task.woken_at = ts;
    if (busy < kBusy) return;
    if (task.votes == 0 && task.by != waker.v) {
        task.by = waker.v, task.wakeups = task.close = 0;
        task.woken_at = ts;
        waited_.erase(t.v);
    }
    task.votes += task.by == waker.v ? 1 : -1;
    if (task.by != waker.v) return;
    ++task.wakeups;
    task.close += task.asleep_at < 0 || ts - task.asleep_at <= kLockstep;
}

std::vector<Awaited> Lockstep::awaited() const {
    std::vector<Awaited> out(n_);
    tasks_.each([&](uint32_t i, const Task& t) {
        if (t.close < kFewest || 4 * int64_t{t.close} < 3 * int64_t{t.wakeups}) return;
        const auto found = waited_.find(i);
        std::vector<Ns> waited = found == waited_.end() ? std::vector<Ns>{} : found->second;
        out[i] = {t.by, waited.empty() ? -1 : middle(waited)};
    });
    return out;
}

/// A task wakes another, and may have waited until that slept.
void ScriptBuilder::give(const Opening& o, uint32_t stim, Ns ts) {
    look(o.curr, ts);
    act(o.curr, Op::Kind::wake, stim);
    if (awaited_[o.p.v].by == o.curr.v) tie(o, stim, ts);
}

void ScriptBuilder::tie(const Opening& o, uint32_t stim, Ns ts) {
    const TaskState& s = tasks_[o.p.v];
    Tie tie{stim, static_cast<uint32_t>(script(o.curr).ops.size() - 1)};
    if (!s.asleep) {
        if (cpus_[o.prev.v].curr == o.p) account(o.prev, ts);
        look(o.p, ts);
        tie.op = static_cast<uint32_t>(script(o.p).ops.size()), tie.work = s.done;
        looks_[o.p.v] = {stim, ts + kLeaves, o.prev};
    } else {
        if (s.is_first) return;
        tie.op = s.block_op + 1, tie.slept = true;
        tie.late = ts - s.asleep_at > kLockstep;
        if (!tie.late) tie.gap = ts - s.asleep_at;
    }
    script_.stims[stim].tied = true;
    script_.ties.push_back(tie);
}

/// `t` has not slept since its wakeup came when it was about to: it came to schedule() all the same, and is awake.
void ScriptBuilder::look(TaskId t, Ns ts) {
    const Look due = std::exchange(looks_[t.v], {});
    if (due.stim == kNone) return;
    TaskState& s = tasks_[t.v];
    // It ran on one CPU since, at whose end it is now.
    const int64_t after = std::min(s.done, std::max<int64_t>(0, ts - due.at) * topo_.cap_orig[due.cpu.v]);
    script(t).ops.push_back({Op::Kind::look, due.stim, s.done - after});
    s.done = after;
    script_.stims[due.stim].ends = true;
}

/// `t` is switched out: asleep so soon after that wakeup, it had not looked by then.
void ScriptBuilder::looks_out(TaskId t, bool sleeps, Ns ts) {
    Look& due = looks_[t.v];
    if (sleeps && due.stim != kNone && ts <= due.at - kLeaves + kLockstep)
        due = {};
    else
        look(t, ts);
}

/// What wakers did beside waiting is what they do between such wakeups where they wait least: the rest is waiting, and no work.
/// And by when their wakees have come to where they were is told by their work.
void ScriptBuilder::finish_ties() {
    std::map<uint32_t, std::vector<int64_t>> steps;  // by waker
    const auto next = [&](const Tie& t) -> Op* {
        std::vector<Op>& ops = script(script_.stims[t.stim].curr).ops;
        const auto wakes = [&](const Op& op) {
            return op.kind == Op::Kind::wake && script_.stims[op.arg].p == script_.stims[t.stim].p;
        };
        return !t.late && t.mine > 0 && wakes(ops[t.mine - 1]) ? &ops[t.mine] : nullptr;
    };
    for (const Tie& t : script_.ties)
        if (const Op* op = next(t)) steps[script_.stims[t.stim].curr.v].push_back(op->work);
    for (auto& [waker, of] : steps) {
        const auto at = of.begin() + static_cast<std::ptrdiff_t>(of.size() / 10);
        std::nth_element(of.begin(), at, of.end());
        of = {*at};
    }
    for (const Tie& t : script_.ties)
        if (Op* op = next(t)) op->work = std::min(op->work, steps[script_.stims[t.stim].curr.v].front());
    struct Sum {
        uint32_t op = 0;
        int64_t work = 0;
    };
    std::map<uint32_t, Sum> sums;  // by wakee
    for (Tie& t : script_.ties) {
        const TaskId p = script_.stims[t.stim].p;
        const std::vector<Op>& ops = script(p).ops;
        Sum& sum = sums[p.v];
        for (; sum.op < t.op; ++sum.op) sum.work += ops[sum.op].work;
        t.work = sum.work + (t.op < ops.size() ? std::min(t.work, ops[t.op].work) : t.work);
    }
}

/// Until its wakee has come to where it was when the recorded wakeup came; 0: it has, kNever: that is not known.
Ns Simulation::left_until(const Tie& tie, TaskId wakee) {
    const Task& t = tasks_[wakee.v];
    if (t.state == Task::State::gone || t.pos >= t.n_ops || !t.script) return 0;
    if (tie.slept) {
        if (t.passed - t.ops[t.pos].work < tie.work) return kNever;
        return t.state == Task::State::asleep ? std::max<Ns>(0, t.asleep_at + tie.gap - now_) : 0;
    }
    const bool running = t.state == Task::State::running;
    if (running) settle(t.cpu);
    const int64_t all = t.passed, done = all - t.left;
    if (done >= tie.work) return 0;
    return running && all >= tie.work ? std::max<Ns>(1, time_for(tie.work - done, speed(t.cpu))) : kNever;
}

/// What runs on `c` is to give a wakeup that waits for its wakee: whether it does not give it yet.
bool Simulation::spins(Cpu c) {
    const TaskId id = cpus_[c.v].curr;
    const Op& op = tasks_[id.v].ops[tasks_[id.v].pos];
    if (op.kind != Op::Kind::wake || !script_.stims[op.arg].tied) return false;
    const TaskId wakee = script_.stims[op.arg].p;
    const auto tie = std::ranges::lower_bound(script_.ties, op.arg, {}, &Tie::stim);
    const Ns wait = left_until(*tie, wakee);
    auto mine = std::ranges::find(spinners_, id, &Spinner::waker);
    if (wait == 0) {
        if (mine != spinners_.end()) spinners_.erase(mine);
        return false;
    }
    const Ns patience = opt_.awaited[wakee.v].patience;
    if (mine == spinners_.end())
        mine = spinners_.insert(mine, {id, wakee, now_ + std::max<Ns>(0, patience - time_for(op.work, speed(c)))});
    cpus_[c.v].plan = 0;
    if (patience >= 0 && tasks_[wakee.v].cpu == c && tasks_[wakee.v].state == Task::State::queued) {
        if (now_ < mine->until) {
            push(mine->until, What::look, id.v);
        } else {
            fair_.charge(c, now_);
            run_instead(c, wakee);
        }
        return true;
    }
    if (wait != kNever) push(now_ + wait, What::look, id.v);
    return true;
}

/// `wakee` goes on: whoever waits for it looks again.
void Simulation::tell_spinners(TaskId wakee) {
    for (const Spinner& s : spinners_)
        if (s.wakee == wakee) push(now_, What::look, s.waker.v);
}

/// A waker that waits for its wakee looks for it.
void Simulation::looks(TaskId waker) {
    const Task& t = tasks_[waker.v];
    if (t.state != Task::State::running || cpus_[t.cpu.v].curr != waker || cpus_[t.cpu.v].reserved) return;
    if (std::ranges::none_of(spinners_, [&](const Spinner& s) { return s.waker == waker; })) return;
    cpus_[t.cpu.v].plan = seq_;
    push(now_, What::action, t.cpu.v);
}

/// What runs on `c` comes to schedule(), though it has nothing to wait for any more: whether somebody else runs now.
bool Simulation::comes_to_schedule(Cpu c) {
    if (fair_.size(c) < 2) return false;
    const TaskId id = cpus_[c.v].curr;
    fair_.charge_by_schedule(c, now_);
    const TaskId next = fair_.pick(c);
    if (next == id) return fair_.scheduled(c), false;
    run_instead(c, next);
    return true;
}

/// `next`, or the idle task, takes the CPU of what runs on `c` and could run on.
void Simulation::run_instead(Cpu c, TaskId next) {
    const TaskId id = cpus_[c.v].curr;
    fair_.stop(c, now_);
    tasks_[id.v].state = Task::State::queued;
    wait_begins(tasks_[id.v]);
    switch_to(c, id, kRuns, next);
}

}  // namespace rewake::closed
