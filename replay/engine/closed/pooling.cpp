// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/pooling.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "replay/engine/closed/simulation.hpp"

namespace rewake::closed {

void Pooling::processes(const std::vector<int64_t>& of) {
    std::unordered_map<int64_t, uint32_t> numbers;
    for (size_t t = 0; t < std::min(of.size(), tasks_.size()); ++t)
        if (of[t] >= 0)
            tasks_[t].process = numbers.try_emplace(of[t], static_cast<uint32_t>(numbers.size())).first->second;
    processes_.resize(numbers.size());
}

void Pooling::sleeps(TaskId t) {
    if (const uint32_t of = tasks_[t.v].process; of != kNone) processes_[of].asleep.push_back(t.v);
}

void Pooling::woken(TaskId t, const TaskId* waker) {
    Task& x = tasks_[t.v];
    if (x.process == kNone) return;
    Process& of = processes_[x.process];
    const auto at = std::ranges::find(of.asleep.rbegin(), of.asleep.rend(), t.v);
    if (at == of.asleep.rend()) return;
    if (waker && *waker != t && tasks_[waker->v].process == x.process) {
        ++of.given;
        of.last += at == of.asleep.rbegin();
        of.chance += 1.0 / static_cast<double>(of.asleep.size());
        const auto end = x.wakers.begin() + x.n_wakers;
        if (x.n_wakers < kSeveral && std::find(x.wakers.begin(), end, waker->v) == end)
            x.wakers[x.n_wakers++] = waker->v;
    }
    of.asleep.erase(std::next(at).base());
}

std::vector<uint32_t> Pooling::pools() const {
    struct Threads {
        uint32_t woken = 0, by_several = 0;
    };
    std::vector<Threads> threads(processes_.size());
    for (const Task& t : tasks_)
        if (t.n_wakers > 0) ++threads[t.process].woken, threads[t.process].by_several += t.n_wakers == kSeveral;
    std::vector<uint32_t> number(processes_.size(), kNone);
    uint32_t n = 0;
    for (size_t i = 0; i < processes_.size(); ++i) {
        const Process& p = processes_[i];
        if (p.given >= kFewest && static_cast<double>(p.last) > kOften * p.chance &&
            threads[i].by_several >= kSeveral && 2 * threads[i].by_several >= threads[i].woken)
            number[i] = n++;
    }
    std::vector<uint32_t> out;
    for (const Task& t : tasks_) out.push_back(t.n_wakers == kSeveral ? number[t.process] : kNone);
    return out;
}

void Simulation::begin_pools() {
    if (opt_.pinned || std::ranges::all_of(opt_.pools, [](uint32_t p) { return p == kNone; })) return;
    heirs_.resize(opt_.pools.size());
    for (uint32_t t = 0; t < opt_.pools.size(); ++t) {
        players_.push_back(TaskId(t));
        if (const uint32_t p = opt_.pools[t]; p != kNone)
            members_.resize(std::max<size_t>(members_.size(), p + 1)), members_[p].push_back(t);
    }
}

/// The pool whose threads wait for such a wakeup; kNone: it is for that task alone.
uint32_t Simulation::pool_of(const Stim& s) const {
    return s.source == Stim::Source::task && s.kind == Kind::wake ? opt_.pools[s.p.v] : kNone;
}

/// Work comes to a thread of a pool that is awake: who fell asleep last of those that wait for the like takes it, with all that
/// the other was to do after it, and that one goes on in its place when it sleeps.
bool Simulation::hands_over(uint32_t stim, Cpu waker, TaskId curr) {
    const Stim& s = script_.stims[stim];
    const uint32_t pool = pool_of(s);
    if (pool == kNone) return false;
    const TaskId busy = wakee(s);
    Task& t = tasks_[busy.v];
    const bool awake =
        t.state == Task::State::waking || t.state == Task::State::queued || t.state == Task::State::running;
    if (!awake || !t.tokens.empty() || t.race != kNone || heirs_[busy.v].ops) return false;
    uint32_t at = t.pos;
    while (at < t.n_ops && t.ops[at].kind == Op::Kind::wake) ++at;
    if (at + 1 >= t.n_ops || t.ops[at].kind != Op::Kind::block) return false;
    if (t.ops[at].arg != stim && !takes_any(t, t.ops[at].arg)) return false;
    const uint32_t from = opt_.pools[s.curr.v];
    const auto waits = [&](uint32_t m) {
        const Task& x = tasks_[m];
        if (x.state != Task::State::asleep || x.leaving || x.race != kNone || x.waits_for == kNone || x.pos == 0)
            return false;
        const Stim& other = script_.stims[x.waits_for];
        return pool_of(other) == pool && opt_.pools[other.curr.v] == from && x.ops[x.pos - 1].kind == Op::Kind::block;
    };
    uint32_t heir = kNone;
    for (uint32_t m : members_[pool])
        if (waits(m) && (heir == kNone || tasks_[m].asleep_at > tasks_[heir].asleep_at)) heir = m;
    if (heir == kNone) return false;
    Task& x = tasks_[heir];
    heirs_[busy.v] = {x.script, x.ops, x.n_ops, x.pos - 1, t.ops + at};
    std::swap(players_[t.script->id.v], players_[x.script->id.v]);
    x.passed -= x.left;
    x.script = t.script, x.ops = t.ops, x.n_ops = t.n_ops;
    x.come_to(at + 1);
    x.waits_for = stim;
    wake(stim, waker, curr);
    return true;
}

/// What runs has come to the sleep from which another thread went on for it: it sleeps in the place of that one.
bool Simulation::changes_place(TaskId id) {
    Heir& h = heirs_[id.v];
    Task& t = tasks_[id.v];
    if (!h.ops || t.ops + t.pos != h.until) return false;
    t.script = h.script, t.ops = h.ops, t.n_ops = h.n_ops, t.pos = h.pos;
    t.coming = {t.ops[t.pos].kind, t.ops[t.pos].arg};
    h = {};
    return true;
}

}  // namespace rewake::closed
