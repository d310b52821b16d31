// SPDX-License-Identifier: GPL-2.0-or-later
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "replay/bind/conformance.hpp"
#include "replay/policies/policy.hpp"

namespace nb = nanobind;

static nb::object or_none(const std::string& text) {
    return text.empty() ? nb::none() : nb::object(nb::str(text.c_str()));
}

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
                for (const auto& [key, text] : {std::pair{"author", &p.author},
                                                {"date", &p.date},
                                                {"posting", &p.posting},
                                                {"kernel", &p.kernel},
                                                {"base", &p.base}})
                    d[key] = or_none(*text);
                d["oracle_column"] = or_none(p.oracle_column);
                d["reference"] = p.reference;
                d["params"] = params;
                d["steps"] = nb::cast(p.steps);
                d["inputs"] = p.inputs;
                d["quirks"] = nb::cast(p.quirks);
                d["deviations"] = nb::cast(p.deviations);
                d["reads_irq"] = p.reads_irq;
                all.append(d);
            }
            return all;
        },
        "All policies: name, summary, author, date and posting (of a seed), base (the column that a seed changes), "
        "kernel "
        "(whose source was read), oracle_column (None: no vectors), reference, params (name, value = default, "
        "meaning), "
        "steps in order, inputs (bits that they may look at), quirks, deviations, reads_irq (its replay follows the "
        "interrupts).");
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
