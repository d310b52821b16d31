# SPDX-License-Identifier: GPL-2.0-or-later
"""Wake-to-run latencies in a short trace of switches and wakings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rewake.forms import ENUMS

_RUNNABLE = tuple(ENUMS["prev_state"].index(s) for s in ("R", "R+"))
_OUT, _WAKING, _IN = 0, 1, 2
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sample:
    """One wait: from sched_waking to the switch to the task, or to the end of the trace when it still waits."""

    ns: int
    tid: int


def latencies(waking: dict[str, Array], switch: dict[str, Array], last_ns: int) -> tuple[Array, Array]:
    """(ns, task) of each wait. Columns are decode's: id, ts_ns, task; id, ts_ns, prev_task, prev_state, next_task.

    A waking of a task that was running, or preempted and never slept, is no wait. One whose past is not in the trace
    counts when the next thing that happens to the task is that it gets a CPU.
    """
    n_waking, n_switch = len(waking["id"]), len(switch["id"])
    task = np.concatenate([switch["prev_task"], waking["task"], switch["next_task"]]).astype(np.int64)
    ident = np.concatenate([switch["id"], waking["id"], switch["id"]])
    ts = np.concatenate([switch["ts_ns"], waking["ts_ns"], switch["ts_ns"]])
    kind = np.repeat([_OUT, _WAKING, _IN], [n_switch, n_waking, n_switch])
    runnable = np.concatenate([np.isin(switch["prev_state"], _RUNNABLE), np.zeros(n_waking + n_switch, np.bool_)])
    order = np.lexsort((ident, task))
    task, ts, kind, runnable = task[order], ts[order], kind[order], runnable[order]
    # Of several wakings in a row the first begins the wait.
    again = np.zeros(len(task), np.bool_)
    again[1:] = (kind[1:] == _WAKING) & (kind[:-1] == _WAKING) & (task[1:] == task[:-1])
    task, ts, kind, runnable = task[~again], ts[~again], kind[~again], runnable[~again]
    at = np.flatnonzero(kind == _WAKING)
    if not len(at):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    before, after = np.maximum(at - 1, 0), np.minimum(at + 1, len(task) - 1)
    has_before = (at > 0) & (task[before] == task[at])
    has_after = (at + 1 < len(task)) & (task[after] == task[at])
    slept = has_before & (kind[before] == _OUT) & ~runnable[before]
    ran = has_after & (kind[after] == _IN) & (slept | ~has_before)
    waits = slept & ~has_after
    ns = np.where(ran, ts[after] - ts[at], last_ns - ts[at])
    chosen = ran | waits
    return ns[chosen], task[at][chosen]


def worst(trace: Path) -> Sample | None:
    """The longest wait in a trace.dat; None without any."""
    from rewake.collectors._decode import TraceDat

    reader = TraceDat(str(trace))
    parts: dict[str, list[dict[str, Any]]] = {"waking": [], "switch": []}
    while batch := reader.next_batch():
        for table, rows in batch.items():
            if table in parts:
                parts[table].append(rows)
    end = reader.finish()
    if not parts["waking"] or not parts["switch"]:
        return None
    waking, switch = (
        {k: np.concatenate([p[k] for p in parts[table]]) for k in names}
        for table, names in (
            ("waking", ("id", "ts_ns", "task")),
            ("switch", ("id", "ts_ns", "prev_task", "prev_state", "next_task")),
        )
    )
    ns, task = latencies(waking, switch, end["last_ns"])
    if not len(ns):
        return None
    longest = int(np.argmax(ns))
    return Sample(int(ns[longest]), int(end["tasks"]["tid"][task[longest]]))
