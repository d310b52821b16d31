// SPDX-License-Identifier: GPL-2.0-or-later
// Mainline kernels: one row of parameters each (policies.md A12).
#pragma once

#include <span>

#include "replay/policies/composed.hpp"
#include "replay/policies/steps/affine.hpp"
#include "replay/policies/steps/core.hpp"
#include "replay/policies/steps/probes.hpp"

namespace rewake {

enum class AffineRule : uint8_t { a45, a414 };
enum class Scan : uint8_t { ring, u };

/// A row of A12: what distinguishes this kernel's wake path.
struct Column {
    const char* name;     ///< policy name, linux-6.1
    const char* oracle;   ///< column of the conformance vectors
    const char* kernel;   ///< the kernel that was read
    bool flips_pre_core;  ///< record_wakee before the core asks the class
    Pinned pinned;
    bool exiting_no_sync;  ///< sync is forced off while curr exits
    bool stop_unbalanced;  ///< the domain walk ends at a level without LOAD_BALANCE
    AffineRule affine_rule;
    Imbalance imbalance;
    PrevOf x2_prev;
    bool x3_kthread;
    bool x4_recent;
    bool asym;  ///< fit filter and X5 on asymmetric machines
    bool x6_no_llc;
    IdlePred idle_pred;
    Scan scan;
    bool sis_util;  ///< has the feature SIS_UTIL, on by default
};

std::span<const Column> columns();
/// The row called `name`. Throws std::invalid_argument when there is none.
const Column& column(const std::string& name);

/// Policy parameters of a column: its scheduler features.
std::vector<PolicyInfo::Param> column_params(const Column& c);
/// Composes the wake path. `scan` replaces the column's own scan steps (seeds); empty: the column's.
Composition compose(const Column& c, const PolicyParams& params, const Topology& t, Steps scan = {});
/// What of the kernel is not modelled by any column.
std::vector<std::string> column_deviations();

PolicyEntry column_entry(const Column& c);

}  // namespace rewake
