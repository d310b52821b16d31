# SPDX-License-Identifier: GPL-2.0-or-later
"""Typed probes on the kernel's placement function, by tracefs alone: what it was given, what it saw, what it chose.

Function probes with BTF-typed arguments (6.6+, CONFIG_FPROBE_EVENTS, /sys/kernel/btf/vmlinux). The shared state of the
wakee's LLC hangs below the LLC's domain, which is some levels above the lowest one of its run queue. A kernel that
cannot do it says why. The probes are removed whatever happens.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from rewake.collectors.capture.tracefs import Tracefs, put
from rewake.collectors.snapshot.domains import SHARE_LLC
from rewake.errors import RewakeError
from rewake.forms import Columns

FUNCTION = "select_task_rq_fair"
BTF = Path("/sys/kernel/btf/vmlinux")
NEED = "a kernel of 6.6 or later with CONFIG_FPROBE_EVENTS and CONFIG_DEBUG_INFO_BTF"

# Fields of probe select_in, as decode knows them: of the wakee, its run queue, and its LLC.
WAKEE = (
    f"f:rewake/select_in {FUNCTION} pid=p->pid prev=prev_cpu flags=wake_flags recent=p->recent_used_cpu"
    " flips=p->wakee_flips util=p->se.avg.util_avg load=p->se.avg.load_avg nallowed=p->nr_cpus_allowed"
)
LLC = " nis={0}->shared->nr_idle_scan hic={0}->shared->has_idle_cores"
QUEUE = " qload=p->se.cfs_rq->avg.load_avg qnr=p->se.cfs_rq->rq->nr_running"
OUT = f"f:rewake/select_out {FUNCTION}%return cpu=$retval"
DOMAIN = "p->se.cfs_rq->rq->sd"


@dataclass(frozen=True)
class Plan:
    """Lines for dynamic_events; or `reason`, why this kernel cannot, with a `remedy`."""

    definitions: tuple[str, ...]
    reason: str | None = None
    remedy: str = ""


def definitions(llc_level: int | None) -> tuple[str, str]:
    """The two probes. `llc_level`: of the LLC's domain above the lowest of a CPU; None: not the same on all CPUs, so
    the LLC's fields are left out."""
    return WAKEE + ("" if llc_level is None else LLC.format(DOMAIN + "->parent" * llc_level)) + QUEUE, OUT


def llc_level(domain: Columns) -> int | None:
    """Level of the highest domain that shares a cache, from the snapshot's table; None: CPUs differ, or have none."""
    top: dict[int, int] = {}
    for cpu, level, flags in zip(domain["cpu"], domain["level"], domain["flags"], strict=True):
        if not SHARE_LLC.isdisjoint(str(flags).split()):
            top[int(cpu)] = max(top.get(int(cpu), 0), int(level))
    levels = {top.get(int(cpu)) for cpu in domain["cpu"]}
    return levels.pop() if len(levels) == 1 else None


def examine(tracefs: Tracefs, level: int | None = 0, btf: Path = BTF) -> Plan:
    """Whether the kernel can, and with which definitions; nothing is changed. `level`: see `llc_level`."""
    readme = ""
    with suppress(OSError):
        readme = (tracefs.root / "README").read_text()
    if not (tracefs.root / "dynamic_events").exists():
        return Plan((), "the kernel has no dynamic events", NEED)
    # README lists the probe types of this very kernel; BTF-typed arguments show as `$arg*` and `->` in their syntax.
    if not re.search(r"\bf\[:", readme):
        return Plan((), "the kernel has no function probes (CONFIG_FPROBE_EVENTS)", NEED)
    if not btf.exists() or "->field" not in readme:
        return Plan((), "the kernel has no BTF types for probe arguments (CONFIG_DEBUG_INFO_BTF)", NEED)
    return Plan(definitions(level))


def require(plan: Plan) -> None:
    """RewakeError where the kernel cannot."""
    if plan.reason is not None:
        raise RewakeError(f"--probes: {plan.reason}: it needs {plan.remedy}")


@contextmanager
def installed(tracefs: Tracefs, plan: Plan) -> Iterator[Sequence[str]]:
    """The probes as events `rewake:select_in` and `rewake:select_out` meanwhile. Raises RewakeError with the kernel's
    own message when it refuses."""
    require(plan)
    file = tracefs.root / "dynamic_events"
    present = tidy(tracefs)
    if present:
        raise RewakeError(f"{file}: another recording uses {' '.join(present)}: wait for its end")
    try:
        for line in plan.definitions:
            _append(tracefs, file, line)
        yield [line.split()[0].partition(":")[2].replace("/", ":") for line in plan.definitions]
    finally:
        remove(tracefs)


def tidy(tracefs: Tracefs) -> list[str]:
    """Removes what a killed recording left; the names of those that stay. The kernel keeps those in use, but not those
    of a recording that only begins: its instance is there and not on yet."""
    return own(tracefs.root / "dynamic_events") if tracefs.beginning() else remove(tracefs)


def remove(tracefs: Tracefs) -> list[str]:
    """Removes the probes of rewake; the names of those that stay because somebody uses them."""
    file = tracefs.root / "dynamic_events"
    for name in own(file):
        with suppress(OSError):
            put(file, f"-:{name}\n", os.O_APPEND)
    return own(file)


def own(file: Path) -> list[str]:
    with suppress(OSError):
        return re.findall(r"^[a-z]\d*:(rewake/\w+) ", file.read_text(), re.MULTILINE)
    return []


def _append(tracefs: Tracefs, file: Path, line: str) -> None:
    try:
        put(file, line + "\n", os.O_APPEND)  # truncating it would remove everybody's probes
    except OSError as error:
        said = ""
        with suppress(OSError):
            log = (tracefs.root / "error_log").read_text().strip().splitlines()
            said = ": " + " ".join(" ".join(log[-3:]).split())
        raise RewakeError(f"--probes: the kernel refuses {line.split()[0]}: {error.strerror}{said}") from error
