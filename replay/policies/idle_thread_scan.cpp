// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/idle_thread_scan.hpp"

#include <stdexcept>

#include "replay/policies/steps/scan_ring.hpp"

namespace rewake {
namespace {

/// After all else: any idle CPU of target's LLC, ascending from CPU 0, unless target is crowded or p is cache hot.
class LlcLinearScan : public Step {
  public:
    LlcLinearScan(std::optional<int64_t> migration_cost, bool clock_now, int most_cfs)
        : Step(Stage::scan,
               "lowest idle allowed CPU of target's LLC, unless cfs_nr(target) > " + std::to_string(most_cfs) +
                   " or p is hot (clock " + (clock_now ? "now)" : "stale)"),
               kCfsNr | kIdlePolicy | kHotClock | kDomains),
          migration_cost_(migration_cost),
          clock_now_(clock_now),
          most_cfs_(most_cfs) {}

    bool run(Ctx& x) const override {
        if (!x.t.has_llc_domain[x.target.v]) {
            WHY(x, "linear scan: target ", x.target, " has no LLC domain");
            return false;
        }
        const Wakeup& w = x.w;
        const ShouldScan in{.cfs_nr = x.v.cfs_nr[x.target.v],
                            .most_cfs = most_cfs_,
                            .fair = true,
                            .idle_policy = w.p_idle_policy,
                            .migration_cost = migration_cost_.value_or(w.migration_cost),
                            .clock = clock_now_ ? x.v.now : x.v.clock_task[w.task_cpu.v],
                            .exec_start = w.p_exec_start};
        x.look(kCfsNr);
        x.touch(x.target);
        if (in.cfs_nr <= most_cfs_) x.look(kIdlePolicy | kHotClock);
        if (!should_scan(in)) {
            if (in.cfs_nr > most_cfs_)
                WHY(x, "linear scan: none, cfs_nr(", x.target, ") is ", in.cfs_nr);
            else
                WHY(x, "linear scan: none, p is hot: ran ", in.clock - in.exec_start, " ns ago by the ",
                    clock_now_ ? "time" : "clock of its CPU", ", migration_cost ", in.migration_cost, " ns");
            return false;
        }
        const uint16_t llc = x.t.llc[x.target.v].v;
        const CpuMask& span = x.t.llc_span[llc];
        const Words words = x.t.llc_words[llc];
        auto cpus = [&](unsigned i) { return span.w[i] & w.allowed->w[i]; };
        x.look(kDomains);
        const auto found = first_in_wrap(words, 0, [&](unsigned i) { return cpus(i) & x.usable_word(i); });
        if (!found) {
            x.scanned_all(words, cpus);
            WHY(x, "linear scan: no CPU of ", x.t.llc[x.target.v], " is idle");
            return false;
        }
        x.scanned(words, 0, *found, cpus);
        WHY(x, "linear scan: p is not hot; CPU ", *found, " is the lowest idle one of ", x.t.llc[x.target.v]);
        return x.decide(*found, Branch::linear);
    }

  private:
    std::optional<int64_t> migration_cost_;  ///< nothing: as recorded
    bool clock_now_;
    int most_cfs_;
};

Composition compose_seed(Column row, const PolicyParams& params, const Topology& t) {
    const std::string& clock = params.at("hot_clock");
    if (clock != "stale" && clock != "now")
        throw std::invalid_argument("hot_clock=" + clock + ": stale or now expected");
    std::optional<int64_t> cost;
    if (params.at("migration_cost") != "recorded")
        cost = int_param(params, "migration_cost", -1, 1'000'000'000'000, "recorded");
    const auto most = static_cast<int>(int_param(params, "cfs_nr", 0, 1'000'000));
    if (row.scan == Scan::ring) row.scan = Scan::ring_all;
    Parts parts;
    parts.last.push_back(std::make_unique<LlcLinearScan>(cost, clock == "now", most));
    return compose(configured(row, params), t, std::move(parts));
}

}  // namespace

bool should_scan(const ShouldScan& in) {
    if (in.cfs_nr > in.most_cfs) return false;
    if (!in.fair || in.idle_policy || in.migration_cost == 0) return true;
    if (in.migration_cost == -1) return false;
    return in.clock - in.exec_start >= in.migration_cost;
}

PolicyEntry idle_thread_scan_entry(const Column& on) {
    PolicyInfo info{
        .name = "idle-thread-scan",
        .summary = "that looks for an idle thread anywhere in the LLC when its own search found nothing",
        .author = "Chris Mason",
        .date = "2016-04-08",
        .posting = "[PATCH v2] sched: tweak select_idle_sibling to look for idle threads",
        .kernel = on.kernel,
        .oracle_column = "v4.5+seed1",
        .reference = false,
        .params = {{"migration_cost", "recorded",
                    "ns below which p counts as cache hot (-1: always, 0: never); recorded: the machine's sysctl, "
                    "500000 when unknown"},
                   {"hot_clock", "stale",
                    "stale: the run queue clock that the patch reads; now: the time of the wakeup, its intent"},
                   {"cfs_nr", "1", "most tasks on the root fair queue of target with which it scans", true}},
        .steps = {},
        .quirks = {"the scan ascends from CPU 0 of the LLC, without wrap: low CPU numbers fill up first",
                   "task_hot reads the run queue clock of the CPU's last scheduler event: a task whose CPU went idle "
                   "and stopped its tick stays hot for ever (hot_clock=stale)",
                   "cfs_nr counts entities of the root queue: several tasks of one cgroup count once, RT tasks not"},
        .deviations = {"cfs_nr is the number of queued fair tasks where cgroups are not known"},
        .reads_irq = false,
        .inputs = 0,
        .base = "linux-4.5"};
    if (on.scan == Scan::three && !on.scan_3.sis_prop)
        refuse_column(info.name, on, "its idle search has no bound and leaves no CPU of the LLC to look at");
    std::vector<std::string> port;
    if (on.scan == Scan::three || on.scan == Scan::u)
        port = {
            "the added scan comes after all passes of the column and before target is returned; it has no bound, "
            "and takes what the column takes for idle",
            "asymmetric machines: the column's capacity scan ends the search before it"};
    return composed_entry(seed_info(std::move(info), on, std::move(port)),
                          [&on](const PolicyParams& p, const Topology& t) { return compose_seed(on, p, t); });
}

}  // namespace rewake
