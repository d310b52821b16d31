// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/plugin/plugin.hpp"

#include <dlfcn.h>

#include <array>
#include <cstring>
#include <stdexcept>

#include "replay/plugin/host.hpp"

namespace rewake {
namespace {

constexpr size_t kMaxText = 200, kMaxParams = 64;

std::string text(const char* s) { return s ? std::string(s, strnlen(s, kMaxText)) : std::string(); }

[[noreturn]] void refuse(const std::string& why) {
    throw std::invalid_argument(why + ": compile it against this rewake's rewake_policy.h (rewake policies new)");
}

}  // namespace

Plugin::Plugin(const std::string& path, const std::string& progress) : progress_(progress) {
    void* object = progress_.inside(Phase::load, -1, [&] { return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); });
    if (!object) throw std::invalid_argument(dlerror());
    void* symbol = dlsym(object, "rewake_policy_v1");
    if (!symbol) throw std::invalid_argument("no policy: it exports no rewake_policy_v1");
    const auto entry = reinterpret_cast<const rewake_policy* (*)()>(symbol);
    calls_ = progress_.inside(Phase::load, -1, entry);
    if (!calls_) throw std::invalid_argument("no policy: rewake_policy_v1 returns NULL");
    if (calls_->abi_version != REWAKE_POLICY_ABI)
        refuse("it has ABI version " + std::to_string(calls_->abi_version) + ", this rewake calls version " +
               std::to_string(REWAKE_POLICY_ABI));
    if (calls_->abi_size != sizeof(rewake_policy))
        refuse("its struct rewake_policy has " + std::to_string(calls_->abi_size) + " bytes, not " +
               std::to_string(sizeof(rewake_policy)));
    if (!calls_->name || !calls_->summary || !calls_->base) refuse("it has no name, summary or base");
    if (!calls_->decide) refuse("it has no function decide");
    constexpr uint32_t all = 1 << REWAKE_WAKE | 1 << REWAKE_FORK | 1 << REWAKE_EXEC;
    if (!calls_->kinds || calls_->kinds & ~all) refuse("its kinds are " + std::to_string(calls_->kinds));
    about_ = {.name = text(calls_->name),
              .version = text(calls_->version),
              .summary = text(calls_->summary),
              .source = text(calls_->source),
              .base = text(calls_->base),
              .kinds = calls_->kinds,
              .params = {},
              .branches = {}};
    for (const rewake_param* p = calls_->params; p && p->name; ++p) {
        if (about_.params.size() == kMaxParams) refuse("it has more than 64 parameters");
        about_.params.push_back({text(p->name), text(p->default_value), text(p->meaning)});
    }
    for (const char* const* b = calls_->branches; b && *b; ++b) {
        if (about_.branches.size() == kMaxBranches) refuse("it has more than 32 branches");
        about_.branches.push_back(text(*b));
    }
}

PluginPolicy::PluginPolicy(std::shared_ptr<Plugin> plugin, std::vector<std::string> values,
                           std::unique_ptr<Composed> base, std::shared_ptr<AnswerLog> log, const Topology& topo,
                           uint64_t seed)
    : plugin_(std::move(plugin)),
      values_(std::move(values)),
      base_(std::move(base)),
      log_(std::move(log)),
      topo_(topo),
      host_(host_of(topo, seed)) {
    if (values_.size() != plugin_->about().params.size())
        throw std::invalid_argument("one value for each parameter expected");
    for (const std::string& v : values_) value_texts_.push_back(v.c_str());
    value_texts_.push_back(nullptr);
    const rewake_policy& calls = plugin_->calls();
    if (!calls.create) return;
    std::array<char, 256> error{};
    self_ = plugin_->progress().inside(
        Phase::create, -1, [&] { return calls.create(&host_, value_texts_.data(), error.data(), error.size()); });
    if (!self_) {
        const std::string why(error.data(), strnlen(error.data(), error.size()));
        throw std::invalid_argument("it refuses: " + (why.empty() ? "it does not say why" : why));
    }
}

PluginPolicy::~PluginPolicy() {
    const rewake_policy& calls = plugin_->calls();
    if (calls.destroy && (self_ || !calls.create))
        plugin_->progress().inside(Phase::destroy, -1, [&] { calls.destroy(self_); });
}

Decision PluginPolicy::decide(const View& v, const Wakeup& w, const CpuMask* dirty, Cpu) {
    Decision d;
    d.undecided = true;
    if (!(plugin_->about().kinds >> static_cast<unsigned>(w.kind) & 1)) return d;
    Ctx x = base_->context(v, w, dirty && dirty->any(topo_.words) ? dirty : nullptr, d);
    x.target = w.prev;
    x.sync = w.sync;
    rewake_decision question{.base = *base_,
                             .x = x,
                             .wakeup = wakeup_of(v, w),
                             .branches = static_cast<int>(plugin_->about().branches.size())};
    const int32_t cpu = plugin_->progress().inside(Phase::decide, w.id,
                                                   [&] { return plugin_->calls().decide(self_, &host_, &question); });
    const bool by_steps = question.chosen && !question.absent && cpu == d.cpu.v;
    if (!by_steps && static_cast<uint8_t>(d.branch) < kOwnBranch) d.branch = static_cast<Branch>(kOwnBranch);
    if (log_) {
        Answer& a = (*log_)[w.id];
        a.cpu = cpu;
        a.looked = d.looked;
        a.scanned = d.scanned;
        a.branch = static_cast<uint8_t>(d.branch);
        a.flags = static_cast<uint8_t>(Answer::kAnswered | (d.exposed ? Answer::kExposed : 0));
    }
    d.undecided = !valid_answer(topo_, w, cpu);
    if (d.undecided) {
        if (invalid_ && cpu != Answer::kUndecided) invalid_->add(w.id, cpu);
        return d;
    }
    d.cpu = Cpu(static_cast<uint16_t>(cpu));
    if (!by_steps || !question.checked) d.class_cpu = d.cpu;
    return d;
}

void PluginPolicy::cpu_idle(const View& v, Cpu c, bool core_idle) {
    base_->cpu_idle(v, c, core_idle);
    if (plugin_->calls().on_cpu_idle)
        plugin_->progress().inside(Phase::on_cpu_idle, -1,
                                   [&] { plugin_->calls().on_cpu_idle(self_, c.v, int{core_idle}); });
}

void PluginPolicy::fork(TaskId parent, TaskId child, Cpu cpu) {
    base_->fork(parent, child, cpu);
    if (plugin_->calls().on_fork)
        plugin_->progress().inside(Phase::on_fork, -1,
                                   [&] { plugin_->calls().on_fork(self_, parent.v, child.v, cpu.v); });
}

}  // namespace rewake
