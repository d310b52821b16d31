// SPDX-License-Identifier: GPL-2.0-or-later
// Asymmetric capacities: does p fit a CPU, and the scan that ends the search on such machines (policies.md A6).
#pragma once

#include "replay/policies/steps/step.hpp"

namespace rewake {

/// How a kernel asks whether p fits a CPU.
enum class FitRule : uint8_t {
    clamp_odd,  ///< 5.9, 5.10: clamped utilisation, the estimate's lowest bit set
    clamp,      ///< 6.0: clamped utilisation
    bounds,     ///< 5.15.100: utilisation, or uclamp_max fits; uclamp_min must fit
    boost,      ///< 6.1+: the same, with "fits but for the uclamp_min boost" as -1
};

constexpr int kFitMargin = 1280;  ///< capacity a fitting task needs, in 1024ths of its utilisation

/// 1 fits, 0 does not, -1 fits except for the uclamp_min boost (FitRule::boost only).
int util_fits_cpu(Ctx& x, Cpu c, FitRule rule = FitRule::boost, int margin = kFitMargin);

/// Filter "asym fit". Belongs to machines with different capacities only. `whole_core`: on SMT machines every sibling
/// must be idle (7.2).
class Fit : public Filter {
  public:
    Fit(FitRule rule, int margin, bool whole_core = false);
    bool passes(Ctx&, Cpu) const override;

  private:
    FitRule rule_;
    int margin_;
    bool whole_core_;
};

/// The target has a domain with every capacity of the system; the scan of it never falls through. X0: before all other
/// probes (5.9); X5: after them (5.10+).
class AsymScan : public Step {
  public:
    struct Rules {
        Branch exit = Branch::x5;
        FitRule fit = FitRule::boost;
        int margin = kFitMargin;
        bool bounded = false;      ///< 7.2: nr_idle_scan bounds it
        bool ranks_cores = false;  ///< 7.2: while idle cores are promised, wholly idle cores rank first
    };
    explicit AsymScan(Rules rules);
    bool run(Ctx&) const override;

  private:
    bool ranked(Ctx&, const Domain& d) const;
    Rules rules_;
};

}  // namespace rewake
