// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/model/decisions.hpp"

#include <cstdlib>

namespace rewake {

namespace {
size_t n_cpus(const Topology& t) { return static_cast<size_t>(t.n_cpus); }

/// A decision about the event's task that what runs on the event's CPU asks for.
template <typename Columns>
DecisionRow opened_by(const Columns& e, size_t i) {
    DecisionRow r;
    r.event_id = e.id[i];
    r.ts = e.ts[i];
    r.task = TaskId(e.task[i]);
    r.waker_task = TaskId(e.curr_task[i]);
    r.waker = Cpu(e.cpu[i]);
    r.irq_ctx = e.irq_ctx[i];
    r.prio = e.prio[i];
    return r;
}
}  // namespace

DecisionBuilder::DecisionBuilder(const Topology& topo, const TaskTable& tasks, KernelTraits kernel, Running running)
    : topo_(topo),
      table_(tasks),
      kernel_(kernel),
      machine_(topo, tasks),
      scan_order_(n_cpus(topo), tasks.tasks.size()),
      order_(n_cpus(topo), tasks.tasks.size()),
      running_(std::move(running)) {
    last_idle_.assign(static_cast<size_t>(topo.n_cpus), -1);
}

DecisionBuilder::Open& DecisionBuilder::open(TaskId t) {
    if (t.v >= opens_.size()) opens_.resize(t.v + 1 + t.v / 2);
    return opens_[t.v];
}

void DecisionBuilder::resolve(Open& o) {
    parts_[o.part - first_part_].unresolved -= 1;
    o.stage = Stage::none;
}

/// Closes a decision whose sched_wakeup was not recorded: sched_migrate_task tells where it was put, else it stayed.
void DecisionBuilder::close_unseen(Open& o, Ns latency) {
    DecisionRow& r = row(o);
    Extra& x = extra(o);
    x.closed = true;
    x.wakeup_cpu = *r.prev;  // unknown: what it would rule out stays possible
    if (!x.moved) r.chosen = r.prev;
    r.latency_ns = latency;
    resolve(o);
}

void DecisionBuilder::open_row(Open& o, DecisionRow r, Stage stage) {
    if (alive(o) && o.stage == Stage::await_wakeup) resolve(o);  // never closed: stays unclosed
    o.part = first_part_ + parts_.size() - 1;
    o.row = parts_.back().rows.size();
    o.stage = stage;
    o.ran_early = false;
    parts_.back().rows.push_back(std::move(r));
    extras_.back().emplace_back();
    parts_.back().unresolved += 1;
}

void DecisionBuilder::scan_waking(const WakingColumns& w, size_t i) {
    Open& o = open(TaskId(w.task[i]));
    DecisionRow r = opened_by(w, i);
    r.prev = Cpu(w.target_cpu[i]);
    // Woken again while it waits: a bypass, closed as it is.
    if (alive(o) && (o.stage == Stage::await_run || !table_.wakeups)) {
        r.chosen = r.prev;
        parts_.back().rows.push_back(r);
        extras_.back().emplace_back().closed = true;
        return;
    }
    open_row(o, r, Stage::await_wakeup);
    Extra& x = extras_.back().back();
    x.was_running = o.running;
    x.blocked_near = o.blocked && !o.running && w.ts[i] - o.last_block <= kOnCpu;
}

void DecisionBuilder::scan_migrate(const MigrateColumns& m, size_t i) {
    Open& o = open(TaskId(m.task[i]));
    Cause& cause = parts_.back().causes[i];
    // Without sched_wakeup later moves look alike but for who makes them.
    const auto placing = [&](const DecisionRow& r) {
        return table_.wakeups ||
               (!extra(o).moved && r.waker_task == TaskId(m.curr_task[i]) && r.irq_ctx == m.irq_ctx[i]);
    };
    const bool awaited = alive(o) && o.stage == Stage::await_wakeup;
    if (awaited && row(o).waker == Cpu(m.cpu[i]) && placing(row(o))) {
        DecisionRow& r = row(o);
        if (extra(o).pulled == Cpu(m.orig_cpu[i])) r.prev = Cpu(m.orig_cpu[i]);
        if (r.prev != Cpu(m.orig_cpu[i])) ++counts_.prev_mismatch;
        r.chosen = Cpu(m.dest_cpu[i]);
        extra(o).moved = true;
        cause = Cause::wake;
    } else if (table_.info(TaskId(m.curr_task[i])).stopper) {
        cause = Cause::active;  // exec when its sched_process_exec follows
        o.has_move = true;
        o.move_from = Cpu(m.orig_cpu[i]);
        o.move_to = Cpu(m.dest_cpu[i]);
        o.move_part = first_part_ + parts_.size() - 1;
        o.move_row = i;
    } else if (!kernel_.has_waking && !o.running && o.blocked && o.stage == Stage::none) {
        DecisionRow r = opened_by(m, i);  // before 4.3 the migration is the first sign of the wakeup (C5)
        r.prev = Cpu(m.orig_cpu[i]);
        r.chosen = Cpu(m.dest_cpu[i]);
        open_row(o, r, Stage::await_wakeup);
        extras_.back().back().moved = true;
        cause = Cause::wake;
    } else if (m.irq_ctx[i] == static_cast<uint8_t>(IrqCtx::softirq)) {
        if (awaited) extra(o).pulled = Cpu(m.dest_cpu[i]);
        cause = Cause::periodic;
    } else if (m.irq_ctx[i] == static_cast<uint8_t>(IrqCtx::task) && m.dest_cpu[i] == m.cpu[i]) {
        if (awaited) extra(o).pulled = Cpu(m.dest_cpu[i]);
        cause = Cause::newidle;
    }
}

/// Without sched_waking and without a migration: its sched_wakeup is the first sign of a wakeup.
void DecisionBuilder::open_by_wakeup(Open& o, const WakeupColumns& w, size_t i) {
    DecisionRow r = opened_by(w, i);
    r.prev = r.chosen = Cpu(w.target_cpu[i]);
    if (!kernel_.has_migrate && o.blocked) r.prev = o.left;
    // On the target it may be the wake list at work, in an interrupt or as the CPU leaves idle: the waker is not to be
    // seen (C5).
    const bool leaves_idle =
        w.irq_ctx[i] == static_cast<uint8_t>(IrqCtx::task) && machine_.is_idle_task(TaskId(w.curr_task[i]));
    const bool listed = w.irq_ctx[i] == static_cast<uint8_t>(IrqCtx::hardirq) || leaves_idle;
    if (w.cpu[i] == w.target_cpu[i] && (!kernel_.has_context || listed)) {
        r.waker_task.reset();
        r.waker.reset();
        r.irq_ctx.reset();
    }
    open_row(o, r, Stage::await_wakeup);
    extras_.back().back().was_running = o.running;
}

void DecisionBuilder::scan_wakeup(const WakeupColumns& w, size_t i) {
    Open& o = open(TaskId(w.task[i]));
    if (w.is_new[i]) {
        DecisionRow r = opened_by(w, i);
        r.kind = Kind::fork;
        r.prev = r.waker;
        r.chosen = Cpu(w.target_cpu[i]);
        r.wakeup_ns = 0;
        open_row(o, r, Stage::await_run);
        extras_.back().back().closed = true;
        return;
    }
    if (!kernel_.has_waking && (!alive(o) || o.stage == Stage::none)) open_by_wakeup(o, w, i);
    if (!alive(o) || o.stage != Stage::await_wakeup) return;
    DecisionRow& r = row(o);
    Extra& x = extra(o);
    x.closed = true;
    x.wakeup_cpu = Cpu(w.cpu[i]);
    if (!x.moved && x.pulled == Cpu(w.target_cpu[i])) r.prev = x.pulled;
    if (!x.moved) r.chosen = kernel_.has_migrate ? r.prev : Cpu(w.target_cpu[i]);
    if (!kernel_.has_migrate) x.moved = r.chosen != r.prev;
    if (r.chosen != Cpu(w.target_cpu[i])) ++counts_.conflicts;
    r.wakeup_ns = w.ts[i] - r.ts;
    if (o.ran_early) {
        resolve(o);
    } else if (o.running) {  // woken before it blocked
        r.latency_ns = 0;
        resolve(o);
    } else {
        o.stage = Stage::await_run;
    }
}

void DecisionBuilder::scan_switch(const SwitchColumns& s, size_t i) {
    if (!machine_.is_idle_task(TaskId(s.prev_task[i]))) {
        Open& o = open(TaskId(s.prev_task[i]));
        o.running = false;
        o.blocked = !still_runnable(s.prev_state[i]);
        const bool open_on_cpu = alive(o) && o.stage == Stage::await_wakeup;
        const bool near = open_on_cpu && o.blocked && s.ts[i] - row(o).ts <= kOnCpu;
        if (o.blocked) {
            o.last_block = s.ts[i];
            o.left = Cpu(s.cpu[i]);
            o.has_move = false;
            if (near) extra(o).blocked_near = true;
        }
        // Without sched_wakeup: it ran on, so it was woken before it blocked.
        if (!table_.wakeups && open_on_cpu && !near) close_unseen(o, 0);
    }
    if (!machine_.is_idle_task(TaskId(s.next_task[i]))) {
        Open& o = open(TaskId(s.next_task[i]));
        o.running = true;
        o.blocked = false;
        if (alive(o) && !table_.wakeups && o.stage == Stage::await_wakeup) {
            row(o).ran = Cpu(s.cpu[i]);
            close_unseen(o, s.ts[i] - row(o).ts);
        } else if (alive(o) && !o.ran_early) {
            DecisionRow& r = row(o);
            r.ran = Cpu(s.cpu[i]);
            r.latency_ns = s.ts[i] - r.ts - (kernel_.has_waking ? 0 : r.wakeup_ns.value_or(0));
            if (o.stage == Stage::await_run)
                resolve(o);
            else
                o.ran_early = true;
        }
    }
}

void DecisionBuilder::scan_probe(const ProbeEventColumns& p, size_t i) {
    if (p.phase[i] != 0 || (p.task_null && p.task_null[i])) return;
    if (!probed_from_) probed_from_ = p.ts[i];
    const Open& o = open(TaskId(p.task[i]));
    if (alive(o) && o.stage == Stage::await_wakeup && row(o).waker == Cpu(p.cpu[i])) extra(o).called = true;
}

void DecisionBuilder::scan_exec(const TaskColumns& e, size_t i) {
    const TaskId p(e.task[i]);
    Open& o = open(p);
    DecisionRow r;
    r.kind = Kind::exec;
    r.event_id = e.id[i];
    r.ts = e.ts[i];
    r.task = r.waker_task.emplace(p);
    r.chosen = r.ran = Cpu(e.cpu[i]);
    r.waker = r.prev = o.has_move && o.move_to == r.chosen ? o.move_from : *r.chosen;
    r.prio = machine_.prio_hint(p);
    Extra x;
    x.closed = true;
    if (o.has_move && o.move_to == r.chosen) {
        x.moved = true;
        if (o.move_part >= first_part_ && !parts_[o.move_part - first_part_].ran)
            parts_[o.move_part - first_part_].causes[o.move_row] = Cause::exec;
    }
    o.has_move = false;
    parts_.back().rows.push_back(r);
    extras_.back().push_back(x);
}

void DecisionBuilder::scan(const Batch& b) {
    parts_.emplace_back();
    extras_.emplace_back();
    parts_.back().causes.assign(b.migrate.n, Cause::unknown);
    scan_order_.build(b);
    scan_order_.walk([&](Event e, size_t i) {
        switch (e) {
            case Event::waking: scan_waking(b.waking, i); break;
            case Event::migrate: scan_migrate(b.migrate, i); break;
            case Event::wakeup: scan_wakeup(b.wakeup, i); break;
            case Event::sw: scan_switch(b.sw, i); break;
            case Event::probe: scan_probe(b.probe, i); break;
            case Event::exec: scan_exec(b.exec, i); break;
            case Event::exit: {
                Open& o = open(TaskId(b.exit.task[i]));
                if (alive(o) && o.stage == Stage::await_wakeup && !o.running) resolve(o);
                break;
            }
            case Event::loss:  // what waits for an event of this CPU may have lost it
                for (Open& o : opens_) {
                    if (!alive(o) || !awaits(o, Cpu(b.loss.cpu[i]))) continue;
                    row(o).censored = true;
                    resolve(o);
                }
                break;
            default: break;
        }
    });
}

/// Where probes saw the placement function, they say which wakeups reached it.
DecisionClass DecisionBuilder::classify(const DecisionRow& r, const Extra& x) {
    using enum DecisionClass;
    const DecisionClass found = from_events(r, x);
    if (r.kind != Kind::wake || !probed_from_ || r.ts < *probed_from_ || !x.closed) return found;
    switch (found) {
        case stayed:
        case bypass_on_rq:
        case maybe_on_cpu:
        case maybe_delayed: break;
        default: return found;
    }
    if (x.called) return r.chosen == r.prev ? stayed : moved;
    // Not woken where it still was queued, but put on the wake list of the CPU that it is leaving.
    const bool listed = found == maybe_on_cpu && x.wakeup_cpu == *r.prev && r.waker != r.prev;
    return listed ? maybe_on_cpu : bypass_on_rq;
}

DecisionClass DecisionBuilder::from_events(const DecisionRow& r, const Extra& x) {
    using enum DecisionClass;
    const TaskInfo& info = table_.info(r.task);
    if (info.observer) return observer;
    if (prio_is_dl(r.prio)) return dl;
    if (prio_is_rt(r.prio)) return rt;
    if (info.ext) return ext;
    const bool one_cpu = r.chosen && info.allowed_recorded && table_.allowed(r.task).n == 1 &&
                         table_.allowed(r.task).mask.test(*r.chosen);
    if (r.kind != Kind::wake) {
        if (one_cpu) return pinned;
        return r.chosen == r.prev ? stayed : moved;
    }
    if (r.waker_task == r.task) return self;
    const Machine::Task& t = machine_.task(r.task);
    const bool on_cpu = t.state == Machine::State::running && x.blocked_near;
    if (!on_cpu &&
        (t.state == Machine::State::running || t.state == Machine::State::queued || t.state == Machine::State::waking))
        return bypass_on_rq;
    if (!x.closed) return unclosed;
    if (!r.waker) return waker_lost;
    if (one_cpu) return pinned;  // also where it has to leave a CPU: it was bound while it slept
    if (x.moved && r.chosen != r.prev) return moved;
    // Woken on its queue while its dequeue was delayed (6.12+). A CPU goes idle only when nothing is on its queue. Who has
    // not blocked yet did so before the recording.
    const bool may_be_delayed = kernel_.may_be(6, 12) && (on_cpu || last_idle_[r.prev->v] < t.blocked_at);
    // The wake-list bypass of a task that is still on its CPU fires sched_wakeup there (A1.5).
    const bool had_left = r.waker == r.prev || x.wakeup_cpu != *r.prev;
    if (kernel_.may_be(5, 8) && x.blocked_near && (may_be_delayed || !had_left)) return maybe_on_cpu;
    if (may_be_delayed && (x.wakeup_cpu == *r.waker || !table_.wakeups)) return maybe_delayed;
    return stayed;
}

void DecisionBuilder::decide(DecisionRow& r, const Extra& x) {
    if (!r.chosen && !x.closed && r.prev) {
        r.cls = DecisionClass::unclosed;
        return;
    }
    machine_.advance(r.ts, *r.prev, r.waker.value_or(*r.prev), r.task);
    if (r.kind == Kind::wake) machine_.slept_unseen(r.task, r.ts);
    r.cls = classify(r, x);
    const Machine::State before = machine_.task(r.task).state;
    r.low_confidence = machine_.low_confidence(*r.prev, r.ts) || machine_.low_confidence(*r.chosen, r.ts) ||
                       (r.waker && machine_.low_confidence(*r.waker, r.ts));
    if (r.kind == Kind::exec) return;
    r.chosen_idle = machine_.view().idle.test(*r.chosen);
    if (*r.chosen_idle) r.idle_state = machine_.idle_state(*r.chosen);
    if (r.kind == Kind::wake) machine_.on_waking(r.task, r.prio, was_placed(r.cls, true, before), *r.chosen, r.waker);
}

const std::vector<Cause>& DecisionBuilder::run(const Batch& b) {
    order_.build(b);
    if (!primed_) {
        machine_.prime(b, order_, running_);
        for (uint16_t c = 0; c < last_idle_.size(); ++c)
            if (const auto task = machine_.curr(Cpu(c)); task && machine_.is_idle_task(*task)) last_idle_[c] = 0;
    }
    primed_ = true;
    Part& part = parts_[run_part_ - first_part_];
    std::vector<Extra>& extras = extras_[run_part_ - first_part_];
    size_t next = 0;
    auto opening = [&](int64_t id) {  // several rows never share an event
        if (next < part.rows.size() && part.rows[next].event_id == id) {
            decide(part.rows[next], extras[next]);
            ++next;
        }
    };
    order_.walk([&](Event e, size_t i) {
        switch (e) {
            case Event::waking: opening(b.waking.id[i]); break;
            case Event::wakeup: opening(b.wakeup.id[i]); break;
            case Event::migrate: opening(b.migrate.id[i]); break;
            case Event::exec: opening(b.exec.id[i]); break;
            case Event::sw:
                if (machine_.is_idle_task(TaskId(b.sw.next_task[i]))) last_idle_[b.sw.cpu[i]] = b.sw.ts[i];
                break;
            default: break;
        }
        machine_.apply(b, e, i);
    });
    part.ran = true;
    causes_ = std::move(part.causes);
    ++run_part_;
    return causes_;
}

void DecisionBuilder::finish() {
    for (Open& o : opens_) {
        if (!alive(o)) continue;
        if (o.stage == Stage::await_run) row(o).censored = true;
        resolve(o);
    }
}

std::optional<std::vector<DecisionRow>> DecisionBuilder::take() {
    if (parts_.empty() || !parts_.front().ran) return std::nullopt;
    if (parts_.front().unresolved > 0) {
        if (parts_.size() <= kMaxParts) return std::nullopt;
        for (Open& o : opens_) {  // its outcome lies too far ahead: bounded memory, counted
            if (!alive(o) || o.part != first_part_) continue;
            row(o).censored = true;
            ++counts_.late;
            resolve(o);
        }
    }
    std::vector<DecisionRow> rows = std::move(parts_.front().rows);
    parts_.pop_front();
    extras_.pop_front();
    ++first_part_;
    return rows;
}

}  // namespace rewake
