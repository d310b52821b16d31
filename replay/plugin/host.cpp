// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/plugin/host.hpp"

#include <algorithm>
#include <cstring>

#include "replay/plugin/answers.hpp"
#include "replay/policies/steps/slow_path.hpp"
#include "replay/policies/steps/wakee.hpp"

namespace rewake {
namespace {

static_assert(static_cast<int>(Stage::book_in) == REWAKE_BOOK_IN &&
              static_cast<int>(Stage::admission) == REWAKE_ADMISSION);
static_assert(static_cast<int>(Stage::gate) == REWAKE_GATE && static_cast<int>(Stage::walk) == REWAKE_WALK);
static_assert(static_cast<int>(Stage::affine) == REWAKE_AFFINE && static_cast<int>(Stage::slow) == REWAKE_SLOW);
static_assert(static_cast<int>(Stage::probe) == REWAKE_PROBE && static_cast<int>(Stage::scan) == REWAKE_SCAN);
static_assert(static_cast<int>(Stage::fallback) == REWAKE_FALLBACK && static_cast<int>(Stage::check) == REWAKE_CHECK);
static_assert(static_cast<int>(Kind::wake) == REWAKE_WAKE && static_cast<int>(Kind::fork) == REWAKE_FORK &&
              static_cast<int>(Kind::exec) == REWAKE_EXEC);

using Host = rewake_host;
using Question = rewake_decision;

const Topology& topo(const Host* h) { return *static_cast<const Topology*>(h->self); }
bool exists(const Topology& t, int32_t cpu) { return cpu >= 0 && cpu < t.n_cpus; }
Cpu id(int32_t cpu) { return Cpu(static_cast<uint16_t>(cpu)); }

/// Copies as much of `from` as the plugin's struct has room for.
template <class T>
void give(T* out, T from) {
    from.size = static_cast<uint32_t>(std::min<size_t>(out->size, sizeof(T)));
    std::memcpy(static_cast<void*>(out), &from, from.size);
}

/// `value(cpu)` noted as a look at that CPU and at `inputs`; 0 for a CPU that does not exist.
template <class Value>
auto look(Question* q, int32_t cpu, uint32_t inputs, Value value) -> decltype(value(Cpu{})) {
    if (!exists(q->x.t, cpu)) return 0;
    q->x.look(inputs);
    q->x.touch(id(cpu));
    return value(id(cpu));
}

/// The steps of a fork or exec end with the slow path; to search for an idle CPU is the wakeup's.
const Steps& steps_of(const Question* q, Stage stage) {
    const bool search = stage >= Stage::probe && stage <= Stage::fallback;
    return q->x.w.kind == Kind::wake || search ? q->base.parts().steps : q->base.parts().slow;
}

/// Whether the step reads what is not known here.
bool unknown(const Question* q, Stage stage) {
    if (q->x.v.slow || (stage >= Stage::probe && stage <= Stage::fallback)) return false;
    return q->x.w.kind != Kind::wake || (stage == Stage::slow && q->x.slow_domain != Topology::kNone);
}

bool run_one(Question* q, const Step& step) {
    if (step.stage() == Stage::check) {
        if (!q->chosen || q->absent) return q->chosen;
        q->checked = true;
    }
    if (!step.run(q->x)) return false;
    return q->chosen = true;
}

int run(Question* q, uint32_t stage) {
    if (stage > REWAKE_CHECK || unknown(q, static_cast<Stage>(stage))) return -1;
    for (const auto& step : steps_of(q, static_cast<Stage>(stage)))
        if (step->stage() == static_cast<Stage>(stage) && run_one(q, *step)) return 1;
    return 0;
}

const Step* step_at(const Question* q, int32_t index) {
    const Steps& all = steps_of(q, Stage::check);
    return index >= 0 && static_cast<size_t>(index) < all.size() ? all[index].get() : nullptr;
}

int pick(Question* q, int32_t cpu, int32_t branch) {
    q->chosen = true;
    q->absent.reset();
    if (exists(q->x.t, cpu))
        q->x.d.cpu = id(cpu);
    else
        q->absent = cpu;
    const bool named = branch >= 0 && branch < q->branches;
    q->x.d.branch = static_cast<Branch>(kOwnBranch + (named ? 1 + branch : 0));
    return 1;
}

int32_t wake_affine(Question* q) {
    const Wakeup& w = q->x.w;
    if (w.waker == w.prev) return w.prev.v;
    Ctx x = q->x;
    x.related = true;  // the test itself, not the condition on it
    x.target = w.prev;
    for (int i : x.t.stack[w.waker.v])
        if (x.t.domains[i].span.test(w.prev)) {
            x.look(kDomains);
            x.affine_domain = i;
            for (const auto& step : q->base.parts().steps)
                if (step->stage() == Stage::affine) step->run(x);
            return x.target.v;
        }
    return -1;
}

int32_t idlest_cpu(Question* q, const uint64_t* group) {
    if (!group || !q->x.v.slow) return -1;
    CpuMask mask;
    std::copy_n(group, q->x.t.words, mask.w.begin());
    for (const auto& step : q->base.parts().slow)
        if (const auto* slow = dynamic_cast<const SlowPath*>(step.get())) {
            const auto cpu = slow->idlest_cpu(q->x, mask & q->x.t.online, q->x.w.waker);
            return cpu ? cpu->v : -1;
        }
    return -1;
}

int domain(const Host* h, int32_t cpu, int32_t level, rewake_domain* out) {
    const Topology& t = topo(h);
    if (!exists(t, cpu) || level < 0 || static_cast<size_t>(level) >= t.stack[cpu].size()) return 0;
    const Domain& d = t.domains[t.stack[cpu][level]];
    rewake_domain told{};
    told.imbalance_pct = d.imbalance_pct;
    told.name = d.name.c_str();
    told.span = d.span.w.data();
    told.wake_affine = d.wake_affine;
    told.balance_wake = d.balance_wake;
    told.balance_fork = d.balance_fork;
    told.balance_exec = d.balance_exec;
    told.load_balance = d.load_balance;
    told.share_llc = d.share_llc;
    told.numa = d.numa;
    give(out, told);
    return 1;
}

}  // namespace

rewake_wakeup wakeup_of(const View& v, const Wakeup& w) {
    rewake_wakeup told{};
    told.size = sizeof told;
    told.kind = static_cast<uint32_t>(w.kind);
    told.id = w.id;
    told.now_ns = v.now;
    told.task = w.p.v;
    told.waker_task = w.curr.v;
    told.waker_cpu = w.waker.v;
    told.prev_cpu = w.prev.v;
    told.in_task = w.in_task;
    told.waker_idle = w.curr_is_idle;
    told.waker_kthread = w.curr_kthread;
    told.waker_exiting = w.curr_exiting;
    return told;
}

rewake_host host_of(const Topology& t, uint64_t seed) {
    rewake_host h{};
    h.size = sizeof h;
    h.abi = REWAKE_POLICY_ABI;
    h.self = &t;
    h.n_cpus = t.n_cpus;
    h.n_words = t.words;
    h.seed = seed;

    h.online_cpus = [](const Host* p) { return topo(p).online.w.data(); };
    h.core_cpus = [](const Host* p, int32_t c) { return exists(topo(p), c) ? topo(p).smt[c].w.data() : nullptr; };
    h.cluster_cpus = [](const Host* p, int32_t c) {
        return exists(topo(p), c) && topo(p).has_cluster[c] ? topo(p).cluster[c].w.data() : nullptr;
    };
    h.llc_cpus = [](const Host* p, int32_t c) {
        return exists(topo(p), c) ? topo(p).llc_span[topo(p).llc[c].v].w.data() : nullptr;
    };
    h.node_cpus = [](const Host* p, int32_t c) {
        return exists(topo(p), c) ? topo(p).node_span[topo(p).node[c]].w.data() : nullptr;
    };
    h.capacity_orig = [](const Host* p, int32_t c) { return exists(topo(p), c) ? int32_t{topo(p).cap_orig[c]} : 0; };
    h.domain = domain;

    h.wakeup = [](Question* q) { return static_cast<const rewake_wakeup*>(&q->wakeup); };
    h.allowed = [](Question* q) { return q->x.look(kAllowed), q->x.w.allowed->w.data(); };
    h.sync = [](Question* q) { return q->x.look(kSync), int{q->x.w.sync}; };
    h.task_load = [](Question* q) { return q->x.look(kLoad), q->x.w.p_load; };
    h.waker_load = [](Question* q) { return q->x.look(kLoad), q->x.w.curr_load; };

    h.idle = [](Question* q, int32_t c) { return look(q, c, 0, [&](Cpu cpu) { return int{q->x.v.avail.test(cpu)}; }); };
    h.usable = [](Question* q, int32_t c) { return look(q, c, 0, [&](Cpu cpu) { return int{q->x.usable(cpu)}; }); };
    h.scan = [](Question* q, int32_t c) {
        return look(q, c, 0, [&](Cpu cpu) { return ++q->x.d.scanned, int{q->x.usable(cpu)}; });
    };
    h.nr = [](Question* q, int32_t c) { return look(q, c, kNr, [&](Cpu cpu) { return q->x.v.nr[cpu.v]; }); };
    h.load = [](Question* q, int32_t c) { return look(q, c, kLoad, [&](Cpu cpu) { return q->x.v.load[cpu.v]; }); };
    h.capacity = [](Question* q, int32_t c) {
        return look(q, c, kCapacity, [&](Cpu cpu) { return q->x.v.cap[cpu.v]; });
    };

    h.recent_cpu = [](Question* q) {
        q->x.look(kRecent);
        const PolicyState::Task& p = q->x.s.task(q->x.w.p);
        return p.has_recent ? int32_t{p.recent.v} : -1;
    };
    h.flips = [](Question* q, uint32_t task) {
        q->x.look(kFlips);
        return task < q->x.s.tasks.size() ? q->x.s.tasks[task].flips : 0u;
    };
    h.idle_cores = [](Question* q, int32_t c) {
        return look(q, c, kHasIdleCores, [&](Cpu cpu) { return int{q->x.s.hic[q->x.t.llc[cpu.v].v]}; });
    };
    h.nr_idle_scan = [](Question* q, int32_t c) {
        return look(q, c, kNrIdleScan, [&](Cpu cpu) { return q->x.v.nr_idle_scan[q->x.t.llc[cpu.v].v]; });
    };

    h.run = run;
    h.run_step = [](Question* q, int32_t index) {
        const Step* step = step_at(q, index);
        return !step || unknown(q, step->stage()) ? -1 : int{run_one(q, *step)};
    };
    h.step = [](Question* q, int32_t index, rewake_step* out) {
        const Step* step = step_at(q, index);
        if (step) give(out, {sizeof(rewake_step), static_cast<uint32_t>(step->stage()), step->text().c_str()});
        return int{step != nullptr};
    };
    h.chosen = [](Question* q) { return !q->chosen ? -1 : q->absent ? *q->absent : int32_t{q->x.d.cpu.v}; };
    h.pick = pick;

    h.target = [](Question* q) { return int32_t{q->x.target.v}; };
    h.set_target = [](Question* q, int32_t c) {
        if (exists(q->x.t, c))
            q->x.target = id(c);
        else
            pick(q, c, -1);
    };
    h.want_affine = [](Question* q) { return int{q->x.want_affine}; };
    h.set_want_affine = [](Question* q, int value) { q->x.want_affine = value != 0; };

    h.wake_wide = [](Question* q) {
        q->x.look(kFlips | kDomains);
        const uint32_t p = q->x.s.task(q->x.w.p).flips, curr = q->x.s.task(q->x.w.curr).flips;
        return int{wake_wide(curr, p, q->x.t.llc_size(q->x.w.waker))};
    };
    h.wake_affine = wake_affine;
    h.idlest_cpu = idlest_cpu;
    return h;
}

}  // namespace rewake
