// SPDX-License-Identifier: GPL-2.0-or-later
// The state at the start of a recording, from what its first events imply.
#include <algorithm>
#include <array>
#include <utility>

#include "replay/model/machine.hpp"

namespace rewake {

namespace {

/// The first part of a recording that tells of the time before it: at least, and at most, when it weighs a quarter.
constexpr Ns kShortest = 50'000'000, kLongest = 64 * kPeltPeriod;

/// Weight of the time from the beginning of the recording to another: what is later weighs less, as it would in averages if
/// the time before the recording were its beginning backwards. Straight within a period.
class Backwards {
  public:
    explicit Backwards(Ns begin) : begin_(begin) {
        for (size_t i = 0; i < to_.size(); ++i) to_[i] = 1 - pelt_decay(static_cast<Ns>(i) * kPeltPeriod);
    }
    double to(Ns ts) const {
        const auto since = static_cast<uint64_t>(std::clamp<Ns>(ts - begin_, 0, kLongest - 1));
        const uint64_t i = since / kPeltPeriod;
        return to_[i] + (to_[i + 1] - to_[i]) * static_cast<double>(since % kPeltPeriod) / kPeltPeriod;
    }

  private:
    Ns begin_;
    std::array<double, kLongest / kPeltPeriod + 1> to_;
};

/// What a task did so far, by such weights.
struct Past {
    bool seen = false, queued = false, runs = false;
    double queued_from = 0, runs_from = 0, waited = 0;
    int32_t speed = 0;  ///< capacity of the CPU it runs on
    double worked = 0;  ///< while it ran, times that
    Cpu cpu{};
    int16_t prio = 120;
    void stop(double at) {
        if (std::exchange(runs, false)) worked += (at - runs_from) * speed;
    }
    void sleep(double at) {
        stop(at);
        if (std::exchange(queued, false)) waited += at - queued_from;
    }
    void queue(double at) {
        if (!std::exchange(queued, true)) queued_from = at;
    }
    void run(double at, int32_t capacity) {
        queue(at);
        if (!std::exchange(runs, true)) runs_from = at, speed = capacity;
    }
};

}  // namespace

/// Averages of the tasks that are older than the recording: nothing tells of them, so they are taken to be what its first
/// part makes of them.
void Machine::guess(const Batch& b, const EventOrder& order,
                    const std::vector<std::pair<uint16_t, uint32_t>>& running) {
    Ns last = now_;
    for (const HeadColumns& h : {HeadColumns(b.sw), HeadColumns(b.waking), HeadColumns(b.wakeup)})
        if (h.n > 0) last = std::max(last, h.ts[h.n - 1]);
    const Ns begin = now_, end = begin + std::min(last - begin, kLongest);
    const Backwards weight(begin);
    std::vector<Past> pasts;
    auto past = [&](uint32_t id, Cpu c, int prio) -> Past& {
        if (id >= pasts.size()) pasts.resize(id + 1 + id / 2);
        Past& x = pasts[id];
        if (!std::exchange(x.seen, true)) x.cpu = c, x.prio = static_cast<int16_t>(prio);
        return x;
    };
    auto met = [&](uint32_t id) { return id < pasts.size() && pasts[id].seen; };
    std::vector<uint32_t> forked;
    std::vector<SwitchClock> clocks(cpus_.size());
    std::vector<uint8_t> switched(cpus_.size(), 0);
    auto ran_before = [&](Cpu c, TaskId task, int prio) {  // without a switch, maybe for all that time
        if (std::exchange(switched[c.v], uint8_t{1}) || is_idle_task(task) || met(task.v)) return;
        past(task.v, c, prio).run(0, topo_.cap_orig[c.v]);
    };
    auto during = [&](const HeadColumns& h, size_t i) { return h.ts[i] < end; };
    order.walk([&](Event e, size_t i) {
        switch (e) {
            case Event::sw: {
                ran_before(Cpu(b.sw.cpu[i]), TaskId(b.sw.prev_task[i]), b.sw.prev_prio[i]);
                if (!during(b.sw, i)) break;
                const uint32_t prev = b.sw.prev_task[i], next = b.sw.next_task[i];
                const bool waits = still_runnable(b.sw.prev_state[i]);
                const double at = weight.to(clocks[b.sw.cpu[i]].at(b.sw.ts[i], preempted(TaskId(prev), waits),
                                                                   TaskId(next), topo_.cap_orig[b.sw.cpu[i]]));
                if (!is_idle_task(TaskId(prev))) {
                    Past& x = past(prev, Cpu(b.sw.cpu[i]), b.sw.prev_prio[i]);
                    waits ? x.stop(at) : x.sleep(at);
                }
                if (!is_idle_task(TaskId(next))) {
                    const bool known = met(next);
                    Past& x = past(next, Cpu(b.sw.cpu[i]), b.sw.next_prio[i]);
                    if (!known) x.queue(0);
                    x.run(at, topo_.cap_orig[b.sw.cpu[i]]);
                }
                break;
            }
            case Event::waking:
                if (during(b.waking, i)) past(b.waking.task[i], Cpu(b.waking.target_cpu[i]), b.waking.prio[i]);
                break;
            case Event::wakeup:
                if (during(b.wakeup, i)) {
                    const Cpu c(b.wakeup.target_cpu[i]);
                    past(b.wakeup.task[i], c, b.wakeup.prio[i]).queue(weight.to(b.wakeup.ts[i]));
                    clocks[c.v].woke(TaskId(b.wakeup.task[i]), b.wakeup.ts[i]);
                }
                break;
            case Event::fork: forked.push_back(b.fork.child[i]); break;
            default: break;
        }
    });
    for (auto [c, task] : running)
        if (c < cpus_.size()) ran_before(Cpu(c), TaskId(task), prio_hint(TaskId(task)));
    for (uint32_t child : forked)
        if (met(child)) pasts[child].seen = false;
    if (end - begin < kShortest) return;
    guessed_ = true;
    const double whole = weight.to(end);
    for (uint32_t id = 0; id < pasts.size(); ++id) {
        Past& x = pasts[id];
        if (!x.seen || !prio_is_fair(x.prio)) continue;
        x.sleep(whole);
        grow(TaskId(id));
        Task& t = tasks_[id];
        set_prio(t, x.prio);
        t.weight = table_.weight(TaskId(id), x.prio), t.sidle = table_.counts_idle(TaskId(id));
        t.pelt.load = x.waited / whole * t.weight;
        t.pelt.runnable = x.waited / whole * 1024;
        t.pelt.util = x.worked / whole;
        t.util_est = static_cast<int32_t>(t.pelt.util);
        attach(t, x.cpu);
    }
    if (groups_.any()) {
        std::vector<GroupQueues::At> all;
        for (uint16_t c = 0; c < cpus_.size(); ++c) all.push_back(at(Cpu(c)));
        groups_.begin(all);
    }
    for (uint16_t c = 0; c < cpus_.size(); ++c) update_blocked(Cpu(c));
}

void Machine::prime(const Batch& b, const EventOrder& order,
                    const std::vector<std::pair<uint16_t, uint32_t>>& running) {
    std::vector<uint8_t> seen;  // tasks that had their first event
    auto first = [&](uint32_t id) {
        if (id >= seen.size()) seen.resize(id + 1 + id / 2, 0);
        return std::exchange(seen[id], uint8_t{1}) == 0;
    };
    std::vector<uint8_t> cpu_seen(cpus_.size(), 0);
    auto was_running = [&](Cpu c, TaskId task, int prio) {
        if (std::exchange(cpu_seen[c.v], uint8_t{1})) return;
        cpus_[c.v].curr = task;
        cpus_[c.v].curr_known = true;
        if (is_idle_task(task)) return;
        grow(task);
        Task& t = tasks_[task.v];
        if (t.counted) return;
        first(task.v);
        set_prio(t, prio);
        count(task, t, c);
        t.state = State::running;
        cpus_[c.v].runs_fair = t.weight > 0;
        if (groups_.any()) groups_.run(t.weight > 0 ? t.group : 0, at(c));
    };
    for (const HeadColumns& h :
         {HeadColumns(b.sw), HeadColumns(b.waking), HeadColumns(b.wakeup), HeadColumns(b.migrate)})
        if (h.n > 0 && (now_ == 0 || h.ts[0] < now_)) now_ = h.ts[0];
    for (CpuState& c : cpus_) c.clock = c.pelt.at = now_, c.clock_at = c.ran_from = now_;
    began_ = now_;
    if (groups_.any()) next_tick_ = now_;
    balances_ = b.balance.n > 0;
    guess(b, order, running);
    order.walk([&](Event e, size_t i) {
        switch (e) {
            case Event::sw: {
                const Cpu c(b.sw.cpu[i]);
                const TaskId prev(b.sw.prev_task[i]), next(b.sw.next_task[i]);
                was_running(c, prev, b.sw.prev_prio[i]);
                if (!is_idle_task(prev)) first(prev.v);
                if (!is_idle_task(next) && first(next.v)) {  // was queued before the recording began
                    grow(next);
                    set_prio(tasks_[next.v], b.sw.next_prio[i]);
                    enqueue(next, tasks_[next.v], c);
                }
                break;
            }
            case Event::waking:
                if (first(b.waking.task[i])) {
                    grow(TaskId(b.waking.task[i]));
                    Task& t = tasks_[b.waking.task[i]];
                    t.state = State::sleeping;
                    t.cpu = Cpu(b.waking.target_cpu[i]);
                }
                break;
            case Event::wakeup: first(b.wakeup.task[i]); break;
            case Event::migrate:
                if (first(b.migrate.task[i])) {  // pulled while waiting: it was queued on orig
                    const TaskId p(b.migrate.task[i]);
                    grow(p);
                    set_prio(tasks_[p.v], b.migrate.prio[i]);
                    enqueue(p, tasks_[p.v], Cpu(b.migrate.orig_cpu[i]));
                }
                break;
            case Event::fork: first(b.fork.child[i]); break;
            default: break;
        }
    });
    for (auto [c, task] : running)
        if (c < cpus_.size()) was_running(Cpu(c), TaskId(task), prio_hint(TaskId(task)));
    for (size_t c = 0; c < cpus_.size(); ++c) {
        const Cpu cpu(static_cast<uint16_t>(c));
        if (!cpu_seen[c] && topo_.online.test(cpu) && view_.nr[c] == 0)
            cpus_[c].curr_known = true;  // silent: idle throughout
        refresh(cpu);
    }
    if (guessed_)
        for (uint16_t l = 0; l < scans_.size(); ++l) write_idle_scan(Llc(l));
}

Machine::Used Machine::used(Cpu c) const {
    const QueuePelt& p = cpus_[c.v].pelt;
    Used u{p.util_avg, p.runnable_avg};
    if (const Ns age = p.at - began_; !guessed_ && age >= kPeltPeriod) {
        const double known = 1 - pelt_decay(age);
        u = {static_cast<int64_t>(p.util / known), static_cast<int64_t>(p.runnable / known)};
    } else if (!guessed_) {
        u = {view_.fair[c.v] > 0 ? 1024 : 0, int64_t{1024} * view_.fair[c.v]};
    }
    u.util = std::min<int64_t>(std::max<int64_t>(u.util, cpus_[c.v].util_est), topo_.cap_orig[c.v]);
    return u;
}

}  // namespace rewake
