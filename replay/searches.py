# SPDX-License-Identifier: GPL-2.0-or-later
"""When the search for a CPU is over that a wakeup begins, by the sched_migrate_task of those that move their task."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rewake.forms import ENUMS, Recording
from rewake.replay.recorded import by_capacity, with_null

Array = npt.NDArray[Any]

_ON_CPU_NS = 5_000
"""A task that was switched out so shortly before it is woken may still be on its CPU (policies.md C3.6a)."""

_SEARCH = 0.9
"""When the search for a CPU is over, in parts of the time until its result is recorded (sched_migrate_task)."""


class Searches(NamedTuple):
    """How long searches take: as a rule, and those of which it is known that they took longer."""

    usual: list[int]
    """From sched_waking on, ns, by the waker's CPU."""
    event: Array
    """Wakings (event id, ascending) of the longer ones."""
    end: Array
    """When these were over, ns."""

    def ends(self, event: Array) -> Array:
        """By decision that `event` opens: when its search was over, ns; 0 where there is but the rule."""
        out = np.zeros(len(event), np.int64)
        if len(self.event):
            at = np.minimum(np.searchsorted(self.event, event), len(self.event) - 1)
            here = self.event[at] == event
            out[here] = self.end[at[here]]
        return out


def of(recording: Recording, n_cpus: int) -> Searches:
    """As a rule they take _SEARCH of the median time until sched_migrate_task of the same placement, on CPUs of the
    waker's capacity or, where these moved few, on all, by their capacities; without those that waited for the wakee to
    leave its CPU. Where that event comes later than the median, the search was over as much before it as a rule."""
    found = [np.empty((4, 0), np.int64), *_moves(recording)]
    event, on, began, moved = np.concatenate(found, axis=1)
    order = np.argsort(event)
    event, on, began, moved = event[order], on[order], began[order], moved[order]
    whole = by_capacity(recording, n_cpus, on, moved - began)
    usual = [int(ns * _SEARCH) for ns in whole]
    late = moved - began > np.array(whole, np.int64)[on]
    rest = np.array(whole, np.int64) - np.array(usual, np.int64)
    return Searches(usual, event[late], (moved - rest[on])[late])


def _moves(recording: Recording) -> Iterator[Array]:
    """Per part, of wakeups that moved their task: event id of the waking, CPU, when it began, and when it moved."""
    cause = ENUMS["migrate_cause"].index("wake")
    before = {name: np.empty(0, np.int64) for name in ("cpu", "id", "task", "ts_ns")}
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
        to = {name: with_null(migrate[name])[0][moved].astype(np.int64) for name in before}
        at = np.searchsorted((cpu << 48) + event, (to["cpu"] << 48) + to["id"]) - 1  # events are in order of their ids
        began = waking["ts_ns"][at]
        same = (at >= 0) & (cpu[at] == to["cpu"]) & (waking["task"][at] == to["task"])
        same &= _left(recording, k, to["task"], to["id"]) < began - _ON_CPU_NS
        yield np.stack([event[at], to["cpu"], began, to["ts_ns"]]).astype(np.int64)[:, same]


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
