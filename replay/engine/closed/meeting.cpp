// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/meeting.hpp"

#include <algorithm>
#include <utility>

#include "replay/engine/closed/simulation.hpp"

namespace rewake::closed {

void Meeting::woken(TaskId t, TaskId waker) {
    std::vector<uint32_t>& burst = bursts_[waker.v];
    if (std::ranges::find(burst, t.v) != burst.end()) close(waker.v);  // of two meetings
    if (burst.size() < kMost) burst.push_back(t.v);
}

void Meeting::close(uint32_t waker) {
    std::vector<uint32_t>& burst = bursts_[waker];
    if (burst.empty()) return;
    ++given_[waker];
    if (burst.size() + 1 >= kLeast && burst.size() < kMost) {
        burst.push_back(waker);
        std::ranges::sort(burst);
        auto at = sets_.find(burst);
        if (at == sets_.end() && sets_.size() < kSets) at = sets_.emplace(burst, Set{}).first;
        if (at != sets_.end()) {
            ++at->second.times;
            at->second.woke.resize(burst.size());
            at->second.woke[static_cast<size_t>(std::ranges::lower_bound(burst, waker) - burst.begin())] = true;
        }
    }
    burst.clear();
}

std::vector<uint32_t> Meeting::groups() const {
    std::vector<uint32_t> out(bursts_.size(), kNone);
    uint32_t n = 0;
    for (const auto& [members, set] : sets_) {
        int64_t given = 0;
        for (uint32_t t : members) given += given_[t];
        const auto woke = static_cast<size_t>(std::ranges::count(set.woke, true));
        // Half of what they give wakes all the others; then no task is in two groups.
        if (set.times < kFewest || given > 2 * set.times || woke * 2 < members.size()) continue;
        for (uint32_t t : members) out[t] = n;
        ++n;
    }
    return out;
}

namespace {

/// One task woke the others, as far as they slept.
struct Round {
    TaskId waker{};
    uint32_t stim = kNone;  ///< its first wakeup
    std::vector<TaskId> woken;
};

/// Where a meeting goes that the recording does not show.
struct Missing {
    uint32_t op = 0;
    int64_t done = 0;  ///< work towards that one
    uint32_t stim = kNone;
};

/// One group of a script.
class Group {
  public:
    Group(Script& script, const std::vector<uint32_t>& groups, uint32_t which,
          std::vector<std::vector<Stretch>>& stretches)
        : script_(script), groups_(groups), which_(which), stretches_(stretches), begins_(script.stims.size()) {
        for (uint32_t i = 0; i < script.tasks.size(); ++i)
            if (groups[script.tasks[i].id.v] == which) members_.push_back(i);
    }
    /// Returns the work from one wakeup to the next.
    int64_t run() {
        std::vector<int64_t> between;
        for (uint32_t i : members_) find_rounds(script_.tasks[i], between);
        const int64_t step = std::max<int64_t>(1, between.empty() ? 0 : middle(between));
        for (uint32_t i : members_) {
            TaskScript& t = script_.tasks[i];
            rewrite(t, missing(t), step);
            stretches_[t.id.v].clear();
        }
        return step;
    }

  private:
    bool ours(uint32_t stim) const {
        if (stim == kNone) return false;
        const Stim& s = script_.stims[stim];
        return s.source == Stim::Source::task && s.kind == Kind::wake && groups_[s.p.v] == which_ &&
               groups_[s.curr.v] == which_;
    }
    void find_rounds(const TaskScript& t, std::vector<int64_t>& between) {
        Round* open = nullptr;
        for (const Op& op : t.ops) {
            if (op.kind != Op::Kind::wake) {
                open = nullptr;
            } else if (ours(op.arg)) {
                const TaskId p = script_.stims[op.arg].p;
                if (open && std::ranges::find(open->woken, p) == open->woken.end()) {
                    between.push_back(op.work);
                } else {
                    open = &rounds_.emplace_back(Round{t.id, op.arg, {}});
                    begins_[op.arg] = true;
                }
                if (script_.stims[op.arg].ends) open->woken.push_back(p);
            }
        }
    }
    /// It was awake when the others were woken: it had come just before.
    std::vector<Missing> missing(const TaskScript& t) {
        std::vector<Missing> out;
        const std::vector<Stretch>& ran = stretches_[t.id.v];
        for (const Round& r : rounds_) {
            if (r.waker == t.id || std::ranges::find(r.woken, t.id) != r.woken.end()) continue;
            const Ns ts = script_.stims[r.stim].ts;
            Missing m{0, 0, hidden(r.stim, t.id)};
            if (auto k = std::ranges::upper_bound(ran, ts, {}, &Stretch::from); k != ran.begin()) {
                --k;
                m.op = k->op, m.done = k->done + (std::min(ts, k->to) - k->from) * k->capacity;
            }
            out.push_back(m);
        }
        std::ranges::stable_sort(
            out, [](const Missing& a, const Missing& b) { return a.op != b.op ? a.op < b.op : a.done < b.done; });
        return out;
    }
    uint32_t hidden(uint32_t like, TaskId p) {
        Stim m = unseen(script_.stims[like]);
        m.p = p;
        script_.stims.push_back(m);
        return static_cast<uint32_t>(script_.stims.size() - 1);
    }
    void rewrite(TaskScript& t, const std::vector<Missing>& added, int64_t step) {
        std::vector<Op> out;
        size_t next = 0;
        int64_t carried = 0;  // of wakeups that are no longer there
        for (uint32_t k = 0; k < t.ops.size(); ++k) {
            Op op = t.ops[k];
            int64_t taken = 0;
            for (; next < added.size() && added[next].op == k; ++next) {
                const int64_t work = std::clamp<int64_t>(added[next].done, taken, op.work) - taken;
                out.push_back({Op::Kind::meet, added[next].stim, work + std::exchange(carried, 0)});
                taken += work;
            }
            op.work += std::exchange(carried, 0) - taken;
            if (op.kind == Op::Kind::wake && ours(op.arg)) {
                if (!begins_[op.arg]) {
                    carried = std::max<int64_t>(0, op.work - step);
                    continue;
                }
                op = {Op::Kind::meet, hidden(op.arg, t.id), op.work};
            } else if (op.kind == Op::Kind::block && ours(op.arg)) {
                op.kind = Op::Kind::meet;
            }
            out.push_back(op);
        }
        t.ops = std::move(out);
    }

    Script& script_;
    const std::vector<uint32_t>& groups_;
    uint32_t which_;
    std::vector<std::vector<Stretch>>& stretches_;
    std::vector<uint32_t> members_;  ///< indexes of scripts
    std::vector<Round> rounds_;
    std::vector<bool> begins_;  ///< by Stim: a round
};

}  // namespace

void add_meetings(Script& script, const std::vector<uint32_t>& groups, std::vector<std::vector<Stretch>>& stretches) {
    script.meets.group = groups;
    for (uint32_t t : groups)
        if (t != kNone && t >= script.meets.step.size()) script.meets.step.resize(t + size_t{1});
    for (uint32_t g = 0; g < script.meets.step.size(); ++g)
        script.meets.step[g] = Group(script, groups, g, stretches).run();
}

/// Who meets others is there, or has come already.
void Simulation::begin_meetings() {
    gatherings_.resize(script_.meets.step.size());
    for (size_t i = 0; i < script_.meets.group.size(); ++i) {
        const uint32_t g = script_.meets.group[i];
        if (g == kNone) continue;
        const Task& t = tasks_[i];
        if (!t.script || (t.n_ops == 0 && t.waits_for == kNone)) continue;
        ++gatherings_[g].present;
        if (t.state != Task::State::asleep || t.waits_for == kNone) continue;
        const Stim& s = script_.stims[t.waits_for];
        if (s.source == Stim::Source::task && s.kind == Kind::wake && script_.meets.group[s.curr.v] == g)
            gatherings_[g].came.push_back(t.script->id);
    }
}

/// `id` has come to where all of its group meet. Who comes last wakes the others, one after the other; else it sleeps: false.
bool Simulation::comes_last(TaskId id) {
    const uint32_t group = script_.meets.group[id.v];
    Gathering& g = gatherings_[group];
    if (g.came.size() + 1 < g.present) {
        g.came.push_back(id);
        return false;
    }
    Task& t = tasks_[id.v];
    for (TaskId other : g.came) tasks_[other.v].client_of = id.v;
    clients_[id.v] = std::exchange(g.came, {});
    if (clients_[id.v].empty()) return true;
    t.step = script_.meets.step[group];
    t.in_steps = true;
    t.more = std::exchange(t.left, 0);
    return true;
}

/// `id` comes no more. If all the others have come, they go on.
void Simulation::quits(TaskId id, Cpu c) {
    if (id.v >= script_.meets.group.size() || script_.meets.group[id.v] == kNone) return;
    Gathering& g = gatherings_[script_.meets.group[id.v]];
    if (--g.present > g.came.size()) return;
    for (TaskId other : std::exchange(g.came, {})) wake(tasks_[other.v].waits_for, c, id);
}

}  // namespace rewake::closed
