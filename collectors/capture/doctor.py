# SPDX-License-Identifier: GPL-2.0-or-later
"""What this machine lets us record: each finding with its status and, where something is missing, the remedy."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from rewake.collectors.capture import events, probes, process, trace_cmd
from rewake.collectors.capture.tracefs import MOUNT, Instance, Tracefs
from rewake.collectors.snapshot.take import cpu_cgroups
from rewake.errors import RewakeError

OK, LIMITED, MISSING = "ok", "limited", "missing"
NEEDED = frozenset({"tracefs", "events", "instance", "trace-cmd"})
"""Findings without which `rewake record` cannot record."""


@dataclass(frozen=True)
class Finding:
    """`status`: ok; limited (recordings will lack something); missing. `remedy` may be empty: there is none."""

    name: str
    status: str
    found: str
    remedy: str = ""

    def as_dict(self) -> dict[str, str]:
        return asdict(self)


def examine(root: Path = Path("/")) -> list[Finding]:
    """All findings, in the order in which they matter."""
    found = [_kernel()]
    try:
        tracefs = Tracefs.find()
    except RewakeError as error:
        remedy = "run rewake doctor as root" if "root" in str(error) and "not mounted" not in str(error) else MOUNT
        found.append(Finding("tracefs", MISSING, str(error).partition(": as root")[0], remedy))
    else:
        found.append(Finding("tracefs", OK, str(tracefs.root)))
        found += _tracing(tracefs)
    found += [*_tools(), *_snapshot(root)]
    return found


def can_record(found: list[Finding]) -> bool:
    good = {f.name for f in found if f.status != MISSING}
    return good >= NEEDED


def _kernel() -> Finding:
    release = os.uname().release
    version = tuple(int(n) for n in re.findall(r"\d+", release)[:2])
    if version < (4, 3):
        return Finding("kernel", LIMITED, f"{release}: no sched_waking before 4.3, so wakeups lack their waker's CPU")
    return Finding("kernel", OK, release)


def _tracing(tracefs: Tracefs) -> Iterator[Finding]:
    try:
        choice = events.choose(tracefs.events())
        absent = f"; not in this kernel: {' '.join(choice.absent)}" if choice.absent else ""
        yield Finding("events", OK, f"{len(choice.events)} of {len(events.ALL)}{absent}")
    except RewakeError as error:
        yield Finding("events", MISSING, str(error), "a kernel with CONFIG_FTRACE")
    stale, left = tracefs.stale(), probes.own(tracefs.root / "dynamic_events")
    if stale or (left and not tracefs.live()):
        found = " ".join([*stale, *left])
        yield Finding("left-overs", LIMITED, f"of killed recordings: {found}", "the next rewake record removes them")
    try:
        with Instance(tracefs):
            yield Finding("instance", OK, f"a private trace buffer can be made; clock {tracefs.clock()}")
    except RewakeError as error:
        yield Finding("instance", MISSING, str(error), "a kernel of 3.10 or later, and no other holder of the instance")
    try:
        os.close(os.open(tracefs.root / "set_ftrace_filter", os.O_RDWR))
        yield Finding("lockdown", OK, "function filters may be opened")
    except FileNotFoundError:
        yield Finding("lockdown", OK, "no function tracer in this kernel; none is needed")
    except OSError:
        yield Finding("lockdown", OK, "the kernel refuses function filters; recording events works without")
    plan = probes.examine(tracefs)
    if plan.reason is None:
        yield Finding("probes", OK, f"{len(plan.definitions)} typed probes on select_task_rq_fair")
    else:
        yield Finding("probes", LIMITED, f"--probes is refused: {plan.reason}", plan.remedy)


def _tools() -> Iterator[Finding]:
    try:
        version = trace_cmd.version()
    except RewakeError as error:
        yield Finding("trace-cmd", MISSING, str(error), trace_cmd.ADVICE)
    else:
        if version is None:
            yield Finding("trace-cmd", MISSING, "not installed", trace_cmd.ADVICE)
        else:
            yield Finding("trace-cmd", OK, ".".join(map(str, version)))
    for tool, package in (("perf", "linux-perf"), ("perfetto", "perfetto")):
        where = shutil.which(tool)
        if where is None:
            yield Finding(tool, LIMITED, f"not installed: no --tool {tool}", f"apt install {package}")
            continue
        try:
            status, said = process.ask([tool, "--version"])
        except RewakeError as error:
            yield Finding(tool, LIMITED, str(error), f"apt install {package}")
            continue
        first = next((line.strip() for line in said.splitlines() if line.strip()), where)
        if status == 0:
            yield Finding(tool, OK, first)
        else:  # a wrapper that finds none for this kernel
            yield Finding(tool, LIMITED, f"does not work ({first}): no --tool {tool}", f"apt install {package}")


def _readable(file: Path) -> bool:
    try:
        with file.open("rb") as f:
            return bool(f.read(1))
    except OSError:
        return False


def _comm(process: Path) -> str | None:
    try:
        return (process / "comm").read_text(errors="replace").strip()
    except OSError:
        return None


def _snapshot(root: Path) -> Iterator[Finding]:
    debug = root / "sys/kernel/debug"
    if debug.is_dir() and not os.access(debug, os.X_OK):
        yield Finding("debugfs", LIMITED, "cannot be looked into: domains, features and lockdown unknown",
                      "run as root")  # fmt: skip
    elif not (debug / "sched").is_dir() and not (debug / "sched_features").exists():
        yield Finding("debugfs", LIMITED, "no sched directory: names and flags of scheduler domains, features unknown",
                      "mount -t debugfs nodev /sys/kernel/debug")  # fmt: skip
    elif not _readable(debug / "sched/features") and not _readable(debug / "sched_features"):
        yield Finding("debugfs", LIMITED, "sched/features cannot be read (lockdown): defaults of the release assumed")
    else:
        yield Finding("debugfs", OK, "scheduler features and domains")
    if _readable(root / "proc/schedstat"):
        yield Finding("schedstat", OK, "spans of scheduler domains")
    else:
        yield Finding("schedstat", LIMITED, "no /proc/schedstat: domains are derived from the hardware",
                      "a kernel with CONFIG_SCHEDSTATS")  # fmt: skip
    second = _comm(root / "proc/2")
    if second == "kthreadd":
        yield Finding("pid namespace", OK, "the machine's own")
    elif second is None and _comm(root / "proc/1") is None:
        yield Finding("pid namespace", LIMITED, "not known: /proc hides the processes of others", "run as root")
    else:
        yield Finding("pid namespace", LIMITED, "not the machine's own: thread ids differ from those of the events",
                      "run on the host, or in its pid namespace")  # fmt: skip
    cgroups = cpu_cgroups(root)
    if cgroups is not None:
        yield Finding("cgroups", OK, f"version {cgroups[1]} at {cgroups[0]}")
    else:
        yield Finding("cgroups", LIMITED, "none with the cpu controller: weights and quotas unknown")
