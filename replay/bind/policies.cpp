// SPDX-License-Identifier: GPL-2.0-or-later
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "replay/bind/conformance.hpp"
#include "replay/policies/policy.hpp"

namespace nb = nanobind;

void bind_policies(nb::module_& m) {
    m.def(
        "policies",
        [] {
            nb::list all;
            for (const rewake::PolicyInfo& p : rewake::all_policies()) {
                nb::list params;
                for (const auto& q : p.params) {
                    nb::dict d;
                    d["name"] = q.name;
                    d["value"] = q.value;
                    d["meaning"] = q.meaning;
                    params.append(d);
                }
                nb::dict d;
                d["name"] = p.name;
                d["summary"] = p.summary;
                d["source"] = p.source;
                d["oracle_column"] =
                    p.oracle_column.empty() ? nb::none() : nb::object(nb::str(p.oracle_column.c_str()));
                d["reference"] = p.reference;
                d["params"] = params;
                d["steps"] = nb::cast(p.steps);
                d["deviations"] = nb::cast(p.deviations);
                d["reads_irq"] = p.reads_irq;
                all.append(d);
            }
            return all;
        },
        "All policies: name, summary, source, oracle_column (None: no vectors), reference, params (name, value = "
        "default, meaning),\n"
        "steps in order, deviations, reads_irq (its replay follows the interrupts).");
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
