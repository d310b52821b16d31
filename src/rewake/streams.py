# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the streams of the CPUs belong together: the same window, in order, by the same clock.

A decision that was made before every CPU's stream had begun, or after one had ended, rests on a part of the machine: it
is kept, and counted nowhere. Where it is known that a stream began late or ended early, by its losses or because a task
was seen on another CPU meanwhile, that is certain; where a CPU is only silent with a task running, it is told, and the
decisions are counted. `--strict` refuses both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

UNEVEN = 0.1
"""Part of the span that a CPU may be silent at an end, where nothing says that it was idle; and that may be known to be
missing at the ends before it is a problem: recorders start and stop CPU by CPU, on a busy machine in tens of ms."""
_SURPRISING = 100
"""How many of its mean pauses a CPU has to be silent at an end for it to be told."""
_FEW = 10
"""Fewer records have no mean pause to speak of."""


def window(streams: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    """What all CPUs' streams have, for the manifest: `begin_ns` and `end_ns`, both included, with the CPUs that began
    `late` and those that were `cut` short; None: none was. A CPU without any of its records leaves an empty window."""
    late = [s for s in streams if s["late"] and s["events"]]
    cut = [s for s in streams if s["cut"]]
    if not late and not cut:
        return None
    first, last = _ends(streams)
    return {
        "begin_ns": max((s["first_ns"] for s in late), default=first),
        "end_ns": min((s["last_ns"] if s["events"] else first - 1 for s in cut), default=last),
        "late": [s["cpu"] for s in late],
        "cut": [s["cpu"] for s in cut],
    }


def _ends(streams: Sequence[dict[str, Any]]) -> tuple[int, int]:
    seen = [s for s in streams if s["events"]]
    return min((s["first_ns"] for s in seen), default=0), max((s["last_ns"] for s in seen), default=0)


def silences(streams: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Streams that begin long after the others with a task running, or end long before: `cpu`, `edge` (begin, end) and
    `at_ns`, of their first or last record. Those of which it is certain are in the window instead."""
    seen = [s for s in streams if s["events"] >= _FEW]
    first, last = _ends(streams)
    found = []
    for s in seen:
        pause = (s["last_ns"] - s["first_ns"]) / s["events"]
        for silent, busy, known, edge in (
            (s["first_ns"] - first, s["busy_first"], s["late"], "begin"),
            (last - s["last_ns"], s["busy_last"], s["cut"], "end"),
        ):
            if busy and not known and silent > max(UNEVEN * (last - first), _SURPRISING * pause):
                at = s["first_ns"] if edge == "begin" else s["last_ns"]
                found.append({"cpu": s["cpu"], "edge": edge, "at_ns": at})
    return found


def problems(streams: Sequence[dict[str, Any]]) -> list[str]:
    """What is wrong, in words, for the manifest. `streams`: as the decoder's finish() gives them."""
    seen = [s for s in streams if s["events"]]
    back = {s["steps_back"] for s in seen if s["events"] >= _FEW}
    if len(seen) > 1 and len(back) == 1 and (times := back.pop()):
        again = f"the time of every CPU steps back {times} times: the same trace twice in one file, or several traces"
        return [again, *_same(seen), *uneven(silences(streams), window(streams), *_ends(streams))]
    found = [
        f"CPU {s['cpu']}: its own time steps back {s['steps_back']} times: pages misordered or overlapping"
        for s in seen
        if s["steps_back"]
    ]
    return _same(seen) + _few(found) + uneven(silences(streams), window(streams), *_ends(streams))


def _same(seen: Sequence[dict[str, Any]]) -> list[str]:
    """CPUs whose streams cannot be told apart: no two have as many records between the same two times, to the ns."""
    alike: dict[tuple[int, int, int], list[int]] = {}
    for s in seen:
        if s["events"] >= _FEW:
            alike.setdefault((s["events"], s["first_ns"], s["last_ns"]), []).append(s["cpu"])
    return [
        f"{len(cpus)} CPUs, {cpus[0]} among them, have the same {key[0]:,} records: one CPU's, given for each"
        for key, cpus in alike.items()
        if len(cpus) > 1
    ]


def uneven(silent: Sequence[dict[str, Any]], whole: dict[str, Any] | None, first: int, last: int) -> list[str]:
    """What is wrong at the ends of the streams, in words; as silences() and window() give them for events from `first`
    to `last`."""
    found = []
    for s in silent:
        begin = s["edge"] == "begin"
        if s["at_ns"] > last if begin else s["at_ns"] < first:
            found.append(f"CPU {s['cpu']}: no records and a task was running: not recorded there, or another clock")
            continue
        length, cut = (s["at_ns"] - first, f"{_seconds(s['at_ns'] - first)}..") if begin else (
            last - s["at_ns"], f"..{_seconds(s['at_ns'] - first)}")  # fmt: skip
        found.append(
            f"CPU {s['cpu']}: records {s['edge']} {_seconds(length)} {'after' if begin else 'before'} the others'"
            f" and a task was running: not recorded there, or another clock; rewake slice --window {cut}"
            " keeps what all have"
        )
    found = _few(found)
    if whole is not None:
        lacking = (whole["begin_ns"] - first) + (last - whole["end_ns"])
        if whole["begin_ns"] > whole["end_ns"]:
            found.append("there is no time that all CPUs' records cover: no decision is counted")
        elif lacking > UNEVEN * (last - first):
            found.append(
                f"all CPUs' records cover {_seconds(whole['begin_ns'] - first)}..{_seconds(whole['end_ns'] - first)}"
                f" of {_seconds(last - first)} only: decisions before and after are not counted"
            )
    return found


def within(manifest: dict[str, Any], first: int, last: int) -> dict[str, Any]:
    """What the manifest of a slice with events from `first` to `last` says of its ends: `window`, `silences` and
    `problems`. Where in the whole the other problems were is not known: they are `damage`."""
    old, old_window = manifest.get("silences") or [], manifest.get("window")
    told = uneven(old, old_window, manifest["first_ns"], manifest["last_ns"])
    silent = [
        s for s in old
        if (min(s["at_ns"], last) - first if s["edge"] == "begin" else last - max(s["at_ns"], first))
        > UNEVEN * (last - first)
    ]  # fmt: skip
    whole = None
    if old_window is not None and (old_window["begin_ns"] > first or old_window["end_ns"] < last):
        begin, end = max(old_window["begin_ns"], first), min(old_window["end_ns"], last)
        whole = {
            "begin_ns": begin, "end_ns": end,
            "late": old_window["late"] if begin > first else [], "cut": old_window["cut"] if end < last else [],
        }  # fmt: skip
    return {
        "window": whole,
        "silences": silent,
        "problems": uneven(silent, whole, first, last),
        "damage": [p for p in manifest.get("problems") or () if p not in told],
    }


def unrecorded(streams: Sequence[dict[str, Any]], put: Mapping[int, int], kept: Sequence[int] | None) -> list[str]:
    """What is wrong where CPUs have no records at all though tasks were `put` there, times by CPU; `kept`: those that
    were asked for, None: all. Few times are no sign: what a CPU does next may come behind the end."""
    seen = {s["cpu"] for s in streams if s["events"]}
    silent = sorted(cpu for cpu, n in put.items() if n >= _FEW and cpu not in seen and (kept is None or cpu in kept))
    if not seen or not silent:
        return []
    which = f"CPU {silent[0]} has" if len(silent) == 1 else f"{len(silent)} CPUs, {silent[0]} among them, have"
    times = f"{sum(put[c] for c in silent):,} times a task was put there"
    return [f"{which} no records, and {times}: not recorded (trace-cmd record -M, tracing_cpumask); record all CPUs"]


def _few(found: list[str]) -> list[str]:
    return found if len(found) <= 8 else [*found[:8], f"and {len(found) - 8} more of this kind"]


def _seconds(ns: int) -> str:
    return f"{ns / 1e9:.3f}s"
