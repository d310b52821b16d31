# SPDX-License-Identifier: GPL-2.0-or-later
"""Drives the engine over a recording: decision records at import, open-loop replay afterwards.

Both read the event tables part by part and look one part ahead, so memory does not grow with the recording.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import rewake.replay._engine as _engine
from rewake.errors import TraceError, UsageError
from rewake.forms import ENUMS, INPUTS, Columns, Recording, RecordingWriter, RunWriter
from rewake.replay import plugins, probes, scan
from rewake.replay.hints import HINTS, PROPOSED, Rules, TaskHints
from rewake.replay.spec import PolicySpec
from rewake.replay.sync import FIRST_FLIPS, Bools, Relations, Unseen, best

Source = Recording | RecordingWriter

_MODEL_TABLES: dict[str, tuple[str, ...] | None] = {
    "switch": None, "waking": None, "wakeup": None, "fork": None, "exec": ("id", "ts_ns", "cpu", "task"),
    "exit": ("id", "ts_ns", "cpu", "task"), "idle": None, "loss": ("id", "ts_ns", "cpu"),
    "migrate": ("id", "ts_ns", "cpu", "curr_task", "irq_ctx", "task", "prio", "orig_cpu", "dest_cpu"),
}  # fmt: skip
_DECISION_COLUMNS = (
    "event_id", "ts_ns", "kind", "class", "task", "waker_task", "waker_cpu", "irq_ctx", "prio", "prev_cpu",
    "chosen_cpu", "latency_ns", "low_confidence",
)  # fmt: skip

DEFAULT_HZ = 250
"""Tick rate when the recording does not say: what the distributions' kernels of this age use."""

_OBSERVERS = ("trace-cmd", "perf", "traced", "traced_probes")
_MIN_RANGE = 100
"""Fewest recorded wakeups from which a range of idle-target latencies is taken; fewer fall back to a coarser group."""


_KEPT_BYTES = 128 << 20
"""So much of a recording stays in memory where it is passed over several times."""

_IRQ = {"irq": ("id", "ts_ns", "cpu", "entry")}
_PROBE = {"probe": ("id", "ts_ns", "cpu", "phase", "task")}


def _batch(source: Source, index: int, *, probe: bool = True) -> dict[str, Columns]:
    """The tables that the model reads; `probe`: with the placement probes."""
    return _tables(source, index, _MODEL_TABLES | (_PROBE if probe else {}))


def _tables(source: Source, index: int, tables: Mapping[str, tuple[str, ...] | None]) -> dict[str, Columns]:
    return {name: source.read_part(name, index, columns) for name, columns in tables.items()}


def _bytes(columns: Columns) -> int:
    return sum(sum(a.nbytes for a in c) if isinstance(c, tuple) else c.nbytes for c in columns.values())


def _with_next(items: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
    it = iter(items)
    try:
        current = next(it)
    except StopIteration:
        return
    for following in it:
        yield current, following
        current = following
    yield current, None


def _rows(columns: Columns) -> list[dict[str, Any]]:
    """Small tables as rows; NULL is None."""
    lists: dict[str, list[Any]] = {}
    for name, value in columns.items():
        values, null = value if isinstance(value, tuple) else (value, None)
        out = values.tolist()
        if null is not None:
            out = [None if n else v for v, n in zip(out, null.tolist(), strict=True)]
        lists[name] = out
    return [dict(zip(lists, row, strict=True)) for row in zip(*lists.values(), strict=True)]


def kernel_version(release: str | None) -> tuple[int, int]:
    """(major, minor) of a kernel release such as '6.1.0-56-cloud-amd64'; (0, 0) when unknown."""
    match = re.match(r"(\d+)\.(\d+)", release or "")
    return (int(match[1]), int(match[2])) if match else (0, 0)


def _size(cpus: str) -> int:
    """Number of CPUs in a kernel list."""
    ends = (part.partition("-") for part in cpus.split(",") if part)
    return sum(int(last or first) - int(first) + 1 for first, _, last in ends)


def recorded_machine(source: Source, counts: Mapping[int, set[int]] | None = None) -> _engine.Recorded:
    """The recording's machine and task tables as the engine takes them.

    `counts`: how many allowed CPUs probes saw, by task. No event tells of sched_setaffinity, so where the snapshot has
    another number its mask is not what was recorded.
    """
    cpus = _rows(source.read("cpu"))
    state: dict[int, dict[str, Any]] = {}
    for row in _rows(source.read("cpu_state", ("cpu", "from_ns", "online"))):
        state.setdefault(row["cpu"], row)
    for row in cpus:
        row["online"] = state.get(row["cpu"], {"online": True})["online"]
    domains = _rows(source.read("domain"))
    task = source.read("task", ("task_id", "kthread", "observer"))
    ids = task["task_id"]
    assert isinstance(ids, np.ndarray)
    n = int(ids.max()) + 1 if len(ids) else 0
    kthread, observer, stopper, idle_policy, ext, allowed_recorded, policy_recorded = (
        np.zeros(n, np.bool_) for _ in range(7)
    )
    cgroup, no_cgroup = np.zeros(n, np.uint32), np.ones(n, np.bool_)
    allowed = np.zeros(n, np.uint32)
    masks = {",".join(str(r["cpu"]) for r in cpus if r["online"]): 0}
    for row in _rows(task):
        kthread[row["task_id"]], observer[row["task_id"]] = bool(row["kthread"]), bool(row["observer"])
    names = {row["id"]: row["name"] for row in _rows(source.read("comm"))}
    policies, sources = ENUMS["policy_class"], ENUMS["attr_source"]
    for row in _rows(source.read("task_attr")):
        i = row["task_id"]
        name = names.get(row["comm"], "")
        stopper[i] |= name.startswith("migration/")
        observer[i] |= name.startswith(_OBSERVERS)
        known = sources[row["source"]] != "inferred"
        if row["policy"] is not None:
            idle_policy[i] = policies[row["policy"]] == "idle"
            ext[i] = policies[row["policy"]] == "ext"
            policy_recorded[i] = known
        if row["allowed"] is not None:
            allowed[i] = masks.setdefault(row["allowed"], len(masks))
            allowed_recorded[i] = known or re.search(r"/\d+", name) is not None
            if (counts or {}).get(i, set()) - {_size(row["allowed"])}:
                allowed_recorded[i] = False
        if row["cgroup"] is not None:
            cgroup[i], no_cgroup[i] = row["cgroup"], False
    tasks = {
        "kthread": kthread, "observer": observer, "stopper": stopper, "idle_policy": idle_policy, "ext": ext,
        "allowed_recorded": allowed_recorded, "policy_recorded": policy_recorded, "allowed": allowed,
        "cgroup": (cgroup, no_cgroup),
    }  # fmt: skip
    try:
        return _engine.Recorded(cpus, domains, tasks, list(masks))
    except ValueError as error:
        raise TraceError(
            f"the recorded machine contradicts itself: {error}; import with --topology to replace it"
        ) from error


def _running(source: Source, n_cpus: int) -> list[tuple[int, int]]:
    """(CPU, task) at the start of the recording for CPUs whose first switch is not in the first part."""
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
    return found


def _decisions(source: Source, *, probe: bool) -> Iterator[tuple[_engine.DecisionBuilder, Any, list[Columns]]]:
    """Per part of the events and once at the end: the builder, causes of the part's migrations, finished parts."""
    major, minor = kernel_version(source.manifest.get("kernel"))
    parts = source.n_parts
    has_waking = any(len(source.read_part("waking", k, ("id",))["id"]) for k in range(min(parts, 2)))
    recorded = recorded_machine(source)
    running = _running(source, recorded.n_cpus)
    builder = _engine.DecisionBuilder(recorded, major, minor, has_waking, running)

    def finished() -> list[Columns]:
        return list(iter(builder.take, None))

    def scanned(index: int) -> dict[str, Columns]:
        batch = _batch(source, index, probe=probe)
        builder.scan(batch)
        return batch

    for batch, _ in _with_next(scanned(i) for i in range(parts)):
        causes = builder.run(batch)
        yield builder, causes, finished()
    builder.finish()
    yield builder, (), finished()


def decisions_of(source: Source, *, probe: bool = True) -> Iterator[Columns]:
    """The `decision` table's parts, worked out from the events; `probe`: and from the placement probes."""
    for _, _, parts in _decisions(source, probe=probe):
        yield from parts


def build_decisions(writer: RecordingWriter, progress: Callable[[int, int], None] | None = None) -> None:
    """Writes the `decision` table and `migrate.cause` of a recording whose other tables are written.

    The manifest gets `replay`: counts of switches, resync, throttled, conflicts, prev_mismatch, late, skipped_events.
    """
    written = 0
    n_parts = writer.n_parts
    for k, (builder, causes, parts) in enumerate(_decisions(writer, probe=True)):
        if len(causes):
            migrate = writer.read_part("migrate", k)
            writer.write_part("migrate", k, {**migrate, "cause": causes})
        for part in parts:
            writer.write_part("decision", written, part)
            written += 1
        if progress is not None and k < n_parts:
            progress(k + 1, n_parts)
        writer.manifest["replay"] = builder.counts()


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


def label(spec: PolicySpec, about: Mapping[str, Any], hints: int = 0) -> str:
    """What an instance stands for: reference, proposal (it follows a hint that no patch implements), hybrid (a seed on
    a column that is not its own), variant (a constant changed) or faithful (the kernel or the posting as it is)."""
    if about["reference"]:
        return "reference"
    followed = (hints | int(spec.params.get("hint", 0))) & int(about["hints"])
    if any(followed & HINTS[name] for name in PROPOSED):
        return "proposal"
    if about["hybrid"]:
        return "hybrid"
    fixed = {p["name"]: p["value"] for p in about["params"] if p["constant"]}
    return "variant" if any(spec.params.get(name, value) != value for name, value in fixed.items()) else "faithful"


def _check_hints(rules: Rules, specs: Sequence[PolicySpec], info: Sequence[Mapping[str, Any]]) -> None:
    followers = [(spec, int(about["hints"])) for spec, about in zip(specs, info, strict=True) if about["hints"]]
    if not followers:
        raise UsageError(f"{rules.name}: none of these policies follows hints; add --policy userspace-hints")
    for spec, follows in followers:
        lost = [name for name, bit in HINTS.items() if rules.used & bit & ~follows]
        if lost:
            raise UsageError(
                f"{rules.name}: {spec} cannot follow {', '.join(lost)}; rewake policies show {spec.policy}"
            )


def machine_notes(recording: Recording, specs: Sequence[PolicySpec], hints: int = 0) -> list[str]:
    """What these policies cannot show on this machine; `hints`: of a rules file."""
    cpus = _rows(recording.read("cpu", ("core", "capacity")))
    cores = [c["core"] for c in cpus if c["core"] is not None]
    seeds = {s.name: hints | int(s.params.get("hint", 0)) for s in specs}
    notes = []
    if seeds.get("userspace-hints", 0) & (HINTS["WAKE_AFFINE"] | HINTS["WAKE_HOLD"]) and len(set(cores)) == len(cores):
        notes.append(
            "no SMT: has_idle_cores is never set here, and without it no kernel follows WAKE_AFFINE or WAKE_HOLD"
        )
    if "asym-prefer-prev" in seeds and len({c["capacity"] for c in cpus}) == 1:
        notes.append("all CPUs have one capacity: asym-prefer-prev decides as its column")
    return notes


def hardirq_source(events: Mapping[str, int]) -> str:
    """Where the hardirq time of this recording comes from; `events`: the manifest's counts by event name."""
    vectors = [k for k in ENUMS["irq_kind"] if k != "device" and events.get(f"{k}_entry")]
    if events.get("irq_handler_entry"):
        if vectors:
            return "device handlers (irq_handler_entry, exit) and irq_vectors"
        return "device handlers only, a lower bound: no timer and no IPIs; record irq_vectors too"
    if vectors:
        return "irq_vectors only, a lower bound: no device interrupts; record irq:irq_handler_entry and exit too"
    return "none recorded, so no CPU is heavy; record irq:irq_handler_entry, irq_handler_exit and irq_vectors"


def _buckets(policy: str, metric: str, pairs: list[tuple[int | None, int]]) -> list[tuple[str, str, int | None, int]]:
    return [(policy, metric, bucket, n) for bucket, n in pairs]


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
        self._recorded = recorded_machine(recording, self._allowed_counts())
        self._ranges = _idle_ranges(recording)
        self._running = _running(recording, self._recorded.n_cpus)
        cost = (recording.manifest.get("sysctl") or {}).get("debug.sched.migration_cost_ns")
        hz = int(recording.manifest.get("hz") or DEFAULT_HZ)
        self.options = {
            "hz": hz,
            "tick_at": _tick_at(recording, hz),
            "migration_cost": int(cost) if cost is not None else 500_000,
            "inferred": _inferred(recording, self._recorded.topology_known),
            "exit_latency": _exit_latency(recording, self._recorded.n_cpus),
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
            return _engine.OpenLoop(self._recorded, wanted, self._seed, options, *self._ranges, self._running)
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
        for k, ((batch, decisions), ahead) in enumerate(_with_next(parts)):
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
                    engine.run(batch, following, passed)
                except ValueError as error:
                    raise TraceError(f"{recording.path}: part {k}: {error}; import the trace again") from error
            yield k, decisions

    def _part(self, k: int, irq: bool) -> tuple[dict[str, Columns], Columns]:
        """A part's events and decisions."""
        recording = self._recording
        if k in self._kept:
            batch, decisions = self._kept[k]
        else:
            batch = _batch(recording, k, probe=self.truth is not None)
            decisions = recording.read_part("decision", k, _DECISION_COLUMNS)
            size = sum(_bytes(columns) for columns in (*batch.values(), decisions))
            if size <= self._room:
                self._room -= size
                self._kept[k] = batch, decisions
        return (batch | _tables(recording, k, _IRQ) if irq else batch), decisions

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


def with_null(column: npt.NDArray[Any] | tuple[npt.NDArray[Any], Bools]) -> tuple[npt.NDArray[Any], Bools]:
    return column if isinstance(column, tuple) else (column, np.zeros(len(column), np.bool_))


def decide_alone(source: _engine.PolicySource, *, recording: str, asked: str, irq: bool) -> None:
    """Runs one policy over a recording, for the sake of what it does on the way (plugins). `asked`: file of what
    _ask_plugins pickled."""
    opened = Recording(recording)
    (seed, sync, auto, use_probes), unseen, hints = pickle.loads(Path(asked).read_bytes())
    loop = Loop(opened, seed, use_probes=use_probes)
    column = [] if auto is None else [auto]  # its decisions are part of the state
    engine = loop.engine([source, *column], sync, auto, 0 if unseen is None else unseen.first_flips)
    for _ in loop.run([engine], irq, unseen, None if hints is None else TaskHints(opened, hints)):
        pass


def _ask_plugins(
    recording: Recording,
    specs: Sequence[PolicySpec],
    folder: Path,
    settings: tuple[int, bool, PolicySpec | None, bool],
    unseen: Unseen | None,
    hints: Rules | None,
    timeout: float,
) -> dict[str, plugins.Answered]:
    """The answers of the plugins among `specs`, by instance; `settings`: seed, WF_SYNC, auto, use_probes."""
    wanted = [s for s in specs if s.is_plugin]
    if not wanted:
        return {}
    asked = folder / "asked"
    asked.write_bytes(pickle.dumps((settings, unseen, hints)))
    answered = {}
    for k, spec in enumerate(wanted):
        told = {
            "recording": str(recording.path.resolve()), "asked": str(asked),
            "irq": plugins.describe(spec.name).info()["reads_irq"],
        }  # fmt: skip
        answered[str(spec)] = plugins.decide(spec, told, recording.rows("decision"), folder / f"plugin-{k}", timeout)
    asked.unlink()
    return answered


def replay(
    recording: Recording,
    specs: Sequence[PolicySpec],
    writer: RunWriter,
    *,
    seed: int = 0,
    sync: str = "0",
    auto: PolicySpec | None = None,
    plugin_timeout: float = plugins.DEFAULT_TIMEOUT,
    use_probes: bool = True,
    hints: Rules | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Re-decides every decision of `recording` under each policy, in one pass.

    Fills `writer` (ledgers, buckets, manifest). `auto` is the instance that stands for the recorded kernel; `sync` is
    WF_SYNC of all wakeups, "0" or "1", or "auto" to infer it and wakee_flips at the start, which needs `auto`;
    `use_probes`: what placement probes recorded goes before all of that; `hints` are for the policies that follow them.
    Returns the manifest entries. UsageError for an unknown policy or parameter, and for hints that none of the policies
    follows, or one of them cannot. A plugin that fails, or that does not answer a call within `plugin_timeout` seconds,
    leaves its other decisions undecided; `problems` of its manifest entry then says so.
    """
    names = [str(s) for s in specs]
    if len(set(names)) != len(names):
        raise UsageError("a policy instance is given twice")
    loop = Loop(recording, seed, use_probes=use_probes)
    info = [loop.about(spec) for spec in specs]
    if sync == "auto" and auto is None:
        raise UsageError("--assume sync=auto needs the recorded kernel's own column, and there is none")
    if sync == "auto" and auto is not None and auto.is_plugin:
        raise UsageError(f"--assume sync=auto asks a column of rewake's own, and {auto} is a plugin")
    if hints is not None:
        _check_hints(hints, specs, info)
    given = None if hints is None else TaskHints(recording, hints)
    loop.engine([spec for spec in specs if not spec.is_plugin], False)  # a wrong parameter is told at once
    unseen = loop.infer(auto) if sync == "auto" and auto is not None else None
    flags = None if unseen is None else unseen.sync
    own = None if auto is None or auto.is_plugin or auto not in specs else auto
    settings = seed, sync == "1", own, use_probes
    answered = _ask_plugins(recording, specs, writer.part, settings, unseen, hints, plugin_timeout)
    engine = loop.engine(
        [answered[s].source if s in answered else spec for s, spec in zip(names, specs, strict=True)],
        sync == "1", auto, 0 if unseen is None else unseen.first_flips,
    )  # fmt: skip
    reads_irq = any(about["reads_irq"] for about in info)
    for k, _ in loop.run([engine], reads_irq, unseen, given):
        for i, name in enumerate(names):
            writer.write_ledger(name, k, engine.ledger(i))
        if progress is not None:
            progress(k + 1, recording.n_parts)
    totals = engine.totals()
    buckets = _buckets("recorded", "recorded", engine.recorded_buckets())
    policies = []
    for spec, name, about, total in zip(specs, names, info, totals, strict=True):
        decided = total["decided"]
        entry = {
            "name": name,
            "base": spec.name,
            "column": spec.column,
            "params": spec.params,
            "label": "plugin" if spec.is_plugin else label(spec, about, 0 if hints is None else hints.used),
            "reference": about["reference"],
            "decided": decided,
            "exposure": total["exposed"] / decided if decided else None,
            "self_collision": total["self_collision"],
            "by_energy": total["by_energy"],
            "branches": list(_engine.BRANCHES),
        }
        policies.append(entry | (answered[name].manifest() if name in answered else {}))
        buckets += _buckets(name, "lo", total["lo"]) + _buckets(name, "hi", total["hi"])
    values = np.array([b if b is not None else 0 for _, _, b, _ in buckets], np.int32)
    writer.write(
        "bucket",
        {
            "policy": np.array([p for p, _, _, _ in buckets], object),
            "metric": np.array([m for _, m, _, _ in buckets], object),
            "bucket": (values, np.array([b is None for _, _, b, _ in buckets], np.bool_)),
            "n": np.array([n for _, _, _, n in buckets], np.int64),
        },
    )
    summary: dict[str, Any] = {
        "policies": policies,
        "seed": seed,
        "sync": sync,
        "first_flips": 0 if unseen is None else unseen.first_flips,
        "sync_share": float(flags.mean()) if flags is not None and len(flags) else None,
        "auto": None if auto is None else str(auto),
        "probed": None if loop.truth is None else int((~loop.truth["probe_id"][1]).sum()),
        "hints": None if given is None else given.summary(),
        "notes": machine_notes(recording, specs, 0 if hints is None else hints.used),
        "hardirq": hardirq_source(recording.manifest.get("events") or {}) if reads_irq else None,
        "options": loop.options,
    }
    writer.manifest |= summary
    return summary
