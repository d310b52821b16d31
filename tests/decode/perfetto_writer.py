# SPDX-License-Identifier: GPL-2.0-or-later
"""Records as a Perfetto trace: full or compact events, bundles by CPU. Written with Perfetto's own protobuf classes."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from decode.reading import Record, name_bytes


def _packets(
    records: Sequence[Record],
    compact: bool,
    flags: bool,
    bundle: int,
    counters: dict[int, int] | None,
    sequence: int,
) -> list[bytes]:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (  # type: ignore[import-untyped]
        FtraceEvent,
        FtraceStats,
        Trace,
        TracePacket,
    )

    out: list[Any] = []
    info = TracePacket(trusted_packet_sequence_id=1)
    info.system_info.utsname.sysname = "Linux"
    info.system_info.utsname.release = "6.1.0-test"
    info.system_info.utsname.version = "#1 SMP"
    info.system_info.utsname.machine = "x86_64"
    out.append(info)
    names = {f.name for f in FtraceEvent.DESCRIPTOR.fields}
    for cpu in sorted({r.cpu for r in records}):
        mine = [r for r in records if r.cpu == cpu]
        starts = [0, *(i for i in range(1, len(mine)) if mine[i].lost is not None or i % bundle == 0), len(mine)]
        for first, last in pairwise(starts):
            packet = TracePacket(
                trusted_packet_sequence_id=sequence, previous_packet_dropped=int(first == 0 and cpu == 0)
            )
            b = packet.ftrace_events
            b.cpu = cpu
            b.lost_events = mine[first].lost is not None
            intern: list[bytes] = []
            times = {"switch": 0, "waking": 0}
            for r in mine[first:last]:
                if compact and r.event in ("sched_switch", "sched_waking"):
                    c, f = b.compact_sched, r.fields
                    kind = r.event.removeprefix("sched_")
                    name = name_bytes(f["next_comm" if kind == "switch" else "comm"])
                    if name not in intern:
                        intern.append(name)
                    getattr(c, f"{kind}_timestamp").append(r.ts - times[kind])
                    times[kind] = r.ts
                    getattr(c, f"{kind}_comm_index" if kind == "waking" else "switch_next_comm_index").append(
                        intern.index(name)
                    )
                    if kind == "switch":
                        c.switch_prev_state.append(f["prev_state"])
                        c.switch_next_pid.append(f["next_pid"])
                        c.switch_next_prio.append(f["next_prio"])
                    else:
                        c.waking_pid.append(f["pid"])
                        c.waking_prio.append(f["prio"])
                        c.waking_target_cpu.append(f["target_cpu"])
                        c.waking_common_flags.append(r.flags)
                    continue
                event = b.event.add()
                event.timestamp, event.pid = r.ts, r.pid
                if flags:
                    event.common_flags = r.flags
                if r.event not in names:
                    event.generic.event_name = r.event
                    continue
                message = getattr(event, r.event)
                message.SetInParent()
                for field in message.DESCRIPTOR.fields:
                    if field.name in r.fields and field.name not in ("reason", "target_cpus"):
                        value = r.fields[field.name]
                        setattr(
                            message,
                            field.name,
                            name_bytes(value).decode() if isinstance(value, (str, bytes)) else value,
                        )
            b.compact_sched.intern_table.extend(n.decode() for n in intern)
            out.append(packet)
    for phase, of in ((FtraceStats.START_OF_TRACE, {}), (FtraceStats.END_OF_TRACE, counters or {})):
        packet = TracePacket(trusted_packet_sequence_id=sequence)
        packet.ftrace_stats.phase = phase
        for cpu in sorted({r.cpu for r in records}):
            stats = packet.ftrace_stats.cpu_stats.add()
            stats.cpu, stats.overrun = cpu, of.get(cpu, 0)
        out.append(packet)
    return [Trace(packet=[p]).SerializeToString() for p in out]


def write(
    path: Path,
    records: Sequence[Record],
    *,
    compact: bool = False,
    flags: bool = True,
    deflate: bool = False,
    bundle: int = 1000,
    counters: dict[int, int] | None = None,
    sequence: int = 7,
) -> None:
    """`flags`: full events carry common_flags. `bundle`: events in one. `counters`: events overwritten, by CPU."""
    packets = _packets(records, compact, flags, bundle, counters, sequence)
    if deflate:
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket

        halves = [b"".join(packets[: len(packets) // 2]), b"".join(packets[len(packets) // 2 :])]
        packets = [Trace(packet=[TracePacket(compressed_packets=zlib.compress(h))]).SerializeToString() for h in halves]
    path.write_bytes(b"".join(packets))
