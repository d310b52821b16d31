# SPDX-License-Identifier: GPL-2.0-or-later
"""What the recording says of times that a simulation needs: costs of wakeups, interrupts, pulls, unseen decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import rewake.replay._engine as _engine
from rewake.forms import ENUMS, Recording

ON_CPU = 5_000
"""A task that is woken so soon after its switch-out, or before it, may be on its CPU still, ns (kOnCpu)."""

TARGETS = 32
"""As target_of() numbers them (engine/closed/costs.hpp)."""

PREEMPT_LIMIT = 200_000
"""A task that took the CPU from another after a longer wait than this was let on by a tick, not by its wakeup, ns."""

_PLACED = [ENUMS["decision_class"].index(name) for name in ("moved", "stayed")]

PATHS = ("idle", "busy", "preempt", "fork", "on_cpu")


_COSTS = """
WITH far AS (
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
        s.prev_state < 2 AS preempted,
        d.chosen_cpu = d.prev_cpu AS stayed,
        d.ran_cpu = d.chosen_cpu AS here,
        coalesce(lead(d.ts_ns + d.wakeup_ns) OVER queue < d.ts_ns + d.latency_ns, false) AS joined,
        d.task,
        s.ts_ns AS ran_ns
    FROM decision d
    JOIN cpu w ON w.cpu = d.waker_cpu
    JOIN cpu c ON c.cpu = d.chosen_cpu
    JOIN switch s ON s.next_task = d.task AND s.ts_ns = d.ts_ns + d.latency_ns AND s.cpu = d.ran_cpu
    WHERE d.kind < 2 AND NOT d.censored AND d.wakeup_ns >= 0 AND d.latency_ns >= d.wakeup_ns AND d.prio >= 100
    WINDOW queue AS (PARTITION BY d.chosen_cpu ORDER BY d.ts_ns + d.wakeup_ns, d.decision_id)
),

slept AS (
    SELECT
        far.*,
        stayed AND coalesce(far.ts_ns - o.ts_ns < {on_cpu}, false) AS on_cpu,
        coalesce(greatest(o.ts_ns - far.ts_ns, 0), 0) AS to_leave
    FROM far ASOF LEFT JOIN (SELECT prev_task, ts_ns FROM switch WHERE prev_state >= 2) AS o
        ON o.prev_task = far.task AND o.ts_ns <= far.ran_ns
)

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
    NOT from_idle AND preempted AND run_ns <= {limit} AND kind = 0 AND here AS is_preempt,
    kind = 1 AS is_fork
FROM slept ORDER BY ts_ns, queue_ns, run_ns
"""
"""`late`: another wakee was queued before it ran, or it was taken elsewhere: until it ran is no cost then. For one that
had not quite left its CPU, the state says whether it was woken before its switch-out (`leave_ns` before it, part of the
queue time: the waker prepares the wakeup meanwhile), plus one where the CPU runs another already."""


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

PULLED = 20_000
"""A task that runs so soon after it was pulled was waited for, ns."""

FEWEST_RACES = 20

FEWEST_SEARCHES = 20
"""Wakeups of which the median is taken."""

LONG_HANDLER = 20_000
"""No scheduler tick, timer or reschedule interrupt takes so long, ns: one that does has other work to do."""

_INTERRUPTS = """
WITH marks AS (
    SELECT
        cpu, kind, entry, ts_ns AS from_ns,
        lead(ts_ns) OVER later AS to_ns,
        lead(kind) OVER later AS next_kind,
        lead(entry) OVER later AS next_entry
    FROM irq WINDOW later AS (PARTITION BY cpu ORDER BY id)
)

SELECT cpu, from_ns, to_ns
FROM marks, (SELECT coalesce(bool_or(kind = {timer}), false) AS told FROM irq)
WHERE entry AND NOT next_entry AND next_kind = kind
    AND to_ns - from_ns >= CASE WHEN kind = {device} AND told THEN 0 ELSE {long} END
    AND NOT EXISTS (
        SELECT 1 FROM loss WHERE loss.cpu = marks.cpu AND loss.ts_ns BETWEEN marks.from_ns AND marks.to_ns
    )
ORDER BY from_ns, to_ns, cpu
"""
"""Handlers of devices, and others that last: time of their CPUs that no placement changes. The rest (ticks, reschedule
interrupts) is a consequence of what runs where, and stays in the work of the interrupted tasks. Without irq_vectors
events (arm64 has none) timers and reschedule interrupts look like devices: then only what lasts counts."""


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


def _luck(columns: Mapping[str, npt.NDArray[Any]], first: int, n: int) -> dict[str, npt.NDArray[np.float32]]:
    """By decision, from number `first` on: the ranks of its costs among their like, in [0, 1); -1 where it has none.
    Where it is late, as if it had run as soon as most."""
    luck = {"luck": np.full(n, -1, np.float32), "luck_preempt": np.full(n, -1, np.float32)}
    groups = (columns["relation"] * 2 + columns["in_task"]) * TARGETS + columns["target"]
    for path in PATHS:
        used = _samples(columns, path)
        chosen = np.flatnonzero(used)
        if not len(chosen):
            continue
        into = luck["luck_preempt" if path == "preempt" else "luck"]
        run = columns["run_ns"][chosen] * (path != "busy")
        queue = columns["queue_ns"][chosen] * (path != "preempt")
        group = groups[chosen]
        order = np.lexsort((queue, queue + run, group))
        starts = np.flatnonzero(np.diff(group[order], prepend=-1))
        sizes = np.diff(np.append(starts, len(order)))
        rank = np.arange(len(order)) - np.repeat(starts, sizes)
        into[columns["decision_id"][chosen[order]] - first] = (rank + 0.5) / np.repeat(sizes, sizes)
        late = np.flatnonzero(columns[f"is_{path}"].astype(np.bool_) & ~used)
        for start, size in zip(starts, sizes, strict=True):
            like = order[start : start + size]
            those = late[groups[late] == group[like[0]]]
            cost = columns["queue_ns"][those] + np.median(run[like])
            rank = np.searchsorted((queue + run)[like], cost)
            into[columns["decision_id"][those] - first] = np.minimum(rank + 0.5, size - 0.5) / size
    return luck


def _samples(columns: Mapping[str, npt.NDArray[Any]], path: str) -> npt.NDArray[np.bool_]:
    """Wakeups that tell what `path` costs."""
    taken: npt.NDArray[np.bool_] = columns[f"is_{path}"].astype(np.bool_)
    return taken if path in ("busy", "preempt") else taken & ~columns["late"].astype(np.bool_)


def _n_cpus(recording: Recording) -> int:
    return len(recording.read("cpu", ("cpu",))["cpu"])


def interrupts(recording: Recording) -> _engine.Interrupts:
    """Handlers that have their CPU whatever runs there."""
    con = recording.connect(("irq", "loss"))
    try:
        device, timer = (ENUMS["irq_kind"].index(kind) for kind in ("device", "local_timer"))
        rows = con.execute(_INTERRUPTS.format(device=device, timer=timer, long=LONG_HANDLER)).fetchnumpy()
    finally:
        con.close()
    return _engine.Interrupts({k: np.ma.getdata(v) for k, v in rows.items()}, _n_cpus(recording))


def _without_handlers(columns: dict[str, npt.NDArray[Any]], handlers: _engine.Interrupts) -> None:
    """Takes the handlers that the chosen CPU ran meanwhile off the costs: they are simulated by themselves."""
    cpu, began = columns["chosen_cpu"].astype(np.uint16), columns["ts_ns"].astype(np.int64)
    queued = began + columns["queue_ns"]
    ran = queued + columns["run_ns"]
    there = columns["waker_cpu"] != columns["chosen_cpu"]  # else it is the waker who queues, itself in a handler maybe
    within = handlers.within
    columns["queue_ns"] = columns["queue_ns"] - there * within({"cpu": cpu, "from_ns": began, "to_ns": queued})
    columns["run_ns"] = columns["run_ns"] - within({"cpu": cpu, "from_ns": queued, "to_ns": ran})


def _search_ns(queue: npt.NDArray[Any], scanned: npt.NDArray[np.uint8], group: npt.NDArray[np.uint16]) -> float:
    """What a search takes per CPU that it examines: slope of the medians of the time until the wakee is queued, over
    groups of wakeups that differ in nothing else."""
    cell = group.astype(np.uint32) << 8 | scanned
    order = np.argsort(cell, kind="stable")
    above = below = 0.0
    points: dict[int, list[tuple[int, float, int]]] = {}
    for rows in np.split(order, np.flatnonzero(np.diff(cell[order])) + 1):
        if len(rows) >= FEWEST_SEARCHES:
            at = (int(scanned[rows[0]]), float(np.median(queue[rows])), len(rows))
            points.setdefault(int(group[rows[0]]), []).append(at)
    for some in points.values():
        x, y, weight = (np.array(values, np.float64) for values in zip(*some, strict=True))
        x -= np.average(x, weights=weight)
        above += float((weight * x * y).sum())
        below += float((weight * x * x).sum())
    return max(0.0, above / below) if below else 0.0


def _without_searches(
    columns: dict[str, npt.NDArray[Any]], searched: npt.NDArray[np.int16], first: int
) -> tuple[list[float], npt.NDArray[np.uint8]]:
    """Takes off the costs what the idle searches took, which are simulated by themselves. Returns that per CPU that
    they examine, ns, and by decision how many that were: where no search comes to the recorded answer, as many as on
    average among its like."""
    at = columns["decision_id"] - first
    to_idle, to_busy = (columns[f"is_{path}"].astype(np.bool_) for path in ("idle", "busy"))
    ours, known = to_idle | to_busy, searched[at] >= 0
    scanned = np.clip(searched[at], 0, 255).astype(np.uint8)
    context = columns["in_task"].astype(np.intp)
    group = (((to_busy * 3 + columns["relation"]) * 2 + context) * TARGETS + columns["target"]).astype(np.uint16)
    told = ours & known
    per_cpu = [
        _search_ns(columns["queue_ns"][rows], scanned[rows], group[rows])
        for rows in (np.flatnonzero(told & (context == k)) for k in (0, 1))
    ]
    number = np.bincount(group[told], minlength=12 * TARGETS)
    mean = np.bincount(group[told], scanned[told], minlength=12 * TARGETS) / np.maximum(number, 1)
    scanned = np.where(known, scanned, np.round(mean).astype(np.uint8)[group])
    out = np.clip(searched, 0, 255).astype(np.uint8)
    out[at[ours]] = scanned[ours]
    taken = np.floor(np.array(per_cpu)[context] * scanned).astype(np.int64)
    columns["queue_ns"] = np.maximum(columns["queue_ns"] - ours * taken, 0)
    return per_cpu, out


class Costs(NamedTuple):
    """What wakeups cost in a recording."""

    samples: dict[str, npt.NDArray[Any]]
    """Recorded costs, `odd` where that was asked of their time."""
    luck: dict[str, npt.NDArray[np.float32]]
    """By decision, the ranks of its costs among their like."""
    search_ns: Sequence[float] = (0.0, 0.0)
    """What an idle search takes per CPU that it examines, from an interrupt and from a task (inferred); not in the
    samples."""
    scanned: npt.NDArray[np.uint8] | None = None
    """By decision, how many those were."""


def costs(
    recording: Recording,
    handlers: _engine.Interrupts,
    is_odd: Callable[[npt.NDArray[Any]], npt.NDArray[np.bool_]],
    searched: npt.NDArray[np.int16] | None = None,
) -> Costs:
    """`is_odd`: of times; `searched`: Unseen.searched."""
    con = recording.connect(("decision", "switch", "cpu"))
    try:
        found = con.execute(
            _COSTS.format(
                cpus=_n_cpus(recording), limit=PREEMPT_LIMIT, on_cpu=ON_CPU, placed=", ".join(map(str, _PLACED))
            )
        )
        rows = found.fetchnumpy()
    finally:
        con.close()
    columns = {k: np.ma.getdata(v) for k, v in rows.items()}
    _without_handlers(columns, handlers)
    searches = (
        ((0.0, 0.0), None) if searched is None else _without_searches(columns, searched, recording.first_decision)
    )
    decisions = (recording.read_part("decision", k, ("event_id",)) for k in range(recording.n_parts))
    luck = _luck(columns, recording.first_decision, sum(len(d["event_id"]) for d in decisions))
    odd = is_odd(columns["ts_ns"])
    parts: list[dict[str, npt.NDArray[Any]]] = []
    leave = np.minimum(columns["leave_ns"], columns["queue_ns"])
    for code, path in enumerate(PATHS):
        chosen = _samples(columns, path)
        parts.append({
            "path": np.full(int(chosen.sum()), code, np.uint8),
            "relation": columns["relation"][chosen].astype(np.uint8),
            "in_task": columns["in_task"][chosen].astype(np.bool_),
            "target": columns["target"][chosen].astype(np.uint8),
            "queue_ns": columns["queue_ns"][chosen].astype(np.int64) * (path != "preempt"),
            "leave_ns": leave[chosen].astype(np.int64) * (path != "preempt"),
            "run_ns": columns["run_ns"][chosen].astype(np.int64) * (path != "busy"),
            "odd": odd[chosen],
        })  # fmt: skip
    return Costs({k: np.concatenate([p[k] for p in parts]) for k in parts[0]}, luck, *searches)


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
