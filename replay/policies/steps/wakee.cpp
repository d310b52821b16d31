// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/steps/wakee.hpp"

#include <algorithm>

namespace rewake {

void record_wakee(PolicyState& s, TaskId curr, TaskId p, uint64_t jiffies, uint32_t hz) {
    PolicyState::Task& k = s.task(curr);
    if (static_cast<int64_t>(jiffies - (k.decay_ts + hz)) > 0) {
        k.flips >>= 1;  // once, however long the gap
        k.decay_ts = jiffies;
    }
    if (!k.has_last_wakee || k.last_wakee != p) {
        k.last_wakee = p;
        k.has_last_wakee = true;
        ++k.flips;
    }
}

void tell_affine(Ctx& x) {
    if (x.want_affine)
        WHY(x, "waker CPU ", x.w.waker, " is allowed -> want_affine");
    else
        WHY(x, x.w.allowed->test(x.w.waker) ? "wide" : "waker CPU is not allowed", " -> no want_affine");
}

RecordWakee::RecordWakee(bool pre_core)
    : Step(pre_core ? Stage::book_in : Stage::gate,
           pre_core ? "record_wakee, before the core asks the class" : "record_wakee") {}

bool RecordWakee::run(Ctx& x) const {
    record_wakee(x.s, x.w.curr, x.w.p, x.w.jiffies, x.w.hz);
    return false;
}

Gate::Gate(bool exiting, int wide_factor)
    : Step(Stage::gate,
           exiting ? "want_affine: waker CPU allowed, not wake_wide; no sync while curr exits"
                   : "want_affine: waker CPU allowed, not wake_wide",
           wide_factor ? kFlips : kFlips | kDomains),
      exiting_(exiting),
      wide_factor_(wide_factor) {}

bool Gate::run(Ctx& x) const {
    x.sync = x.w.sync && !(exiting_ && x.w.curr_exiting);
    x.look(inputs());
    const uint32_t p_flips = x.s.task(x.w.p).flips, curr_flips = x.s.task(x.w.curr).flips;
    const int factor = wide_factor_ ? wide_factor_ : x.t.llc_size(x.w.waker);
    x.want_affine = !wake_wide(curr_flips, p_flips, factor) && x.w.allowed->test(x.w.waker);
    if (x.reasons) tell(x, curr_flips, p_flips, factor);
    return false;
}

void Gate::tell(Ctx& x, uint32_t curr_flips, uint32_t p_flips, int factor) {
    if (x.w.sync && !x.sync) WHY(x, "sync is forced off: the waker exits");
    const uint64_t most = std::max(curr_flips, p_flips), least = std::min(curr_flips, p_flips);
    if (least < static_cast<uint64_t>(factor))
        WHY(x, "wake_wide: flips ", most, "/", least, " < factor ", factor, " -> narrow");
    else
        WHY(x, "wake_wide: flips ", most, "/", least, " against factor ", factor, ", ", most,
            wake_wide(curr_flips, p_flips, factor) ? " >= " : " < ", least, " x ", factor,
            wake_wide(curr_flips, p_flips, factor) ? " -> wide" : " -> narrow");
    if (x.reasons) tell_affine(x);
}

GateAllowed::GateAllowed() : Step(Stage::gate, "want_affine: waker CPU allowed", kAllowed) {}

bool GateAllowed::run(Ctx& x) const {
    x.sync = x.w.sync;
    x.look(kAllowed);
    x.want_affine = x.w.allowed->test(x.w.waker);
    if (x.reasons) tell_affine(x);
    return false;
}

WakeCap::WakeCap(Rule rule, int margin)
    : Step(Stage::gate,
           std::string("no want_affine when p does not fit the smaller of prev and waker CPU, by ") +
               (rule == Rule::util_avg ? "util_avg (asymmetric machines)"
                                       : "estimated utilisation (asymmetric machines)"),
           kUtil),
      rule_(rule),
      margin_(margin) {}

bool WakeCap::run(Ctx& x) const {
    if (!x.want_affine) {
        WHY(x, "wake_cap: not asked without want_affine");
        return false;
    }
    const Wakeup& w = x.w;
    const int32_t least = std::min(x.t.cap_orig[w.prev.v], x.t.cap_orig[w.waker.v]);
    const int32_t most = x.t.most_cap[w.waker.v];
    if (most - least < most >> 3) {
        WHY(x, "wake_cap: capacity ", least, " is within an eighth of ", most, " -> not asked");
        return false;
    }
    x.look(kUtil);
    x.want_affine = rule_ == Rule::util_avg
                        ? int64_t{least} * 1024 >= int64_t{w.p_util} * margin_
                        : int64_t{std::max(w.p_util, w.p_util_est | 1)} * margin_ < int64_t{least} * 1024;
    WHY(x, "wake_cap: p with util ", w.p_util, ", estimate ", w.p_util_est, x.want_affine ? " fits" : " does not fit",
        " capacity ", least, x.want_affine ? "" : " -> no want_affine");
    return false;
}

WakerRecent::WakerRecent() : Step(Stage::slow, "want_affine: the waker's recent CPU = waker CPU") {}

bool WakerRecent::run(Ctx& x) const {
    if (!x.want_affine) {
        WHY(x, "the waker's recent CPU stays");
        return false;
    }
    WHY(x, "the waker's recent CPU becomes ", x.w.waker);
    PolicyState::Task& curr = x.s.task(x.w.curr);
    curr.recent = x.w.waker;
    curr.has_recent = true;
    return false;
}

}  // namespace rewake
