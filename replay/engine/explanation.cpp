// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/explanation.hpp"

namespace rewake {

Explanation begin_explanation(int64_t event_id, const View& v, const Wakeup& w) {
    Explanation e;
    e.event_id = event_id;
    e.view = v;
    e.w = w;
    e.allowed = *w.allowed;
    if (v.irq) e.irq = *v.irq;
    return e;
}

Explanation::Instance begin_instance(Policy& p, const View& v, const Wakeup& w, Reasons& listener) {
    Explanation::Instance i;
    i.has_path = true;
    i.waker_load = v.load[w.waker.v];
    i.prev_load = v.load[w.prev.v];
    i.p_load = w.p_load;
    i.curr_load = w.curr_load;
    auto state = [&](TaskId t) { return t.v < p.state.tasks.size() ? p.state.tasks[t.v] : PolicyState::Task{}; };
    const PolicyState::Task wakee = state(w.p);
    if (p.state.buddies.empty()) {  // else the same bit stands for the buddies
        i.p_flips = wakee.flips;
        i.curr_flips = state(w.curr).flips;
    }
    if (wakee.has_recent) i.recent = wakee.recent;
    i.hic = p.state.hic;
    p.reasons = &listener;
    return i;
}

}  // namespace rewake
