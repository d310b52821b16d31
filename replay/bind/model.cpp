// SPDX-License-Identifier: GPL-2.0-or-later
// Binding of the model: the recorded machine and the decision builder.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cmath>

#include "replay/bind/engine.hpp"
#include "replay/model/decisions.hpp"
#include "replay/model/rows.hpp"

namespace rewake::bind {

namespace {

template <class Columns>
nb::dict open_table(const nb::dict& batch, const char* name, Columns& c) {
    if (!batch.contains(name)) return {};
    nb::dict t = nb::cast<nb::dict>(batch[name]);
    c.n = kAnyLength;
    c.id = column<int64_t>(t, "id", c.n);
    c.ts = column<int64_t>(t, "ts_ns", c.n);
    c.cpu = column<uint16_t>(t, "cpu", c.n);
    return t;
}

void read_wake(const nb::dict& t, WakingColumns& c) {
    c.curr_task = column<uint32_t>(t, "curr_task", c.n);
    c.irq_ctx = column<uint8_t>(t, "irq_ctx", c.n);
    c.task = column<uint32_t>(t, "task", c.n);
    c.prio = column<int16_t>(t, "prio", c.n);
    c.target_cpu = column<uint16_t>(t, "target_cpu", c.n);
}

template <class T>
std::optional<T> get(const nb::dict& row, const char* name) {
    if (!row.contains(name) || row[name].is_none()) return std::nullopt;
    return nb::cast<T>(row[name]);
}

/// Parent, weight (100 is the default, 0 stands for cpu.idle), quota and period of cpu.max in ns, 0 without one.
using GroupRow = std::tuple<uint16_t, double, int64_t, int64_t>;

std::vector<TaskGroup> read_groups(const std::vector<GroupRow>& rows) {
    std::vector<TaskGroup> groups;
    for (const auto& [parent, weight, quota, period] : rows) {
        if (!groups.empty() && parent >= groups.size())
            throw std::invalid_argument("groups: a parent has to come before its children");
        // To the nearest, as kernels round what is written to cpu.weight.
        const int64_t shares = std::max<int64_t>(std::llround(weight * 1024 / 100), 2);
        groups.push_back({.parent = parent,
                          .shares = weight == 0 ? kIdleWeight : shares,
                          .quota = std::max<int64_t>(quota, 0),
                          .period = std::max<int64_t>(period, 0),
                          .idle = weight == 0});
    }
    return groups;
}

FairPolicy fair_policy(uint8_t code) {
    if (code > static_cast<uint8_t>(FairPolicy::idle)) throw std::invalid_argument("tasks: fair_policy: no such value");
    return static_cast<FairPolicy>(code);
}

TaskTable read_tasks(const nb::dict& t, const std::vector<std::string>& masks, const std::vector<GroupRow>& groups,
                     const Topology& topo) {
    TaskTable table;
    table.groups = read_groups(groups);
    for (const std::string& text : masks) {
        TaskTable::Allowed& a = table.masks.emplace_back();
        a.mask = parse_cpulist(text);
        a.n = a.mask.count();  // nr_cpus_allowed: offline CPUs count
        a.mask = a.mask & topo.online;
    }
    if (masks.empty()) throw std::invalid_argument("tasks: masks[0] must be the online CPUs");
    size_t n = kAnyLength;
    const bool* kthread = column<bool>(t, "kthread", n);
    const bool* observer = column<bool>(t, "observer", n);
    const bool* stopper = column<bool>(t, "stopper", n);
    const uint8_t* policy = column<uint8_t>(t, "fair_policy", n);
    const bool* ext = column<bool>(t, "ext", n);
    const bool* allowed_recorded = column<bool>(t, "allowed_recorded", n);
    const bool* policy_recorded = column<bool>(t, "policy_recorded", n);
    const uint32_t* allowed = column<uint32_t>(t, "allowed", n);
    const bool* no_cgroup = nullptr;
    const uint32_t* cgroup = column<uint32_t>(t, "cgroup", n, &no_cgroup);
    const uint16_t* group = groups.empty() ? nullptr : column<uint16_t>(t, "group", n);
    table.tasks.resize(n);
    for (size_t i = 0; i < n; ++i) {
        if (allowed[i] >= masks.size()) throw std::invalid_argument("tasks: allowed names a mask that does not exist");
        TaskInfo& x = table.tasks[i];
        x.kthread = kthread[i], x.observer = observer[i], x.stopper = stopper[i], x.policy = fair_policy(policy[i]);
        x.ext = ext[i], x.allowed_recorded = allowed_recorded[i], x.policy_recorded = policy_recorded[i];
        x.allowed = allowed[i];
        x.has_cgroup = !(no_cgroup && no_cgroup[i]);
        if (x.has_cgroup) x.cgroup = cgroup[i];
        if (group) x.group = group[i];
        if (x.group > 0 && x.group >= groups.size())
            throw std::invalid_argument("tasks: group names one that does not exist");
    }
    return table;
}

/// Collects one nullable output column.
template <class T>
struct Nullable {
    std::vector<T> values;
    std::vector<uint8_t> null;
    explicit Nullable(size_t n) { values.reserve(n), null.reserve(n); }
    template <class V, class F>
    void add(const std::optional<V>& v, F as) {
        null.push_back(!v);
        values.push_back(v ? static_cast<T>(as(*v)) : T{});
    }
    nb::object finish() { return nb::make_tuple(own(std::move(values)), own_bool(std::move(null))); }
};

nb::dict decision_columns(const std::vector<DecisionRow>& rows, int64_t first_id) {
    const size_t n = rows.size();
    std::vector<int64_t> id, event, ts;
    std::vector<uint8_t> kind, cls, censored, low;
    std::vector<uint32_t> task;
    std::vector<int16_t> prio;
    Nullable<uint32_t> waker_task(n), idle_state(n);
    Nullable<uint16_t> waker(n), prev(n), chosen(n), ran(n);
    Nullable<uint8_t> irq(n), idle(n);
    Nullable<int64_t> wakeup(n), latency(n);
    auto cpu = [](Cpu c) { return c.v; };
    auto same = [](auto v) { return v; };
    for (size_t i = 0; i < n; ++i) {
        const DecisionRow& r = rows[i];
        id.push_back(first_id + static_cast<int64_t>(i));
        event.push_back(r.event_id);
        ts.push_back(r.ts);
        kind.push_back(static_cast<uint8_t>(r.kind));
        cls.push_back(static_cast<uint8_t>(r.cls));
        task.push_back(r.task.v);
        prio.push_back(r.prio);
        waker_task.add(r.waker_task, [](TaskId t) { return t.v; });
        waker.add(r.waker, cpu), prev.add(r.prev, cpu), chosen.add(r.chosen, cpu), ran.add(r.ran, cpu);
        irq.add(r.irq_ctx, same), idle.add(r.chosen_idle, same), idle_state.add(r.idle_state, same);
        wakeup.add(r.wakeup_ns, same), latency.add(r.latency_ns, same);
        censored.push_back(r.censored);
        low.push_back(r.low_confidence);
    }
    nb::dict d;
    d["decision_id"] = own(std::move(id));
    d["event_id"] = own(std::move(event));
    d["ts_ns"] = own(std::move(ts));
    d["kind"] = own(std::move(kind));
    d["class"] = own(std::move(cls));
    d["task"] = own(std::move(task));
    d["waker_task"] = waker_task.finish();
    d["waker_cpu"] = waker.finish();
    d["irq_ctx"] = irq.finish();
    d["prio"] = own(std::move(prio));
    d["prev_cpu"] = prev.finish();
    d["chosen_cpu"] = chosen.finish();
    d["ran_cpu"] = ran.finish();
    d["chosen_idle"] = nb::make_tuple(own_bool(std::move(idle.values)), own_bool(std::move(idle.null)));
    d["idle_state"] = idle_state.finish();
    d["wakeup_ns"] = wakeup.finish();
    d["latency_ns"] = latency.finish();
    d["censored"] = own_bool(std::move(censored));
    d["low_confidence"] = own_bool(std::move(low));
    return d;
}

/// Python face of DecisionBuilder: numbers the decisions across parts.
class PyBuilder {
  public:
    PyBuilder(const Recorded& r, int major, int minor, bool has_waking, const Running& running, bool has_migrate,
              bool has_context)
        : builder_(r.topo, r.tasks, KernelTraits{major, minor, has_waking, has_migrate, has_context},
                   known(r, running)) {}
    void count_resyncs(Ns from, Ns to) { builder_.count_resyncs(from, to); }
    void scan(const nb::dict& batch) { builder_.scan(read_batch(batch)); }
    nb::object run(const nb::dict& batch) {
        const Batch b = read_batch(batch);
        std::vector<uint8_t> out;
        for (Cause c : builder_.run(b)) out.push_back(static_cast<uint8_t>(c));
        return own(std::move(out));
    }
    void finish() { builder_.finish(); }
    nb::object take() {
        auto rows = builder_.take();
        if (!rows) return nb::none();
        nb::dict d = decision_columns(*rows, next_id_);
        next_id_ += static_cast<int64_t>(rows->size());
        return d;
    }
    nb::dict counts() const {
        const MachineCounts& m = builder_.machine().counts();
        const DecisionCounts& c = builder_.counts();
        nb::dict d;
        d["switches"] = m.switches;
        d["resync"] = m.resync;
        d["unseen_by_cpu"] = m.unseen_by_cpu;
        d["throttled"] = m.throttled;
        d["throttled_by_cpu"] = m.throttled_by_cpu;
        d["throttled_by_cgroup"] = m.throttled_by_cgroup;
        d["conflicts"] = c.conflicts;
        d["prev_mismatch"] = c.prev_mismatch;
        d["late"] = c.late;
        d["skipped_events"] = builder_.skipped();
        return d;
    }

  private:
    DecisionBuilder builder_;
    int64_t next_id_ = 0;
};

SwitchColumns read_switch(const nb::dict& batch) {
    SwitchColumns c;
    if (nb::dict t = open_table(batch, "switch", c); c.n) {
        c.prev_task = column<uint32_t>(t, "prev_task", c.n);
        c.prev_prio = column<int16_t>(t, "prev_prio", c.n);
        c.prev_state = column<uint8_t>(t, "prev_state", c.n);
        c.next_task = column<uint32_t>(t, "next_task", c.n);
        c.next_prio = column<int16_t>(t, "next_prio", c.n);
    }
    return c;
}

}  // namespace

Running known(const Recorded& r, const Running& running) {
    Running out;
    for (auto [cpu, task] : running)
        if (cpu < r.topo.n_cpus && task < r.tasks.tasks.size()) out.emplace_back(cpu, task);
    return out;
}

SwitchColumns read_switch_times(const nb::dict& batch) {
    SwitchColumns c;
    open_table(batch, "switch", c);
    return c;
}

Batch read_batch(const nb::dict& batch) {
    Batch b;
    b.sw = read_switch(batch);
    if (nb::dict t = open_table(batch, "waking", b.waking); b.waking.n) read_wake(t, b.waking);
    if (nb::dict t = open_table(batch, "wakeup", b.wakeup); b.wakeup.n) {
        read_wake(t, b.wakeup);
        b.wakeup.is_new = column<bool>(t, "is_new", b.wakeup.n);
    }
    if (nb::dict t = open_table(batch, "migrate", b.migrate); b.migrate.n) {
        MigrateColumns& c = b.migrate;
        c.curr_task = column<uint32_t>(t, "curr_task", c.n);
        c.irq_ctx = column<uint8_t>(t, "irq_ctx", c.n);
        c.task = column<uint32_t>(t, "task", c.n);
        c.prio = column<int16_t>(t, "prio", c.n);
        c.orig_cpu = column<uint16_t>(t, "orig_cpu", c.n);
        c.dest_cpu = column<uint16_t>(t, "dest_cpu", c.n);
        if (t.contains("cause")) c.cause = column<uint8_t>(t, "cause", c.n, &c.cause_null);
    }
    if (nb::dict t = open_table(batch, "fork", b.fork); b.fork.n) {
        b.fork.task = column<uint32_t>(t, "task", b.fork.n);
        b.fork.child = column<uint32_t>(t, "child", b.fork.n);
    }
    if (nb::dict t = open_table(batch, "exec", b.exec); b.exec.n) b.exec.task = column<uint32_t>(t, "task", b.exec.n);
    if (nb::dict t = open_table(batch, "exit", b.exit); b.exit.n) b.exit.task = column<uint32_t>(t, "task", b.exit.n);
    if (nb::dict t = open_table(batch, "idle", b.idle); b.idle.n) {
        b.idle.idle_cpu = column<uint16_t>(t, "idle_cpu", b.idle.n);
        b.idle.state = column<uint32_t>(t, "state", b.idle.n, &b.idle.state_null);
    }
    if (nb::dict t = open_table(batch, "irq", b.irq); b.irq.n) {
        b.irq.entry = column<bool>(t, "entry", b.irq.n);
        if (t.contains("kind")) b.irq.kind = column<uint8_t>(t, "kind", b.irq.n);
    }
    open_table(batch, "loss", b.loss);
    open_table(batch, "balance", b.balance);
    open_table(batch, "tick", b.tick);
    open_table(batch, "wake_list", b.wake_list);
    if (nb::dict t = open_table(batch, "probe", b.probe); b.probe.n) {
        b.probe.phase = column<uint8_t>(t, "phase", b.probe.n);
        b.probe.task = column<uint32_t>(t, "task", b.probe.n, &b.probe.task_null);
    }
    return b;
}

}  // namespace rewake::bind

using namespace rewake;
using namespace rewake::bind;

void bind_model(nb::module_& m) {
    m.attr("MAX_CPUS") = kMaxCpus;
    nb::class_<Recorded>(m, "Recorded", "The recorded machine: topology and tasks.")
        .def(
            "__init__",
            [](Recorded* self, nb::list cpus, nb::list domains, nb::dict tasks, std::vector<std::string> masks,
               std::vector<GroupRow> groups) {
                std::vector<CpuRow> cpu_rows;
                for (nb::handle h : cpus) {
                    nb::dict row = nb::cast<nb::dict>(h);
                    CpuRow r;
                    r.cpu = nb::cast<uint16_t>(row["cpu"]);
                    r.core = get<uint16_t>(row, "core");
                    r.llc = get<uint16_t>(row, "llc");
                    r.cluster = get<uint16_t>(row, "cluster");
                    r.node = get<uint16_t>(row, "node");
                    r.capacity = get<uint16_t>(row, "capacity");
                    r.online = get<bool>(row, "online").value_or(true);
                    cpu_rows.push_back(r);
                }
                std::vector<DomainRow> domain_rows;
                for (nb::handle h : domains) {
                    nb::dict row = nb::cast<nb::dict>(h);
                    domain_rows.push_back({nb::cast<uint16_t>(row["cpu"]), nb::cast<int>(row["level"]),
                                           nb::cast<std::string>(row["name"]), nb::cast<std::string>(row["span"]),
                                           nb::cast<std::string>(row["flags"]), get<int>(row, "imbalance_pct")});
                }
                new (self) Recorded();
                self->topo = topology_from_rows(cpu_rows, domain_rows);
                self->tasks = read_tasks(tasks, masks, groups, self->topo);
            },
            nb::arg("cpus"), nb::arg("domains"), nb::arg("tasks"), nb::arg("masks"),
            nb::arg("groups") = std::vector<GroupRow>{},
            "cpus: rows of `cpu` with `online`; domains: rows of `domain`; tasks: columns by task id; masks: CPU lists "
            "that "
            "tasks['allowed'] indexes, masks[0] the online CPUs; groups: (parent, weight, quota, period) of the task "
            "groups that tasks['group'] indexes, [0] the root, parents first. Without groups there is only the root.")
        .def_prop_ro("topology_known", [](const Recorded& r) { return r.topo.known; })
        .def_prop_ro("n_cpus", [](const Recorded& r) { return r.topo.n_cpus; })
        .def_prop_ro(
            "shares",
            [](const Recorded& r) {
                nb::list shares;
                for (const TaskGroup& g : r.tasks.groups) shares.append(g.shares);
                return shares;
            },
            "Of each task group: what the kernel makes of its weight, 1024 of 100.")
        .def_prop_rw(
            "wakeups", [](const Recorded& r) { return r.tasks.wakeups; },
            [](Recorded& r, bool on) { r.tasks.wakeups = on; }, "sched_wakeup was recorded.")
        .def_prop_rw(
            "throttles_tasks", [](const Recorded& r) { return r.tasks.throttles_tasks; },
            [](Recorded& r, bool on) { r.tasks.throttles_tasks = on; },
            "Throttling takes tasks off their queue one by one (6.18).")
        .def_prop_rw(
            "forks_weigh_full", [](const Recorded& r) { return r.tasks.forks_weigh_full; },
            [](Recorded& r, bool on) { r.tasks.forks_weigh_full = on; },
            "A new task's utilisation goes by its weight as 64-bit kernels keep it, times 1024 (4.8 - 6.9).")
        .def_prop_rw(
            "leavers_decay", [](const Recorded& r) { return r.tasks.leavers_decay; },
            [](Recorded& r, bool on) { r.tasks.leavers_decay = on; },
            "Who leaves an idle CPU decays by the time that its averages have not counted yet (6.0).")
        .def_prop_rw(
            "sums_follow", [](const Recorded& r) { return r.tasks.sums_follow; },
            [](Recorded& r, bool on) { r.tasks.sums_follow = on; },
            "What decayed of a queue's load since the last period is undone where a task leaves it (5.10 to 5.16).")
        .def_prop_rw(
            "groups_weigh_empty", [](const Recorded& r) { return r.tasks.group_rules.weigh_empty; },
            [](Recorded& r, bool on) { r.tasks.group_rules.weigh_empty = on; },
            "A group whose last task sleeps is weighed once more, by what it still averages (until 6.11).")
        .def_prop_rw(
            "groups_tell_every", [](const Recorded& r) { return r.tasks.group_rules.tell_every; },
            [](Recorded& r, Ns every) { r.tasks.group_rules.tell_every = every; },
            "ns between two times that a queue tells its group of its load (until 6.6: 0).")
        .def_prop_rw(
            "estimates_ignore_waits", [](const Recorded& r) { return r.tasks.estimates_ignore_waits; },
            [](Recorded& r, bool on) { r.tasks.estimates_ignore_waits = on; },
            "util_est falls whether or not the task got the time that it wanted (until 6.7).")
        .def_prop_rw(
            "preempts_lazily", [](const Recorded& r) { return r.tasks.preempts_lazily; },
            [](Recorded& r, bool on) { r.tasks.preempts_lazily = on; },
            "Wakeups of the fair class preempt lazily (preempt=lazy).")
        .def_prop_rw(
            "wake_lists", [](const Recorded& r) { return static_cast<int>(r.tasks.wake_lists); },
            [](Recorded& r, int which) { r.tasks.wake_lists = static_cast<WakeLists>(std::clamp(which, 0, 2)); },
            "Wakeups that the target's CPU queues itself: 0 none, 1 those into another LLC, 2 and those to an idle "
            "CPU.");

    nb::class_<PyBuilder>(m, "DecisionBuilder",
                          "Decision records from events (policies.md C2-C5), one batch behind the scan.")
        .def(nb::init<const Recorded&, int, int, bool, const Running&, bool, bool>(), nb::arg("recorded"),
             nb::arg("major"), nb::arg("minor"), nb::arg("has_waking"), nb::arg("running"),
             nb::arg("has_migrate") = true, nb::arg("has_context") = true, nb::keep_alive<1, 2>(),
             "running: (cpu, task) of CPUs whose first switch comes after the first batch; has_waking, has_migrate: "
             "sched_waking and sched_migrate_task were recorded; has_context: so was whether a record comes from an "
             "interrupt.")
        .def("count_resyncs", &PyBuilder::count_resyncs, nb::arg("begin_ns"), nb::arg("end_ns"),
             "Contradictions outside of this time are not counted.")
        .def("scan", &PyBuilder::scan, nb::arg("batch"), "Finds what closes each decision.")
        .def("run", &PyBuilder::run, nb::arg("batch"), nb::sig("def run(self, batch: dict) -> object"),
             "Rebuilds the state at each decision; returns the causes of the batch's migrations (codes).")
        .def("finish", &PyBuilder::finish)
        .def("take", &PyBuilder::take, "Columns of the oldest finished part, or None.")
        .def("counts", &PyBuilder::counts);
}
