// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/policies/irq_aware.hpp"

#include <algorithm>

#include "replay/policies/irq_aware_scan.hpp"

namespace rewake {
namespace {

class Clean : public Filter {
  public:
    Clean() : Filter("not interrupt-heavy", kIrqLoad) {}
    bool passes(Ctx& x, Cpu c) const override {
        x.look(kIrqLoad);
        return !x.v.heavy(c);
    }
};

IrqSettings settings_of(const PolicyParams& params) {
    constexpr int64_t kMost = 1'000'000;
    auto number = [&](const char* name, int64_t least, const char* or_else = "") {
        return static_cast<int32_t>(int_param(params, name, least, kMost, or_else));
    };
    IrqSettings s;
    if (params.at("threshold") != "auto") s.fixed = number("threshold", 0, "auto");
    s.warm = params.at("initial_threshold") == "warm";
    if (!s.warm) s.initial = number("initial_threshold", 0, "warm");
    s.share = number("share", 0);
    s.decay = number("decay", 1);
    s.entry_overhead = number("irq_entry_overhead_ns", 0);
    return s;
}

Composition compose_seed(const Column& on, const PolicyParams& params, const Topology& t) {
    Column row = configured(on, params);
    row.slow.avoids_heavy = true;
    Parts parts;
    parts.clean.push_back(std::make_shared<Clean>());
    if (row.scan == Scan::u) {
        parts.scan.push_back(std::make_unique<CleanScanU>(row.scan_u));
    } else {
        parts.scan.push_back(std::make_unique<CleanCorePass>());
        parts.scan.push_back(std::make_unique<CleanCpuPass>(row.scan_3));
        parts.scan.push_back(std::make_unique<CleanSiblingPass>(row.scan_3));
    }
    Composition c = compose(row, t, std::move(parts));
    c.irq = settings_of(params);
    return c;
}

}  // namespace

IrqEstimator::IrqEstimator(int n_cpus, uint32_t hz, const IrqSettings& settings)
    : n_online_(n_cpus), hz_(hz), settings_(settings) {
    load_.intrload.assign(static_cast<size_t>(n_cpus), 0);
    load_.threshold = settings.fixed.value_or(settings.initial);
    buckets_[0] = n_cpus;
}

void IrqEstimator::online(Cpu c, bool up) {
    int32_t& load = load_.intrload[c.v];
    if (up) load = 0;
    int32_t& cpus = buckets_[static_cast<size_t>(load / 10)];
    cpus = std::max(cpus + (up ? 1 : -1), 0);
    n_online_ += up ? 1 : -1;
}

void IrqEstimator::tick(Cpu c, Ns hardirq, int entries) {
    const int64_t used = std::min<int64_t>(hardirq + entries * settings_.entry_overhead, 1'000'000'000 / hz_ - 1);
    const auto now = static_cast<int32_t>((100 * int64_t{hz_} * used) >> 30);  // a GiB is not 10^9: at most 93
    int32_t& load = load_.intrload[c.v];
    int32_t& before = buckets_[static_cast<size_t>(load / 10)];
    before = std::max(before - 1, 0);
    load = load < now ? now : load - (load - now + settings_.decay - 1) / settings_.decay;
    ++buckets_[static_cast<size_t>(load / 10)];
}

void IrqEstimator::recompute() {
    if (settings_.fixed) return;
    load_.threshold = threshold(buckets_, n_online_, settings_.share);
}

int32_t IrqEstimator::threshold(const Buckets& buckets, int n_cpus, int share) {
    int32_t b = 0;
    for (int64_t count = 0; count <= int64_t{n_cpus} * share / 1000 && b < kBuckets;)
        count += buckets[static_cast<size_t>(b++)];
    return 10 * b;
}

PolicyEntry irq_aware_entry(const Column& on) {
    PolicyInfo info{
        .name = "irq-aware",
        .summary = "that passes over idle CPUs which interrupts keep busy",
        .author = "Rohit Jain",
        .date = "2017-05-12",
        .posting = "[PATCH 1/2] sched: Interrupt Aware Scheduler",
        .kernel = on.kernel,
        .oracle_column = "v4.12.0+seed3",
        .reference = false,
        .params = {{"threshold", "auto",
                    "load above which a CPU is heavy: auto as the patch computes it, or fixed (1000: never)", true},
                   {"initial_threshold", "1000",
                    "before it is computed for the first time, 100 ms into the recording; warm: computed at every "
                    "tick until then",
                    true},
                   {"share", "800", "per mille of the CPUs; the threshold is above as many of them", true},
                   {"decay", "4", "a falling load falls by 1/decay of the difference in a tick, rounded up", true},
                   {"irq_entry_overhead_ns", "0", "time of an interrupt outside its recorded handler (model)"}},
        .steps = {},
        .quirks = {"loads are 0..93 against a grid of 100 buckets of ten: without interrupts the threshold is 10, "
                   "heavy from 11 on",
                   "an idle core gives its last sibling that is not heavy even where none is, where linux-4.12 gives "
                   "the first met",
                   "that sibling is not checked against allowed: the core then takes the fallback CPU",
                   "an idle core with all siblings heavy is not passed over for a clean one behind it",
                   "of several heavy idle CPUs the last one met is the backup",
                   "forks and execs: among CPUs of equal exit latency, heavy ones are taken as any other"},
        .deviations = {"hardirq time: between recorded entries and exits of interrupts; without irq_vectors events a "
                       "lower bound",
                       "ticks: 1/HZ apart, none on a CPU idle for longer than one; threshold 1000 for 100 ms, then "
                       "computed, then every 5 s"},
        .reads_irq = true,
        .inputs = 0,
        .base = "linux-4.12"};
    if (on.scan == Scan::ring || on.scan == Scan::ring_all)
        refuse_column(info.name, on,
                      "the patch changes the core, CPU and sibling passes of 4.8 and later; this kernel searches whole "
                      "groups");
    std::vector<std::string> port = {
        "X4 passes over heavy CPUs as X1 and X2 do; X3 and the capacity scan of "
        "asymmetric machines do not"};
    if (on.scan == Scan::three)
        port.push_back("a CPU pass whose bound runs out loses its backup, the heavy idle CPUs that it met");
    else
        port.insert(
            port.end(),
            {"a scan that nr_idle_scan ends loses its backup, the heavy idle CPUs that it met",
             "the siblings of prev come first here: a heavy one of them wins over clean CPUs elsewhere",
             "without a whole idle core the thread that is remembered is a clean one, else the last heavy one"});
    return composed_entry(seed_info(std::move(info), on, std::move(port)),
                          [&on](const PolicyParams& p, const Topology& t) { return compose_seed(on, p, t); });
}

}  // namespace rewake
