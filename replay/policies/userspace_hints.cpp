// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/userspace_hints.hpp"

#include <charconv>
#include <stdexcept>

#include "replay/policies/columns.hpp"

namespace rewake {
namespace {

/// Between two LLCs, WAKE_AFFINE makes the waker's CPU the target and WAKE_HOLD prev, if that LLC promises an idle
/// core. Neither wake_wide nor a missing affine level nor the affinity of the waker's CPU is asked.
class WakeHint : public Step {
  public:
    explicit WakeHint(uint8_t hint)
        : Step(Stage::walk,
               "WAKE_AFFINE: target = waker CPU, WAKE_HOLD: target = prev, across LLCs and with "
               "has_idle_cores there; no affine step then",
               kHasIdleCores | kDomains),
          hint_(hint) {}

    bool run(Ctx& x) const override {
        const int hint = x.w.hint | hint_;
        if (!(hint & (kWakeAffine | kWakeHold)) || x.t.share_cache(x.w.waker, x.w.prev)) {
            WHY(x, "wake hint: ", hint & (kWakeAffine | kWakeHold) ? "ignored within an LLC" : "none");
            return false;
        }
        const Cpu target = hint & kWakeHold ? x.w.prev : x.w.waker;
        x.look(kHasIdleCores | kDomains);
        if (!x.s.hic[x.t.llc[target.v].v]) {
            WHY(x, "wake hint: ignored, ", x.t.llc[target.v], " has_idle_cores=0");
            return false;
        }
        WHY(x, "wake hint: ", hint & kWakeHold ? "WAKE_HOLD" : "WAKE_AFFINE", " -> target ", target);
        x.target = target;
        x.affine_domain = Topology::kNone;
        return false;
    }

  private:
    uint8_t hint_;
};

/// A hint mask that prctl accepts: at most one of each pair.
uint8_t hint_param(const std::string& value) {
    unsigned hint = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), hint);
    const bool both = (hint & 3) == 3 || (hint & 12) == 12;
    if (error != std::errc{} || end != value.data() + value.size() || hint > 10 || both)
        throw std::invalid_argument(
            "hint=" + value + ": a sum of FORK_AFFINE 1 or FORK_SPREAD 2, and WAKE_AFFINE 4 or WAKE_HOLD 8 expected");
    return static_cast<uint8_t>(hint);
}

Composition compose_seed(const PolicyParams& params, const Topology& t) {
    Column row = column("linux-6.0");
    row.slow.fork_hints = true;
    row.slow.hint = hint_param(params.at("hint"));
    Parts parts;
    parts.hint.push_back(std::make_unique<WakeHint>(row.slow.hint));
    return compose(row, params, t, std::move(parts));
}

}  // namespace

PolicyEntry userspace_hints_entry() {
    const Column& base = column("linux-6.0");
    PolicyInfo info{
        .name = "userspace-hints",
        .summary = "Linux 6.0 that places by hints which tasks gave with prctl",
        .author = "K Prateek Nayak",
        .date = "2022-09-10",
        .posting = "[RFC PATCH 0/5] sched: Userspace Hinting for Task Placement, with patches 3 and 4 of the series",
        .kernel = base.kernel,
        .oracle_column = "v6.0+seed5",
        .reference = false,
        .params = column_params(base),
        .steps = {},
        .quirks = column_quirks(base),
        .deviations = column_deviations(base),
        .reads_irq = false,
        .inputs = 0,
        .base = "linux-6.0"};
    info.quirks.insert(info.quirks.begin(),
                       {"WAKE_AFFINE does not check the waker's CPU against allowed: an idle one that is not allowed "
                        "ends in the fallback",
                        "a wake hint counts even where wake_wide says wide, and without an affine level",
                        "has_idle_cores is a hint: where it is stale, the search fails and p stacks on the target",
                        "within an LLC, and without SMT (has_idle_cores is never set), wake hints are ignored",
                        "FORK_SPREAD changes two things: ties by utilisation, and no NUMA allowance",
                        "fork hints count where both groups have spare capacity only, for forks and execs alike"});
    info.params.push_back(
        {"hint", "0",
         "given to every task for the whole recording: FORK_AFFINE 1 or FORK_SPREAD 2, plus WAKE_AFFINE 4 "
         "or WAKE_HOLD 8; 0: none, as linux-6.0"});
    info.deviations.push_back("the load balancer's exception for hinted tasks is not part of placement");
    return composed_entry(std::move(info), compose_seed);
}

}  // namespace rewake
