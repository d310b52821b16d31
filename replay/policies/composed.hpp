// SPDX-License-Identifier: GPL-2.0-or-later
// A policy made of steps, and the table entry that makes it known.
#pragma once

#include <functional>

#include "replay/policies/steps/step.hpp"

namespace rewake {

/// Which CPUs count as idle (policies.md section 0).
enum class IdlePred : uint8_t {
    idle,                              ///< IDLE (until 4.18)
    avail,                             ///< AVAIL (4.19)
    avail_or_sidle,                    ///< and CPUs with idle-policy tasks only (5.4+)
    avail_or_sidle_unless_idle_policy  ///< not these for a task of idle policy (7.2)
};

/// A composition for one machine: the steps in order of their stages, and the state rules that no step carries.
struct Composition {
    Steps steps;
    Steps slow;                ///< forks and execs
    IdlePred idle = IdlePred::idle;
    bool idle_cores = false;   ///< keeps has_idle_cores (4.8+)
    bool energy_aware = false;  ///< has energy-aware placement (5.0+)
    std::optional<IrqSettings> irq{};  ///< reads View::irq, estimated so
    std::optional<uint8_t> hints{};  ///< of userspace: those that every task has beside its own
    LoadKind load = LoadKind::average;
    std::optional<int> wide_factor{};  ///< of a column as it is: flips that make wake_wide; 0: size of the waker's LLC
    bool recent_reached = false;  ///< reaching X4 makes prev the recent CPU, hit or miss (5.15+)
    bool fork_recent = false;  ///< fork sets recent_used_cpu to the parent's CPU (4.19+)
};

class Composed final : public Policy {
  public:
    Composed(Composition c, const Topology& t);
    Decision decide(const View& v, const Wakeup& w, const CpuMask* dirty, Cpu recorded) override;
    void cpu_idle(const View& v, Cpu c, bool core_idle) override;
    bool keeps_idle_cores() const override { return c_.idle_cores; }
    LoadKind load_kind() const override { return c_.load; }
    bool keeps_in_llc(uint8_t hint) const override;
    const IrqSettings* irq_settings() const override { return c_.irq ? &*c_.irq : nullptr; }
    std::optional<int> wide_factor(Cpu waker) const override {
        return c_.wide_factor == 0 ? topo_.llc_size(waker) : c_.wide_factor;
    }
    bool energy_aware() const override { return c_.energy_aware; }
    bool remembers() const override { return true; }
    void fork(TaskId parent, TaskId child, Cpu cpu) override;
    bool follow(const View& v, const Wakeup& w, Cpu recorded, const Decision& made, const PolicyState::Task& before,
                const std::vector<uint8_t>& hic) override;

    /// select-idle-sibling alone, without the core's check.
    Decision select_idle_sibling(const View& v, const Wakeup& w, Cpu target);
    /// The affine step alone, at the lowest domain of the waker's CPU that holds prev. Nothing when there is none.
    std::optional<Cpu> affine(const View& v, const Wakeup& w);
    /// The idlest CPU of a group alone, searched from the waker's CPU.
    std::optional<Cpu> idlest_cpu(const View& v, const Wakeup& w, const CpuMask& group);

    const Composition& parts() const { return c_; }
    /// A decision about to begin. `dirty`: nullptr when empty.
    Ctx context(const View& v, const Wakeup& w, const CpuMask* dirty, Decision& d);

  private:
    /// Whether CPUs with nothing but tasks of idle policy are usable.
    bool takes_sidle(const Wakeup& w) const;
    void run(Ctx& x, Stage from, Stage to) const;
    template <bool kTold>
    void decide_wake(Ctx& x) const;
    void decide_slow(Ctx& x) const;
    const Topology& topo_;
    void look(const Turns& turns, const CpuMask& idle);
    CpuMask looked_;  ///< `idle` of Ctx where CPUs turned: as a placement meets them
    Composition c_;
};

/// An entry of the registry: the description and the maker. `make` throws std::invalid_argument for a wrong parameter
/// value.
struct PolicyEntry {
    PolicyInfo info;
    std::function<std::unique_ptr<Policy>(const PolicyParams&, const Topology&, uint64_t seed)> make;
};

/// The entry of a composed policy. `compose` gets the parameters (all present, defaults filled in) and whether the
/// machine is asymmetric; the description's steps are those of an asymmetric machine, which has all of them.
using Compose = std::function<Composition(const PolicyParams&, const Topology&)>;
PolicyEntry composed_entry(PolicyInfo info, Compose compose);

/// Parameters as given over the defaults of `info`. Throws std::invalid_argument for an unknown name.
PolicyParams with_defaults(const PolicyInfo& info, const PolicyParams& given);
/// `value` of parameter `name` as 0 or 1. Throws std::invalid_argument otherwise.
bool flag_param(const PolicyParams& params, const std::string& name);
/// Parameter `name` as a whole number of `least`..`most`. Throws std::invalid_argument otherwise; `or_else` names the
/// words that are allowed besides.
int64_t int_param(const PolicyParams& params, const std::string& name, int64_t least, int64_t most,
                  const std::string& or_else = {});

}  // namespace rewake
