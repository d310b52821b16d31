// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/closed/pulling.hpp"

namespace rewake::closed {

std::optional<size_t> level_between(const Topology& topo, Cpu to, Cpu from) {
    const std::vector<int>& stack = topo.stack[to.v];
    const auto level =
        std::ranges::find_if(stack, [&](int d) { return topo.domains[static_cast<size_t>(d)].span.test(from); });
    if (level == stack.end()) return {};
    return static_cast<size_t>(level - stack.begin());
}

bool balances_for_group(const Machine& m, Cpu c, const Domain& level, bool cores) {
    const CpuMask* own = level.group(c);
    return own && Balancer::leader(level.balancing(*own), level.words(), m.view().idle,
                                   [&](Cpu x) { return cores && !level.share_core && !m.core_idle_but(x); }) == c;
}

Pulling::Pulling(const FairTree& queues, const Machine& m, const Domain& level, Cpu to, Has has, int failed)
    : queues_(queues),
      m_(m),
      level_(level),
      to_(to),
      has_(has),
      failed_(failed),
      movable_(queues, m),
      groups_(m.view(), level, to, has, queues.settings(), [&m](Cpu c) { return m.used(c); }) {
    const Words w = level.words();
    bool somebody = false;
    for (int i = w.from; i < w.to; ++i) somebody |= (level.span.w[i] & movable_.cpus(i)) != 0;
    if (!somebody) return;
    surplus_ = groups_.find();
    if (surplus_) from_ = fullest();
}

/// By what is to be taken; none if all that has it runs.
std::optional<Cpu> Pulling::fullest() const {
    using Of = Surplus::Of;
    const View& v = m_.view();
    std::optional<Cpu> from;
    int64_t most = 0, capacity_of_most = 1;
    for_each_cpu(
        level_.words(), [&](int i) { return surplus_->group->w[i]; },
        [&](Cpu c) {
            const int nr = groups_.left_out(c) ? 0 : groups_.on(c);
            if (nr == 0 || (surplus_->of == Of::util && nr == 1)) return false;
            if (nr == 1 && level_.asym && !greater(v.cap[to_.v], v.cap[c.v])) return false;
            const bool by_load = surplus_->of == Of::load;
            const auto util = [&] {
                const Machine::Used used = m_.used(c);
                const int64_t boost = queues_.settings().boosts ? used.runnable : 0;
                return std::max(used.util, std::min<int64_t>(boost, m_.topo().cap_orig[c.v]));
            };
            const int64_t much = by_load ? v.load[c.v] : surplus_->of == Of::util ? util() : nr;
            if (by_load && nr == 1 && much > surplus_->amount) return false;
            const int64_t capacity = by_load ? v.cap[c.v] : 1;
            if (much * capacity_of_most > most * capacity) most = much, capacity_of_most = capacity, from = c;
            return false;
        });
    return from;
}

/// `id` is no more than is still to be taken, or not much more if nobody was taken for long.
bool Pulling::fits(TaskId id) {
    int64_t much = 1;
    if (surplus_->of != Surplus::Of::tasks) {
        const Machine::Task* t = m_.known(id);
        if (!t) return false;
        if (surplus_->of == Surplus::Of::load) {
            much = std::max<int64_t>(1, m_.task_load(id, *from_, m_.load_kind()));
        } else {
            much = std::max(t->pelt.util_avg, t->util_est);  // as of when it came or ran
        }
        if ((much >> std::min(failed_, 31)) > surplus_->amount) return false;
    }
    surplus_->amount -= much;
    return true;
}

}  // namespace rewake::closed
