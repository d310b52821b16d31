// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/idle_thread_scan.hpp"

#include <charconv>
#include <stdexcept>

#include "replay/policies/columns.hpp"
#include "replay/policies/steps/scan_ring.hpp"

namespace rewake {
namespace {

/// After the ring: any idle CPU of target's LLC, ascending from CPU 0, unless target is crowded or p is cache hot.
class LlcLinearScan : public Step {
  public:
    LlcLinearScan(std::optional<int64_t> migration_cost, bool clock_now)
        : Step(Stage::scan,
               std::string("lowest idle allowed CPU of target's LLC, unless cfs_nr(target) > 1 or p is hot (clock ") +
                   (clock_now ? "now)" : "stale)"),
               kCfsNr | kIdlePolicy | kHotClock | kDomains),
          migration_cost_(migration_cost),
          clock_now_(clock_now) {}

    bool run(Ctx& x) const override {
        if (!x.t.has_llc_domain[x.target.v]) {
            WHY(x, "linear scan: target ", x.target, " has no LLC domain");
            return false;
        }
        const Wakeup& w = x.w;
        const ShouldScan in{.cfs_nr = x.v.cfs_nr[x.target.v],
                            .fair = true,
                            .idle_policy = w.p_idle_policy,
                            .migration_cost = migration_cost_.value_or(w.migration_cost),
                            .clock = clock_now_ ? x.v.now : x.v.clock_task[w.task_cpu.v],
                            .exec_start = w.p_exec_start};
        x.look(kCfsNr);
        x.touch(x.target);
        if (in.cfs_nr <= 1) x.look(kIdlePolicy | kHotClock);
        if (!should_scan(in)) {
            if (in.cfs_nr > 1)
                WHY(x, "linear scan: none, cfs_nr(", x.target, ") is ", in.cfs_nr);
            else
                WHY(x, "linear scan: none, p is hot: ran ", in.clock - in.exec_start, " ns ago by the ",
                    clock_now_ ? "time" : "clock of its CPU", ", migration_cost ", in.migration_cost, " ns");
            return false;
        }
        const CpuMask& span = x.t.llc_span[x.t.llc[x.target.v].v];
        auto cpus = [&](unsigned i) { return span.w[i] & w.allowed->w[i]; };
        x.look(kDomains);
        const auto found = first_in_wrap(x.t.words, 0, [&](unsigned i) { return cpus(i) & x.idle.w[i]; });
        if (!found) {
            x.scanned_all(cpus);
            WHY(x, "linear scan: no CPU of ", x.t.llc[x.target.v], " is idle");
            return false;
        }
        x.scanned(0, *found, cpus);
        WHY(x, "linear scan: p is not hot; CPU ", *found, " is the lowest idle one of ", x.t.llc[x.target.v]);
        return x.decide(*found, Branch::linear);
    }

  private:
    std::optional<int64_t> migration_cost_;  ///< nothing: as recorded
    bool clock_now_;
};

std::optional<int64_t> cost_param(const std::string& value) {
    if (value == "recorded") return std::nullopt;
    int64_t ns = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), ns);
    if (error != std::errc{} || end != value.data() + value.size() || ns < -1)
        throw std::invalid_argument("migration_cost=" + value +
                                    ": nanoseconds (-1 and 0 as in the kernel) or 'recorded' expected");
    return ns;
}

Composition compose_seed(const PolicyParams& params, const Topology& t) {
    const std::string& clock = params.at("hot_clock");
    if (clock != "stale" && clock != "now")
        throw std::invalid_argument("hot_clock=" + clock + ": stale or now expected");
    Parts parts;
    Steps& scan = parts.scan;
    scan.push_back(std::make_unique<ScanRing>(true));
    scan.push_back(std::make_unique<LlcLinearScan>(cost_param(params.at("migration_cost")), clock == "now"));
    return compose(column("linux-4.5"), params, t, std::move(parts));
}

}  // namespace

bool should_scan(const ShouldScan& in) {
    if (in.cfs_nr > 1) return false;
    if (!in.fair || in.idle_policy || in.migration_cost == 0) return true;
    if (in.migration_cost == -1) return false;
    return in.clock - in.exec_start >= in.migration_cost;
}

PolicyEntry idle_thread_scan_entry() {
    PolicyInfo info{
        .name = "idle-thread-scan",
        .summary = "Linux 4.5 that looks for an idle thread anywhere in the LLC when no idle core is found",
        .author = "Chris Mason",
        .date = "2016-04-08",
        .posting = "[PATCH v2] sched: tweak select_idle_sibling to look for idle threads",
        .kernel = column("linux-4.5").kernel,
        .oracle_column = "v4.5+seed1",
        .reference = false,
        .params = {{"migration_cost", "recorded",
                    "ns below which p counts as cache hot; recorded: the machine's sysctl, 500000 when unknown"},
                   {"hot_clock", "stale",
                    "stale: the run queue clock that the patch reads; now: the time of the wakeup, its intent"}},
        .steps = {},
        .quirks = column_quirks(column("linux-4.5")),
        .deviations = column_deviations(column("linux-4.5")),
        .reads_irq = false,
        .inputs = 0,
        .base = "linux-4.5"};
    info.quirks.insert(
        info.quirks.begin(),
        {"the scan ascends from CPU 0 of the LLC, without wrap: low CPU numbers fill up first",
         "task_hot reads the run queue clock of the CPU's last scheduler event: a task whose CPU went idle and "
         "stopped its tick stays hot for ever (hot_clock=stale)",
         "cfs_nr counts entities of the root queue: several tasks of one cgroup count once, RT tasks not"});
    info.deviations.push_back("cfs_nr is the number of queued fair tasks where cgroups are not known");
    return composed_entry(std::move(info), compose_seed);
}

}  // namespace rewake
