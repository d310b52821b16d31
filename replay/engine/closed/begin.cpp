// SPDX-License-Identifier: GPL-2.0-or-later
// How a window begins: on the recorded machine, with what comes from outside.
#include <algorithm>
#include <ranges>

#include "replay/engine/closed/pulling.hpp"
#include "replay/engine/closed/simulation.hpp"

namespace rewake::closed {

namespace {
constexpr Ns kMs = 1'000'000;
}

std::vector<Happening> planned(const Script& script, const SimOptions& options) {
    using What = Happening::What;
    std::vector<Happening> out;
    const auto push = [&](Ns at, What what, uint32_t a) {
        out.push_back({at, Happening::order_of(Happening::kPlanned + out.size(), what), a, what});
    };
    // Each kind is nearly in order by itself.
    size_t sorted = 0;
    const auto merge = [&] {
        const auto middle = out.begin() + static_cast<std::ptrdiff_t>(sorted);
        if (!std::ranges::is_sorted(middle, out.end(), {}, &Happening::key))
            std::ranges::sort(middle, out.end(), {}, &Happening::key);
        std::ranges::inplace_merge(out.begin(), middle, out.end(), {}, &Happening::key);
        sorted = out.size();
    };
    for (uint32_t i = 0; i < script.stims.size(); ++i) {
        const Stim& s = script.stims[i];
        const bool timed = s.source == Stim::Source::relative && !options.absolute_timers;
        if (s.source != Stim::Source::task && !timed && s.ends) push(s.ts, What::outside, i);
    }
    merge();
    for (uint32_t i = 0; i < script.reservations.size(); ++i) {
        if (script.reservations[i].woken < script.reservations[i].from)
            push(script.reservations[i].woken, What::expect, i);
        push(script.reservations[i].from, What::reserve, i);
        push(script.reservations[i].to, What::release, i);
    }
    merge();
    for (uint32_t i = 0; i < script.interrupts.size(); ++i)
        push(std::max(script.from, script.interrupts[i].from), What::irq, i);
    for (uint32_t i = 0; i < script.masks.later.size(); ++i) push(script.masks.later[i].ts, What::mask, i);
    if (options.balance == Balance::forced)
        for (uint32_t i = 0; i < script.moves.size(); ++i)
            if (script.moves[i].stim == kNone) push(script.moves[i].ts, What::move, i);
    merge();
    return out;
}

/// When each CPU balanced last, on each level: as an earlier pull there tells, or the next recorded one; else at any time in its
/// interval, that of an idle CPU before it was busy. When it does is told by recorded pulls, too.
void Simulation::begin_balancing() {
    const Ns jiffy = 1'000'000'000 / opt_.hz;
    std::vector<std::vector<Ns>> told(cpus_.size() * topo_.depth);
    for (const Move& m : script_.moves) {
        if (m.cause != Cause::periodic || m.ts < now_) continue;
        if (const auto k = level_between(topo_, m.dest, m.orig))
            told[m.dest.v * topo_.depth + *k].push_back(m.ts - (m.ts - opt_.tick_at) % jiffy);
    }
    std::vector<std::vector<Ns>> silent(told.size());
    for (const Chance& x : std::views::reverse(script_.chances))
        if (const size_t at = x.cpu.v * topo_.depth + x.level;
            x.tick >= now_ && std::ranges::find(told[at], x.tick) == told[at].end())
            silent[at].push_back(x.tick);
    for (size_t i = 0; i < cpus_.size(); ++i) {
        const Cpu c(static_cast<uint16_t>(i));
        for (size_t k = 0; k < topo_.stack[i].size(); ++k) {
            const Ns shortest = kMs * topo_.domains[static_cast<size_t>(topo_.stack[i][k])].least_ms;
            const Ns every = 2 * shortest * (machine_.view().idle.test(c) ? 1 : Balancer::kBusyFactor);
            const auto last = machine_.balanced(c, k);
            CpuState::Balancing& b = cpus_[i].balancing.emplace_back();
            b.told = std::move(told[i * topo_.depth + k]);
            std::ranges::sort(b.told, std::ranges::greater());
            b.silent = std::move(silent[i * topo_.depth + k]);
            b.interval = last && last->sure && last->found ? shortest : 2 * shortest;
            if (last && last->sure)
                b.last = last->at;
            else if (!b.told.empty())
                b.last = b.told.back() - ((b.told.back() - now_) / every + 1) * every;
            else
                b.last = now_ - static_cast<Ns>(uniform(opt_.seed, static_cast<uint32_t>(i | k << 16), 0) *
                                                static_cast<double>(
                                                    last ? std::min(every, now_ - last->at + 2 * shortest) : every));
        }
    }
}

/// The machine as recorded: who runs, who waits; what comes from outside.
void Simulation::begin() {
    resync_before_ = machine_.counts().resync;
    out_.woken.reserve(script_.counted);
    // Half of the way is behind who is on it, on average.
    const Ns arrives = costs_.draw(Path::busy, Relation::same_llc, true, 0, 0.5).queue / 2;
    for (const TaskId id : script_.present) {
        const size_t i = id.v;
        Task& t = tasks_[i];
        t.script = script_.script(id);
        t.shared = i < script_.shared.size() && script_.shared[i];
        if (!opt_.pinned && i < opt_.reads.size()) t.pace = opt_.reads[i];
        t.shared = t.shared || t.pace.first > 0;
        const TaskInfo& about = table_.info(id);
        t.kthread = about.kthread, t.policy = static_cast<uint32_t>(about.policy) & 3;
        allow(t, script_.masks.at_begin.empty() ? about.allowed : script_.masks.at_begin[i]);
        const Machine::Task* known = machine_.known(id);
        if (known) t.cpu = known->cpu, t.prio = known->prio;
        const bool throttled =
            known && known->state == Machine::State::throttled && table_.limited(table_.info(id).group) != 0;
        const bool there =
            known && t.script &&
            (known->state == Machine::State::queued || known->state == Machine::State::running || throttled);
        if (fair_.queued(id) && !there) fair_.dequeue(id, false);
        if (!t.script) continue;
        out_.ends += has_end(*t.script);
        t.ops = t.script->ops.data(), t.n_ops = static_cast<uint32_t>(t.script->ops.size());
        t.come_to(0);
        t.waits_for = t.script->first;
        t.asleep_at = now_;
        if (serves(id)) t.step = t.script->step(), t.in_steps = true;
        if (!known || idle(id)) continue;
        switch (known->state) {
            case Machine::State::queued:
                t.state = Task::State::queued;
                if (!fair_.queued(id)) fair_.enqueue(t.cpu, id, known->weight, FairQueues::How::moved, now_);
                wait_begins(t);
                break;
            case Machine::State::waking:
                t.state = Task::State::waking;
                push(now_ + arrives, What::arrive, id.v);
                break;
            case Machine::State::throttled:
                if (!throttled) break;
                t.state = Task::State::held;
                if (!fair_.queued(id)) fair_.enqueue(t.cpu, id, known->weight, FairQueues::How::moved, now_);
                break;
            default: break;
        }
    }
    for (const auto& [id, hint] : script_.hints) tasks_[id.v].hint = hint;
    for (size_t i = 0; i < cpus_.size(); ++i) {
        const Cpu c(static_cast<uint16_t>(i));
        CpuState& cpu = cpus_[i];
        cpu.curr = machine_.curr(c).value_or(TaskId(static_cast<uint32_t>(i)));
        cpu.since = cpu.spent = now_;
    }
    for (size_t i = 0; i < cpus_.size(); ++i) {
        const Cpu c(static_cast<uint16_t>(i));
        CpuState& cpu = cpus_[i];
        cpu.busy_sibling = opt_.smt != 1 && has_busy_sibling(c);
        const TaskId curr = cpu.curr;
        if (idle(curr)) continue;
        Task& t = tasks_[curr.v];
        if (!t.script) continue;  // of a higher class: its reservation begins now
        wait_ends(t);  // one that was moved before its CPU's first event seems to wait there
        t.state = Task::State::running;
        t.cpu = c;
        if (!fair_.queued(curr) || fair_.cpu(curr) != c) {
            fair_.enqueue(c, curr, machine_.known(curr)->weight, FairQueues::How::moved, now_);
            fair_.start(c, curr, now_);
        }
        if (const std::optional<Ns> told = fair_.told(c)) {
            if (now_ - *told < leaves_kernel_)
                request(c, *told + leaves_kernel_);
            else
                fair_.goes_on(c);
        }
        plan(c);
    }
    begin_balancing();
    begin_meetings();
    begin_pools();
    for (const TaskGroup& g : table_.groups)
        if (g.period > 0 && limits_.empty()) begin_limits();
    tasks_.each([this](uint32_t, Task& t) {
        if (t.state != Task::State::asleep || !t.script || !open(t.waits_for, t.script->id)) return;
        const TaskId server = script_.stims[t.waits_for].curr;
        if (!serves(server)) return;
        t.client_of = server.v;
        clients_[server.v].push_back(t.script->id);
    });
    for (size_t i = 0; i < cpus_.size(); ++i)
        if (const Cpu c(static_cast<uint16_t>(i)); is_idle(c) && fair_.size(c) > 0) request(c, now_);
    seq_ = after_planned_;
    const Ns period = 1'000'000'000 / opt_.hz;
    const Ns into = (now_ - opt_.tick_at) % period;
    push(now_ - into + period, What::tick, 0);
}

}  // namespace rewake::closed
