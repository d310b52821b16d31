# SPDX-License-Identifier: GPL-2.0-or-later
"""When forks and execs were decided, which is before the events that open them.

sched_exec() asks before the program is loaded, and sched_process_exec comes hundreds of microseconds later, on the CPU
that the task was moved to. wake_up_new_task() asks before it queues the task, and sched_wakeup_new comes after that.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from rewake.forms import ENUMS, Recording
from rewake.replay.probes import Nullable

NOT_TOLD = -1
"""Of decided(): the event is all there is."""

_FEWEST, _ENOUGH = 20, 10_000
"""So many wakeups tell how long queueing takes; no more are read."""

_KINDS, _CAUSES = (ENUMS[name].index for name in ("decision_kind", "migrate_cause"))

_EXECS = f"""
WITH execs AS (
    SELECT * FROM decision WHERE kind = {_KINDS("exec")}
), ran AS (
    SELECT x.*, s.ts_ns AS since
    FROM execs x ASOF LEFT JOIN (SELECT id, ts_ns, next_task FROM switch WHERE next_task IN (SELECT task FROM execs)) s
        ON x.task = s.next_task AND x.event_id > s.id
), moved AS (
    SELECT x.event_id, m.id, m.ts_ns, m.curr_task AS stopper
    FROM (SELECT * FROM migrate WHERE cause = {_CAUSES("exec")}) m ASOF JOIN execs x
        ON m.task = x.task AND m.id < x.event_id
), woken AS (
    SELECT m.event_id, coalesce(w.ts_ns, m.ts_ns) AS asked_ns
    FROM moved m ASOF LEFT JOIN (SELECT * FROM waking WHERE task IN (SELECT stopper FROM moved)) w
        ON m.stopper = w.task AND m.id > w.id
)
SELECT decision_id, ts_ns, since, asked_ns
FROM ran LEFT JOIN woken USING (event_id)
ORDER BY decision_id
"""

_QUEUED = f"""
WITH belongs AS (
    SELECT task_id AS task, coalesce(cgroup, -1) AS cgroup FROM task_attr
), peers AS (
    SELECT task FROM belongs
    WHERE cgroup IN (SELECT cgroup FROM belongs JOIN decision USING (task) WHERE kind = {_KINDS("fork")})
), moved AS (
    SELECT id, ts_ns, cpu, task FROM migrate
    WHERE cause = {_CAUSES("wake")} AND irq_ctx = {ENUMS["irq_ctx"].index("task")} AND task IN (FROM peers)
    ORDER BY id LIMIT {_ENOUGH}
)
SELECT count(*), quantile_disc(w.ts_ns - m.ts_ns, 0.05)
FROM moved m ASOF JOIN (SELECT id, ts_ns, cpu, task FROM wakeup WHERE NOT is_new) w ON m.task = w.task AND m.id < w.id
WHERE m.cpu = w.cpu
"""


def decided(recording: Recording, truth: Mapping[str, Nullable] | None) -> npt.NDArray[np.int64] | None:
    """When, per decision; NOT_TOLD of wakeups, and where nothing tells. None: of no decision.

    Where probes saw the call, when it returned. An exec that moved was decided when it woke the stopper; one that
    stayed, as long before its event as those that moved ran until theirs (the median: what loads a program), and not
    before it got its CPU. A fork, as long before its event as tasks of cgroups that fork are queued, by their wakers,
    after these have moved them (the shortest twentieth: forks take a little less).
    """
    kind = np.asarray(recording.read("decision", ("kind",))["kind"])
    forks, execs = (np.flatnonzero(kind == _KINDS(name)) for name in ("fork", "exec"))
    out = np.full(len(kind), NOT_TOLD)
    if len(forks) or len(execs):
        con = recording.connect(("decision", "switch", "migrate", "waking", "wakeup", "task_attr"))
        try:
            if len(execs):
                out[execs] = _when_execed(con.execute(_EXECS).fetchnumpy())
            if len(forks):
                row = con.execute(_QUEUED).fetchone()
                assert row is not None
                if row[0] >= _FEWEST:
                    out[forks] = np.asarray(recording.read("decision", ("ts_ns",))["ts_ns"])[forks] - row[1]
        finally:
            con.close()
    if truth is not None:
        returned, null = truth["returned_ns"]
        seen = (kind != _KINDS("wake")) & ~null
        out[seen] = returned[seen]
    return out if (out != NOT_TOLD).any() else None


def _when_execed(found: Mapping[str, npt.NDArray[np.generic]]) -> npt.NDArray[np.int64]:
    """Per row of _EXECS. Where it went does not tell, as it is what is asked for; the move does, which says when."""
    ts, since, asked = (np.ma.filled(found[name], NOT_TOLD).astype(np.int64) for name in ("ts_ns", "since", "asked_ns"))
    loads = (ts - since)[(asked != NOT_TOLD) & (since > asked)]
    if len(loads):
        asked = np.where(asked == NOT_TOLD, np.maximum(ts - int(np.median(loads)), since), asked)
    return asked
