// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/steps/wakee.hpp"

#include <algorithm>

namespace rewake {

void record_wakee(PolicyState& s, TaskId curr, TaskId p, uint64_t jiffies, uint32_t hz) {
    PolicyState::Task& k = s.task(curr);
    if (static_cast<int64_t>(jiffies - (k.decay_ts + hz)) > 0) {
        k.flips >>= 1;  // once, however long the gap
        k.decay_ts = jiffies;
    }
    if (!k.has_last_wakee || k.last_wakee != p) {
        k.last_wakee = p;
        k.has_last_wakee = true;
        ++k.flips;
    }
}

bool wake_wide(uint32_t curr_flips, uint32_t p_flips, int llc_size) {
    const uint64_t most = std::max(curr_flips, p_flips), least = std::min(curr_flips, p_flips);
    const uint64_t factor = static_cast<uint64_t>(llc_size);
    return least >= factor && most >= least * factor;
}

RecordWakee::RecordWakee(bool pre_core)
    : Step(pre_core ? Stage::book_in : Stage::gate,
           pre_core ? "record_wakee, before the core asks the class" : "record_wakee") {}

bool RecordWakee::run(Ctx& x) const {
    record_wakee(x.s, x.w.curr, x.w.p, x.w.jiffies, x.w.hz);
    return false;
}

Gate::Gate(bool exiting)
    : Step(Stage::gate, exiting ? "want_affine: waker CPU allowed, not wake_wide; no sync while curr exits"
                                : "want_affine: waker CPU allowed, not wake_wide"),
      exiting_(exiting) {}

bool Gate::run(Ctx& x) const {
    x.sync = x.w.sync && !(exiting_ && x.w.curr_exiting);
    x.look(kFlips);
    const uint32_t p_flips = x.s.task(x.w.p).flips;
    x.want_affine =
        !wake_wide(x.s.task(x.w.curr).flips, p_flips, x.t.llc_size(x.w.waker)) && x.w.allowed->test(x.w.waker);
    return false;
}

}  // namespace rewake
