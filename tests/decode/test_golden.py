# SPDX-License-Identifier: GPL-2.0-or-later
"""A few rows in, expected columns out, in every container."""

from __future__ import annotations

import random
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tracedat
from decode.reading import Decoded, decode

from rewake.collectors import _decode
from rewake.errors import TraceError
from rewake.forms import ENUMS, EVENT_TABLES

S = 10**9
ROWS: list[tracedat.Row] = [
    (1 * S, 0, "sched_waking", {"comm": "make", "pid": 40, "prio": 120, "target_cpu": 1, "common_flags": 0x08}),
    (1 * S + 10, 0, "sched_migrate_task", {"comm": "make", "pid": 40, "prio": 120, "orig_cpu": 1, "dest_cpu": 2}),
    (1 * S + 20, 0, "sched_wakeup", {"comm": "make", "pid": 40, "prio": 120, "target_cpu": 2, "common_flags": 0x10}),
    (1 * S + 30, 2, "cpu_idle", {"state": 0xFFFFFFFF, "cpu_id": 2}),
    (1 * S + 40, 2, "sched_switch", {"prev_comm": "swapper/2", "prev_prio": 120, "next_comm": "make", "next_pid": 40,
                                     "next_prio": 120}),
    (1 * S + 50, 2, "sched_process_fork", {"parent_comm": "make", "parent_pid": 40, "child_comm": "make",
                                           "child_pid": 41, "common_pid": 40}),
    (1 * S + 60, 2, "sched_wakeup_new", {"comm": "make", "pid": 41, "prio": 120, "target_cpu": 1, "common_pid": 40}),
    (1 * S + 70, 1, "sched_switch", {"prev_comm": "swapper/1", "prev_prio": 120, "next_comm": "make", "next_pid": 41,
                                     "next_prio": 120}),
    (1 * S + 80, 1, "sched_process_exec", {"filename": "/bin/cc", "pid": 41, "old_pid": 41, "common_pid": 41}),
    (1 * S + 90, 1, "irq_handler_entry", {"irq": 9, "name": "acpi", "common_pid": 41}),
    (1 * S + 91, 1, "irq_handler_exit", {"irq": 9, "ret": 1, "common_pid": 41}),
    (1 * S + 92, 1, "local_timer_entry", {"vector": 236, "common_pid": 41}),
    (1 * S + 93, 1, "made_up_entry", {"vector": -3, "common_pid": 41}),
    (1 * S + 94, 1, "softirq_raise", {"vec": 7, "common_pid": 41}),
    (1 * S + 95, 1, "ipi_raise", {"target_cpus": 0b100, "common_pid": 41}),
    (1 * S + 96, 1, "ipi_send_cpumask", {"cpumask": 0b110, "common_pid": 41}),
    (1 * S + 97, 1, "ipi_send_cpu", {"cpu": 0, "common_pid": 41}),
    (1 * S + 98, 1, "cpu_frequency", {"state": 2400000, "cpu_id": 1, "common_pid": 41}),
    (1 * S + 99, 1, "timer_init", {"timer": 1, "common_pid": 41}),
    (2 * S, 1, "loss", {"lost": 12}),
    (2 * S, 1, "sched_process_exit", {"comm": "cc", "pid": 41, "prio": 120, "common_pid": 41}),
    (2 * S + 10, 1, "sched_switch", {"prev_comm": "cc", "prev_pid": 41, "prev_prio": 120, "prev_state": 0x10,
                                     "next_comm": "swapper/1", "next_prio": 120, "common_pid": 41}),
    (2 * S + 20, 1, "cpu_idle", {"state": 2, "cpu_id": 1}),
    (3 * S, 1, "loss", {"lost": None}),
    (3 * S, 1, "sched_waking", {"comm": "sshd", "pid": 41, "prio": 98, "target_cpu": 0, "common_flags": 0x58}),
]  # fmt: skip
CONTAINERS: dict[str, dict[str, Any]] = {
    "v6": {"version": 6}, "v7": {"version": 7}, "v7-zstd": {"version": 7, "compression": "zstd"},
    "32-bit": {"machine": tracedat.Machine(3, 4)}, "big-endian": {"machine": tracedat.Machine(3, endian=">")},
    "32-bit big-endian zstd": {"machine": tracedat.Machine(3, 4, ">"), "version": 7, "compression": "zstd"},
    "16K pages": {"machine": tracedat.Machine(3, page_size=16384), "version": 7, "compression": "zstd"},
    "absolute times": {"machine": tracedat.Machine(3, absolute=True)},
    "dynamic strings": {"fmts": tracedat.formats(dynamic_comm={f.name for f in tracedat.FORMATS})},
    "fields in another order": {"fmts": tracedat.formats(shuffle=random.Random(3))},
}  # fmt: skip


@pytest.fixture(params=CONTAINERS, scope="module")
def golden(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Decoded:
    path = tmp_path_factory.mktemp("golden") / "trace.dat"
    tracedat.write(path, ROWS, **{"machine": tracedat.Machine(3), **CONTAINERS[request.param]})
    return decode(path)


def columns(rows: list[dict[str, Any]], names: str) -> list[tuple[Any, ...]]:
    return [tuple(r[n] for n in names.split()) for r in rows]


def code(enum: str, word: str) -> int:
    return ENUMS[enum].index(word)


def test_tasks(golden: Decoded) -> None:
    tasks = golden.end["tasks"]
    assert golden.keys() == [(0, 0), (0, 1), (0, 2), (40, 0), (41, 0), (41, 1)]
    sources = ("idle", "idle", "idle", "first_sight", "fork", "first_sight")
    assert tasks["source"].tolist() == [code("task_source", s) for s in sources]
    assert tasks["parent"][1].tolist() == [True, True, True, True, False, True] and tasks["parent"][0][4] == 3
    assert tasks["first_ns"][0].tolist() == [1 * S, 1 * S + 70, 1 * S + 30 + 10, 1 * S, 1 * S + 50, 3 * S]
    assert tasks["exit_ns"][0][4] == 2 * S and tasks["exit_ns"][1].sum() == 5
    assert golden.names() == [
        ((40, 0), 1 * S, "make"), ((0, 2), 1 * S + 40, "swapper/2"), ((41, 0), 1 * S + 50, "make"),
        ((0, 1), 1 * S + 70, "swapper/1"), ((41, 0), 2 * S, "cc"), ((41, 1), 3 * S, "sshd"),
    ]  # fmt: skip


def test_scheduler_tables(golden: Decoded) -> None:
    running, dead = code("prev_state", "R"), code("prev_state", "X")
    switch = {"prev_prio": 120, "next_prio": 120}
    assert golden.table("switch") == [
        {"id": 4, "ts_ns": S + 40, "cpu": 2, "prev_task": 2, "prev_state": running, "next_task": 3, **switch},
        {"id": 7, "ts_ns": S + 70, "cpu": 1, "prev_task": 1, "prev_state": running, "next_task": 4, **switch},
        {"id": 20, "ts_ns": 2 * S + 10, "cpu": 1, "prev_task": 4, "prev_state": dead, "next_task": 1, **switch},
    ]
    assert golden.table("waking") == [
        {"id": 0, "ts_ns": S, "cpu": 0, "curr_task": 0, "irq_ctx": 2, "task": 3, "prio": 120, "target_cpu": 1},
        {"id": 23, "ts_ns": 3 * S, "cpu": 1, "curr_task": 1, "irq_ctx": 3, "task": 5, "prio": 98, "target_cpu": 0},
    ]
    assert columns(golden.table("wakeup"), "id ts_ns cpu curr_task irq_ctx task prio target_cpu is_new") == [
        (2, S + 20, 0, 0, 1, 3, 120, 2, False),
        (6, S + 60, 2, 3, 0, 4, 120, 1, True),
    ]
    assert golden.table("migrate") == [
        {"id": 1, "ts_ns": S + 10, "cpu": 0, "curr_task": 0, "irq_ctx": 0, "task": 3, "prio": 120, "orig_cpu": 1,
         "dest_cpu": 2, "cause": None},
    ]  # fmt: skip
    assert golden.table("fork") == [{"id": 5, "ts_ns": S + 50, "cpu": 2, "task": 3, "child": 4}]
    assert golden.table("exec") == [{"id": 8, "ts_ns": S + 80, "cpu": 1, "task": 4}]
    assert golden.table("exit") == [{"id": 19, "ts_ns": 2 * S, "cpu": 1, "task": 4, "prio": 120}]


def test_other_tables(golden: Decoded) -> None:
    device, timer, other = (code("irq_kind", k) for k in ("device", "local_timer", "other"))
    assert columns(golden.table("irq"), "ts_ns kind vector entry curr_task") == [
        (S + 90, device, 9, True, 4), (S + 91, device, 9, False, 4), (S + 92, timer, 236, True, 4),
        (S + 93, other, -3, True, 4),
    ]  # fmt: skip
    assert [(r["vec"], ENUMS["softirq_phase"][r["phase"]]) for r in golden.table("softirq")] == [(7, "raise")]
    assert [r["target_cpu"] for r in golden.table("ipi")] == [2, None, 0]
    assert [(r["idle_cpu"], r["state"]) for r in golden.table("idle")] == [(2, None), (1, 2)]
    assert [(r["freq_cpu"], r["khz"]) for r in golden.table("freq")] == [(1, 2400000)]


def test_losses_and_counts(golden: Decoded) -> None:
    assert golden.table("loss") == [
        {"id": 18, "ts_ns": 2 * S, "cpu": 1, "lost": 12},
        {"id": 22, "ts_ns": 3 * S, "cpu": 1, "lost": None},
    ]
    end = golden.end
    assert end["lost"][1] == {"cpu": 1, "lost": 12, "gaps": 2, "blind_ns": (S - 99) + (S - 20)}
    assert all(cpu["gaps"] == cpu["lost"] == cpu["blind_ns"] == 0 for cpu in (end["lost"][0], end["lost"][2]))
    assert end["skipped"] == {"timer_init": 1}
    assert end["event_counts"]["sched_switch"] == 3 and sum(end["event_counts"].values()) == end["events"] == 23
    assert (end["first_ns"], end["last_ns"], end["steps_back"], end["problems"]) == (S, 3 * S, 0, [])


def test_header(tmp_path: Path) -> None:
    path = tmp_path / "trace.dat"
    options = (
        (9, b"3.1.6\0"),
        (2, b"CPU: 0\noverrun: 0\n\0"),
        (2, b"CPU: 1\noverrun: 5\n\0"),
        (13, b"guest \x1b[2J\0"),
        (12, b""),
    )
    machine = tracedat.Machine(2, clock="mono", uname="Linux b\xfcx 6.1.0-13-amd64 x86_64", options=options)
    tracedat.write(path, ROWS[:1], version=7, compression="zstd", machine=machine)
    got = decode(path)
    assert {k: v for k, v in got.header.items() if k != "events"} == {
        "format": "trace.dat", "version": 7, "compression": "zstd", "endian": "little", "long_size": 8,
        "page_size": 4096, "cpus": 2, "all_cpus": True, "clock": "mono", "uname": "Linux b\xfcx 6.1.0-13-amd64 x86_64",
        "kernel": "6.1.0-13-amd64", "is_guest": True, "guests": ["guest \\x1b[2J"],
        "options": {"trace_cmd": "3.1.6", "cpustat": "CPU: 0\noverrun: 0\nCPU: 1\noverrun: 5"},
    }  # fmt: skip
    assert got.header["events"] == [f.name for f in tracedat.FORMATS]
    assert got.end["problems"] == ["guest trace: its time shifts to the host's clock are not applied"]


@pytest.mark.parametrize("version", [6, 7])
def test_other_trace_instances_are_counted(tmp_path: Path, version: int) -> None:
    path = tmp_path / "trace.dat"
    page_size, no_cpus = (4096).to_bytes(4, "little"), bytes(4)
    instance = bytes(8) + b"mine\0" + (b"local\0" + page_size + no_cpus if version == 7 else b"")
    tracedat.write(path, ROWS[:3], version=version, machine=tracedat.Machine(3, options=((3, instance),)))
    got = decode(path)
    assert len(got.rows) == 3
    assert got.end["problems"] == ["trace instance besides the main buffer, not decoded: mine"]


def test_instances_without_a_main_buffer(tmp_path: Path) -> None:
    """record -B one -B two: "no event data; end the recording properly" was said, or the empty main buffer was read."""
    path = tmp_path / "trace.dat"

    def buffer(name: bytes, size: int) -> tuple[int, bytes]:
        cpu = struct.pack("<IQQ", 0, 64, size)
        return 3, bytes(8) + name + b"\0local\0" + struct.pack("<II", 4096, 1) + cpu

    def write(rows: list[tracedat.Row], instance: str, *others: tuple[int, bytes], version: int = 7) -> None:
        machine = tracedat.Machine(3, instance=instance, options=others)
        tracedat.write(path, rows, version=version, machine=machine)

    write(ROWS[:3], "one", buffer(b"two", 0))
    got = decode(path)
    assert len(got.rows) == 3
    assert got.end["problems"] == ["trace instance besides the main buffer, not decoded: two"]
    told = r"nothing in the main buffer, and 2 trace instances \({}\) .*; record without -B, or with one$"
    write(ROWS[:3], "one", buffer(b"t\x1bwo", 8))
    with pytest.raises(TraceError, match=told.format(r"t\\x1bwo, one")):
        decode(path)
    write([], "", buffer(b"one", 8), buffer(b"two", 8))
    with pytest.raises(TraceError, match=told.format("one, two")):
        decode(path)
    write([], "", *((3, bytes(8) + name + b"\0") for name in (b"one", b"two")), version=6)
    with pytest.raises(TraceError, match=told.format("one, two")):
        decode(path)


def test_clock_cycles_become_ns(tmp_path: Path, oracle: Path) -> None:
    path = tmp_path / "trace.dat"
    tsc = (14, (3 << 20).to_bytes(4, "little") + (20).to_bytes(4, "little") + bytes(8))
    tracedat.write(path, ROWS[:3], machine=tracedat.Machine(3, clock="x86-tsc", options=(tsc,)))
    whole = decode(path)
    got = [r["ts_ns"] for r in whole.rows]
    assert whole.end["missing"] == []
    assert got == [3 * S, 3 * S + 30, 3 * S + 60]
    lines = subprocess.run([oracle, path], capture_output=True, text=True, check=True).stdout.splitlines()
    assert [int(line.split("\t")[0]) for line in lines] == got


@pytest.mark.parametrize(("clock", "time"), [("mono", True), ("boot", True), ("x86-tsc", False), ("counter", False)])
def test_clocks_that_do_not_count_time_are_told(clock: str, time: bool, tmp_path: Path) -> None:
    """Cycles without their factor, and numbers of events, were taken as ns and not a word said."""
    path = tmp_path / "trace.dat"
    tracedat.write(path, ROWS[:3], machine=tracedat.Machine(3, clock=clock))
    told = [f"the unit of the times: the clock {clock} counts something else, taken as ns; record with -C mono"]
    assert decode(path).end["missing"] == ([] if time else told)


def test_failed_wakeups_are_dropped_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "trace.dat"
    rows: list[tracedat.Row] = [
        (10 + i, 0, "sched_wakeup", {"comm": "a", "pid": 7, "prio": 120, "target_cpu": 0, "success": i % 2})
        for i in range(5)
    ]
    tracedat.write(path, rows, fmts=tracedat.formats(success=True))
    got = decode(path)
    assert [r["ts_ns"] for r in got.table("wakeup")] == [11, 13]
    assert got.end["wakeup_failed"] == 3 and got.end["event_counts"] == {"sched_wakeup": 5}


@pytest.mark.parametrize(
    ("states", "letters"),
    [
        (tracedat.STATES_NOW, {0: "R", 256: "R+", 1: "S", 2: "D", 4: "T", 8: "t", 16: "X", 32: "Z", 64: "P",
                               128: "I"}),
        (tracedat.STATES_3_8, {0: "R", 512: "R+", 513: "R+", 1: "S", 2: "D", 130: "D", 16: "Z", 32: "X", 64: "X",
                               256: "other"}),
        ('"S"', {0: "R", 1: "other", 1 << 20: "other"}),
    ],
    ids=["now", "3.8", "none"],
)  # fmt: skip
@pytest.mark.parametrize("long_size", [4, 8])
def test_letters_of_prev_state(tmp_path: Path, long_size: int, states: str, letters: dict[int, str]) -> None:
    path = tmp_path / "trace.dat"
    rows: list[tracedat.Row] = [
        (i, 0, "sched_switch", {"prev_pid": 5, "next_pid": 6, "prev_state": v}) for i, v in enumerate(letters)
    ]
    tracedat.write(path, rows, fmts=tracedat.formats(states=states), machine=tracedat.Machine(1, long_size))
    assert [ENUMS["prev_state"][r["prev_state"]] for r in decode(path).rows] == list(letters.values())


def test_probes(tmp_path: Path) -> None:
    path = tmp_path / "trace.dat"
    fields = {"pid": 7, "prev": 1, "flags": 8, "recent": -1, "flips": 3, "util": 1 << 40, "load": -1, "nallowed": 2,
              "nis": 9, "hic": 1, "qload": 5, "qnr": 2, "common_pid": 3}  # fmt: skip
    tracedat.write(
        path, [(1, 1, "select_in", fields), (2, 1, "select_out", {"cpu": 0}), (3, 1, "select_out", {"cpu": 400})]
    )
    got = decode(path)
    first, *rest = got.table("probe")
    assert {k: first[k] for k in first if k not in ("id", "ts_ns")} == {
        "cpu": 1, "curr_task": 2, "phase": 0, "task": 3, "prev_cpu": 1, "wake_flags": 8, "recent_cpu": None, "flips": 3,
        "util": 1 << 40, "load": None, "nallowed": 2, "nr_idle_scan": 9, "has_idle_cores": 1, "rq_load": 5, "rq_nr": 2,
        "chosen_cpu": None,
    }  # fmt: skip
    assert [(r["phase"], r["chosen_cpu"], r["prev_cpu"], r["task"]) for r in rest] == [
        (1, 0, None, None),
        (1, None, None, None),
    ]


def test_discarded_records_and_long_pauses(tmp_path: Path, oracle: Path) -> None:
    path = tmp_path / "trace.dat"
    idle = {"state": 1, "cpu_id": 0}
    rows: list[tracedat.Row] = [
        (100, 0, "cpu_idle", idle),
        (150, 0, "discard", {"size": 24}),
        (170, 0, "cpu_idle", idle),
    ]
    rows += [(1 << 58, 0, "cpu_idle", idle), ((1 << 58) + (1 << 27), 0, "cpu_idle", idle)]
    for absolute in (False, True):
        tracedat.write(path, rows, machine=tracedat.Machine(1, absolute=absolute))
        stamps = [r["ts_ns"] for r in decode(path).rows]
        assert stamps == [t for t, _, event, _ in rows if event == "cpu_idle"]
        lines = subprocess.run([oracle, path], capture_output=True, text=True, check=True).stdout.splitlines()
        assert [int(line.split("\t")[0]) for line in lines] == stamps


def test_absolute_times_beyond_59_bits(tmp_path: Path) -> None:
    """The record holds 59 bits; the rest comes from the time before it, and may have to be carried."""
    path = tmp_path / "trace.dat"
    stamps = [(5 << 59) - (1 << 40), (5 << 59) - 1, (5 << 59) + (1 << 40)]
    rows: list[tracedat.Row] = [(t, 0, "cpu_idle", {"state": 1, "cpu_id": 0}) for t in stamps]
    tracedat.write(path, rows, machine=tracedat.Machine(1, absolute=True))
    assert [r["ts_ns"] for r in decode(path).rows] == stamps


def test_reused_tids_start_generations(tmp_path: Path) -> None:
    path = tmp_path / "trace.dat"

    def fork(ts: int) -> tracedat.Row:
        return (
            ts,
            0,
            "sched_process_fork",
            {"parent_comm": "sh", "parent_pid": 9, "child_comm": "sh", "child_pid": 50},
        )

    def switch(ts: int, prev: int, state: int, after: int) -> tracedat.Row:
        return (
            ts,
            0,
            "sched_switch",
            {"prev_comm": "x", "prev_pid": prev, "prev_state": state, "next_comm": "x", "next_pid": after},
        )

    rows = [fork(1), switch(2, 0, 0, 50), (3, 0, "sched_process_exit", {"comm": "x", "pid": 50}), switch(4, 50, 1, 0),
            switch(5, 0, 0, 50), switch(6, 50, 0x20, 0), switch(7, 0, 0, 50), fork(8), fork(9)]  # fmt: skip
    tracedat.write(path, rows)
    got = decode(path)
    keys = got.keys()
    assert [keys[r["next_task"]] for r in got.table("switch")] == [(50, 0), (0, 0), (50, 0), (0, 0), (50, 1)]
    assert [keys[r["child"]] for r in got.table("fork")] == [(50, 0), (50, 2), (50, 3)]


def test_batches_are_the_same_at_any_size(tmp_path: Path) -> None:
    path = tmp_path / "trace.dat"
    tracedat.write(path, tracedat.schedule(3000, 4, block=500))
    whole = decode(path)
    for size in (2, 97, 1000):
        part = decode(path, size)
        assert part.rows == whole.rows and part.batches >= len(whole.rows) // size
        assert part.end["event_counts"] == whole.end["event_counts"] and part.names() == whole.names()


def test_batches_keep_their_memory(tmp_path: Path) -> None:
    """Buffers are re-used only once a batch was let go."""
    path = tmp_path / "trace.dat"
    tracedat.write(path, tracedat.schedule(30_000, 4, block=500))
    trace = _decode.TraceDat(str(path), 5000)
    batches = []
    while (batch := trace.next_batch()) is not None:
        batches.append(batch)
    ids = np.sort(np.concatenate([c["id"] for b in batches for c in b.values()]))
    assert len(batches) > 5 and np.array_equal(ids, np.arange(len(ids)))


def test_hostile_names(tmp_path: Path) -> None:
    path = tmp_path / "trace.dat"
    names = {
        b"</script>": "</script>", b"\x1b[2J": "\\x1b[2J", b"=cmd()": "=cmd()", b"a|b": "a|b", b"": "",
        b"\xff\xfe": "\\xff\\xfe", b"back\\slash": "back\\x5cslash", b"\\xff": "\\x5cxff", "käse".encode(): "käse",
        "\u202e".encode(): "\\xe2\\x80\\xae", b"\xc2\x85": "\\xc2\\x85", b"cut short\xc3": "cut short\\xc3",
        b"a\tb\nc": "a\\x09b\\x0ac", b"\xf4\x90\x80\x80": "\\xf4\\x90\\x80\\x80", b"\xed\xa0\x80": "\\xed\\xa0\\x80",
        b"\xc0\x80": "\\xc0\\x80",
    }  # fmt: skip
    rows: list[tracedat.Row] = [
        (i + 1, 0, "sched_waking", {"comm": n, "pid": 100 + i, "prio": 120}) for i, n in enumerate(names)
    ]
    for fmts in (tracedat.FORMATS, tracedat.formats(dynamic_comm=["sched_waking"])):
        tracedat.write(path, rows, fmts=fmts)
        assert [n for _, _, n in decode(path).names()] == list(names.values())


def test_a_name_told_by_a_fixed_and_by_a_dynamic_field(tmp_path: Path) -> None:
    """What a fixed field says is compared with the last name of either kind, not with the last fixed one."""
    path = tmp_path / "trace.dat"
    rows: list[tracedat.Row] = [
        (1, 0, "sched_waking", {"comm": b"a", "pid": 100, "prio": 120}),
        (2, 0, "sched_wakeup", {"comm": b"b", "pid": 100, "prio": 120}),
        (3, 0, "sched_waking", {"comm": b"a", "pid": 100, "prio": 120}),
    ]
    tracedat.write(path, rows, fmts=tracedat.formats(dynamic_comm=["sched_wakeup"]))
    assert [n for _, _, n in decode(path).names()] == ["a", "b", "a"]


def test_column_structs_agree_with_forms() -> None:
    kinds = {"BIGINT": "int64", "INTEGER": "int32", "SMALLINT": "int16", "UTINYINT": "uint8", "USMALLINT": "uint16",
             "UINTEGER": "uint32", "BOOLEAN": "bool"}  # fmt: skip
    want = {n: [(c.name, kinds[c.type], c.nullable) for c in t.columns] for n, t in EVENT_TABLES.items()}
    assert _decode.schema() == want


def test_trace_cmd_reads_written_files(tmp_path: Path) -> None:
    path = tmp_path / "trace.dat"
    for kind in ("v6", "v7", "v7-zstd", "dynamic strings"):
        tracedat.write(path, ROWS, **{"machine": tracedat.Machine(3), **CONTAINERS[kind]})
        report = subprocess.run(["trace-cmd", "report", "-N", path], capture_output=True, text=True, check=True).stdout
        assert "1.000000: sched_waking:         comm=make pid=40 prio=120 target_cpu=1" in report.replace(
            "target_cpu=001", "target_cpu=1"
        )
        assert report.count("sched_switch:") == 3 and "CPU:1 [12 EVENTS DROPPED]" in report
