// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/open_loop.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace rewake {

void LedgerColumns::resize(size_t n) {
    cpu.resize(n), cpus_scanned.resize(n), outcome.resize(n), branch.resize(n), inputs_assumed.resize(n), known.resize(n);
    lo.resize(n), hi.resize(n), undecided.resize(n), lo_null.resize(n), hi_null.resize(n);
}

OpenLoop::OpenLoop(const Topology& topo, const TaskTable& tasks, std::vector<std::unique_ptr<Policy>> policies,
                   ReplayOptions options, IdleLatency idle_latency, Running running)
    : machine_(topo, tasks),
      topo_(topo),
      table_(tasks),
      opt_(options),
      idle_latency_(std::move(idle_latency)),
      divergence_(policies.size(), topo.n_cpus),
      order_(static_cast<size_t>(topo.n_cpus), tasks.tasks.size()),
      segment_(static_cast<size_t>(topo.n_cpus), kNoEnd),
      running_(std::move(running)) {
    for (auto& p : policies) instances_.emplace_back().policy = std::move(p);
    // policies.md D2.5: k = 1 + floor(log2(min(ncpu, 8))), slice = max(0.75 ms k, 6 ms k w/W).
    const Ns k = std::bit_width(static_cast<unsigned>(std::clamp(topo.online.count(topo.words), 1, 8)));
    for (size_t nr = 0; nr < slice_.size(); ++nr)
        slice_[nr] = std::max(opt_.slice_base * k, opt_.slice_latency * k / static_cast<Ns>(nr + 1));
}

void OpenLoop::segments(const Batch& b, const SwitchColumns* next) {
    std::vector<Ns> ahead(segment_.size(), kNoEnd);  // first switch of each CPU after the row under the cursor
    if (next) {
        size_t missing = ahead.size();
        for (size_t i = 0; i < next->n && missing > 0; ++i) {
            if (next->cpu[i] >= ahead.size()) continue;
            Ns& a = ahead[next->cpu[i]];
            if (a != kNoEnd) continue;
            a = next->ts[i];
            --missing;
        }
    }
    ends_.resize(b.sw.n);
    for (size_t i = b.sw.n; i-- > 0;) {
        if (b.sw.cpu[i] >= ahead.size()) continue;
        ends_[i] = std::exchange(ahead[b.sw.cpu[i]], b.sw.ts[i]);
    }
    // What runs since an earlier part (or since before the recording) ends at the first switch met above.
    for (size_t c = 0; c < segment_.size(); ++c)
        if (ahead[c] != kNoEnd) segment_[c] = ahead[c];
}

void OpenLoop::run(const Batch& b, const SwitchColumns* next, const DecisionColumns& d) {
    order_.build(b);
    if (!primed_) {
        machine_.prime(b, order_, running_);
        if (b.sw.n) start_ = b.sw.ts[0];
        for (int c = 0; c < topo_.n_cpus; ++c) {  // has_idle_cores starts true where an idle core exists (policies.md C1)
            const Cpu cpu(static_cast<uint16_t>(c));
            if (!machine_.view().avail.test(cpu) || !machine_.core_idle_but(cpu)) continue;
            for (Instance& in : instances_) in.policy->cpu_idle(machine_.view(), cpu, true);
        }
        primed_ = true;
    }
    segments(b, next);
    for (Instance& in : instances_) in.out.resize(d.n);
    size_t row = 0;
    auto opening = [&](int64_t id) {
        if (row < d.n && d.event_id[row] == id) decide(d, row++);
    };
    order_.walk([&](Event e, size_t i) {
        switch (e) {
            case Event::sw: {
                const Cpu c(b.sw.cpu[i]);
                machine_.on_switch(b.sw, i);
                segment_[c.v] = ends_[i];
                if (!still_runnable(b.sw.prev_state[i])) divergence_.forget(TaskId(b.sw.prev_task[i]));
                if (machine_.is_idle_task(TaskId(b.sw.next_task[i])) && machine_.core_idle_but(c))
                    for (Instance& in : instances_) in.policy->cpu_idle(machine_.view(), c, true);
                break;
            }
            case Event::waking: opening(b.waking.id[i]); break;
            case Event::wakeup:
                opening(b.wakeup.id[i]);
                machine_.on_wakeup(TaskId(b.wakeup.task[i]), b.wakeup.prio[i], Cpu(b.wakeup.target_cpu[i]), b.wakeup.ts[i]);
                break;
            case Event::migrate:
                opening(b.migrate.id[i]);
                machine_.on_migrate(TaskId(b.migrate.task[i]), Cpu(b.migrate.orig_cpu[i]), Cpu(b.migrate.dest_cpu[i]),
                                    b.migrate.ts[i]);
                break;
            case Event::fork:
                for (Instance& in : instances_)
                    in.policy->fork(TaskId(b.fork.task[i]), TaskId(b.fork.child[i]), Cpu(b.fork.cpu[i]));
                break;
            case Event::exec: opening(b.exec.id[i]); break;
            case Event::exit: machine_.on_exit(TaskId(b.exit.task[i])); break;
            case Event::idle:
                machine_.on_idle_state(Cpu(b.idle.idle_cpu[i]), b.idle.state_null && b.idle.state_null[i]
                                                                    ? std::nullopt
                                                                    : std::optional(b.idle.state[i]));
                break;
            case Event::loss: machine_.on_loss(Cpu(b.loss.cpu[i]), b.loss.ts[i]); break;
            default: break;
        }
    });
    if (row != d.n) throw std::invalid_argument("decision table does not match the events of its part");
    count_latencies(d);
}

/// Fills the histograms from the part's columns: one column at a time, which the caches like better than one row at a time.
void OpenLoop::count_latencies(const DecisionColumns& d) {
    const auto wake = static_cast<uint8_t>(Kind::wake);
    for (Instance& in : instances_)
        for (size_t i = 0; i < d.n; ++i) {
            if (in.out.undecided[i] || d.kind[i] != wake) continue;
            if (!in.out.lo_null[i]) in.lo.add(in.out.lo[i]);
            if (!in.out.hi_null[i]) in.hi.add(in.out.hi[i]);
        }
    for (size_t i = 0; i < d.n; ++i) {
        const auto cls = static_cast<DecisionClass>(d.cls[i]);
        const bool counted = cls == DecisionClass::moved || cls == DecisionClass::stayed;
        if (counted && d.kind[i] == wake && !(d.latency_null && d.latency_null[i])) recorded_.add(d.latency[i]);
    }
}

uint32_t OpenLoop::assumed(const Wakeup& w) const {
    uint32_t bits = opt_.inferred;
    if (machine_.view().now - start_ < opt_.warm_up) bits |= kFlips | kRecent;
    const TaskInfo& info = table_.info(w.p);
    if (!info.allowed_recorded) bits |= kAllowed;
    if (!info.policy_recorded) bits |= kIdlePolicy;
    return bits;
}

void OpenLoop::decide(const DecisionColumns& d, size_t row) {
    auto null = [row](const bool* mask) { return mask && mask[row]; };
    const auto cls = static_cast<DecisionClass>(d.cls[row]);
    const auto kind = static_cast<Kind>(d.kind[row]);
    const TaskId p(d.task[row]);
    const bool fair = cls == DecisionClass::moved || cls == DecisionClass::stayed || cls == DecisionClass::pinned;
    const bool decidable = fair && !null(d.waker_cpu_null) && !null(d.prev_cpu_null) && !null(d.chosen_cpu_null) &&
                           !null(d.waker_task_null);
    const bool chosen_known = !null(d.chosen_cpu_null);
    const Cpu chosen(d.chosen_cpu[row]);
    const Machine::Task before = machine_.task(p);
    divergence_.forget(p);
    if (!decidable) {
        for (Instance& in : instances_) in.out.undecided[row] = in.out.lo_null[row] = in.out.hi_null[row] = 1;
    } else {
        Wakeup w;
        w.kind = kind;
        w.p = p;
        w.curr = TaskId(d.waker_task[row]);
        w.waker = Cpu(d.waker_cpu[row]);
        w.prev = w.task_cpu = Cpu(d.prev_cpu[row]);
        machine_.advance(d.ts[row], w.prev);
        const TaskTable::Allowed& allowed = table_.allowed(p);
        const TaskInfo& curr = table_.info(w.curr);
        w.allowed = &allowed.mask;
        w.n_allowed = allowed.n;
        if (cls != DecisionClass::pinned && !allowed.mask.test(chosen)) {  // the snapshot's mask was not in force
            w.allowed = &table_.masks[0].mask;
            w.n_allowed = table_.masks[0].n;
        }
        w.sync = opt_.sync;
        w.in_task = null(d.irq_ctx_null) || d.irq_ctx[row] == static_cast<uint8_t>(IrqCtx::task);
        w.curr_is_idle = machine_.is_idle_task(w.curr);
        w.curr_kthread = curr.kthread || w.curr_is_idle;
        w.curr_one_cpu = table_.allowed(w.curr).n == 1;
        w.curr_exiting = machine_.task(w.curr).exiting;
        w.p_idle_policy = table_.info(p).idle_policy;
        w.p_load = weight_of_prio(d.prio[row]);
        w.p_blocked_load = w.p_load;
        w.curr_load = w.curr_is_idle ? 0 : weight_of_prio(machine_.task(w.curr).prio);
        w.hz = opt_.hz;
        w.jiffies = static_cast<uint64_t>(d.ts[row]) / (1'000'000'000 / opt_.hz);
        w.p_exec_start = before.ever_blocked ? before.blocked_at : 0;
        w.migration_cost = opt_.migration_cost;
        const uint32_t modelled = assumed(w);
        for (size_t k = 0; k < instances_.size(); ++k) {
            Instance& in = instances_[k];
            if (!in.policy->has(kind)) {
                in.out.undecided[row] = in.out.lo_null[row] = in.out.hi_null[row] = 1;
                continue;
            }
            const Decision dec = in.policy->decide(machine_.view(), w, divergence_.dirty(k), chosen);
            if (cls == DecisionClass::pinned) {  // result forced: bookkeeping only, no ledger row
                in.out.undecided[row] = in.out.lo_null[row] = in.out.hi_null[row] = 1;
                continue;
            }
            in.out.inputs_assumed[row] = dec.looked & modelled;
            write(in, k, row, d, w, dec, !d.low_confidence[row]);
        }
    }
    if (kind == Kind::wake && chosen_known)
        machine_.on_waking(p, d.prio[row], was_placed(cls, true, before.state), chosen);
}

void OpenLoop::write(Instance& in, size_t k, size_t row, const DecisionColumns& d, const Wakeup& w, const Decision& dec,
                     bool confident) {
    const View& v = machine_.view();
    const Cpu c = dec.cpu, recorded(d.chosen_cpu[row]);
    LedgerColumns& o = in.out;
    uint16_t outcome = confident ? 0 : kLowConfidence;
    const bool usable = v.avail.test(c) || v.sidle.test(c);
    if (usable) {
        outcome |= kTargetIdle;
    } else {
        const CpuMask& llc = topo_.llc_span[topo_.llc[c.v].v];
        uint64_t in_llc = 0, anywhere = 0;
        for (int i = 0; i < topo_.words; ++i) {
            const uint64_t x = (v.avail.w[i] | v.sidle.w[i]) & w.allowed->w[i];
            anywhere |= x;
            in_llc |= x & llc.w[i];
        }
        if (in_llc) outcome |= kIdleMissedLlc;
        if (anywhere) outcome |= kIdleMissedMachine;
    }
    if (c == w.waker && v.nr[c.v] >= 1) outcome |= kStacked;
    if (dec.exposed) outcome |= kExposed, ++in.exposed;
    if (divergence_.occupied(k, c)) outcome |= kSelfCollision, ++in.self_collisions;
    ++in.decided;
    o.cpu[row] = c.v;
    o.branch[row] = static_cast<uint8_t>(dec.branch);
    o.cpus_scanned[row] = dec.scanned;
    o.outcome[row] = outcome;
    o.undecided[row] = 0;
    const bool known = c == recorded;
    o.known[row] = known;
    uint8_t lo_null = 0, hi_null = 0;
    if (known) {
        lo_null = hi_null = d.latency_null && d.latency_null[row];
        o.lo[row] = o.hi[row] = d.latency[row];
    } else {
        divergence_.diverge(k, w.p, c, recorded);
        if (usable) {
            const auto& table = topo_.share_cache(w.waker, c) ? idle_latency_.same_llc : idle_latency_.cross_llc;
            if (!idle_latency_.have || table.empty()) {
                lo_null = hi_null = 1;
            } else {
                const auto state = machine_.idle_state(c);
                const auto& r = table[state ? std::min<size_t>(*state, table.size() - 1) : table.size() - 1];
                o.lo[row] = r.lo, o.hi[row] = r.hi;
            }
        } else {
            // Busy: it waits at least for the running segment, at most one slice longer (model; policies.md D1).
            const int nr = v.nr[c.v];
            lo_null = segment_[c.v] == kNoEnd;
            o.lo[row] = std::max<Ns>(segment_[c.v] - v.now, 0);
            hi_null = lo_null || nr > kMaxQueue || machine_.runs_non_fair(c);
            if (!hi_null) o.hi[row] = o.lo[row] + slice_[static_cast<size_t>(nr)];
        }
    }
    o.lo_null[row] = lo_null;
    o.hi_null[row] = hi_null;
}

}  // namespace rewake
