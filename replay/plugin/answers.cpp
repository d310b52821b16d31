// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/plugin/answers.hpp"

#include <algorithm>
#include <stdexcept>

namespace rewake {

Answer& AnswerLog::operator[](int64_t decision) const {
    if (decision < 0 || static_cast<size_t>(decision) >= n_)
        throw std::invalid_argument("decision " + std::to_string(decision) + " of " + std::to_string(n_));
    return at_[decision];
}

bool valid_answer(const Topology& t, const Wakeup& w, int32_t cpu) {
    if (cpu < 0 || cpu >= t.n_cpus) return false;
    const Cpu c(static_cast<uint16_t>(cpu));
    return t.online.test(c) && (w.allowed->test(c) || !(*w.allowed & t.online).any(t.words));
}

Decision AnsweredPolicy::decide(const View&, const Wakeup& w, const CpuMask*, Cpu) {
    const Answer& a = (*log_)[w.id];
    Decision d;
    d.undecided = true;
    if (!(a.flags & Answer::kAnswered) || a.cpu == Answer::kUndecided) return d;
    if (!valid_answer(topo_, w, a.cpu)) {
        invalid_->add(w.id, a.cpu);
        return d;
    }
    d.undecided = false;
    d.cpu = d.class_cpu = Cpu(static_cast<uint16_t>(a.cpu));
    d.branch = static_cast<Branch>(std::min<int>(a.branch, branches_ - 1));
    d.scanned = a.scanned;
    d.looked = a.looked;
    d.exposed = a.flags & Answer::kExposed;
    return d;
}

}  // namespace rewake
