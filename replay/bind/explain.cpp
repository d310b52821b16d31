// SPDX-License-Identifier: GPL-2.0-or-later
// Explanations of the open loop as plain dicts.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "replay/bind/engine.hpp"

namespace rewake::bind {

namespace {

std::vector<int> cpus(const CpuMask& m) {
    std::vector<int> out;
    for_each_cpu(kMaskWords, [&](int i) { return m.w[i]; }, [&](Cpu c) { return out.push_back(c.v), false; });
    return out;
}

std::optional<int> number(std::optional<Cpu> c) { return c ? std::optional<int>(c->v) : std::nullopt; }

nb::dict machine(const View& v, const Topology& t) {
    nb::list llcs, llc_ids, cores;
    for (size_t l = 0; l < t.llc_span.size(); ++l) {
        llcs.append(nb::cast(cpus(t.llc_span[l])));
        llc_ids.append(t.id_of(Llc(static_cast<uint16_t>(l))).v);
    }
    for (int c = 0; c < t.n_cpus; ++c)
        if (t.core[c] == c && t.online.test(Cpu(static_cast<uint16_t>(c)))) cores.append(nb::cast(cpus(t.smt[c])));
    nb::dict d;
    d["topology_known"] = t.known;
    d["smt"] = t.smt_active;
    d["online"] = cpus(t.online);
    d["llcs"] = llcs;
    d["llc_ids"] = llc_ids;
    d["cores"] = cores;
    d["idle"] = cpus(v.avail);
    d["idle_policy_only"] = cpus(v.sidle);
    d["nr"] = nb::cast(v.nr);
    d["cfs_nr"] = nb::cast(v.cfs_nr);
    d["nr_idle_scan"] = nb::cast(v.nr_idle_scan);
    return d;
}

nb::dict wakeup(const Explanation& e) {
    const Wakeup& w = e.w;
    nb::dict d;
    d["waker_cpu"] = w.waker.v;
    d["prev_cpu"] = w.prev.v;
    d["allowed"] = cpulist(e.allowed);
    d["n_allowed"] = w.n_allowed;
    d["sync"] = w.sync;
    d["in_task"] = w.in_task;
    d["waker_idle_task"] = w.curr_is_idle;
    d["waker_percpu_kthread"] = w.curr_kthread && w.curr_one_cpu;
    d["waker_exiting"] = w.curr_exiting;
    d["p_idle_policy"] = w.p_idle_policy;
    d["p_util"] = w.p_util;
    d["p_util_est"] = w.p_util_est;
    d["p_slept_at_ns"] = w.p_exec_start;
    d["migration_cost_ns"] = w.migration_cost;
    d["clock_of_prev_ns"] = e.view.clock_task[w.prev.v];
    return d;
}

nb::dict policy(const Explanation::Instance& i) {
    nb::list steps;
    for (const Reasons::Step& s : i.steps) {
        nb::dict step;
        step["step"] = s.about;
        step["reasons"] = nb::cast(s.reasons);
        step["decided"] = s.decided;
        steps.append(step);
    }
    nb::dict d;
    d["has_path"] = i.has_path;
    const Decision dec = i.decision.value_or(Decision{});
    d["decided"] = i.decision.has_value();
    d["cpu"] = i.decision ? std::optional<int>(dec.cpu.v) : std::nullopt;
    d["class_cpu"] = i.decision ? std::optional<int>(dec.class_cpu.v) : std::nullopt;
    d["branch"] = i.decision ? std::optional(std::string(branch_name(dec.branch))) : std::nullopt;
    d["cpus_scanned"] = dec.scanned;
    d["looked"] = dec.looked;
    d["assumed"] = i.assumed;
    d["waker_load"] = i.waker_load;
    d["prev_load"] = i.prev_load;
    d["p_load"] = i.p_load;
    d["curr_load"] = i.curr_load;
    d["p_flips"] = i.p_flips;
    d["curr_flips"] = i.curr_flips;
    d["recent"] = number(i.recent);
    d["has_idle_cores"] = nb::cast(std::vector<int>(i.hic.begin(), i.hic.end()));
    d["steps"] = steps;
    return d;
}

}  // namespace

nb::list plain(const std::vector<Explanation>& explanations, const Topology& topo) {
    nb::list out;
    for (const Explanation& e : explanations) {
        nb::dict d;
        d["event_id"] = e.event_id;
        d["now_ns"] = e.view.now;
        d["machine"] = machine(e.view, topo);
        d["wakeup"] = wakeup(e);
        nb::object irq = nb::none();
        if (e.irq) {
            nb::dict load;
            load["load"] = nb::cast(e.irq->intrload);
            load["threshold"] = e.irq->threshold;
            irq = load;
        }
        d["irq"] = irq;
        nb::list policies;
        for (const Explanation::Instance& i : e.policies) policies.append(policy(i));
        d["policies"] = policies;
        out.append(d);
    }
    return out;
}

}  // namespace rewake::bind
