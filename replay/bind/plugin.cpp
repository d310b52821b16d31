// SPDX-License-Identifier: GPL-2.0-or-later
// Binding of plugins. `Plugin` runs foreign code: only replay/plugin_child.py, a process of its own, may make one.
#include "replay/plugin/plugin.hpp"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "replay/bind/engine.hpp"
#include "replay/bind/policy_source.hpp"

namespace rewake::bind {
namespace {

/// One instance of a plugin: its parameters, its base, and where its answers are written.
class PluginSource final : public PolicySource {
  public:
    PluginSource(std::shared_ptr<Plugin> plugin, std::vector<std::string> values,
                 std::pair<std::string, PolicyParams> base, std::shared_ptr<AnswerLog> log)
        : plugin_(std::move(plugin)), values_(std::move(values)), base_(std::move(base)), log_(std::move(log)) {}

    std::unique_ptr<Policy> make(const Topology& topo, uint64_t seed) const override {
        std::unique_ptr<Policy> made = make_policy(base_.first, base_.second, topo, seed);
        auto* composed = dynamic_cast<Composed*>(made.get());
        if (!composed) throw std::invalid_argument(base_.first + " has no steps: a plugin cannot be based on it");
        made.release();
        auto own =
            std::make_unique<PluginPolicy>(plugin_, values_, std::unique_ptr<Composed>(composed), log_, topo, seed);
        own->count_invalid(invalid_);
        return own;
    }
    const InvalidAnswers& invalid() const { return *invalid_; }

  private:
    std::shared_ptr<Plugin> plugin_;
    std::vector<std::string> values_;
    std::pair<std::string, PolicyParams> base_;
    std::shared_ptr<AnswerLog> log_;
    std::shared_ptr<InvalidAnswers> invalid_ = std::make_shared<InvalidAnswers>();
};

/// What a plugin answered in its own process.
class AnswerSource final : public PolicySource {
  public:
    AnswerSource(const std::string& path, size_t decisions, int branches)
        : log_(std::make_shared<AnswerLog>(path, decisions)), branches_(branches) {}

    std::unique_ptr<Policy> make(const Topology& topo, uint64_t) const override {
        return std::make_unique<AnsweredPolicy>(log_, invalid_, topo, branches_);
    }
    const InvalidAnswers& invalid() const { return *invalid_; }

  private:
    std::shared_ptr<AnswerLog> log_;
    std::shared_ptr<InvalidAnswers> invalid_ = std::make_shared<InvalidAnswers>();
    int branches_;
};

constexpr const char* kInvalid =
    "Answers so far that are not a CPU which exists, is online and allowed: how many, and the first one's decision and "
    "CPU.";

template <class Source>
std::tuple<int64_t, int64_t, int32_t> invalid_of(const Source& self) {
    const InvalidAnswers& i = self.invalid();
    return {i.n, i.first, i.cpu};
}

nb::bytes bytes(const std::string& s) { return nb::bytes(s.data(), s.size()); }

nb::dict describe(const Plugin& plugin) {
    const Plugin::About& a = plugin.about();
    nb::list params, branches;
    for (const auto& p : a.params) params.append(nb::make_tuple(bytes(p.name), bytes(p.value), bytes(p.meaning)));
    for (const auto& b : a.branches) branches.append(bytes(b));
    nb::dict d;
    d["name"] = bytes(a.name);
    d["version"] = bytes(a.version);
    d["summary"] = bytes(a.summary);
    d["source"] = bytes(a.source);
    d["base"] = bytes(a.base);
    d["kinds"] = a.kinds;
    d["params"] = params;
    d["branches"] = branches;
    return d;
}

struct PyPlugin {
    std::shared_ptr<Plugin> plugin;
};

}  // namespace
}  // namespace rewake::bind

namespace nb = nanobind;
using namespace rewake;
using namespace rewake::bind;

void bind_plugin(nb::module_& m) {
    nb::exception<PluginThrew>(m, "PluginThrew");
    nb::class_<PolicySource>(m, "PolicySource", "A policy that is not in the registry.");
    nb::class_<PluginSource, PolicySource>(m, "PluginSource")
        .def_prop_ro("invalid", &invalid_of<PluginSource>, kInvalid);
    nb::class_<PyPlugin>(m, "Plugin", "A loaded plugin. Runs its code in this process.")
        .def(
            "__init__",
            [](PyPlugin* self, const std::string& path, const std::string& progress) {
                new (self) PyPlugin{std::make_shared<Plugin>(path, progress)};
            },
            nb::arg("path"), nb::arg("progress"),
            "Loads `path`; keeps the file `progress` (plugins.py) up to date. ValueError when it is no plugin.")
        .def(
            "describe", [](const PyPlugin& self) { return describe(*self.plugin); },
            "What it says of itself; its texts as bytes.")
        .def(
            "source",
            [](const PyPlugin& self, std::vector<std::string> values, std::pair<std::string, PolicyParams> base,
               const std::optional<std::string>& log, size_t decisions) {
                auto answers = log ? std::make_shared<AnswerLog>(*log, decisions) : nullptr;
                return PluginSource(self.plugin, std::move(values), std::move(base), std::move(answers));
            },
            nb::arg("values"), nb::arg("base"), nb::arg("log").none(), nb::arg("decisions"),
            "An instance: values of its parameters, (name, params) of its base, and the file for its answers.");
    nb::class_<AnswerSource, PolicySource>(m, "Answers", "What a plugin answered to the decisions of a recording.")
        .def(nb::init<const std::string&, size_t, int>(), nb::arg("path"), nb::arg("decisions"), nb::arg("branches"))
        .def_prop_ro("invalid", &invalid_of<AnswerSource>, kInvalid);
}
