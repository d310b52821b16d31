# SPDX-License-Identifier: GPL-2.0-or-later
"""Takes a snapshot of the running machine: copies of the files that `snapshot.load` reads, under their own paths.

A whole snapshot goes with the start of a recording, the moving parts once more just before and after it, into
`before/` and `after/`. What cannot be read is left out; the reader says what is missing.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from rewake.collectors.snapshot.domains import UNTIL_5_12
from rewake.collectors.snapshot.tasks import CGROUP_ROOT

SCHED = "sys/kernel/debug/sched"
TREES = (
    "sys/devices/system/cpu", "sys/devices/system/node", SCHED, "sys/kernel/sched_ext",
    "sys/devices/system/clocksource", UNTIL_5_12,
)  # fmt: skip
FILES = (
    "proc/cpuinfo", "proc/cmdline", "proc/version", "proc/meminfo", "sys/kernel/realtime",
    "sys/kernel/debug/sched_features", "proc/sys/kernel/numa_balancing", "proc/sys/kernel/timer_migration",
)  # fmt: skip
MOVING = ("proc/stat", "proc/schedstat", "proc/interrupts", "proc/softirqs", "proc/uptime", "proc/loadavg")
"""Read again at the end: counters whose difference says something about the recording."""
IRQ_FILES = ("smp_affinity_list", "effective_affinity_list")
CGROUP_FILES = (
    "cpu.weight",
    "cpu.idle",
    "cpu.max",
    "cpu.shares",
    "cpu.cfs_quota_us",
    "cpu.cfs_period_us",
    "cpuset.cpus.effective",
    "cgroup.threads",
    "tasks",
    "cgroup.procs",
    "cgroup.controllers",
)
SKIPPED = frozenset({"power", "uevent", "firmware_node", "crash_notes", "crash_notes_size", "microcode", "hotplug"})
VERBOSE = "sys/kernel/debug/sched/verbose"
"""Since 6.3 debugfs lists no domains until this says Y."""
SCHED_TRIES = 5

_STATUS = ("Name", "Tgid", "Pid", "PPid", "Cpus_allowed", "Cpus_allowed_list", "Mems_allowed_list")
# Fields of /proc/PID/stat by their number in proc(5).
_STAT = (("flags", 9), ("prio", 18), ("nice", 19), ("cpu", 39), ("rtprio", 40), ("policy", 41))
_AUTOGROUP = re.compile(rb"/autogroup-(\d+) nice (-?\d+)$", re.MULTILINE)
_MOST = 1 << 20
_PR_SCHED_CORE, _PR_SCHED_CORE_GET = 62, 0


def take(target: Path, root: Path = Path("/")) -> None:
    """Everything, into the directory `target`, which is made. `root`: where /sys and /proc are found."""
    for tree in TREES:
        if tree == SCHED:
            _copy_sched(root, target)
        else:
            _copy_tree(root, tree, target)
    for file in FILES:
        _copy(root, file, target)
    for folder, names in _walk(root / "proc/irq"):
        for name in names:
            if name in IRQ_FILES:
                _copy(root, str((folder / name).relative_to(root)), target)
    for name in _names(root / "proc/sys/kernel"):
        if name.startswith("sched_"):
            _copy(root, f"proc/sys/kernel/{name}", target)
    _copy_cgroups(root, target)
    uname = os.uname()
    _write(target / "uname", " ".join([*uname[:4], uname.machine, "GNU/Linux"]).encode() + b"\n")
    take_moving(target, root)


def take_moving(target: Path, root: Path = Path("/")) -> None:
    """The counters and the thread list, as they are now."""
    for file in MOVING:
        _copy(root, file, target)
    _write(target / "threads", b"".join(thread_lines(root / "proc")))
    if root == Path("/") and core_cookie(0) is not None:
        tids = (t for pid in _names(root / "proc") if pid.isdigit() for t in _names(root / "proc" / pid / "task"))
        _write(target / "core_cookies", b"%d\n" % sum(1 for t in tids if core_cookie(int(t))))


def thread_lines(proc: Path) -> Iterator[bytes]:
    """One line per thread: `Name=… Tgid=… Pid=… … flags=… policy=… autogroup=NUMBER:NICE`."""
    for pid in _names(proc):
        if not pid.isdigit():
            continue
        session = _read(proc / pid / "autogroup")  # empty: the root group's
        group = _AUTOGROUP.match(session or b"/autogroup-0 nice 0") if session is not None else None
        for tid in _names(proc / pid / "task"):
            status, stat = _read(proc / pid / "task" / tid / "status"), _read(proc / pid / "task" / tid / "stat")
            if status is None or stat is None:  # it has ended since
                continue
            said = dict(line.partition(b":")[::2] for line in status.split(b"\n"))
            words = [f"{k}=".encode() + said[k.encode()].strip() for k in _STATUS if k.encode() in said]
            # The name may hold blanks and brackets; what follows the last bracket are numbers, the state being field 3.
            rest = stat.rpartition(b")")[2].split()
            words += [f"{k}=".encode() + rest[n - 3] for k, n in _STAT if len(rest) > n - 3]
            words += [b"autogroup=%b:%b" % group.groups()] if group else []
            yield b" ".join(words) + b"\n"


@cache
def _prctl() -> Any:
    return ctypes.CDLL(None, use_errno=True).prctl


def core_cookie(tid: int) -> int | None:
    """The core-scheduling cookie of a thread, 0: the caller (5.14+); None: not supported, not allowed, ended."""
    value = ctypes.c_uint64(0)
    done = _prctl()(_PR_SCHED_CORE, _PR_SCHED_CORE_GET, tid, 0, ctypes.byref(value))
    return value.value if done == 0 else None


def _copy_sched(root: Path, target: Path) -> None:
    """Lets debugfs list the scheduler domains meanwhile. Another recording that began before us switches them off at
    its own time: then once more."""
    switch = root / VERBOSE
    for _ in range(SCHED_TRIES):
        found = (_read(switch) or b"").strip()
        switched = False
        with suppress(OSError):
            if found == b"N":
                switch.write_text("Y")
                switched = True
        try:
            _copy_tree(root, SCHED, target)
            listed = (_read(switch) or b"").strip() != b"N"
        finally:
            if switched:
                switch.write_text("N")
        if listed or (found == b"N" and not switched):
            return


def cpu_cgroups(root: Path = Path("/")) -> tuple[Path, int] | None:
    """Where cgroups are mounted that have the cpu controller, and their version, 1 or 2; None: nowhere."""
    for line in (_read(root / "proc/mounts") or b"").splitlines():
        words = line.split()
        if len(words) > 3 and words[2] in (b"cgroup", b"cgroup2"):
            where = root / os.fsdecode(words[1].decode("unicode_escape").encode("latin-1")).lstrip("/")
            version = 2 if words[2] == b"cgroup2" else 1
            has = (_read(where / "cgroup.controllers") or b"").split() if version == 2 else words[3].split(b",")
            if b"cpu" in has:
                return where, version
    return None


def _copy_cgroups(root: Path, target: Path) -> None:
    found = cpu_cgroups(root)
    if found is None:
        return
    top, _ = found
    for folder, names in _walk(top):
        for name in names:
            if name in CGROUP_FILES and (data := _read(folder / name)) is not None:
                _write(target / CGROUP_ROOT / folder.relative_to(top) / name, data)


def _walk(top: Path) -> Iterator[tuple[Path, list[str]]]:
    """Directories below `top` with the names of their files; symbolic links are not followed."""
    for folder, folders, names in os.walk(top):
        folders[:] = sorted(f for f in folders if f not in SKIPPED)
        yield Path(folder), sorted(n for n in names if n not in SKIPPED)


def _copy_tree(root: Path, tree: str, target: Path) -> None:
    for folder, names in _walk(root / tree):
        for name in names:
            file = folder / name
            with suppress(OSError):  # a CPU may go away meanwhile
                if not file.is_symlink() and file.stat().st_mode & 0o444:
                    _copy(root, str(file.relative_to(root)), target)


def _copy(root: Path, file: str, target: Path) -> None:
    if (data := _read(root / file)) is not None:
        _write(target / file, data)


def _read(file: Path) -> bytes | None:
    try:
        # Non-blocking: some files of the kernel wait for news.
        fd = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        parts = []
        while part := os.read(fd, _MOST):
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return None
    finally:
        os.close(fd)


def _write(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder), key=lambda n: (len(n), n))
    except OSError:
        return []
