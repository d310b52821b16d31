// SPDX-License-Identifier: GPL-2.0-or-later
// Binding of the closed loop: parts of a recording in, simulated windows out.
#include "replay/engine/closed/closed_loop.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "replay/bind/engine.hpp"

namespace rewake::bind {

namespace {

using namespace closed;
using Window = std::tuple<Ns, Ns, Ns, Ns, size_t>;

template <class T>
void take(const nb::dict& d, const char* name, T& into) {
    if (d.contains(name)) into = nb::cast<T>(d[name]);
}

Balance balance_of(const std::string& name) {
    if (name == "model") return Balance::model;
    if (name == "recorded-rate") return Balance::recorded_rate;
    if (name == "off") return Balance::off;
    if (name == "forced") return Balance::forced;
    throw std::invalid_argument("balance " + name + ": model, recorded-rate, off or forced");
}

/// By task: the number of its group, negative for none, and back.
void take_groups(const nb::dict& d, const char* name, std::vector<uint32_t>& out) {
    if (!d.contains(name)) return;
    for (int64_t g : nb::cast<std::vector<int64_t>>(d[name])) out.push_back(g < 0 ? kNone : static_cast<uint32_t>(g));
}
std::vector<int64_t> plain(const std::vector<uint32_t>& groups) {
    std::vector<int64_t> out;
    for (uint32_t g : groups) out.push_back(g == kNone ? -1 : static_cast<int64_t>(g));
    return out;
}

SimOptions read_arm(const nb::dict& d, const ReplayOptions& recorded) {
    SimOptions o;
    o.hz = recorded.hz;
    o.tick_at = recorded.tick_at;
    o.migration_cost = recorded.migration_cost;
    take(d, "pinned", o.pinned);
    take(d, "fifo", o.fifo);
    take(d, "own_luck", o.own_luck);
    take(d, "absolute_timers", o.absolute_timers);
    take(d, "move_factor", o.move_factor);
    take(d, "search_ns", o.search_ns);
    take(d, "scan_ns", o.scan_ns);
    take(d, "smt", o.smt);
    take(d, "seed", o.seed);
    take(d, "major", o.major);
    take(d, "minor", o.minor);
    take(d, "queues_wakeups", o.queues_wakeups);
    take(d, "queued_wakeups", o.queued_wakeups);
    take(d, "pull_ns", o.pull);
    take(d, "pulled_ns", o.pulled);
    take(d, "unseen_ns", o.unseen);
    take(d, "hole_ns", o.hole);
    take(d, "waits_ns", o.waits);
    take(d, "looks_ns", o.looks);
    take(d, "hidden", o.hidden);
    take(d, "serves", o.serves);
    take(d, "asks", o.asks);
    take(d, "yields", o.yields);
    take(d, "computes", o.computes);
    take_groups(d, "meets", o.meets);
    take_groups(d, "pools", o.pools);
    if (d.contains("awaited"))
        for (const auto& [by, patience] : nb::cast<std::vector<std::pair<int64_t, int64_t>>>(d["awaited"]))
            o.awaited.push_back({by < 0 ? kNone : static_cast<uint32_t>(by), patience});
    if (d.contains("reads"))
        for (const auto& [first, next] : nb::cast<std::vector<std::pair<int64_t, int64_t>>>(d["reads"])) {
            if (first > 0 && next <= 0) throw std::invalid_argument("a further message takes work");
            o.reads.push_back({first, next});
        }
    for (auto& scope : o.pulls) scope.fill(1);
    take(d, "pulls", o.pulls);
    if (d.contains("balance")) o.balance = balance_of(nb::cast<std::string>(d["balance"]));
    if (d.contains("idle_state")) o.idle_state = nb::cast<uint32_t>(d["idle_state"]);
    if (!(o.smt > 0 && o.smt <= 1) || o.move_factor < 0 || o.scan_ns < 0 || o.unseen < 0)
        throw std::invalid_argument("smt must lie in (0, 1], costs must not be negative");
    return o;
}

Costs read_costs(const nb::dict& d) {
    size_t n = kAnyLength;
    const uint8_t* path = column<uint8_t>(d, "path", n);
    const uint8_t* relation = column<uint8_t>(d, "relation", n);
    const bool* in_task = column<bool>(d, "in_task", n);
    const uint8_t* target = column<uint8_t>(d, "target", n);
    const int64_t* queue = column<int64_t>(d, "queue_ns", n);
    const int64_t* run = column<int64_t>(d, "run_ns", n);
    const int64_t* leave = column<int64_t>(d, "leave_ns", n);
    std::vector<CostSample> all;
    all.reserve(n);
    for (size_t i = 0; i < n; ++i) {
        if (path[i] >= kPaths || relation[i] >= kRelations || target[i] >= kTargets || queue[i] < 0 || run[i] < 0 ||
            leave[i] < 0 || leave[i] > queue[i])
            throw std::invalid_argument("a cost that cannot be");
        all.push_back({static_cast<Path>(path[i]),
                       static_cast<Relation>(relation[i]),
                       in_task[i],
                       target[i],
                       {queue[i], run[i], leave[i]}});
    }
    return Costs(all);
}

nb::dict plain_window(const ClosedLoop::Result& r) {
    const WindowResult& w = r.result;
    nb::dict d;
    d["arm"] = r.arm;
    d["window_id"] = r.window;
    d["from_ns"] = w.from;
    d["to_ns"] = w.to;
    d["diverged"] = w.diverged;
    d["why"] = w.why;
    d["wakeups"] = w.wakeups;
    d["early"] = w.early;
    d["external"] = w.external;
    d["exhausted"] = w.exhausted;
    d["missed_moves"] = w.missed_moves;
    d["skipped_reservations"] = w.skipped_reservations;
    d["wake_moves"] = w.wake_moves;
    d["fork_moves"] = w.fork_moves;
    d["exec_moves"] = w.exec_moves;
    d["newidle_moves"] = w.newidle_moves;
    d["periodic_moves"] = w.periodic_moves;
    d["forced_moves"] = w.forced_moves;
    d["cross_llc"] = w.cross_llc;
    d["cross_node"] = w.cross_node;
    d["preemptions"] = w.preemptions;
    d["switches"] = w.switches;
    d["cpu_ns"] = w.cpu_time;
    d["work_ns"] = w.work / 1024;
    d["collided"] = w.collided;
    d["events"] = w.events;
    d["broken"] = w.broken;
    d["throttled_ns"] = w.throttled;
    d["ends"] = w.ends;
    d["ended"] = w.ended;
    d["makespan_ns"] = w.ends > 0 && w.ended == w.ends && !w.diverged ? nb::object(nb::int_(w.makespan)) : nb::none();
    auto violations = [&](const char* scope, const Violations& v) {
        d[(std::string(scope) + "_idle_ns").c_str()] = v.total;
        d[(std::string(scope) + "_over_10us").c_str()] = v.over_10us;
        d[(std::string(scope) + "_over_100us").c_str()] = v.over_100us;
        d[(std::string(scope) + "_over_1ms").c_str()] = v.over_1ms;
    };
    violations("llc", w.in_llc);
    violations("machine", w.on_machine);
    const size_t n = w.woken.size();
    std::vector<int64_t> decision(n), ts(n), latency(n), wait(n);
    std::vector<uint32_t> task(n);
    std::vector<uint16_t> prev(n), cpu(n);
    std::vector<uint8_t> to_idle(n), placed(n), censored(n), no_decision(n);
    for (size_t i = 0; i < n; ++i) {
        const Woken& x = w.woken[i];
        decision[i] = x.decision, ts[i] = x.ts, latency[i] = x.latency, wait[i] = x.wait, task[i] = x.task;
        prev[i] = x.prev, cpu[i] = x.cpu, to_idle[i] = x.idle_target, placed[i] = x.placed, censored[i] = !x.done;
        no_decision[i] = x.decision < 0;
    }
    nb::object not_run = own_bool(censored);
    nb::dict c;
    c["decision_id"] = nb::make_tuple(own(std::move(decision)), own_bool(std::move(no_decision)));
    c["ts_ns"] = own(std::move(ts));
    c["task"] = own(std::move(task));
    c["prev_cpu"] = own(std::move(prev));
    c["cpu"] = own(std::move(cpu));
    c["idle_target"] = own_bool(std::move(to_idle));
    c["placed"] = own_bool(std::move(placed));
    c["latency_ns"] = nb::make_tuple(own(std::move(latency)), not_run);
    c["wait_ns"] = nb::make_tuple(own(std::move(wait)), not_run);
    d["woken"] = c;
    return d;
}

struct Spans {
    size_t n = kAnyLength;
    const uint16_t* cpu;
    const int64_t *from, *to;
    explicit Spans(const nb::dict& d)
        : cpu(column<uint16_t>(d, "cpu", n)),
          from(column<int64_t>(d, "from_ns", n)),
          to(column<int64_t>(d, "to_ns", n)) {}
};

Interrupts read_interrupts(const nb::dict& d, size_t cpus) {
    const Spans s(d);
    std::vector<Interrupt> all;
    for (size_t i = 0; i < s.n; ++i) all.push_back({s.from[i], s.to[i], Cpu(s.cpu[i])});
    return {cpus, all};
}

nb::object handled(const Interrupts& all, const nb::dict& of) {
    const Spans s(of);
    std::vector<int64_t> found(s.n);
    for (size_t i = 0; i < s.n; ++i) found[i] = all.within(Cpu(s.cpu[i]), s.from[i], s.to[i]);
    return own(std::move(found));
}

class PyClosedLoop {
  public:
    PyClosedLoop(const Recorded& r, const std::vector<nb::object>& specs, uint64_t seed, const nb::dict& options,
                 const std::vector<nb::dict>& arms, const std::vector<Window>& windows,
                 const std::vector<std::shared_ptr<Costs>>& costs, const Interrupts& interrupts, const Running& running,
                 unsigned threads)
        : n_cpus_(static_cast<size_t>(r.topo.n_cpus)),
          n_tasks_(r.tasks.tasks.size()),
          n_masks_(r.tasks.masks.size()),
          loop_(r.topo, r.tasks, make_arms(r, specs, seed, options, arms), plan(windows), {costs.begin(), costs.end()},
                interrupts, read_fair(r.topo, options), read_options(options), known(r, running), threads) {}

    void run(const nb::dict& batch, const nb::dict& decisions) {
        const Batch b = read_batch(batch);
        const DecisionColumns d = read_decisions(decisions, n_cpus_, n_tasks_, n_masks_);
        nb::gil_scoped_release release;
        loop_.run(b, d);
    }
    void interrupted_by(const Interrupts& interrupts) { loop_.interrupted_by(interrupts); }
    void finish() {
        nb::gil_scoped_release release;
        loop_.finish();
    }
    nb::list take_results(size_t most) {
        nb::list out;
        // One after the other: what one was held in becomes the columns of the next.
        for (; most > 0; --most) {
            const std::vector<ClosedLoop::Result> next = loop_.take(1);
            if (next.empty()) break;
            out.append(plain_window(next.front()));
        }
        return out;
    }
    nb::dict survey() const {
        const Survey& s = loop_.survey();
        nb::dict d;
        d["pulled"] = s.pulled, d["chances"] = s.chances;
        d["idle_states"] = s.idle_states;
        d["servers"] = loop_.servers();
        std::vector<std::pair<int64_t, int64_t>> readers;
        for (const Pace& p : loop_.readers()) readers.emplace_back(p.first, p.next);
        d["readers"] = readers;
        d["meetings"] = plain(loop_.meetings());
        d["pools"] = plain(loop_.pools());
        d["yielders"] = loop_.yielders();
        std::vector<std::pair<int64_t, int64_t>> awaited;
        for (const Awaited& a : loop_.awaited())
            awaited.emplace_back(a.by == kNone ? -1 : static_cast<int64_t>(a.by), a.patience);
        d["awaited"] = awaited;
        const FairRecord::Survey& fair = loop_.fair_survey();
        d["picks"] = fair.picks, d["picks_right"] = fair.picks_right;
        const auto& taken = fair.preempts;
        d["preempts"] = std::vector<int64_t>{taken[0][0], taken[0][1], taken[1][0], taken[1][1]};
        return d;
    }
    nb::object leads() const { return own(loop_.leads()); }
    nb::object limit_phases() const { return own(loop_.limit_phases()); }
    nb::object last_seen() const { return own(std::vector<int64_t>(loop_.last_seen())); }
    void begin_with(In<int64_t> leads, In<int64_t> phases, In<int64_t> last) {
        const auto all = [](In<int64_t> of) { return std::vector<int64_t>(of.data(), of.data() + of.shape(0)); };
        loop_.begin_with(all(leads), all(phases), all(last));
    }
    void processes(const std::vector<int64_t>& of) { loop_.processes(of); }
    void change_masks(const std::vector<std::tuple<int64_t, uint32_t, uint32_t>>& changes) {
        std::vector<MaskChange> all;
        for (auto [ts, task, mask] : changes) {
            if (task >= n_tasks_ || mask >= n_masks_) throw std::invalid_argument("masks: no such task or mask");
            if (!all.empty() && all.back().ts > ts) throw std::invalid_argument("masks: not in order of time");
            all.push_back({ts, TaskId(task), mask});
        }
        loop_.change_masks(std::move(all));
    }
    void keep_scripts() { loop_.keep_scripts(); }
    nb::list scripts() const {
        nb::list out;
        for (const Script& s : loop_.scripts()) {
            nb::dict tasks;
            for (const TaskScript& t : s.tasks) {
                nb::list ops;
                for (const Op& op : t.ops) {
                    static constexpr const char* kNames[] = {"wake", "block", "ask",     "meet", "yield", "look",
                                                             "read", "exec",  "exiting", "exit", "end"};
                    const nb::object arg = op.arg == kNone ? nb::none() : nb::object(nb::int_(op.arg));
                    ops.append(nb::make_tuple(op.work, kNames[static_cast<size_t>(op.kind)], arg));
                }
                nb::dict one;
                one["ops"] = ops;
                one["first"] = t.first == kNone ? nb::none() : nb::object(nb::int_(t.first));
                tasks[nb::int_(t.id.v)] = one;
            }
            nb::list stims;
            for (const Stim& x : s.stims) {
                static constexpr const char* kSources[] = {"task", "absolute", "relative", "resume"};
                stims.append(nb::make_tuple(x.p.v, kSources[static_cast<size_t>(x.source)], x.ends, x.ts, x.delay));
            }
            nb::list reserved;
            for (const Reservation& r : s.reservations)
                reserved.append(nb::make_tuple(r.cpu.v, r.task.v, r.from, r.to));
            nb::dict d;
            nb::list handlers;
            for (const Interrupt& x : s.interrupts) handlers.append(nb::make_tuple(x.cpu.v, x.from, x.to));
            d["interrupts"] = handlers;
            d["tasks"] = tasks, d["stims"] = stims, d["reservations"] = reserved;
            d["moves"] = s.moves.size();
            out.append(d);
        }
        return out;
    }

    PyClosedLoop(const PyClosedLoop&) = delete;
    PyClosedLoop& operator=(const PyClosedLoop&) = delete;

  private:
    static std::vector<Arm> make_arms(const Recorded& r, const std::vector<nb::object>& specs, uint64_t seed,
                                      const nb::dict& options, const std::vector<nb::dict>& arms) {
        if (specs.size() != arms.size()) throw std::invalid_argument("one arm per policy");
        const ReplayOptions recorded = read_options(options);
        std::vector<Arm> out;
        for (size_t i = 0; i < specs.size(); ++i) {
            Arm arm;
            arm.options = read_arm(arms[i], recorded);
            if (!arm.options.pinned) arm.policy = std::move(make_policies({specs[i]}, r.topo, seed).front());
            out.push_back(std::move(arm));
        }
        return out;
    }
    static std::vector<WindowPlan> plan(const std::vector<Window>& windows) {
        std::vector<WindowPlan> out;
        for (auto [from, measured, to, horizon, costs] : windows) out.push_back({from, measured, to, horizon, costs});
        return out;
    }
    size_t n_cpus_, n_tasks_, n_masks_;
    ClosedLoop loop_;
};

}  // namespace

}  // namespace rewake::bind

void bind_closed_loop(nanobind::module_& m) {
    namespace nb = nanobind;
    using rewake::bind::PyClosedLoop;
    using rewake::bind::Recorded;
    nb::class_<rewake::closed::Interrupts>(m, "Interrupts",
                                           "Time that handlers had of the CPUs (engine/closed/interrupts.hpp).")
        .def(
            "__init__",
            [](rewake::closed::Interrupts* self, const nb::dict& handlers, size_t n_cpus) {
                new (self) rewake::closed::Interrupts(rewake::bind::read_interrupts(handlers, n_cpus));
            },
            nb::arg("handlers"), nb::arg("n_cpus"), nb::sig("def __init__(self, handlers: dict, n_cpus: int) -> None"),
            "handlers: columns cpu, from_ns, to_ns, by time; those of one CPU must not overlap.")
        .def("within", &rewake::bind::handled, nb::arg("spans"), nb::sig("def within(self, spans: dict) -> object"),
             "spans: columns cpu, from_ns, to_ns. How much of each handlers had, ns.");
    nb::class_<rewake::closed::Costs>(m, "Costs", "What recorded wakeups cost (engine/closed/costs.hpp).")
        .def(
            "__init__",
            [](rewake::closed::Costs* self, const nb::dict& samples) {
                new (self) rewake::closed::Costs(rewake::bind::read_costs(samples));
            },
            nb::arg("samples"), nb::sig("def __init__(self, samples: dict) -> None"),
            "samples: columns path, relation, in_task, target, queue_ns, run_ns, leave_ns.");
    nb::class_<PyClosedLoop>(
        m, "ClosedLoop",
        "Windows of a recording re-run with each policy in charge (modelled). run() with each part "
        "in order, then finish(); take() hands out the windows that are done.")
        .def(nb::init<const Recorded&, const std::vector<nb::object>&, uint64_t, const nb::dict&,
                      const std::vector<nb::dict>&, const std::vector<rewake::bind::Window>&,
                      const std::vector<std::shared_ptr<rewake::closed::Costs>>&, const rewake::closed::Interrupts&,
                      const rewake::Running&, unsigned>(),
             nb::arg("recorded"), nb::arg("specs"), nb::arg("seed"), nb::arg("options"), nb::arg("arms"),
             nb::arg("windows"), nb::arg("costs"), nb::arg("interrupts"), nb::arg("running"), nb::arg("threads") = 1,
             nb::keep_alive<1, 2>(),
             nb::sig("def __init__(self, recorded: Recorded, specs: list, seed: int, options: dict, arms: list[dict], "
                     "windows: list[tuple[int, int, int, int, int]], costs: list[Costs], interrupts: Interrupts, "
                     "running: list[tuple[int, int]], threads: int = 1) -> None"),
             "specs: as of OpenLoop, None for a pinned arm; options: as of OpenLoop, and major, minor of the kernel; "
             "arms: settings per policy (engine/closed/simulation.hpp, SimOptions); windows: simulated from, counted "
             "from, until, script until (ns), index into costs.")
        .def("run", &PyClosedLoop::run, nb::arg("batch"), nb::arg("decisions"))
        .def("interrupted_by", &PyClosedLoop::interrupted_by, nb::arg("interrupts"),
             "Before run(): the handlers of all windows that are open then and of the part, and no others.")
        .def("finish", &PyClosedLoop::finish)
        .def("take", &PyClosedLoop::take_results, nb::arg("most") = std::numeric_limits<size_t>::max(),
             nb::sig("def take(self, most: int = ...) -> list[dict]"),
             "The first windows that are done, at most so many.")
        .def("survey", &PyClosedLoop::survey, nb::sig("def survey(self) -> dict"),
             "What the recording says of its balancing and idle states.")
        .def("leads", &PyClosedLoop::leads, nb::sig("def leads(self) -> object"),
             "By task: how far it is ahead of the slowest of its run queue, ns of vruntime.")
        .def("last_seen", &PyClosedLoop::last_seen, nb::sig("def last_seen(self) -> object"),
             "By task: number of the last event that names it, of those so far; without arms only.")
        .def("limit_phases", &PyClosedLoop::limit_phases, nb::sig("def limit_phases(self) -> object"),
             "By task group: when a period of its quota begins, ns, as inferred so far; negative: not known.")
        .def("begin_with", &PyClosedLoop::begin_with, nb::arg("leads"), nb::arg("phases"), nb::arg("last"),
             nb::sig("def begin_with(self, leads: object, phases: object, last: object) -> None"),
             "Before run(): leads() of tasks that are older than the recording, limit_phases() and last_seen().")
        .def("processes", &PyClosedLoop::processes, nb::arg("of"),
             nb::sig("def processes(self, of: Sequence[int]) -> None"),
             "Before run(), without arms: by task, its process, negative where that is not known. For pools in "
             "survey().")
        .def("change_masks", &PyClosedLoop::change_masks, nb::arg("changes"),
             nb::sig("def change_masks(self, changes: Sequence[tuple[int, int, int]]) -> None"),
             "changes: (ts_ns, task, number of a mask of Recorded), in order of time: from then on the task may use "
             "those CPUs.")
        .def("keep_scripts", &PyClosedLoop::keep_scripts, "From now on scripts() has those of the windows (tests).")
        .def("scripts", &PyClosedLoop::scripts, nb::sig("def scripts(self) -> list[dict]"));
}
