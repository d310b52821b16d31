// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/columns.hpp"

#include <stdexcept>

#include "replay/policies/steps/capacity.hpp"
#include "replay/policies/steps/scan_ring.hpp"
#include "replay/policies/steps/scan_u.hpp"
#include "replay/policies/steps/wakee.hpp"

namespace rewake {
namespace {

constexpr Column kColumns[] = {
    {.name = "linux-6.1",
     .oracle = "v6.1",
     .kernel = "6.1.192 (Debian 12)",
     .flips_pre_core = false,
     .pinned = Pinned::any_allowed,
     .exiting_no_sync = true,
     .stop_unbalanced = false,
     .affine_rule = AffineRule::a414,
     .imbalance = {.smt = 110, .llc = 117, .pkg = 117},
     .x2_prev = PrevOf::prev,
     .x3_kthread = true,
     .x4_recent = true,
     .asym = true,
     .x6_no_llc = true,
     .idle_pred = IdlePred::avail_or_sidle,
     .scan = Scan::u,
     .sis_util = true},
    {.name = "linux-4.5",
     .oracle = "v4.5",
     .kernel = "4.5",
     .flips_pre_core = true,
     .pinned = Pinned::keep_prev,
     .exiting_no_sync = false,
     .stop_unbalanced = true,
     .affine_rule = AffineRule::a45,
     .imbalance = {.smt = 110, .llc = 117, .pkg = 125},
     .x2_prev = PrevOf::task_cpu,
     .x3_kthread = false,
     .x4_recent = false,
     .asym = false,
     .x6_no_llc = false,
     .idle_pred = IdlePred::idle,
     .scan = Scan::ring,
     .sis_util = false},
};

}  // namespace

std::span<const Column> columns() { return kColumns; }

const Column& column(const std::string& name) {
    for (const Column& c : kColumns)
        if (name == c.name) return c;
    throw std::invalid_argument("no mainline column '" + name + "'");
}

std::vector<PolicyInfo::Param> column_params(const Column& c) {
    std::vector<PolicyInfo::Param> p;
    if (c.affine_rule == AffineRule::a414) {
        p.push_back({"WA_IDLE", "1", "scheduler feature: the affine step looks at idle CPUs"});
        p.push_back({"WA_WEIGHT", "1", "scheduler feature: the affine step compares loads"});
        p.push_back({"WA_BIAS", "1", "scheduler feature: prev's load counts more, by imbalance_pct"});
    }
    if (c.sis_util) p.push_back({"SIS_UTIL", "1", "scheduler feature: the idle scan is bounded by nr_idle_scan"});
    return p;
}

std::vector<std::string> column_deviations() {
    return {"wake path only: no fork, exec or BALANCE_WAKE slow path",
            "energy-aware placement and core scheduling are not modelled",
            "prev is the task's CPU: wake_cpu set by affinity or NUMA changes during the sleep is not known"};
}

Composition compose(const Column& c, const PolicyParams& params, const Topology& t, Steps scan) {
    Composition out{.steps = {}, .idle = c.idle_pred, .idle_cores = c.scan == Scan::u, .load = c.scan == Scan::u ? LoadKind::average : LoadKind::runnable, .fork_recent = c.x4_recent};
    Steps& s = out.steps;
    Filters fit;
    if (c.asym && t.asym) fit.push_back(std::make_shared<Fit>());
    if (c.flips_pre_core) s.push_back(std::make_unique<RecordWakee>(true));
    s.push_back(std::make_unique<PinnedStep>(c.pinned));
    if (!c.flips_pre_core) s.push_back(std::make_unique<RecordWakee>(false));
    s.push_back(std::make_unique<Gate>(c.exiting_no_sync));
    s.push_back(std::make_unique<DomainWalk>(c.stop_unbalanced));
    if (c.affine_rule == AffineRule::a45)
        s.push_back(std::make_unique<Affine45>(t, c.imbalance));
    else
        s.push_back(std::make_unique<Affine414>(t, c.imbalance,
                                                WakeAffineFeatures{.idle = flag_param(params, "WA_IDLE"),
                                                                   .weight = flag_param(params, "WA_WEIGHT"),
                                                                   .bias = flag_param(params, "WA_BIAS")}));
    s.push_back(std::make_unique<TargetIdle>(fit));
    s.push_back(std::make_unique<PrevIdle>(c.x2_prev, fit));
    if (c.x3_kthread) s.push_back(std::make_unique<KthreadWaker>(fit));
    if (c.x4_recent) s.push_back(std::make_unique<RecentIdle>(fit));
    if (c.asym && t.asym) s.push_back(std::make_unique<AsymScan>());
    if (c.x6_no_llc) s.push_back(std::make_unique<NoLlc>());
    if (scan.empty()) {
        if (c.scan == Scan::ring)
            scan.push_back(std::make_unique<ScanRing>(false));
        else
            scan.push_back(std::make_unique<ScanU>(c.sis_util && flag_param(params, "SIS_UTIL")));
    }
    for (auto& step : scan) s.push_back(std::move(step));
    s.push_back(std::make_unique<ReturnTarget>());
    s.push_back(std::make_unique<CoreCheck>());
    return out;
}

PolicyEntry column_entry(const Column& c) {
    PolicyInfo info{.name = c.name,
                    .summary = std::string("wake placement of Linux ") + c.kernel,
                    .source = std::string("kernel/sched/fair.c and core.c of Linux ") + c.kernel,
                    .oracle_column = c.oracle,
                    .reference = false,
                    .params = column_params(c),
                    .steps = {},
                    .deviations = column_deviations()};
    return composed_entry(std::move(info), [&c](const PolicyParams& p, const Topology& t) { return compose(c, p, t); });
}

}  // namespace rewake
