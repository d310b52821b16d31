# SPDX-License-Identifier: GPL-2.0-or-later
"""A writer of perf.data files (file and pipe mode, plain and zstd): the rows of tests/tracedat.py as samples.

As perf does it, rounds of all CPUs follow each other, and in a round one CPU's records lie together; `perf script`
reads the files too. Layout: tools/perf/Documentation/perf.data-file-format.txt, include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import random
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import tracedat
from tracedat import Array, Format, Machine, Records, Row

IP, TID, TIME, ID, CPU, PERIOD, RAW, IDENTIFIER = 1, 2, 4, 1 << 6, 1 << 7, 1 << 8, 1 << 10, 1 << 16
CALLCHAIN = 1 << 5
PERF_SCHED = IP | TID | TIME | CPU | PERIOD | RAW | IDENTIFIER
HOSTNAME, OSRELEASE, VERSION, ARCH, NRCPUS, EVENT_DESC, CPU_TOPOLOGY, NUMA_TOPOLOGY, CACHE = (
    3,
    4,
    5,
    6,
    7,
    12,
    13,
    14,
    20,
)
COMM, EXIT, FORK, FINISHED_ROUND = 3, 4, 7, 68
_SAMPLE_ID_ALL = 18
_ATTR_BYTES = 128


@dataclass(frozen=True)
class Topology:
    """What the header features say of the machine: CPU lists as the kernel prints them."""

    packages: Sequence[str]
    threads: Sequence[str]
    dies: Sequence[str] = ()
    ids: Sequence[tuple[int, int]] = ()  # (core, package) by CPU
    nodes: Sequence[tuple[int, str]] = ()
    caches: Sequence[tuple[int, str, str]] = ()  # (level, type, CPUs)


@dataclass(frozen=True)
class Layout:
    """How it is written. `split`: most records of a CPU in a row; `compression`: "none", "zstd" (record type 81) or
    "zstd2" (83); `side`: [(ts, cpu, type, body)] of other records of the kernel, their sample_id is added."""

    pipe: bool = False
    compression: str = "none"
    rounds: int = 4
    sample_type: int = PERF_SCHED
    topology: Topology | None = None
    features: bool = True
    release: str = "6.1.0-test"
    side: Sequence[tuple[int, int, int, bytes]] = ()
    lost_samples: Mapping[int, int] | None = None  # by CPU, told at the end
    events: Sequence[str] | None = None  # names of those that were asked for; None: all formats
    asked_cpus: Sequence[int] | None = None  # perf record -C; None: all
    disorder: int = 0  # so many neighbours of different times change places


def write(
    path: Path,
    events: Sequence[Row] | Mapping[str, Mapping[str, Array]],
    *,
    layout: Layout = Layout(),
    fmts: Sequence[Format] = tracedat.FORMATS,
    machine: Machine | None = None,
) -> None:
    """Writes a perf.data of the events that tracedat.write would put into a trace.dat."""
    if machine is None:
        machine = Machine(
            1 + max((int(c["cpu"].max()) for c in events.values()), default=0)
            if isinstance(events, Mapping) else 1 + max((r[1] for r in events), default=0)
        )  # fmt: skip
    _Writer(layout, fmts, machine).file(path, tracedat.records(events, fmts, machine))


class _Writer:
    def __init__(self, layout: Layout, fmts: Sequence[Format], machine: Machine) -> None:
        self.layout, self.fmts, self.m, self.e = layout, fmts, machine, machine.endian
        self.asked = [f for f in fmts if layout.events is None or f.name in layout.events]
        self.first_id = {f.id: 100 + i * machine.cpus for i, f in enumerate(self.asked)}

    def pack(self, form: str, *values: Any) -> bytes:
        return struct.pack(self.e + form, *values)

    # --- the parts

    def attr(self, f: Format) -> bytes:
        flags = 1 << (63 - _SAMPLE_ID_ALL if self.e == ">" else _SAMPLE_ID_ALL)
        head = self.pack("IIQQQQQ", 2, _ATTR_BYTES, f.id, 1, self.layout.sample_type, 0, flags)
        return head.ljust(_ATTR_BYTES, b"\0")

    def ids(self, f: Format) -> bytes:
        first = self.first_id[f.id]
        return b"".join(self.pack("Q", first + cpu) for cpu in range(self.m.cpus))

    def tracing(self) -> bytes:
        head = b"\x17\x08\x44tracing0.6\0" + bytes([self.e == ">", self.m.long_size])
        head += self.pack("I", self.m.page_size)
        texts = tracedat.header_info(self.m) + self.pack("I", 0) + tracedat.system_texts(self.fmts, self.m)
        return head + texts + self.pack("IIQ", 0, 0, 0)

    def string(self, text: str) -> bytes:
        raw = text.encode() + b"\0"
        raw += bytes(-len(raw) % 64)
        return self.pack("I", len(raw)) + raw

    def strings(self, texts: Iterable[str]) -> bytes:
        all_texts = list(texts)
        return self.pack("I", len(all_texts)) + b"".join(map(self.string, all_texts))

    def features(self) -> dict[int, bytes]:
        out = {1: self.tracing()}
        if not self.layout.features:
            return out
        out |= {HOSTNAME: self.string("box"), OSRELEASE: self.string(self.layout.release)}
        out |= {VERSION: self.string("6.1.test"), ARCH: self.string("x86_64")}
        out[NRCPUS] = self.pack("II", self.m.cpus, self.m.cpus)
        described = [self.attr(f) + self.pack("I", 0) + self.string(f"{f.system}:{f.name}") for f in self.asked]
        out[EVENT_DESC] = self.pack("II", len(described), _ATTR_BYTES) + b"".join(described)
        if (t := self.layout.topology) is not None:
            ids = b"".join(self.pack("II", *pair) for pair in t.ids)
            out[CPU_TOPOLOGY] = self.strings(t.packages) + self.strings(t.threads) + ids
            if t.dies:
                out[CPU_TOPOLOGY] += self.strings(t.dies) + bytes(4 * self.m.cpus)
            nodes = [self.pack("IQQ", n, 1, 1) + self.string(cpus) for n, cpus in t.nodes]
            out[NUMA_TOPOLOGY] = self.pack("I", len(nodes)) + b"".join(nodes)
            caches = [
                self.pack("IIII", level, 64, 1, 1) + self.string(kind) + self.string("32K") + self.string(cpus)
                for level, kind, cpus in t.caches
            ]
            out[CACHE] = self.pack("II", 1, len(caches)) + b"".join(caches)
        return dict(sorted(out.items()))

    # --- records

    def record(self, kind: int, body: bytes, misc: int = 0) -> bytes:
        body += bytes(-len(body) % 8)
        return self.pack("IHH", kind, misc, 8 + len(body)) + body

    def with_id(self, kind: int, body: bytes, ts: int, cpu: int, identifier: int | None = None) -> bytes:
        """A record other than a sample, with its sample_id."""
        body += bytes(-len(body) % 8)
        number = identifier if identifier is not None else self.first_id[self.asked[0].id] + cpu
        kept = self.layout.sample_type
        parts = [(TID, self.pack("II", 0, 0)), (TIME, self.pack("Q", ts)), (ID, self.pack("Q", number)),
                 (CPU, self.pack("II", cpu, 0)), (IDENTIFIER, self.pack("Q", number))]  # fmt: skip
        return self.record(kind, body + b"".join(part for bit, part in parts if kept & bit))

    def comm(self, tid: int, name: str, ts: int, cpu: int) -> bytes:
        raw = name.encode() + b"\0"
        return self.with_id(COMM, self.pack("II", tid, tid) + raw + bytes(-len(raw) % 8), ts, cpu)

    def fixed(self, numbers: Array, payload: Array, r: Records) -> Array:
        """Samples, as rows of bytes, of records of one event."""
        kept = self.layout.sample_type
        n, size = payload.shape
        padded = size + (-(size + 4) % 8)
        fields: list[tuple[str, str]] = [("type", "u4"), ("misc", "u2"), ("size", "u2")]
        fields += [(name, "u8") for name, bit in (("identifier", IDENTIFIER), ("ip", IP)) if kept & bit]
        fields += [("pid", "u4"), ("tid", "u4")] if kept & TID else []
        fields += [(name, "u8") for name, bit in (("time", TIME), ("id", ID)) if kept & bit]
        fields += [("cpu", "u4"), ("reserved", "u4")] if kept & CPU else []
        fields += [("period", "u8")] if kept & PERIOD else []
        fields += [("chain", "u8"), ("frame", "u8")] if kept & CALLCHAIN else []
        fields += [("raw_size", "u4")]
        dtype = np.dtype([*((name, self.e + kind) for name, kind in fields), ("raw", "u1", (padded,))])  # type: ignore[list-item]
        out = np.zeros(n, dtype)
        common = payload[:, :8].copy().view(self.e + "i4")
        kinds = payload[:, :2].copy().view(self.e + "u2")[:, 0]
        first = np.array([self.first_id[int(k)] for k in np.unique(kinds)])[np.searchsorted(np.unique(kinds), kinds)]
        values = {
            "type": 9, "misc": 1, "size": dtype.itemsize, "identifier": first + r.cpu[numbers], "ip": 1 << 63,
            "pid": common[:, 1], "tid": common[:, 1], "time": r.ts[numbers], "id": first + r.cpu[numbers],
            "cpu": r.cpu[numbers], "period": 1, "chain": 1, "frame": 0xFFFFFFFF81000000, "raw_size": padded,
        }  # fmt: skip
        for name, _ in fields:
            if name in values:
                out[name] = values[name]
        out["raw"][:, :size] = payload
        return out.view(np.uint8).reshape(n, dtype.itemsize)

    def bodies(self, r: Records) -> list[bytes]:
        """The records of the kernel in file order, one block for each CPU and round."""
        order_of = ">u2" if self.e == ">" else "<u2"
        groups = [(n, p) for n, p in r.fixed if len(n) and int(p[0, :2].copy().view(order_of)[0]) in self.first_id]
        by_size: dict[int, list[int]] = {}
        for i, data in r.data.items():
            if i not in r.discarded and int.from_bytes(data[:2], "big" if self.e == ">" else "little") in self.first_id:
                by_size.setdefault(len(data), []).append(i)
        for size, members in by_size.items():
            joined = np.frombuffer(b"".join(r.data[i] for i in members), np.uint8).reshape(len(members), size)
            groups.append((np.array(members), joined))
        other: dict[int, bytes] = {}  # before record i
        for i, lost in r.loss.items():
            other[i] = self.with_id(
                2, self.pack("QQ", self.first_id[self.asked[0].id], lost or 0), int(r.ts[i]), int(r.cpu[i])
            )
        for ts, cpu, kind, body in self.layout.side:
            i = int(np.searchsorted(r.cpu, cpu) + np.searchsorted(r.ts[r.cpu == cpu], ts))
            other[i] = other.get(i, b"") + self.with_id(kind, body, ts, cpu)
        n = len(r.ts)
        edges = np.quantile(r.ts, np.linspace(0, 1, self.layout.rounds + 1)[1:-1]) if n else np.empty(0)
        round_of = np.searchsorted(edges, r.ts, side="right")
        order = np.lexsort((np.arange(n), r.cpu, round_of))
        rng = random.Random(1)
        for i in (rng.randrange(n - 1) for _ in range(self.layout.disorder)):
            if r.ts[order[i]] != r.ts[order[i + 1]]:
                order[i : i + 2] = order[i : i + 2][::-1].copy()
        place = np.empty(n, np.int64)
        place[order] = np.arange(n)
        size_of = np.zeros(n + 1, np.int64)
        samples = []
        for numbers, payload in groups:
            for at in range(0, len(numbers), 100_000):
                some = numbers[at : at + 100_000]
                rows = self.fixed(some, payload[at : at + 100_000], r)
                samples.append((some, rows))
                size_of[place[some]] = rows.shape[1]
        for i, data in other.items():
            size_of[place[i] if i < n else n] += len(data)
        starts = np.concatenate([[0], np.cumsum(size_of)])
        out = np.zeros(int(starts[-1]), np.uint8)
        for numbers, rows in samples:
            ahead = np.array([len(other.get(int(i), b"")) for i in numbers]) if other else 0
            out[(starts[place[numbers]] + ahead)[:, None] + np.arange(rows.shape[1])] = rows
        for i, data in other.items():
            at = int(starts[place[i] if i < n else n])
            out[at : at + len(data)] = np.frombuffer(data, np.uint8)
        # A block: one CPU in one round.
        group = np.flatnonzero(np.diff(round_of[order] * self.m.cpus + r.cpu[order])) + 1
        cuts = [0, *starts[group].tolist(), len(out)]
        blocks = [out[a:b].tobytes() for a, b in pairwise(cuts)]
        last_round = round_of[order][np.concatenate([[0], group])] if n else np.empty(0, np.int64)
        done: list[bytes] = []
        for i, block in enumerate(blocks):
            done.append(block)
            if i + 1 == len(blocks) or last_round[i + 1] != last_round[i]:
                done.append(b"")  # a round is over
        return done

    def data(self, r: Records) -> bytes:
        zstd = _Stream() if self.layout.compression != "none" else None
        out = [self.id_index()]
        for block in self.bodies(r):
            if not block:
                out.append(self.record(FINISHED_ROUND, b""))
            elif zstd is None:
                out.append(block)
            else:
                for at in range(0, len(block), 50_000):
                    packed = zstd.pack(block[at : at + 50_000])
                    if self.layout.compression == "zstd":  # as perf before 6.16: not padded
                        out.append(self.pack("IHH", 81, 0, 8 + len(packed)) + packed)
                    else:
                        out.append(self.record(83, self.pack("Q", len(packed)) + packed))
        for cpu, lost in (self.layout.lost_samples or {}).items():
            out.append(self.with_id(13, self.pack("Q", lost), 0, 0, self.first_id[self.asked[0].id] + cpu))
        return b"".join(out)

    def id_index(self) -> bytes:
        entries = [(first + cpu, cpu, cpu, -1 & ((1 << 64) - 1))
                   for first in self.first_id.values()
                   for cpu in self.layout.asked_cpus or range(self.m.cpus)]  # fmt: skip
        most = 2000  # a record has at most 64 KiB
        return b"".join(
            self.record(69, self.pack("Q", len(some)) + b"".join(self.pack("QQQQ", *entry) for entry in some))
            for some in (entries[at : at + most] for at in range(0, len(entries), most))
        )

    # --- files

    def file(self, path: Path, r: Records) -> None:
        path.write_bytes(self.piped(r) if self.layout.pipe else self.seekable(r))

    def piped(self, r: Records) -> bytes:
        out = [self.magic(), self.pack("Q", 16)]
        for number, content in self.features().items():
            if number != 1:
                out.append(self.record(80, self.pack("Q", number) + content))
        out += [self.record(64, self.attr(f) + self.ids(f)) for f in self.asked]
        text = self.tracing()
        out += [self.record(66, self.pack("I", len(text)))[:12] + bytes(4), text, bytes(-len(text) % 8)]
        return b"".join([*out, self.data(r)])

    def magic(self) -> bytes:
        return b"PERFILE2" if self.e == "<" else b"2ELIFREP"

    def seekable(self, r: Records) -> bytes:
        ids = [self.ids(f) for f in self.asked]
        attrs_at = 104 + sum(map(len, ids))
        attrs, at = [], 104
        for f, some in zip(self.asked, ids, strict=True):
            attrs.append(self.attr(f) + self.pack("QQ", at, len(some)))
            at += len(some)
        data_at = attrs_at + sum(map(len, attrs))
        data = self.data(r)
        features = self.features()
        bits = [sum(1 << (n - 64 * w) for n in features if n // 64 == w) for w in range(4)]
        head = self.magic() + self.pack(
            "QQQQQQQQ", 104, _ATTR_BYTES + 16, attrs_at, sum(map(len, attrs)), data_at, len(data), 0, 0
        )
        head += self.pack("QQQQ", *bits)
        table, at = [], data_at + len(data) + 16 * len(features)
        for content in features.values():
            table.append(self.pack("QQ", at, len(content)))
            at += len(content)
        return b"".join([head, *ids, *attrs, data, *table, *features.values()])


class _Stream:
    """One zstd stream, flushed after each piece, as perf keeps it."""

    class Buffer(ctypes.Structure):
        _fields_ = [("p", ctypes.c_char_p), ("size", ctypes.c_size_t), ("pos", ctypes.c_size_t)]

    def __init__(self) -> None:
        self.lib = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
        self.lib.ZSTD_createCCtx.restype = ctypes.c_void_p
        self.lib.ZSTD_compressStream2.restype = ctypes.c_size_t
        self.lib.ZSTD_compressStream2.argtypes = [
            ctypes.c_void_p, ctypes.POINTER(self.Buffer), ctypes.POINTER(self.Buffer), ctypes.c_int,
        ]  # fmt: skip
        self.lib.ZSTD_freeCCtx.argtypes = [ctypes.c_void_p]
        self.context = self.lib.ZSTD_createCCtx()

    def pack(self, data: bytes) -> bytes:
        room = ctypes.create_string_buffer(len(data) + 1024)
        out = self.Buffer(ctypes.cast(room, ctypes.c_char_p), len(room), 0)
        given = self.Buffer(data, len(data), 0)
        left = self.lib.ZSTD_compressStream2(self.context, ctypes.byref(out), ctypes.byref(given), 1)
        assert left == 0 and given.pos == len(data)
        return room.raw[: out.pos]

    def __del__(self) -> None:
        self.lib.ZSTD_freeCCtx(self.context)
