// SPDX-License-Identifier: GPL-2.0-or-later
// Early exits of select-idle-sibling (policies.md A6). Each probe looks at one CPU and takes a chain of filters.
#pragma once

#include "replay/policies/steps/step.hpp"

namespace rewake {

/// Base of the probes: the filter chain.
class Probe : public Step {
  public:
    /// `inputs`: what it looks at beside its filters.
    Probe(std::string text, Filters filters, uint32_t inputs);

  protected:
    /// Whether `c` is usable, `refusal` is nullptr and the filters pass; tells why not under `name` ("X1: target ").
    bool takes(Ctx& x, const char* name, Cpu c, const char* refusal = nullptr) const {
        if (x.usable(c) && !refusal && passes(x, c)) return true;
        if (x.reasons) [[unlikely]]
            refuse(x, name, c, refusal);
        return false;
    }
    bool passes(Ctx& x, Cpu c) const {
        for (const auto& f : filters_)
            if (!f->passes(x, c)) return false;
        return true;
    }

  private:
    void refuse(Ctx& x, const char* name, Cpu c, const char* refusal) const;
    Filters filters_;
};

/// X1: target is usable.
class TargetIdle : public Probe {
  public:
    explicit TargetIdle(Filters);
    bool run(Ctx&) const override;
};

enum class PrevOf : uint8_t { task_cpu, prev };  ///< 3.10 - 4.6 look at task_cpu(p), later kernels at prev

/// X2: the task's previous CPU shares target's cache and is usable. `clusters`: it must share target's cluster; from
/// elsewhere in the LLC it is only kept (6.8+ on cluster machines).
class PrevIdle : public Probe {
  public:
    PrevIdle(PrevOf source, Filters, bool clusters = false);
    bool run(Ctx&) const override;

  private:
    PrevOf source_;
    bool clusters_;
};

/// X3: a per-CPU kernel thread wakes a task of its own CPU (5.9+). `in_task`: from task context only (5.15+).
class KthreadWaker : public Probe {
  public:
    KthreadWaker(Filters, bool in_task);
    bool run(Ctx&) const override;

  private:
    bool in_task_;
};

/// X4 of 5.15+: p's recently used CPU. Reaching it makes prev the recent CPU, hit or miss. `clusters` as in PrevIdle.
class RecentIdle : public Probe {
  public:
    explicit RecentIdle(Filters, bool clusters = false);
    bool run(Ctx&) const override;

  private:
    bool clusters_;
};

/// X4 of 4.19 - 5.10: only a hit makes prev the recent CPU (see also WakerRecent).
class RecentIdleOld : public Probe {
  public:
    explicit RecentIdleOld(Filters);
    bool run(Ctx&) const override;
};

/// X4 of 5.15.100 and 6.0: like RecentIdle, but the affinity test reads the field after it was overwritten, so a
/// recent CPU that is not allowed passes where prev is allowed.
class RecentIdleUnchecked : public Probe {
  public:
    explicit RecentIdleUnchecked(Filters);
    bool run(Ctx&) const override;
};

/// X6: target has no LLC domain.
class NoLlc : public Step {
  public:
    NoLlc();
    bool run(Ctx&) const override;
};

/// Nothing found on a cluster machine: the idle prev, else the recent CPU, that X2 and X4 kept (6.8+).
class KeptAffine : public Step {
  public:
    KeptAffine();
    bool run(Ctx&) const override;
};

/// Nothing found: target.
class ReturnTarget : public Step {
  public:
    ReturnTarget();
    bool run(Ctx&) const override;
};

}  // namespace rewake
