# SPDX-License-Identifier: GPL-2.0-or-later
"""The events of a recording, by name: never a whole subsystem, whose events differ from kernel to kernel."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from rewake.errors import UsageError

REQUIRED = ("sched:sched_switch", "sched:sched_wakeup")
"""Without these there is no decision; sched_waking is missing before 4.3 only."""

SCHED = (
    "sched:sched_switch", "sched:sched_waking", "sched:sched_wakeup", "sched:sched_wakeup_new",
    "sched:sched_migrate_task", "sched:sched_process_fork", "sched:sched_process_exec", "sched:sched_process_exit",
)  # fmt: skip
"""What every decision needs. The subset for machines with little memory."""

_VECTORS = ("local_timer", "reschedule", "call_function", "call_function_single", "irq_work")

ALL = (
    *SCHED,
    "irq:irq_handler_entry", "irq:irq_handler_exit",
    "irq:softirq_raise", "irq:softirq_entry", "irq:softirq_exit",
    *(f"irq_vectors:{v}_{edge}" for v in _VECTORS for edge in ("entry", "exit")),
    "ipi:ipi_raise", "ipi:ipi_send_cpu", "ipi:ipi_send_cpumask", "ipi:ipi_entry", "ipi:ipi_exit",
    "power:cpu_idle", "power:cpu_frequency",
    "sched:sched_move_numa", "sched:sched_swap_numa", "sched:sched_stick_numa",
    "sched:sched_pi_setprio",
    "syscalls:sys_enter_sched_setaffinity", "syscalls:sys_enter_sched_setscheduler",
    "syscalls:sys_enter_sched_setattr", "syscalls:sys_enter_sched_setparam", "syscalls:sys_enter_setpriority",
    "cgroup:cgroup_attach_task", "cgroup:cgroup_transfer_tasks",
    "cpuhp:cpuhp_enter", "cpuhp:cpuhp_exit",
    "task:task_rename",
    "timer:hrtimer_expire_entry",
)  # fmt: skip

NOT_FOR_PERF = frozenset({"irq_vectors:irq_work_entry", "irq_vectors:irq_work_exit"})
"""The kernel lets nobody sample the latter, for a sample may send an irq_work itself; the former alone is no use."""

SUBSETS = {"all": ALL, "sched": SCHED}


@dataclass(frozen=True)
class Choice:
    """`events` to record, in the order of the set; `absent`: those of the set that this kernel does not have."""

    events: tuple[str, ...]
    absent: tuple[str, ...]


def choose(available: Collection[str], subset: str = "all", tool: str = "trace-cmd") -> Choice:
    """The events of a subset that a kernel has and `tool` may record. Raises UsageError when one of REQUIRED is
    missing."""
    missing = [e for e in REQUIRED if e not in available]
    if missing:
        raise UsageError(f"this kernel has no event {' '.join(missing)}: it cannot be recorded for placement")
    wanted = [e for e in SUBSETS[subset] if tool != "perf" or e not in NOT_FOR_PERF]
    return Choice(tuple(e for e in wanted if e in available), tuple(e for e in wanted if e not in available))
