# SPDX-License-Identifier: GPL-2.0-or-later
"""The open loop over one recording: engines run over its parts, and what no event carries inferred before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import rewake.replay._engine as _engine
from rewake.errors import TraceError, UsageError
from rewake.forms import ENUMS, INPUTS, TRUE, Columns, Recording, with_null
from rewake.replay import affinity, clocks, early, fair, hotplug, looks, order, plugins, probes, wake_lists
from rewake.replay.first_flips import FIRST_FLIPS, FirstFlips
from rewake.replay.hints import TaskHints
from rewake.replay.recorded import (
    CAUSES,
    MIN_RANGE,
    SCHED_SOFTIRQ,
    batch,
    by_capacity,
    capacities,
    recorded_machine,
    running,
    tables,
    tunable,
)
from rewake.replay.spec import PolicySpec
from rewake.replay.sync import wakers
from rewake.replay.unseen import Asked, Course, Unseen, infer, scan_values

Array = npt.NDArray[Any]

DECISION_COLUMNS = (
    "event_id", "ts_ns", "kind", "class", "task", "waker_task", "waker_cpu", "irq_ctx", "prio", "prev_cpu",
    "chosen_cpu", "latency_ns", "low_confidence",
)  # fmt: skip

DEFAULT_HZ = 250
"""Tick rate when the recording does not say: what the distributions' kernels of this age use."""
MOST_HZ = 10_000
"""Ten times that of any kernel."""

_ON_CPU_NS = 5_000
"""A task that was switched out so shortly before it is woken may still be on its CPU (policies.md C3.6a)."""

_SEARCH, _SEARCH_PROBED = 1.1, 0.9
"""Up to which events a search sees the machine, in parts of the time until its result is recorded (sched_migrate_task):
without placement probes, and where they take some of that time. It ends before its result is recorded, but what it sees
others record later (_LEAD_NS)."""

_LEAD_NS = 800, 600
"""How long before its event others see that a CPU of full capacity went idle, and that a task is queued: the run queue
changes first, then the tracepoint takes the time. As measured where clocks differ by 0.4 us at most; what a slow CPU
takes longer does not hang on whether probes time the search."""

_AGREED, _AGREED_PROBED = (400, 300), (200, 0)
"""The same, beyond what _SEARCH holds of it, on all CPUs of a recording whose clocks agree (clocks.py): what such
recordings come out best with. Others do no better with it."""

SCAN_CLOCKS = tuple(dict.fromkeys([
    _engine.SCAN_CLOCK, *((base, cpu) for base in (100, 200, 300, 400, 600, 1000, 2000) for cpu in (10, 25, 50, 100)),
]))  # fmt: skip
"""What an idle scan may cost, ns, and every CPU that it examines (SIS_PROP): what is taken where nothing is inferred of
it, then what is tried."""
_KEPT_BYTES = 128 << 20
"""So much of a recording stays in memory where it is passed over several times."""

_IRQ = {"irq": ("id", "ts_ns", "cpu", "entry")}


def _bytes(columns: Columns) -> int:
    return sum(sum(a.nbytes for a in c) if isinstance(c, tuple) else c.nbytes for c in columns.values())


def _idle_ranges(recording: Recording) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """[p1, p99] of the recorded latency on idle targets, by LLC relation of waker and target and by idle state.

    The lists are indexed by idle state; their last entry stands for an unknown state. Groups with fewer than MIN_RANGE
    wakeups take the range of the next coarser one; no idle target at all gives empty lists.
    """
    con = recording.connect(("decision", "cpu"))
    rows = con.execute(
        """
        WITH idle AS (
            SELECT coalesce(w.llc = c.llc, false) AS same, idle_state, latency_ns
            FROM decision d JOIN cpu w ON w.cpu = d.waker_cpu JOIN cpu c ON c.cpu = d.chosen_cpu
            WHERE class IN (0, 1) AND kind = 0 AND chosen_idle AND NOT censored AND latency_ns IS NOT NULL
        )
        SELECT same, CASE GROUPING(idle_state) WHEN 0 THEN coalesce(idle_state, -1) END, -- -1: in no state
            quantile_disc(latency_ns, [0.01, 0.99]) AS q, count(*) AS n
        FROM idle GROUP BY GROUPING SETS ((same, idle_state), (same), ())
        """
    ).fetchall()
    con.close()
    found = {(same, state): (q[0], q[1], n) for same, state, q, n in rows if q is not None}
    whole = found.get((None, None))
    if whole is None:
        return [], []
    states = min(max((s for _, s in found if s is not None), default=-1) + 1, 64)

    def ranges(same: bool) -> list[tuple[int, int]]:
        coarse = found.get((same, None))
        base = coarse if coarse is not None and coarse[2] >= MIN_RANGE else whole
        out = []
        for state in (*range(states), -1):
            fine = found.get((same, state))
            best = fine if fine is not None and fine[2] >= MIN_RANGE else base
            out.append((int(best[0]), int(best[1])))
        return out

    return ranges(True), ranges(False)


def _tick_at(recording: Recording, hz: int) -> int:
    """When some tick was: the commonest phase of the local timer's interrupts or, where none are recorded (they have
    tracepoints on x86 only), of the SCHED softirqs that ticks raise; 0 without either."""
    if not recording.n_parts:
        return 0
    irq: Any = recording.read_part("irq", 0, ("ts_ns", "kind", "entry"))
    found = irq["ts_ns"][(irq["kind"] == ENUMS["irq_kind"].index("local_timer")) & irq["entry"]]
    unit = 1_000
    if not len(found):
        softirq: Any = recording.read_part("softirq", 0, ("ts_ns", "vec", "phase"))
        entered = softirq["phase"] == ENUMS["softirq_phase"].index("entry")
        found = softirq["ts_ns"][(softirq["vec"] == SCHED_SOFTIRQ) & entered]
        unit = 10_000  # some time after the tick, not always the same
    if not len(found):
        return 0
    phase, n = np.unique(found % (1_000_000_000 // hz) // unit, return_counts=True)
    return int(phase[n.argmax()]) * unit


def _inferred(recording: Recording, topology_known: bool) -> int:
    """INPUTS that this recording leaves to inference or to a model, as bits."""
    always = {"sync", "load", "util", "has_idle_cores", "nr_idle_scan", "cfs_nr", "hot_clock", "capacity", "irq_load"}
    names = always if topology_known else always | {"domains"}
    if not recording.manifest.get("exit_latency_us"):
        names |= {"idle_state"}
    return sum(1 << INPUTS.index(name) for name in names)


def _inferred_columns(unseen: Unseen, here: slice) -> dict[str, Array]:
    """Of these decisions, as the engine takes them."""
    out: dict[str, Array] = {"sync": unseen.sync[here]}
    if unseen.flips is not None:
        out["flips"] = unseen.flips[here]
    if unseen.scan is not None:
        out["scan_waker"], out["scan_prev"] = (values[here] for values in unseen.scan)
    if unseen.turned is not None:
        out["turned"] = unseen.turned[here]
    if unseen.clock is not None:
        out["clock"] = unseen.clock[here]
    return out


def _exit_latency(recording: Recording, n_cpus: int) -> list[list[int]]:
    """Per CPU the exit latency of each cpuidle state; an empty list where it is not recorded."""
    latency = recording.manifest.get("exit_latency_us") or {}
    return [[int(n) for n in latency.get(str(cpu), ())] for cpu in range(n_cpus)]


def _left(recording: Recording, k: int, task: Array, event: Array) -> Array:
    """When each task was last switched out in that part, before the event; far in the past where it was not."""
    switch = recording.read_part("switch", k, ("id", "ts_ns", "prev_task"))
    key, ts = (with_null(switch["prev_task"])[0].astype(np.int64) << 40) + switch["id"], switch["ts_ns"]
    found: Array = np.full(len(task), np.iinfo(np.int64).min)
    if not len(key):
        return found
    order = np.argsort(key)
    at = np.searchsorted(key, (task << 40) + event, sorter=order) - 1
    last = order[at]
    here = (at >= 0) & (key[last] >> 40 == task)
    found[here] = np.asarray(ts)[last[here]]
    return found


def _placing(recording: Recording, n_cpus: int) -> list[int]:
    """Time from sched_waking to sched_migrate_task of the same placement, ns, by the waker's CPU: the median on CPUs of
    its capacity or, where these moved few, on all, by their capacities. Without those that waited for the wakee to
    leave its CPU."""
    cause = ENUMS["migrate_cause"].index("wake")
    before = {name: np.empty(0, np.int64) for name in ("cpu", "id", "task", "ts_ns")}
    took = [np.empty((2, 0), np.int64)]
    for k in range(recording.n_parts):
        migrate = recording.read_part("migrate", k, (*before, "cause"))
        why, unknown = with_null(migrate["cause"])
        moved = np.flatnonzero((why == cause) & ~unknown)
        here = recording.read_part("waking", k, tuple(before))
        waking = {n: np.concatenate([old, with_null(here[n])[0]]) for n, old in before.items()}
        order = np.argsort(waking["cpu"].astype(np.uint16), kind="stable")
        waking = {name: column[order] for name, column in waking.items()}
        cpu, event = waking["cpu"], waking["id"]
        last = np.flatnonzero(np.append(cpu[1:] != cpu[:-1], True)) if len(cpu) else order
        before = {name: column[last] for name, column in waking.items()}  # what comes before the next part's
        if not len(cpu):
            continue
        of = {name: with_null(migrate[name])[0][moved].astype(np.int64) for name in before}
        at = np.searchsorted((cpu << 48) + event, (of["cpu"] << 48) + of["id"]) - 1  # events are in order of their ids
        began = waking["ts_ns"][at]
        same = (at >= 0) & (cpu[at] == of["cpu"]) & (waking["task"][at] == of["task"])
        same &= _left(recording, k, of["task"], of["id"]) < began - _ON_CPU_NS
        took.append(np.stack([of["cpu"], of["ts_ns"] - began])[:, same])
    on, found = np.concatenate(took, axis=1)
    return by_capacity(recording, n_cpus, on, found)


def _settle(placing: list[int], lead: list[tuple[int, int]], *, probes: bool) -> list[int]:
    """From sched_waking to the last event of others, as they are brought forward, that its search sees, ns, by the
    waker's CPU. `placing`: as of _placing(); `probes`: these ran, whether or not they are used."""
    part = _SEARCH_PROBED if probes else _SEARCH
    early = lead or [(0, 0)] * len(placing)
    return [max(1, int(ns * part) - before) if ns else 0 for ns, (_, before) in zip(placing, early, strict=True)]


def _lead(
    recording: Recording, n_cpus: int, switched: int, queued: int, all_: tuple[int, int] = (0, 0)
) -> list[tuple[int, int]]:
    """How much longer than on a fast CPU others see a switch and a queued task before the event, ns, by CPU: a slow one
    takes longer from the one to the other. What it takes on a fast one (`switched`, `queued`) _SEARCH holds, but for
    `all_`. Empty where that is nothing and all CPUs are as fast."""
    capacity = capacities(recording, n_cpus)
    fast = max(capacity, default=1024)
    lead = [(all_[0] + switched * fast // of - switched, all_[1] + queued * fast // of - queued) for of in capacity]
    return lead if any(map(any, lead)) else []


class Loop:
    """The open loop over one recording: what does not depend on the policies is worked out once.

    `use_probes`: inputs that placement probes recorded go before reconstructed and inferred ones.
    """

    def __init__(self, recording: Recording, seed: int, *, use_probes: bool = True) -> None:
        self._recording, self._seed = recording, seed
        self._kept: dict[int, tuple[dict[str, Columns], Columns]] = {}
        self._room = 0
        seen = probes.truth(recording)
        self.truth = seen if use_probes else None
        online = int(np.asarray(recording.read("cpu", ("cpu",))["cpu"]).size)
        self.masks = (
            affinity.from_moves(recording, online)
            if self.truth is None
            else affinity.infer(recording, self.truth, self.names(), online)
        )
        more = [] if self.masks is None else self.masks.lists
        self.recorded, self._first_mask = recorded_machine(recording, self._allowed_counts(seen), more)
        self._decided = early.decided(recording, self.truth)
        self._ranges = _idle_ranges(recording)
        self.away = hotplug.away(recording)
        n_cpus = self.recorded.n_cpus
        placing = _placing(recording, n_cpus)
        # Without sched_waking (before 4.3) sched_wakeup opens decisions, and those keep their order.
        agree = clocks.agree(recording, n_cpus)
        self._agree, self._probed = agree and any(placing), seen is not None
        agree = agree and len(set(capacities(recording, n_cpus))) == 1  # the times below are of CPUs that are alike
        self.looks: looks.Looks | None = None
        """Of the searches; told by infer()."""
        more_lead = (_AGREED if self.truth is None else _AGREED_PROBED) if agree else (0, 0)
        lead = _lead(recording, n_cpus, *_LEAD_NS, more_lead) if any(placing) else []
        self._ahead = _LEAD_NS[0] - more_lead[0]
        seen_empty = wake_lists.seen_empty(recording)
        self._clearing = wake_lists.clearing(recording, n_cpus, agree=agree) if seen_empty else []
        self.running = running(recording, self.recorded.n_cpus)
        cost = tunable(recording.manifest, "migration_cost_ns")
        hz = int(recording.manifest.get("hz") or DEFAULT_HZ)
        if not 1 <= hz <= MOST_HZ:
            raise TraceError(f"{recording.path}/manifest.json: damaged (hz: {hz}): import the trace again")
        self.options = {
            "hz": hz,
            "tick_at": _tick_at(recording, hz),
            "clock_offset": int(recording.manifest.get("clock_offset_ns") or 0),
            "migration_cost": cost if cost is not None else 500_000,
            "inferred": _inferred(recording, self.recorded.topology_known),
            "exit_latency": _exit_latency(recording, self.recorded.n_cpus),
            "calls_seen": self.truth is not None,
            "energy_aware": recording.manifest.get("energy_aware") is True,
            "settle": _settle(placing, lead, probes=seen is not None),
            "lead": lead,
            "listing": list(
                zip(
                    *wake_lists.listing(recording, n_cpus, placing, probes=self.truth is not None, agree=agree),
                    strict=True,
                )
            ),
            "clearing": self._clearing,
            "shapes": hotplug.shapes(self.away),
        } | fair.settings(recording)
        self._delays_unseen = bool(self.options["delays"]) and self.truth is None

    def mask_changes(self) -> list[tuple[int, int, int]]:
        """When, which task, to which mask of the recorded machine: where moves tell of it (affinity.py)."""
        if self.masks is None:
            return []
        found = affinity.changes(self._recording, self.masks)
        return [(ts, task, 0 if number == affinity.ANY else self._first_mask + number) for ts, task, number in found]

    def _allowed_counts(self, truth: dict[str, probes.Nullable] | None) -> dict[int, set[int]]:
        """Also without use_probes: a mask that was not in force is not called recorded."""
        if truth is None:
            return {}
        values, null = truth["nallowed"]
        tasks = np.asarray(self._recording.read("decision", ("task",))["task"])
        seen: dict[int, set[int]] = {}
        for task, n in np.unique(np.stack([tasks, values], axis=1)[~null], axis=0).tolist():
            seen.setdefault(task, set()).add(n)
        return seen

    @staticmethod
    def about(spec: PolicySpec) -> dict[str, Any]:
        """Its description; UsageError when there is no such policy, or the seed has no meaning on that column."""
        if spec.is_plugin:
            return plugins.describe(spec.name).info()
        try:
            found: dict[str, Any] = _engine.policy(spec.policy)
        except ValueError as error:
            raise UsageError(str(error)) from error
        return found

    def engine(
        self,
        specs: Sequence[PolicySpec | _engine.PolicySource],
        sync: bool,
        own: PolicySpec | None = None,
        first_flips: Sequence[FirstFlips] = (FirstFlips(),),
        **more: Any,
    ) -> _engine.OpenLoop:
        """An engine of these policies. `own` stands for the recorded kernel: its private state follows the record.

        `sync`: WF_SYNC of every wakeup; `first_flips`: wakee_flips of tasks older than the recording, one value or
        those that Unseen.flips names. `more`: options.
        """
        wanted = [(s.policy, dict(s.params)) if isinstance(s, PolicySpec) else s for s in specs]
        flips = [tuple(f) for f in first_flips]
        options = self.options | {"sync": sync, "first_flips": flips, "own": [s == own for s in specs]} | more
        if self.looks is not None:
            options["looks"] = self.looks.lines
        try:
            return _engine.OpenLoop(self.recorded, wanted, self._seed, options, *self._ranges, self.running)
        except ValueError as error:
            raise UsageError(str(error)) from error

    def run(
        self,
        engines: Sequence[_engine.OpenLoop],
        irq: bool,
        unseen: Unseen | None = None,
        hints: TaskHints | None = None,
    ) -> Iterator[tuple[int, Columns]]:
        """Runs the engines part by part; yields the part and its decisions. `unseen`: inferred values; `hints`: of the
        tasks."""
        recording = self._recording
        first = 0
        start: int | None = None
        for k in range(recording.n_parts):
            following = self._first_switches(k + 1)
            events, decisions = self._part(k, irq)
            n = len(decisions["event_id"])
            here = slice(first, first + n)
            passed: dict[str, Any] = {**decisions}
            if unseen is not None:
                passed |= _inferred_columns(unseen, here)
                if unseen.before is not None:
                    passed["before"] = _inferred_columns(unseen.before, here)
            if self.masks is not None:
                passed["allowed"] = self.masks.of[here] + np.uint32(self._first_mask), self.masks.none[here]
            if self.looks is not None:
                start = int(np.asarray(decisions["ts_ns"])[0]) if start is None and n else start
                passed["looks"] = self.looks.line_of(decisions, start or 0)
            if self._decided is not None:
                passed["decided"] = self._decided[here]
            if self.truth is not None:
                passed["probes"] = {name: (values[here], null[here]) for name, (values, null) in self.truth.items()}
            first += n
            if hints is not None:
                passed["hint"] = hints.of(decisions)
            for engine in engines:
                try:
                    engine.run(events, following, passed)
                except ValueError as error:
                    raise TraceError(f"{recording.path}: part {k}: {error}; import the trace again") from error
            yield k, decisions
            del events, decisions, passed  # one part is in memory, not a second one

    def _first_switches(self, k: int) -> dict[str, Columns] | None:
        """Of each CPU in that part: what ran there as the part before it ended did so until then. None behind the last
        part."""
        if k == self._recording.n_parts:
            return None
        switch: dict[str, Any] = dict(self._recording.read_part("switch", k, ("id", "ts_ns", "cpu")))
        first = np.sort(np.unique(switch["cpu"], return_index=True)[1])
        return {"switch": {name: values[first] for name, values in switch.items()}}

    def _part(self, k: int, irq: bool) -> tuple[dict[str, Columns], Columns]:
        """A part's events and decisions."""
        recording = self._recording
        if k in self._kept:
            events, decisions = self._kept[k]
        else:
            events = batch(recording, k, probe=self.truth is not None, more=CAUSES if self.options["delays"] else None)
            if any(self._clearing):
                events["wake_list"] = wake_lists.interrupts(recording, k, self._clearing)
            decisions = recording.read_part("decision", k, DECISION_COLUMNS)
            if self._delays_unseen:
                decisions = {**decisions, "by_waker": wake_lists.by_waker(recording, k)}
            size = sum(_bytes(columns) for columns in (*events.values(), decisions))
            if size <= self._room:
                self._room -= size
                self._kept[k] = events, decisions
        return (events | tables(recording, k, _IRQ) if irq else events), decisions

    def infer(self, column: PolicySpec, mode: str = "auto", *, again: bool = True, scans: bool = True) -> Unseen:
        """What no event carries, from the recorded kernel's column asked under all of it (unseen.py). `again`: there
        will be another pass over the parts, for which some of them stay in memory, and with Unseen.turned; `scans`:
        with Unseen.scan."""
        self._room = _KEPT_BYTES if again else 0
        self.looks = None
        llc, unknown = with_null(self._recording.read("cpu", ("llc",))["llc"])
        llcs, dense, sizes = np.unique(llc, return_inverse=True, return_counts=True)
        values = [] if unknown.any() or self.truth is not None else scan_values(int(sizes.max()))
        tried = len(SCAN_CLOCKS) if self._goes_by_clock(column) else 0
        if tried:
            values = []
            self.options["scan_clocks"] = list(SCAN_CLOCKS)
        engine = self.engine(
            [column], False, column, FIRST_FLIPS, panel=True, panel_scans=values or list(range(1, tried)),
            panel_clocks=tried > 0, order_window=order.WINDOW_NS if again else 0,
        )  # fmt: skip
        searched = [np.empty(0, np.int16)]
        names = self.names()
        asked = self._asked(engine, column, names, dense.astype(np.uint16), searched)
        course = Course(
            lambda first: np.asarray(engine.wide_under([tuple(f) for f in first])),
            lambda base, tries, rows: engine.wide_apart(tuple(base), [tuple(f) for f in tries], rows),
        )
        found = infer(
            asked, mode, values if scans else [], len(llcs), names, course, before=again, clocks=tried if scans else 0
        )
        examined = np.concatenate(searched)
        if again and self._agree and mode == "auto":
            # Also where no fold is told anything: whether another is may hang on this one's outcomes.
            self.looks = looks.calibrate(
                self._recording, examined, self.truth, probed=self._probed,
                capacity=capacities(self._recording, self.recorded.n_cpus), ahead=self._ahead,
            )  # fmt: skip
        return found._replace(searched=examined)

    def _goes_by_clock(self, column: PolicySpec) -> bool:
        """Its searches are bounded by what they cost, as the kernel measures it (SIS_PROP)."""
        default = next((p["value"] for p in self.about(column)["params"] if p["name"] == "SIS_PROP"), "0")
        return dict(column.params).get("SIS_PROP", default).lower() in TRUE

    def _asked(
        self, engine: _engine.OpenLoop, column: PolicySpec, names: Array, llc: Array, searched: list[Array]
    ) -> Iterator[Asked]:
        """The panel's answers, part by part; adds to `searched`. `llc`: by CPU."""
        for _, decisions in self.run([engine], bool(self.about(column)["reads_irq"])):
            waker, may = wakers(decisions, names)
            answers = engine.answers()
            searched.append(answers.pop("scanned"))
            cpus = (with_null(decisions[name]) for name in ("waker_cpu", "prev_cpu"))
            on, before = (np.where(null, 0, cpu) for cpu, null in cpus)
            yield Asked(
                ts=np.array(decisions["ts_ns"]),
                waker=waker.astype(np.uint32),
                wakee=with_null(decisions["task"])[0],
                may=may,
                llc_waker=llc[on],
                llc_prev=llc[before],
                pair=on.astype(np.uint32) << np.uint32(16) | before.astype(np.uint32),
                **answers,
            )

    def names(self) -> npt.NDArray[np.int64]:
        """The comm of every task, the last one; 0 without. And at the end one of its own, for softirqs that wake."""
        read = self._recording.read("task_attr", ("task_id", "comm"))
        (task, _), (comm, unknown) = with_null(read["task_id"]), with_null(read["comm"])
        known = np.asarray(self._recording.read("task", ("task_id",))["task_id"])
        out = np.zeros(max(int(known.max(initial=0)), int(task.max(initial=0))) + 2, np.int64)
        out[task[~unknown]] = comm[~unknown].astype(np.int64) + 1
        out[-1] = out.max(initial=0) + 1
        return out
