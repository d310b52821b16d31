# SPDX-License-Identifier: GPL-2.0-or-later
"""Interrupts in which an idle CPU empties its wake list, and how long it takes until a task of the list is queued."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from rewake.forms import ENUMS, Columns, Recording, kernel_version, with_null
from rewake.replay.recorded import Source, by_capacity, tables

_IPIS = {
    "irq": ("id", "ts_ns", "cpu", "curr_task", "kind", "entry"),
    "ipi": ("id", "ts_ns", "cpu", "curr_task", "phase"),
}
_LISTED, _STAYS = 0.5, 0.1
"""From sched_migrate_task, and of a task that stays from the end of its search, to the wake list, in parts of the time
from sched_waking to sched_migrate_task. Recordings of 6.1 come out alike from 0.45 to 0.7."""

_WAKE, _OUT = ENUMS["migrate_cause"].index("wake"), ENUMS["probe_phase"].index("out")

_CLEARED, _CLEARED_AGREED = 0.36, 0.5
"""When a wake list is cleared, in parts of the time from its interrupt to the first sched_wakeup. Recordings of arm64
come out best from 0.33 to 0.37 where the clocks of slow CPUs run evenly, alike from 0.36 to 0.55 where they do not; on
x86, where clocks agree, searches find its CPU idle from 0.47 on."""

_SHORTEST_NS = 1_500
"""So long it has to be until a task is queued, unless clocks agree: what is much shorter than events of two CPUs have
an order (order.py) cannot be told."""

_ENOUGH = 10_000
"""So many measured times are enough for a median."""

_LONGEST_NS = 100_000
"""Until a task is queued after such an interrupt began; later ones are not its doing."""


def seen_empty(source: Source) -> bool:
    """Whether a CPU looks idle from when it begins to empty its wake list until the first task is queued: until 6.1
    rq::ttwu_pending, and before 5.8 the list itself, is cleared first (sched_ttwu_pending; 6.2: after the last)."""
    return (0, 0) < kernel_version(source.manifest.get("kernel")) < (6, 2)


def listing(
    source: Recording, n_cpus: int, placing: list[int], *, probes: bool, agree: bool = False
) -> tuple[list[int], list[int]]:
    """Until a task is on the wake list of the CPU that it is to go to, ns, by the waker's CPU: from sched_migrate_task
    and, of one that stays, from the end of its search.

    From events they are parts of `placing`, the time until sched_migrate_task of a task that moves; the search of one
    that does not is shorter, and that makes up for most of the second. Where the interrupts that tell CPUs of their
    wake lists are recorded as they are sent, the first is the median time until then. `probes`: they see a search end,
    and what they saw from there to sched_migrate_task takes as long as either; where clocks agree (clocks.py), half as
    long again.
    """
    took = [np.empty((2, 0), np.int64)]
    for k in range(source.n_parts if probes else 0):
        ends: Any = source.read_part("probe", k, ("id", "ts_ns", "cpu", "phase"))
        if not len(ends["id"]):
            continue
        moved: Any = source.read_part("migrate", k, ("id", "ts_ns", "cpu", "cause"))
        why, unknown = with_null(moved["cause"])
        moved = {name: moved[name][(why == _WAKE) & ~unknown] for name in ("id", "ts_ns", "cpu")}
        at, same = last_before(ends, moved)
        ns = moved["ts_ns"] - ends["ts_ns"][at]
        good = same & (ends["phase"][at] == _OUT) & (ns < _LONGEST_NS)
        took.append(np.stack([moved["cpu"].astype(np.int64), ns])[:, good])
    on, ns = np.concatenate(took, axis=1)
    if not len(ns):
        after, stays = ([int(part * ns) for ns in placing] for part in (_LISTED, _STAYS))
        return _sending(source, n_cpus) or after, stays
    found = [ns * 3 // 2 if agree else ns for ns in by_capacity(source, n_cpus, on, ns)]
    return found, found


def _sending(source: Recording, n_cpus: int) -> list[int]:
    """From sched_migrate_task of a wakeup to the interprocessor interrupt that its CPU sends next, median by CPU, ns;
    empty where none is recorded. Who joins a list that is not empty sends none."""
    took = [np.empty((2, 0), np.int64)]
    for k in range(source.n_parts):
        if sum(part.shape[1] for part in took) > _ENOUGH:
            break
        ipi: Any = source.read_part("ipi", k, ("id", "ts_ns", "cpu", "phase"))
        sent = ipi["phase"] == ENUMS["ipi_phase"].index("send")
        marks = _placing(source, k)
        if not sent.any() or not len(marks["id"]):
            continue
        ipi = {name: ipi[name][sent] for name in ("id", "ts_ns", "cpu")}
        at, same = last_before(marks, ipi)
        first = np.unique(at, return_index=True)[1]
        at, ns = at[first], ipi["ts_ns"][first] - marks["ts_ns"][at[first]]
        good = same[first] & marks["moves"][at] & (ns < _LONGEST_NS)
        took.append(np.stack([ipi["cpu"][first].astype(np.int64), ns])[:, good])
    on, ns = np.concatenate(took, axis=1)
    return by_capacity(source, n_cpus, on, ns) if len(ns) else []


def _placing(source: Recording, index: int) -> dict[str, npt.NDArray[Any]]:
    """sched_waking and, `moves`, sched_migrate_task of wakeups, in order."""
    waking: Any = source.read_part("waking", index, ("id", "ts_ns", "cpu"))
    moved: Any = source.read_part("migrate", index, ("id", "ts_ns", "cpu", "cause"))
    why, unknown = with_null(moved["cause"])
    of_wakeup = (why == _WAKE) & ~unknown
    found = {n: np.concatenate([waking[n], moved[n][of_wakeup]]) for n in ("id", "ts_ns", "cpu")}
    found["moves"] = np.arange(len(found["id"])) >= len(waking["id"])
    order = np.argsort(found["id"])
    return {name: column[order] for name, column in found.items()}


def interrupts(source: Source, index: int, after: list[int]) -> Columns:
    """Entries of interrupts in which idle CPUs may empty their wake lists, in a part. `after`: as of clearing(); where
    that is 0 they are left out."""
    entries = _handlers(source, index)
    here = entries["begins"] & (entries["curr_task"] < len(after)) & (np.array(after)[entries["cpu"]] > 0)
    return {name: entries[name][here] for name in ("id", "ts_ns", "cpu")}


def clearing(source: Recording, n_cpus: int, *, agree: bool = False) -> list[int]:
    """From the entry of such an interrupt until nobody sees the tasks of the list any more, ns, by CPU: _CLEARED of the
    median time to sched_wakeup of the first of them, on CPUs of its capacity. 0 where the rest of it is too short to
    tell, or no such interrupt is recorded. `agree`: the clocks of two CPUs do (clocks.py)."""
    took = [np.empty((2, 0), np.int64)]
    for k in range(source.n_parts):
        if sum(part.shape[1] for part in took) > _ENOUGH:
            break
        wakeup, began = first_queued(source, k, n_cpus)
        took.append(np.stack([wakeup["cpu"].astype(np.int64), wakeup["ts_ns"] - began]))
    found = by_capacity(source, n_cpus, *np.concatenate(took, axis=1))
    part, shortest = (_CLEARED_AGREED, 0) if agree else (_CLEARED, _SHORTEST_NS)
    return [int(part * ns) if ns * (1 - part) >= shortest else 0 for ns in found]


def first_queued(
    source: Recording, index: int, n_cpus: int
) -> tuple[dict[str, npt.NDArray[Any]], npt.NDArray[np.int64]]:
    """sched_wakeup of the first task that idle CPUs queue in an interrupt, and when that began, ns, in a part."""
    names = ("id", "ts_ns", "cpu", "task")
    ipi = _handlers(source, index)
    if not len(ipi["id"]):
        return {name: np.empty(0, np.int64) for name in names}, np.empty(0, np.int64)
    wakeup: Any = source.read_part("wakeup", index, (*names, "curr_task", "target_cpu"))
    own = (wakeup["cpu"] == wakeup["target_cpu"]) & (wakeup["curr_task"] < n_cpus)
    wakeup = {name: wakeup[name][own] for name in names}
    at, same = last_before(ipi, wakeup)
    first = np.unique(at, return_index=True)[1]  # task of the list
    at, same, wakeup = at[first], same[first], {name: column[first] for name, column in wakeup.items()}
    began = ipi["ts_ns"][at]
    good = same & ipi["begins"][at] & (wakeup["ts_ns"] - began < _LONGEST_NS)
    return {name: column[good] for name, column in wakeup.items()}, began[good]


def _handlers(source: Source, index: int) -> dict[str, npt.NDArray[Any]]:
    """Begin and end of the handlers of interprocessor interrupts, in order."""
    found: dict[str, Any] = tables(source, index, _IPIS)
    irq, ipi = found["irq"], found["ipi"]
    kinds = [ENUMS["irq_kind"].index(kind) for kind in ("reschedule", "call_function", "call_function_single")]
    phases = ENUMS["ipi_phase"]
    sent = np.isin(irq["kind"], kinds)
    handled = ipi["phase"] != phases.index("send")
    begins = np.concatenate([irq["entry"][sent], (ipi["phase"] == phases.index("entry"))[handled]])
    columns = {
        name: np.concatenate([irq[name][sent], ipi[name][handled]]) for name in ("id", "ts_ns", "cpu", "curr_task")
    }
    order = np.argsort(columns["id"])
    return {name: column[order] for name, column in (columns | {"begins": begins}).items()}


def by_waker(recording: Recording, k: int) -> npt.NDArray[np.bool_]:
    """Per decision of that part: its sched_wakeup is of the waker's CPU, so it did not come from a wake list."""
    decisions: Any = recording.read_part("decision", k, ("ts_ns", "task", "waker_cpu", "wakeup_ns"))
    ts, task = np.asarray(decisions["ts_ns"]), np.asarray(decisions["task"]).astype(np.int64)
    (waker, no_waker), (after, open_) = (with_null(decisions[name]) for name in ("waker_cpu", "wakeup_ns"))
    wakeups: Any = recording.read_part("wakeup", k, ("ts_ns", "cpu", "task"))
    if not len(ts) or not len(wakeups["ts_ns"]):
        return np.zeros(len(ts), np.bool_)
    at, woken = np.asarray(wakeups["ts_ns"]), with_null(wakeups["task"])[0].astype(np.int64)
    first = min(int(ts[0]), int(at[0]))
    span = max(int(at[-1]), int(ts[-1])) - first + 1
    keys = woken * span + (at - first)
    order = np.argsort(keys)
    key = task * span + np.where(open_, 0, ts + after.astype(np.int64) - first)
    found = order[np.minimum(np.searchsorted(keys, key, sorter=order), len(order) - 1)]
    out: npt.NDArray[np.bool_] = (keys[found] == key) & ~open_ & ~no_waker & (wakeups["cpu"][found] == waker)
    return out


def last_before(columns: Any, events: Any) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Row of `columns` (some) that comes last before each event on the same CPU, and whether there is one. Both in
    order."""
    key, wanted = ((c["cpu"].astype(np.int64) << 48) + c["id"] for c in (columns, events))
    order = np.argsort(key)
    before = np.searchsorted(key, wanted, sorter=order) - 1
    at = order[before]
    return at, (before >= 0) & (columns["cpu"][at] == events["cpu"])
