# SPDX-License-Identifier: GPL-2.0-or-later
"""Drives the engine over a recording: decision records at import, open-loop replay afterwards.

Both read the event tables part by part and look one part ahead, so memory does not grow with the recording.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import rewake.replay._engine as _engine
from rewake.errors import TraceError, UsageError
from rewake.forms import ENUMS, INPUTS, Columns, Recording, RecordingWriter, RunWriter
from rewake.replay.spec import PolicySpec
from rewake.replay.sync import Bools, infer

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


def _batch(source: Source, index: int, irq: bool = False) -> dict[str, Columns]:
    """The tables that the model reads; `irq`: with the interrupts."""
    tables = {**_MODEL_TABLES, "irq": ("id", "ts_ns", "cpu", "entry")} if irq else _MODEL_TABLES
    return {name: source.read_part(name, index, columns) for name, columns in tables.items()}


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


def recorded_machine(source: Source) -> _engine.Recorded:
    """The recording's machine and task tables as the engine takes them."""
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


def build_decisions(writer: RecordingWriter, progress: Callable[[int, int], None] | None = None) -> None:
    """Writes the `decision` table and `migrate.cause` of a recording whose other tables are written.

    The manifest gets `replay`: counts of switches, resync, throttled, conflicts, prev_mismatch, late, skipped_events.
    """
    major, minor = kernel_version(writer.manifest.get("kernel"))
    parts = writer.n_parts
    has_waking = any(len(writer.read_part("waking", k, ("id",))["id"]) for k in range(min(parts, 2)))
    recorded = recorded_machine(writer)
    running = _running(writer, recorded.n_cpus)
    builder = _engine.DecisionBuilder(recorded, major, minor, has_waking, running)
    written = 0

    def take() -> None:
        nonlocal written
        while (part := builder.take()) is not None:
            writer.write_part("decision", written, part)
            written += 1

    def scanned(index: int) -> dict[str, Columns]:
        batch = _batch(writer, index)
        builder.scan(batch)
        return batch

    for k, (batch, _) in enumerate(_with_next(scanned(i) for i in range(parts))):
        causes = builder.run(batch)
        if len(causes):
            migrate = writer.read_part("migrate", k)
            writer.write_part("migrate", k, {**migrate, "cause": causes})
        take()
        if progress is not None:
            progress(k + 1, parts)
    builder.finish()
    take()
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


def _inferred(recording: Recording, topology_known: bool) -> int:
    """INPUTS that this recording leaves to inference or to a model, as bits."""
    always = {"sync", "load", "util", "has_idle_cores", "nr_idle_scan", "cfs_nr", "hot_clock", "capacity", "irq_load"}
    names = always if topology_known else always | {"domains"}
    return sum(1 << INPUTS.index(name) for name in names)


def _buckets(policy: str, metric: str, pairs: list[tuple[int | None, int]]) -> list[tuple[str, str, int | None, int]]:
    return [(policy, metric, bucket, n) for bucket, n in pairs]


class Loop:
    """The open loop over one recording: what does not depend on the policies is worked out once."""

    def __init__(self, recording: Recording, seed: int) -> None:
        self._recording, self._seed = recording, seed
        self._info: dict[str, dict[str, Any]] = {p["name"]: p for p in _engine.policies()}
        self._recorded = recorded_machine(recording)
        self._ranges = _idle_ranges(recording)
        self._running = _running(recording, self._recorded.n_cpus)
        cost = (recording.manifest.get("sysctl") or {}).get("debug.sched.migration_cost_ns")
        self.options = {
            "sync": False,
            "hz": int(recording.manifest.get("hz") or DEFAULT_HZ),
            "migration_cost": int(cost) if cost is not None else 500_000,
            "inferred": _inferred(recording, self._recorded.topology_known),
        }

    def about(self, spec: PolicySpec) -> dict[str, Any]:
        """Its description; UsageError when there is no such policy."""
        if spec.name not in self._info:
            raise UsageError(f"no policy {spec.name}; there are {', '.join(self._info)}")
        if spec.column is not None:
            raise UsageError(f"{spec}: hybrids (NAME@COLUMN) do not exist yet")
        return self._info[spec.name]

    def engine(self, specs: Sequence[PolicySpec], sync: bool) -> _engine.OpenLoop:
        wanted = [(s.name, dict(s.params)) for s in specs]
        self.options["sync"] = sync
        try:
            return _engine.OpenLoop(self._recorded, wanted, self._seed, self.options, *self._ranges, self._running)
        except ValueError as error:
            raise UsageError(str(error)) from error

    def run(
        self, engines: Sequence[_engine.OpenLoop], irq: bool, sync: Bools | None = None
    ) -> Iterator[tuple[int, Columns]]:
        """Runs the engines part by part; yields the part and its decisions. `sync`: WF_SYNC per decision."""
        recording = self._recording
        batches = (_batch(recording, k, irq) for k in range(recording.n_parts))
        first = 0
        for k, (batch, following) in enumerate(_with_next(batches)):
            decisions = recording.read_part("decision", k, _DECISION_COLUMNS)
            n = len(decisions["event_id"])
            if sync is not None:
                decisions = {**decisions, "sync": sync[first : first + n]}
            first += n
            for engine in engines:
                try:
                    engine.run(batch, following, decisions)
                except ValueError as error:
                    raise TraceError(f"{recording.path}: part {k}: {error}; import the trace again") from error
            yield k, decisions

    def infer_sync(self, column: PolicySpec) -> Bools:
        """WF_SYNC per decision from the recorded kernel's column asked under both values (replay/sync.py)."""
        irq = bool(self.about(column)["reads_irq"])
        engines = [self.engine([column], value) for value in (False, True)]
        found: list[tuple[npt.NDArray[Any], ...]] = []
        for _, decisions in self.run(engines, irq):
            agrees = []
            for engine in engines:
                known, undecided = engine.ledger(0)["known"]
                agrees.append(known & ~undecided)
            waker, no_waker = _with_null(decisions["waker_task"])
            context, no_context = _with_null(decisions["irq_ctx"])
            from_task = (context == 0) & ~no_context & ~no_waker
            wakee, _ = _with_null(decisions["task"])
            found.append((waker.copy(), wakee.copy(), from_task, *agrees))
        if not found:
            return np.zeros(0, np.bool_)
        return infer(*(np.concatenate(column) for column in zip(*found, strict=True)))


def _with_null(column: npt.NDArray[Any] | tuple[npt.NDArray[Any], Bools]) -> tuple[npt.NDArray[Any], Bools]:
    return column if isinstance(column, tuple) else (column, np.zeros(len(column), np.bool_))


def replay(
    recording: Recording,
    specs: Sequence[PolicySpec],
    writer: RunWriter,
    *,
    seed: int = 0,
    sync: str = "0",
    auto: PolicySpec | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Re-decides every decision of `recording` under each policy, in one pass.

    Fills `writer` (ledgers, buckets, manifest). `auto` is the instance that stands for the recorded kernel; `sync` is
    WF_SYNC of all wakeups, "0" or "1", or "auto" to infer it, which needs `auto`. Returns the manifest entries.
    UsageError for an unknown policy or parameter.
    """
    names = [str(s) for s in specs]
    if len(set(names)) != len(names):
        raise UsageError("a policy instance is given twice")
    loop = Loop(recording, seed)
    info = [loop.about(spec) for spec in specs]
    if sync == "auto" and auto is None:
        raise UsageError("--assume sync=auto needs the recorded kernel's own column, and there is none")
    flags = loop.infer_sync(auto) if sync == "auto" and auto is not None else None
    engine = loop.engine(specs, sync == "1")
    for k, _ in loop.run([engine], any(about["reads_irq"] for about in info), flags):
        for i, name in enumerate(names):
            writer.write_ledger(name, k, engine.ledger(i))
        if progress is not None:
            progress(k + 1, recording.n_parts)
    totals = engine.totals()
    buckets = _buckets("recorded", "recorded", engine.recorded_buckets())
    policies = []
    for spec, name, about, total in zip(specs, names, info, totals, strict=True):
        decided = total["decided"]
        policies.append(
            {
                "name": name,
                "base": spec.name,
                "params": spec.params,
                "label": "reference" if about["reference"] else "faithful",
                "reference": about["reference"],
                "decided": decided,
                "exposure": total["exposed"] / decided if decided else None,
                "self_collision": total["self_collision"],
                "branches": list(_engine.BRANCHES),
            }
        )
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
        "sync_share": float(flags.mean()) if flags is not None and len(flags) else None,
        "auto": None if auto is None else str(auto),
        "options": loop.options,
    }
    writer.manifest |= summary
    return summary
