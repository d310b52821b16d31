// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/open_loop.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace rewake {

void LedgerColumns::resize(size_t n) {
    cpu.resize(n), cpus_scanned.resize(n), outcome.resize(n), branch.resize(n), inputs_assumed.resize(n),
        known.resize(n);
    lo.resize(n), hi.resize(n), undecided.resize(n), lo_null.resize(n), hi_null.resize(n);
}

OpenLoop::OpenLoop(const Topology& topo, const TaskTable& tasks, std::vector<std::unique_ptr<Policy>> policies,
                   ReplayOptions options, IdleLatency idle_latency, Running running)
    : machine_(topo, tasks),
      topo_(topo),
      table_(tasks),
      opt_(options),
      idle_latency_(std::move(idle_latency)),
      irq_(topo, options.hz),
      divergence_(policies.size(), topo.n_cpus),
      order_(static_cast<size_t>(topo.n_cpus), tasks.tasks.size()),
      segment_(static_cast<size_t>(topo.n_cpus), kNoEnd),
      verdicts_(static_cast<size_t>(topo.n_cpus)),
      running_(std::move(running)) {
    for (auto& p : policies) {
        Instance& in = instances_.emplace_back();
        in.policy = std::move(p);
        in.block = std::make_unique<LedgerBlock>();
        in.load = in.policy->load_kind();
        if (const IrqSettings* settings = in.policy->irq_settings()) in.irq = &irq_.estimate(*settings);
        if (in.policy->keeps_idle_cores()) idle_cores_.push_back(in.policy.get());
    }
    machine_.set_tick(1'000'000'000 / opt_.hz, opt_.tick_at);
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
        for (int c = 0; c < topo_.n_cpus;
             ++c) {  // has_idle_cores starts true where an idle core exists (policies.md C1)
            const Cpu cpu(static_cast<uint16_t>(c));
            if (!machine_.view().avail.test(cpu) || !machine_.core_idle_but(cpu)) continue;
            for (Policy* p : idle_cores_) p->cpu_idle(machine_.view(), cpu, true);
        }
        primed_ = true;
    }
    segments(b, next);
    for (Instance& in : instances_) in.out.resize(d.n);
    if (opt_.audit) inputs_.resize(d.n);
    size_t row = flushed_ = 0;
    auto opening = [&](int64_t id) {
        if (row >= d.n || d.event_id[row] != id) return;
        decide(d, row++);
        if (row - flushed_ == LedgerBlock::kRows) flush(row);
    };
    order_.walk([&](Event e, size_t i) {
        switch (e) {
            case Event::waking: opening(b.waking.id[i]); break;
            case Event::wakeup: opening(b.wakeup.id[i]); break;
            case Event::migrate: opening(b.migrate.id[i]); break;
            case Event::exec: opening(b.exec.id[i]); break;
            default: break;
        }
        machine_.apply(b, e, i);
        switch (e) {
            case Event::sw: {
                const Cpu c(b.sw.cpu[i]);
                const bool idle = machine_.is_idle_task(TaskId(b.sw.next_task[i]));
                segment_[c.v] = ends_[i];
                if (!irq_.empty()) irq_.idle(c, idle, b.sw.ts[i]);
                if (!still_runnable(b.sw.prev_state[i])) divergence_.forget(TaskId(b.sw.prev_task[i]));
                if (idle && !idle_cores_.empty() && machine_.core_idle_but(c))
                    for (Policy* p : idle_cores_) p->cpu_idle(machine_.view(), c, true);
                break;
            }
            case Event::fork:
                for (Instance& in : instances_)
                    in.policy->fork(TaskId(b.fork.task[i]), TaskId(b.fork.child[i]), Cpu(b.fork.cpu[i]));
                break;
            case Event::irq:
                if (!irq_.empty()) irq_.irq(Cpu(b.irq.cpu[i]), b.irq.entry[i], b.irq.ts[i]);
                break;
            default: break;
        }
    });
    if (row != d.n) throw std::invalid_argument("decision table does not match the events of its part");
    flush(row);
}

/// Moves the block that ends before row `end` into the columns.
void OpenLoop::flush(size_t end) {
    for (Instance& in : instances_) {
        const LedgerBlock& b = *in.block;
        auto append = [&](auto& to, const auto& from) {
            std::copy_n(from.data(), end - flushed_, to.data() + flushed_);
        };
        append(in.out.cpu, b.cpu);
        append(in.out.cpus_scanned, b.cpus_scanned);
        append(in.out.outcome, b.outcome);
        append(in.out.branch, b.branch);
        append(in.out.inputs_assumed, b.inputs_assumed);
        append(in.out.known, b.known);
        append(in.out.lo, b.lo);
        append(in.out.hi, b.hi);
        append(in.out.undecided, b.undecided);
        append(in.out.lo_null, b.lo_null);
        append(in.out.hi_null, b.hi_null);
    }
    flushed_ = end;
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
    const size_t slot = row - flushed_;
    const bool decidable = fair && !null(d.waker_cpu_null) && !null(d.prev_cpu_null) && !null(d.chosen_cpu_null) &&
                           !null(d.waker_task_null);
    const bool chosen_known = !null(d.chosen_cpu_null);
    const Cpu chosen(d.chosen_cpu[row]);
    const Machine::Task before = machine_.task(p);
    divergence_.forget(p);
    if (opt_.audit) audit(row, before, d.ts[row], null(d.prev_cpu_null) ? Cpu(0) : Cpu(d.prev_cpu[row]));
    if (!decidable) {
        for (Instance& in : instances_) in.block->clear(slot);
    } else {
        Wakeup w;
        w.kind = kind;
        w.p = p;
        w.curr = TaskId(d.waker_task[row]);
        w.waker = Cpu(d.waker_cpu[row]);
        w.prev = w.task_cpu = Cpu(d.prev_cpu[row]);
        machine_.advance(d.ts[row], w.prev, w.waker);
        if (!irq_.empty()) irq_.advance(d.ts[row]);
        const TaskTable::Allowed& allowed = table_.allowed(p);
        const TaskInfo& curr = table_.info(w.curr);
        w.allowed = &allowed.mask;
        w.n_allowed = allowed.n;
        if (cls != DecisionClass::pinned && !allowed.mask.test(chosen)) {  // the snapshot's mask was not in force
            w.allowed = &table_.masks[0].mask;
            w.n_allowed = table_.masks[0].n;
        }
        w.sync = d.sync ? d.sync[row] : opt_.sync;
        w.in_task = null(d.irq_ctx_null) || d.irq_ctx[row] == static_cast<uint8_t>(IrqCtx::task);
        w.curr_is_idle = machine_.is_idle_task(w.curr);
        w.curr_kthread = curr.kthread || w.curr_is_idle;
        w.curr_one_cpu = table_.allowed(w.curr).n == 1;
        w.curr_exiting = machine_.task(w.curr).exiting;
        w.hint = d.hint ? d.hint[row] : 0;
        w.p_idle_policy = table_.info(p).idle_policy;
        w.hz = opt_.hz;
        w.jiffies = static_cast<uint64_t>(d.ts[row]) / (1'000'000'000 / opt_.hz);
        w.p_exec_start = before.ever_blocked ? before.blocked_at : 0;
        w.migration_cost = opt_.migration_cost;
        const bool slow = kind != Kind::wake || topo_.balance_wake;
        if (slow || topo_.asym) {
            const Machine::TaskUtil u = machine_.task_util(before, w.prev);
            w.p_util = u.util, w.p_util_est = u.util_est, w.p_runnable = u.runnable;
        }
        if (slow) machine_.look_at_all();
        const uint32_t modelled = assumed(w);
        ++decision_;
        if (cls != DecisionClass::pinned && kind == Kind::wake && !null(d.latency_null))
            recorded_.count(Histogram::bucket(d.latency[row]));
        std::optional<LoadKind> kind_now;
        for (size_t k = 0; k < instances_.size(); ++k) {
            Instance& in = instances_[k];
            if (in.load != kind_now) {
                kind_now = in.load;
                machine_.select_load(in.load);
                w.p_load = machine_.task_load(before, w.prev, in.load);
                w.curr_load = w.curr_is_idle ? 0 : machine_.task_load(machine_.task(w.curr), w.waker, in.load);
            }
            if (in.irq) machine_.set_irq_load(in.irq);
            const Decision dec = in.policy->decide(machine_.view(), w, divergence_.dirty(k), chosen);
            if (cls == DecisionClass::pinned) {  // result forced: bookkeeping only, no ledger row
                in.block->clear(slot);
                continue;
            }
            in.block->inputs_assumed[slot] = dec.looked & modelled;
            judge(in, k, slot, verdict(dec.cpu, row, d, w), w, chosen, dec);
        }
    }
    if (kind == Kind::wake && chosen_known)
        machine_.on_waking(p, d.prio[row], was_placed(cls, true, before.state), chosen);
}

void OpenLoop::audit(size_t row, const Machine::Task& p, Ns now, Cpu prev) {
    machine_.advance(now, prev, prev);
    machine_.select_load(LoadKind::average);
    inputs_.util[row] = p.pelt.util_avg;
    inputs_.load[row] = p.pelt.load_avg;
    inputs_.rq_load[row] = machine_.view().load[prev.v];
    inputs_.nr_idle_scan[row] = machine_.view().nr_idle_scan[topo_.llc[prev.v].v];
    inputs_.rq_nr[row] = machine_.view().nr[prev.v];
}

const OpenLoop::Verdict& OpenLoop::verdict(Cpu c, size_t row, const DecisionColumns& d, const Wakeup& w) {
    Verdict& x = verdicts_[c.v];
    if (x.decision == decision_) return x;
    const View& v = machine_.view();
    x = {};
    x.decision = decision_;
    x.cpu = c;
    x.outcome = d.low_confidence[row] ? kLowConfidence : 0;
    const bool usable = v.avail.test(c) || v.sidle.test(c);
    if (usable) {
        x.outcome |= kTargetIdle;
    } else {
        const CpuMask& llc = topo_.llc_span[topo_.llc[c.v].v];
        uint64_t in_llc = 0, anywhere = 0;
        for (int i = 0; i < topo_.words; ++i) {
            const uint64_t idle = (v.avail.w[i] | v.sidle.w[i]) & w.allowed->w[i];
            anywhere |= idle;
            in_llc |= idle & llc.w[i];
        }
        if (in_llc) x.outcome |= kIdleMissedLlc;
        if (anywhere) x.outcome |= kIdleMissedMachine;
    }
    if (c == w.waker && v.nr[c.v] >= 1) x.outcome |= kStacked;
    x.known = c.v == d.chosen_cpu[row];
    if (x.known) {
        x.lo_null = x.hi_null = d.latency_null && d.latency_null[row];
        x.lo = x.hi = d.latency[row];
    } else if (usable) {
        const auto& table = topo_.share_cache(w.waker, c) ? idle_latency_.same_llc : idle_latency_.cross_llc;
        if (!table.empty()) {
            const auto state = machine_.idle_state(c);
            const auto& range = table[state ? std::min<size_t>(*state, table.size() - 1) : table.size() - 1];
            x.lo = range.lo, x.hi = range.hi;
            x.lo_null = x.hi_null = false;
        }
    } else {
        // Busy: it waits at least for the running segment, at most one slice longer (model; policies.md D1).
        const int nr = v.nr[c.v];
        x.lo_null = segment_[c.v] == kNoEnd;
        x.hi_null = x.lo_null || nr > kMaxQueue || machine_.runs_non_fair(c);
        x.lo = std::max<Ns>(segment_[c.v] - v.now, 0);
        if (!x.hi_null) x.hi = x.lo + slice_[static_cast<size_t>(nr)];
    }
    if (!x.lo_null) x.lo_bucket = Histogram::bucket(x.lo);
    if (!x.hi_null) x.hi_bucket = x.hi == x.lo ? x.lo_bucket : Histogram::bucket(x.hi);
    return x;
}

void OpenLoop::judge(Instance& in, size_t k, size_t slot, const Verdict& v, const Wakeup& w, Cpu recorded,
                     const Decision& dec) {
    LedgerBlock& b = *in.block;
    uint16_t outcome = v.outcome;
    const bool collides = divergence_.occupied(k, v.cpu);
    outcome |=
        static_cast<uint16_t>(dec.exposed * kExposed | collides * kSelfCollision);  // no branch: as good as random
    in.exposed += dec.exposed;
    in.self_collisions += collides;
    if (!v.known) divergence_.diverge(k, w.p, v.cpu, recorded);
    ++in.decided;
    b.cpu[slot] = v.cpu.v;
    b.branch[slot] = static_cast<uint8_t>(dec.branch);
    b.cpus_scanned[slot] = dec.scanned;
    b.outcome[slot] = outcome;
    b.known[slot] = v.known;
    b.lo[slot] = v.lo;
    b.hi[slot] = v.hi;
    b.undecided[slot] = false;
    b.lo_null[slot] = v.lo_null;
    b.hi_null[slot] = v.hi_null;
    if (w.kind != Kind::wake) return;
    if (!v.lo_null) in.lo.count(v.lo_bucket);
    if (!v.hi_null) in.hi.count(v.hi_bucket);
}

}  // namespace rewake
