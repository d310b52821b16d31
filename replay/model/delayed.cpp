// SPDX-License-Identifier: GPL-2.0-or-later
// Delayed dequeues in what placement reads: what a task weighs that sleeps and goes on competing (fair/delays.hpp says which).
#include "replay/model/machine.hpp"

namespace rewake {

/// It sleeps, and goes on competing for its CPU: its weight stays there (set_delayed()).
void Machine::delay(Task& t) {
    accrue(t.cpu);
    accrue(t, t.state == State::running);
    t.delayed = true;
    view_.delayed[t.cpu.v] += 1;
    view_.fair[t.cpu.v] -= 1;
    estimate(t, false);
    refresh(t.cpu);
}

void Machine::let_go(TaskId p, Ns ts) {
    if (p.v >= tasks_.size() || !tasks_[p.v].delayed) return;
    now_ = ts;
    uncount(tasks_[p.v]);
}

/// `c` goes idle: whoever is delayed there has left.
void Machine::let_all_go(Cpu c) {
    tasks_.each([&](uint32_t, Task& t) {
        if (t.delayed && t.cpu == c) uncount(t);
    });
}

}  // namespace rewake
