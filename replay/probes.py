# SPDX-License-Identifier: GPL-2.0-or-later
"""Ground truth of placement: what typed probes on `select_task_rq_fair` saw of each decision, and what it returned.

A call belongs to the wakeup that its CPU announced last (sched_waking, then the call, with interrupts off in between),
to the sched_wakeup_new that follows a fork's call, or to the sched_process_exec that follows an exec's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rewake.forms import Recording, with_null
from rewake.replay import hotplug
from rewake.replay.recorded import Source
from rewake.replay.wake_lists import last_before

Nullable = tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]

WF_EXEC, WF_FORK, WF_SYNC = 0x02, 0x04, 0x10
"""Wake flags of select_task_rq_fair, kernels 5.11 and later (policies.md C1)."""

_VALUES = {
    "probe_id": np.int64, "probe_ns": np.int64, "returned_ns": np.int64, "prev_cpu": np.uint16,
    "wake_flags": np.int32, "recent_cpu": np.uint16,
    "flips": np.uint32, "util": np.int64, "load": np.int64, "nallowed": np.int32, "nr_idle_scan": np.int32,
    "has_idle_cores": np.int32, "rq_load": np.int64, "rq_nr": np.int32, "chosen_cpu": np.uint16,
}  # fmt: skip

_CALLS = f"""
WITH seen AS (
    SELECT *, id AS probe_id, ts_ns AS probe_ns,
        lead(phase) OVER w AS next_phase, lead(p.chosen_cpu) OVER w AS returned, lead(ts_ns) OVER w AS next_ns
    FROM probe p WINDOW w AS (PARTITION BY cpu ORDER BY id)
), calls AS (
    SELECT * REPLACE (CASE WHEN next_phase = 1 THEN returned END AS chosen_cpu),
        CASE WHEN next_phase = 1 THEN next_ns END AS returned_ns
    FROM seen WHERE phase = 0 AND task IS NOT NULL
), woken AS (
    SELECT c.*, w.id AS event_id
    FROM (SELECT * FROM calls WHERE coalesce(wake_flags, 0) & {WF_EXEC | WF_FORK} = 0) c
    ASOF JOIN (SELECT id, cpu, task AS wakee FROM waking) w ON c.cpu = w.cpu AND c.id > w.id
    WHERE c.task = w.wakee
    QUALIFY row_number() OVER (PARTITION BY w.id ORDER BY c.id) = 1
), forked AS (
    SELECT c.*, w.event_id
    FROM (SELECT id AS event_id, cpu AS on_cpu, task AS wakee FROM wakeup WHERE is_new) w
    ASOF JOIN (SELECT * FROM calls WHERE wake_flags & {WF_FORK} > 0) c ON w.on_cpu = c.cpu AND w.event_id > c.id
    WHERE c.task = w.wakee
), executed AS (
    SELECT c.*, x.event_id
    FROM (SELECT id AS event_id, task AS wakee FROM exec) x
    ASOF JOIN (SELECT * FROM calls WHERE wake_flags & {WF_EXEC} > 0) c ON x.wakee = c.task AND x.event_id > c.id
), called AS (
    SELECT * FROM woken UNION ALL SELECT * FROM forked UNION ALL SELECT * FROM executed
)
SELECT d.decision_id, {", ".join(f"c.{name}" for name in _VALUES)}
FROM decision d LEFT JOIN called c USING (event_id)
ORDER BY d.decision_id
"""


FEWEST_CALLS = 20
"""Of fewer nothing is said."""


def foreign(source: Source) -> str | None:
    """Why what the probes fetched is not what this kernel has there; None: it may be. By the calls for wakeups that are
    for the task whose wakeup their CPU announced last: all are, but where events are lost. Where none is announced,
    nothing is said."""
    calls = named = 0
    for k in range(source.n_parts):
        rows: Any = source.read_part("probe", k, ("id", "cpu", "phase", "task", "wake_flags"))
        flags, unknown = with_null(rows["wake_flags"])
        wakes = (rows["phase"] == 0) & (unknown | (flags & (WF_EXEC | WF_FORK) == 0))
        waking: Any = source.read_part("waking", k, ("id", "cpu", "task"))
        if not wakes.any() or not len(waking["id"]):
            continue
        task, absent = with_null(rows["task"])
        at, same = last_before(waking, {name: rows[name][wakes] for name in ("id", "cpu")})
        calls += int(wakes.sum())
        named += int((same & ~absent[wakes] & (waking["task"][at] == task[wakes])).sum())
    if calls < FEWEST_CALLS or 2 * named >= calls:
        return None
    return (
        f"of {calls:,} calls that placement probes saw only {named:,} are for the task that is woken there: the probes"
        " are of another kernel; what they fetched is left out"
    )


def truth(recording: Recording) -> dict[str, Nullable] | None:
    """Columns over all decisions, NULL where placement was not called or a field not fetched; None without probes.

    `rq_load` is that of the queue that the wakee was on, its task group's. `probe_id`, `probe_ns`: the entry event;
    `chosen_cpu`, `returned_ns`: what the call returned, and when; the others: table `probe`.
    """
    if not recording.rows("probe"):
        return None
    con = recording.connect(("probe", "waking", "wakeup", "exec", "decision"))
    try:
        found = con.execute(_CALLS).fetchnumpy()
    finally:
        con.close()
    out: dict[str, Nullable] = {}
    for name, dtype in _VALUES.items():
        column = found[name]
        null = np.ma.getmaskarray(column).copy()
        out[name] = np.ma.filled(column, 0).astype(dtype), null
    _forget(recording, out)
    return out


def _forget(recording: Recording, found: dict[str, Nullable]) -> None:
    """The probes take the LLC for the domain above the core's. A CPU whose siblings are all offline has none of a core:
    what was fetched there is nothing, as it is while the domains are rebuilt."""
    gone = hotplug.away(recording)
    if not gone:
        return
    decision = recording.read("decision", ("ts_ns", "prev_cpu"))
    ts, prev = np.asarray(decision["ts_ns"]), with_null(decision["prev_cpu"])[0]
    cpu = recording.read("cpu", ("cpu", "core"))
    cores = dict(zip(np.asarray(cpu["cpu"]).tolist(), with_null(cpu["core"])[0].tolist(), strict=True))
    lost = np.zeros(len(ts), np.bool_)
    for g in gone:
        siblings = [c for c, core in cores.items() if core == cores[g.cpu] and c != g.cpu]
        alone = (ts >= g.leaves[1]) & (ts < g.returns[1]) & np.isin(prev, siblings if len(siblings) == 1 else [])
        lost |= alone | (prev == g.cpu) & (ts >= g.leaves[1]) & (ts < g.returns[1])
        for begin, end in (g.leaves, g.returns):
            lost |= (ts >= begin) & (ts < end)
    for name in ("nr_idle_scan", "has_idle_cores"):
        found[name][1][lost] = True
