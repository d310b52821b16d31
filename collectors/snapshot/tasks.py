# SPDX-License-Identifier: GPL-2.0-or-later
"""Tasks, cgroups and settings of the running system, from the text files of a snapshot."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from rewake.collectors.snapshot.cpulist import format_list, parse_list
from rewake.collectors.snapshot.files import Files

CGROUP_ROOT = "sys/fs/cgroup"
PF_KTHREAD = 0x0020_0000
PF_WQ_WORKER = 0x0000_0020
_COMM_BYTES = 15
"""Longest name that the scheduler's events carry (TASK_COMM_LEN without the terminator)."""
_MAX_CGROUPS = 100_000

_THREAD = re.compile(r"Name=(.*) Tgid=(\d{1,9}) Pid=(\d{1,9}) PPid=(\d{1,9}) (.*)")
_WORKER = re.compile(r"(kworker/(?!R-)[^-+]*)[-+]")


@dataclass(frozen=True)
class Thread:
    """One thread at one moment of the snapshot: `when` is "before" or "after" the recording, "main" once at its start.

    `comm` is the name as the scheduler's events carry it: escaped, without what /proc adds for workers. `allowed`
    is a kernel CPU list, `policy` the SCHED_* number, `cgroup` a path below the root, `autogroup` the number and nice
    value of the group of its session, 0 the root group's, which it may not be in (sessions.py); None: not in the
    snapshot.
    """

    tid: int
    tgid: int
    ppid: int
    comm: str
    allowed: str | None
    policy: int | None
    nice: int | None
    kthread: bool | None
    cgroup: str | None
    autogroup: tuple[int, int] | None
    when: str


@dataclass(frozen=True)
class Cgroup:
    """One cgroup of the cpu controller; ids are dense and parents come first. None: no limit, or not reported.

    `weight` is cpu.weight, 0 where cpu.idle is set, as kernels until 6.11 have it; cpu.shares of version 1, of which
    1024 are as much as a weight of 100, in its units: a whole number from 1 to 10,000, so `shares` has what they are.
    """

    cgroup_id: int
    path: str
    parent: int | None
    weight: int | None
    quota_ns: int | None
    period_ns: int | None
    cpuset: str | None
    shares: int | None = None


def escape(name: str) -> str:
    r"""Bytes that are not printable UTF-8, and the backslash, as `\xNN`."""
    out = []
    for char in name:
        if char.isprintable() and char != "\\":
            out.append(char)
        else:
            out.extend(f"\\x{b:02x}" for b in char.encode("utf-8", "surrogateescape"))
    return "".join(out)


def read_cgroups(files: Files) -> tuple[list[Cgroup], dict[int, str]]:
    """All cgroups (of version 2, or the cpu controller's of version 1), and the path of each thread's, by tid; by tgid
    where only processes are listed."""
    if not files.children(CGROUP_ROOT, directories=False):
        return [], {}
    found: list[Cgroup] = []
    member: dict[int, str] = {}
    pending: list[tuple[str, int | None]] = [("/", None)]
    while pending and len(found) < _MAX_CGROUPS:
        path, parent = pending.pop(0)
        at = CGROUP_ROOT + path.rstrip("/")
        quota, period = _cpu_max(files.line(f"{at}/cpu.max") or _cfs_limit(files, at))
        cpuset = files.line(f"{at}/cpuset.cpus.effective")
        weight, shares = (None, None) if parent is None else _weight(files, at)
        found.append(Cgroup(len(found), escape(path), parent, weight, quota, period, cpuset, shares))
        lists = (files.text(f"{at}/{name}") for name in ("cgroup.threads", "tasks", "cgroup.procs"))
        listed = next((text for text in lists if text), "")
        member.update((int(tid), found[-1].path) for tid in listed.split() if re.fullmatch(r"[0-9]{1,9}", tid))
        pending.extend(
            (f"{path.rstrip('/')}/{name}", found[-1].cgroup_id) for name in files.children(at, directories=True)
        )
    return found, member


def _weight(files: Files, at: str) -> tuple[int | None, int | None]:
    """And shares."""
    shares = files.number(f"{at}/cpu.shares")
    if files.number(f"{at}/cpu.idle") == 1:
        return 0, shares
    if shares is None:
        weight = files.number(f"{at}/cpu.weight")
        return (weight if weight is None or weight <= 10_000 else None), None
    shares = min(max(shares, 2), 1 << 18)  # as kernels do (MIN_SHARES, MAX_SHARES)
    return min(max(round(shares * 100 / 1024), 1), 10_000), shares


def _cfs_limit(files: Files, at: str) -> str:
    """As cpu.max has it."""
    quota, period = (files.line(f"{at}/cpu.cfs_{name}_us") or "" for name in ("quota", "period"))
    return f"{'max' if quota == '-1' else quota} {period}"


def _cpu_max(text: str | None) -> tuple[int | None, int | None]:
    """cpu.max is `quota period` in µs, quota may be `max`; no kernel has a period outside of 1 ms to 1 s."""
    match = re.fullmatch(r"(max|\d{1,15}) (\d{1,15})", text or "")
    if not match or not 1_000 <= int(match[2]) <= 1_000_000:
        return None, None
    return (None if match[1] == "max" else int(match[1]) * 1000), int(match[2]) * 1000


def read_threads(files: Files, cgroup_of: dict[int, str]) -> tuple[list[Thread], int]:
    """All threads of the three moments, and the number of lines that could not be read."""
    threads: list[Thread] = []
    bad = 0
    for when, path in (("main", "threads"), ("before", "before/threads"), ("after", "after/threads")):
        for line in (files.text(path) or "").split("\n"):
            if not line.strip():
                continue
            match = _THREAD.fullmatch(line.rstrip())
            if match and (thread := _thread(match, when, cgroup_of)):
                threads.append(thread)
            else:
                bad += 1
    return threads, bad


def _thread(match: re.Match[str], when: str, cgroup_of: dict[int, str]) -> Thread | None:
    """None: with a policy, a nice value or a list of CPUs that no thread has."""
    tgid, tid, ppid = int(match[2]), int(match[3]), int(match[4])
    rest = dict(w.partition("=")[::2] for w in match[5].split())

    def number(key: str) -> int | None:
        return int(rest[key]) if re.fullmatch(r"-?\d{1,18}", rest.get(key, "")) else None

    flags, policy, nice = number("flags"), number("policy"), number("nice")
    if (policy or 0) < 0 or not -20 <= (nice or 0) <= 19:
        return None
    try:
        allowed = _allowed(rest.get("Cpus_allowed_list", ""))
    except ValueError:
        return None
    return Thread(
        tid=tid, tgid=tgid, ppid=ppid, comm=_comm(match[1], flags or 0), allowed=allowed,
        policy=policy, nice=nice, kthread=None if flags is None else bool(flags & PF_KTHREAD),
        cgroup=cgroup_of.get(tid, cgroup_of.get(tgid)), autogroup=_autogroup(rest.get("autogroup", "")), when=when,
    )  # fmt: skip


@lru_cache(1024)
def _allowed(text: str) -> str | None:
    """Without strides, which no kernel prints. Raises ValueError."""
    return format_list(parse_list(text)) or None


def _autogroup(text: str) -> tuple[int, int] | None:
    match = re.fullmatch(r"(\d{1,18}):(-?\d{1,2})", text)
    return (int(match[1]), min(max(int(match[2]), -20), 19)) if match else None


def _comm(name: str, flags: int) -> str:
    """/proc shows a worker's queue and a kernel thread's full name; the events have neither."""
    # status escapes control characters and the backslash itself as octal or \n, \\.
    raw = re.sub(r"\\(n|\\|[0-7]{3})", lambda m: {"n": "\n", "\\": "\\"}.get(m[1]) or chr(int(m[1], 8) & 0x7F), name)
    if flags & PF_WQ_WORKER and (worker := _WORKER.match(raw)):
        raw = worker[1]
    return escape(raw.encode("utf-8", "surrogateescape")[:_COMM_BYTES].decode("utf-8", "surrogateescape"))


def read_features(files: Files) -> dict[str, bool]:
    """sched_features; `NO_X` means X is off."""
    words = (
        files.text("sys/kernel/debug/sched/features") or files.text("sys/kernel/debug/sched_features") or ""
    ).split()
    return {w.removeprefix("NO_"): not w.startswith("NO_") for w in words}


def read_sysctl(files: Files) -> dict[str, str]:
    """Scheduler settings: `kernel.NAME` as sysctl(8) has them, `debug.sched.NAME` from debugfs."""
    found: dict[str, str] = {}
    for folder, prefix in (
        ("proc/sys/kernel", "kernel"),
        ("sys/kernel/debug/sched", "debug.sched"),
        ("sys/kernel/debug/sched/numa_balancing", "debug.sched.numa_balancing"),
    ):
        for name in files.children(folder, directories=False):
            if name not in ("features", "debug") and (value := files.line(f"{folder}/{name}")) is not None:
                found[f"{prefix}.{name}"] = escape(value)
    return found


def read_clock(files: Files) -> str | None:
    """The clock in brackets of trace_clock."""
    match = re.search(r"\[([\w-]+)\]", files.text("trace_clock") or "")
    return match[1] if match else None


CLOCKS = ("local", "global", "perf", "mono")
"""Trace clocks of which read_clock_offset() knows."""


def read_clock_offset(files: Files, clock: str) -> int | None:
    """How far the scheduler's clock (sched_clock_cpu) is ahead of one of CLOCKS, ns; None: not in the snapshot.

    sched/debug reads both together. `local` is sched_clock, which lacks what is added to it where it counts as stable.
    """
    if clock in ("global", "perf"):
        return 0
    name = {"local": "sched_clk", "mono": "ktime"}[clock]
    text = files.text("sys/kernel/debug/sched/debug") or ""
    found = [re.search(rf"^{n}\s*:\s*(\d{{1,12}})\.(\d{{6}})$", text, re.MULTILINE) for n in ("cpu_clk", name)]
    times = [int(m[1] + m[2]) for m in found if m is not None]
    return times[0] - times[1] if len(times) == 2 else None


def read_uname(files: Files) -> tuple[str | None, str | None]:
    """(uname -a, kernel release)"""
    uname = files.line("uname")
    match = re.match(r"Linux \S+ (\S+) ", uname or "") or re.match(
        r"Linux version (\S+) ", files.line("proc/version") or ""
    )
    return (escape(uname) if uname else None), (escape(match[1]) if match else None)


def read_hz(files: Files) -> int | None:
    """CONFIG_HZ from two clocks of the same moment: jiffies (schedstat's timestamp) and seconds (uptime).

    jiffies start 300 s before they pass 2^32, so (jiffies - 2^32) / (uptime - 300 s) is HZ; None unless it is usual.
    """
    jiffies = re.search(r"^timestamp (\d{1,19})$", files.text("proc/schedstat") or "", re.MULTILINE)
    uptime = re.match(r"(\d{1,12}\.\d+) ", files.text("proc/uptime") or "")
    if not jiffies or not uptime or abs(float(uptime[1]) - 300) < 60:
        return None
    hz = (int(jiffies[1]) - (1 << 32)) / (float(uptime[1]) - 300)
    return next((usual for usual in (100, 250, 300, 1000) if abs(hz - usual) < usual * 0.02), None)
