// SPDX-License-Identifier: GPL-2.0-or-later
#include "replay/engine/open_loop.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace rewake {
namespace {

/// Machine::set_pulling(). Between two tasks of one balance pass about as much; recordings come out alike from 1 to 3 us.
constexpr Ns kPulling = 2'000;

}  // namespace

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
      block_(policies.size()),
      judged_(static_cast<size_t>(topo.n_cpus)),
      called_(static_cast<size_t>(topo.n_cpus), kNoRow),
      flips_seen_(tasks.tasks.size()),
      strayed_(tasks.tasks.size()),
      running_(std::move(running)) {
    if (opt_.panel && policies.size() != 1) throw std::invalid_argument("a panel asks one policy");
    if (opt_.panel) panel_.emplace(opt_.first_flips, opt_.hz, opt_.panel_scans, opt_.panel_clocks);
    for (auto& p : policies) {
        Instance& in = instances_.emplace_back();
        in.policy = std::move(p);
        in.memory = &in.policy->memory();
        in.own = !opt_.own.empty() && opt_.own.at(instances_.size() - 1);
        const bool learns = in.own && opt_.calls_seen && !opt_.blind;  // from probed flips when they are halved
        if (!opt_.panel && (learns || opt_.first_flips.size() > 1 || opt_.first_flips.at(0).says()))
            in.flips.emplace(opt_.first_flips, opt_.hz);
        in.load = in.policy->load_kind();
        if (const IrqSettings* settings = in.policy->irq_settings()) in.irq = &irq_.estimate(*settings);
        if (in.policy->keeps_idle_cores()) idle_cores_.push_back({in.policy.get(), in.policy->sees_every_idle()});
    }
    // All of the same kind in a row: loads are looked up once for them.
    for (size_t k = 0; k < instances_.size() && !opt_.panel; ++k) asking_.push_back(k);
    std::stable_sort(asking_.begin(), asking_.end(),
                     [this](size_t a, size_t b) { return instances_[a].load < instances_[b].load; });
    machine_.set_listing(opt_.listing);
    machine_.set_clearing(opt_.clearing);
    machine_.set_pulling(kPulling);
    if (!opt_.looks.empty()) machine_.keep_turns();
    began_.resize(static_cast<size_t>(topo.n_cpus));
    sent_.resize(static_cast<size_t>(topo.n_cpus), std::numeric_limits<Ns>::min() / 2);
    if (opt_.fair) delays_.emplace(tasks, *opt_.fair, machine_);
    machine_.set_exit_latency(opt_.exit_latency);
    if (!opt_.scan_clocks.empty()) machine_.set_scan_clocks(opt_.scan_clocks);
    opt_.energy_aware = opt_.energy_aware && topo.asym && !topo.smt_active;
    machine_.set_tick(1'000'000'000 / opt_.hz, opt_.tick_at);
    machine_.set_clock_offset(opt_.clock_offset);
    // A CPU that a wakeup is only on its way to has one task ahead, as one that runs one.
    for (size_t nr = 0; nr < slice_.size(); ++nr)
        slice_[nr] = std::max(opt_.slice_least, opt_.slice_shared / static_cast<Ns>(std::max<size_t>(nr, 1) + 1));
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
    if (!opt_.lead.empty()) order_.bring_forward(b, opt_.lead);
    if (!primed_) {
        machine_.prime(b, order_, running_);
        if (b.sw.n) start_ = b.sw.ts[0];
        if (b.waking.n) {
            const std::vector<float> rates = flip_rates(b.waking);
            const uint64_t at = jiffies(b.waking.ts[0]);
            for (Instance& in : instances_)
                if (in.flips) in.flips->begin(at, rates);
            if (panel_) panel_->flips.begin(at, rates), panel_->course.begin(at, rates);
            certain_.begin(at, opt_.hz);
        }
        for (int c = 0; c < topo_.n_cpus;
             ++c) {  // has_idle_cores starts true where an idle core exists (policies.md C1)
            const Cpu cpu(static_cast<uint16_t>(c));
            if (!machine_.view().avail.test(cpu) || !machine_.core_idle_but(cpu)) continue;
            for (const IdleWatcher& x : idle_cores_) x.policy->cpu_idle(machine_.view(), cpu, true);
        }
        primed_ = true;
    }
    segments(b, next);
    if (!opt_.panel)
        for (Instance& in : instances_) in.out.resize(d.n);
    if (opt_.log_inputs) log_.reset(d.n);
    if (opt_.panel) answers_.reset(d.n);
    if (budget_) blames_.assign(d.n, Blame{});
    size_t row = flushed_ = 0;
    auto opening = [&](int64_t id, Ns ts) {
        if (row >= d.n || d.event_id[row] != id) return;
        if (!d.waker_cpu_null || !d.waker_cpu_null[row]) began_[d.waker_cpu[row]] = ts;
        if (!is_ahead(row)) decide(d, row, ts);
        if (++row - flushed_ == LedgerBlock::kRows) flush(row);
    };
    std::vector<std::pair<Ns, size_t>> early = decided_early(d);  // the next one last
    auto returned = [&](Cpu c, Ns ts) {
        const size_t late = std::exchange(called_[c.v], kNoRow);
        if (late == kNoRow) return;
        calling_.erase(std::find(calling_.begin(), calling_.end(), c));
        decide(d, late, ts);
    };
    // What placement reads changes until it ends. Where probes saw the function return, the decision is taken there, else
    // when it ends as a rule (ReplayOptions::settle), or with the next event of the waker's CPU, before which it ended.
    const auto due = [&](Ns ts, size_t late) {
        const std::pair entry(ts, late);
        due_.insert(std::upper_bound(due_.begin(), due_.end(), entry), entry);
    };
    // A task that still runs is placed once it is off its CPU: try_to_wake_up() waits for p->on_cpu.
    std::vector<size_t> held;  // wakeups that wait for that
    auto waking = [&](size_t i) {
        const Cpu c(b.waking.cpu[i]);
        if (row >= d.n || d.event_id[row] != b.waking.id[i]) return;
        const bool probed = !opt_.blind && d.probes.id.at(row);
        const bool runs = machine_.task(TaskId(d.task[row])).state == Machine::State::running;
        const bool at_once = (settles(c) == 0 && !runs) || listed_at_once(static_cast<DecisionClass>(d.cls[row]));
        if (!probed && at_once) return opening(b.waking.id[i], b.waking.ts[i]);
        if (!probed && runs)
            held.push_back(row);
        else if (!probed)
            due(b.waking.ts[i] + settles(c), row);
        began_[c.v] = b.waking.ts[i];
        calling_.insert(std::upper_bound(calling_.begin(), calling_.end(), c), c);
        called_[c.v] = row++;
        if (row - flushed_ == LedgerBlock::kRows) flush(row);
    };
    auto woken = [&](uint32_t task, Ns ts) {  // its placement ended, whatever the clocks of two CPUs say
        for (size_t i = 0; i < calling_.size();)
            if (const Cpu c = calling_[i]; d.task[called_[c.v]] == task)
                returned(c, ts);
            else
                ++i;
    };
    auto settle = [&](Ns now) {
        for (; !due_.empty() && due_.front().first <= now; due_.pop_front()) {
            const auto [ts, late] = due_.front();
            const Cpu c(d.waker_cpu[late]);
            if (called_[c.v] == late) returned(c, ts);
        }
    };
    auto left = [&](uint32_t task, Ns ts) {
        std::erase_if(held, [&](size_t late) {
            const Cpu c(d.waker_cpu[late]);
            const bool waits = called_[c.v] == late;
            if (waits && d.task[late] == task) due(ts + settles(c), late), began_[c.v] = ts;
            return !waits || d.task[late] == task;
        });
    };
    // Before an event of the model.
    auto before = [&](Event e, const HeadColumns& head, size_t i) {
        if (calling_.empty() && opt_.looks.empty() && early.empty() && shape_ == shapes_.size()) return;
        const Ns ts = head.ts[i] - EventOrder::lead_of(b, e, i, opt_.lead);
        for (; !early.empty() && early.back().first <= ts; early.pop_back()) {
            const auto [at, coming] = early.back();
            if (coming < row) continue;  // its event came first
            settle(at);
            ahead_.insert(std::upper_bound(ahead_.begin(), ahead_.end(), coming), coming);
            decide(d, coming, std::max(at, machine_.now()));  // that may be in an earlier part
        }
        if (!calling_.empty()) settle(ts), returned(Cpu(head.cpu[i]), ts);
        if (!opt_.looks.empty()) machine_.seen_at(ts);
        take_shapes(ts);
    };
    order_.walk([&](Event e, size_t i) {
        switch (e) {
            case Event::sw: before(e, b.sw, i); break;
            case Event::waking:
                before(e, b.waking, i);
                waking(i);
                break;
            case Event::wakeup:
                before(e, b.wakeup, i);
                if (!calling_.empty()) woken(b.wakeup.task[i], b.wakeup.ts[i]);
                opening(b.wakeup.id[i], b.wakeup.ts[i]);
                break;
            case Event::migrate:
                before(e, b.migrate, i);
                opening(b.migrate.id[i], b.migrate.ts[i]);
                break;
            case Event::exec: opening(b.exec.id[i], b.exec.ts[i]); break;
            case Event::wake_list: before(e, b.wake_list, i); break;
            case Event::balance: take_shapes(b.balance.ts[i]); break;  // by the domains of then
            case Event::probe:
                if (opt_.blind) break;
                if (b.probe.phase[i] != 0)
                    before(e, b.probe, i);
                else
                    began_[b.probe.cpu[i]] = b.probe.ts[i];
                break;
            default: break;
        }
        if (delays_)
            delays_->apply(b, e, i), delays_->limits(machine_.now(), [](uint16_t, Ns) {});
        else
            machine_.apply(b, e, i);
        if (opt_.log_flips) note_flips(machine_.now(), -1);
        switch (e) {
            case Event::sw: {
                const Cpu c(b.sw.cpu[i]);
                const bool idle = machine_.is_idle_task(TaskId(b.sw.next_task[i]));
                segment_[c.v] = ends_[i];
                if (!guesses_.empty())
                    started(TaskId(b.sw.next_task[i]), c, machine_.is_idle_task(TaskId(b.sw.prev_task[i])));
                if (const TaskId in(b.sw.next_task[i]); !idle && !table_.allowed(in).mask.test(c))
                    strayed_[in.v] = true;
                if (!irq_.empty()) irq_.idle(c, idle, b.sw.ts[i]);
                if (!still_runnable(b.sw.prev_state[i])) {
                    divergence_.forget(TaskId(b.sw.prev_task[i]));
                    if (!held.empty()) left(b.sw.prev_task[i], b.sw.ts[i]);
                }
                if (idle && !idle_cores_.empty()) {
                    const bool whole = machine_.core_idle_but(c);
                    for (const IdleWatcher& x : idle_cores_)
                        if (whole || x.every) x.policy->cpu_idle(machine_.view(), c, whole);
                }
                break;
            }
            case Event::fork:
                for (Instance& in : instances_) {
                    const TaskId parent(b.fork.task[i]), child(b.fork.child[i]);
                    in.policy->fork(parent, child, Cpu(b.fork.cpu[i]));
                    if (in.flips) in.flips->fork(parent, child);
                    if (panel_) panel_->flips.fork(parent, child), panel_->course.fork(parent, child);
                    if (in.own && opt_.log_inputs) certain_.fork(parent, child);
                }
                break;
            case Event::irq:
                if (!irq_.empty()) irq_.irq(Cpu(b.irq.cpu[i]), b.irq.entry[i], b.irq.ts[i]);
                break;
            default: break;
        }
    });
    if (row != d.n) throw std::invalid_argument("decision table does not match the events of its part");
    settle(std::numeric_limits<Ns>::max());
    for (uint16_t c = 0; c < called_.size(); ++c) returned(Cpu(c), machine_.view().now);  // the part ends in a call
    flush(row);
    first_row_ += static_cast<int64_t>(d.n);
}

void OpenLoop::note_flips(Ns ts, int64_t decision) {
    const CpuMask& now = machine_.view().avail;
    for (int i = 0; i < topo_.words; ++i)
        for (uint64_t changed = now.w[i] ^ was_avail_.w[i]; changed; changed &= changed - 1)
            flips_.push_back({ts, Cpu(static_cast<uint16_t>(i * 64 + std::countr_zero(changed))), decision});
    was_avail_ = now;
}

void OpenLoop::watch(std::vector<int64_t> event_ids) {
    watched_ = std::move(event_ids);
    std::sort(watched_.begin(), watched_.end());
}

bool OpenLoop::watches(int64_t event_id) const {
    return std::binary_search(watched_.begin(), watched_.end(), event_id);
}

/// Policy `k`'s part of the latest explanation, up to its decision; from now on it tells its reasons.
void OpenLoop::listen(size_t k, const Wakeup& w) {
    explanations_.back().policies[k] = begin_instance(*instances_[k].policy, machine_.view(), w, reasons_);
}

/// And after it; `counts`: else the result was forced.
void OpenLoop::heard(size_t k, const Decision& dec, bool counts, uint32_t modelled) {
    instances_[k].policy->reasons = nullptr;
    Explanation::Instance& told = explanations_.back().policies[k];
    told.steps = reasons_.take();
    told.assumed = dec.looked & modelled;
    if (counts) told.decision = dec;
}

uint32_t OpenLoop::assumed(const Wakeup& w) const {
    uint32_t bits = opt_.inferred;
    if (machine_.view().now - start_ < opt_.warm_up) bits |= kFlips | kRecent;
    const TaskInfo& info = table_.info(w.p);
    if (!info.allowed_recorded) bits |= kAllowed;
    if (!info.policy_recorded) bits |= kIdlePolicy;
    return bits;
}

uint32_t OpenLoop::recorded_inputs(const Probed& seen, const Wakeup& w, Cpu picked, bool own) const {
    const bool same_llc = topo_.share_cache(picked, w.prev);  // the search stayed in the LLC that the probe looked at
    uint32_t bits = 0;
    if (seen.wake_flags) bits |= kSync;
    if (seen.util) bits |= kUtil;
    if (seen.nr_idle_scan && same_llc) bits |= kNrIdleScan;
    if (!own) return bits;
    if (seen.recent) bits |= kRecent;
    if (seen.flips && flips_seen_[w.curr.v]) bits |= kFlips;
    if (seen.has_idle_cores && same_llc) bits |= kHasIdleCores;
    return bits;
}

/// A CPU that is still idle until somebody starts there was found idle, so placement ended before it searched or set
/// recent_used_cpu; one where the wakee had to wait for others was not.
void OpenLoop::started(TaskId p, Cpu c, bool from_idle) {
    std::erase_if(guesses_, [&](ExitGuess& g) {
        g.was_idle = g.was_idle || (from_idle && g.chosen == c);
        if (g.p != p) return false;
        for (Instance& in : instances_) {
            if (!in.own) continue;
            PolicyState::Task& own = in.policy->memory().task(p);
            own.recent = g.was_idle ? g.before.recent : g.prev;
            own.has_recent = !g.was_idle || g.before.has_recent;
            if (g.was_idle && g.cleared) in.policy->memory().hic[topo_.llc[g.chosen.v].v] = 1;
        }
        return true;
    });
}

void OpenLoop::take(const Shape& s, bool rebuilt) {
    CpuMask out = s.gone;
    for (int i = 0; i < topo_.words; ++i) out.w[i] |= s.inactive.w[i];
    *live_ = base_.without(s.gone);
    if (s.rebuilds) *live_ = live_->without_domains();
    for (int i = 0; i < topo_.words; ++i) live_->online.w[i] &= ~out.w[i];
    machine_.set_online(s.off ? live_->online : base_.online);
    irq_.set_online(s.off ? live_->online : base_.online);
    if (s.rebuilds == rebuilt) return;
    machine_.rebuilt(s.from);
    for (Instance& in : instances_) in.policy->memory().hic.assign(in.policy->memory().hic.size(), 0);
}

void OpenLoop::take_shapes(Ns ts) {
    for (; shape_ < shapes_.size() && ts >= shapes_[shape_].from; ++shape_)
        take(shapes_[shape_], shape_ > 0 && shapes_[shape_ - 1].rebuilds);
}

void OpenLoop::decide(const DecisionColumns& d, size_t row, Ns ts) {
    take_shapes(ts);
    auto null = [row](const bool* mask) { return mask && mask[row]; };
    const auto cls = static_cast<DecisionClass>(d.cls[row]);
    const auto kind = static_cast<Kind>(d.kind[row]);
    const TaskId p(d.task[row]);
    const bool counts = was_asked(cls);
    const bool ahead = is_ahead(row);
    const bool alone = row < flushed_ || ahead;  // its block is gone, or not there yet
    const size_t slot = alone ? LedgerBlock::kLate : row - flushed_;
    const bool asked = counts || cls == DecisionClass::pinned || placed_after_all(d, row);
    const bool decidable = asked && !null(d.waker_cpu_null) && !null(d.prev_cpu_null) && !null(d.chosen_cpu_null) &&
                           !null(d.waker_task_null);
    const bool chosen_known = !null(d.chosen_cpu_null);
    const Cpu chosen(d.chosen_cpu[row]);
    bool placed = kind == Kind::wake && was_placed(cls, chosen_known, machine_.task(p).state);
    if (delays_ && placed) placed = delays_->places(p, opt_.calls_seen || cls != DecisionClass::maybe_delayed, ts);
    Cpu placed_on = chosen;  // a panel goes by its own answer until the record says where the task woke up
    const Machine::Task before = machine_.task(p);
    const Probed truth = d.probes.at(row), seen = opt_.blind ? Probed{} : truth;
    const bool probed = seen.any();
    divergence_.forget(p);
    if (!decidable) {
        for (const size_t k : asking_) block_.skip(slot, k);
    } else {
        Wakeup w;
        // Each policy has its own state of the two tasks; they do not stay in the cache.
        const bool several = asking_.size() > 1;
        for (size_t k = 0; several && k < instances_.size(); ++k)
            instances_[k].memory->fetch(p), instances_[k].memory->fetch(TaskId(d.waker_task[row]));
        w.id = first_row_ + static_cast<int64_t>(row);
        w.kind = kind;
        w.p = p;
        w.curr = TaskId(d.waker_task[row]);
        w.waker = Cpu(d.waker_cpu[row]);
        w.prev = w.task_cpu = Cpu(d.prev_cpu[row]);
        w.common = topo_.common(w.waker, w.prev);
        if (several && !budget_) w.sums = &sums_;  // the budget asks about other machines, too
        machine_.advance(ts, w.prev, w.waker, p);
        machine_.set_prio(p, d.prio[row]);
        if (!opt_.looks.empty()) {
            const ReplayOptions::Looks& looks =
                opt_.looks[d.looks ? std::min<size_t>(d.looks[row], opt_.looks.size() - 1) : 0];
            machine_.seen_at(ts);
            machine_.look_from(began_[w.waker.v] + looks.from, kind == Kind::wake ? looks.step : 0);
        }
        if (kind == Kind::exec && !ahead)
            machine_.move_running(p, w.prev);  // before learn(): it was there when the probe looked
        machine_.learn(p, w.prev, seen.load, seen.rq_load, seen.nr_idle_scan);
        if (!irq_.empty()) irq_.advance(ts);
        const bool inferred_mask = d.allowed && !null(d.allowed_null);
        const bool stale = cls != DecisionClass::pinned && (inferred_mask || strayed_[p.v]);
        const TaskTable::Allowed& allowed = !stale          ? table_.allowed(p)
                                            : inferred_mask ? table_.masks[d.allowed[row]]
                                                            : table_.masks[0];
        const TaskInfo& curr = table_.info(w.curr);
        w.allowed = &allowed.mask;
        w.n_allowed = allowed.n;
        w.in_task = null(d.irq_ctx_null) || d.irq_ctx[row] == static_cast<uint8_t>(IrqCtx::task);
        w.curr_is_idle = machine_.is_idle_task(w.curr);
        w.curr_kthread = curr.kthread || w.curr_is_idle;
        w.curr_one_cpu = w.curr_is_idle || table_.allowed(w.curr).n == 1;  // an idle task is bound to its CPU
        w.curr_exiting = machine_.task(w.curr).exiting;
        w.hint = d.hint ? d.hint[row] : 0;
        w.p_idle_policy = table_.info(p).idle_policy();
        w.hz = opt_.hz;
        w.jiffies = jiffies(ts);
        w.p_exec_start = before.ever_blocked ? before.blocked_at : 0;
        w.migration_cost = opt_.migration_cost;
        const bool slow = kind != Kind::wake || topo_.balance_wake;
        if (slow || topo_.asym || opt_.log_inputs) {
            const Machine::TaskUtil u = machine_.task_util(machine_.task(p), w.prev);
            w.p_util = u.util, w.p_util_est = u.util_est, w.p_runnable = u.runnable;
        }
        if (seen.util) w.p_util = static_cast<int32_t>(*seen.util);
        const Inferred as_is = as_modelled(w);
        Inferred inferred = d.inferred.at(row, as_is);
        Inferred left = d.before.any() ? d.before.at(row, as_is) : inferred;
        if (seen.wake_flags) inferred.sync = left.sync = (*seen.wake_flags & Probed::kWfSync) != 0;
        suppose(w, as_is, inferred);
        const bool twice = left != inferred;
        if (slow) machine_.look_at_all();
        const uint32_t modelled = assumed(w) | (stale ? kAllowed : 0u);
        const bool explains = !watched_.empty() && (counts || cls == DecisionClass::pinned) && watches(d.event_id[row]);
        if (explains) [[unlikely]] {
            w.sync = inferred.sync;
            explanations_.push_back(begin_explanation(d.event_id[row], machine_.view(), w));
            explanations_.back().policies.resize(instances_.size());
        }
        if (seen.flips) flips_seen_[p.v] = true;
        ++decision_;
        if (counts && kind == Kind::wake && !null(d.latency_null)) recorded_.count(Histogram::bucket(d.latency[row]));
        const bool energy = opt_.energy_aware && kind == Kind::wake && !machine_.overutilised();
        bool asked_prev = false, asked_waker = false;  // loads that the recorded kernel's own column asked for
        std::optional<LoadKind> kind_now;
        if (opt_.panel && !(energy && instances_[0].policy->energy_aware()))
            placed_on = ask_panel(w, seen, row, chosen, counts);
        for (const size_t k : asking_) {
            Instance& in = instances_[k];
            if (energy && in.policy->energy_aware()) {
                in.by_energy += counts;
                block_.skip(slot, k);
                continue;
            }
            w.sync = inferred.sync;
            if (in.load != kind_now) take_loads(w, *(kind_now = in.load));
            const bool own = in.own;
            PolicyState& memory = in.policy->memory();
            if (in.flips) [[unlikely]]
                take_flips(in, w, inferred.flips);
            if (own) {
                if (opt_.log_inputs) {
                    const int64_t queue = machine_.queue_load(p, w.prev);
                    log_.note(row, machine_.view(), w, memory, queue, before.pelt.util_avg, certain_.of(p));
                    if (truth.flips) certain_.see(p, *truth.flips);
                }
                if (in.flips && seen.flips) in.flips->know(p, *seen.flips);
                take_private(memory, seen, p, topo_.llc[w.prev.v]);
            }
            if (own || in.flips || twice) {
                memory.task(std::max(p, w.curr));
                state_.take(memory, w);
            }
            if (own && budget_ && counts) {
                Probed known = truth;
                if (before.group) known.rq_load.reset();  // that of the group's queue, which no policy compares
                blames_[row] = budget_->blame(*in.policy, machine_.view(), w, chosen, known, decision_);
            }
            if (in.irq) machine_.set_irq_load(in.irq);
            if (explains) [[unlikely]]
                listen(k, w);
            const Decision dec = in.policy->decide(machine_.view(), w, divergence_.dirty(k), chosen);
            // A pinned wakeup's result is forced, and of others nobody knows.
            const uint32_t told = probed && counts && !dec.undecided ? recorded_inputs(seen, w, dec.cpu, own) : 0;
            Decision stays = dec;
            if (explains) [[unlikely]]
                heard(k, dec, counts, modelled & ~told);
            const bool again = twice && in.policy->remembers();
            if (again) {
                suppose(w, inferred, left);
                w.sync = left.sync;
                state_.put(memory, w);
                if (in.flips) take_flips(in, w, left.flips), state_.take(memory, w);
                stays = in.policy->remember(machine_.view(), w);
            }
            if (own && stays.cpu != chosen && machine_.view().turns.any() && in.policy->remembers())
                stays = looked_at_the_end(*in.policy, w, chosen, stays);
            if (in.flips) in.flips->follow(w, state_.curr, memory.task(w.curr));
            if (own) {
                if (opt_.log_inputs)
                    certain_.follow(w, state_.curr, memory.task(w.curr), jiffies(ts - kTickTakes),
                                    jiffies(ts + kTickTakes));
                std::erase_if(guesses_, [&](const ExitGuess& g) { return g.p == p; });
                follow(*in.policy, w, chosen, dec, stays);
                asked_prev = stays.asked_load_of_wakee(kind);
                asked_waker = asked_prev && w.sync;
            }
            if (again) suppose(w, left, inferred);
            // Bookkeeping only, no ledger row.
            if (!counts || dec.undecided) {
                block_.skip(slot, k);
                continue;
            }
            Judged& judged = judged_[dec.cpu.v];
            if (judged.decision != decision_) judged = {decision_, block_.add(judge(dec.cpu, row, d, w))};
            const bool collides = divergence_.occupied(k, dec.cpu);
            block_.keep(slot, k, judged.verdict, dec, collides, dec.looked & modelled & ~told);
            if (dec.cpu != chosen) divergence_.diverge(k, divergence_.slot(p), dec.cpu, chosen);
        }
        suppose(w, inferred, as_is);
        // After all of them: the others have the same machine, in whatever order they are asked.
        if (asked_waker) machine_.asked_load(machine_.task(w.curr), w.waker);
        if (asked_prev) machine_.asked_load(machine_.task(p), w.prev);
        if (kind == Kind::exec && !ahead) machine_.move_running(p, chosen);
    }
    if (alone) write_rows(slot, 1, row);
    if (kind == Kind::wake && chosen_known) {
        if (!null(d.waker_cpu_null)) sent_[chosen.v] = began_[d.waker_cpu[row]];
        const bool told = !null(d.waker_cpu_null) && !listed_at_once(cls);
        if (delays_ && placed) delays_->placed(p, chosen, ts);
        machine_.on_waking(p, d.prio[row], placed, placed_on,
                           told ? std::optional(Cpu(d.waker_cpu[row])) : std::nullopt);
    }
    if (opt_.log_flips) note_flips(ts, decision_);
}

/// The values with which nothing is inferred of it.
Inferred OpenLoop::as_modelled(const Wakeup& w) const {
    const std::vector<int32_t>& scan = machine_.view().nr_idle_scan;
    return {.sync = opt_.sync, .scan_waker = scan[topo_.llc[w.waker.v].v], .scan_prev = scan[topo_.llc[w.prev.v].v]};
}

/// From the machine as one of them has it to that of the other.
void OpenLoop::suppose(const Wakeup& w, const Inferred& now, const Inferred& then) {
    if (now.scan_waker != then.scan_waker || now.scan_prev != then.scan_prev) {
        machine_.set_nr_idle_scan(topo_.llc[w.waker.v], then.scan_waker);
        machine_.set_nr_idle_scan(topo_.llc[w.prev.v], then.scan_prev);
    }
    if (now.clock != then.clock) machine_.set_scan_clock(then.clock);
    if (now.turned == then.turned) return;
    if (then.turned)
        machine_.suppose(w.prev, !machine_.view().avail.test(w.prev));
    else
        machine_.look_again(w.prev);
    sums_.forget();
}

/// When the search looked at each CPU is inferred, too (looks.py): where the recorded choice comes out if it had looked at
/// all of them as the placement ended, and only then, that is what stays in the private state. `state_`: as of take().
Decision OpenLoop::looked_at_the_end(Policy& policy, const Wakeup& w, Cpu chosen, const Decision& made) {
    PolicyState& memory = policy.memory();
    SavedState after;
    after.take(memory, w);
    state_.put(memory, w);
    const Turns turns = machine_.looked({});
    const Decision other = policy.remember(machine_.view(), w);
    machine_.looked(turns);
    if (other.cpu == chosen) return other;
    after.put(memory, w);
    return made;
}

/// What a policy that reads loads of that kind is given.
void OpenLoop::take_loads(Wakeup& w, LoadKind kind) {
    machine_.select_load(kind);
    sums_.forget();
    w.p_load_avg = machine_.task(w.p).pelt.load_avg;
    w.p_load = machine_.task_load(w.p, w.prev, kind);
    w.curr_load = w.curr_is_idle ? 0 : machine_.task_load(w.curr, w.waker, kind);
}

/// Gives a policy the flips of one of several hypotheses.
void OpenLoop::take_flips(Instance& in, const Wakeup& w, size_t which) {
    for (TaskId t : {w.p, w.curr}) in.flips->give(in.policy->memory().task(t), t, which);
}

/// Whether prev goes idle, or went, at a time that the waker's clock cannot be compared with.
PanelAnswers::Doubt OpenLoop::doubt(const Wakeup& w) const {
    const Ns now = machine_.view().now;
    if (w.kind != Kind::wake || w.prev == w.waker) return PanelAnswers::no_doubt;
    if (machine_.view().avail.test(w.prev))
        return now - machine_.idle_since(w.prev) < opt_.order_window ? PanelAnswers::idle : PanelAnswers::no_doubt;
    const Ns left = segment_[w.prev.v];
    const bool soon = left != kNoEnd && left - now < opt_.order_window && machine_.runs_the_last(w.prev);
    return soon ? PanelAnswers::busy : PanelAnswers::no_doubt;
}

/// Where no call was seen, a wakeup of a task that slept a moment may have found it on its run queue still, its dequeue
/// delayed (6.12+). This one did not, by the queues: it was placed, where it was. What that leaves behind is known, so it is
/// asked for; what came of it is no choice that counts.
bool OpenLoop::placed_after_all(const DecisionColumns& d, size_t row) {
    if (!delays_ || opt_.calls_seen || static_cast<Kind>(d.kind[row]) != Kind::wake) return false;
    const auto cls = static_cast<DecisionClass>(d.cls[row]);
    const bool waker = !d.waker_cpu_null || !d.waker_cpu_null[row], prev = !d.prev_cpu_null || !d.prev_cpu_null[row];
    // Nobody wakes a task from the CPU that it has not left, and the wake list of that CPU is emptied there.
    const bool left = cls == DecisionClass::maybe_on_cpu && waker && prev &&
                      (d.waker_cpu[row] == d.prev_cpu[row] || (d.by_waker && d.by_waker[row]));
    return (left || cls == DecisionClass::maybe_delayed) && !machine_.task(TaskId(d.task[row])).delayed;
}

/// The answer under the first hypothesis. `counts`: else the result is forced.
Cpu OpenLoop::ask_panel(Wakeup& w, const Probed& seen, size_t row, Cpu chosen, bool counts) {
    const Instance& only = instances_[0];
    const View& v = machine_.view();
    const Llc prev = topo_.llc[w.prev.v], waker = topo_.llc[w.waker.v];
    answers_.scan_prev[row] = v.nr_idle_scan[prev.v];
    answers_.scan_waker[row] = v.nr_idle_scan[waker.v];
    answers_.chances_prev[row] = machine_.scan_of(prev).chances,
    answers_.writes_prev[row] = machine_.scan_of(prev).writes;
    answers_.chances_waker[row] = machine_.scan_of(waker).chances;
    answers_.writes_waker[row] = machine_.scan_of(waker).writes;
    answers_.decided[row] = counts;
    take_loads(w, only.load);
    if (only.irq) machine_.set_irq_load(only.irq);
    take_private(only.policy->memory(), seen, w.p, topo_.llc[w.prev.v]);
    answers_.doubt[row] = doubt(w);
    std::optional<bool> told_sync;
    if (seen.wake_flags) told_sync = (*seen.wake_flags & Probed::kWfSync) != 0;
    const Cpu answer = panel_->ask(*only.policy, machine_, w, told_sync, seen.flips, chosen, row, answers_, first_row_);
    if (panel_->load_of_waker) machine_.asked_load(machine_.task(w.curr), w.waker);
    if (panel_->load_of_prev) machine_.asked_load(machine_.task(w.p), w.prev);
    if (counts) return answer;
    const size_t first = row * PanelAnswers::kAskings;
    std::fill_n(answers_.agreed.begin() + static_cast<ptrdiff_t>(first), PanelAnswers::kAskings, 0);  // no votes
    return chosen;
}

}  // namespace rewake
