// SPDX-License-Identifier: GPL-2.0-or-later
// The idle searches of seed 3: like their columns' own, but a CPU that interrupts keep busy is only a backup. How each
// is carried over is said at irq_aware_entry.
#pragma once

#include "replay/policies/steps/scan_3.hpp"
#include "replay/policies/steps/scan_u.hpp"

namespace rewake {

/// The same cores in the same order, but of an idle core the last sibling that is not heavy, allowed or not; the one
/// met first when all are.
class CleanCorePass : public CorePass {
  public:
    CleanCorePass();

  protected:
    Cpu pick(Ctx& x, Cpu core) const override;
};

/// A heavy idle CPU is only the backup, each later one in place of the one before.
class CleanCpuPass : public Step {
  public:
    explicit CleanCpuPass(Scan3Rules rules);
    bool run(Ctx&) const override;

  private:
    Scan3Rules rules_;
};

class CleanSiblingPass : public Step {
  public:
    explicit CleanSiblingPass(Scan3Rules rules);
    bool run(Ctx&) const override;

  private:
    Scan3Rules rules_;
};

class CleanScanU : public Step {
  public:
    explicit CleanScanU(ScanURules rules);
    bool run(Ctx&) const override;

  private:
    bool siblings_of_prev(Ctx&) const;
    ScanURules rules_;
};

}  // namespace rewake
