// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/yields.hpp"

#include <algorithm>

#include "replay/engine/closed/simulation.hpp"

namespace rewake::closed {

void add_yields(Script& script, const std::vector<bool>& yields) {
    for (TaskScript& t : script.tasks) {
        if (t.id.v >= yields.size() || !yields[t.id.v]) continue;
        std::vector<int64_t> steps;
        for (const Op& op : t.ops)
            if (op.kind == Op::Kind::yield) steps.push_back(op.work);
        if (steps.empty()) continue;
        const int64_t step = std::max<int64_t>(middle(steps), 1024);
        std::vector<Op> out;
        for (Op op : t.ops) {
            for (; op.work > step + step / 2; op.work -= step) out.push_back({Op::Kind::yield, kNone, step});
            out.push_back(op);
        }
        t.ops = std::move(out);
    }
}

/// What runs on `c` yields: whether somebody else runs now. Where a switch is due already it comes when it comes: until then an
/// interrupt has the CPU.
bool Simulation::gives_way(Cpu c) {
    if (fair_.size(c) < 2 || cpus_[c.v].resched >= 0) return false;
    fair_.charge(c, now_);
    fair_.yield(cpus_[c.v].curr);
    return comes_to_schedule(c);
}

}  // namespace rewake::closed
