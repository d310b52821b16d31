# SPDX-License-Identifier: GPL-2.0-or-later
"""Random rows come back in (time, cpu, sequence) order, whatever the container, the formats and the batches."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path
from typing import Any

import tracedat
from decode.reading import STATES, Record, Reference, decode, in_order, same, unescape
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CPUS = 5
pids = st.integers(0, 6)
cpus = st.integers(0, CPUS - 1)
prios = st.integers(-1, 139)
comms = st.one_of(st.sampled_from([b"", b"a", b"sh", b"kworker/0:1"]), st.binary(max_size=16))
ints = st.integers(-(2**31), 2**31 - 1)
sizes = st.integers(0, 2**63 - 1)
wake = st.fixed_dictionaries({"comm": comms, "pid": pids, "prio": prios, "target_cpu": cpus})
vector = st.fixed_dictionaries({"vector": ints})
vec = st.fixed_dictionaries({"vec": st.integers(0, 9)})
power = st.fixed_dictionaries({"state": st.sampled_from([0, 1, 2**32 - 1]), "cpu_id": cpus})
FIELDS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "sched_switch": st.fixed_dictionaries({
        "prev_comm": comms, "prev_pid": pids, "prev_prio": prios, "prev_state": st.sampled_from(sorted(STATES)),
        "next_comm": comms, "next_pid": pids, "next_prio": prios,
    }),
    "sched_waking": wake, "sched_wakeup": wake, "sched_wakeup_new": wake,
    "sched_migrate_task": st.fixed_dictionaries({
        "comm": comms, "pid": pids, "prio": prios, "orig_cpu": cpus, "dest_cpu": cpus,
    }),
    "sched_process_fork": st.fixed_dictionaries({
        "parent_comm": comms, "parent_pid": pids, "child_comm": comms, "child_pid": pids,
    }),
    "sched_process_exec": st.fixed_dictionaries({"filename": st.binary(max_size=300), "pid": pids, "old_pid": pids}),
    "sched_process_exit": st.fixed_dictionaries({"comm": comms, "pid": pids, "prio": prios}),
    "irq_handler_entry": st.fixed_dictionaries({"irq": ints, "name": st.binary(max_size=20)}),
    "irq_handler_exit": st.fixed_dictionaries({"irq": ints, "ret": ints}),
    "local_timer_entry": vector, "reschedule_exit": vector, "made_up_entry": vector,
    "softirq_raise": vec, "softirq_entry": vec, "softirq_exit": vec,
    "ipi_raise": st.fixed_dictionaries({"target_cpus": st.integers(0, 2**100)}),
    "ipi_send_cpumask": st.fixed_dictionaries({"cpumask": st.sampled_from([0, 1, 2, 3, 16, 1 << 90])}),
    "ipi_send_cpu": st.fixed_dictionaries({"cpu": st.integers(0, 2**32 - 1)}),
    "ipi_entry": st.fixed_dictionaries({"reason": ints}), "ipi_exit": st.fixed_dictionaries({"reason": ints}),
    "cpu_idle": power, "cpu_frequency": power,
    "select_in": st.fixed_dictionaries({
        "pid": pids, "prev": st.integers(-2, 9), "flags": ints, "recent": st.integers(-2, 9),
        "flips": st.integers(0, 2**32 - 1), "util": sizes, "load": sizes, "nallowed": ints, "nis": ints,
        "hic": ints, "qload": sizes,
        "qnr": st.integers(0, 2**31 - 1),
    }),
    "select_out": st.fixed_dictionaries({"cpu": st.integers(-2, 9)}),
    "timer_init": st.fixed_dictionaries({"timer": st.integers(0, 2**32 - 1)}),
}  # fmt: skip
FLAGS = st.sampled_from([0, 0x01, 0x08, 0x10, 0x18, 0x40, 0x58])
LOSS = st.sampled_from([None, None, None, None, -1, 0, 7, 2**31 - 1])
STEP = st.one_of(st.integers(0, 3), st.integers(0, 2**20), st.integers(2**26, 2**29))


@st.composite
def records(draw: st.DrawFn) -> list[Record]:
    out = []
    now = [draw(st.integers(0, 2**40))] * CPUS
    for _ in range(draw(st.integers(0, 60))):
        event = draw(st.sampled_from(sorted(FIELDS)))
        cpu = draw(cpus)
        now[cpu] += draw(STEP)
        out.append(Record(now[cpu], cpu, event, draw(FIELDS[event]), draw(pids), draw(FLAGS), draw(LOSS)))
    return out


@st.composite
def writing(draw: st.DrawFn) -> dict[str, Any]:
    version, compression = draw(st.sampled_from([(6, "none"), (7, "none"), (7, "zstd")]))
    machine = tracedat.Machine(
        CPUS,
        draw(st.sampled_from([4, 8])),
        draw(st.sampled_from("<>")),
        draw(st.sampled_from([1024, 4096])),
        draw(st.booleans()),
    )
    shuffle = random.Random(draw(st.integers(0, 2**16))) if draw(st.booleans()) else None
    fmts = tracedat.formats(dynamic_comm=draw(st.sets(st.sampled_from(sorted(FIELDS)))), shuffle=shuffle)
    return {"version": version, "compression": compression, "machine": machine, "fmts": fmts}


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(records(), writing(), st.sampled_from([2, 3, 17, 1_000_000]))
def test_rows_come_back(rows: list[Record], how: dict[str, Any], batch: int) -> None:
    written: list[tracedat.Row] = []
    for r in rows:
        if r.lost is not None:
            written.append((r.ts, r.cpu, "loss", {"lost": None if r.lost < 0 else r.lost}))
        written.append((r.ts, r.cpu, r.event, {**r.fields, "common_pid": r.pid, "common_flags": r.flags}))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.dat"
        tracedat.write(path, written, **how)
        got = decode(path, batch)
    assert got.end["problems"] == []
    same(got, Reference(CPUS).run(in_order(rows)))


@given(st.lists(st.binary(max_size=16), min_size=1, max_size=20))
@settings(max_examples=60)
def test_escaped_names_are_printable_and_reversible(names: list[bytes]) -> None:
    rows: list[tracedat.Row] = [
        (i + 1, 0, "sched_waking", {"comm": n, "pid": 100 + i, "prio": 120}) for i, n in enumerate(names)
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.dat"
        tracedat.write(path, rows)
        got = decode(path).names()
    assert [unescape(n) for _, _, n in got] == [n.split(b"\0")[0] for n in names]
    for _, _, name in got:
        plain = name.replace("\\x", "")
        assert "\\" not in plain
        assert all(c.isprintable() or ord(c) > 0xFF for c in plain)
