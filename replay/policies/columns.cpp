// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/columns.hpp"

#include <stdexcept>

#include "replay/policies/steps/affine_old.hpp"
#include "replay/policies/steps/scan_ring.hpp"
#include "replay/policies/steps/wakee.hpp"

namespace rewake {
namespace {

constexpr Imbalance kImbalance38{.smt = 110, .llc = 125, .pkg = 125};
constexpr Imbalance kImbalance45{.smt = 110, .llc = 117, .pkg = 125};  // until 5.9

constexpr WakeAffineRules kAffine419{.prev_idle = false};
constexpr WakeAffineRules kAffine59{.prev_idle = false};
constexpr WakeAffineRules kAffine612{.delayed = true};

constexpr ScanURules kScan515{.waker_llc = true, .prev_itself = true, .remember_in_scan = false};

constexpr SlowRules kSlow38{.group = GroupRule::gl,
                            .from_waker = true,
                            .at_waker = false,
                            .walk_needs_balance = true,
                            .walk_38 = true,
                            .idle_states = false,
                            .single_cpu = false,
                            .tie_waker = true,
                            .soft = SlowRules::Soft::none};

/// 3.8, and by its older tests also 3.10.
constexpr Column kLinux38{.name = "linux-3.8",
                          .oracle = "v3.8",
                          .kernel = "3.8.3",
                          .flips = Flips::none,
                          .pinned = Pinned::class_prev,
                          .exiting_no_sync = false,
                          .gate = WakeGate::allowed,
                          .search_without_affine = false,
                          .affine_rule = AffineRule::a38,
                          .imbalance = kImbalance38,
                          .x2_prev = false,
                          .x3_kthread = X3::none,
                          .x4_recent = X4::none,
                          .asym = Asym::none,
                          .x6_no_llc = false,
                          .idle_pred = IdlePred::idle,
                          .scan = Scan::ring_all,
                          .slow = kSlow38};

/// A later kernel is the one before it with what changed in between.
constexpr Column later(Column c, const char* name, const char* oracle, const char* kernel, auto change) {
    c.name = name;
    c.oracle = oracle;
    c.kernel = kernel;
    change(c);
    return c;
}

constexpr Column kLinux310 = later(kLinux38, "linux-3.10", "", "3.10", [](Column& c) {
    c.x2_prev = true;
    c.x2_source = PrevOf::task_cpu;
    c.scan = Scan::ring;
});
constexpr Column kLinux45 = later(kLinux310, "linux-4.5", "v4.5", "4.5", [](Column& c) {
    c.flips = Flips::pre_core;
    c.pinned = Pinned::keep_prev;
    c.gate = WakeGate::wide;
    c.stop_unbalanced = true;
    c.search_without_affine = true;
    c.affine_rule = AffineRule::a45_task_cpu;
    c.imbalance = kImbalance45;
    c.slow.from_waker = false;
    c.slow.walk_stops = true;
    c.slow.walk_38 = false;
    c.slow.idle_states = true;
});
constexpr Column kLinux412 = later(kLinux45, "linux-4.12", "v4.12.0", "4.12.0", [](Column& c) {
    c.flips = Flips::in_class;
    c.pinned = Pinned::any_allowed;
    c.gate = WakeGate::wide_cap_avg;
    c.affine_rule = AffineRule::a45;
    c.x2_source = PrevOf::prev;
    c.x6_no_llc = true;
    c.scan = Scan::three;
    c.scan_3 = {.sis_prop = false};
    c.slow.group = GroupRule::gs;
    c.slow.util_est = false;
    c.slow.single_cpu = true;
});
constexpr Column kLinux4123 = later(kLinux412, "linux-4.12.3", "v4.12.3", "4.12.3", [](Column& c) {
    c.affine_rule = AffineRule::a412;
    c.scan_3 = {};
});
constexpr Column kLinux419 = later(kLinux4123, "linux-4.19", "v4.19", "4.19.1", [](Column& c) {
    c.exiting_no_sync = true;
    c.affine_rule = AffineRule::a414;
    c.affine = kAffine419;
    c.x4_recent = X4::old;
    c.idle_pred = IdlePred::avail;
    c.slow.late_gs = true;
    c.slow.util_est = true;
    c.slow.est_removed = false;
    c.slow.est_odd = true;
    c.slow.at_waker = true;
    c.slow.tie_waker = false;
});
constexpr Column kLinux54 = later(kLinux419, "linux-5.4", "v5.4", "5.4.59", [](Column& c) {
    c.gate = WakeGate::wide_cap_est;
    c.energy_aware = true;
    c.idle_pred = IdlePred::avail_or_sidle;
    c.scan_3 = {.counts_disallowed = false, .soft_last = true};
    c.slow.est_removed = true;
    c.slow.soft = SlowRules::Soft::last;
});
constexpr Column kLinux59 = later(kLinux54, "linux-5.9", "v5.9", "5.9.2", [](Column& c) {
    c.gate = WakeGate::wide;
    c.stop_unbalanced = false;
    c.affine = kAffine59;
    c.x3_kthread = X3::any_context;
    c.asym = Asym::first;
    c.fit = FitRule::clamp_odd;
    c.scan_3 = {.counts_disallowed = false, .siblings_in_llc = true};
    c.slow = {.numa = NumaRule::local_idle, .allowed_only = false, .partial_asym = false, .est_odd = true};
});
constexpr Column kLinux510 = later(kLinux59, "linux-5.10", "v5.10.7", "5.10.7", [](Column& c) {
    c.imbalance = {};
    c.asym = Asym::last;
});
constexpr Column kLinux515 = later(kLinux510, "linux-5.15", "v5.15", "5.15.100", [](Column& c) {
    c.affine = {};
    c.x3_kthread = X3::in_task;
    c.x4_recent = X4::unchecked;
    c.asym = Asym::last_x3;
    c.fit = FitRule::bounds;
    c.scan = Scan::u;
    c.scan_u = kScan515;
    c.slow = {.numa = NumaRule::quarter_busy, .allowed_only = false};
});
constexpr Column kLinux60 = later(kLinux515, "linux-6.0", "v6.0", "6.0.1", [](Column& c) {
    c.fit = FitRule::clamp;
    c.slow.numa = NumaRule::imb_numa_nr;
});
constexpr Column kLinux61 = later(kLinux60, "linux-6.1", "v6.1", "6.1.192 (Debian 12)", [](Column& c) {
    c.x4_recent = X4::checked;
    c.fit = FitRule::boost;
    c.scan_u = {};
    c.slow.allowed_only = true;
});
constexpr Column kLinux68 = later(kLinux61, "linux-6.8", "v6.8", "6.8.1", [](Column& c) {
    c.scan_u = {.siblings_in_llc = false, .remember_in_scan = false, .clusters = true};
    c.slow.allowed_only = false;
});
constexpr Column kLinux612 = later(kLinux68, "linux-6.12", "v6.12", "6.12.107", [](Column& c) {
    c.affine = kAffine612;
    c.scan_u = {.clusters = true};
    c.slow.allowed_only = true;
});
constexpr Column kLinux72 = later(kLinux612, "linux-7.2", "v7.2", "7.2.13", [](Column& c) {
    c.ranked_asym = true;
    c.idle_pred = IdlePred::avail_or_sidle_unless_idle_policy;
    c.scan_u.empty_keeps_flag = true;
});

constexpr Column kColumns[] = {kLinux38,  kLinux310, kLinux45, kLinux412, kLinux4123, kLinux419, kLinux54, kLinux59,
                               kLinux510, kLinux515, kLinux60, kLinux61,  kLinux68,   kLinux612, kLinux72};

template <class S, class... Args>
void add(Steps& s, Args&&... args) {
    s.push_back(std::make_unique<S>(std::forward<Args>(args)...));
}
void append(Steps& s, Steps more) {
    for (auto& step : more) s.push_back(std::move(step));
}

/// What the kernel calls the load of a CPU (policies.md A5).
LoadKind load_kind(const Column& c) {
    if (c.affine_rule == AffineRule::a38) return LoadKind::weight;
    return c.slow.group == GroupRule::gt ? LoadKind::average
                                         : LoadKind::runnable;  // load_avg and GT both came with 5.5
}

void add_gate(Steps& s, const Column& c, const Topology& t) {
    if (c.gate == WakeGate::allowed) return add<GateAllowed>(s);
    add<Gate>(s, c.exiting_no_sync, c.wide_factor);
    if (!t.asym || c.gate == WakeGate::wide) return;
    add<WakeCap>(s, c.gate == WakeGate::wide_cap_avg ? WakeCap::Rule::util_avg : WakeCap::Rule::util_est, c.fit_margin);
}

bool reads_fit(const Column& c) {
    return c.asym != Asym::none || c.gate == WakeGate::wide_cap_avg || c.gate == WakeGate::wide_cap_est;
}

std::string release(const Column& c) { return "Linux " + std::string(c.name).substr(std::string("linux-").size()); }

void add_probes(Steps& s, const Column& c, const Topology& t, const Filters& clean) {
    const bool asym = t.asym && c.asym != Asym::none, clusters = t.clusters_active && c.scan_u.clusters;
    Filters fit;
    if (asym && c.asym != Asym::first) fit.push_back(std::make_shared<Fit>(c.fit, c.fit_margin, c.ranked_asym));
    Filters first = fit;
    first.insert(first.end(), clean.begin(), clean.end());
    AsymScan::Rules scan{.exit = Branch::x5,
                         .fit = c.fit,
                         .margin = c.fit_margin,
                         .bounded = c.ranked_asym && c.scan_u.sis_util,
                         .ranks_cores = c.ranked_asym};
    if (asym && c.asym == Asym::first) {
        scan.exit = Branch::x0;
        add<AsymScan>(s, scan);
    }
    add<TargetIdle>(s, first);
    if (c.x2_prev) add<PrevIdle>(s, c.x2_source, first, clusters);
    if (c.x3_kthread != X3::none)
        add<KthreadWaker>(s, c.asym == Asym::last_x3 ? fit : Filters{}, c.x3_kthread == X3::in_task);
    switch (c.x4_recent) {
        case X4::none: break;
        case X4::old: add<RecentIdleOld>(s, first); break;
        case X4::unchecked: add<RecentIdleUnchecked>(s, first); break;
        case X4::checked: add<RecentIdle>(s, first, clusters); break;
    }
    if (asym && c.asym != Asym::first) add<AsymScan>(s, scan);
    if (c.x6_no_llc) add<NoLlc>(s);
}

void add_scan(Steps& s, const Column& c) {
    switch (c.scan) {
        case Scan::ring_all: return add<ScanRing>(s, true);
        case Scan::ring: return add<ScanRing>(s, false);
        case Scan::three:
            add<CorePass>(s);
            add<CpuPass>(s, c.scan_3);
            return add<SiblingPass>(s, c.scan_3);
        case Scan::u: break;
    }
    add<ScanU>(s, c.scan_u);
}

}  // namespace

std::span<const Column> columns() { return kColumns; }

const Column& column(const std::string& name) {
    for (const Column& c : kColumns)
        if (name == c.name) return c;
    std::string names;
    for (const Column& c : kColumns) names += (names.empty() ? "" : ", ") + std::string(c.name);
    throw std::invalid_argument("no mainline column '" + name + "'; there are " + names);
}

std::unique_ptr<Affine> affine_step(const Column& c, const Topology& t) {
    const Imbalance& imb = c.imbalance;
    switch (c.affine_rule) {
        case AffineRule::a38: return std::make_unique<Affine38>(t, imb, c.walk_at_prev);
        case AffineRule::a45_task_cpu: return std::make_unique<Affine45>(t, imb, true);
        case AffineRule::a45: return std::make_unique<Affine45>(t, imb, false);
        case AffineRule::a412: return std::make_unique<Affine412>(t, imb);
        case AffineRule::a414: break;
    }
    return std::make_unique<Affine414>(t, imb, c.affine);
}

bool keeps_idle_cores(const Column& c) { return c.scan == Scan::three || c.scan == Scan::u; }

std::vector<PolicyInfo::Param> column_params(const Column& c) {
    std::vector<PolicyInfo::Param> p;
    if (c.affine_rule == AffineRule::a414) {
        p.push_back({"WA_IDLE", "1", "scheduler feature: the affine step looks at idle CPUs"});
        p.push_back({"WA_WEIGHT", "1", "scheduler feature: the affine step compares loads"});
        p.push_back({"WA_BIAS", "1", "scheduler feature: prev's load counts more, by imbalance_pct"});
    }
    auto constant = [&](const char* name, int value, const char* meaning) {
        p.push_back({name, std::to_string(value), meaning, true});
    };
    if (c.scan == Scan::u && c.scan_u.sis_util) {
        p.push_back({"SIS_UTIL", "1", "scheduler feature: the idle scan is bounded by nr_idle_scan"});
        constant(
            "sis_util_pct", c.scan_u.util_pct,
            "weight of the utilisation in the bound of the LLC's scan; another value is worked back from nr_idle_scan");
    }
    if (c.scan == Scan::three && c.scan_3.sis_prop) {
        p.push_back({"SIS_PROP", "1", "scheduler feature: the idle scan is bounded by avg_idle and its average cost"});
        constant("sis_prop_divisor", c.scan_3.idle_divisor, "part of avg_idle that a scan may cost");
        constant("sis_prop_least", c.scan_3.least, "smallest bound; one CPU less is examined");
    }
    if (c.x3_kthread == X3::any_context)
        p.push_back(
            {"X3_IN_TASK", "0", "per-CPU kthreads pull p to their CPU from task context only (stable 5.10.84)"});
    if (c.gate != WakeGate::allowed)
        p.push_back(
            {"wake_wide_factor", "llc_size", "flips that make wake_wide; llc_size: CPUs of the waker's LLC", true});
    constant("imbalance_pct_smt", c.imbalance.smt, "imbalance_pct of domains of one core");
    constant("imbalance_pct_llc", c.imbalance.llc, "imbalance_pct of domains within an LLC");
    constant("imbalance_pct_pkg", c.imbalance.pkg, "imbalance_pct of domains above");
    if (reads_fit(c))
        constant("fit_margin", c.fit_margin, "p fits a CPU when its utilisation x fit_margin < capacity x 1024");
    return p;
}

Column configured(Column c, const PolicyParams& params) {
    auto number = [&](const char* name, int& value, int least, int most) {
        if (params.contains(name)) value = static_cast<int>(int_param(params, name, least, most));
    };
    auto feature = [&](const char* name, bool& value) {
        if (params.contains(name)) value = flag_param(params, name);
    };
    feature("WA_IDLE", c.affine.idle);
    feature("WA_WEIGHT", c.affine.weight);
    feature("WA_BIAS", c.affine.bias);
    feature("SIS_UTIL", c.scan_u.sis_util);
    feature("SIS_PROP", c.scan_3.sis_prop);
    if (params.contains("X3_IN_TASK") && flag_param(params, "X3_IN_TASK")) c.x3_kthread = X3::in_task;
    number("sis_util_pct", c.scan_u.util_pct, 0, 10'000);
    number("sis_prop_divisor", c.scan_3.idle_divisor, 1, 1'000'000);
    number("sis_prop_least", c.scan_3.least, 1, kMaxCpus);
    number("imbalance_pct_smt", c.imbalance.smt, 100, 10'000);
    number("imbalance_pct_llc", c.imbalance.llc, 100, 10'000);
    number("imbalance_pct_pkg", c.imbalance.pkg, 100, 10'000);
    number("fit_margin", c.fit_margin, 1, 1'000'000);
    if (params.contains("wake_wide_factor") && params.at("wake_wide_factor") != "llc_size")
        c.wide_factor = static_cast<int>(int_param(params, "wake_wide_factor", 1, 1'000'000, "llc_size"));
    return c;
}

std::vector<std::string> column_deviations(const Column& c) {
    std::vector<std::string> d{
        "energy-aware placement is reported as observed, core scheduling is not modelled",
        "prev is the task's CPU: wake_cpu set by affinity or NUMA changes during the sleep is not known"};
    if (reads_fit(c))
        d.push_back(
            "asymmetric machines: uclamp is taken as unset, and capacities as not reduced by RT and interrupts");
    if (c.gate == WakeGate::wide_cap_est)
        d.push_back(
            "asymmetric machines: levels have the flags of the recording; this kernel sets BALANCE_WAKE on them, and "
            "wakeups that are not affine take its slow path");
    if (c.ranked_asym) {
        d.push_back("machines with SMT and different capacities: ranks by description only, no vector has one");
        d.push_back("different capacities in several LLCs: nr_idle_scan of all is the sum of theirs");
    }
    if (c.affine_rule == AffineRule::a412) d.push_back("the kernel is taken as built with NUMA balancing");
    if (c.scan == Scan::three && c.scan_3.sis_prop)
        d.push_back(
            "SIS_PROP: a scan is taken to cost 200 ns and 50 ns per CPU examined, unless the recorded kernel has it");
    return d;
}

std::vector<std::string> column_quirks(const Column& c) {
    std::vector<std::string> q;
    if (!c.search_without_affine)
        q.push_back("a wakeup without an affine level keeps prev, whatever runs there: no CPU is searched");
    else
        q.push_back(
            "wake_wide and a missing affine level only stop the pull to the waker: prev's LLC is searched all the "
            "same");
    if (!c.x2_prev) q.push_back("an idle prev is not looked at when the target is the waker's CPU");
    if (c.scan == Scan::ring || c.scan == Scan::ring_all)
        q.push_back("an idle thread beside a busy sibling is found in target's own core only");
    if (c.scan == Scan::three) q.push_back("the core pass returns the sibling met first, not the core's first CPU");
    if (c.scan == Scan::three && c.scan_3.sis_prop)
        q.push_back("SIS_PROP counts before it tests: one CPU fewer is examined than computed, three at least");
    if (c.scan == Scan::three || c.scan == Scan::u)
        q.push_back(
            "has_idle_cores is sticky: only a failed core search of that LLC clears it; false for ever without SMT");
    if (c.scan == Scan::u && c.scan_u.sis_util)
        q.push_back("nr_idle_scan = 0 stops the core search too, and leaves has_idle_cores set");
    if (c.affine_rule == AffineRule::a414 && !c.affine.prev_idle)
        q.push_back("wake_affine does not keep an idle prev; where its load is lighter than p's, the comparison does");
    if (c.affine_rule == AffineRule::a45 || c.affine_rule == AffineRule::a45_task_cpu)
        q.push_back("sync with nothing but the waker's load: wake_affine compares only the capacities");
    if (c.x4_recent == X4::old) q.push_back("recent_used_cpu is the waker's field, set to the waking CPU");
    if (c.x4_recent == X4::unchecked)
        q.push_back(
            "X4 tests whether prev is allowed, not the recent CPU: one that is not allowed ends in the fallback");
    if (c.x4_recent == X4::checked) q.push_back("X4 makes prev the recent CPU whenever it is reached, hit or miss");
    if (c.x3_kthread == X3::any_context) q.push_back("X3 stacks p on a per-CPU kthread's CPU from interrupts too");
    if (c.asym == Asym::first)
        q.push_back("asymmetric machines: the capacity scan goes before an idle target and prev");
    return q;
}

Composition compose(Column c, const Topology& t, Parts parts) {
    c.slow.imbalance = c.imbalance;
    c.slow.fit = c.fit;
    c.slow.fit_margin = c.fit_margin;
    c.slow.walk_at_prev = c.slow.walk_at_prev || c.walk_at_prev;
    Composition out{.steps = {},
                    .slow = {},
                    .idle = c.idle_pred,
                    .idle_cores = keeps_idle_cores(c),
                    .energy_aware = c.energy_aware,
                    .load = load_kind(c),
                    .recent_reached = c.x4_recent == X4::checked || c.x4_recent == X4::unchecked,
                    .fork_recent = c.x4_recent != X4::none};
    Steps& s = out.steps;
    if (c.flips == Flips::pre_core) add<RecordWakee>(s, true);
    add<PinnedStep>(s, c.pinned);
    if (c.flips == Flips::in_class) add<RecordWakee>(s, false);
    add_gate(s, c, t);
    append(s, std::move(parts.gate));
    if (t.balance_wake)
        add<SlowWalk>(s, c.slow);
    else if (c.search_without_affine)
        add<DomainWalk>(s, c.stop_unbalanced, c.walk_at_prev);
    else
        add<DomainWalk38>(s);
    append(s, std::move(parts.hint));
    if (parts.affine.empty())
        s.push_back(affine_step(c, t));
    else
        append(s, std::move(parts.affine));
    if (t.balance_wake) add<SlowPath>(s, c.slow, t);
    if (c.x4_recent == X4::old) add<WakerRecent>(s);
    add_probes(s, c, t, parts.clean);
    if (parts.scan.empty())
        add_scan(s, c);
    else
        append(s, std::move(parts.scan));
    if (t.clusters_active && c.scan == Scan::u && c.scan_u.clusters) add<KeptAffine>(s);
    append(s, std::move(parts.last));
    add<ReturnTarget>(s);
    add<CoreCheck>(s);

    add<PinnedStep>(out.slow, c.pinned);
    append(out.slow, std::move(parts.slow_gate));
    add<SlowWalk>(out.slow, c.slow);
    add<SlowPath>(out.slow, c.slow, t);
    add<CoreCheck>(out.slow);
    return out;
}

PolicyEntry column_entry(const Column& c) {
    PolicyInfo info{.name = c.name,
                    .summary = std::string("wake placement of Linux ") + c.kernel,
                    .author = {},
                    .date = {},
                    .posting = {},
                    .kernel = c.kernel,
                    .oracle_column = c.oracle,
                    .reference = false,
                    .params = column_params(c),
                    .steps = {},
                    .quirks = column_quirks(c),
                    .deviations = column_deviations(c),
                    .reads_irq = false,
                    .inputs = 0,
                    .base = {}};
    return composed_entry(std::move(info), [&c](const PolicyParams& p, const Topology& t) {
        const Column own = configured(c, p);
        Composition out = compose(own, t);
        out.wide_factor = own.wide_factor;
        return out;
    });
}

PolicyInfo seed_info(PolicyInfo own, const Column& c, std::vector<std::string> port) {
    PolicyInfo info = std::move(own);
    info.hybrid = info.base != c.name;
    info.summary = release(c) + " " + info.summary;
    std::vector<PolicyInfo::Param> params = column_params(c);
    params.insert(params.end(), info.params.begin(), info.params.end());
    info.params = std::move(params);
    std::vector<std::string> deviations = column_deviations(c);
    deviations.insert(deviations.end(), info.deviations.begin(), info.deviations.end());
    info.deviations = std::move(deviations);
    const std::vector<std::string> quirks = column_quirks(c);
    info.quirks.insert(info.quirks.end(), quirks.begin(), quirks.end());
    if (!info.hybrid) return info;
    info.deviations.insert(info.deviations.begin(), "hybrid: the posting is for " + release(column(info.base)) +
                                                        "; no vectors prove it on " + release(c));
    info.deviations.insert(info.deviations.end(), port.begin(), port.end());
    info.name += std::string("@") + c.name;
    info.oracle_column.clear();
    return info;
}

void refuse_column(const std::string& seed, const Column& c, const std::string& reason) {
    throw std::invalid_argument(seed + " has no meaning on " + c.name + ": " + reason);
}

}  // namespace rewake
