// SPDX-License-Identifier: GPL-2.0-or-later
// The core's wrapper around the class hook (policies.md A2): tasks with one CPU, and the validity check with its
// fallback.
#pragma once

#include "replay/policies/steps/step.hpp"

namespace rewake {

/// What the core does without asking the class.
enum class Pinned : uint8_t {
    class_prev,   ///< 3.8, 3.10: the class itself keeps prev before it looks at anything
    keep_prev,    ///< 4.5: one allowed CPU keeps prev
    any_allowed,  ///< 4.8+: one allowed CPU, or migration disabled (5.11+): the first allowed CPU
};

class PinnedStep : public Step {
  public:
    explicit PinnedStep(Pinned rule);
    bool run(Ctx&) const override;

  private:
    Pinned rule_;
};

/// Replaces a CPU that is not allowed or offline by the fallback. Sets Decision::class_cpu.
class CoreCheck : public Step {
  public:
    CoreCheck();
    bool run(Ctx&) const override;
};

}  // namespace rewake
