// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/irq_aware.hpp"

#include <algorithm>

#include "replay/policies/columns.hpp"

namespace rewake {
namespace {

class Clean : public Filter {
  public:
    Clean() : Filter("not interrupt-heavy") {}
    bool passes(Ctx& x, Cpu c) const override { return !x.v.heavy(c); }
};

/// The same cores in the same order, but of an idle core the last sibling that is not heavy, allowed or not; the one
/// met first when all are.
class CleanCorePass : public CorePass {
  public:
    CleanCorePass() : CorePass(", its last sibling that is not interrupt-heavy") {}

  protected:
    Cpu pick(const Ctx& x, Cpu core) const override {
        Cpu last = core;
        for (uint16_t s : x.t.siblings(core))
            if (!x.v.heavy(Cpu(s))) last = Cpu(s);
        return last;
    }
};

/// A heavy idle CPU is only the backup, each later one in place of the one before.
class CleanCpuPass : public Step {
  public:
    CleanCpuPass()
        : Step(Stage::scan,
               "CPU pass: idle CPUs of target's LLC from target that are not interrupt-heavy, else the last heavy "
               "one") {}

    bool run(Ctx& x) const override {
        if (!x.t.has_llc_domain[x.w.waker.v]) return false;
        const CpuMask& span = x.t.llc_span[x.t.llc[x.target.v].v];
        auto cpus = [&](unsigned i) { return span.w[i] & x.w.allowed->w[i]; };
        x.look(kDomains | kAllowed);
        std::optional<Cpu> backup;
        const bool found = for_each_in_wrap(
            x.t.words, x.target.v, [&](unsigned i) { return cpus(i) & x.idle.w[i]; },
            [&](Cpu c) {
                backup = c;
                return !x.v.heavy(c);
            });
        if (found)
            x.scanned(x.target.v, *backup, cpus);
        else
            x.scanned_all(cpus);
        count_scan_cost(x, x.d.scanned);
        return backup && x.decide(*backup, Branch::cpu);
    }
};

class CleanSiblingPass : public Step {
  public:
    CleanSiblingPass()
        : Step(Stage::scan,
               "sibling pass: idle siblings of target that are not interrupt-heavy, else the last heavy one") {}

    bool run(Ctx& x) const override {
        if (!x.t.smt_active) return false;
        std::optional<Cpu> backup;
        for (uint16_t s : x.t.siblings(x.target)) {
            const Cpu c(s);
            if (!x.w.allowed->test(c)) continue;
            ++x.d.scanned;
            if (!x.usable(c)) continue;
            backup = c;
            if (!x.v.heavy(c)) break;
        }
        return backup && x.decide(*backup, Branch::smt);
    }
};

Composition compose_seed(const PolicyParams& params, const Topology& t) {
    Column row = column("linux-4.12");
    row.slow.avoids_heavy = true;
    Parts parts;
    parts.clean.push_back(std::make_shared<Clean>());
    parts.scan.push_back(std::make_unique<CleanCorePass>());
    parts.scan.push_back(std::make_unique<CleanCpuPass>());
    parts.scan.push_back(std::make_unique<CleanSiblingPass>());
    return compose(row, params, t, std::move(parts));
}

}  // namespace

IrqEstimator::IrqEstimator(int n_cpus, uint32_t hz) : hz_(hz) {
    load_.intrload.assign(static_cast<size_t>(n_cpus), 0);
    buckets_[0] = n_cpus;
}

void IrqEstimator::tick(Cpu c, Ns hardirq) {
    const int64_t used = std::min<int64_t>(hardirq, 1'000'000'000 / hz_ - 1);
    const auto now = static_cast<int32_t>((100 * int64_t{hz_} * used) >> 30);  // a GiB is not 10^9: at most 93
    int32_t& load = load_.intrload[c.v];
    int32_t& before = buckets_[static_cast<size_t>(load / 10)];
    before = std::max(before - 1, 0);
    load = load < now ? now : load - (load - now + 3) / 4;
    ++buckets_[static_cast<size_t>(load / 10)];
}

int32_t IrqEstimator::threshold(const Buckets& buckets, int n_cpus) {
    int32_t count = 0, b = 0;
    while (count <= n_cpus * 800 / 1000 && b < kBuckets) count += buckets[static_cast<size_t>(b++)];
    return 10 * b;
}

PolicyEntry irq_aware_entry() {
    const Column& base = column("linux-4.12");
    PolicyInfo info{.name = "irq-aware",
                    .summary = "Linux 4.12 that passes over idle CPUs which interrupts keep busy",
                    .source = "Rohit Jain, [PATCH 1/2] sched: Interrupt Aware Scheduler, 2017-05-12",
                    .oracle_column = "v4.12.0+seed3",
                    .reference = false,
                    .params = {},
                    .steps = {},
                    .deviations = column_deviations(base),
                    .needs = "each CPU's hardirq time per tick, which no recording gives so far"};
    return composed_entry(std::move(info), compose_seed);
}

}  // namespace rewake
