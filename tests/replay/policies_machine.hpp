// SPDX-License-Identifier: GPL-2.0-or-later
// Small machines and decisions for the policy tests.
#pragma once

#include <initializer_list>

#include "replay/policies/policy.hpp"

namespace rewake::test {

inline Cpu cpu(int c) { return Cpu(static_cast<uint16_t>(c)); }

inline CpuMask cpus(std::initializer_list<int> list) {
    CpuMask m;
    for (int c : list) m.set(cpu(c));
    return m;
}

inline CpuMask first_cpus(int n) {
    CpuMask m;
    for (int c = 0; c < n; ++c) m.set(cpu(c));
    return m;
}

/// One LLC of `n` CPUs; with `smt`, CPU i and i + n/2 are siblings. LLCs of `llc` CPUs (0: one) below a PKG level.
inline Topology machine(int n, bool smt = false, int llc = 0) {
    Topology t;
    t.n_cpus = n;
    t.known = true;
    t.online = first_cpus(n);
    t.has_llc_domain.assign(static_cast<size_t>(n), true);
    const int size = llc ? llc : n;
    auto add = [&](const char* name, CpuMask span, bool share_llc) {
        Domain& d = t.domains.emplace_back();
        d.name = name;
        d.span = span;
        d.share_llc = share_llc;
    };
    if (llc) add("PKG", t.online, false);  // out of order on purpose: finish() sorts
    for (int c = 0; c < n; ++c) t.llc_id.push_back(static_cast<uint16_t>(c / size * size));
    for (int first = 0; first < n; first += size) {
        CpuMask span;
        for (int c = first; c < first + size; ++c) span.set(cpu(c));
        add("MC", span, true);
    }
    if (smt)
        for (int c = 0; c < n; ++c) {
            t.smt.push_back(cpus({c % (n / 2), c % (n / 2) + n / 2}));
            if (c < n / 2) add("SMT", t.smt.back(), true);
        }
    return t;
}

/// One decision: listed CPUs idle, every other CPU runs one nice-0 task, everything allowed, no scan bound.
struct Scene {
    const Topology& t;
    View v;
    Wakeup w;
    CpuMask allowed;

    Scene(const Topology& topo, std::initializer_list<int> idle, int waker, int prev) : t(topo), allowed(topo.online) {
        const auto n = static_cast<size_t>(t.n_cpus);
        v.topo = &t;
        v.idle = v.avail = cpus(idle);
        v.nr.assign(n, 1);
        for (int c : idle) v.nr[static_cast<size_t>(c)] = 0;
        v.cfs_nr = v.nr;
        v.delayed.assign(n, 0);
        v.load.assign(n, 1024);
        v.cap.assign(t.cap_orig.begin(), t.cap_orig.end());
        v.thermal.assign(n, 0);
        v.clock_task.assign(n, 1'000'000'000);
        v.avg_idle.assign(n, 0);
        v.nr_idle_scan.assign(t.llc_span.size(), kMaxCpus);
        w.p = TaskId(static_cast<uint32_t>(n));
        w.curr = TaskId(static_cast<uint32_t>(n) + 1);
        w.waker = cpu(waker);
        w.prev = w.task_cpu = cpu(prev);
        allow(topo.online);
    }
    Scene(const Scene&) = delete;
    void allow(const CpuMask& m) {
        allowed = m;
        w.allowed = &allowed;
        w.n_allowed = allowed.count();
    }
    Decision decide(Policy& p, const CpuMask& dirty = {}, int recorded = 0) {
        return p.decide(v, w, &dirty, cpu(recorded));
    }
};

}  // namespace rewake::test
