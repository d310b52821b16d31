// SPDX-License-Identifier: GPL-2.0-or-later
// Tasks that exec: they run, and go on where the policy sends them (sched_exec(), 6.1). Modelled.
#include <algorithm>
#include <utility>

#include "replay/engine/closed/simulation.hpp"

namespace rewake::closed {

void ScriptBuilder::act_exec(TaskId p, Cpu from, Cpu to, int16_t prio, Ns ts) {
    Stim stim;
    stim.p = stim.curr = p;
    stim.ts = ts;
    stim.source = Stim::Source::task;
    stim.kind = Kind::exec;
    stim.cls = from == to ? DecisionClass::stayed : DecisionClass::moved;
    stim.in_task = stim.chosen_known = true;
    stim.prio = prio;
    stim.waker = stim.prev = from;
    stim.chosen = to;
    script_.stims.push_back(stim);
    act(p, Op::Kind::exec, static_cast<uint32_t>(script_.stims.size() - 1));
}

/// The stopper moves a task that is about to exec: that is when the recorded kernel decided. Its event comes later.
void ScriptBuilder::exec_moves(const MigrateColumns& m, size_t i) {
    const TaskId p(m.task[i]);
    const Cpu from(m.orig_cpu[i]);
    if (!state(p, m.prio[i]).fair) return;
    cpus_[from.v].moves_exec = table_.info(cpus_[from.v].curr).stopper;
    act_exec(p, from, Cpu(m.dest_cpu[i]), m.prio[i], m.ts[i]);
}

/// Where nobody was moved only the event tells of the exec, by when the program is loaded.
void ScriptBuilder::exec(const Opening& o, Ns ts) {
    if (!o.chosen_known || cpus_[o.chosen.v].curr != o.p || !state(o.p, o.prio).fair) return;
    account(o.chosen, ts);
    const std::vector<Op>& ops = script(o.p).ops;
    if (o.prev != o.chosen) {
        if (!ops.empty() && ops.back().kind == Op::Kind::exec) exec_loads_.push_back(tasks_[o.p.v].done);
        return;
    }
    stayed_.push_back({script_.of[o.p.v], static_cast<uint32_t>(ops.size())});
    act_exec(o.p, o.chosen, o.chosen, o.prio, ts);
}

/// Execs that moved nobody were decided as long before their events as those that did, in work of the task.
void ScriptBuilder::finish_execs() {
    if (!exec_stops_.empty()) script_.exec_stop = middle(exec_stops_);
    if (exec_loads_.empty()) return;
    const int64_t load = middle(exec_loads_);
    for (const Exec& e : stayed_) {
        TaskScript& t = script_.tasks[e.task];
        const int64_t taken = std::min(load, t.ops[e.op].work);
        t.ops[e.op].work -= taken;
        (e.op + 1 < t.ops.size() ? t.ops[e.op + 1].work : tasks_[t.id.v].done) += taken;
    }
}

/// What runs on `c` execs: whether it goes elsewhere. The stopper moves it there, and has the CPU for as long as that takes.
bool Simulation::execs(Cpu c, uint32_t stim) {
    const Stim& s = script_.stims[stim];
    const TaskId p = wakee(s);
    const Cpu to = place(s, tasks_[p.v], c, p, false).cpu;
    if (to == c || !topo_.online.test(to) || fair_.blocked(p, to)) return false;
    CpuState& cpu = cpus_[c.v];
    fair_.charge(c, now_);
    run_instead(c, TaskId(c.v));
    relocate(p, to);
    if (counted()) ++out_.exec_moves;
    cpu.handling = std::max(cpu.handling, now_ + script_.exec_stop);
    if (fair_.size(c) > 0) request(c, cpu.handling);
    came(p, to, script_.exec_stop);
    return true;
}

}  // namespace rewake::closed
