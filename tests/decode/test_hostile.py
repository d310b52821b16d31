# SPDX-License-Identifier: GPL-2.0-or-later
"""Files that are well-formed and made to take for ever: time stays in proportion to their size."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import tracedat
from decode.reading import decode


def test_very_many_event_formats(tmp_path: Path) -> None:
    """libtraceevent's time to take in a format grows with the number of those that it has."""
    vectors = [
        tracedat.Format("irq_vectors", f"x{i}_entry", 1000 + i, ("int vector",), "vector=%d") for i in range(20_000)
    ]
    path = tmp_path / "t.dat"
    rows: list[tracedat.Row] = [(1000, 0, "sched_switch", {"prev_pid": 9, "next_pid": 0})]
    tracedat.write(path, rows, fmts=[*tracedat.FORMATS, *vectors])
    start = time.process_time()
    got = decode(path)
    assert time.process_time() - start < 10 and len(got.rows) == 1
    (problem,) = got.end["problems"]
    assert problem.startswith("more event formats than any kernel has, the events of the others skipped: ")


def test_very_many_letters_of_prev_state(tmp_path: Path) -> None:
    """Each switch whose state lies above the table looks at all of them."""
    switch = next(f for f in tracedat.FORMATS if f.name == "sched_switch")
    pairs = ", ".join('{ 0x80000000, "Q" }' for _ in range(40_000))
    hostile = replace(switch, states=switch.states.replace("{ 0x00000001", f"{pairs}, {{ 0x00000001", 1))
    assert hostile.states != switch.states
    others = [f for f in tracedat.FORMATS if f is not switch]
    rows: list[tracedat.Row] = [
        (1000 + i, 0, "sched_switch", {"prev_pid": 9, "next_pid": 0, "prev_state": 0x40000000}) for i in range(20_000)
    ]
    path = tmp_path / "t.dat"
    tracedat.write(path, rows, fmts=[hostile, *others])
    start = time.process_time()
    assert len(decode(path).rows) == len(rows)
    assert time.process_time() - start < 10
