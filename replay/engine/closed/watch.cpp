// SPDX-License-Identifier: GPL-2.0-or-later
// What is watched while a window runs: tasks that wait beside idle CPUs, and how far it has left the recording.
#include <algorithm>
#include <utility>

#include "replay/engine/closed/simulation.hpp"

namespace rewake::closed {

void Simulation::wait_begins(const Task& t) {
    if (!t.free) return;
    ++waiting_;
    ++waiting_llc_[topo_.llc[t.cpu.v].v];
}

void Simulation::wait_ends(const Task& t) {
    if (!t.free || t.state != Task::State::queued) return;
    --waiting_;
    --waiting_llc_[topo_.llc[t.cpu.v].v];
}

void Simulation::close(Ns& since, Ns now, Violations& into) const {
    if (since < 0) return;
    // Only what counts of it.
    const Ns took = std::min(now, script_.to) - std::max(std::exchange(since, -1), script_.measured);
    if (took < 10'000) return;  // no longer than an interrupt takes that wakes an idle CPU (policies.md D1)
    into.total += took;
    ++into.over_10us;
    into.over_100us += took >= 100'000;
    into.over_1ms += took >= 1'000'000;
}

/// Follows whether someone waits while a CPU that would do is idle.
void Simulation::watch() {
    bool machine = false, llc = false;
    const CpuMask& avail = machine_.view().avail;
    // From somewhat before it counts, so that what then is so is known.
    const bool looks = now_ >= script_.measured - 1'000'000 && now_ < script_.to;
    if (waiting_ > 0 && looks && avail.any(topo_.words)) {
        machine = true;
        for (size_t l = 0; !llc && l < waiting_llc_.size(); ++l)
            for (int i = 0; waiting_llc_[l] > 0 && !llc && i < topo_.words; ++i)
                llc = avail.w[i] & topo_.llc_span[l].w[i];
    }
    if (machine && bad_machine_ < 0) bad_machine_ = now_;
    if (!machine) close(bad_machine_, now_, out_.on_machine);
    if (llc && bad_llc_ < 0) bad_llc_ = now_;
    if (!llc) close(bad_llc_, now_, out_.in_llc);
}

/// Whether the window may go on (policies.md D2.8).
bool Simulation::judge() {
    const Ns since = now_ - script_.from;
    const auto at = static_cast<size_t>(since / Script::kSample);
    if (at + 1 >= script_.runnable.size() || since < std::min<Ns>(50'000'000, script_.to - script_.measured))
        return true;
    const int64_t* of = &script_.runnable[at];
    const int64_t recorded =
        of[0] - script_.runnable[0] + (of[1] - of[0]) * (since % Script::kSample) / Script::kSample;
    if (queued_time_ > 2 * recorded + since / 2 || recorded > 2 * queued_time_ + since / 2)
        out_.why = "queued work";
    else if (outside_ > 400 && outside_early_ * 20 > outside_)
        out_.why = "early wakeups";
    out_.diverged = !out_.why.empty();
    return !out_.diverged;
}

}  // namespace rewake::closed
