// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/model/fair/delays.hpp"

namespace rewake {

void Delays::apply(const Batch& b, Event e, size_t i) {
    const HeadColumns* head = nullptr;
    switch (e) {
        case Event::sw: head = &b.sw; break;
        case Event::wakeup: head = &b.wakeup; break;
        case Event::migrate: head = &b.migrate; break;
        case Event::fork: head = &b.fork; break;
        default: return machine_.apply(b, e, i);
    }
    record_.follow(b, e, i);
    let_go(head->ts[i]);
    if (e == Event::sw)
        machine_.on_switch(b.sw, i, delayed(TaskId(b.sw.prev_task[i])));
    else
        machine_.apply(b, e, i);
}

bool Delays::places(TaskId p, bool certain, Ns ts) {
    if (!certain) return !delayed(p);
    record_.left(p, machine_.task(p).blocked_at, ts);
    let_go(ts);
    return true;
}

void Delays::placed(TaskId p, Cpu chosen, Ns ts) {
    record_.sent(chosen, ts);
    record_.placed(p, chosen, ts);
    let_go(ts);
}

/// Who has left its queue no longer counts.
void Delays::let_go(Ns ts) {
    for (TaskId t : record_.gone()) machine_.let_go(t, ts);
    record_.forget_gone();
}

}  // namespace rewake
