// SPDX-License-Identifier: GPL-2.0-or-later
// Early exits of select-idle-sibling (policies.md A6). Each probe looks at one CPU and takes a chain of filters.
#pragma once

#include "replay/policies/steps/step.hpp"

namespace rewake {

/// Base of the probes: the filter chain.
class Probe : public Step {
  public:
    Probe(std::string text, Filters filters);

  protected:
    bool passes(Ctx& x, Cpu c) const {
        for (const auto& f : filters_)
            if (!f->passes(x, c)) return false;
        return true;
    }

  private:
    Filters filters_;
};

/// X1: target is usable.
class TargetIdle : public Probe {
  public:
    explicit TargetIdle(Filters);
    bool run(Ctx&) const override;
};

enum class PrevOf : uint8_t { task_cpu, prev };  ///< 3.10 - 4.6 look at task_cpu(p), later kernels at prev

/// X2: the task's previous CPU shares target's cache and is usable.
class PrevIdle : public Probe {
  public:
    PrevIdle(PrevOf source, Filters);
    bool run(Ctx&) const override;

  private:
    PrevOf source_;
};

/// X3: a per-CPU kernel thread wakes a task of its own CPU from task context (5.15/6.0+).
class KthreadWaker : public Probe {
  public:
    explicit KthreadWaker(Filters);
    bool run(Ctx&) const override;
};

/// X4: p's recently used CPU. Reaching it makes prev the recent CPU, hit or miss (6.1+).
class RecentIdle : public Probe {
  public:
    explicit RecentIdle(Filters);
    bool run(Ctx&) const override;
};

/// X6: target has no LLC domain.
class NoLlc : public Step {
  public:
    NoLlc();
    bool run(Ctx&) const override;
};

/// Nothing found: target.
class ReturnTarget : public Step {
  public:
    ReturnTarget();
    bool run(Ctx&) const override;
};

}  // namespace rewake
