# SPDX-License-Identifier: GPL-2.0-or-later
"""The recording's tables as the engine takes them: parts of the events, the machine, the tasks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import rewake.replay._engine as _engine
from rewake.errors import TraceError
from rewake.forms import ENUMS, Columns, Recording, RecordingWriter, kernel_version, values_of, with_null

Source = Recording | RecordingWriter
Bools = npt.NDArray[np.bool_]

_MODEL_TABLES: dict[str, tuple[str, ...] | None] = {
    "switch": None, "waking": None, "wakeup": None, "fork": None, "exec": ("id", "ts_ns", "cpu", "task"),
    "exit": ("id", "ts_ns", "cpu", "task"), "idle": None, "loss": ("id", "ts_ns", "cpu"),
    "migrate": ("id", "ts_ns", "cpu", "curr_task", "irq_ctx", "task", "prio", "orig_cpu", "dest_cpu"),
}  # fmt: skip
CAUSES: dict[str, tuple[str, ...] | None] = {"migrate": (*(_MODEL_TABLES["migrate"] or ()), "cause")}
"""For batch(): with what moved the tasks."""

_SOFTIRQ = {"softirq": ("id", "ts_ns", "cpu", "vec", "phase")}
_IRQ = ("id", "ts_ns", "cpu", "curr_task", "kind", "entry")
_PROBE = {"probe": ("id", "ts_ns", "cpu", "phase", "task")}

SCHED_SOFTIRQ = 7
"""Its vector (SCHED_SOFTIRQ, include/linux/interrupt.h)."""

_OBSERVERS = re.compile(r"trace-cmd|perf(_\d[\d.]*|-exec)?|traced(_\w+)?")


def collectors(task_attr: Columns, names: Mapping[int, str]) -> set[int]:
    """Tasks that are the collector's own by their names, for where the capture lists none. Whole names: "perform" is
    somebody else's. Last names: what `perf record` or `trace-cmd record` runs begins under theirs.

    `task_attr`: task_id and comm at least, the rows of a task in the order of time. `names`: by comm.
    """
    comm, null = with_null(task_attr["comm"])
    tasks = with_null(task_attr["task_id"])[0]
    last = dict(zip(tasks[~null].tolist(), comm[~null].tolist(), strict=True))
    return {task for task, name in last.items() if _OBSERVERS.fullmatch(names.get(name, "")) is not None}


_NO_LISTS, _LISTS_TO_OTHER_LLCS = 0, 1
"""Values of Recorded.wake_lists."""

MIN_RANGE = 100
"""Fewest measured times from which a range or a median is taken; fewer fall back to a coarser group."""

_FAIR_POLICIES = {"batch": 1, "idle": 2}
"""FairPolicy (model/tasks.hpp) of those that do not compete as SCHED_OTHER does."""

_ON_A_CPU = re.compile(r"/\d+")
"""In the name of a kernel thread that is bound to a CPU."""


def batch(
    source: Source, index: int, *, probe: bool = True, more: Mapping[str, tuple[str, ...] | None] | None = None
) -> dict[str, Columns]:
    """The tables that the model reads; `probe`: with the placement probes; `more`: with these, or with these columns of
    theirs. `balance`: when the load balancer ran; `tick`: when local timers interrupted idle CPUs."""
    wanted = _MODEL_TABLES | _SOFTIRQ | (_PROBE if probe else {}) | dict(more or {})
    asked = wanted.get("irq", ())
    columns = None if asked is None else tuple(dict.fromkeys((*asked, *_IRQ)))
    found = tables(source, index, wanted | {"irq": columns})
    irq: Mapping[str, Any] = found.pop("irq") if asked == () else found["irq"]
    ticks = irq["entry"] & (irq["kind"] == ENUMS["irq_kind"].index("local_timer")) & (irq["curr_task"] == irq["cpu"])
    found["tick"] = {name: irq[name][ticks] for name in ("id", "ts_ns", "cpu")}
    softirq: Mapping[str, Any] = found.pop("softirq")
    balances = (softirq["vec"] == SCHED_SOFTIRQ) & (softirq["phase"] == ENUMS["softirq_phase"].index("entry"))
    found["balance"] = {name: softirq[name][balances] for name in ("id", "ts_ns", "cpu")}
    return found


def tables(source: Source, index: int, wanted: Mapping[str, tuple[str, ...] | None]) -> dict[str, Columns]:
    return {name: source.read_part(name, index, columns) for name, columns in wanted.items()}


def with_next(items: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    it = iter(items)
    try:
        current = next(it)
    except StopIteration:
        return
    for following in it:
        yield current, following
        current = following
    yield current, None


def rows_of(columns: Columns) -> list[dict[str, Any]]:
    """Small tables as rows; NULL is None."""
    lists = map(values_of, columns.values())
    return [dict(zip(columns, row, strict=True)) for row in zip(*lists, strict=True)]


def processes(source: Source) -> npt.NDArray[np.int64]:
    """By task: what its process is called; a number below 0 where none is known."""
    table = source.read("task", ("task_id", "tgid"))
    ids = np.asarray(table["task_id"])
    tgid, unknown = with_null(table["tgid"])
    out = -1 - np.arange(int(ids.max(initial=0)) + 1, dtype=np.int64)
    out[ids[~unknown]] = tgid[~unknown]
    return out


def capacities(source: Recording, n_cpus: int) -> list[int]:
    """By CPU; 1024 where it is not recorded."""
    known = {row["cpu"]: row["capacity"] for row in rows_of(source.read("cpu", ("cpu", "capacity")))}
    return [known.get(cpu) or 1024 for cpu in range(n_cpus)]


def by_capacity(source: Recording, n_cpus: int, cpu: npt.NDArray[Any], ns: npt.NDArray[Any]) -> list[int]:
    """Median of durations, by CPU: of those on CPUs of its capacity or, where these are few, of all, by their
    capacities. `cpu`: where each was."""
    if not len(ns):
        return [0] * n_cpus
    of_cpu = np.array(capacities(source, n_cpus))
    out = (np.median(ns * of_cpu[cpu]) / of_cpu).astype(np.int64)
    for value in np.unique(of_cpu):
        same = of_cpu[cpu] == value
        if same.sum() >= MIN_RANGE:
            out[of_cpu == value] = int(np.median(ns[same]))
    found: list[int] = out.tolist()
    return found


def _cpu_set(cpus: str) -> set[int]:
    """CPUs of a kernel list."""
    ends = (part.partition("-") for part in cpus.split(",") if part)
    return {cpu for first, _, last in ends for cpu in range(int(first), int(last or first) + 1)}


def cpus_in(cpus: str) -> int:
    """Number of CPUs in a kernel list."""
    return len(_cpu_set(cpus))


def _possible(mask: str, n_cpus: int) -> str:
    """Without CPUs above the machine's: where masks are not allocated by need, one of all CPUs lists those that the
    kernel was built for, which may be more than the engine takes."""
    return ",".join(map(str, sorted(c for c in _cpu_set(mask) if c < n_cpus))) or mask


def unrecorded_cpus(source: Source) -> set[int]:
    """CPUs whose events the capture left out on purpose (`rewake record --cpus`)."""
    kept = source.manifest.get("recorded_cpus")
    return set() if kept is None else {row["cpu"] for row in rows_of(source.read("cpu", ("cpu",)))} - set(kept)


def _without(domains: list[dict[str, Any]], left_out: set[int]) -> list[dict[str, Any]]:
    """The domains as if these CPUs were offline: without theirs, and without those that then add nothing to the one
    below (which the kernel drops too)."""
    if not left_out:
        return domains
    kept: list[dict[str, Any]] = []
    below: dict[int, set[int]] = {}
    for row in sorted(domains, key=lambda row: (row["cpu"], row["level"])):
        cpu, span = row["cpu"], _cpu_set(row["span"]) - left_out
        if cpu not in left_out and len(span) > len(below.get(cpu, {cpu})):
            below[cpu] = span
            level = sum(1 for k in kept if k["cpu"] == cpu)
            kept.append({**row, "level": level, "span": ",".join(map(str, sorted(span)))})
    return kept


def recorded_machine(
    source: Source, counts: Mapping[int, set[int]] | None = None, more: Sequence[str] = ()
) -> tuple[_engine.Recorded, int]:
    """The recording's machine and task tables as the engine takes them.

    `counts`: how many allowed CPUs probes saw, by task. No event tells of sched_setaffinity, so where the snapshot has
    another number its mask is not what was recorded. `more`: further CPU masks; also returns the number of the first.
    """
    cpus, domains = _hardware(source)
    masks = {",".join(str(r["cpu"]) for r in cpus if r["online"]): 0}
    tasks, acts = _task_columns(source, masks, counts or {})
    cgroup, no_cgroup = tasks["cgroup"]
    grouped = acts & ~no_cgroup
    groups, group_of = _task_groups(source, set(cgroup[grouped].tolist()))
    in_group = [group_of[c] if g else 0 for c, g in zip(cgroup.tolist(), grouped.tolist(), strict=True)]
    tasks["group"] = np.array(in_group, np.uint16)
    n_cpus = max((row["cpu"] for row in cpus), default=-1) + 1
    if n_cpus > _engine.MAX_CPUS:
        raise TraceError(f"a machine of {n_cpus} CPUs: at most {_engine.MAX_CPUS} are supported")
    try:
        machine = _engine.Recorded(cpus, domains, tasks, [_possible(m, n_cpus) for m in (*masks, *more)], groups)
    except ValueError as error:
        raise TraceError(
            f"the recorded machine contradicts itself: {error}; import with --topology to replace it"
        ) from error
    _as_its_kernel(machine, source.manifest)
    return machine, len(masks)


def _hardware(source: Source) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """CPUs, with `online`, and domains. One that nothing is known of is as one offline: nobody can be placed there."""
    cpus = rows_of(source.read("cpu"))
    state: dict[int, dict[str, Any]] = {}
    for row in rows_of(source.read("cpu_state", ("cpu", "from_ns", "online"))):
        state.setdefault(row["cpu"], row)
    left_out = unrecorded_cpus(source)
    for row in cpus:
        row["online"] = state.get(row["cpu"], {"online": True})["online"] and row["cpu"] not in left_out
    return cpus, _without(rows_of(source.read("domain")), left_out)


def _task_columns(
    source: Source, masks: dict[str, int], counts: Mapping[int, set[int]]
) -> tuple[dict[str, Any], Bools]:
    """What is known of each task, by its number, and whether anything happened to it. `masks`: numbers of the CPU
    masks, to which theirs are added; `counts`: see recorded_machine()."""
    task = source.read("task", ("task_id", "kthread", "observer", "first_ns"))
    ids = task["task_id"]
    assert isinstance(ids, np.ndarray)
    n = int(ids.max()) + 1 if len(ids) else 0
    kthread, observer, stopper, ext, allowed_recorded, policy_recorded = (np.zeros(n, np.bool_) for _ in range(6))
    fair_policy = np.zeros(n, np.uint8)
    cgroup, no_cgroup = np.zeros(n, np.uint32), np.ones(n, np.bool_)
    allowed = np.zeros(n, np.uint32)
    for name, column in (("kthread", kthread), ("observer", observer)):
        values, null = with_null(task[name])
        column[ids] = values & ~null
    unlisted = np.ones(n, np.bool_)
    unlisted[ids] = with_null(task["observer"])[1]
    names = {row["id"]: row["name"] for row in rows_of(source.read("comm"))}
    told = {comm: (name.startswith("migration/"), _ON_A_CPU.search(name) is not None) for comm, name in names.items()}
    policies, sources = ENUMS["policy_class"], ENUMS["attr_source"]
    attr = source.read("task_attr", ("task_id", "comm", "policy", "cgroup", "allowed", "source"))
    for i in collectors(attr, names):
        observer[i] |= unlisted[i]
    for row in rows_of(attr):
        i = row["task_id"]
        stops, on_a_cpu = told.get(row["comm"], (False, False))
        stopper[i] |= stops
        known = sources[row["source"]] != "inferred"
        if row["policy"] is not None:
            fair_policy[i] = _FAIR_POLICIES.get(policies[row["policy"]], 0)
            ext[i] = policies[row["policy"]] == "ext"
            policy_recorded[i] = known
        if row["allowed"] is not None:
            allowed[i] = masks.setdefault(row["allowed"], len(masks))
            allowed_recorded[i] = known or on_a_cpu
            if (seen := counts.get(i)) and seen != {cpus_in(row["allowed"])}:
                allowed_recorded[i] = False
        if row["cgroup"] is not None:
            cgroup[i], no_cgroup[i] = row["cgroup"], False
    acts = np.zeros(n, np.bool_)
    acts[ids] = ~with_null(task["first_ns"])[1]
    return {
        "kthread": kthread, "observer": observer, "stopper": stopper, "fair_policy": fair_policy, "ext": ext,
        "allowed_recorded": allowed_recorded, "policy_recorded": policy_recorded, "allowed": allowed,
        "cgroup": (cgroup, no_cgroup),
    }, acts  # fmt: skip


def _as_its_kernel(machine: _engine.Recorded, manifest: Mapping[str, Any]) -> None:
    """What the recorded kernel does otherwise than others (TaskTable, model/tasks.hpp, says what each is). An unknown
    one is taken for none of those that did something until some version."""
    kernel = kernel_version(manifest.get("kernel"))
    events = manifest.get("events") or {}
    machine.throttles_tasks = kernel >= (6, 18)
    machine.forks_weigh_full = (0, 0) < kernel < (6, 10)
    machine.leavers_decay = not (0, 0) < kernel < (6, 0)
    machine.sums_follow = (5, 10) <= kernel < (5, 17)  # 5.10 and 5.15 as distributions build them, by probes on both
    machine.estimates_ignore_waits = (0, 0) < kernel < (6, 8)
    machine.groups_weigh_empty = (0, 0) < kernel < (6, 12)
    if (0, 0) < kernel < (6, 7):
        machine.groups_tell_every = 0
    machine.preempts_lazily = preempts_lazily(manifest, kernel)
    features = manifest.get("features") or {}
    if not features.get("TTWU_QUEUE", True):
        machine.wake_lists = _NO_LISTS
    elif (0, 0) < kernel < (6, 0) and not (kernel == (5, 15) and "SIS_UTIL" in features):  # its stable tree took both
        machine.wake_lists = _LISTS_TO_OTHER_LLCS
    # Without sched_wakeup the other two tell where a wakeup was put; with one of them alone nothing does.
    machine.wakeups = tells_queued(manifest) or not events.keys() >= {"sched_waking", "sched_migrate_task"}


def tells_queued(manifest: Mapping[str, Any]) -> bool:
    """Whether it was recorded when a wakee was put on a run queue; perf sched does without (sched_wakeup)."""
    return "sched_wakeup" in (manifest.get("events") or {})


def tunable(manifest: Mapping[str, Any], name: str) -> int | None:
    """A number below /sys/kernel/debug/sched, all of them unsigned ints; None: not recorded, or not such a number."""
    text = str((manifest.get("sysctl") or {}).get(f"debug.sched.{name}"))
    value = int(text) if re.fullmatch(r"[0-9]{1,10}", text) else None
    return value if value is not None and value < 1 << 32 else None


def preempts_lazily(manifest: Mapping[str, Any], kernel: tuple[int, int]) -> bool:
    """Whether preempt=lazy is in force: by the snapshot, else what kernels come with that have no weaker one (7.0)."""
    mode = (manifest.get("sysctl") or {}).get("debug.sched.preempt")
    return kernel >= (7, 0) if mode is None else "(lazy)" in mode


def _task_groups(source: Source, used: set[int]) -> tuple[list[tuple[int, float, int, int]], dict[int, int]]:
    """Task groups, as the engine takes them, with the group of every cgroup of `used`.

    A cgroup is a task group where the cpu controller gives it a weight; tasks of others are in the nearest one above.
    Groups that no task of the recording is in, or below, are left out.
    """
    rows = {row["cgroup_id"]: row for row in rows_of(source.read("cgroup"))}

    def up(cgroup: int) -> list[int]:
        """The task groups from that cgroup up."""
        found: list[int] = []
        at = rows.get(cgroup)
        while at is not None and at["parent"] is not None and len(found) < len(rows):
            if at["weight"] is not None:
                found.append(at["cgroup_id"])
            at = rows.get(at["parent"])
        return found

    above: dict[int, list[int]] = {}
    for cgroup in used:
        chain = up(cgroup)
        above |= {c: chain[k + 1 :] for k, c in enumerate(chain)}
    order = sorted(above, key=lambda c: (len(above[c]), c))
    number = {c: k for k, c in enumerate(order, 1)}
    groups: list[tuple[int, float, int, int]] = [(0, 100, 0, 0)]
    for c in order:
        parent = number[above[c][0]] if above[c] else 0
        quota, period = rows[c]["quota_ns"], rows[c]["period_ns"]
        limit = (0, 0) if quota is None or period is None else (int(quota), int(period))
        weight, shares = rows[c]["weight"], rows[c]["shares"]
        groups.append((parent, weight if shares is None or weight == 0 else shares * 100 / 1024, *limit))
    return groups if order else [], {u: next((number[c] for c in up(u)), 0) for u in used}


def running(source: Source, n_cpus: int) -> list[tuple[int, int]]:
    """(CPU, task) at the start of the recording for CPUs whose first switch is not in the first part.

    Of a CPU that never switches the manifest of a slice knows it, or what was interrupted there.
    """
    silent = set(range(n_cpus))
    found: list[tuple[int, int]] = []
    for k in range(source.n_parts):
        switch = source.read_part("switch", k, ("cpu", "prev_task"))
        cpus, tasks = switch["cpu"], switch["prev_task"]
        assert isinstance(cpus, np.ndarray)
        assert isinstance(tasks, np.ndarray)
        present, first = np.unique(cpus, return_index=True)
        here = silent & set(present.tolist())
        if k:
            found += [(int(c), int(tasks[i])) for c, i in zip(present, first, strict=True) if int(c) in here]
        silent -= here
        if not silent:
            break
    said = {int(cpu): int(task) for cpu, task in source.manifest.get("running_at_start") or () if cpu in silent}
    return found + list((_interrupted(source, silent - said.keys()) | said).items())


def unswitched(source: Source, n_cpus: int) -> list[int]:
    """CPUs without a switch where records are of more than one task: sched_switch was not recorded there."""
    silent = set(range(n_cpus))
    for k in range(source.n_parts):
        silent -= set(np.unique(np.asarray(source.read_part("switch", k, ("cpu",))["cpu"])).tolist())
        if not silent:
            return []
    ran: dict[int, set[int]] = {cpu: set() for cpu in silent}
    for cpus, tasks in _current(source, silent, ("waking", "wakeup", "migrate", "irq", "softirq")):
        for cpu, task in np.unique(np.stack([cpus, tasks]), axis=1).T.tolist():
            ran[cpu].add(task)
    return sorted(cpu for cpu, found in ran.items() if len(found) > 1)


def _interrupted(source: Source, silent: set[int]) -> dict[int, int]:
    """What runs on CPUs that never switch, by what woke others there or was interrupted: one task all the time."""
    found: dict[int, int] = {}
    for cpus, tasks in _current(source, silent, ("waking", "irq", "softirq")):
        present, first = np.unique(cpus, return_index=True)
        for cpu, i in zip(present.tolist(), first, strict=True):
            found.setdefault(cpu, int(tasks[i]))
        if len(found) == len(silent):
            break
    return found


def _current(source: Source, cpus: set[int], tables: Sequence[str]) -> Iterator[tuple[Any, Any]]:
    """CPU and current task of the events on `cpus`, table by table of each part."""
    for k in range(source.n_parts if cpus else 0):
        for table in tables:
            columns = source.read_part(table, k, ("cpu", "curr_task"))
            at, tasks = (with_null(columns[name])[0] for name in ("cpu", "curr_task"))
            here = np.isin(at, list(cpus))
            yield at[here], tasks[here]
