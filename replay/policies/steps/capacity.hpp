// SPDX-License-Identifier: GPL-2.0-or-later
// Asymmetric capacities: does p fit a CPU, and the scan that ends the search on such machines (policies.md A6).
#pragma once

#include "replay/policies/steps/step.hpp"

namespace rewake {

/// util_fits_cpu of 6.1+: 1 fits, 0 does not, -1 fits except for the uclamp_min boost.
int util_fits_cpu(Ctx& x, Cpu c);

/// Filter "asym fit". Belongs to machines with different capacities only.
class Fit : public Filter {
  public:
    Fit();
    bool passes(Ctx&, Cpu) const override;
};

/// X5: the target has a domain with every capacity of the system; the scan of it never falls through.
class AsymScan : public Step {
  public:
    AsymScan();
    bool run(Ctx&) const override;
};

}  // namespace rewake
