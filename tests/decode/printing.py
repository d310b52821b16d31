# SPDX-License-Identifier: GPL-2.0-or-later
"""Records printed as tracefs, atrace and perf script print them: a few lines a dialect, written from their output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from decode.reading import STATES, Record, name_bytes

SYSTEMS = {"sched_": "sched", "irq_h": "irq", "softi": "irq", "ipi_": "ipi", "cpu_": "power", "select_": "rewake"}
WAKE = "comm={comm} pid={pid} prio={prio} target_cpu={target_cpu:03d}"
BODIES = {
    "sched_switch": "prev_comm={prev_comm} prev_pid={prev_pid} prev_prio={prev_prio} prev_state={letters} ==> "
    "next_comm={next_comm} next_pid={next_pid} next_prio={next_prio}",
    "sched_waking": WAKE, "sched_wakeup": WAKE, "sched_wakeup_new": WAKE,
    "sched_migrate_task": "comm={comm} pid={pid} prio={prio} orig_cpu={orig_cpu} dest_cpu={dest_cpu}",
    "sched_process_fork": "comm={parent_comm} pid={parent_pid} child_comm={child_comm} child_pid={child_pid}",
    "sched_process_exec": "filename={filename} pid={pid} old_pid={old_pid}",
    "sched_process_exit": "comm={comm} pid={pid} prio={prio}",
    "irq_handler_entry": "irq={irq} name={name}", "irq_handler_exit": "irq={irq} ret=handled",
    "softirq_raise": "vec={vec} [action=SCHED]", "softirq_entry": "vec={vec} [action=SCHED]",
    "softirq_exit": "vec={vec} [action=SCHED]",
    "ipi_raise": "target_mask={target_cpus:08x} (Function call interrupts)",
    "ipi_send_cpu": "cpu={cpu} callsite=ttwu_queue_wakelist+0x1/0x2 callback=0x0",
    "ipi_send_cpumask": "cpumask={cpumask:08x} callsite=smp_call+0x1/0x2 callback=f+0x0/0x1",
    "ipi_entry": "(Function call interrupts)", "ipi_exit": "(Function call interrupts)",
    "cpu_idle": "state={state} cpu_id={cpu_id}", "cpu_frequency": "state={state} cpu_id={cpu_id}",
    "timer_init": "timer=0000000001",
}  # fmt: skip


def body(r: Record) -> bytes:
    """As the kernel's own print format. Names are bytes of any kind."""
    fields: dict[str, Any] = {
        k: name_bytes(v).decode("latin-1") if isinstance(v, (str, bytes)) else v for k, v in r.fields.items()
    }
    if "prev_state" in BODIES.get(r.event, ""):
        fields["letters"] = STATES[fields.get("prev_state", 0)]
    show = BODIES.get(r.event, "vector={vector}")
    return show.format_map(Zero(fields)).encode("latin-1")


class Zero(dict[str, Any]):
    """Fields that were not given are 0 or empty, as the writer of trace.dat files has them."""

    def __missing__(self, key: str) -> Any:
        return "" if key.endswith("comm") else 0


def _time(ns: int, digits: int) -> bytes:
    return f"{ns // 10**9:5d}.{ns % 10**9 // 10 ** (9 - digits):0{digits}d}".encode()


def _flags(bits: int) -> bytes:
    return b"d." + (b"z" if bits & 0x40 else b"h" if bits & 8 else b"s" if bits & 16 else b".") + b"2."


def _comm(r: Record, names: Mapping[int, bytes]) -> bytes:
    return b"<idle>" if r.pid == 0 else names.get(r.pid, b"<...>")


def tracefs(records: Iterable[Record], names: Mapping[int, bytes] | None = None, digits: int = 9) -> bytes:
    out = [b"# tracer: nop", b"#", b"# entries-in-buffer/entries-written: 5/5   #P:2", b"#"]
    for r in records:
        if r.lost is not None:
            out.append(b"CPU:%d [LOST EVENTS]" % r.cpu if r.lost < 0 else b"CPU:%d [LOST %d EVENTS]" % (r.cpu, r.lost))
        head = b"%16s-%-7d [%03d] %s %s: %s: " % (
            _comm(r, names or {}), r.pid, r.cpu, _flags(r.flags), _time(r.ts, digits), r.event.encode(),
        )  # fmt: skip
        out.append(head + body(r))
    return b"\n".join(out) + b"\n"


def atrace(records: Iterable[Record], names: Mapping[int, bytes] | None = None, digits: int = 9) -> bytes:
    """With the column of thread groups, names not padded, no newline at the end."""
    out = [b"TRACE:", b"# tracer: nop"]
    for r in records:
        if r.lost is not None:
            out.append(b"CPU:%d [LOST EVENTS]" % r.cpu if r.lost < 0 else b"CPU:%d [LOST %d EVENTS]" % (r.cpu, r.lost))
        group = b"(-----)" if r.pid == 0 else b"(%5d)" % r.pid
        out.append(
            b"%s-%d %s [%03d] %s %s: %s: "
            % (_comm(r, names or {}), r.pid, group, r.cpu, _flags(r.flags), _time(r.ts, digits), r.event.encode())
            + body(r)
        )
    return b"\r\n".join(out)


def legacy_html(records: Iterable[Record], names: Mapping[int, bytes] | None = None, digits: int = 9) -> bytes:
    """2012: the lines of a JavaScript string."""
    lines = atrace(records, names, digits).replace(b"\r\n", b"\\n\\\n")
    return (
        b'<!DOCTYPE html>\n<html><head><script>f("# tracer: no")</script></head><body>\n  <script>\n'
        b'  var linuxPerfData = "\\\n' + lines + b'\\n";\n  </script>\n</body>\n'
    )


def html(records: Iterable[Record], names: Mapping[int, bytes] | None = None, digits: int = 9) -> bytes:
    return (
        b"<!DOCTYPE html>\n<html>\n<script>var a = 1;\n</script>\n"
        b'  <script class="trace-data" type="application/text">\n' + tracefs(records, names, digits) + b"  </script>\n"
        b"</html>\n"
    )


def perf_script(records: Iterable[Record], names: Mapping[int, bytes] | None = None, digits: int = 9) -> bytes:
    """No flags; losses are records of their own, with their CPU."""
    out = []
    for r in records:
        name = b":%d" % r.pid if names is None else _comm(r, names).replace(b"<idle>", b"swapper")
        head = b"%16s %5d [%03d] %s: " % (name, r.pid, r.cpu, _time(r.ts, digits))
        if r.lost is not None:
            out.append(head + b"PERF_RECORD_LOST lost %d" % r.lost)
        system = next((s for front, s in SYSTEMS.items() if r.event.startswith(front)), "irq_vectors")
        out.append(head + b"%24s: " % f"{system}:{r.event}".encode() + body(r))
    return b"\n".join(out) + b"\n"


DIALECTS: dict[str, Callable[..., bytes]] = {
    "tracefs": tracefs, "atrace": atrace, "legacy HTML": legacy_html, "HTML": html, "perf script": perf_script,
}  # fmt: skip
