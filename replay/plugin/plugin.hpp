// SPDX-License-Identifier: GPL-2.0-or-later
// Policies from shared objects (rewake_policy.h). Everything here runs the plugin's code and belongs into a process of its
// own; answers.hpp is the other side.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "replay/plugin/answers.hpp"
#include "replay/plugin/progress.hpp"
#include "replay/plugin/rewake_policy.h"
#include "replay/policies/composed.hpp"

namespace rewake {

/// A loaded plugin. Stays loaded as long as the process: unloading code that has run is never safe.
class Plugin {
  public:
    /// Loads `path`, which must contain a '/'. Throws std::invalid_argument (one line for the user, without the path) when
    /// it is no plugin that this rewake can call.
    Plugin(const std::string& path, const std::string& progress);
    /// What it says of itself; texts shortened and made valid, none is nullptr.
    struct About {
        std::string name, version, summary, source, base;
        uint32_t kinds = 0;
        std::vector<PolicyInfo::Param> params;
        std::vector<std::string> branches;
    };
    const About& about() const { return about_; }
    const rewake_policy& calls() const { return *calls_; }
    Progress& progress() { return progress_; }

  private:
    Progress progress_;
    const rewake_policy* calls_ = nullptr;
    About about_;
};

/// One instance of a plugin for one machine.
class PluginPolicy final : public Policy {
  public:
    /// `values`: of about().params, in their order. `base` makes the steps. `log` may be nullptr. Throws
    /// std::invalid_argument with the plugin's words when it refuses.
    PluginPolicy(std::shared_ptr<Plugin> plugin, std::vector<std::string> values, std::unique_ptr<Composed> base,
                 std::shared_ptr<AnswerLog> log, const Topology& topo, uint64_t seed);
    ~PluginPolicy() override;
    Decision decide(const View& v, const Wakeup& w, const CpuMask* dirty, Cpu recorded) override;
    void cpu_idle(const View& v, Cpu c, bool core_idle) override;
    bool keeps_idle_cores() const override { return true; }
    bool sees_every_idle() const override { return plugin_->calls().on_cpu_idle != nullptr; }
    LoadKind load_kind() const override { return base_->load_kind(); }
    bool energy_aware() const override { return base_->energy_aware(); }
    PolicyState& memory() override { return base_->memory(); }
    bool remembers() const override { return true; }
    /// The base alone: the plugin is asked once, and what it keeps itself could not be put back.
    Decision remember(const View& v, const Wakeup& w) override { return base_->remember(v, w); }
    const IrqSettings* irq_settings() const override { return base_->irq_settings(); }
    void fork(TaskId parent, TaskId child, Cpu cpu) override;
    Composed& base() { return *base_; }
    /// From now on answers that are not valid are counted there.
    void count_invalid(std::shared_ptr<InvalidAnswers> into) { invalid_ = std::move(into); }

  private:
    std::shared_ptr<Plugin> plugin_;
    std::vector<std::string> values_;
    std::vector<const char*> value_texts_;
    std::unique_ptr<Composed> base_;
    std::shared_ptr<AnswerLog> log_;
    std::shared_ptr<InvalidAnswers> invalid_;
    const Topology& topo_;
    rewake_host host_;
    void* self_ = nullptr;
};

}  // namespace rewake
