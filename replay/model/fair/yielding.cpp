// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/model/fair/yielding.hpp"

#include <utility>

namespace rewake {

bool Yielding::switched(Cpu c, TaskId prev, bool goes_on, Ns ts) {
    CpuState& cpu = cpus_[c.v];
    const Ns came = std::exchange(cpu.came, ts);
    if (!goes_on) return false;
    ++tasks_[prev.v].gave_way;
    tasks_[prev.v].yields += cpu.sent < came - kArrives && ts - came < kSlice;
    return cpu.sent < came;
}

std::vector<bool> Yielding::yielders() const {
    std::vector<bool> out(tasks_.size());
    for (size_t i = 0; i < tasks_.size(); ++i) out[i] = yields(TaskId(static_cast<uint32_t>(i)));
    return out;
}

}  // namespace rewake
