# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake record`: record this machine, import what came, say what it cost."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rewake import quantity
from rewake.analysis import text
from rewake.cli._shared import format_option, only_form, print_json, print_rows, progress
from rewake.errors import RewakeError, UsageError

if TYPE_CHECKING:
    from rewake.collectors.capture.session import BackEnd, Outcome, Request
    from rewake.collectors.capture.sizing import Plan
    from rewake.collectors.capture.tracefs import Tracefs

LONG_SECONDS = 30.0
"""From here on, and without any end, the rates are looked at before the recording begins."""


def _seconds(value: str) -> float:
    return quantity.duration(value) / 1e9


def _kib(value: str) -> int:
    """KiB of a size, begun ones counted."""
    return -(-quantity.size(value) // 1024)


@click.command(short_help="Record this machine.")
@click.option("--tool", type=click.Choice(("trace-cmd", "perf", "perfetto")), default="trace-cmd", show_default=True,
              help="What records.")  # fmt: skip
@click.option("--duration", metavar="TIME", help="Stop after this time (500ms, 10s, 2m).")
@click.option("--cpus", metavar="LIST", help="Record these CPUs only (0-7,16-23).")
@click.option("--events", "subset", type=click.Choice(("all", "sched")), default="all", show_default=True,
              help="sched: only what decisions need; for machines with little memory.")  # fmt: skip
@click.option("--buffer", metavar="SIZE", help="Kernel buffer per CPU (8M); default: by the rates, at least 4M.")
@click.option("--max-size", metavar="SIZE", help="Stop when the raw trace has this size.")
@click.option("--dry-run", is_flag=True, help="Look at the rates for a second; print buffer and disk; record nothing.")
@click.option("--measure-overhead", is_flag=True, help="Run CMD four times, without and with recording in turns.")
@click.option("--keep-raw", metavar="DIR", type=click.Path(path_type=Path), help="Keep raw trace and snapshot in DIR.")
@click.option("--probes", is_flag=True, help="Also what the placement function was given and chose (6.6+, BTF).")
@click.option("--flight-recorder", is_flag=True, help="Keep the last seconds in the kernel's buffers; read at the end.")
@click.option(
    "--stop-on", metavar="wakeup-latency=TIME", help="End the flight recorder on the first wakeup that waits."
)
@click.option("--emit-script", is_flag=True,
              help="Print a POSIX sh script that records where nothing may be installed; with --tool perfetto, the"
              " configuration for traced.")  # fmt: skip
@click.option("-o", "--output", metavar="REC", type=click.Path(path_type=Path), help="Where to; default: the cache.")
@format_option("table", "json")
@click.argument("cmd", nargs=-1, type=click.UNPROCESSED)
def command(
    tool: str,
    duration: str | None,
    cpus: str | None,
    subset: str,
    buffer: str | None,
    max_size: str | None,
    dry_run: bool,
    measure_overhead: bool,
    keep_raw: Path | None,
    probes: bool,
    flight_recorder: bool,
    stop_on: str | None,
    emit_script: bool,
    output: Path | None,
    format_: str,
    cmd: tuple[str, ...],
) -> None:
    """Record the scheduler's events of this machine, with a snapshot of it, and import them.

    Records while CMD runs (its output goes to stderr), for --duration, or until Ctrl-C. Prints the path of the
    recording. Needs root and trace-cmd; rewake doctor says what is missing. The kernel's main buffer is not touched.
    """
    from rewake.collectors.capture import events, sizing
    from rewake.collectors.capture import probes as placement
    from rewake.collectors.capture.tracefs import Tracefs
    from rewake.forms.recording import RecordingWriter

    if emit_script:
        unheard = {"--cpus": cpus, "--flight-recorder": flight_recorder, "--stop-on": stop_on, "--keep-raw": keep_raw,
                   "--measure-overhead": measure_overhead, "--dry-run": dry_run}  # fmt: skip
        if given := [name for name, value in unheard.items() if value]:
            raise UsageError(f"--emit-script knows nothing of {', '.join(given)}: leave it out")
        only_form("--emit-script")
        _emit(tool, _seconds(duration or "10s"), subset, buffer, max_size, output, cmd, probes)
        return
    _end_as_by_ctrl_c()
    _refuse_tool(tool, flight_recorder)
    if probes and tool == "perfetto":
        raise UsageError("--probes: traced cannot record them; use trace-cmd")
    if measure_overhead and not cmd:
        raise UsageError("--measure-overhead needs a CMD to run")
    if cmd and shutil.which(cmd[0]) is None:
        raise UsageError(f"{cmd[0]}: no such command")
    if keep_raw is not None and keep_raw.exists():
        raise UsageError(f"{keep_raw}: exists already")
    if output is not None:
        RecordingWriter(output).require_free()
    seconds = _seconds(duration) if duration is not None else None
    chosen_cpus = _cpus(cpus)
    given_kb = _kib(buffer) if buffer is not None else None
    max_bytes = quantity.size(max_size) if max_size is not None else None
    stop_ns = _stop_ns(stop_on)
    if stop_ns is not None and not flight_recorder:
        raise UsageError("--stop-on needs --flight-recorder: only its buffers hold what led to the moment")
    if max_size is not None and flight_recorder:
        raise UsageError("--max-size: the flight recorder writes nothing before its end; --buffer is its size per CPU")
    tracefs = Tracefs.find()
    if probes:
        placement.require(placement.examine(tracefs))
    choice = events.choose(tracefs.events(), subset, tool)
    plan = None
    if dry_run or flight_recorder or (not cmd and (seconds is None or seconds >= LONG_SECONDS)):
        from rewake.collectors.capture import flight

        told_as = format_ if dry_run else None
        held = flight.BUFFER_SECONDS + (stop_ns or 0) * 1e-9 if flight_recorder else None
        plan = _look(tracefs, choice.events, seconds, told_as, held, chosen_cpus, given_kb, max_bytes)
        if dry_run:
            return
    buffer_kb = plan.buffer_kb if plan is not None else given_kb or sizing.MIN_BUFFER_KB
    with _raw_directory(keep_raw), _reserved(output) as release, _work_directory(output) as directory:
        from rewake.collectors.capture.session import Request, require_space

        require_space(directory, (buffer_kb << 10) * (os.cpu_count() or 1) if flight_recorder else 0)
        request = Request(choice.events, directory, buffer_kb, chosen_cpus, seconds, cmd, probes,
                          max_bytes)  # fmt: skip
        make = _back_end(tracefs, request, "flight" if flight_recorder else tool, stop_ns)
        outcome = _measured(tracefs, request, make) if measure_overhead else _record(tracefs, request, make)
        release()
        _finish(outcome, request, output, keep_raw, format_)


def _end_as_by_ctrl_c() -> None:
    """Also `kill` and a terminal that closes shall find what was made on the way removed, or kept and told."""
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup has the latter ignored
            signal.signal(number, signal.getsignal(signal.SIGINT))
            click.get_current_context().call_on_close(partial(signal.signal, number, signal.SIG_DFL))


def _emit(
    tool: str, seconds: float, subset: str, buffer: str | None, max_size: str | None, output: Path | None,
    cmd: tuple[str, ...], probes: bool,
) -> None:  # fmt: skip
    from rewake import __version__
    from rewake.collectors.capture import events, perfetto, script

    if tool == "perf" or (tool == "perfetto" and cmd):
        raise UsageError(f"--emit-script with --tool {tool}: only trace-cmd, or perfetto without CMD")
    if tool == "perfetto" and probes:
        raise UsageError("--probes: traced cannot record them; use trace-cmd")
    plain = script.Options(script.whole_seconds(seconds), events.SUBSETS[subset], command=cmd, probes=probes)
    buffer_kb = _kib(buffer) if buffer is not None else plain.buffer_kb
    max_kb = _kib(max_size) if max_size is not None else plain.max_kb
    if tool == "perfetto":
        click.echo(perfetto.config(perfetto.Options(plain.events, buffer_kb, seconds, max_kb << 10)), nl=False)
        return
    name = str(output) if output is not None else plain.output
    options = replace(plain, buffer_kb=buffer_kb, max_kb=max_kb, output=name)
    click.echo(script.emit(options, __version__), nl=False)


def _cpus(given: str | None) -> frozenset[int] | None:
    from rewake.collectors.snapshot.cpulist import parse_list

    if given is None:
        return None
    try:
        cpus = parse_list(given)
        online = parse_list(Path("/sys/devices/system/cpu/online").read_text())
    except ValueError as error:
        raise UsageError(f"--cpus: {error}") from None
    if not cpus or not cpus <= online:
        raise UsageError(f"--cpus {given[:60]!r}: not among the online CPUs")
    return cpus


def _look(
    tracefs: Tracefs, names: tuple[str, ...], seconds: float | None, format_: str | None, in_flight: float | None,
    cpus: frozenset[int] | None, given_kb: int | None, max_bytes: int | None,
) -> Plan:  # fmt: skip
    """The rates of the machine, or of `cpus`, as it is now, told on stderr, or on stdout in the format of a dry run.
    `in_flight`: seconds that the buffers of the flight recorder shall hold."""
    from rewake.collectors.capture import sizing

    found = sizing.look(tracefs, names)
    if cpus is not None:  # the others have buffers too, and nothing in them
        found = {cpu: rate if cpu in cpus else sizing.Rate(0.0, 0.0) for cpu, rate in found.items()}
    memory = sizing.available_memory(Path("/proc/meminfo").read_text())
    plan = sizing.plan(found, memory, None if in_flight else seconds, in_flight or sizing.BUFFER_SECONDS)
    memory_short = plan.short
    if given_kb is not None:
        plan = replace(plan, buffer_kb=given_kb)
    if max_bytes is not None:
        plan = replace(plan, disk=max_bytes if plan.disk is None else min(plan.disk, max_bytes))
    told = {
        "events_per_s": round(plan.events_per_s), "bytes_per_s": round(plan.bytes_per_s),
        "buffer_kb_per_cpu": plan.buffer_kb, "buffer_bytes": plan.buffer_kb * 1024 * len(found),
        "wanted_kb_per_cpu": plan.wanted_kb, "memory_short": memory_short,
        "disk_bytes": None if plan.disk is None else round(plan.disk),
        "cpus": len(found if cpus is None else cpus),
    }  # fmt: skip
    if format_ == "json":
        print_json(told)
        return plan
    rows = [
        ("rate now", f"{plan.events_per_s:,.0f} events/s, {_size(plan.bytes_per_s)}/s"),
        ("buffer", f"{_size(plan.buffer_kb << 10)} on each of {len(found)} CPUs, {_size(told['buffer_bytes'] or 0)}"),
        ("disk", ("the buffer" if in_flight else "grows until stopped") if plan.disk is None else _size(plan.disk)),
    ]
    if plan.short:
        wanted = f"{_size(plan.wanted_kb << 10)} per CPU would be right"
        rows.append(("memory", f"short: {wanted}; give --events sched") if given_kb is None else ("--buffer", wanted))
    if format_ is not None:
        print_rows(rows)
    else:
        for name, value in rows:
            print(f"{name}: {value}", file=sys.stderr)
    return plan


def _size(n: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if n < 1024 or unit == "GiB":
            break
        n /= 1024
    return f"{n:.0f} {unit}" if unit == "B" else f"{n:.1f} {unit}"


@contextmanager
def _raw_directory(keep: Path | None) -> Iterator[None]:
    """Made before there is anything to lose; away again where nothing came into it."""
    if keep is not None:
        try:
            keep.mkdir(parents=True, mode=0o700)
        except OSError as error:
            raise RewakeError(f"{keep}: {error.strerror}") from error
    try:
        yield
    finally:
        if keep is not None:
            with suppress(OSError):
                keep.rmdir()


@contextmanager
def _reserved(output: Path | None) -> Iterator[Callable[[], None]]:
    """Holds the recording's name, as who imports it will, until the function is called: what cannot be written, or what
    somebody else is about to write, is told before there is anything to lose."""
    from rewake.collectors.capture.tracefs import undisturbed
    from rewake.forms.recording import RecordingWriter

    with ExitStack() as held:
        if output is not None:
            with undisturbed():
                held.enter_context(RecordingWriter(output))
        yield held.close


@contextmanager
def _work_directory(output: Path | None) -> Iterator[Path]:
    """A private directory where the recording will be, for the trace is large; removed at the end."""
    from rewake import cache
    from rewake.collectors.capture.tracefs import undisturbed

    base = output.absolute().parent if output is not None else cache.folder()
    directory = None
    try:
        with undisturbed():
            base.mkdir(parents=True, exist_ok=True)
            directory = Path(tempfile.mkdtemp(prefix=f"record-{os.getpid()}-", suffix=".part", dir=base))
    except OSError as error:
        raise RewakeError(f"{base}: {error.strerror}") from error
    else:
        yield directory
    finally:
        if directory is not None:
            shutil.rmtree(directory, ignore_errors=True)


def _stop_ns(given: str | None) -> int | None:
    if given is None:
        return None
    kind, _, limit = given.partition("=")
    if kind != "wakeup-latency":
        raise UsageError(f"--stop-on {given[:40]!r}: only wakeup-latency=TIME is known")
    return quantity.duration(limit)


def _refuse_tool(tool: str, flight: bool) -> None:
    """Before anything is recorded that could not be imported."""
    if tool == "trace-cmd":
        return
    if flight:
        raise UsageError(f"--tool {tool}: not with --flight-recorder, which uses the kernel's own files")
    if shutil.which(tool) is None:
        raise RewakeError(f"--tool {tool}: {tool} is not installed: see rewake doctor")


def _back_end(tracefs: Tracefs, request: Request, kind: str, stop_ns: int | None) -> Callable[[], BackEnd]:
    from rewake.collectors.capture.flight import Flight
    from rewake.collectors.capture.perf import Perf
    from rewake.collectors.capture.perfetto import Perfetto
    from rewake.collectors.capture.stream import Stream

    makers: dict[str, Callable[[], BackEnd]] = {
        "trace-cmd": lambda: Stream(request),
        "perf": lambda: Perf(request),
        "perfetto": lambda: Perfetto(request),
        "flight": lambda: Flight(tracefs, request, stop_ns),
    }
    return makers[kind]


def _record(tracefs: Tracefs, request: Request, make: Callable[[], BackEnd]) -> Outcome:
    from rewake.collectors.capture import session

    with progress() as show:

        def tell(p: session.Progress) -> None:
            show(f"recording {p.seconds:.0f} s  {_size(p.bytes)}  lost {p.lost:,}")

        return session.record(tracefs, make(), request, tell)


def _measured(tracefs: Tracefs, request: Request, make: Callable[[], BackEnd]) -> Outcome:
    """A B A B: CMD without, with, without, with. The last is the recording."""
    from rewake.collectors.capture import overhead

    def once() -> Outcome:
        for left in request.directory.iterdir():
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        return _record(tracefs, request, make)

    return overhead.measure(request, once)


def _finish(outcome: Outcome, request: Request, output: Path | None, keep: Path | None, format_: str) -> None:
    """Imports, keeps the raw files if asked (always when the import fails), tells."""
    from rewake.importing import import_trace

    topology = request.directory / "topology"
    try:
        with progress() as show:
            recording = import_trace(outcome.trace, topology, output, progress=show)
    except BaseException:
        keep = _keep(request.directory, outcome.trace.name, keep)
        print(f"rewake: the raw trace is kept in {text.terminal(str(keep), None)}", file=sys.stderr)
        raise
    if keep is not None:
        keep = _keep(request.directory, outcome.trace.name, keep)
    for note in _notes(outcome, request, recording.manifest):
        print(f"rewake: {text.terminal(note, None)}", file=sys.stderr)
    if format_ == "table":
        click.echo(text.terminal(str(recording.path), None))
        return
    manifest = recording.manifest
    print_json({
        "recording": str(recording.path), "stopped_by": outcome.stopped_by, "seconds": round(outcome.seconds, 3),
        "events": manifest["events_total"], "capture": manifest["capture"], "loss": manifest["loss"],
        "advice": [{"cpu": x.cpu, "lost": x.lost, "enough_kb": x.enough_kb} for x in outcome.losses],
        "raw": None if keep is None else str(keep),
    })  # fmt: skip


def _keep(work: Path, trace: str, asked: Path | None) -> Path:
    """Where trace and snapshot are now: `asked`; without it, and where it has no room, beside the work directory."""
    kept = asked or work.with_suffix(".raw")
    if asked is not None and asked.stat().st_dev != work.stat().st_dev:
        try:
            shutil.copy2(work / trace, asked)
            shutil.copytree(work / "topology", asked / "topology")
            return asked
        except OSError as error:  # shutil's own is one, too
            shutil.rmtree(asked, ignore_errors=True)
            kept = work.with_suffix(".raw")
            why = error.strerror or "cannot hold the raw trace"
            print(f"rewake: {text.terminal(f'{asked}: {why}: see {kept}', None)}", file=sys.stderr)
    kept.mkdir(mode=0o700, exist_ok=True)
    for name in (trace, "topology"):
        shutil.move(work / name, kept / name)
    return kept


def _notes(outcome: Outcome, request: Request, manifest: dict[str, Any]) -> Iterator[str]:
    why = {
        "size": "stopped: the raw trace reached --max-size",
        "disk": f"stopped: the disk of {request.directory.parent} is nearly full",
        "tool": "stopped: the recording tool ended by itself",
    }
    yield f"{manifest['events_total']:,} events in {outcome.seconds:.1f} s"
    if outcome.stopped_by in why:
        yield why[outcome.stopped_by]
    if outcome.run is not None and outcome.run.status != 0:
        yield f"the command ended with status {outcome.run.status}"
    for loss in outcome.losses:
        yield (f"CPU {loss.cpu} lost {loss.lost:,} events (buffer {request.buffer_kb} KiB);"
               f" --buffer {loss.enough_kb}K would have held them")  # fmt: skip
    advised = {loss.cpu for loss in outcome.losses}
    for cpu, c in enumerate(manifest["loss"]):
        if c.get("lost") and cpu not in advised:
            yield f"CPU {cpu} lost {c['lost']:,} events (buffer {request.buffer_kb} KiB): give a larger --buffer"
    capture = manifest["capture"] or {}
    if "stop_latency_ns" in capture:
        yield f"stopped: thread {capture['stop_tid']} waited {capture['stop_latency_ns'] / 1e6:.3f} ms after its wakeup"
    if "overhead_wall_pct" in capture:
        yield (f"overhead of recording on the command: wall {capture['overhead_wall_pct']:+.1f} %,"
               f" CPU {capture['overhead_cpu_pct']:+.1f} % ({capture['overhead_pairs']} pairs)")  # fmt: skip
    yield from outcome.notes
