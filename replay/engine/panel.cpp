// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/panel.hpp"

#include "replay/policies/steps/wakee.hpp"

namespace rewake {

namespace {

/// What record_wakee() makes of `flips`, when it made `after` of `before`.
uint32_t flips_after(uint32_t flips, const PolicyState::Task& before, const PolicyState::Task& after) {
    const bool decayed = after.decay_ts != before.decay_ts;
    const bool other = after.last_wakee != before.last_wakee || after.has_last_wakee != before.has_last_wakee;
    return (decayed ? flips >> 1 : flips) + other;
}

bool same_recent(const PolicyState::Task& a, const PolicyState::Task& b) {
    return a.has_recent == b.has_recent && a.recent == b.recent;
}

}  // namespace

/// Whether nothing that decided `a` is different for a policy with state `s`.
bool Panel::same(const Asked& a, const PolicyState& s, const PolicyState::Task& p, const PolicyState::Task& curr,
                 const Wakeup& w, int32_t nr_idle_scan, int factor) {
    const uint32_t looked = a.made.looked;
    if (a.sync != w.sync && (looked & kSync)) return false;
    if (a.nr_idle_scan != nr_idle_scan && (looked & kNrIdleScan) &&
        (nr_idle_scan < a.made.same_from || nr_idle_scan > a.made.same_to))
        return false;
    if (!same_recent(a.p, p) || !same_recent(a.curr, curr)) return false;
    if (a.curr.decay_ts != curr.decay_ts || a.curr.last_wakee != curr.last_wakee ||
        a.curr.has_last_wakee != curr.has_last_wakee)
        return false;
    if ((looked & kFlips) && a.wide != wake_wide(flips_after(curr.flips, a.curr, a.curr_after), p.flips, factor))
        return false;
    return a.hic == s.hic && a.cost == s.scan_cost;
}

const Decision& Panel::decide(Policy& policy, const View& v, const Wakeup& w, int32_t nr_idle_scan, Cpu recorded) {
    PolicyState& s = policy.state;
    const std::optional<int> factor = policy.wide_factor(w.waker);
    if (!factor || w.kind != Kind::wake || w.curr == w.p) return alone_ = policy.decide(v, w, nullptr, recorded);
    s.task(std::max(w.p, w.curr));  // from here on references stay
    PolicyState::Task &p = s.task(w.p), &curr = s.task(w.curr);
    for (size_t i = 0; i < n_; ++i) {
        const Asked& a = asked_[i];
        if (!same(a, s, p, curr, w, nr_idle_scan, *factor)) continue;
        curr.flips = flips_after(curr.flips, a.curr, a.curr_after);
        curr.decay_ts = a.curr_after.decay_ts;
        curr.last_wakee = a.curr_after.last_wakee, curr.has_last_wakee = a.curr_after.has_last_wakee;
        curr.recent = a.curr_after.recent, curr.has_recent = a.curr_after.has_recent;
        p.recent = a.recent_after, p.has_recent = a.has_recent_after;
        if (a.hic != a.hic_after) s.hic = a.hic_after;
        if (a.cost != a.cost_after) s.scan_cost = a.cost_after;
        return a.made;
    }
    if (n_ == asked_.size()) asked_.emplace_back();
    Asked& a = asked_[n_++];
    a.sync = w.sync;
    a.nr_idle_scan = nr_idle_scan;
    a.p = p, a.curr = curr;
    a.hic = s.hic, a.cost = s.scan_cost;
    a.made = policy.decide(v, w, nullptr, recorded);
    a.curr_after = s.task(w.curr);
    a.recent_after = s.task(w.p).recent, a.has_recent_after = s.task(w.p).has_recent;
    a.hic_after = s.hic, a.cost_after = s.scan_cost;
    a.wide = wake_wide(a.curr_after.flips, s.task(w.p).flips, *factor);
    return a.made;
}

}  // namespace rewake
