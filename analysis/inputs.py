# SPDX-License-Identifier: GPL-2.0-or-later
"""The inputs of a decision: what each is, how much it can be trusted, and from which events it comes."""

from __future__ import annotations

from dataclasses import dataclass

from rewake.forms import INPUTS


@dataclass(frozen=True)
class Input:
    """One bit of INPUTS. `known` is the trust word where nothing had to be assumed, `assumed` where it had."""

    name: str
    meaning: str
    known: str
    assumed: str | None
    how: str


_ALL = (
    Input("sync", "WF_SYNC of the wakeup", "recorded", "modelled",
          "in no event: --assume sync=0|1, or sync=auto|causal, which infers it from other or earlier wakeups"),
    Input("allowed", "CPUs that the wakee may use", "recorded", "inferred",
          "snapshot of the tasks; without one every online CPU, kernel threads by their names"),
    Input("load", "loads of CPUs and tasks that wake_affine compares", "recorded", "modelled",
          "load averages from sched_switch, sched_waking, sched_wakeup, sched_migrate_task; unknown at the start"),
    Input("util", "utilisation of the wakee and its estimate", "recorded", "modelled",
          "PELT averages of sched_switch, sched_wakeup and sched_migrate_task; unknown at the start; no uclamp"),
    Input("flips", "how often waker and wakee changed partners (wake_wide, buddies)", "reconstructed", "inferred",
          "counted over all recorded wakeups; assumed for the first 2 s: what tasks began with that are older than the"
          " recording is inferred from other wakeups (--assume sync=0: 0), and no buddies"),
    Input("recent", "recent_used_cpu of the wakee", "reconstructed", "modelled",
          "the policy's own rule over all recorded wakeups; unknown at the start, so assumed for the first 2 s"),
    Input("has_idle_cores", "flag of an LLC: it may have an idle core", "recorded", "modelled",
          "set by sched_switch to idle, cleared by the policy's own failed searches"),
    Input("nr_idle_scan", "how many CPUs an idle scan may examine (SIS_UTIL, SIS_PROP)", "recorded", "modelled",
          "from how busy the LLC was at balancing intervals, and how far other searches came; SIS_PROP:"
          " from how long the waker's CPU idles, and what a scan costs, as other searches tell"),
    Input("cfs_nr", "entities on the root fair queue", "reconstructed", "modelled",
          "queued fair tasks; tasks of one cgroup count each"),
    Input("hot_clock", "age of the wakee's last run by the run queue's clock", "reconstructed", "modelled",
          "last event of its CPU; a busy CPU ticks"),
    Input("idle_policy", "which tasks have policy SCHED_IDLE", "recorded", "modelled",
          "snapshot of the tasks; without one none has"),
    Input("nr", "runnable tasks of a CPU", "reconstructed", None,
          "counted over sched_switch, sched_wakeup, sched_migrate_task and fork"),
    Input("capacity", "what a CPU has left for fair tasks", "recorded", "modelled",
          "cpu_capacity of the snapshot; real-time, interrupt and thermal pressure taken as none"),
    Input("domains", "scheduler domains, cores, LLCs and nodes", "recorded", "modelled",
          "snapshot of the machine; without one every CPU is its own core, LLC and node"),
    Input("irq_load", "share of interrupts in a CPU's ticks", "recorded", "modelled",
          "hardirq time between irq_handler and irq_vectors entry and exit, at modelled ticks"),
    Input("idle_state", "exit latency of an idle CPU's state", "reconstructed", "modelled",
          "cpu_idle with the latencies of the snapshot; without them the number of the state stands for its depth"),
)  # fmt: skip

_NEVER_KNOWN = frozenset(
    ("load", "util", "has_idle_cores", "nr_idle_scan", "cfs_nr", "hot_clock", "capacity", "irq_load")
)
"""Inputs that plain events never give; `known` is their word where something else did."""

BY_NAME = {i.name: i for i in _ALL}

ALWAYS = (
    Input("idle", "which CPUs are idle", "reconstructed", None,
          "sched_switch to the idle task, nothing queued, no wakeup on its way there"),
    Input("prev", "the wakee's CPU", "recorded", None, "target_cpu of sched_waking"),
    Input("waker", "CPU, task and context of the wakeup", "recorded", None, "the record of sched_waking"),
)  # fmt: skip
"""What every policy is given; no bit of INPUTS stands for it."""


def of(bits: int) -> list[Input]:
    """The inputs of a bit set, in the order of INPUTS."""
    return [BY_NAME[name] for k, name in enumerate(INPUTS) if bits >> k & 1]


def words(found: Input) -> str:
    """How a recording gives it: one trust word, or two where it depends on the recording."""
    if found.assumed is None:
        return found.known
    if found.name == "sync":
        return "modelled or inferred"
    return found.assumed if found.name in _NEVER_KNOWN else f"{found.known}, else {found.assumed}"


def trust(name: str, assumed: int, sync: str) -> str:
    """The trust word of an input in one decision: `assumed` is its inputs_assumed, `sync` the run's --assume sync."""
    found = BY_NAME[name]
    if not assumed >> INPUTS.index(name) & 1 or found.assumed is None:
        return found.known
    return "inferred" if name == "sync" and sync in ("auto", "causal") else found.assumed
