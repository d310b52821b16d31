# SPDX-License-Identifier: GPL-2.0-or-later
"""A writer of trace.dat files (v6, v7, v7 with zstd): rows and format texts to ring-buffer pages to a file.

Goldens, damaged files and bench inputs come from here; `trace-cmd report` reads the files too. Two ways in: `rows` (any
event, one tuple each) for goldens, and `schedule` (numpy columns) for a plausible scheduler trace of millions of
events. The layout follows trace-cmd.dat.v6(5), trace-cmd.dat.v7(5) and include/linux/ring_buffer.h. Times are ns.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import random
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from toysched import schedule

__all__ = [
    "FORMATS",
    "STATES_3_8",
    "STATES_NOW",
    "Format",
    "Machine",
    "Row",
    "encode",
    "formats",
    "records",
    "schedule",
    "write",
]

Array = np.ndarray[Any, Any]
Row = tuple[int, int, str, Mapping[str, Any]]
"""(ts, cpu, event, fields). `common_pid` and `common_flags` are fields too. The event "loss" with field `lost` (a
number or None) marks a gap before the next event of its CPU; "discard" leaves a discarded record of `size` bytes."""

MAX_DELTA = (1 << 27) - 1
MISSED, MISSED_STORED = 1 << 31, 1 << 30


# --- formats

COMMON = (
    "unsigned short common_type",
    "unsigned char common_flags",
    "unsigned char common_preempt_count",
    "int common_pid",
)
_SIZES = {
    "char": (1, 1), "unsigned char": (1, 0), "bool": (1, 0), "short": (2, 1), "unsigned short": (2, 0), "int": (4, 1),
    "pid_t": (4, 1), "s32": (4, 1), "unsigned int": (4, 0), "u32": (4, 0), "u64": (8, 0), "s64": (8, 1),
}  # fmt: skip
_MASK = " | ".join(f"0x{bit:08x}" for bit in (0, *(1 << i for i in range(7))))
_LETTERS = ", ".join(f'{{ 0x{1 << i:08x}, "{letter}" }}' for i, letter in enumerate("SDTtXZPI"))
STATES_NOW = (
    f"(REC->prev_state & (((({_MASK}) + 1) << 1) - 1)) ? "
    f'__print_flags(REC->prev_state & (((({_MASK}) + 1) << 1) - 1), "|", {_LETTERS}) : "R", '
    f'REC->prev_state & ((({_MASK}) + 1) << 1) ? "+" : ""'
)
STATES_3_8 = (
    'REC->prev_state & (512-1) ? __print_flags(REC->prev_state & (512-1), "|", { 1, "S"} , { 2, "D" }, { 4, "T" }, '
    '{ 8, "t" }, { 16, "Z" }, { 32, "X" }, { 64, "x" }, { 128, "K" }, { 256, "W" }) : "R", '
    'REC->prev_state & 512 ? "+" : ""'
)


@dataclass(frozen=True)
class Format:
    """One event: fields as C declarations, in record order; `long` takes the machine's size. `show`: the printed line,
    each value after its field's name."""

    system: str
    name: str
    id: int
    fields: tuple[str, ...]
    show: str
    states: str = STATES_NOW

    def layout(self, long_size: int) -> dict[str, tuple[int, int, int, str]]:
        """{name: (offset, size, signed, C type)}, naturally aligned, common fields included."""
        out: dict[str, tuple[int, int, int, str]] = {}
        at = 0
        for decl in COMMON + self.fields:
            kind, _, name = decl.rpartition(" ")
            name, _, n = name.partition("[")
            if kind.startswith("__data_loc"):
                size, align, signed = 4, 4, 0
            elif kind in ("long", "unsigned long", "void *"):
                size = align = long_size
                signed = int(kind == "long")
            else:
                align, signed = _SIZES[kind]
                size = align * int(n[:-1] or 1) if n else align
            at = -(-at // align) * align
            out[name] = (at, size, signed, kind)
            at += size
        return out

    def text(self, long_size: int) -> str:
        lines = [f"name: {self.name}", f"ID: {self.id}", "format:"]
        decls = dict(zip(self.layout(long_size), COMMON + self.fields, strict=True))
        for i, (name, (offset, size, signed, _)) in enumerate(self.layout(long_size).items()):
            lines += [""] if i == len(COMMON) else []
            lines.append(f"\tfield:{decls[name]};\toffset:{offset};\tsize:{size};\tsigned:{signed};")
        return "\n".join([*lines, "", f"print fmt: {self.print_fmt()}", ""])

    def print_fmt(self) -> str:
        """What the kernel would generate for `show`."""
        kinds = {d.rpartition(" ")[2].partition("[")[0]: d for d in self.fields}
        args = []
        for name in re.findall(r"(\w+)=%", self.show):
            if name == "prev_state":
                args.append(self.states)
            elif kinds[name].startswith("__data_loc"):
                args.append(f"__get_{'str' if 'char' in kinds[name] else 'bitmask'}({name})")
            else:
                args.append(f"REC->{name}")
        return ", ".join([f'"{self.show}"', *args])


_COMM = "comm=%s pid=%d prio=%d"
_WAKE = ("char comm[16]", "pid_t pid", "int prio", "int target_cpu")
_SWITCH = ("char prev_comm[16]", "pid_t prev_pid", "int prev_prio", "long prev_state",
           "char next_comm[16]", "pid_t next_pid", "int next_prio")  # fmt: skip
_PROBE = ("unsigned long __probe_ip", "s32 pid", "s32 prev", "s32 flags", "s32 recent", "u32 flips", "u64 util",
          "u64 load", "s32 nallowed", "s32 nis", "s32 hic", "u64 qload", "u32 qnr")  # fmt: skip

FORMATS: tuple[Format, ...] = (
    Format("sched", "sched_switch", 314, _SWITCH, "prev_comm=%s prev_pid=%d prev_prio=%d prev_state=%s%s ==> "
           "next_comm=%s next_pid=%d next_prio=%d"),
    Format("sched", "sched_waking", 317, _WAKE, f"{_COMM} target_cpu=%03d"),
    Format("sched", "sched_wakeup", 316, _WAKE, f"{_COMM} target_cpu=%03d"),
    Format("sched", "sched_wakeup_new", 315, _WAKE, f"{_COMM} target_cpu=%03d"),
    Format("sched", "sched_migrate_task", 313, (*_WAKE[:3], "int orig_cpu", "int dest_cpu"),
           f"{_COMM} orig_cpu=%d dest_cpu=%d"),
    Format("sched", "sched_process_fork", 308, ("char parent_comm[16]", "pid_t parent_pid", "char child_comm[16]",
           "pid_t child_pid"), "parent_comm=%s parent_pid=%d child_comm=%s child_pid=%d"),
    Format("sched", "sched_process_exec", 307, ("__data_loc char[] filename", "pid_t pid", "pid_t old_pid"),
           "filename=%s pid=%d old_pid=%d"),
    Format("sched", "sched_process_exit", 311, _WAKE[:3], _COMM),
    Format("irq", "irq_handler_entry", 160, ("int irq", "__data_loc char[] name"), "irq=%d name=%s"),
    Format("irq", "irq_handler_exit", 159, ("int irq", "int ret"), "irq=%d ret=%d"),
    Format("irq", "softirq_entry", 158, ("unsigned int vec",), "vec=%u"),
    Format("irq", "softirq_exit", 157, ("unsigned int vec",), "vec=%u"),
    Format("irq", "softirq_raise", 156, ("unsigned int vec",), "vec=%u"),
    Format("irq_vectors", "local_timer_entry", 91, ("int vector",), "vector=%d"),
    Format("irq_vectors", "local_timer_exit", 90, ("int vector",), "vector=%d"),
    Format("irq_vectors", "reschedule_entry", 87, ("int vector",), "vector=%d"),
    Format("irq_vectors", "reschedule_exit", 86, ("int vector",), "vector=%d"),
    Format("irq_vectors", "made_up_entry", 78, ("int vector",), "vector=%d"),
    Format("ipi", "ipi_raise", 290, ("__data_loc unsigned long[] target_cpus",), "target_cpus=%s"),
    Format("ipi", "ipi_send_cpu", 288, ("unsigned int cpu",), "cpu=%u"),
    Format("ipi", "ipi_send_cpumask", 287, ("__data_loc cpumask_t cpumask",), "cpumask=%s"),
    Format("ipi", "ipi_entry", 286, ("int reason",), "reason=%d"),
    Format("ipi", "ipi_exit", 285, ("int reason",), "reason=%d"),
    Format("power", "cpu_idle", 420, ("u32 state", "u32 cpu_id"), "state=%u cpu_id=%u"),
    Format("power", "cpu_frequency", 418, ("u32 state", "u32 cpu_id"), "state=%u cpu_id=%u"),
    Format("rewake", "select_in", 1649, _PROBE, "pid=%d prev=%d flags=%d"),
    Format("rewake", "select_out", 1650, ("unsigned long __probe_func", "s32 cpu"), "cpu=%d"),
    Format("timer", "timer_init", 500, ("void * timer",), "timer=%p"),
)  # fmt: skip


def formats(
    *,
    dynamic_comm: Iterable[str] = (),
    success: bool = False,
    states: str = STATES_NOW,
    shuffle: random.Random | None = None,
) -> tuple[Format, ...]:
    """FORMATS with variations that kernels have had: names of the events whose strings are `__data_loc`, the `success`
    field of 3.x-4.x, other letters of prev_state, and fields in any order."""
    out = []
    for f in FORMATS:
        fields = list(f.fields)
        if f.name in dynamic_comm:
            fields = [f"__data_loc char[] {d[5:-4]}" if d.endswith("comm[16]") else d for d in fields]
        if success and f.name.startswith("sched_wak"):
            fields.insert(3, "int success")
        if shuffle is not None:
            shuffle.shuffle(fields)
        out.append(replace(f, fields=tuple(fields), states=states))
    return tuple(out)


# --- records


@dataclass
class Records:
    """Records of any number of CPUs. `data[i]` holds the payload of record i, except where `fixed` gives many."""

    ts: Array  # int64
    cpu: Array  # int32
    size: Array  # payload bytes, a multiple of 4
    fixed: list[tuple[Array, Array]] = field(default_factory=list)  # (record numbers, uint8 payloads of one size)
    data: dict[int, bytes] = field(default_factory=dict)
    loss: dict[int, int | None] = field(default_factory=dict)  # losses before record i
    discarded: set[int] = field(default_factory=set)


def encode(f: Format, values: Mapping[str, Any], long_size: int = 8, endian: str = "<") -> bytes:
    """One record. Strings are bytes (or str); a bit mask is an int (an array of longs in the record)."""
    layout = f.layout(long_size)
    end = max(offset + size for offset, size, _, _ in layout.values())
    out = bytearray(end)
    for name, (offset, size, signed, kind) in layout.items():
        v = values.get(name, f.id if name == "common_type" else 0)
        if kind.startswith("__data_loc"):
            if isinstance(v, int):
                words = [
                    (v >> (8 * long_size * i)) & ((1 << 8 * long_size) - 1)
                    for i in range(max(1, -(-v.bit_length() // (8 * long_size))))
                ]
                raw = b"".join(w.to_bytes(long_size, "little" if endian == "<" else "big") for w in words)
            else:
                raw = (v.encode() if isinstance(v, str) else bytes(v)) + b"\0"
            struct.pack_into(endian + "I", out, offset, len(raw) << 16 | len(out))
            out += raw
        elif isinstance(v, (bytes, str)):
            raw = v.encode() if isinstance(v, str) else v
            out[offset : offset + size] = raw[:size].ljust(size, b"\0")
        else:
            order: Literal["little", "big"] = "little" if endian == "<" else "big"
            out[offset : offset + size] = (int(v) & ((1 << 8 * size) - 1)).to_bytes(size, order, signed=False)
            assert not signed or -(1 << (8 * size - 1)) <= int(v) < 1 << (8 * size), (name, v)
    out += bytes(-len(out) % 4)
    return bytes(out)


def _of_rows(rows: Sequence[Row], fmts: Sequence[Format], long_size: int, endian: str) -> Records:
    by_name = {f.name: f for f in fmts}
    order = sorted(range(len(rows)), key=lambda i: (rows[i][1], rows[i][0], i))
    ts: list[int] = []
    cpu: list[int] = []
    size: list[int] = []
    out = Records(np.empty(0), np.empty(0), np.empty(0))
    for place, i in enumerate(order):
        t, c, name, values = rows[i]
        n = len(ts)
        if name == "loss":
            out.loss[n] = values["lost"]
            assert place + 1 < len(order) and rows[order[place + 1]][1] == c, "a gap needs a later event of its CPU"
            continue
        if name == "discard":
            out.discarded.add(n)
            data = bytes(values["size"])
        else:
            data = encode(by_name[name], values, long_size, endian)
        out.data[n] = data
        ts.append(t)
        cpu.append(c)
        size.append(len(data))
    out.ts, out.cpu, out.size = np.array(ts, np.int64), np.array(cpu, np.int32), np.array(size, np.int64)
    return out


def _of_columns(
    columns: Mapping[str, Mapping[str, Array]], fmts: Sequence[Format], long_size: int, endian: str
) -> Records:
    """`columns`: {event: {ts, cpu, field…}}; rows of one CPU and time keep the order of `columns`."""
    by_name = {f.name: f for f in fmts}
    all_ts = np.concatenate([c["ts"] for c in columns.values()])
    all_cpu = np.concatenate([c["cpu"] for c in columns.values()])
    rank = np.empty(len(all_ts), np.int64)
    order = np.lexsort((all_ts, all_cpu))
    rank[order] = np.arange(len(order))
    sizes = np.empty(len(all_ts), np.int64)
    out = Records(all_ts[order], all_cpu[order].astype(np.int32), sizes)
    at = 0
    for name, c in columns.items():
        f = by_name[name]
        layout = f.layout(long_size)
        end = -(-max(o + s for o, s, _, _ in layout.values()) // 4) * 4
        dtype = np.dtype({
            "names": list(layout),
            "formats": [
                f"S{size}" if kind == "char" and size > 1 else f"{endian}{'i' if signed else 'u'}{size}"
                for _, size, signed, kind in layout.values()
            ],
            "offsets": [o for o, _, _, _ in layout.values()],
            "itemsize": end,
        })  # fmt: skip
        rec = np.zeros(len(c["ts"]), dtype)
        rec["common_type"] = f.id
        for field_name in layout:
            if field_name in c:
                rec[field_name] = c[field_name]
        numbers = rank[at : at + len(rec)]
        at += len(rec)
        sizes[numbers] = end
        out.fixed.append((numbers, rec.view(np.uint8).reshape(len(rec), end)))
    return out


@dataclass(frozen=True)
class Machine:
    """What the file says of the traced machine."""

    cpus: int
    long_size: int = 8
    endian: str = "<"
    page_size: int = 4096
    absolute: bool = False  # long pauses as absolute times (type 31) instead of extensions (type 30)
    clock: str = "local"
    uname: str = "Linux box 6.1.0-test x86_64"
    instance: str = ""  # that the buffer is of, version 7
    options: tuple[tuple[int, bytes], ...] = ()

    @property
    def header(self) -> int:
        return 8 + self.long_size

    def header_page(self) -> bytes:
        data = self.page_size - self.header
        return (
            "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n"
            f"\tfield: local_t commit;\toffset:8;\tsize:{self.long_size};\tsigned:1;\n"
            "\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n"
            f"\tfield: char data;\toffset:{self.header};\tsize:{data};\tsigned:1;\n"
        ).encode()


def records(
    events: Sequence[Row] | Mapping[str, Mapping[str, Array]], fmts: Sequence[Format], machine: Machine
) -> Records:
    """Rows, or columns by event, as records in (cpu, ts, sequence) order."""
    make: Any = _of_columns if isinstance(events, Mapping) else _of_rows
    out: Records = make(events, fmts, machine.long_size, machine.endian)
    return out


# --- ring-buffer pages


def _pages(r: Records, first: int, last: int, m: Machine) -> bytes:
    """Ring-buffer pages of the records first..last-1, all of one CPU."""
    if first == last and last not in r.loss:
        return b""
    ts = r.ts[first:last].astype(np.int64)
    size = r.size[first:last]
    word = np.where(size > 28 * 4, 4, 0)  # long records carry their length in a word of its own
    delta = np.diff(ts, prepend=ts[:1])
    extend = np.where(delta > MAX_DELTA, 8, 0)
    total = np.cumsum(4 + word + size + extend)
    room = m.page_size - m.header
    starts: list[int] = []
    page_of = np.empty(len(ts), np.int64)
    marks = sorted(i - first for i in r.loss if first <= i < last)
    at = 0
    while at < len(ts):
        base = (total[at - 1] if at else 0) + extend[at]  # the first record of a page needs no extension
        space = room - (m.long_size if at in marks else 0)
        end = int(np.searchsorted(total, base + space, side="right"))
        end = min([end, *(k for k in marks if k > at)])
        assert end > at, "a record larger than a page"
        page_of[at:end] = len(starts)
        starts.append(at)
        at = end
    if not starts:
        return b""
    first_of = np.array(starts)
    extend[first_of] = 0
    delta[first_of] = 0
    spans = 4 + word + size + extend
    ends = np.cumsum(spans)
    base_of = ends[first_of] - spans[first_of]
    within = ends - spans - base_of[page_of]
    dest = page_of * m.page_size + m.header + within
    out = np.zeros(len(starts) * m.page_size, np.uint8)
    u32 = out.view(m.endian + "u4")

    def head(type_len: Array, d: Array) -> Array:
        return type_len << 27 | d if m.endian == ">" else d << 5 | type_len

    far = np.flatnonzero(extend)
    if len(far):
        full = ts[far] if m.absolute else delta[far]
        u32[dest[far] // 4] = head(np.full(len(far), 31 if m.absolute else 30), full & MAX_DELTA)
        u32[dest[far] // 4 + 1] = (full >> 27) & 0xFFFFFFFF
        delta[far] = 0
        dest = dest + extend
    type_len = np.where(word > 0, 0, size // 4)
    gone = np.array(sorted(i - first for i in r.discarded if first <= i < last), np.int64)
    type_len[gone] = 29
    late = gone[delta[gone] == 0]  # a discarded record has a delta, so that it is not the end of the page
    delta[late] = 1
    after = late[late + 1 < len(ts)] + 1
    delta[after] -= delta[after] > 0
    u32[dest // 4] = head(type_len, delta)
    long = np.flatnonzero(word)
    u32[dest[long] // 4 + 1] = size[long] + 4
    body = dest + 4 + word
    for numbers, payload in r.fixed:
        mine = (numbers >= first) & (numbers < last)
        words = payload[mine].view("<u4") if payload.size else payload.view("<u4")
        out.view("<u4")[(body[numbers[mine] - first] // 4)[:, None] + np.arange(words.shape[1])] = words
    for i in range(first, last) if r.data else ():
        at = int(body[i - first])
        out[at : at + len(r.data[i])] = np.frombuffer(r.data[i], np.uint8)
    if len(gone):
        u32[body[gone] // 4] = size[gone]
    commit = ends[np.append(first_of[1:], len(ts)) - 1] - base_of
    pages = out.reshape(len(starts), m.page_size)
    pages[:, :8] = ts[first_of].astype(m.endian + "i8").view(np.uint8).reshape(-1, 8)
    order: Literal["little", "big"] = "little" if m.endian == "<" else "big"
    for k, n in enumerate(commit.tolist()):
        mark = first + starts[k]
        flags = 0
        if mark in r.loss:
            lost = r.loss[mark]
            flags = MISSED | (MISSED_STORED if lost is not None else 0)
            if lost is not None:
                pages[k, m.header + n : m.header + n + m.long_size] = np.frombuffer(
                    lost.to_bytes(m.long_size, order), np.uint8
                )
        pages[k, 8 : 8 + m.long_size] = np.frombuffer((n | flags).to_bytes(m.long_size, order), np.uint8)
    return out.tobytes()


def pages(events: Sequence[Row] | Mapping[str, Mapping[str, Array]], fmts: Sequence[Format], m: Machine) -> list[bytes]:
    """Ring-buffer pages of each CPU."""
    r = records(events, fmts, m)
    edges = np.searchsorted(r.cpu, np.arange(m.cpus + 1)).tolist()
    return [_pages(r, edges[c], edges[c + 1], m) for c in range(m.cpus)]


# --- container


class _Zstd:
    def __init__(self) -> None:
        self.lib = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
        for name in ("ZSTD_compressBound", "ZSTD_compress"):
            getattr(self.lib, name).restype = ctypes.c_size_t

    def pack(self, data: bytes) -> bytes:
        most = self.lib.ZSTD_compressBound(ctypes.c_size_t(len(data)))
        out = ctypes.create_string_buffer(most)
        n = self.lib.ZSTD_compress(out, ctypes.c_size_t(most), data, ctypes.c_size_t(len(data)), 3)
        return out.raw[:n]


def system_texts(fmts: Sequence[Format], m: Machine) -> bytes:
    systems: dict[str, list[Format]] = {}
    for f in fmts:
        systems.setdefault(f.system, []).append(f)
    out = [struct.pack(m.endian + "I", len(systems))]
    for system, members in systems.items():
        out.append(system.encode() + b"\0" + struct.pack(m.endian + "I", len(members)))
        for f in members:
            text = f.text(m.long_size).encode()
            out.append(struct.pack(m.endian + "Q", len(text)) + text)
    return b"".join(out)


def header_info(m: Machine) -> bytes:
    page, event = m.header_page(), b"# compressed entry header\n"
    q = m.endian + "Q"
    return b"header_page\0" + struct.pack(q, len(page)) + page + b"header_event\0" + struct.pack(q, len(event)) + event


def _option(m: Machine, number: int, data: bytes) -> bytes:
    return struct.pack(m.endian + "HI", number, len(data)) + data


def _magic(version: int, m: Machine) -> bytes:
    start = b"\x17\x08\x44tracing" + str(version).encode() + b"\0"
    return start + bytes([m.endian == ">", m.long_size]) + struct.pack(m.endian + "I", m.page_size)


def _common_options(m: Machine) -> bytes:
    out = _option(m, 4, f"[{m.clock}] global\0".encode()) + _option(m, 5, m.uname.encode() + b"\0")
    return out + _option(m, 8, struct.pack(m.endian + "I", m.cpus)) + b"".join(_option(m, *o) for o in m.options)


def _v6(path: Path, cpus: Sequence[bytes], fmts: Sequence[Format], m: Machine) -> None:
    e = m.endian
    out = [_magic(6, m), header_info(m), struct.pack(e + "I", 0), system_texts(fmts, m)]
    out.append(struct.pack(e + "IIQ", 0, 0, 0))  # kallsyms, printk formats, saved command lines
    out.append(
        struct.pack(e + "I", m.cpus) + b"options  \0" + _common_options(m) + struct.pack(e + "H", 0) + b"flyrecord\0"
    )
    at = sum(map(len, out)) + 16 * m.cpus
    table, data = [], []
    for pages in cpus:
        pad = -at % m.page_size
        table.append(struct.pack(e + "QQ", at + pad, len(pages)))
        data += [bytes(pad), pages]
        at += pad + len(pages)
    path.write_bytes(b"".join(out + table + data))


def _v7(path: Path, cpus: Sequence[bytes], fmts: Sequence[Format], m: Machine, compression: str) -> None:
    e = m.endian
    zstd = _Zstd() if compression == "zstd" else None
    out = bytearray(_magic(7, m) + (b"zstd\x001.5.4\0" if zstd else b"none\0\0"))
    options_at = len(out)
    out += bytes(8)

    def section(number: int, data: bytes) -> bytes:
        at = len(out)
        if zstd:
            packed = zstd.pack(data)
            data = struct.pack(e + "II", len(packed), len(data)) + packed
        out.extend(struct.pack(e + "HHIQ", number, int(zstd is not None), 0, len(data)) + data)
        return struct.pack(e + "Q", at)

    options = _option(m, 16, section(16, header_info(m)))
    options += _option(m, 17, section(17, struct.pack(e + "I", 0)))
    options += _option(m, 18, section(18, system_texts(fmts, m)))
    options += _common_options(m)
    buffer_at = len(out)
    out += bytes(16)
    table = b""
    for cpu, pages in enumerate(cpus):
        out += bytes(-len(out) % m.page_size)
        at, data = len(out), pages
        if zstd and pages:
            step = 10 * m.page_size
            chunks = [pages[i : i + step] for i in range(0, len(pages), step)]
            packed = [zstd.pack(c) for c in chunks]
            body = b"".join(struct.pack(e + "II", len(p), len(c)) + p for p, c in zip(packed, chunks, strict=True))
            out += struct.pack(e + "I", len(chunks))
            data = body
        out += data
        table += struct.pack(
            e + "IQQ", cpu, at, len(data)
        )  # like trace-cmd's, the size leaves the number of chunks out
    struct.pack_into(e + "HHIQ", out, buffer_at, 3, int(zstd is not None), 0, len(out) - buffer_at - 16)
    names = m.instance.encode() + b"\0" + m.clock.encode() + b"\0"
    options += _option(
        m, 3, struct.pack(e + "Q", buffer_at) + names + struct.pack(e + "II", m.page_size, m.cpus) + table
    )
    options += _option(m, 0, bytes(8))
    struct.pack_into(e + "Q", out, options_at, len(out))
    out += struct.pack(e + "HHIQ", 0, 0, 0, len(options)) + options
    path.write_bytes(out)


def write(
    path: Path,
    events: Sequence[Row] | Mapping[str, Mapping[str, Array]],
    *,
    version: int = 6,
    compression: str = "none",
    fmts: Sequence[Format] = FORMATS,
    machine: Machine | None = None,
) -> None:
    """Writes a trace.dat. `events`: rows, or columns by event as `schedule` makes them."""
    if machine is None:
        last = (
            max((int(c["cpu"].max()) for c in events.values()), default=0)
            if isinstance(events, Mapping)
            else max((r[1] for r in events), default=0)
        )
        machine = Machine(last + 1)
    cpus = pages(events, fmts, machine)
    if version == 6:
        _v6(path, cpus, fmts, machine)
    else:
        _v7(path, cpus, fmts, machine, compression)
