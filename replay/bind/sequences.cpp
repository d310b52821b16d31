// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/bind/sequences.hpp"

#include <map>
#include <set>

#include "replay/policies/idle_thread_scan.hpp"
#include "replay/policies/irq_aware.hpp"
#include "replay/policies/steps/wakee.hpp"
#include "replay/policies/wakeup_buddy.hpp"

namespace rewake::bind {
namespace {

uint16_t first_of(const CpuMask& m) {
    return first_in_wrap(kMaskWords, 0, [&](unsigned i) { return m.w[i]; })->v;
}

IrqEstimator::Buckets buckets_of(const Fields& f) {
    IrqEstimator::Buckets all{};
    const auto given = f.get<Numbers>("buckets");
    if (given.size() > all.size()) throw std::invalid_argument("field buckets has another length");
    for (size_t i = 0; i < given.size(); ++i) all[i] = static_cast<int32_t>(given[i]);
    return all;
}

int cpus_of(const Fields& f) {
    const int64_t n = f.number("ncpu");
    if (n < 1 || n > kMaxCpus) throw std::invalid_argument("ncpu " + std::to_string(n));
    return static_cast<int>(n);
}

}  // namespace

nb::dict wakee_sequence(const Fields& f) {
    PolicyState s;
    const auto start = static_cast<uint64_t>(f.number("initial_decay_ts"));
    const auto hz = static_cast<uint32_t>(f.number("hz"));
    std::set<uint32_t> seen;
    nb::list steps;
    for (nb::dict d : f.get<std::vector<nb::dict>>("steps")) {
        const Fields step(d);
        const TaskId waker(static_cast<uint32_t>(step.number("waker"))),
            wakee(static_cast<uint32_t>(step.number("wakee")));
        for (TaskId task : {waker, wakee})
            if (task.v >= 1u << 20) throw std::invalid_argument("task " + std::to_string(task.v) + " is out of range");
        if (!seen.contains(waker.v)) s.task(waker).decay_ts = start;
        seen.insert(waker.v);
        record_wakee(s, waker, wakee, static_cast<uint64_t>(step.number("jiffies")), hz);
        const uint32_t p_flips = s.task(wakee).flips;
        const PolicyState::Task& curr = s.task(waker);
        nb::dict out;
        out["waker_flips"] = curr.flips;
        out["waker_last_wakee"] = curr.last_wakee.v;
        out["waker_decay_ts"] = curr.decay_ts;
        out["wide"] = static_cast<int>(wake_wide(curr.flips, p_flips, static_cast<int>(step.number("llc_size"))));
        steps.append(out);
    }
    nb::dict out;
    out["steps"] = steps;
    return out;
}

nb::dict idle_core_sequence(const std::string& policy, const Fields& f) {
    Topology t;
    const auto llc_of = f.get<Numbers>("llc_of_cpu");
    t.n_cpus = static_cast<int>(llc_of.size());
    if (t.n_cpus < 1 || t.n_cpus > kMaxCpus)
        throw std::invalid_argument("llc_of_cpu has " + std::to_string(t.n_cpus) + " entries");
    std::map<int64_t, CpuMask> llcs;
    for (int c = 0; c < t.n_cpus; ++c) {
        t.online.set(Cpu(static_cast<uint16_t>(c)));
        llcs[llc_of[c]].set(Cpu(static_cast<uint16_t>(c)));
    }
    t.smt.assign(t.n_cpus, {});
    for (const Numbers& cpus : f.get<std::vector<Numbers>>("cores")) {
        const CpuMask m = Fields::mask(cpus, t.n_cpus, "cores");
        for (int64_t c : cpus) t.smt[c] = m;
    }
    t.llc_id.assign(t.n_cpus, 0);
    t.has_llc_domain.assign(t.n_cpus, true);
    for (const auto& [id, span] : llcs) {
        Domain d;
        d.name = "MC";
        d.span = span;
        d.share_llc = true;
        for_each_cpu(
            kMaskWords, [&](int i) { return span.w[i]; }, [&](Cpu c) { return t.llc_id[c.v] = first_of(span), false; });
        t.domains.push_back(std::move(d));
    }
    t.finish();
    const auto p = make_policy(policy, {}, t, 0);
    View v;
    v.topo = &t;
    CpuMask current, pending;  // a pending wakeup outlives the entry into idle; it ends when the CPU becomes busy
    nb::list steps;
    for (nb::dict d : f.get<std::vector<nb::dict>>("steps")) {
        const Fields step(d);
        const auto op = step.get<std::string>("op");
        if (op == "clear") {
            const auto it = llcs.find(step.number("llc"));
            if (it == llcs.end()) throw std::invalid_argument("no such llc");
            p->state.hic[t.llc[first_of(it->second)].v] = 0;
        } else {
            const Cpu c = step.cpu("cpu", t.n_cpus);
            if (op == "pending") pending.set(c);
            if (op == "busy") pending.clear(c);
            if (op != "pending") current.assign(c, op == "idle");
            v.avail.assign(c, current.test(c) && !pending.test(c));
            v.idle = v.avail;
            if (op == "idle") {
                bool others = true;
                for (uint16_t s : t.siblings(c)) others &= s == c.v || v.avail.test(Cpu(s));
                p->cpu_idle(v, c, others);
            } else if (op != "busy" && op != "pending") {
                throw std::invalid_argument("unknown op " + op);
            }
        }
        nb::list hic;
        for (const auto& [id, span] : llcs) hic.append(static_cast<int>(p->state.hic[t.llc[first_of(span)].v]));
        nb::dict out;
        out["hic"] = hic;
        steps.append(out);
    }
    nb::dict out;
    out["steps"] = steps;
    return out;
}

nb::dict scan_estimate(const Fields& f) {
    const ShouldScan in{.cfs_nr = static_cast<int>(f.number("cfs_nr")),
                        .fair = f.flag("fair"),
                        .idle_policy = f.flag("idle_policy"),
                        .migration_cost = f.number("migration_cost"),
                        .clock = f.number("clock_task"),
                        .exec_start = f.number("exec_start")};
    nb::dict out;
    out["should_scan"] = static_cast<int>(should_scan(in));
    return out;
}

nb::dict irq_threshold(const Fields& f) {
    nb::dict out;
    out["threshold"] = IrqEstimator::threshold(buckets_of(f), cpus_of(f));
    return out;
}

nb::dict irq_sequence(const Fields& f) {
    const int n = cpus_of(f);
    const int64_t hz = f.number("hz");
    if (hz < 1 || hz > 100'000) throw std::invalid_argument("hz " + std::to_string(hz));
    IrqEstimator irq(n, static_cast<uint32_t>(hz));
    nb::list steps;
    for (nb::dict d : f.get<std::vector<nb::dict>>("steps")) {
        const Fields step(d);
        const auto op = step.get<std::string>("op");
        nb::dict out;
        if (op == "tick") {
            const Cpu c = step.cpu("cpu", n);
            irq.tick(c, step.number("hardirq_ns"));
            out["intrload"] = irq.load().intrload[c.v];
            nb::list buckets;  // loads of 0..93 fill ten buckets only
            for (size_t i = 0; i < 10; ++i) buckets.append(irq.buckets()[i]);
            out["buckets"] = buckets;
        } else if (op == "threshold") {
            irq.recompute();
        } else {
            throw std::invalid_argument("unknown op " + op);
        }
        out["threshold"] = irq.load().threshold;
        steps.append(out);
    }
    nb::dict out;
    out["steps"] = steps;
    return out;
}

nb::dict buddy_sequence(const Fields& f) {
    PolicyState s;
    const auto ref = static_cast<uint32_t>(f.number("buddy_ref"));
    auto task = [](const Fields& step, const char* name) {
        const int64_t id = step.number(name);
        if (id < 0 || id >= 1 << 20) throw std::invalid_argument("task " + std::to_string(id) + " is out of range");
        return TaskId(static_cast<uint32_t>(id));
    };
    auto after = [&](TaskId t) {
        const PolicyState::Buddy b = s.buddy(t);
        auto id = [](TaskId who) { return who == PolicyState::Buddy::kNobody ? -1 : static_cast<int64_t>(who.v); };
        nb::dict d;
        d["waker"] = id(b.waker);
        d["wakee"] = id(b.wakee);
        d["waker_ref"] = b.waker_ref;
        d["wakee_ref"] = b.wakee_ref;
        return d;
    };
    nb::list steps;
    for (nb::dict d : f.get<std::vector<nb::dict>>("steps")) {
        const Fields step(d);
        const bool fork = step.get<std::string>("op") == "fork";
        const TaskId waker = task(step, fork ? "parent" : "waker"), wakee = task(step, fork ? "child" : "wakee");
        nb::dict out;
        if (fork) {
            const PolicyState::Buddy parent = s.buddy(waker);
            s.buddy(wakee) = parent;
        } else {
            out["related"] = static_cast<int>(wakeup_related(s, waker, wakee, ref));
        }
        wakeup_ref(s, waker, wakee);
        out["wakee_after"] = after(wakee);
        out["waker_after"] = after(waker);
        steps.append(out);
    }
    nb::dict out;
    out["steps"] = steps;
    return out;
}

}  // namespace rewake::bind
