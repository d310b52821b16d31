// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/panel.hpp"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

#include "replay/policies/steps/wakee.hpp"

namespace rewake {

void PanelAnswers::reset(size_t n) {
    agreed.assign(n * kAskings, 0), searched.assign(n * kAskings, nowhere);
    scanned.assign(n, -1), wide.assign(n, 0), decided.assign(n, 0), doubt.assign(n, no_doubt), otherwise.assign(n, 0);
    for (std::vector<int32_t>* v :
         {&scan_prev, &scan_waker, &chances_prev, &chances_waker, &writes_prev, &writes_waker})
        v->assign(n, 0);
}

Panel::Panel(const std::vector<FlipHypothesis>& first_flips, uint32_t hz, std::vector<int32_t> scans, bool clocks)
    : flips(first_flips, hz), scans_(std::move(scans)), clocks_(clocks) {
    if (scans_.size() > PanelAnswers::kMostScans) throw std::invalid_argument("at most 31 values of nr_idle_scan");
    members_ = PanelAnswers::kModelled | ((1u << scans_.size()) - 1);
    for (size_t v = 0; v < scans_.size() && !clocks_; ++v) never_cleared_ |= uint32_t{scans_[v] == 0} << v;
}

/// One answer; `w.prev` stands for the recorded choice, which is none of its business.
Decision Panel::once(Policy& policy, const View& v, const Wakeup& w) {
    const Decision made = policy.decide(v, w, nullptr, w.prev);
    if (made.asked_load_of_wakee(w.kind)) {
        load_of_prev = true;
        load_of_waker |= w.sync;
    }
    return made;
}

void Panel::give_idle_cores(PolicyState& s, uint32_t member) {
    for (uint16_t llc : {prev_, waker_}) s.hic[llc] = before_.hic[llc] = (idle_cores_[llc] & member) != 0;
}

/// What bounds the searches of an LLC from now on.
void Panel::bound(Machine& machine, Llc llc, int32_t value) const {
    if (clocks_)
        machine.set_scan_clock(static_cast<uint8_t>(value));
    else
        machine.set_nr_idle_scan(llc, value);
}

/// Asks for the values of nr_idle_scan of `members`. `policy` has the state of before_, and gets it back. `first`: the answer for the
/// modelled one, if that was given before. `keeps`: has_idle_cores is from now on what these searches made of it.
void Panel::asking(Policy& policy, Machine& machine, const Wakeup& w, Cpu chosen, uint32_t members, bool keeps,
                   const Decision* first, uint32_t& agreed, uint8_t& searched, int16_t& scanned, uint32_t& looked) {
    const Topology& topo = *machine.view().topo;
    PolicyState& s = policy.memory();
    const std::vector<int32_t>& scan = machine.view().nr_idle_scan;
    const int32_t was_prev = clocks_ ? 0 : scan[prev_], was_waker = clocks_ ? 0 : scan[waker_];
    std::array<uint32_t, 2> after{idle_cores_[prev_], idle_cores_[waker_]};
    for (uint32_t left = members; left;) {
        const int i = std::countl_zero(left);  // from the highest bit, which is the modelled one
        const uint32_t member = PanelAnswers::kModelled >> i;
        const bool modelled = i == 0;
        const size_t number = PanelAnswers::kMostScans - static_cast<size_t>(i);
        const bool given = modelled && first;
        Decision made;
        std::array<bool, 2> flags{};
        if (given) {
            made = *first;
            flags = {after_.hic[prev_] != 0, after_.hic[waker_] != 0};
        } else {
            bound(machine, Llc(prev_), modelled ? was_prev : scans_[number]);
            bound(machine, Llc(waker_), modelled ? was_waker : scans_[number]);
            give_idle_cores(s, member);
            made = once(policy, machine.view(), w);
            flags = {s.hic[prev_] != 0, s.hic[waker_] != 0};
            before_.put(s, w);
        }
        if (modelled) looked = made.looked;
        // Those with the same has_idle_cores of which this answer is known to hold.
        uint32_t same = left & (idle_cores_[prev_] & member ? idle_cores_[prev_] : ~idle_cores_[prev_]) &
                        (idle_cores_[waker_] & member ? idle_cores_[waker_] : ~idle_cores_[waker_]);
        if (made.looked & kNrIdleScan) {
            const bool at_prev = topo.share_cache(made.cpu, w.prev);
            if (modelled)
                searched = at_prev ? PanelAnswers::at_prev : PanelAnswers::at_waker;
            else if (searched == PanelAnswers::nowhere)
                searched = at_prev ? PanelAnswers::unasked_prev : PanelAnswers::unasked_waker;
            uint32_t within = member;
            for (size_t v = 0; v < scans_.size(); ++v)
                within |= uint32_t{clocks_ ? (made.same_clocks >> scans_[v] & 1) != 0
                                           : scans_[v] >= made.same_from && scans_[v] <= made.same_to}
                          << v;
            same &= within;
        }
        if (made.cpu == chosen) {
            agreed |= same;
            if (scanned < 0) scanned = static_cast<int16_t>(made.scanned);
        }
        for (size_t k = 0; k < 2; ++k) after[k] = flags[k] ? after[k] | same : after[k] & ~same;
        left &= ~same;
    }
    bound(machine, Llc(waker_), was_waker);
    bound(machine, Llc(prev_), was_prev);
    if (keeps) next_ = after;
}

/// Bits of the two askings, the flag clear and set, that agree where prev is idle if by the times it is not, or the other
/// way round. As asking().
uint8_t Panel::otherwise(Policy& policy, Machine& machine, Wakeup w, std::optional<bool> told_sync, Cpu chosen) {
    uint8_t agree = 0;
    machine.suppose(w.prev, !machine.view().avail.test(w.prev));
    for (const bool sync : {false, true}) {
        w.sync = told_sync.value_or(sync);
        give_idle_cores(policy.memory(), PanelAnswers::kModelled);
        if (policy.decide(machine.view(), w, nullptr, w.prev).cpu == chosen) agree |= uint8_t{1} << sync;
        before_.put(policy.memory(), w);
    }
    machine.look_again(w.prev);
    return agree;
}

Cpu Panel::ask(Policy& policy, Machine& machine, Wakeup w, std::optional<bool> told_sync,
               std::optional<uint32_t> told_flips, Cpu chosen, size_t row, PanelAnswers& out, int64_t first_row) {
    if (told_flips) flips.know(w.p, *told_flips);
    PolicyState& s = policy.memory();
    s.task(std::max(w.p, w.curr));
    if (!s.buddies.empty()) s.buddy(std::max(w.p, w.curr));
    const View& v = machine.view();
    prev_ = v.topo->llc[w.prev.v].v, waker_ = v.topo->llc[w.waker.v].v;
    s.hic.resize(v.topo->llc_span.size());  // also of policies that have no use for it
    idle_cores_.resize(s.hic.size(), never_cleared_);
    for (size_t l = 0; l < s.hic.size(); ++l)
        if (s.hic[l]) idle_cores_[l] = ~0u;  // set since: by a core that went idle
    before_.take(s, w);
    load_of_prev = load_of_waker = false;
    const bool wakes = w.kind == Kind::wake;
    const std::optional<int> factor = wakes && w.curr != w.p ? policy.wide_factor(w.waker) : std::nullopt;
    // The hypotheses hold the flips; the policy is given some that make it wide or not, whatever record_wakee() adds.
    auto begin = [&](bool wide) {
        if (factor) {
            const auto least = static_cast<uint32_t>(*factor);
            before_.p.flips = wide ? least : 0;
            before_.curr.flips = wide ? 4 * least * (least + 1) : 0;
        }
        before_.put(s, w);
        give_idle_cores(s, PanelAnswers::kModelled);
    };
    w.sync = told_sync.value_or(false);
    begin(false);
    const Decision narrow = once(policy, v, w);
    after_.take(s, w);
    if (wakes) flips.follow(w, before_.curr, after_.curr);
    const bool compared = factor && (narrow.looked & kFlips);
    const uint32_t wide = compared ? flips.wide(w.curr, w.p, *factor) : 0;
    const bool open = compared && !flips.recorded(w.curr, w.p);
    if (wakes)
        course.woke(w, before_.curr, after_.curr, first_row + static_cast<int64_t>(row), compared ? *factor : 0,
                    told_flips);
    out.wide[row] = wide;
    const auto all = static_cast<uint32_t>((uint64_t{1} << flips.size()) - 1);
    Cpu answer = narrow.cpu;
    const size_t asked = row * PanelAnswers::kAskings;
    std::array<bool, 2> given{};
    for (bool is_wide : {false, true}) {
        const bool led = wide != (is_wide ? 0 : all);
        given[is_wide] = led || open;
        if (!given[is_wide]) continue;
        const bool stays = (wide & 1) == is_wide;
        const uint32_t members = led ? members_ : PanelAnswers::kModelled;
        const size_t at = asked + 2 * is_wide;
        w.sync = told_sync.value_or(false);
        begin(is_wide);
        if (is_wide && stays) {
            answer = once(policy, v, w).cpu;
            after_.take(s, w);
            before_.put(s, w);
        }
        uint32_t looked = 0;
        asking(policy, machine, w, chosen, members, stays, is_wide ? nullptr : &narrow, out.agreed[at],
               out.searched[at], out.scanned[row], looked);
        if (told_sync || !(looked & kSync)) {
            out.agreed[at + 1] = out.agreed[at], out.searched[at + 1] = out.searched[at];
        } else {
            w.sync = true;
            asking(policy, machine, w, chosen, members, false, nullptr, out.agreed[at + 1], out.searched[at + 1],
                   out.scanned[row], looked);
        }
        for (size_t k : {at, at + 1})
            if (!led) out.agreed[k] = out.agreed[k] ? members_ : 0, out.searched[k] = PanelAnswers::nowhere;
        if (out.doubt[row])
            out.otherwise[row] |= static_cast<uint8_t>(otherwise(policy, machine, w, told_sync, chosen) << 2 * is_wide);
    }
    for (const size_t half : {size_t{0}, size_t{2}}) {
        if (given[half / 2]) continue;
        const size_t other = 2 - half;
        for (size_t k : {size_t{0}, size_t{1}}) {
            out.agreed[asked + half + k] = out.agreed[asked + other + k];
            out.searched[asked + half + k] = out.searched[asked + other + k];
        }
        out.otherwise[row] |= static_cast<uint8_t>((out.otherwise[row] >> other & 3) << half);
    }
    after_.put(s, w);
    idle_cores_[prev_] = next_[0], idle_cores_[waker_] = next_[prev_ == waker_ ? 0 : 1];
    for (uint16_t llc : {prev_, waker_}) s.hic[llc] = (idle_cores_[llc] & members_) == members_;
    return answer;
}

}  // namespace rewake
