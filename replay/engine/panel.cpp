// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/panel.hpp"

#include <algorithm>

#include "replay/policies/steps/wakee.hpp"

namespace rewake {

void Panel::begin(const Policy& any, const Wakeup& w) {
    n_ = 0;
    const std::optional<int> factor = any.wide_factor(w.waker);
    shared_ = factor && w.kind == Kind::wake && w.curr != w.p;
    factor_ = factor.value_or(0);
}

/// Whether nothing that decided `a` is different for a policy with state `s`.
bool Panel::same(const Asked& a, const PolicyState& s, const PolicyState::Task& p, const PolicyState::Task& curr,
                 const Wakeup& w, int32_t nr_idle_scan) const {
    const uint32_t looked = a.made.looked;
    auto same_recent = [](const PolicyState::Task& x, const PolicyState::Task& y) {
        return x.has_recent == y.has_recent && x.recent == y.recent;
    };
    if (a.sync != w.sync && (looked & kSync)) return false;
    if (a.nr_idle_scan != nr_idle_scan && (looked & kNrIdleScan) &&
        (nr_idle_scan < a.made.same_from || nr_idle_scan > a.made.same_to))
        return false;
    if (!same_recent(a.p, p) || !same_recent(a.curr, curr)) return false;
    if (a.curr.decay_ts != curr.decay_ts || a.curr.last_wakee != curr.last_wakee ||
        a.curr.has_last_wakee != curr.has_last_wakee)
        return false;
    if ((looked & kFlips) && a.wide != wake_wide(a.flips_after(curr.flips), p.flips, factor_)) return false;
    return a.hic == s.hic && a.cost == s.scan_cost;
}

Panel::Asked& Panel::ask(Policy& policy, const View& v, const Wakeup& w, int32_t nr_idle_scan, Cpu recorded) {
    if (n_ == asked_.size()) asked_.emplace_back();
    Asked& a = asked_[n_++];
    PolicyState& s = policy.state;
    a.sync = w.sync;
    a.nr_idle_scan = nr_idle_scan;
    a.p = s.task(w.p), a.curr = s.task(w.curr);
    a.hic = s.hic, a.cost = s.scan_cost;
    a.made = policy.decide(v, w, nullptr, recorded);
    const PolicyState::Task &p = s.task(w.p), &curr = s.task(w.curr);
    a.curr_after = curr;
    a.decayed = curr.decay_ts != a.curr.decay_ts;
    a.switched = curr.last_wakee != a.curr.last_wakee || curr.has_last_wakee != a.curr.has_last_wakee;
    a.recent_after = p.recent, a.has_recent_after = p.has_recent;
    a.new_hic = s.hic != a.hic, a.new_cost = s.scan_cost != a.cost;
    if (a.new_hic) a.hic_after = s.hic;
    if (a.new_cost) a.cost_after = s.scan_cost;
    a.wide = wake_wide(curr.flips, p.flips, factor_);
    return a;
}

const Decision& Panel::decide(Policy& policy, const View& v, const Wakeup& w, int32_t nr_idle_scan, Cpu recorded) {
    PolicyState& s = policy.state;
    const Asked* found = nullptr;
    if (shared_) {
        s.task(std::max(w.p, w.curr));  // now references stay
        PolicyState::Task &p = s.task(w.p), &curr = s.task(w.curr);
        for (size_t i = 0; i < n_ && !found; ++i)
            if (same(asked_[i], s, p, curr, w, nr_idle_scan)) found = &asked_[i];
        if (found) {
            const uint32_t flips = found->flips_after(curr.flips);
            curr = found->curr_after;
            curr.flips = flips;
            p.recent = found->recent_after, p.has_recent = found->has_recent_after;
            if (found->new_hic) s.hic = found->hic_after;
            if (found->new_cost) s.scan_cost = found->cost_after;
        }
    }
    if (!found) found = &ask(policy, v, w, nr_idle_scan, recorded);
    if (found->made.cpu != recorded) policy.follow(v, w, recorded, found->made, found->p, found->hic);
    return found->made;
}

}  // namespace rewake
