// SPDX-License-Identifier: GPL-2.0-or-later
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "replay/bind/conformance.hpp"
#include "replay/policies/steps/slow_path.hpp"

namespace nb = nanobind;

namespace {

nb::dict described(const rewake::PolicyInfo& p) {
    auto text = [](const std::string& s) { return s.empty() ? nb::none() : nb::object(nb::str(s.c_str())); };
    nb::list params;
    for (const auto& q : p.params) {
        nb::dict d;
        d["name"] = q.name;
        d["value"] = q.value;
        d["meaning"] = q.meaning;
        d["constant"] = q.constant;
        params.append(d);
    }
    nb::dict d;
    d["name"] = p.name;
    d["summary"] = p.summary;
    d["source"] = p.source;
    d["oracle_column"] = text(p.oracle_column);
    d["reference"] = p.reference;
    d["base"] = text(p.base);
    d["hybrid"] = p.hybrid;
    d["params"] = params;
    d["steps"] = nb::cast(p.steps);
    d["deviations"] = nb::cast(p.deviations);
    d["reads_irq"] = p.reads_irq;
    d["hints"] = p.hints;
    return d;
}

}  // namespace

void bind_policies(nb::module_& m) {
    nb::dict hints;
    hints["FORK_AFFINE"] = static_cast<int>(rewake::kForkAffine);
    hints["FORK_SPREAD"] = static_cast<int>(rewake::kForkSpread);
    hints["WAKE_AFFINE"] = static_cast<int>(rewake::kWakeAffine);
    hints["WAKE_HOLD"] = static_cast<int>(rewake::kWakeHold);
    hints["WAKE_WIDE"] = static_cast<int>(rewake::kWakeWide);
    m.attr("HINTS") = hints;
    m.def(
        "policies",
        [] {
            nb::list all;
            for (const rewake::PolicyInfo& p : rewake::all_policies()) all.append(described(p));
            return all;
        },
        "All policies: name, summary, source, oracle_column (None: no vectors), reference, base (column of a seed), "
        "hybrid,\n"
        "params (name, value = default, meaning, constant: fixed by kernel or posting), steps in order, deviations, "
        "reads_irq\n"
        "(its replay follows the interrupts), hints (bits that it acts on).");
    m.def(
        "policy", [](const std::string& name) { return described(rewake::policy_info(name)); }, nb::arg("name"),
        "One of them, or SEED@COLUMN. Raises ValueError for an unknown name and where the seed has no meaning.");
    m.def(
        "branch_names",
        [] {
            nb::list names;
            for (int b = 0; b < static_cast<int>(rewake::Branch::count_); ++b)
                names.append(std::string(rewake::branch_name(static_cast<rewake::Branch>(b))));
            return names;
        },
        "Names of the branch codes of the ledger, by code.");
}
