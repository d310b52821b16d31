// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/irq_aware.hpp"

#include <algorithm>
#include <charconv>
#include <optional>
#include <stdexcept>

#include "replay/policies/columns.hpp"

namespace rewake {
namespace {

/// Whether interrupts take more of a CPU than the threshold allows; a fixed one is the control for the patch's other rules.
struct Heavy {
    std::optional<int32_t> fixed;
    bool operator()(const Ctx& x, Cpu c) const { return fixed ? x.v.irq->intrload[c.v] > *fixed : x.v.heavy(c); }
};

class Clean : public Filter {
  public:
    explicit Clean(Heavy heavy) : Filter("not interrupt-heavy", kIrqLoad), heavy_(heavy) {}
    bool passes(Ctx& x, Cpu c) const override {
        x.look(kIrqLoad);
        return !heavy_(x, c);
    }

  private:
    Heavy heavy_;
};

/// The same cores in the same order, but of an idle core the last sibling that is not heavy, allowed or not; the one
/// met first when all are.
class CleanCorePass : public CorePass {
  public:
    explicit CleanCorePass(Heavy heavy) : CorePass(", its last sibling that is not interrupt-heavy"), heavy_(heavy) {}

  protected:
    Cpu pick(const Ctx& x, Cpu core) const override {
        Cpu last = core;
        for (uint16_t s : x.t.siblings(core))
            if (!heavy_(x, Cpu(s))) last = Cpu(s);
        return last;
    }

  private:
    Heavy heavy_;
};

/// A heavy idle CPU is only the backup, each later one in place of the one before.
class CleanCpuPass : public Step {
  public:
    explicit CleanCpuPass(Heavy heavy)
        : Step(Stage::scan,
               "CPU pass: idle CPUs of target's LLC from target that are not interrupt-heavy, else the last heavy "
               "one",
               kDomains | kAllowed | kIrqLoad),
          heavy_(heavy) {}

    bool run(Ctx& x) const override {
        if (!x.t.has_llc_domain[x.w.waker.v]) {
            WHY(x, "CPU pass: none, waker CPU ", x.w.waker, " has no LLC domain");
            return false;
        }
        const CpuMask& span = x.t.llc_span[x.t.llc[x.target.v].v];
        auto cpus = [&](unsigned i) { return span.w[i] & x.w.allowed->w[i]; };
        x.look(kDomains | kAllowed | kIrqLoad);
        std::optional<Cpu> backup;
        const bool found = for_each_in_wrap(
            x.t.words, x.target.v, [&](unsigned i) { return cpus(i) & x.idle.w[i]; },
            [&](Cpu c) {
                backup = c;
                return !heavy_(x, c);
            });
        if (found)
            x.scanned(x.target.v, *backup, cpus);
        else
            x.scanned_all(cpus);
        count_scan_cost(x, x.d.scanned);
        if (backup)
            WHY(x, "CPU pass: from ", x.target, ": CPU ", *backup,
                found ? " is idle and not heavy" : " is the last idle one, all are heavy");
        else
            WHY(x, "CPU pass: from ", x.target, ": no CPU is idle");
        return backup && x.decide(*backup, Branch::cpu);
    }

  private:
    Heavy heavy_;
};

class CleanSiblingPass : public Step {
  public:
    explicit CleanSiblingPass(Heavy heavy)
        : Step(Stage::scan,
               "sibling pass: idle siblings of target that are not interrupt-heavy, else the last heavy one", kIrqLoad),
          heavy_(heavy) {}

    bool run(Ctx& x) const override {
        if (!x.t.smt_active) {
            WHY(x, "sibling pass: no SMT");
            return false;
        }
        std::optional<Cpu> backup;
        for (uint16_t s : x.t.siblings(x.target)) {
            const Cpu c(s);
            if (!x.w.allowed->test(c)) continue;
            ++x.d.scanned;
            if (!x.usable(c)) continue;
            backup = c;
            if (!heavy_(x, c)) break;
        }
        x.look(kIrqLoad);
        if (backup)
            WHY(x, "sibling pass: CPU ", *backup, " is idle", heavy_(x, *backup) ? ", though heavy" : " and not heavy");
        else
            WHY(x, "sibling pass: no sibling of target ", x.target, " is idle");
        return backup && x.decide(*backup, Branch::smt);
    }

  private:
    Heavy heavy_;
};

Composition compose_seed(const PolicyParams& params, const Topology& t) {
    Column row = column("linux-4.12");
    row.slow.avoids_heavy = true;
    Heavy heavy;
    if (const std::string& text = params.at("threshold"); text != "auto") {
        int32_t value = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
        if (error != std::errc{} || end != text.data() + text.size() || value < 0)
            throw std::invalid_argument("threshold=" + text + ": auto or a number expected");
        heavy.fixed = value;
    }
    Parts parts;
    parts.clean.push_back(std::make_shared<Clean>(heavy));
    parts.scan.push_back(std::make_unique<CleanCorePass>(heavy));
    parts.scan.push_back(std::make_unique<CleanCpuPass>(heavy));
    parts.scan.push_back(std::make_unique<CleanSiblingPass>(heavy));
    Composition c = compose(row, params, t, std::move(parts));
    c.irq_load = true;
    return c;
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
    PolicyInfo info{
        .name = "irq-aware",
        .summary = "Linux 4.12 that passes over idle CPUs which interrupts keep busy",
        .author = "Rohit Jain",
        .date = "2017-05-12",
        .posting = "[PATCH 1/2] sched: Interrupt Aware Scheduler",
        .kernel = base.kernel,
        .oracle_column = "v4.12.0+seed3",
        .reference = false,
        .params = {{"threshold", "auto",
                    "load above which a CPU is heavy: auto as the patch computes it, or fixed (1000: never)"}},
        .steps = {},
        .quirks = column_quirks(base),
        .deviations = column_deviations(base),
        .reads_irq = true,
        .inputs = 0,
        .base = "linux-4.12"};
    info.quirks.insert(info.quirks.begin(),
                       {"loads are 0..93 against a grid of 100 buckets of ten: without interrupts the threshold is 10, "
                        "heavy from 11 on",
                        "an idle core gives its last sibling that is not heavy even where none is, where linux-4.12 "
                        "gives the first met",
                        "that sibling is not checked against allowed: the core then takes the fallback CPU",
                        "an idle core with all siblings heavy is not passed over for a clean one behind it",
                        "of several heavy idle CPUs the last one met is the backup",
                        "forks and execs: among CPUs of equal exit latency, heavy ones are taken as any other"});
    info.deviations.insert(
        info.deviations.end(),
        {"hardirq time: between recorded entries and exits of interrupts; without irq_vectors events a lower bound",
         "ticks: 1/HZ apart, none on a CPU idle for longer than one; threshold 1000 for 100 ms, then computed, then "
         "every 5 s"});
    return composed_entry(std::move(info), compose_seed);
}

}  // namespace rewake
