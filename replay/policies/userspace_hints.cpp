// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/userspace_hints.hpp"

#include <algorithm>
#include <stdexcept>

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
        if (hint & (kWakeAffine | kWakeHold)) x.look(kDomains);
        if (!(hint & (kWakeAffine | kWakeHold)) || x.t.share_cache(x.w.waker, x.w.prev)) {
            WHY(x, "wake hint: ", hint & (kWakeAffine | kWakeHold) ? "ignored within an LLC" : "none");
            return false;
        }
        const Cpu target = hint & kWakeHold ? x.w.prev : x.w.waker;
        x.look(kHasIdleCores);
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

/// How many CPUs the wide search may examine.
struct WideBound {
    enum class Rule : uint8_t { none, column, most } rule = Rule::none;
    int most = 0;
};

/// The posting's future WAKE_WIDE, in our reading (policies.md B5): nothing idle in target's LLC, so the rest of the
/// domain above it.
class WakeWide : public Step {
  public:
    WakeWide(uint8_t hint, WideBound bound, const Column& c)
        : Step(Stage::scan, "WAKE_WIDE (proposal): usable CPUs of the domain above target's LLC, from target + 1",
               kDomains | kAllowed | kIdlePolicy | kNrIdleScan),
          hint_(hint),
          bound_(bound),
          scan_(c.scan),
          scan_3_(c.scan_3),
          scan_u_(c.scan_u) {}

    bool run(Ctx& x) const override {
        if (!((x.w.hint | hint_) & kWakeWide)) return false;
        const std::vector<int>& stack = x.t.stack[x.target.v];
        const auto above = static_cast<size_t>(x.t.llc_level[x.target.v] + 1);
        if (x.t.llc_level[x.target.v] == Topology::kNone || above >= stack.size()) {
            WHY(x, "WAKE_WIDE: no domain above target's LLC");
            return false;
        }
        const Domain& d = x.t.domains[stack[above]];
        const CpuMask& llc = x.t.llc_span[x.t.llc[x.target.v].v];
        x.look(kDomains | kAllowed);
        int left = most(x, d.weight - llc.count(x.t.words));
        std::optional<Cpu> found;
        for_each_in_wrap(
            x.t.words, x.target.v + 1u, [&](unsigned i) { return d.span.w[i] & ~llc.w[i] & x.w.allowed->w[i]; },
            [&](Cpu c) {
                if (left-- <= 0) return true;
                ++x.d.scanned;
                if (x.usable(c)) found = c;
                return found.has_value();
            });
        if (found)
            WHY(x, "WAKE_WIDE: CPU ", *found, " is idle in ", std::string_view(d.name));
        else
            WHY(x, "WAKE_WIDE: no CPU of ", std::string_view(d.name), " is idle within the bound");
        return found && x.decide(*found, Branch::wide);
    }

  private:
    int most(Ctx& x, int weight) const {
        if (bound_.rule == WideBound::Rule::most) return bound_.most;
        if (bound_.rule == WideBound::Rule::column) {
            if (scan_ == Scan::three && scan_3_.sis_prop) return sis_prop_bound(x, scan_3_, weight) - 1;
            if (scan_ == Scan::u && scan_u_.sis_util) return sis_util_bound(x, scan_u_, weight);
        }
        return kMaxCpus;
    }
    uint8_t hint_;
    WideBound bound_;
    Scan scan_;
    Scan3Rules scan_3_;
    ScanURules scan_u_;
};

bool has_fork_hints(const Column& c) { return c.slow.group == GroupRule::gt; }

Composition compose_seed(const Column& on, const PolicyParams& params, const Topology& t) {
    Column row = configured(on, params);
    const std::string& text = params.at("hint");
    const auto hint = static_cast<uint8_t>(int_param(params, "hint", 0, kAllHints));
    if ((hint & (kForkAffine | kForkSpread)) == (kForkAffine | kForkSpread) ||
        (hint & (kWakeAffine | kWakeHold)) == (kWakeAffine | kWakeHold))
        throw std::invalid_argument("hint=" + text +
                                    ": a sum of FORK_AFFINE 1 or FORK_SPREAD 2, WAKE_AFFINE 4 or WAKE_HOLD 8, and "
                                    "WAKE_WIDE 16 expected");
    if (!has_fork_hints(on) && (hint & (kForkAffine | kForkSpread)))
        throw std::invalid_argument("hint=" + text + ": " + on.name +
                                    " compares groups by load and cannot follow fork hints; 5.5 and later can");
    row.slow.fork_hints = has_fork_hints(on);
    row.slow.hint = hint;
    row.slow.affine_divisor = static_cast<int>(int_param(params, "fork_affine_divisor", 1, kMaxCpus));
    WideBound bound;
    if (params.at("wide_bound") == "column")
        bound.rule = WideBound::Rule::column;
    else if (params.at("wide_bound") != "none")
        bound = {WideBound::Rule::most,
                 static_cast<int>(int_param(params, "wide_bound", 1, kMaxCpus, "none or column"))};
    Parts parts;
    parts.hint.push_back(std::make_unique<WakeHint>(hint));
    parts.last.push_back(std::make_unique<WakeWide>(hint, bound, row));
    Composition c = compose(row, t, std::move(parts));
    c.hints = hint;
    return c;
}

}  // namespace

bool Composed::keeps_in_llc(uint8_t hint) const { return c_.hints && ((hint | *c_.hints) & (kWakeAffine | kWakeHold)); }

PolicyEntry userspace_hints_entry(const Column& on) {
    PolicyInfo info{
        .name = "userspace-hints",
        .summary = "that places by hints which tasks gave with prctl",
        .author = "K Prateek Nayak",
        .date = "2022-09-10",
        .posting = "[RFC PATCH 0/5] sched: Userspace Hinting for Task Placement, with patches 3 and 4 of the series",
        .kernel = on.kernel,
        .oracle_column = "v6.0+seed5",
        .reference = false,
        .params =
            {{"hint", "0",
              "given to every task for the whole recording, beside those of --hints: FORK_AFFINE 1 or FORK_SPREAD "
              "2, WAKE_AFFINE 4 or WAKE_HOLD 8, WAKE_WIDE 16 (proposal); 0: none, as the column"},
             {"fork_affine_divisor", "2", "FORK_AFFINE stays while more than this part of the local CPUs is idle",
              true},
             {"wide_bound", "none",
              "CPUs that WAKE_WIDE may examine; column: by the rule of the column's own scan (proposal)"}},
        .steps = {},
        .quirks = {"WAKE_AFFINE does not check the waker's CPU against allowed: an idle one that is not allowed ends "
                   "in the fallback",
                   "a wake hint counts even where wake_wide says wide, and without an affine level",
                   "has_idle_cores is a hint: where it is stale, the search fails and p stacks on the target",
                   "within an LLC, and without SMT (has_idle_cores is never set), wake hints are ignored",
                   "FORK_SPREAD changes two things: ties by utilisation, and no NUMA allowance",
                   "fork hints count where both groups have spare capacity only, for forks and execs alike"},
        .deviations = {"the load balancer's exception for hinted tasks is not part of placement: simulate follows it",
                       "WAKE_WIDE is only described in the posting: what it does here is our proposal"},
        .reads_irq = false,
        .inputs = 0,
        .base = "linux-6.0",
        .hybrid = false,
        .hints = kAllHints};
    if (!keeps_idle_cores(on))
        refuse_column(info.name, on, "it keeps no has_idle_cores, which decides whether a hint is followed (4.8+)");
    std::vector<std::string> port;
    if (!has_fork_hints(on)) {
        port.push_back("no fork hints: groups are compared by load here, the hints are about idle CPUs");
        info.hints &= static_cast<uint8_t>(~(kForkAffine | kForkSpread));
    }
    return composed_entry(seed_info(std::move(info), on, std::move(port)),
                          [&on](const PolicyParams& p, const Topology& t) { return compose_seed(on, p, t); });
}

}  // namespace rewake
