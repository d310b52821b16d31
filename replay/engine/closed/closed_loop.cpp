// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/closed_loop.hpp"

#include <algorithm>
#include <atomic>
#include <iterator>
#include <limits>
#include <map>
#include <thread>
#include <utility>

#include "replay/engine/closed/movable.hpp"
#include "replay/engine/closed/pulling.hpp"
#include "replay/engine/closed/yields.hpp"

namespace rewake::closed {
namespace {

bool any_fifo(const std::vector<Arm>& arms) {
    return std::ranges::any_of(arms, [](const Arm& a) { return a.options.fifo; });
}

}  // namespace

ClosedLoop::ClosedLoop(const Topology& topo, const TaskTable& tasks, std::vector<Arm> arms,
                       std::vector<WindowPlan> windows, std::vector<std::shared_ptr<const Costs>> costs,
                       Interrupts interrupts, FairSettings fair, ReplayOptions recorded, Running running,
                       unsigned threads)
    : topo_(topo),
      table_(tasks),
      arms_(std::move(arms)),
      plan_(std::move(windows)),
      costs_(std::move(costs)),
      irq_(topo, recorded.hz),
      softirqs_(static_cast<size_t>(topo.n_cpus)),
      machine_(topo, tasks),
      delays_(tasks, fair, machine_, arms_.empty() ? std::nullopt : std::optional(told().yields), any_fifo(arms_)),
      fair_(delays_.record()),
      order_(static_cast<size_t>(topo.n_cpus), tasks.tasks.size()),
      remembered_(tasks.tasks.size(), recorded.first_flips.front(), recorded.hz,
                  !arms_.empty() && arms_.front().options.at_least(5, 14)),
      last_seen_(arms_.empty() ? tasks.tasks.size() : 0),
      serving_(arms_.empty() ? tasks.tasks.size() : 0),
      reading_(arms_.empty() ? tasks.tasks.size() : 0),
      meeting_(arms_.empty() ? tasks.tasks.size() : 0),
      pooling_(arms_.empty() ? tasks.tasks.size() : 0),
      lockstep_(arms_.empty() ? tasks.tasks.size() : 0),
      since_(static_cast<size_t>(topo.n_cpus), -1),
      masks_(tasks),
      running_(std::move(running)),
      migration_cost_(recorded.migration_cost),
      threads_(std::max(1u, threads)) {
    for (const WindowPlan& w : plan_)
        if (w.costs >= costs_.size() || w.from > w.measured || w.measured >= w.to || w.to > w.horizon)
            throw std::invalid_argument("a window ends before it begins, or has no costs");
    const size_t n_tasks = tasks.tasks.size();
    interrupted_by(std::move(interrupts));
    for (Arm& arm : arms_) {
        for (const std::vector<uint32_t>* of : {&arm.options.meets, &arm.options.pools})
            if (!of->empty() && (of->size() != n_tasks ||
                                 std::ranges::any_of(*of, [&](uint32_t g) { return g != kNone && g >= n_tasks; })))
                throw std::invalid_argument("a group of those who meet or share work, or none, for each task expected");
        const std::vector<Awaited>& awaited = arm.options.awaited;
        if (!awaited.empty() && (awaited.size() != n_tasks || std::ranges::any_of(awaited, [&](const Awaited& a) {
                                     return a.by != kNone && a.by >= n_tasks;
                                 })))
            throw std::invalid_argument("who waits for it, or nobody, for each task expected");
        if (!arm.policy) continue;
        if (const IrqSettings* settings = arm.policy->irq_settings()) irq_.estimate(*settings);
    }
    machine_.set_exit_latency(recorded.exit_latency);
    machine_.set_tick(1'000'000'000 / recorded.hz, recorded.tick_at);
    machine_.set_clock_offset(recorded.clock_offset);
}

void ClosedLoop::interrupted_by(Interrupts interrupts) {
    if (interrupts.n_cpus() > static_cast<size_t>(topo_.n_cpus))
        throw std::invalid_argument("interrupts of other CPUs");
    interrupts_ = std::move(interrupts);
}

void ClosedLoop::run(const Batch& b, const DecisionColumns& d) {
    order_.build(b);
    if (arms_.empty()) last_seen_.hear(b, d);
    if (!primed_) {
        machine_.prime(b, order_, running_);
        if (b.waking.n) remembered_.begin(b.waking.ts[0], flip_rates(b.waking));
        for (int i = 0; i < topo_.n_cpus; ++i) {
            const Cpu c(static_cast<uint16_t>(i));
            if (!machine_.view().avail.test(c) || !machine_.core_idle_but(c)) continue;
            for (Arm& arm : arms_)
                if (arm.policy && arm.policy->keeps_idle_cores()) arm.policy->cpu_idle(machine_.view(), c, true);
        }
        for (uint16_t g = 0; g < phases_.size() && g < table_.groups.size(); ++g)
            if (phases_[g] >= 0 && table_.groups[g].period > 0) machine_.set_period(g, phases_[g]);
        machine_.begin_throttled(b.sw);
        refills_.resize(table_.groups.size());
        primed_ = true;
    }
    size_t row = 0;
    auto opens = [&](int64_t id) { return row < d.n && d.event_id[row] == id; };
    const auto expect = [&](uint32_t task) {
        const TaskId t(task);
        machine_.expect(t);
        fair_.expect(t);
        for (auto& w : open_) w->builder.expect(t);
    };
    const auto expect_on = [&](uint16_t cpu) {
        const Cpu c(cpu);
        machine_.expect(c);
        fair_.expect(c);
        for (auto& w : open_) w->builder.expect(c);
    };
    const auto soon = [&](Event e, size_t i) {
        if (e == Event::sw)
            expect(b.sw.prev_task[i]), expect(b.sw.next_task[i]), expect_on(b.sw.cpu[i]);
        else if (e == Event::waking)
            expect(b.waking.task[i]), expect_on(b.waking.cpu[i]);
    };
    order_.walk(soon, [&](Event e, size_t i) {
        const HeadColumns* head = nullptr;
        switch (e) {
            case Event::sw: head = &b.sw; break;
            case Event::waking: head = &b.waking; break;
            case Event::wakeup: head = &b.wakeup; break;
            case Event::migrate: head = &b.migrate; break;
            case Event::fork: head = &b.fork; break;
            case Event::exec: head = &b.exec; break;
            case Event::exit: head = &b.exit; break;
            case Event::idle: head = &b.idle; break;
            case Event::irq: head = &b.irq; break;
            case Event::balance: head = &b.balance; break;
            case Event::tick: head = &b.tick; break;
            default: return;
        }
        const Ns ts = head->ts[i];
        if (free() && ts >= tick_at_) look_at_ticks(ts);
        if (ts >= reach_at_) forget(head->id[i]), reach(ts);
        if (ts >= sample_at_) sample(ts);
        queued_time_ += (ts - std::exchange(queued_since_, ts)) * machine_.n_queued();
        if (opens(head->id[i])) {
            const Opening o = opening(d, row, ts);
            for (auto& w : open_) w->builder.on_opening(o, ts);
            machine_.advance(ts, o.prev, o.waker_known ? o.waker : o.prev, o.p);
            const bool busy = !machine_.view().avail.test(o.chosen);
            if (o.kind == Kind::wake && o.chosen_known) {
                const Machine::State before = machine_.task(o.p).state;
                const bool placed = was_placed(o.cls, true, before);
                if (placed) delays_.placed(o.p, o.chosen, ts);
                if (o.cls == DecisionClass::bypass_on_rq && before == Machine::State::sleeping)
                    coming_.push_back({o.p, o.prio, o.chosen});
                machine_.on_waking(o.p, o.prio, placed, o.chosen);
            }
            if (!arms_.empty()) remembered_.decided(o, ts, busy);
            if (o.chosen_known && o.kind != Kind::exec) fair_.sent(o.chosen, ts);
            if (o.kind == Kind::wake && arms_.empty()) {
                const bool by_task = o.waker_known && o.by_curr && !machine_.is_idle_task(o.curr);
                serving_.woken(o.p, by_task ? &o.curr : nullptr, ts);
                pooling_.woken(o.p, by_task ? &o.curr : nullptr);
                if (by_task)
                    reading_.woken(o.p, o.curr, ts), meeting_.woken(o.p, o.curr), lockstep_.woken(o.p, o.curr, ts);
            }
            ++row;
        }
        const bool cuts =
            e == Event::sw || e == Event::fork || e == Event::exit || e == Event::migrate || e == Event::irq;
        for (size_t k = cuts ? 0 : open_.size(); k < open_.size(); ++k)
            switch (ScriptBuilder& builder = open_[k]->builder; e) {
                case Event::sw: builder.on_switch(b.sw, i); break;
                case Event::fork: builder.on_fork(TaskId(b.fork.child[i])); break;
                case Event::exit: builder.on_exit(TaskId(b.exit.task[i]), Cpu(b.exit.cpu[i]), ts); break;
                case Event::migrate: {
                    const bool known = b.migrate.cause && !(b.migrate.cause_null && b.migrate.cause_null[i]);
                    builder.on_migrate(b.migrate, i,
                                       known ? std::optional(static_cast<Cause>(b.migrate.cause[i])) : std::nullopt);
                    break;
                }
                case Event::irq:
                    if (b.irq.kind && b.irq.kind[i] == kLocalTimer)
                        builder.on_timer_irq(Cpu(b.irq.cpu[i]), b.irq.entry[i]);
                    break;
                default: break;
            }
        if (e == Event::irq && b.irq.kind) softirqs_.on_irq(Cpu(b.irq.cpu[i]), ts);
        if (arms_.empty()) survey(b, e, i);
        if (!irq_.empty()) follow_interrupts(b, e, i);
        delays_.apply(b, e, i);  // the fair queues, too: a window begins with the vruntimes that the recording led to
        delays_.limits(ts, [this](uint16_t group, Ns at) { refills_[group].push_back(at); });
        if (e == Event::wakeup || e == Event::sw)
            std::erase_if(coming_, [&](const Coming& x) {
                return x.p.v == (e == Event::sw ? b.sw.next_task[i] : b.wakeup.task[i]);
            });
        if (e == Event::fork) remembered_.fork(TaskId(b.fork.task[i]), TaskId(b.fork.child[i]));
    });
    first_row_ += static_cast<int64_t>(d.n);
}

std::vector<ClosedLoop::Result> ClosedLoop::take(size_t most) {
    const auto end = results_.begin() + static_cast<std::ptrdiff_t>(std::min(most, results_.size()));
    std::vector<Result> out(std::move_iterator(results_.begin()), std::move_iterator(end));
    results_.erase(results_.begin(), end);
    return out;
}

void ClosedLoop::finish() { reach(std::numeric_limits<Ns>::max()); }

const SimOptions& ClosedLoop::told() const {
    static const SimOptions kNothing;
    return arms_.empty() ? kNothing : arms_.front().options;
}

/// Before `event`: lets go of the tasks that neither it nor a later one names.
void ClosedLoop::forget(int64_t event) {
    std::vector<bool> named;  // by a CPU
    const auto name = [&](TaskId t) {
        if (t.v < named.size()) named[t.v] = true;
    };
    gone_.before(event, [&](size_t page) {
        if (named.empty()) {
            named.resize(table_.tasks.size());
            machine_.each_named(name), fair_.each_named(name);
        }
        for (size_t i = page * Gone::kPage; i < std::min((page + 1) * Gone::kPage, table_.tasks.size()); ++i)
            if (const TaskId t(static_cast<uint32_t>(i)); named[i] || !machine_.done_with(t) || !fair_.done_with(t))
                return false;
        machine_.forget(page), fair_.forget(page), remembered_.forget(page);
        return true;
    });
}

/// Opens the windows that begin until `ts`, simulates those that end before: one after the other, so that few are open even
/// behind a gap in the recording.
void ClosedLoop::reach(Ns ts) {
    auto close = [this](Ns before) {
        while (!open_.empty() && open_.front()->builder.horizon() < before) {
            simulate(*open_.front());
            open_.pop_front();
        }
    };
    const bool needs = free() && (!free()->reads.empty() || !free()->meets.empty());
    while (next_ < plan_.size() && plan_[next_].from <= ts && ts != std::numeric_limits<Ns>::max()) {
        const WindowPlan& w = plan_[next_];
        close(w.from);
        Machine at = as_it_is();
        ScriptBuilder builder(topo_, table_, interrupts_, at, w.from, w.measured, w.to, w.horizon, told().asks,
                              told().yields, needs, told().awaited, free() ? free()->pull : 0);
        open_.push_back(std::make_unique<Open>(
            Open{next_, std::move(at), fair_.queues(), fair_.fifo(), irq_, remembered_.tasks(), std::move(builder)}));
        open_.back()->at.rebind();
        sample_at_ = std::min(sample_at_, open_.back()->builder.sample_at());
        ++next_;
    }
    close(ts);
    reach_at_ = next_ < plan_.size() ? plan_[next_].from : std::numeric_limits<Ns>::max();
    if (!open_.empty()) reach_at_ = std::min(reach_at_, open_.front()->builder.horizon() + 1);
    const Ns since = open_.empty() ? ts : open_.front()->builder.from();
    std::erase_if(chances_, [since](const Chance& x) { return x.tick < since; });
}

Machine ClosedLoop::as_it_is() const {
    Machine at = machine_;
    at.rebind();
    for (const Coming& x : coming_) at.on_waking(x.p, x.prio, true, x.on);
    return at;
}

void ClosedLoop::sample(Ns ts) {
    sample_at_ = std::numeric_limits<Ns>::max();
    for (auto& w : open_) {
        w->builder.on_time(ts, queued_since_, queued_time_, machine_.n_queued());
        sample_at_ = std::min(sample_at_, w->builder.sample_at());
    }
}

namespace {
/// What every arm would have to look through all wakeups for.
void count(Script& script) {
    for (const Stim& s : script.stims) {
        script.counted += s.kind == Kind::wake && s.ends && s.ts >= script.measured && s.ts < script.to;
        if (s.hint) script.hints.emplace_back(s.p, s.hint);
    }
}
}  // namespace

void ClosedLoop::simulate(Open& w) {
    Script script = w.builder.finish();
    script.masks = masks_.during(script.from, w.builder.horizon());
    std::ranges::copy_if(chances_, std::back_inserter(script.chances),
                         [&](const Chance& x) { return x.tick >= script.from && x.tick <= w.builder.horizon(); });
    // Where wakeups go where they went in the recording, they are those of the recording.
    if (const SimOptions* o = free()) {
        std::vector<std::vector<Stretch>>& stretches = w.builder.stretches();
        if (!o->meets.empty()) add_meetings(script, o->meets, stretches);
        if (!o->reads.empty()) add_messages(script, o->reads, o->serves, stretches);
        expect_answers(script, o->serves);
    }
    if (!told().yields.empty()) add_yields(script, told().yields);
    if (!arms_.empty()) find_shared(script, arms_.front().options.serves);
    count(script);
    const size_t first = results_.size();
    results_.resize(first + arms_.size());
    // Most arms begin alike.
    std::map<std::pair<bool, Balance>, std::vector<Happening>> plans;
    const auto like = [](const SimOptions& o) { return std::pair(o.absolute_timers, o.balance); };
    for (const Arm& arm : arms_)
        if (auto [plan, is_new] = plans.try_emplace(like(arm.options)); is_new)
            plan->second = planned(script, arm.options);
    std::atomic<size_t> next{0};
    auto work = [&] {
        for (size_t k; (k = next.fetch_add(1)) < arms_.size();) {
            Arm& arm = arms_[k];
            const SimOptions& options = arm.options;
            if (arm.policy) remember(arm.policy->memory(), w.remembered);
            Simulation one(topo_, table_, script, plans.at(like(options)), w.at, options.fifo ? *w.fifo : w.queues,
                           w.irq, arm.policy.get(), *costs_[plan_[w.window].costs], options);
            results_[first + k] = {k, w.window, one.run()};
        }
    };
    std::vector<std::thread> others;
    for (unsigned i = 1; i < std::min<size_t>(threads_, arms_.size()); ++i) others.emplace_back(work);
    work();
    for (std::thread& t : others) t.join();
    if (keeps_) scripts_.push_back(std::move(script));
}

Opening ClosedLoop::opening(const DecisionColumns& d, size_t row, Ns ts) const {
    auto null = [row](const bool* mask) { return mask && mask[row]; };
    Opening o;
    o.decision = first_row_ + static_cast<int64_t>(row);
    o.kind = static_cast<Kind>(d.kind[row]);
    o.cls = static_cast<DecisionClass>(d.cls[row]);
    o.p = TaskId(d.task[row]);
    o.prio = d.prio[row];
    o.waker_known = !null(d.waker_cpu_null) && !null(d.waker_task_null);
    if (o.waker_known) o.waker = Cpu(d.waker_cpu[row]), o.curr = TaskId(d.waker_task[row]);
    o.prev_known = !null(d.prev_cpu_null);
    o.prev = o.prev_known ? Cpu(d.prev_cpu[row]) : o.waker;
    o.chosen_known = !null(d.chosen_cpu_null);
    if (o.chosen_known) o.chosen = Cpu(d.chosen_cpu[row]);
    o.in_task = null(d.irq_ctx_null) || d.irq_ctx[row] == static_cast<uint8_t>(IrqCtx::task);
    o.hardirq = !null(d.irq_ctx_null) && d.irq_ctx[row] == static_cast<uint8_t>(IrqCtx::hardirq);
    o.by_curr = o.in_task || (!o.hardirq && o.waker_known && softirqs_.for_curr(o.waker, ts));
    o.by_other = o.waker_known && o.chosen_known && o.chosen != o.waker && told().queued_wakeups &&
                 (!topo_.share_cache(o.waker, o.chosen) || machine_.view().avail.test(o.chosen));
    o.sync = d.inferred.sync && d.inferred.sync[row];
    o.hint = d.hint ? d.hint[row] : 0;
    if (d.scanned) o.scanned = d.scanned[row];
    if (d.luck) o.luck = {d.luck[row], d.luck_preempt[row]};
    return o;
}

/// As the open loop does: every handler counts, and ticks stop on idle CPUs.
void ClosedLoop::follow_interrupts(const Batch& b, Event e, size_t i) {
    if (e == Event::irq)
        irq_.irq(Cpu(b.irq.cpu[i]), b.irq.entry[i], b.irq.ts[i]);
    else if (e == Event::sw)
        irq_.idle(Cpu(b.sw.cpu[i]), machine_.is_idle_task(TaskId(b.sw.next_task[i])), b.sw.ts[i]);
}

/// The first of those that most periods have within a millisecond.
std::vector<Ns> ClosedLoop::limit_phases() const {
    constexpr Ns kTogether = 1'000'000;
    std::vector<Ns> out(refills_.size(), -1);
    for (size_t g = 0; g < refills_.size(); ++g) {
        const Ns period = table_.groups[g].period;
        if (period == 0) continue;
        std::vector<Ns> seen;
        for (Ns ts : refills_[g]) seen.push_back((ts % period + period) % period);
        std::ranges::sort(seen);
        const size_t n = seen.size();
        for (size_t i = 0; i < n; ++i) seen.push_back(seen[i] + period);
        size_t most = 0;
        for (size_t i = 0, end = 0; i < n; ++i) {
            while (end < i + n && seen[end] <= seen[i] + kTogether) ++end;
            if (end - i > most) most = end - i, out[g] = seen[i];
        }
    }
    return out;
}

/// Somebody waits whom `to`, which is idle or goes idle, would pull on that level.
bool ClosedLoop::may_pull(Cpu to, size_t level, Has has, Ns now) {
    const Domain& d = topo_.domains[static_cast<size_t>(topo_.stack[to.v][level])];
    if (!d.load_balance) return false;
    Pulling pulling(fair_.queues(), machine_, d, to, has, 0);
    bool found = false;
    if (pulling.uneven())
        pulling.each(
            now, migration_cost_, [&](TaskId t) { return masks_.of(t, now).test(to); },
            [&](TaskId t) {
                const Machine::Task& x = machine_.task(t);
                return (x.state == Machine::State::queued || x.delayed) && masks_.of(t, now).test(to);
            },
            [&](TaskId) { found = true; }, [](TaskId) {});
    return found;
}

/// Which idle CPUs could pull at the ticks until `now`: where no recorded pull follows, they had not looked.
void ClosedLoop::look_at_ticks(Ns now) {
    const Ns jiffy = 1'000'000'000 / free()->hz, last = now - (now - free()->tick_at) % jiffy;
    Ns tick = std::exchange(tick_at_, last + jiffy);
    if (!Movable(fair_.queues(), machine_).any(topo_.words)) return;
    const bool cores = free()->at_least(6, 6);
    for (tick = std::max(tick, last - kLongest / jiffy * jiffy); tick <= last; tick += jiffy)
        for (size_t i = 0; i < topo_.stack.size(); ++i) {
            const Cpu c(static_cast<uint16_t>(i));
            if (!machine_.view().idle.test(c) || machine_.expects(c)) continue;
            for (size_t k = 0; k < topo_.stack[i].size(); ++k) {
                const Domain& d = topo_.domains[static_cast<size_t>(topo_.stack[i][k])];
                if (!balances_for_group(machine_, c, d, cores)) break;
                if (may_pull(c, k, Has::none, tick)) chances_.push_back({tick, c, static_cast<uint16_t>(k)});
            }
        }
}

/// `to` went idle, or pulled on level `until`: it had not pulled on those below.
void ClosedLoop::survey_pull(Cpu to, size_t until, Ns now) {
    const size_t idle = idle_class(machine_.view().avg_idle[to.v]), levels = topo_.stack[to.v].size();
    for (size_t k = 0; k < std::min(until + 1, levels); ++k)
        if (may_pull(to, k, Has::none_now, now)) ++survey_.chances[pull_level(k)][idle];
    if (until < levels) ++survey_.pulled[pull_level(until)][idle];
}

void ClosedLoop::survey(const Batch& b, Event e, size_t i) {
    if (e == Event::migrate) {
        if (!b.migrate.cause || b.migrate.cause[i] != static_cast<uint8_t>(Cause::newidle)) return;
        const Cpu from(b.migrate.orig_cpu[i]), to(b.migrate.dest_cpu[i]);
        if (const auto level = level_between(topo_, to, from)) survey_pull(to, *level, b.migrate.ts[i]);
    } else if (e == Event::idle) {
        if (b.idle.state_null && b.idle.state_null[i]) return;
        const uint32_t state = std::min(b.idle.state[i], 63u);
        if (state >= survey_.idle_states.size()) survey_.idle_states.resize(state + 1);
        ++survey_.idle_states[state];
    } else if (e == Event::sw) {
        const TaskId prev(b.sw.prev_task[i]);
        const Ns since = std::exchange(since_[b.sw.cpu[i]], b.sw.ts[i]);
        if (!machine_.is_idle_task(prev) && since >= 0)
            reading_.ran(prev, (b.sw.ts[i] - since) * topo_.cap_orig[b.sw.cpu[i]]);
        if (!machine_.is_idle_task(prev) && !still_runnable(b.sw.prev_state[i]))
            serving_.sleeps(prev, b.sw.ts[i]), reading_.sleeps(prev), meeting_.sleeps(prev),
                lockstep_.sleeps(prev, b.sw.ts[i]);
        if (!machine_.is_idle_task(prev) && !still_runnable(b.sw.prev_state[i]) && !is_dead(b.sw.prev_state[i]))
            pooling_.sleeps(prev);
        const TaskId next(b.sw.next_task[i]);
        if (!machine_.is_idle_task(next)) return reading_.runs(next, b.sw.ts[i]), lockstep_.runs(next, b.sw.ts[i]);
        const Cpu c(b.sw.cpu[i]);
        if (!machine_.expects(c) && Movable(fair_.queues(), machine_).any(topo_.words))
            survey_pull(c, topo_.stack[c.v].size(), b.sw.ts[i]);
    }
}

}  // namespace rewake::closed
