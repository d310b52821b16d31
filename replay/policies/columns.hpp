// SPDX-License-Identifier: GPL-2.0-or-later
// Mainline kernels: one row of parameters each (policies.md A12), and how a row becomes steps.
#pragma once

#include <span>

#include "replay/policies/composed.hpp"
#include "replay/policies/steps/affine.hpp"
#include "replay/policies/steps/capacity.hpp"
#include "replay/policies/steps/core.hpp"
#include "replay/policies/steps/probes.hpp"
#include "replay/policies/steps/scan_3.hpp"
#include "replay/policies/steps/scan_u.hpp"
#include "replay/policies/steps/slow_path.hpp"

namespace rewake {

enum class Flips : uint8_t { none, pre_core, in_class };
enum class WakeGate : uint8_t {
    allowed,       ///< waker CPU allowed
    wide,          ///< and not wake_wide
    wide_cap_avg,  ///< and not wake_cap by util_avg
    wide_cap_est,  ///< and not wake_cap by the estimated utilisation
};
enum class AffineRule : uint8_t { a38, a45_task_cpu, a45, a412, a414 };
enum class X3 : uint8_t { none, any_context, in_task };
enum class X4 : uint8_t { none, old, unchecked, checked };
enum class Asym : uint8_t {
    none,    ///< capacities do not enter select-idle-sibling
    first,   ///< X0 (5.9)
    last,    ///< fit filter on X1, X2, X4, and X5 (5.10)
    last_x3  ///< also on X3 (5.15+)
};
enum class Scan : uint8_t { ring_all, ring, three, u };

/// A row of A12: what distinguishes this kernel's wake path.
struct Column {
    const char* name;    ///< policy name, linux-6.1
    const char* oracle;  ///< column of the conformance vectors; empty: none exist
    const char* kernel;  ///< the kernel that was read
    Flips flips = Flips::in_class;
    Pinned pinned = Pinned::any_allowed;
    bool exiting_no_sync = true;   ///< sync is forced off while curr exits (4.19+)
    WakeGate gate = WakeGate::wide;
    int wide_factor = 0;           ///< flips that make wake_wide; 0: size of the waker's LLC
    bool stop_unbalanced = false;  ///< the domain walk ends at a level without LOAD_BALANCE
    bool walk_at_prev = false;     ///< seed 2: the affine step is also for wakeups on prev itself
    bool search_without_affine = true;  ///< wakeups without an affine level are searched too (not in 3.8 and 3.10)
    AffineRule affine_rule = AffineRule::a414;
    WakeAffineRules affine{};      ///< of a414
    Imbalance imbalance{};
    bool x2_prev = true;
    PrevOf x2_source = PrevOf::prev;
    X3 x3_kthread = X3::in_task;
    X4 x4_recent = X4::checked;
    Asym asym = Asym::last_x3;
    FitRule fit = FitRule::boost;
    int fit_margin = kFitMargin;
    bool ranked_asym = false;      ///< 7.2's bound and ranks in X5, whole cores in the fit filter
    bool x6_no_llc = true;
    IdlePred idle_pred = IdlePred::avail_or_sidle;
    Scan scan = Scan::u;
    Scan3Rules scan_3{};
    ScanURules scan_u{};
    SlowRules
        slow{};  ///< forks, execs, and wakeups where domains set BALANCE_WAKE; its imbalance and fit are the row's
};

std::span<const Column> columns();
/// The row called `name`. Throws std::invalid_argument when there is none.
const Column& column(const std::string& name);

/// What a seed puts into a column. Empty parts leave the column's own.
struct Parts {
    Steps gate;       ///< before the domain walk of a wakeup
    Steps slow_gate;  ///< before the domain walk of a fork or exec
    Steps hint;       ///< before the affine step
    Steps affine;     ///< replaces the affine step
    Filters clean;    ///< filters added to the probes that look for an idle CPU (X1, X2, X4)
    Steps scan;       ///< replaces the scan steps
    Steps last;       ///< when nothing was found, before target is returned
};

/// Policy parameters of a column: its scheduler features and its constants.
std::vector<PolicyInfo::Param> column_params(const Column& c);
/// The column with its parameters applied; `params` has all of column_params() and may have more.
Column configured(Column c, const PolicyParams& params);
/// Composes the column for machine `t`.
Composition compose(Column c, const Topology& t, Parts parts = {});
/// The column's own affine step.
std::unique_ptr<Affine> affine_step(const Column& c, const Topology& t);
/// Whether the column keeps has_idle_cores (4.8+).
bool keeps_idle_cores(const Column& c);
/// What of the kernel is not modelled.
std::vector<std::string> column_deviations(const Column& c);

PolicyEntry column_entry(const Column& c);

/// The description of a seed put on column `c`: `own` has its name, base, vectors, parameters and deviations, and its
/// summary says what the seed makes of a kernel ("that ..."). On another column than its base it becomes a hybrid, and
/// `port` says what putting it there took.
PolicyInfo seed_info(PolicyInfo own, const Column& c, std::vector<std::string> port = {});
/// Refuses a column on which the seed has no meaning.
[[noreturn]] void refuse_column(const std::string& seed, const Column& c, const std::string& reason);

}  // namespace rewake
