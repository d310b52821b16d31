# SPDX-License-Identifier: GPL-2.0-or-later
"""The open loop over one recording: engines run over its parts, and what no event carries inferred before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import rewake.replay._engine as _engine
from rewake.errors import TraceError, UsageError
from rewake.forms import ENUMS, INPUTS, Columns, Recording
from rewake.replay import plugins, probes, scan
from rewake.replay.hints import TaskHints
from rewake.replay.recorded import batch, recorded_machine, running, tables, with_next, with_null
from rewake.replay.spec import PolicySpec
from rewake.replay.sync import FIRST_FLIPS, Bools, Relations, Unseen, best

DECISION_COLUMNS = (
    "event_id", "ts_ns", "kind", "class", "task", "waker_task", "waker_cpu", "irq_ctx", "prio", "prev_cpu",
    "chosen_cpu", "latency_ns", "low_confidence",
)  # fmt: skip

DEFAULT_HZ = 250
"""Tick rate when the recording does not say: what the distributions' kernels of this age use."""

_MIN_RANGE = 100
"""Fewest recorded wakeups from which a range of idle-target latencies is taken; fewer fall back to a coarser group."""

_KEPT_BYTES = 128 << 20
"""So much of a recording stays in memory where it is passed over several times."""

_IRQ = {"irq": ("id", "ts_ns", "cpu", "entry")}


def _bytes(columns: Columns) -> int:
    return sum(sum(a.nbytes for a in c) if isinstance(c, tuple) else c.nbytes for c in columns.values())


def _idle_ranges(recording: Recording) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """[p1, p99] of the recorded latency on idle targets, by LLC relation of waker and target and by idle state.

    The lists are indexed by idle state; their last entry stands for an unknown state. Groups with fewer than _MIN_RANGE
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
        SELECT same, idle_state, quantile_disc(latency_ns, [0.01, 0.99]) AS q, count(*) AS n
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
        base = coarse if coarse is not None and coarse[2] >= _MIN_RANGE else whole
        out = []
        for state in range(states):
            fine = found.get((same, state))
            best = fine if fine is not None and fine[2] >= _MIN_RANGE else base
            out.append((int(best[0]), int(best[1])))
        return [*out, (int(base[0]), int(base[1]))]

    return ranges(True), ranges(False)


def _tick_at(recording: Recording, hz: int) -> int:
    """When some tick was: the commonest phase of the local timer's interrupts; 0 where none are recorded."""
    if not recording.n_parts:
        return 0
    irq = recording.read_part("irq", 0, ("ts_ns", "kind", "entry"))
    ts, kind, entry = irq["ts_ns"], irq["kind"], irq["entry"]
    assert isinstance(ts, np.ndarray)
    assert isinstance(kind, np.ndarray)
    assert isinstance(entry, np.ndarray)
    timer = ts[(kind == ENUMS["irq_kind"].index("local_timer")) & entry]
    if not len(timer):
        return 0
    phase, n = np.unique(timer % (1_000_000_000 // hz) // 1000, return_counts=True)
    return int(phase[n.argmax()]) * 1000


def _inferred(recording: Recording, topology_known: bool) -> int:
    """INPUTS that this recording leaves to inference or to a model, as bits."""
    always = {"sync", "load", "util", "has_idle_cores", "nr_idle_scan", "cfs_nr", "hot_clock", "capacity", "irq_load"}
    names = always if topology_known else always | {"domains"}
    if not recording.manifest.get("exit_latency_us"):
        names |= {"idle_state"}
    return sum(1 << INPUTS.index(name) for name in names)


def _exit_latency(recording: Recording, n_cpus: int) -> list[list[int]]:
    """Per CPU the exit latency of each cpuidle state; an empty list where it is not recorded."""
    latency = recording.manifest.get("exit_latency_us") or {}
    return [[int(n) for n in latency.get(str(cpu), ())] for cpu in range(n_cpus)]


def _settle(recording: Recording) -> int:
    """Time from sched_waking to sched_migrate_task of the same placement: the median of those that moved, ns."""
    con = recording.connect(("migrate", "waking"))
    try:
        found = con.execute(
            """
            SELECT median(m.ts_ns - w.ts_ns)
            FROM (SELECT * FROM migrate WHERE cause = ?) m
            ASOF JOIN waking w ON m.cpu = w.cpu AND m.id > w.id WHERE m.task = w.task
            """,
            [ENUMS["migrate_cause"].index("wake")],
        ).fetchall()
    finally:
        con.close()
    return int(found[0][0] or 0)


class Loop:
    """The open loop over one recording: what does not depend on the policies is worked out once.

    `use_probes`: inputs that placement probes recorded go before reconstructed and inferred ones.
    """

    def __init__(self, recording: Recording, seed: int, *, use_probes: bool = True) -> None:
        self._recording, self._seed = recording, seed
        self._kept: dict[int, tuple[dict[str, Columns], Columns]] = {}
        self._room = 0
        self.truth = probes.truth(recording) if use_probes else None
        self.recorded = recorded_machine(recording, self._allowed_counts())
        self._ranges = _idle_ranges(recording)
        self.running = running(recording, self.recorded.n_cpus)
        cost = (recording.manifest.get("sysctl") or {}).get("debug.sched.migration_cost_ns")
        hz = int(recording.manifest.get("hz") or DEFAULT_HZ)
        self.options = {
            "hz": hz,
            "tick_at": _tick_at(recording, hz),
            "migration_cost": int(cost) if cost is not None else 500_000,
            "inferred": _inferred(recording, self.recorded.topology_known),
            "exit_latency": _exit_latency(recording, self.recorded.n_cpus),
            "energy_aware": recording.manifest.get("energy_aware") is True,
            "settle": _settle(recording),
        }

    def _allowed_counts(self) -> dict[int, set[int]]:
        if self.truth is None:
            return {}
        values, null = self.truth["nallowed"]
        tasks = np.asarray(self._recording.read("decision", ("task",))["task"])
        seen: dict[int, set[int]] = {}
        for task, n in np.unique(np.stack([tasks, values], axis=1)[~null], axis=0).tolist():
            seen.setdefault(task, set()).add(n)
        return seen

    def about(self, spec: PolicySpec) -> dict[str, Any]:
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
        first_flips: int = 0,
        **more: Any,
    ) -> _engine.OpenLoop:
        """An engine of these policies. `own` stands for the recorded kernel: its private state follows the record.

        `sync`, `first_flips`: WF_SYNC of every wakeup, wakee_flips of tasks older than the recording. `more`: options.
        """
        wanted = [(s.policy, dict(s.params)) if isinstance(s, PolicySpec) else s for s in specs]
        options = self.options | {"sync": sync, "first_flips": first_flips, "own": [s == own for s in specs]} | more
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
        parts = (self._part(k, irq) for k in range(recording.n_parts))
        for k, ((events, decisions), ahead) in enumerate(with_next(parts)):
            following = None if ahead is None else ahead[0]
            n = len(decisions["event_id"])
            here = slice(first, first + n)
            passed: dict[str, Any] = {**decisions}
            if unseen is not None:
                passed["sync"] = unseen.sync[here]
            if unseen is not None and unseen.scan is not None:
                passed["scan_waker"], passed["scan_prev"] = (values[here] for values in unseen.scan)
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

    def _part(self, k: int, irq: bool) -> tuple[dict[str, Columns], Columns]:
        """A part's events and decisions."""
        recording = self._recording
        if k in self._kept:
            events, decisions = self._kept[k]
        else:
            events = batch(recording, k, probe=self.truth is not None)
            decisions = recording.read_part("decision", k, DECISION_COLUMNS)
            size = sum(_bytes(columns) for columns in (*events.values(), decisions))
            if size <= self._room:
                self._room -= size
                self._kept[k] = events, decisions
        return (events | tables(recording, k, _IRQ) if irq else events), decisions

    def infer(self, column: PolicySpec) -> Unseen:
        """What no event carries, from the recorded kernel's column asked under all of it (sync.py, scan.py)."""
        self._room = _KEPT_BYTES  # there will be three passes over the parts
        irq = bool(self.about(column)["reads_irq"])
        assumes = [(sync, flips, -1) for flips in FIRST_FLIPS for sync in (False, True)]
        engine = self.engine([column] * len(assumes), False, column, assumes=assumes, panel=True)
        found: list[list[npt.NDArray[Any]]] = []
        for _, decisions in self.run([engine], irq):
            waker, no_waker = with_null(decisions["waker_task"])
            context, no_context = with_null(decisions["irq_ctx"])
            wakee, _ = with_null(decisions["task"])
            row = [waker.copy(), wakee.copy(), (context == 0) & ~no_context & ~no_waker]
            row += [engine.answers()["nr_idle_scan"], *_agreed(engine.answers()["agreed"], len(assumes))]
            found.append(row)
        if not found:
            return Unseen(np.zeros(0, np.bool_), 0)
        waker, wakee, from_task, model, *agrees = (np.concatenate(column) for column in zip(*found, strict=True))
        relations = Relations(waker, wakee, from_task)
        tried: list[tuple[int, Bools, Bools, Bools]] = []
        for flips, clear, set_ in zip(FIRST_FLIPS, agrees[::2], agrees[1::2], strict=True):
            if not any(np.array_equal(clear, c) and np.array_equal(set_, s) for _, _, c, s in tried):
                tried.append((flips, relations.infer(clear, set_), clear, set_))
        unseen = best(tried)
        return unseen if self.truth is not None else unseen._replace(scan=self._scan(column, unseen, model))

    def _scan(
        self, column: PolicySpec, unseen: Unseen, model: npt.NDArray[np.int32]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]] | None:
        """nr_idle_scan of the waker's and of prev's LLC; None without such a bound or without LLCs."""
        llc, unknown = with_null(self._recording.read("cpu", ("llc",))["llc"])
        if unknown.any():
            return None
        values = scan.candidates(int(np.unique(llc, return_counts=True)[1].max()))
        assumes = [(False, unseen.first_flips, value) for value in values]
        engine = self.engine([column] * len(values), False, column, assumes=assumes, panel=True)
        bit = 1 << INPUTS.index("nr_idle_scan")
        kept: list[tuple[npt.NDArray[Any], ...]] = []
        for _, decisions in self.run([engine], bool(self.about(column)["reads_irq"]), unseen):
            answers = engine.answers()
            looked = answers["decided"] & (answers["looked"] & bit > 0)
            at = np.where(looked, answers["cpu"], 0)
            waker, prev = (with_null(decisions[name]) for name in ("waker_cpu", "prev_cpu"))
            kept.append(
                (
                    np.asarray(decisions["ts_ns"]),
                    np.where(looked, llc[at].astype(np.int64), -1),
                    llc[np.where(waker[1], 0, waker[0])],
                    llc[np.where(prev[1], 0, prev[0])],
                    np.stack(_agreed(answers["agreed"], len(values))),
                )
            )
        ts, searched, of_waker, of_prev, agrees = (
            np.concatenate(column, axis=-1) for column in zip(*kept, strict=True)
        )
        if not (searched >= 0).any():
            return None
        last = scan.carried(of_prev, of_waker, model)
        return (
            scan.infer(ts, searched, of_waker, agrees, values, last),
            scan.infer(ts, searched, of_prev, agrees, values, model),
        )


def _agreed(bits: npt.NDArray[np.uint64], n: int) -> list[Bools]:
    """Per policy of a panel, whether it decided what was recorded."""
    octets = bits.astype("<u8", copy=False).view(np.uint8).reshape(-1, 8)
    return [(octets[:, i // 8] & (1 << i % 8)) > 0 for i in range(n)]
