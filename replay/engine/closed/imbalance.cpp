// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/imbalance.hpp"

#include <algorithm>

namespace rewake::closed {

Imbalance::Sum Imbalance::sum(const CpuMask& group) const {
    Sum s;
    for_each_cpu(
        level_.words(), [&](int i) { return group.w[i]; },
        [&](Cpu c) {
            const int nr = c == to_ && idle_ ? 0 : on(c);
            ++s.cpus;
            s.idle += nr == 0;
            s.tasks += nr;
            return false;
        });
    return s;
}

const CpuMask* Imbalance::group(Cpu c) const {
    const auto at = std::ranges::find_if(level_.groups, [c](const CpuMask& g) { return g.test(c); });
    return at == level_.groups.end() ? nullptr : &*at;
}

bool Imbalance::busier(const Sum& there) const {
    const bool more_each = !here_->overloaded() || here_->tasks * there.cpus < there.tasks * here_->cpus;
    if (!idle_) return there.overloaded() && more_each;
    if (!level_.evens_out)
        return there.overloaded() ? more_each : !here_->overloaded() && here_->idle - newidle_ > there.idle + 1;
    if (there.tasks <= here_->tasks + 1) return false;  // half of the difference is moved
    return here_->tasks < here_->cpus || (there.overloaded() && more_each);
}

int Imbalance::tasks(Cpu from) const {
    const int there = on(from);
    if (idle_) return std::max(1, there / 2);
    const Sum all = sum(level_.span);
    const int mean = all.tasks / all.cpus;
    return std::max(1, std::min(there - mean, mean - on(to_)));
}

bool Imbalance::may_pull(Cpu from) {
    if (!here_) {
        own_ = group(to_);
        here_ = own_ ? sum(*own_) : Sum{};
    }
    if (!own_ || own_->test(from) || yes_.test(from)) return true;
    if (no_.test(from)) return false;
    const CpuMask* other = group(from);
    if (!other) return true;
    const bool may = busier(sum(*other));
    for (int i = level_.first_word; i < level_.end_word; ++i) (may ? yes_ : no_).w[i] |= other->w[i];
    return may;
}

}  // namespace rewake::closed
