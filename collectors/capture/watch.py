# SPDX-License-Identifier: GPL-2.0-or-later
"""Wake-to-run latencies in short traces of switches and wakings."""

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


@dataclass(frozen=True)
class Happened:
    """What happened to tasks, columns by task and time: it left a CPU (still runnable or not), woke, or got one."""

    task: Array
    ts: Array
    kind: Array
    runnable: Array

    @classmethod
    def of(cls, waking: dict[str, Array], switch: dict[str, Array]) -> Happened:
        """Columns are decode's: id, ts_ns, task; id, ts_ns, prev_task, prev_state, next_task."""
        n_waking, n_switch = len(waking["id"]), len(switch["id"])
        ident = np.concatenate([switch["id"], waking["id"], switch["id"]])
        found = cls(
            np.concatenate([switch["prev_task"], waking["task"], switch["next_task"]]).astype(np.int64),
            np.concatenate([switch["ts_ns"], waking["ts_ns"], switch["ts_ns"]]).astype(np.int64),
            np.repeat([_OUT, _WAKING, _IN], [n_switch, n_waking, n_switch]),
            np.concatenate([np.isin(switch["prev_state"], _RUNNABLE), np.zeros(n_waking + n_switch, np.bool_)]),
        )
        return found[np.lexsort((ident, found.task))]._first_wakings()

    def __getitem__(self, rows: Array) -> Happened:
        return Happened(self.task[rows], self.ts[rows], self.kind[rows], self.runnable[rows])

    def _first_wakings(self) -> Happened:
        """Of several wakings in a row the first begins the wait."""
        again = np.zeros(len(self.task), np.bool_)
        again[1:] = (self.kind[1:] == _WAKING) & (self.kind[:-1] == _WAKING) & (self.task[1:] == self.task[:-1])
        return self[~again]

    def after(self, before: Happened) -> Happened:
        both = Happened(
            np.concatenate([before.task, self.task]), np.concatenate([before.ts, self.ts]),
            np.concatenate([before.kind, self.kind]), np.concatenate([before.runnable, self.runnable]),
        )  # fmt: skip
        return both[np.lexsort((both.ts, both.task))]._first_wakings()

    def last(self) -> Happened:
        """Of each task what the next look has to know: the last that happened, and what came before a waking."""
        end = np.ones(len(self.task), np.bool_)
        end[:-1] = self.task[1:] != self.task[:-1]
        before = np.zeros(len(self.task), np.bool_)
        before[:-1] = ~end[:-1] & end[1:] & (self.kind[1:] == _WAKING)
        return self[end | before]

    def waits(self, last_ns: int) -> tuple[Array, Array]:
        """(ns, task) of each wait.

        A waking of a task that was running, or preempted and never slept, is no wait. One whose past is not known
        counts when the next thing that happens to the task is that it gets a CPU.
        """
        task, ts, kind, runnable = self.task, self.ts, self.kind, self.runnable
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


class Looks:
    """Looks at traces that follow each other: a wait may be longer than any of them."""

    def __init__(self) -> None:
        self._before: Happened | None = None

    def forget(self) -> None:
        """Events are missing from here on back."""
        self._before = None

    def worst(self, trace: Path) -> Sample | None:
        """The longest wait that ended in this trace.dat, or goes on; None without any."""
        from rewake.collectors._decode import TraceDat

        reader = TraceDat(str(trace))
        columns = {"waking": ("id", "ts_ns", "task"), "switch": ("id", "ts_ns", "prev_task", "prev_state", "next_task")}
        parts: dict[str, list[dict[str, Any]]] = {table: [] for table in columns}
        while batch := reader.next_batch():
            for table, rows in batch.items():
                if table in parts:
                    parts[table].append(rows)
        end = reader.finish()
        if not any(parts.values()):
            return None
        waking, switch = (
            {k: np.concatenate([np.empty(0, np.int64), *(p[k] for p in parts[table])]) for k in names}
            for table, names in columns.items()
        )
        tids = end["tasks"]["tid"].astype(np.int64)
        for rows, names in ((waking, ("task",)), (switch, ("prev_task", "next_task"))):
            for name in names:  # what is a task's number in one trace is another's in the next
                rows[name] = tids[rows[name].astype(np.int64)]
        happened = Happened.of(waking, switch)
        if self._before is not None:
            happened = happened.after(self._before)
        self._before = happened.last()
        ns, tid = happened.waits(end["last_ns"])
        if not len(ns):
            return None
        longest = int(np.argmax(ns))
        return Sample(int(ns[longest]), int(tid[longest]))
