# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes the seeds of the fuzz targets: `python tests/fuzz/seeds.py` fills fixtures/fuzz. Small files, one a kind.

A target keeps only inputs that reach something new, so a seed of each kind of record is enough.
"""

from __future__ import annotations

import struct
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FIXTURES = HERE.parents[1] / "fixtures" / "fuzz"
sys.path.insert(0, str(HERE.parent))

import perfdata  # noqa: E402
import tracedat  # noqa: E402
from decode import perfetto_writer, printing  # noqa: E402
from decode.test_text import records  # noqa: E402

PAGE = 512
"""Bytes of a page in the seeds; pages.cpp has it too."""
HEAD_CPUS = 4
_WANTED = (
    "sched_switch", "sched_waking", "sched_wakeup", "sched_wakeup_new", "sched_migrate_task", "sched_process_fork",
    "sched_process_exec", "sched_process_exit", "irq_handler_entry", "softirq_raise", "ipi_raise", "cpu_idle",
    "select_in", "select_out",
)  # fmt: skip


def rows(cpus: int) -> list[tracedat.Row]:
    """Each kind of record, a counted and an uncounted gap, a discarded record and a long pause."""
    wake = {"comm": "wakee", "pid": 12, "prio": 120, "target_cpu": cpus - 1, "common_pid": 11}
    switch = {"prev_comm": "waker", "prev_pid": 11, "prev_prio": 120, "prev_state": 1, "next_comm": "wakee",
              "next_pid": 12, "next_prio": 120}  # fmt: skip
    one: list[tuple[str, dict[str, Any]]] = [
        ("sched_waking", wake),
        ("select_in", {"common_pid": 11, "pid": 12, "prev": 0, "flags": 8}),
        ("select_out", {"common_pid": 11, "cpu": cpus - 1}),
        ("sched_wakeup", {**wake, "common_flags": 8}),
        ("sched_switch", switch),
        ("sched_migrate_task", {"comm": "wakee", "pid": 12, "prio": 120, "orig_cpu": 0, "dest_cpu": cpus - 1}),
        ("sched_process_fork", {"parent_comm": "wakee", "parent_pid": 12, "child_comm": "new", "child_pid": 13}),
        ("sched_wakeup_new", {**wake, "pid": 13}),
        ("sched_process_exec", {"filename": "/bin/true", "pid": 13, "old_pid": 13}),
        ("sched_process_exit", {"comm": "new", "pid": 13, "prio": 120}),
        ("irq_handler_entry", {"irq": 9, "name": "acpi"}),
        ("softirq_raise", {"vec": 1}),
        ("ipi_raise", {"target_cpus": 1 << (cpus - 1)}),
        ("cpu_idle", {"state": 1, "cpu_id": 0}),
        ("loss", {"lost": 3}),
        ("cpu_idle", {"state": 0xFFFFFFFF, "cpu_id": 0}),
        ("discard", {"size": 24}),
        ("loss", {"lost": None}),
        ("sched_switch", {**switch, "prev_state": 16}),
    ]
    out: list[tracedat.Row] = []
    ns = 1000
    for cpu in range(cpus):
        for name, values in one:
            ns += 100
            out.append((ns, cpu, name, values))
        ns += 1 << 28
    return out


def perf_data(seeds: Path, wanted: tuple[tracedat.Format, ...]) -> None:
    wanted = tuple(f for f in wanted if f.system != "rewake")  # -max_len of the runs is 20,000
    topology = perfdata.Topology(["0-1"], ["0", "1"], ["0-1"], [(0, 0), (1, 0)], [(0, "0-1")], [(3, "Unified", "0-1")])
    few = [r for r in rows(2) if not r[2].startswith("select")]
    side = [
        (1150, 0, perfdata.COMM, struct.pack("<II", 12, 12) + b"renamed\0"),
        (1160, 1, perfdata.FORK, struct.pack("<IIIIQ", 14, 12, 14, 12, 1160)),
        (1170, 1, perfdata.EXIT, struct.pack("<IIIIQ", 14, 12, 14, 12, 1170)),
    ]
    plain = perfdata.Layout(topology=topology, side=side, lost_samples={0: 9}, disorder=5)
    for name, layout in {
        "file": plain,
        "pipe": replace(plain, pipe=True),
        "zstd": replace(plain, compression="zstd"),
        "zstd2-pipe": replace(plain, compression="zstd2", pipe=True),
        "two-events": replace(plain, events=["sched_switch", "sched_waking"]),
        "call-chains-ids": replace(
            plain, sample_type=(perfdata.PERF_SCHED | perfdata.CALLCHAIN | perfdata.ID) & ~(1 << 16)
        ),
    }.items():
        perfdata.write(seeds / f"{name}.data", few, fmts=wanted, machine=tracedat.Machine(2), layout=layout)
    big = tracedat.Machine(2, 4, ">")
    perfdata.write(seeds / "big-endian-32-bit.data", few, fmts=wanted, machine=big, layout=replace(plain, side=()))


def text(seeds: Path) -> None:
    some = records(rows(2))
    for name, printed in printing.DIALECTS.items():
        (seeds / name.replace(" ", "-").lower()).write_bytes(printed(some, {11: b"waker", 12: b"a b"}))
    (seeds / "tracefs-us").write_bytes(printing.tracefs(some, digits=6))
    (seeds / "report").write_bytes(
        b"cpus=2\n           waker-11    [000] d..2.     1.000001000: sched_wakeup:         wakee:12 [120] CPU:001\n"
        b"           waker-11    [001]     1.000003000: sched_switch:         waker:11 [120] S ==> wakee:12 [120]\n"
        b"           wakee-12    [001]     1.000004000: sched_waking:  comm=waker pid=11 prio=120 target_cpu=000\n"
        b"           wakee-12    [001]     1.000005000: sched_switch: prev_comm=0x77 prev_pid=0xc prev_state=0x1\n"
        b"CPU:1 [9 EVENTS DROPPED]\n"
    )


def pftrace(seeds: Path) -> None:
    some = records(rows(2))
    perfetto_writer.write(seeds / "full", some)
    perfetto_writer.write(seeds / "compact", some, compact=True, bundle=6, counters={0: 7})
    perfetto_writer.write(seeds / "no-flags", some, flags=False)


def main() -> None:
    wanted = tuple(f for f in tracedat.FORMATS if f.name in _WANTED)
    for folder in ("tracedat", "pages", "heads", "perfdata", "text", "pftrace"):
        (FIXTURES / folder).mkdir(parents=True, exist_ok=True)
    little, big = tracedat.Machine(2, page_size=PAGE), tracedat.Machine(2, 4, ">", page_size=PAGE, absolute=True)
    small: dict[str, Any] = {"fmts": wanted, "machine": little}
    seeds = FIXTURES / "tracedat"
    tracedat.write(seeds / "v6.dat", rows(2), **small)
    tracedat.write(seeds / "v7.dat", rows(2), version=7, **small)
    tracedat.write(seeds / "v7-zstd.dat", rows(2), version=7, compression="zstd", **small)
    tracedat.write(seeds / "v6-big-endian-32-bit.dat", rows(2), fmts=wanted, machine=big)
    options = ((1, b"0x1234\0"), (7, b"-5\0"), (14, struct.pack("<IIQ", 1 << 20, 21, 0)), (12, bytes(24)))
    tracedat.write(seeds / "v6-options.dat", rows(2)[:6], fmts=wanted, machine=replace(little, options=options))
    perf_data(FIXTURES / "perfdata", wanted)
    text(FIXTURES / "text")
    pftrace(FIXTURES / "pftrace")
    with tempfile.TemporaryDirectory() as temp:
        for name, machine in (("little", little), ("big", big)):
            path = Path(temp) / name
            tracedat.write(path, [], fmts=wanted, machine=replace(machine, cpus=HEAD_CPUS))
            whole = path.read_bytes()
            table = whole.rindex(b"flyrecord\0") + 10
            (FIXTURES / "heads" / f"{name}.head").write_bytes(whole[: table + 16 * HEAD_CPUS])
            for cpus in (1, 2):
                both = tracedat.pages(rows(cpus), wanted, replace(machine, cpus=cpus))
                how = bytes([(cpus - 1) << 1 | (name == "big")])
                (FIXTURES / "pages" / f"{name}-{cpus}").write_bytes(how + b"".join(both))


if __name__ == "__main__":
    main()
