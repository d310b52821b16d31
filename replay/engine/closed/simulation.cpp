// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace rewake::closed {

namespace {
/// A wakeup that comes so long before its sleep still finds it: the sleeper sleeps, and is woken at once. Wakeups that come
/// before the recording's sleeps are as many as sleeps that the recording does not show, as their wakeups came early there.
constexpr Ns kKept = 4'000'000;
}  // namespace

Simulation::Simulation(const Topology& topo, const TaskTable& table, const Script& script,
                       const std::vector<Happening>& planned, const Machine& at, const FairTree& queues,
                       const IrqTicks& irq, Policy* policy, const Costs& costs, const SimOptions& options)
    : topo_(topo),
      table_(table),
      script_(script),
      machine_(at),
      fair_(queues),
      policy_(policy),
      costs_(costs),
      leaves_kernel_(costs.draw(Path::busy, Relation::same_cpu, true, target_of(0, 1024, true, false), 0.5).queue +
                     costs.draw(Path::preempt, Relation::same_cpu, true, target_of(0, 1024, true, false), 0.5).run),
      opt_(options),
      any_serves_(std::ranges::any_of(opt_.serves, [](bool b) { return b; })),
      has_ties_(!script.ties.empty()),
      events_(planned),
      after_planned_(Happening::kPlanned + planned.size()),
      now_(script.from),
      tasks_(table.tasks.size()),
      cpus_(static_cast<size_t>(topo.n_cpus)),
      fired_at_(script.stims.size(), -1),
      clients_(table.tasks.size()),
      timers_(static_cast<size_t>(topo.n_cpus)),
      waiting_llc_(topo.llc_span.size()) {
    machine_.rebind();
    fair_.weighed_by(machine_);
    fair_.tell_gone(&gone_);
    if (opt_.fifo)  // whose queues delay nothing
        machine_.each_known([this](uint32_t id, const Machine::Task& t) {
            if (t.delayed) gone_.push_back(TaskId(id));
        });
    if (!balances() && (!policy_ || !policy_->reads_averages())) machine_.forget_averages();
    machine_.balances_at_ticks();
    if (const IrqSettings* settings = policy ? policy->irq_settings() : nullptr) {
        irq_ = irq;
        irq_->end_all(now_);  // those that count begin again
        machine_.set_irq_load(&irq_->estimate(*settings));
    }
    out_.from = script.measured;
    out_.to = script.to;
}

WindowResult Simulation::run() {
    begin();
    const Ns ends_by = 2 * script_.to - script_.measured;
    const Ns limit = script_.to + 4 * (script_.to - script_.measured) + 1'000'000'000;
    while (!events_.empty()) {
        const Happening e = events_.pop();
        const uint64_t number = e.seq();
        if (number >= Happening::kPlanned && number < after_planned_) look_ahead();
        if (e.at >= script_.to && ((open_ == 0 && (out_.ended == out_.ends || e.at > ends_by)) || e.at > limit)) {
            now_ = std::max(now_, script_.to);  // who runs does so to the end
            break;
        }
        if (e.at < now_) ++out_.broken;
        queued_time_ += (e.at - now_) * machine_.n_queued();
        now_ = e.at;
        ++out_.events;
        const Cpu c(static_cast<uint16_t>(e.a));
        switch (e.what) {
            case What::action:
                if (cpus_[c.v].plan == number) act(c);
                break;
            case What::resched:
                if (cpus_[c.v].resched == e.at) resched(c);
                break;
            case What::arrive: arrive(TaskId(e.a)); break;
            case What::outside: {
                const Stim& s = script_.stims[e.a];
                const bool asked = s.source == Stim::Source::relative, timed = asked && !s.device;
                if (fired_at_[e.a] >= 0) break;  // with another timer
                // A timer fires where it was set, a device tells where it does what was asked there; all else as recorded.
                const Cpu at = tasks_[wakee(s).v].cpu;
                Cpu waker = timed && s.waker == s.prev ? at : s.waker;
                if (s.device && at != s.prev && script_.told_by[at.v] != kNone)
                    waker = Cpu(static_cast<uint16_t>(script_.told_by[at.v]));
                if (timed && now_ < cpus_[waker.v].handling) {
                    push(cpus_[waker.v].handling, What::outside, e.a);  // no interrupt comes into another one
                    break;
                }
                if (counted()) ++out_.external;
                const bool on_task = !asked && !idle(s.curr) && s.in_task;
                fire(e.a, waker, on_task ? s.curr : cpus_[waker.v].curr);
                if (timed) serve_timers(waker);
                if (!s.in_task) in_kernel(waker);
                break;
            }
            case What::irq: interrupt(e.a); break;
            case What::irq_over: irq_->irq(script_.interrupts[e.a].cpu, false, now_); break;
            case What::expect: expect(e.a); break;
            case What::reserve: reserve(e.a); break;
            case What::release: release(e.a); break;
            case What::move: forced_move(e.a); break;
            case What::tick:
                tick();
                push(now_ + 1'000'000'000 / opt_.hz, What::tick, 0);
                if (now_ < script_.to && !judge()) {
                    out_.to = std::clamp(now_, script_.measured, script_.to);
                    open_ = 0;
                    goto over;
                }
                break;
            case What::pull:
                if (cpus_[c.v].leave != number || !cpus_[c.v].leaving) break;
                new_idle(c, tasks_[cpus_[c.v].curr.v].asleep_at);
                cpus_[c.v].leave = seq_;
                push(now_ + lands(), What::leave, c.v);
                break;
            case What::leave:
                if (cpus_[c.v].leave == number && cpus_[c.v].leaving) leave(c);
                break;
            case What::look: looks(TaskId(e.a)); break;
            case What::refill: refill(static_cast<uint16_t>(e.a)); break;
            case What::slack: slack(static_cast<uint16_t>(e.a)); break;
            case What::mask: change_mask(e.a); break;
            case What::slice:
                if (cpus_[c.v].slice == e.at) cpus_[c.v].slice = -1, ticked(c, true);
                break;
        }
        if ((waiting_ > 0 && machine_.view().avail.any(topo_.words)) || bad_machine_ >= 0) watch();
    }
over:
    close(bad_machine_, now_, out_.on_machine);
    close(bad_llc_, now_, out_.in_llc);
    for (size_t i = 0; i < cpus_.size(); ++i) settle(Cpu(static_cast<uint16_t>(i)));
    for (uint16_t g = 0; g < limits_.size(); ++g)
        while (!limits_[g].throttled.empty()) stood(g, limits_[g].throttled.back()), limits_[g].throttled.pop_back();
    // Conservation (V5): what was worked off is what the scripts lost, and the model never met a contradiction.
    int64_t lost = 0;
    tasks_.each([&](uint32_t, const Task& t) {
        if (!t.script) return;
        // Behind its last action a task has only what was added to it.
        lost += t.passed - std::max<int64_t>(t.more, 0) - t.left;
    });
    if (lost + added_ != out_.work) ++out_.broken;
    out_.broken += machine_.counts().resync - resync_before_;
    return std::move(out_);
}

double Simulation::speed(Cpu c) const {
    return cpus_[c.v].busy_sibling ? opt_.smt * topo_.cap_orig[c.v] : topo_.cap_orig[c.v];
}

/// Takes what has been done since the last look off the script of what runs on `c`.
void Simulation::settle(Cpu c) {
    CpuState& cpu = cpus_[c.v];
    if (now_ <= cpu.since) return;
    const Ns since = std::exchange(cpu.since, now_), ran = now_ - since;
    if (idle(cpu.curr) || cpu.reserved || cpu.leaving) return;
    Task& t = tasks_[cpu.curr.v];
    const int64_t done = std::min(t.left, work_in(ran, speed(c)));
    t.left -= done;
    out_.work += done;
    out_.cpu_time += std::max<Ns>(std::min(now_, script_.to) - std::max(since, script_.measured), 0);
}

/// When what runs on `c` comes to its next action.
void Simulation::plan(Cpu c) {
    CpuState& cpu = cpus_[c.v];
    const Task& t = tasks_[cpu.curr.v];
    cpu.plan = seq_;
    push(std::max(now_, cpu.since) + time_for(t.left, speed(c)), What::action, c.v);
    if (has_ties_) tell_spinners(cpu.curr);
    // What act() will look at by then.
    if (!t.next()) return;
    __builtin_prefetch(t.ops + t.pos + 1);
    if (t.coming.arg >= script_.stims.size()) return;
    __builtin_prefetch(&script_.stims[t.coming.arg]);
    __builtin_prefetch(&fired_at_[t.coming.arg]);
}

bool Simulation::has_busy_sibling(Cpu c) const {
    return std::ranges::any_of(topo_.siblings(c), [&](uint16_t s) { return s != c.v && !is_idle(Cpu(s)); });
}

/// `c` became idle or busy: its siblings run at another speed from now on.
void Simulation::retime_sibling(Cpu c) {
    if (opt_.smt == 1) return;
    for (uint16_t s : topo_.siblings(c)) {
        const Cpu other(s);
        if (other == c) continue;
        const bool busy = has_busy_sibling(other);
        if (busy == cpus_[s].busy_sibling) continue;
        settle(other);
        cpus_[s].busy_sibling = busy;
        if (!is_idle(other) && !cpus_[s].reserved && !cpus_[s].leaving) plan(other);
    }
}

/// What runs on `c` has come to its next action.
void Simulation::act(Cpu c) {
    CpuState& cpu = cpus_[c.v];
    if (cpu.reserved || cpu.leaving || idle(cpu.curr)) return;
    const TaskId id = cpu.curr;
    fetch(c);
    settle(c);
    Task& t = tasks_[id.v];
    while (t.left <= 0) {
        if (t.in_steps && t.more >= 0) {  // one more answer of the batch
            if (!clients_[id.v].empty()) give(clients_[id.v].front(), c, id);
            t.left += clients_[id.v].empty() ? std::exchange(t.more, -1) : t.step;  // beside what giving it was charged
            if (t.more >= 0) added_ += t.step;
            continue;
        }
        if (t.pos >= t.n_ops) return sleep(c, kNone, kSleeps);
        if (!heirs_.empty() && changes_place(id)) continue;
        if (has_ties_ && spins(c)) return;
        const Task::Action op = t.coming;
        t.come_to(t.pos + 1);
        const bool over = op.kind == Op::Kind::end || (op.kind == Op::Kind::block && op.arg == kNone);
        if (over && serves(id) && t.script->work() > 0) {  // its cycles are all alike: from the beginning
            t.passed -= t.left;
            t.come_to(0);
            if (op.kind == Op::Kind::block && clients_[id.v].empty())
                if (const uint32_t stim = any_request(*t.script); stim != kNone) return sleep(c, stim, kSleeps);
            continue;
        }
        if (over || op.kind == Op::Kind::exit) quits(id, c);
        switch (op.kind) {
            case Op::Kind::meet:
                if (comes_last(id)) break;
                return sleep(c, op.arg, kSleeps);
            case Op::Kind::yield:
                if (gives_way(c)) return;
                break;
            case Op::Kind::exec:
                if (execs(c, op.arg)) return;
                break;
            case Op::Kind::look:
                if (fired_at_[op.arg] < 0) return sleep(c, op.arg, kSleeps);
                if (comes_to_schedule(c)) return;
                break;
            case Op::Kind::exiting: machine_.on_exit(id, now_); break;
            case Op::Kind::ask: enlist(TaskId(op.arg), c, id); break;
            case Op::Kind::read:
                if (t.pace.first <= 0) break;
                if (t.race != op.arg) {
                    if (finds(t, false)) break;
                    t.misses = true;
                } else {
                    spend_sleeps(t, 1);
                }
                return sleep(c, op.arg, kSleeps);
            case Op::Kind::wake:
                given_.reset();
                if (const TaskId server = script_.stims[op.arg].p; !opt_.pinned && serves(server) && awaits(t, server))
                    enlist(server, c, id);
                if (!script_.stims[op.arg].hidden) cpu.woke = now_;
                fire(op.arg, c, id);
                if (given_) charge_waker(script_.stims[op.arg], t);
                if (t.in_steps && t.step >= 0 && !clients_[id.v].empty() &&
                    (!t.next() || t.next()->kind != Op::Kind::wake)) {
                    t.more = t.left;
                    t.left = t.step;
                    added_ += t.step;
                }
                break;
            case Op::Kind::block:
                if (open(op.arg, id)) {
                    if (!clients_[id.v].empty() && t.race == kNone) break;  // somebody waits for an answer
                    if (t.race == kNone && std::exchange(t.answered, false)) break;
                    const TaskId server = script_.stims[op.arg].curr;
                    if (tasks_[server.v].state == Task::State::gone) break;
                    if (serves(server) && t.race == kNone && t.client_of == kNone) enlist(server, c, id);
                    return sleep(c, op.arg, kSleeps);
                }
                if (takes_any(t, op.arg)) {
                    if (t.pace.first > 0) {
                        if (t.race != op.arg && finds(t, true)) break;
                        return sleep(c, op.arg, kSleeps);
                    }
                    if (t.race == op.arg || t.tokens.empty()) return sleep(c, op.arg, kSleeps);
                    const Token early = t.tokens.front();
                    t.tokens.erase(t.tokens.begin());
                    if (counted()) ++out_.early;
                    if (now_ - early.at > kKept) break;
                    t.race = op.arg, t.race_by = early.stim, t.race_late = true;
                    t.race_waker = tasks_[early.curr.v].cpu, t.race_curr = early.curr, t.race_at = now_;
                    return sleep(c, op.arg, kSleeps);
                }
                if (op.arg != kNone && fired_at_[op.arg] >= 0 && t.race != op.arg) {
                    if (counted()) ++out_.early;
                    const Stim& s = script_.stims[op.arg];
                    if (s.source != Stim::Source::task || now_ - fired_at_[op.arg] > kKept) break;
                    t.race = t.race_by = op.arg, t.race_late = true;
                    t.race_waker = tasks_[s.curr.v].cpu, t.race_curr = s.curr, t.race_at = now_;
                }
                return sleep(c, op.arg, kSleeps);
            case Op::Kind::exit:
                while (!clients_[id.v].empty()) give(clients_[id.v].front(), c, id);  // they will wait in vain
                if (has_end(*t.script)) ++out_.ended, out_.makespan = std::max<Ns>(0, now_ - script_.measured);
                return sleep(c, kNone, kDead);
            case Op::Kind::end:
                if (now_ < script_.to) ++out_.exhausted;
                return sleep(c, kNone, kSleeps);
        }
    }
    plan(c);
    if (cpu.told_lazily) request(c, now_ + leaves_kernel_);
}

/// What runs on `c` leaves it until `stim` comes.
void Simulation::sleep(Cpu c, uint32_t stim, uint8_t prev_state) {
    const TaskId id = cpus_[c.v].curr;
    Task& t = tasks_[id.v];
    fair_.charge_by_schedule(c, now_);
    fair_.dequeue(id, prev_state == kSleeps);
    if (!limits_.empty()) exhaust(c, id);
    t.state = prev_state == kDead ? Task::State::gone : Task::State::asleep;
    t.waits_for = stim;
    t.asleep_at = now_;
    if (has_ties_) tell_spinners(id);
    const bool raced = stim != kNone && t.race == stim;
    if (raced && t.race_late) t.race_at = now_;
    t.race_stays = raced && !t.race_late && stays(t.race_waker, c);
    // Who was woken already is as good as there: nobody is pulled.
    if (!raced && prev_state == kSleeps && opt_.pull > 0 && fair_.size(c) == 0 && to_pull(c, now_, false).v != kNone) {
        cpus_[c.v].leaving = t.leaving = true;
        cpus_[c.v].plan = 0;
        cpus_[c.v].resched = -1;
        cpus_[c.v].leave = seq_;
        push(now_ + opt_.pull - lands(), What::pull, c.v);
    } else {
        if (raced || opt_.pull > 0)
            switch_to(c, id, prev_state, fair_.size(c) ? fair_.pick(c) : TaskId(c.v));
        else
            schedule(c, id, prev_state);
        slept(id);
    }
    if (stim == kNone || raced) return;
    const Stim& s = script_.stims[stim];
    if (s.source == Stim::Source::relative && !opt_.absolute_timers) set_timer(c, stim);
}

/// Whose delayed dequeue is done no longer counts where it slept.
void Simulation::let_go() {
    for (TaskId id : gone_) machine_.let_go(id, now_);
    gone_.clear();
}

/// `id` has been switched out: gives it the wakeup that found it on its CPU.
void Simulation::slept(TaskId id) {
    Task& t = tasks_[id.v];
    if (t.race == kNone || t.race != t.waits_for) return;
    t.race = kNone;
    const Meets meets = std::exchange(t.race_late, false) ? Meets::late : Meets::leaving;
    wake(t.race_by, t.race_waker, t.race_curr, t.race_at, meets, t.race_stays);
}

/// A pull to `c` is over: whoever it brought runs.
void Simulation::leave(Cpu c) {
    CpuState& cpu = cpus_[c.v];
    const TaskId prev = cpu.curr;
    cpu.leaving = tasks_[prev.v].leaving = false;
    switch_to(c, prev, kSleeps, fair_.size(c) ? fair_.pick(c) : TaskId(c.v));
    slept(prev);
}

void Simulation::request(Cpu c, Ns at) {
    CpuState& cpu = cpus_[c.v];
    if (cpu.resched >= 0 && cpu.resched <= at) return;
    cpu.resched = at;
    push(at, What::resched, c.v);
}

void Simulation::resched(Cpu c) {
    CpuState& cpu = cpus_[c.v];
    cpu.resched = -1;
    if (fair_.size(c) == 0) cpu.own_call = false;
    if (cpu.reserved || cpu.leaving || fair_.size(c) == 0) return;
    if (now_ < cpu.handling) return request(c, cpu.handling);
    if (now_ < cpu.wakes) return request(c, cpu.wakes + cpu.takes);
    fetch(c);
    const TaskId prev = cpu.curr;
    if (idle(prev)) {
        if (cpu.coming > now_ && cpu.coming <= now_ + opt_.waits) return;  // arrive() asks again
        return schedule(c, prev, kRuns);
    }
    settle(c);
    if (const Task& t = tasks_[prev.v]; !cpu.own_call && falls_asleep(t))
        return request(c, now_ + time_for(t.left, speed(c)) + 1);
    if (wakes_on(c)) return request(c, now_ + std::max<Ns>(1, time_for(tasks_[prev.v].left, speed(c)) + cpu.takes));
    fair_.charge_by_schedule(c, now_);
    if (!limits_.empty() && spent_up(c)) return evict(c, prev);
    const TaskId next = fair_.pick(c);
    if (next == prev) return cpu.own_call = false, fair_.scheduled(c), time_slice(c);
    if (counted()) ++out_.preemptions;
    run_instead(c, next);
}

/// The next thing that `t` does is to sleep.
bool Simulation::goes_to_sleep(const Task& t) {
    if (!t.next()) return false;
    const Op::Kind next = t.next()->kind;
    return next == Op::Kind::block || next == Op::Kind::look || next == Op::Kind::exit;
}

/// And it is in the kernel for it, which is not preempted there.
bool Simulation::falls_asleep(const Task& t) const {
    return t.left <= kLeaves * topo_.cap_orig[t.cpu.v] && goes_to_sleep(t);
}

/// What runs on `c` has woken somebody, and will wake the next one before it could have left the kernel: it wakes all that
/// wait for one thing, and is not preempted while it does.
bool Simulation::wakes_on(Cpu c) const {
    const CpuState& cpu = cpus_[c.v];
    if (cpu.woke < 0 || cpu.plan == 0) return false;
    const Task& t = tasks_[cpu.curr.v];
    int64_t work = t.left;
    for (uint32_t k = t.pos; k < t.n_ops && t.ops[k].kind == Op::Kind::wake;
         work += ++k < t.n_ops ? t.ops[k].work : 0) {
        if (now_ + time_for(work, speed(c)) - cpu.woke >= leaves_kernel_) return false;
        const Stim& s = script_.stims[t.ops[k].arg];
        if (!s.hidden && s.on) return true;  // a message that is not shown came to nobody who slept
    }
    return false;
}

/// `prev` no longer runs on `c`: whoever is next.
void Simulation::schedule(Cpu c, TaskId prev, uint8_t prev_state) {
    if (!idle(prev)) new_idle(c, now_);
    switch_to(c, prev, prev_state, fair_.size(c) ? fair_.pick(c) : TaskId(c.v));
}

void Simulation::switch_to(Cpu c, TaskId prev, uint8_t prev_state, TaskId next) {
    CpuState& cpu = cpus_[c.v];
    if (!limits_.empty()) spend(c);
    if (counted()) ++out_.switches;
    cpu.resched = cpu.woke = cpu.calling = -1;
    cpu.told_lazily = cpu.own_call = false;
    cpu.since = std::max(now_, cpu.handling);
    cpu.plan = 0;
    cpu.curr = next;
    if (irq_) irq_->idle(c, idle(next), now_);
    if (prev != next) {
        // Nobody reads that of an idle task, which would have to be fetched.
        const int16_t prev_prio = idle(prev) ? int16_t{120} : tasks_[prev.v].prio;
        const int16_t next_prio = idle(next) ? int16_t{120} : tasks_[next.v].prio;
        SwitchColumns row;
        row.n = 1;
        row.ts = &now_, row.cpu = &c.v;
        row.prev_task = &prev.v, row.prev_prio = &prev_prio, row.prev_state = &prev_state;
        row.next_task = &next.v, row.next_prio = &next_prio;
        if (idle(prev)) machine_.on_idle_state(c, std::nullopt);
        if (idle(next)) fair_.drain(c);
        let_go();
        machine_.on_switch(row, 0, fair_.delayed(prev));
        if (!told_.empty()) tell_limits();
    }
    if (idle(prev) != idle(next)) retime_sibling(c);
    if (idle(next)) {
        cpu.slice = -1;
        fair_.scheduled(c);
        machine_.on_idle_state(c, opt_.idle_state);
        if (policy_ && policy_->keeps_idle_cores()) {
            const bool whole = machine_.core_idle_but(c);
            if (whole || policy_->sees_every_idle()) policy_->cpu_idle(machine_.view(), c, whole);
        }
        return;
    }
    Task& t = tasks_[next.v];
    wait_ends(t);
    if (fair_.held(next)) ++out_.broken;  // throttled (V5)
    t.state = Task::State::running;
    t.cpu = c;
    fair_.start(c, next, now_);
    if (std::exchange(t.fresh_wake, false) && t.sample != kNoSample) {
        Woken& w = out_.woken[std::exchange(t.sample, kNoSample)];
        w.done = true;
        w.latency = now_ - t.woken_at;
        w.wait = now_ - t.queued_at;
        --open_;
    }
    plan(c);
    time_slice(c);
}

double Simulation::draw(const Stim& s, float own, uint64_t what) const {
    if (opt_.own_luck && own >= 0) return own;
    const auto index = static_cast<uint64_t>(&s - script_.stims.data());
    return uniform(opt_.seed, s.decision >= 0 ? static_cast<uint64_t>(s.decision) : ~index, what);
}

/// A wakeup is given, in time or before its sleeper sleeps.
void Simulation::fire(uint32_t stim, Cpu waker, TaskId curr) {
    const Stim& s = script_.stims[stim];
    if (!s.ends) return;
    fetch(wakee(s));
    if (open(stim, s.p)) return answer(s, waker);
    if (fired_at_[stim] >= 0) return;
    fired_at_[stim] = now_;
    Task& t = tasks_[wakee(s).v];
    const bool outside = s.source != Stim::Source::task;
    outside_ += outside;
    if (takes_any(t, stim)) {
        if (t.pace.first > 0) return message(s, waker, curr);
        if (t.state == Task::State::asleep && takes_any(t, t.waits_for)) {
            if (!t.leaving || t.race == kNone) return wake(stim, waker, curr);
        } else if (t.state == Task::State::running && t.next() && takes_any(t, t.next()->arg) &&
                   about_to_sleep(t, t.next()->arg, waker, curr)) {
            t.race_by = stim;
            return;
        }
        if (!heirs_.empty() && hands_over(stim, waker, curr)) return;
        t.tokens.push_back({now_, curr, stim});
        return;
    }
    if (t.state == Task::State::asleep && t.waits_for == stim) return wake(stim, waker, curr);
    if (about_to_sleep(t, stim, waker, curr)) return;
    if (!heirs_.empty() && hands_over(stim, waker, curr)) return;
    outside_early_ += outside;
}

/// `t` is on a run queue of `to` from now on.
void Simulation::moved(Cpu from, Cpu to) {
    if (from == to || !counted()) return;
    out_.cross_llc += !topo_.share_cache(from, to);
    out_.cross_node += topo_.node[from.v] != topo_.node[to.v];
}

/// Whether a wakee that has not left `prev` is queued there, without a look for another CPU (policies.md A1.5, A10).
bool Simulation::stays(Cpu waker, Cpu prev) const {
    if (!opt_.queues_wakeups || !opt_.at_least(5, 8)) return false;
    const CpuState& cpu = cpus_[prev.v];
    const int nr = machine_.view().nr[prev.v] -
                   (!idle(cpu.curr) && !cpu.reserved && tasks_[cpu.curr.v].state == Task::State::asleep);
    const bool full = opt_.at_least(6, 0) ? nr > 0 : nr > 1;
    return !topo_.share_cache(waker, prev) || (waker != prev && !full);
}

/// A sleeping task is woken now.
void Simulation::wake(uint32_t stim, Cpu waker, TaskId curr) {
    const TaskId p = wakee(script_.stims[stim]);
    Task& t = tasks_[p.v];
    if (t.leaving) {
        if (t.race != kNone) return;
        if (const uint32_t server = std::exchange(t.client_of, kNone); server != kNone) std::erase(clients_[server], p);
        t.race = t.waits_for, t.race_by = stim, t.race_late = false;
        t.race_waker = waker, t.race_curr = curr, t.race_at = now_;
        t.race_stays = stays(waker, t.cpu);
        return;
    }
    const bool on_cpu = now_ - t.asleep_at < kOnCpu / 4;
    wake(stim, waker, curr, now_, on_cpu ? Meets::leaving : Meets::asleep, on_cpu && stays(waker, t.cpu));
}

void Simulation::wake(uint32_t stim, Cpu waker, TaskId curr, Ns since, Meets meets, bool stays) {
    const Stim& s = script_.stims[stim];
    const TaskId p = wakee(s);
    Task& t = tasks_[p.v];
    fetch(t.cpu);  // it may go where it was
    __builtin_prefetch(t.ops + t.pos + 1);  // for when it runs
    t.prio = s.prio;
    t.hint = s.hint;
    t.waits_for = kNone;
    if (const uint32_t server = std::exchange(t.client_of, kNone); server != kNone) std::erase(clients_[server], p);
    const bool fork = s.kind == Kind::fork;
    if (fork) {
        t.cpu = waker;
        machine_.on_fork(p, curr);
        if (policy_) policy_->fork(curr, p, waker);
        if (!idle(curr)) fair_.fork(waker, curr, p);
    }
    const Cpu prev = t.cpu;
    t.luck = draw(s, s.luck.arrival, 1);
    t.preempt_luck = draw(s, s.luck.preempt, 2);
    // It may go where it went last time.
    costs_.expect(t.to_idle ? Path::idle : Path::busy, t.from, t.by_task, t.target, t.luck);
    const auto [chosen, placed, scanned] = place(s, t, waker, curr, stays);
    const bool idle_target = machine_.view().avail.test(chosen) && !cpus_[chosen.v].reserved;
    const uint32_t state = idle_target ? machine_.idle_state(chosen).value_or(kNone) : kNone;
    const Relation relation = relation_of(topo_, waker, chosen);
    const bool as_early = meets == Meets::late && s.early;
    const bool still = meets == Meets::late ? as_early : meets == Meets::leaving || now_ - t.asleep_at < kOnCpu;
    const bool back = still && chosen == prev;
    const Path path = fork ? Path::fork : idle_target && back ? Path::on_cpu : idle_target ? Path::idle : Path::busy;
    const bool raced = since < now_ || as_early;
    const uint32_t known = back ? (path == Path::busy) + raced : state != kNone ? state + 1 : 0;
    t.target = target_of(known, topo_.cap_orig[chosen.v], chosen != prev, !placed && path != Path::on_cpu);
    t.from = relation, t.by_task = s.in_task;
    costs_.expect(path, relation, s.in_task, t.target, t.luck);
    if (!idle_target) costs_.expect(Path::preempt, relation, s.in_task, t.target, t.preempt_luck);  // arrive()
    if (chosen != prev) fair_.leave(p);
    let_go();
    machine_.on_waking(p, s.prio, true, chosen);
    t.state = Task::State::waking;
    t.cpu = chosen;
    t.fresh_wake = true;
    t.to_idle = idle_target;
    if (s.kind == Kind::wake && s.source != Stim::Source::resume && counted()) {
        ++out_.wakeups;
        out_.wake_moves += chosen != prev;
    }
    if (fork && counted()) out_.fork_moves += chosen != prev;
    moved(prev, chosen);
    if (opt_.move_factor > 0 && s.chosen_known) {  // the script has the cost of the recorded move in it
        const bool same = prev == s.prev && chosen == s.chosen;
        const Ns more = same ? 0
                             : move_cost(topo_, prev, chosen, opt_.move_factor) -
                                   move_cost(topo_, s.prev, s.chosen, opt_.move_factor);
        const int64_t before = t.left;
        t.left = std::max<int64_t>(0, t.left + more * topo_.cap_orig[chosen.v]);
        added_ += t.left - before;
    }
    const bool empty = idle(cpus_[chosen.v].curr) && fair_.size(chosen) == 0;  // others may be on their way
    t.by_other = waker != chosen && opt_.queues_wakeups && (empty || relation == Relation::cross_llc);
    Cost cost = cost_of(s, t, path, relation);
    if (!fork && !back && meets == Meets::asleep)
        given_ = {t.by_other, relation, t.target, t.luck,
                  of_waker(t.by_other, !bypasses(t.target), cost.queue, scanned)};
    if (path == Path::idle || path == Path::busy) cost.queue += static_cast<Ns>(opt_.search_ns[s.in_task] * scanned);
    t.exit = cost.run;
    if (as_early) since = now_ - cost.leave;
    t.woken_at = since;
    t.sample = kNoSample;
    if (s.kind == Kind::wake && s.source != Stim::Source::resume && since >= script_.measured && since < script_.to) {
        t.sample = static_cast<uint32_t>(out_.woken.size());
        const bool met_itself = since < now_ && chosen == prev;  // its CPU was not idle then: it ran there
        out_.woken.push_back(
            {s.decision, since, 0, 0, p.v, prev.v, chosen.v, idle_target && !met_itself, placed, false});
        ++open_;
    }
    const Ns queued = std::max(now_, since + cost.queue);
    if (policy_) {
        fresh_.push_back(
            {now_ + opt_.unseen, opt_.hole > 0 ? queued - opt_.hole : queued + 1, waker, chosen, p, idle_target});
    }
    if (opt_.balance == Balance::forced)
        for (uint32_t m = s.moves; m != kNone; m = script_.moves[m].next)
            push(std::max(now_, since + script_.moves[m].ts - s.ts), What::move, m);
    CpuState& there = cpus_[chosen.v];
    if (t.by_other) there.coming = std::max(there.coming, queued);
    if (!s.in_task)
        cpus_[waker.v].wakes = std::max(cpus_[waker.v].wakes, waker == chosen ? queued : now_ + script_.timer_step);
    else if (!fork && !t.by_other && cpus_[waker.v].curr == curr)
        cpus_[waker.v].calling = queued;
    push(queued, What::arrive, p.v);
}

}  // namespace rewake::closed
