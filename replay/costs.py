# SPDX-License-Identifier: GPL-2.0-or-later
"""What the recording says of times that a simulation needs: costs of wakeups, interrupts, pulls, unseen decisions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

import rewake.replay._engine as _engine
from rewake.forms import ENUMS, Recording, sparingly
from rewake.replay.computing import LAZILY
from rewake.replay.handlers import Handlers
from rewake.replay.ranks import Ranks
from rewake.replay.recorded import tells_queued
from rewake.replay.segments import CHUNK, SEGMENT, Growing, Thinned, pieces_of

if TYPE_CHECKING:
    import duckdb

Array = npt.NDArray[Any]
Columns = dict[str, Array]

ON_CPU = 5_000
"""A task that is woken so soon after its switch-out, or before it, may be on its CPU still, ns (kOnCpu)."""

TARGETS = 32
"""As target_of() numbers them (engine/closed/costs.hpp)."""

PREEMPT_LIMIT = 200_000
"""A task that took the CPU from another after a longer wait than this was let on by a tick, not by its wakeup, ns."""

_PLACED = [ENUMS["decision_class"].index(name) for name in ("moved", "stayed")]

PATHS = ("idle", "busy", "preempt", "fork", "on_cpu", "in_call")

_PREEMPTS = ("preempt", "in_call")
"""Of these paths: the wakee takes the CPU from what runs there."""

_TOLD = "wakeup_ns"
_UNTOLD = """
least(latency_ns, CASE
    WHEN chosen_idle THEN latency_ns
    ELSE (SELECT coalesce(median(latency_ns), 0) FROM decision WHERE chosen_idle AND kind < 2 AND NOT censored)
END)::BIGINT // 2
"""
"""When a wakee was queued. Without sched_wakeup (perf sched) nothing tells: a model. Of its time to an idle CPU half is
until the run queue (51 to 63 % in the lab), and to a busy one it takes as long."""

_FAR = """
SELECT
    d.decision_id,
    d.ts_ns,
    d.kind,
    d.waker_cpu = d.chosen_cpu AS same_cpu,
    coalesce(w.llc = c.llc, d.waker_cpu = d.chosen_cpu) AS same_llc,
    coalesce(d.irq_ctx = 0, true) AS in_task,
    d.chosen_idle,
    CASE WHEN d.chosen_idle AND d.idle_state IS NOT NULL THEN least(d.idle_state, 2) + 1 ELSE 0 END AS state,
    CASE WHEN c.capacity < 768 THEN 4 ELSE 0 END
        + CASE WHEN d.chosen_cpu <> d.prev_cpu THEN 8 ELSE 0 END AS target,
    d.class NOT IN ({placed}) AS bypassed,
    d.wakeup_ns AS queue_ns,
    d.latency_ns - d.wakeup_ns AS run_ns,
    d.chosen_cpu,
    d.waker_cpu,
    s.prev_task < {cpus} AS from_idle,
    s.prev_task,
    s.prev_state < 2 AS preempted,
    d.chosen_cpu = d.prev_cpu AS stayed,
    d.ran_cpu = d.chosen_cpu AS here,
    coalesce(lead(d.ts_ns + d.wakeup_ns) OVER queue < d.ts_ns + d.latency_ns, false) AS joined,
    d.task,
    s.ts_ns AS ran_ns
FROM (SELECT * REPLACE ({queued} AS wakeup_ns) FROM decision) AS d
JOIN cpu w ON w.cpu = d.waker_cpu
JOIN cpu c ON c.cpu = d.chosen_cpu
JOIN switch s ON s.next_task = d.task AND s.ts_ns = d.ts_ns + d.latency_ns AND s.cpu = d.ran_cpu
WHERE d.kind < 2 AND NOT d.censored AND d.wakeup_ns >= 0 AND d.latency_ns >= d.wakeup_ns AND d.prio >= 100
WINDOW queue AS (PARTITION BY d.chosen_cpu ORDER BY d.ts_ns + d.wakeup_ns, d.decision_id)
"""

_SLEPT = """
SELECT
    far.*,
    {told} AND NOT same_cpu
        AND coalesce(k.waker_task = far.prev_task AND k.end_ns > far.ts_ns + far.queue_ns, false) AS in_call,
    coalesce(greatest(far.ran_ns - k.end_ns, 0), 0) AS left_call_ns,
    stayed AND coalesce(far.ts_ns - o.ts_ns < {on_cpu}, false) AS on_cpu,
    coalesce(greatest(o.ts_ns - far.ts_ns, 0), 0) AS to_leave
FROM far ASOF LEFT JOIN (SELECT prev_task, ts_ns FROM switch WHERE prev_state >= 2) AS o
    ON o.prev_task = far.task AND o.ts_ns <= far.ran_ns
ASOF LEFT JOIN (
    SELECT d.waker_cpu, d.waker_task, d.ts_ns, d.ts_ns + d.wakeup_ns AS end_ns
    FROM decision AS d JOIN cpu w ON w.cpu = d.waker_cpu JOIN cpu c ON c.cpu = d.chosen_cpu
    WHERE d.kind = 0 AND d.irq_ctx = 0 AND d.wakeup_ns >= 0
        AND (d.waker_cpu = d.chosen_cpu OR (w.llc = c.llc AND NOT d.chosen_idle))
) AS k ON k.waker_cpu = far.chosen_cpu AND k.ts_ns <= far.ts_ns + far.queue_ns
"""

_COSTS = """
SELECT
    decision_id,
    ts_ns,
    CASE WHEN same_cpu THEN 0 WHEN same_llc THEN 1 ELSE 2 END AS relation,
    in_task,
    target + CASE
        WHEN NOT on_cpu THEN state
        ELSE CASE WHEN chosen_idle OR (from_idle AND here) THEN 0 ELSE 1 END + CASE WHEN to_leave > 0 THEN 1 ELSE 0 END
    END + CASE WHEN bypassed AND NOT (on_cpu AND (chosen_idle OR (from_idle AND here))) THEN 16 ELSE 0 END AS target,
    CASE WHEN on_cpu THEN greatest(queue_ns, to_leave) ELSE queue_ns END AS queue_ns,
    CASE WHEN on_cpu THEN to_leave ELSE 0 END AS leave_ns, run_ns, chosen_cpu, waker_cpu,
    NOT here OR NOT from_idle OR joined AS late,
    chosen_idle AND kind = 0 AND NOT on_cpu AS is_idle,
    NOT chosen_idle AND kind = 0 AND NOT (on_cpu AND here AND from_idle) AS is_busy,
    (chosen_idle OR (from_idle AND here)) AND kind = 0 AND on_cpu AS is_on_cpu,
    NOT from_idle AND preempted AND run_ns <= CASE WHEN same_llc AND NOT same_cpu THEN {near} ELSE {limit} END
        AND kind = 0 AND here AS preempts,
    preempts AND NOT in_call AS is_preempt,
    preempts AND in_call AS is_in_call,
    left_call_ns,
    kind = 1 AS is_fork
FROM slept WHERE ts_ns >= ? AND ts_ns < ? ORDER BY ts_ns, queue_ns, run_ns
"""
"""`late`: another wakee was queued before it ran, or it was taken elsewhere: until it ran is no cost then. For one that
had not quite left its CPU, the state says whether it was woken before its switch-out (`leave_ns` before it, part of the
queue time: the waker prepares the wakeup meanwhile), plus one where the CPU runs another already. `in_call`: when the
wakee was queued, what ran there was waking somebody, whom it queued itself (idle CPUs and other LLCs do so themselves).
It finished that first, `left_call_ns` before the switch. Where nothing tells when wakees were queued, nobody was."""


_SORTED = "CREATE OR REPLACE TEMP TABLE wakeup_costs AS " + _COSTS

_RACES = """
WITH pairs AS (
    SELECT
        ts_ns, waker_cpu, class, chosen_idle,
        lag(ts_ns) OVER earlier AS first_ns,
        lag(wakeup_ns) OVER earlier AS queue_ns,
        lag(waker_cpu) OVER earlier AS first_waker,
        lag(chosen_idle) OVER earlier AS first_idle
    FROM decision WHERE kind = 0 AND prio >= 100
    WINDOW earlier AS (PARTITION BY chosen_cpu ORDER BY ts_ns, decision_id)
),

races AS (
    SELECT ts_ns - first_ns AS after, first_ns + queue_ns - ts_ns AS before, waker_cpu <> first_waker AS other
    FROM pairs
    WHERE class = {moved} AND NOT chosen_idle AND first_idle AND ts_ns - first_ns <= queue_ns
)

SELECT
    count(*),
    count(*) FILTER (WHERE other AND after < before),
    avg(after) FILTER (WHERE other AND after < before),
    count(*) FILTER (WHERE NOT other AND after >= before),
    quantile_cont(before, 0.95) FILTER (WHERE after >= before)
FROM races
"""
"""A task is sent to a CPU that was idle, and before it is on the run queue there, another is. Either the second waker
looked before the first had told (of wakers on two CPUs), or while the CPU took in what it was told and, until 6.1,
showed neither that it had been told nor a task (seen where one waker sends both)."""

_WAITS = """
WITH queued AS (
    SELECT
        latency_ns - wakeup_ns AS run_ns,
        chosen_idle AND ran_cpu = chosen_cpu AS alone,
        lead(ts_ns + wakeup_ns) OVER queue - (ts_ns + wakeup_ns) AS later,
        lead(waker_cpu <> chosen_cpu) OVER queue AS by_other
    FROM decision WHERE kind = 0 AND NOT censored AND wakeup_ns >= 0 AND latency_ns >= wakeup_ns
    WINDOW queue AS (PARTITION BY chosen_cpu ORDER BY ts_ns + wakeup_ns, decision_id)
)

SELECT later - usual AS after, run_ns > later AS waits
FROM queued, (SELECT median(run_ns) AS usual FROM queued WHERE alone AND later > 3 * run_ns)
WHERE alone AND by_other AND later BETWEEN usual AND 3 * usual
ORDER BY after, waits
"""
"""A second wakee is queued on an idle CPU after the first would have run there: whether the CPU waited for it."""

_LOOKS = """
SELECT count(*), median(s.ts_ns - d.ts_ns)
FROM (
    SELECT ts_ns, chosen_cpu FROM decision
    WHERE kind = 0 AND prio >= 100 AND class = {moved} AND NOT chosen_idle AND chosen_cpu <> waker_cpu
) AS d ASOF JOIN switch AS s ON s.cpu = d.chosen_cpu AND s.ts_ns >= d.ts_ns
WHERE s.next_task < {cpus}
"""
"""A task is sent to a CPU that somebody runs on, and that goes idle next: the search looked when it had."""

PULLED = 20_000
"""A task that runs so soon after it was pulled was waited for, ns."""

FEWEST_RACES = 20

FEWEST_LOOKS = 5
"""The median of so few is near enough: twice that is 1 to 3 us where it is known better (with probes 5 to 6)."""

FEWEST_SEARCHES = 20
"""Wakeups of which the median is taken."""

_PULLS = """
WITH ends AS (
    SELECT
        s.ts_ns,
        s.cpu,
        s.prev_task,
        s.next_task,
        d.ts_ns AS acted_ns
    FROM switch AS s ASOF LEFT JOIN (
        SELECT ts_ns, waker_task, waker_cpu FROM decision WHERE irq_ctx = 0 AND kind = 0
    ) AS d ON d.waker_task = s.prev_task AND d.waker_cpu = s.cpu AND d.ts_ns <= s.ts_ns
    WHERE s.prev_state >= 2 AND s.prev_task >= {cpus} AND s.next_task >= {cpus}
),

told AS (
    SELECT e.ts_ns - e.acted_ns AS tail, e.ts_ns - m.ts_ns AS after, coalesce(after < {soon}, false) AS pulled
    FROM ends AS e ASOF LEFT JOIN (SELECT task, dest_cpu, ts_ns FROM migrate WHERE cause = {newidle}) AS m
        ON m.task = e.next_task AND m.dest_cpu = e.cpu AND m.ts_ns <= e.ts_ns
)

SELECT
    median(after) FILTER (WHERE pulled),
    quantile_cont(tail, 0.25) FILTER (WHERE pulled AND tail < {near}),
    count(*) FILTER (WHERE pulled AND tail < {near}),
    quantile_cont(tail, 0.25) FILTER (WHERE NOT pulled AND tail < {near}),
    count(*) FILTER (WHERE NOT pulled AND tail < {near})
FROM told
"""
"""From the last wakeup that a task gave to its switch-out: with a pull between, and where another task waited."""


def _add_luck(luck: Mapping[str, Array], columns: Columns, ranks: Mapping[str, Ranks], first: int) -> None:
    """By decision, from number `first` on: the ranks of its costs among their like, in [0, 1). Where it is late, as if
    it had run as soon as most."""
    for code, (path, of) in enumerate(ranks.items()):
        groups = code << 8 | _groups(columns)
        into = luck["luck_preempt" if path in _PREEMPTS else "luck"]
        used = _samples(columns, path)
        chosen = np.flatnonzero(used)
        rank, known = of.of(columns["number"][chosen])
        into[columns["decision_id"][chosen[known]] - first] = rank
        others = chosen[~known]
        run, queue = _cost(columns, path)
        rank, known = of.among(groups[others], queue[others], run[others])
        into[columns["decision_id"][others[known]] - first] = rank[known]
        late = np.flatnonzero(columns[f"is_{path}"].astype(np.bool_) & ~used)
        rank, known = of.among(groups[late], columns["queue_ns"][late])
        into[columns["decision_id"][late[known]] - first] = rank[known]


def _cost(columns: Columns, path: str) -> tuple[Array, Array]:
    """Until the wakee ran, and until it was queued: what counts of that on `path`."""
    ran = np.minimum(columns["left_call_ns"], columns["run_ns"]) if path == "in_call" else columns["run_ns"]
    return ran * (path != "busy"), columns["queue_ns"] * (path not in _PREEMPTS)


def _samples(columns: Columns, path: str) -> npt.NDArray[np.bool_]:
    """Wakeups that tell what `path` costs."""
    taken: npt.NDArray[np.bool_] = columns[f"is_{path}"].astype(np.bool_)
    return taken if path in ("busy", *_PREEMPTS) else taken & ~columns["late"].astype(np.bool_)


def _n_cpus(recording: Recording) -> int:
    return len(recording.read("cpu", ("cpu",))["cpu"])


def _without_handlers(columns: dict[str, npt.NDArray[Any]], handlers: Handlers) -> None:
    """Takes the handlers that the chosen CPU ran meanwhile off the costs: they are simulated by themselves."""
    if not len(columns["ts_ns"]):
        return
    cpu, began = columns["chosen_cpu"].astype(np.uint16), columns["ts_ns"].astype(np.int64)
    queued = began + columns["queue_ns"]
    ran = queued + columns["run_ns"]
    there = columns["waker_cpu"] != columns["chosen_cpu"]  # else it is the waker who queues, itself in a handler maybe
    within = handlers.during(int(began.min()), int(ran.max())).within
    columns["queue_ns"] = columns["queue_ns"] - there * within({"cpu": cpu, "from_ns": began, "to_ns": queued})
    columns["run_ns"] = columns["run_ns"] - within({"cpu": cpu, "from_ns": queued, "to_ns": ran})


def _search_ns(searches: Thinned, in_task: int) -> float:
    """What a search takes per CPU that it examines, in that context: slope of the medians of the time until the wakee
    is queued, over groups of wakeups that differ in nothing else. `searches`: these times, by group and, in the lower 8
    bits, CPUs examined."""
    cells, (times,) = searches.rows()
    above = below = 0.0
    points: dict[int, list[tuple[int, float, int]]] = {}
    for rows in np.split(np.arange(len(cells)), np.flatnonzero(np.diff(cells)) + 1):
        cell = int(cells[rows[0]]) if len(rows) else 0
        if searches.seen.get(cell, 0) >= FEWEST_SEARCHES and (cell >> 8) // TARGETS % 2 == in_task:
            at = (cell & 255, float(np.median(times[rows])), searches.seen[cell])
            points.setdefault(cell >> 8, []).append(at)
    for some in points.values():
        x, y, weight = (np.array(values, np.float64) for values in zip(*some, strict=True))
        x -= np.average(x, weights=weight)
        above += float((weight * x * y).sum())
        below += float((weight * x * x).sum())
    return max(0.0, above / below) if below else 0.0


class _Searches:
    """What idle searches took, of which they are simulated by themselves."""

    def __init__(self, searched: npt.NDArray[np.int16], first: int) -> None:
        """`searched`: Unseen.searched; `first`: number of the first decision."""
        self._searched, self._first = searched, first
        self._times = Thinned(1)
        self._number, self._sum = np.zeros((2, 12 * TARGETS), np.int64)
        self.scanned = np.clip(searched, 0, 255).astype(np.uint8)
        """By decision, how many CPUs were examined: where no search comes to the recorded answer, as many as on
        average among its like. Complete when all rows were without()."""

    def _of(self, columns: Columns) -> tuple[Array, Array, Array, Array]:
        """Which wakeups search; of which it is known how far; their group, and how far."""
        found = self._searched[columns["decision_id"] - self._first]
        to_idle, to_busy = (columns[f"is_{path}"].astype(np.bool_) for path in ("idle", "busy"))
        group = to_busy * (6 * TARGETS) + _groups(columns)
        return to_idle | to_busy, found >= 0, group, np.clip(found, 0, 255).astype(np.uint8)

    def add(self, columns: Columns) -> None:
        ours, known, group, scanned = self._of(columns)
        told = ours & known
        cell = group[told] << 8 | scanned[told]
        self._times.add(cell, columns["queue_ns"][told].astype(np.int64)[:, np.newaxis])
        self._number += np.bincount(group[told], minlength=12 * TARGETS)
        self._sum += np.bincount(group[told], scanned[told], minlength=12 * TARGETS).astype(np.int64)

    def per_cpu(self) -> tuple[float, float]:
        """What a search takes per CPU that it examines, from an interrupt and from a task, ns."""
        return _search_ns(self._times, 0), _search_ns(self._times, 1)

    def without(self, columns: Columns, per_cpu: Sequence[float]) -> None:
        """Takes them off the costs."""
        ours, known, group, scanned = self._of(columns)
        mean = np.round(self._sum / np.maximum(self._number, 1)).astype(np.uint8)
        scanned = np.where(known, scanned, mean[group])
        self.scanned[columns["decision_id"][ours] - self._first] = scanned[ours]
        taken = np.floor(np.array(per_cpu)[columns["in_task"].astype(np.intp)] * scanned).astype(np.int64)
        columns["queue_ns"] = np.maximum(columns["queue_ns"] - ours * taken, 0)


class Costs(NamedTuple):
    """What wakeups cost in a recording."""

    samples: dict[str, npt.NDArray[Any]]
    """Recorded costs, `odd` where that was asked of their time."""
    luck: Growing
    """By decision, `luck` and `luck_preempt`: the ranks of its costs among their like."""
    search_ns: Sequence[float] = (0.0, 0.0)
    """What an idle search takes per CPU that it examines, from an interrupt and from a task (inferred); not in the
    samples."""
    scanned: npt.NDArray[np.uint8] | None = None
    """By decision, how many those were."""


class _Samples:
    """Recorded costs by path and group."""

    def __init__(self, most: int) -> None:
        self._rows = Thinned(5, most)
        """run_ns, queue_ns, leave_ns, number, odd."""

    def add(self, columns: Columns, odd: npt.NDArray[np.bool_]) -> None:
        group = _groups(columns)
        for code, path in enumerate(PATHS):
            chosen = np.flatnonzero(_samples(columns, path))
            run, queue = _cost(columns, path)
            leave = np.minimum(columns["leave_ns"], queue)
            rows = np.stack([x[chosen].astype(np.int64) for x in (run, queue, leave, columns["number"], odd)], axis=1)
            self._rows.add(code << 8 | group[chosen], rows)

    def columns(self) -> dict[str, Array]:
        """As the engine takes them (engine/closed/costs.hpp), and `odd`."""
        of, (run, queue, leave, _, odd) = self._rows.rows()
        return {
            "path": (of >> 8).astype(np.uint8), "relation": ((of & 255) // (2 * TARGETS)).astype(np.uint8),
            "in_task": (of // TARGETS % 2).astype(np.bool_), "target": (of % TARGETS).astype(np.uint8),
            "queue_ns": queue.copy(), "leave_ns": leave.copy(), "run_ns": run.copy(), "odd": odd.astype(np.bool_),
        }  # fmt: skip

    def ranks(self) -> dict[str, Ranks]:
        of, (run, queue, _, number, _) = self._rows.rows()
        edges = np.searchsorted(of >> 8, range(len(PATHS) + 1)).tolist()
        return {
            path: Ranks(of[a:b], run[a:b], queue[a:b], number[a:b])
            for path, a, b in zip(PATHS, edges, edges[1:], strict=False)
        }


def _groups(columns: Columns) -> Array:
    """The number of the wakeups that differ in nothing but their path."""
    found: Array = (columns["relation"].astype(np.int64) * 2 + columns["in_task"]) * TARGETS + columns["target"]
    return found


class _Wakeups:
    """Rows of _COSTS, by time, a chunk at a time; `number` counts them. They lie in files: asked for again and again,
    the database would hold them beside what is made of them. A single chunk is made ready once."""

    def __init__(self, recording: Recording, handlers: Handlers, lazily: bool) -> None:
        self._handlers, self._kept = handlers, Growing(0)
        self.close = self._kept.close
        values = {"cpus": _n_cpus(recording), "on_cpu": ON_CPU, "placed": ", ".join(map(str, _PLACED))}
        told = tells_queued(recording.manifest)
        values |= {"told": told, "queued": _TOLD if told else _UNTOLD}
        with closing(recording.connect(("decision", "switch", "cpu"))) as con:
            for edges in sparingly(lambda: self._asked(con, values)):
                self._keep(con, edges, lazily)
            con.execute("DROP TABLE wakeup_costs").fetchall()
            con.execute("DROP TABLE slept").fetchall()
        _engine.give_back()
        self.n = len(self._kept)
        self._only = self._chunk(0) if 0 < self.n <= CHUNK else None

    @staticmethod
    def _asked(con: duckdb.DuckDBPyConnection, values: Mapping[str, Any]) -> list[tuple[int, int]]:
        """Stretches of time that have few rows each, to be sorted one after the other. All is asked for step by step:
        each holds little, and what it made may spill."""
        con.execute(f"CREATE OR REPLACE TEMP TABLE far AS {_FAR.format(**values)}").fetchall()
        con.execute(f"CREATE OR REPLACE TEMP TABLE slept AS {_SLEPT.format(**values)}").fetchall()
        con.execute("DROP TABLE far").fetchall()
        begin, end, n = con.execute(
            "SELECT coalesce(min(ts_ns), 0), coalesce(max(ts_ns) + 1, 0), count(*) FROM slept"
        ).fetchall()[0]
        pieces = n // CHUNK + 1
        edges = [begin + (end - begin) * i // pieces for i in range(pieces + 1)]
        return list(pairwise(edges))

    def _keep(self, con: duckdb.DuckDBPyConnection, edges: tuple[int, int], lazily: bool) -> None:
        query = _SORTED.format(limit=PREEMPT_LIMIT, near=LAZILY if lazily else PREEMPT_LIMIT)
        sparingly(lambda: con.execute(query, edges).fetchall())
        for piece in pieces_of(con, "wakeup_costs"):
            self._kept.append(piece)

    def __iter__(self) -> Iterator[Columns]:
        for first in range(0, self.n, CHUNK):
            yield self._chunk(first) if self._only is None else dict(self._only)

    def _chunk(self, first: int) -> Columns:
        columns = self._kept.read(first, min(first + CHUNK, self.n))
        columns["number"] = np.arange(first, first + len(columns["ts_ns"]))
        _without_handlers(columns, self._handlers)
        return columns


def costs(
    recording: Recording,
    handlers: Handlers,
    is_odd: Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]],
    searched: npt.NDArray[np.int16] | None = None,
    lazily: bool = False,
) -> Costs:
    """`is_odd`: of times; `searched`: Unseen.searched; `lazily`: who is told by another CPU of its LLC to go does so
    when it next comes into the kernel: of these the costs are those of who does all the time."""
    with closing(_Wakeups(recording, handlers, lazily)) as wakeups:
        searches = None if searched is None else _Searches(searched, recording.first_decision)
        per_cpu = (0.0, 0.0)
        if searches is not None:
            for columns in wakeups:
                searches.add(columns)
            per_cpu = searches.per_cpu()

        def without_searches() -> Iterator[Columns]:
            for columns in wakeups:
                if searches is not None:
                    searches.without(columns, per_cpu)
                yield columns

        # Of recordings that are no longer than a segment all are kept, also where one wakeup tells of two paths.
        samples = _Samples(SEGMENT if wakeups.n > SEGMENT else len(PATHS) * SEGMENT)
        for columns in without_searches():
            samples.add(columns, is_odd(columns["ts_ns"]))
        ranks = samples.ranks()
        luck = Growing()
        n = recording.rows("decision")
        for first in range(0, n, CHUNK):
            none = np.full(min(CHUNK, n - first), -1, np.float32)
            luck.append({"luck": none, "luck_preempt": none})
        for columns in without_searches():
            number = columns["decision_id"] - recording.first_decision
            if len(number):
                first, last = int(number.min()), int(number.max()) + 1
                here = {name: values.copy() for name, values in luck.read(first, last).items()}
                _add_luck(here, columns, ranks, recording.first_decision + first)
                luck.write(first, here)
    return Costs(samples.columns(), luck, per_cpu, None if searches is None else searches.scanned)


def races(recording: Recording) -> tuple[int, dict[str, int]]:
    """How many decisions collided; and how long a decision is unknown to other CPUs: twice their mean distance."""
    con = recording.connect(("decision",))
    try:
        row = con.execute(_RACES.format(moved=ENUMS["decision_class"].index("moved"))).fetchone()
    finally:
        con.close()
    assert row is not None
    number, early, after, late, before = row
    return number, {
        "unseen_ns": round(2 * after) if early >= FEWEST_RACES else 0,
        "hole_ns": round(before) if late >= FEWEST_RACES else 0,
    }


def looks(recording: Recording) -> int:
    """How long after its wakeup began a search sees who has left a CPU, ns; 0: it cannot be told. CPUs that a task was
    sent to and that were left only after that were left at any time until the search looked: in the median at half of
    it."""
    con = recording.connect(("decision", "switch"))
    try:
        query = _LOOKS.format(moved=ENUMS["decision_class"].index("moved"), cpus=_n_cpus(recording))
        row = con.execute(query).fetchone()
    finally:
        con.close()
    assert row is not None
    return round(2 * row[1]) if row[0] >= FEWEST_LOOKS else 0


def waits(recording: Recording) -> int:
    """A CPU that leaves idle waits for a wakee that will be on its run queue so soon, ns: it is in the interrupt by
    then, or looks once more for what it was told before it switches (flush_smp_call_function_queue(), 6.1)."""
    con = recording.connect(("decision",))
    try:
        found = con.execute(_WAITS).fetchnumpy()
    finally:
        con.close()
    after, seen = (np.ma.getdata(found[name]) for name in ("after", "waits"))
    if len(after) < FEWEST_RACES:
        return 0
    wrong = np.append(0, np.cumsum(np.where(seen, -1, 1)))  # if it waited for so many of them
    best = int(wrong.argmin())
    return round(float(after[best - 1])) if best else 0


def pull(recording: Recording) -> tuple[int, int]:
    """What a new-idle pull takes, and its part after the task has changed queues, ns."""
    con = recording.connect(("decision", "switch", "migrate"))
    try:
        newidle = ENUMS["migrate_cause"].index("newidle")
        asked = _PULLS.format(newidle=newidle, cpus=_n_cpus(recording), soon=PULLED, near=30_000)
        row = con.execute(asked).fetchone()
    finally:
        con.close()
    if row is None or row[0] is None:
        return 0, 0
    after, with_pull, n_with, without, n_without = row
    known = n_with >= FEWEST_RACES and n_without >= FEWEST_RACES
    return (max(round(with_pull - without), round(after)) if known else 2 * round(after)), round(after)
