// SPDX-License-Identifier: GPL-2.0-or-later
// The recorded kernel's own column learns what its kernel did, where it would have done otherwise itself.
#include <algorithm>
#include <array>

#include "replay/engine/open_loop.hpp"

namespace rewake {

/// Looks at one CPU as if it went idle, or busy, a moment earlier or later, so that it comes to the recorded choice: what is
/// decided then. Leaves the private state as it is.
std::optional<OpenLoop::Otherwise> OpenLoop::otherwise(Policy& policy, const Wakeup& w, Cpu chosen, Cpu made) {
    PolicyState& s = policy.memory();
    SavedState after;
    after.take(s, w);
    std::optional<Otherwise> found;
    const std::array<Cpu, 4> looked{w.prev, chosen, made, w.waker};
    for (auto c = looked.begin(); c != looked.end() && !found; ++c) {
        if (std::find(looked.begin(), c, *c) != c) continue;
        state_.put(s, w);
        machine_.suppose(*c, !machine_.view().avail.test(*c));
        const Decision other = policy.decide(machine_.view(), w, nullptr, chosen);
        machine_.look_again(*c);
        if (other.cpu == chosen) found = {other.branch, s.task(w.p), s.hic};
    }
    after.put(s, w);
    return found;
}

/// The previous CPU, busy when the placement ends, may have looked idle to it: a wakeup is on its way there whose own placement
/// was not over when this one began, or what runs there leaves it within a third of the time that a placement takes. Later than
/// that most had found it busy (54 probed recordings).
bool OpenLoop::looked_idle(const Wakeup& w) const {
    const Ns took = settles(w.waker);
    if (machine_.idle_but_for_wakeups(w.prev)) return began_[w.waker.v] - sent_[w.prev.v] < took;
    const Ns left = segment_[w.prev.v];
    return left != kNoEnd && left - machine_.view().now < took / 3 && machine_.runs_the_last(w.prev);
}

void OpenLoop::follow(Policy& policy, const Wakeup& w, Cpu chosen, const Decision& blind, const Decision& made) {
    const bool decided = w.kind == Kind::wake && made.class_called && policy.wide_factor(w.waker);
    // An input inferred from the recorded choice itself explains that no better than a CPU that was idle a moment before.
    const bool forced = made.cpu == chosen && blind.cpu != chosen && chosen == w.prev && looked_idle(w);
    const bool asks = decided && (made.cpu != chosen || forced);
    const std::optional<Otherwise> other = asks ? otherwise(policy, w, chosen, made.cpu) : std::nullopt;
    const bool early = other && (other->branch == Branch::x1 || other->branch == Branch::x2);
    const bool guessed = policy.follow(machine_.view(), w, chosen, made, state_.p, state_.hic);
    if (other && (early || !forced)) {
        PolicyState::Task& p = policy.memory().task(w.p);
        p.recent = other->p.recent, p.has_recent = other->p.has_recent;
        // Nor does an early exit hang on has_idle_cores, but then a wrong flag explains the miss as well as a CPU that looked
        // otherwise, and is more frequent: Policy::follow().
        if (!early || forced) policy.memory().hic = other->hic;
        if (!early) return;
    }
    if (!guessed) return;
    const uint16_t llc = topo_.llc[chosen.v].v;
    const bool cleared = llc < state_.hic.size() && state_.hic[llc] && !policy.memory().hic[llc];
    guesses_.push_back({w.p, chosen, w.prev, state_.p, false, cleared});
}

}  // namespace rewake
