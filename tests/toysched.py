# SPDX-License-Identifier: GPL-2.0-or-later
"""A plausible scheduler trace of any length, as columns for tracedat.write: the record of a toy scheduler, repeated."""

from __future__ import annotations

import heapq
import random
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


class _Machinery:
    """A toy scheduler: tasks sleep, are woken by interrupts or by each other, are placed, queue, run, sleep or are
    preempted; some fork short-lived children. It starts and ends with everything asleep, so its record can repeat.

    `causal`: no CPU wakes a task at random. Tasks with an even number sleep until a timer ends on the CPU on which they
    slept; each wakes the odd one behind it whenever that is asleep, then sleeps itself. A simulation can re-run that.
    """

    def __init__(self, n_cpus: int, n_tasks: int, rng: random.Random, extras: bool, causal: bool = False) -> None:
        self.rng, self.extras, self.causal = rng, extras, causal
        self.n_cpus = n_cpus
        self.last = [0] * n_cpus
        self.emitted = 0
        self.curr = [0] * n_cpus
        self.queue: list[list[int]] = [[] for _ in range(n_cpus)]
        self.cpu_of = {1000 + i: i % n_cpus for i in range(n_tasks)}
        self.prio = {pid: 120 if pid % 16 else 98 for pid in self.cpu_of}
        self.mortal: set[int] = set()
        self.next_pid = 1000 + n_tasks
        self.heap: list[tuple[int, int, int, int]] = []  # (time, kind, cpu, pid); kind 0: wake, 1: end of a run
        self.rows: dict[str, list[tuple[Any, ...]]] = {}
        self.asleep = set(self.cpu_of)
        for pid in self.cpu_of:
            if not causal or pid % 2 == 0:
                heapq.heappush(self.heap, (rng.randrange(1_000_000), 0, 0, pid))

    def comm(self, pid: int, cpu: int) -> str:
        return f"swapper/{cpu}" if pid == 0 else f"worker-{pid % 97}"

    def emit(self, cpu: int, t: int, event: str, irq: bool, *values: Any) -> int:
        self.last[cpu] = t = max(t, self.last[cpu] + 150)
        self.emitted += 1
        self.rows.setdefault(event, []).append((t, cpu, self.curr[cpu], 0x08 if irq else 0, *values))
        return t

    def switch(self, cpu: int, t: int, state: int) -> None:
        prev = self.curr[cpu]
        queue = self.queue[cpu]
        nxt = queue.pop(0) if queue else 0
        if self.extras and prev == 0:
            t = self.emit(cpu, t, "cpu_idle", False, 0xFFFFFFFF, cpu)
        names = self.comm(prev, cpu), self.comm(nxt, cpu)
        t = self.emit(
            cpu,
            t,
            "sched_switch",
            False,
            names[0],
            prev,
            self.prio.get(prev, 120),
            state,
            names[1],
            nxt,
            self.prio.get(nxt, 120),
        )
        self.curr[cpu] = nxt
        if nxt:
            self.cpu_of[nxt] = cpu
            heapq.heappush(self.heap, (t + self.rng.randrange(5_000, 200_000), 1, cpu, nxt))
        elif self.extras:
            self.emit(cpu, t + 500, "cpu_idle", False, self.rng.randrange(3), cpu)

    def enqueue(self, cpu: int, t: int, pid: int) -> None:
        self.queue[cpu].append(pid)
        if self.curr[cpu] == 0:
            self.switch(cpu, t + 800, 0)

    def wake(self, t: int, pid: int, by: int | None = None) -> None:
        """`by`: the CPU whose task wakes it; else an interrupt does, or whoever runs on a random CPU."""
        prev = self.cpu_of[pid]
        self.asleep.discard(pid)
        cpu = by if by is not None else prev if self.causal else self.rng.randrange(self.n_cpus)
        irq = by is None and (self.causal or self.curr[cpu] == 0)
        if irq and self.extras:
            t = self.emit(cpu, t, "local_timer_entry", True, 236)
        if self.curr[prev] == 0 or self.rng.random() < 0.3:
            dest = prev
        else:
            start = self.rng.randrange(self.n_cpus)
            ring = [(start + i) % self.n_cpus for i in range(min(self.n_cpus, 8))]
            dest = next((c for c in ring if self.curr[c] == 0), prev)
        who = self.comm(pid, 0), pid, self.prio[pid]
        t = self.emit(cpu, max(t, self.last[dest]), "sched_waking", irq, *who, prev)
        if dest != prev:
            t = self.emit(cpu, t, "sched_migrate_task", irq, *who, prev, dest)
        t = self.emit(cpu, t, "sched_wakeup", irq, *who, dest)
        if irq and self.extras:
            self.emit(cpu, t, "local_timer_exit", True, 236)
            self.emit(cpu, t, "softirq_raise", True, 1)
            self.emit(cpu, t, "softirq_entry", False, 1)
            self.emit(cpu, t, "softirq_exit", False, 1)
        self.enqueue(dest, t, pid)

    def fork(self, t: int, cpu: int, parent: int) -> None:
        child = self.next_pid
        self.next_pid += 1
        self.mortal.add(child)
        self.cpu_of[child], self.prio[child] = cpu, 120
        t = self.emit(cpu, t, "sched_process_fork", False, self.comm(parent, 0), parent, self.comm(child, 0), child)
        dest = self.rng.randrange(self.n_cpus)
        t = self.emit(cpu, max(t, self.last[dest]), "sched_wakeup_new", False, self.comm(child, 0), child, 120, dest)
        self.enqueue(dest, t, child)

    def run(self, events: int) -> None:
        """Until about `events` are there, then until all sleep."""
        while self.heap:
            more = self.emitted < events
            t, kind, cpu, pid = heapq.heappop(self.heap)
            if kind == 0:
                if more:
                    self.wake(t, pid)
                continue
            if self.curr[cpu] != pid:
                continue
            if pid in self.mortal:
                self.emit(cpu, t, "sched_process_exit", False, self.comm(pid, 0), pid, 120)
                self.switch(cpu, t, 0x10)
                continue
            if self.extras and more and self.rng.random() < 0.01:
                self.fork(t, cpu, pid)
            if self.queue[cpu] and self.rng.random() < 0.4:
                self.queue[cpu].append(pid)
                self.switch(cpu, t, 0x100)
            else:
                if self.causal and pid % 2 == 0 and pid + 1 in self.asleep:
                    self.wake(t, pid + 1, cpu)
                if not self.causal or pid % 2 == 0:
                    heapq.heappush(self.heap, (t + self.rng.randrange(20_000, 400_000), 0, 0, pid))
                self.asleep.add(pid)
                self.switch(cpu, t, 1)


_FIELDS = {
    "sched_switch": "prev_comm prev_pid prev_prio prev_state next_comm next_pid next_prio",
    "sched_waking": "comm pid prio target_cpu", "sched_wakeup": "comm pid prio target_cpu",
    "sched_wakeup_new": "comm pid prio target_cpu", "sched_migrate_task": "comm pid prio orig_cpu dest_cpu",
    "sched_process_fork": "parent_comm parent_pid child_comm child_pid", "sched_process_exit": "comm pid prio",
    "local_timer_entry": "vector", "local_timer_exit": "vector", "cpu_idle": "state cpu_id",
    "softirq_raise": "vec", "softirq_entry": "vec", "softirq_exit": "vec",
}  # fmt: skip


def schedule(
    events: int,
    cpus: int,
    *,
    tasks: int | None = None,
    seed: int = 1,
    extras: bool = True,
    causal: bool = False,
    block: int = 40_000,
) -> dict[str, dict[str, Array]]:
    """About `events` events of a plausible scheduler trace as columns for tracedat.write: what a toy scheduler did,
    at least `block` events of it, repeated. `extras`: forks, exits, timer and soft interrupts, idle states. `causal`:
    every wakeup has a reason.
    """
    toy = _Machinery(cpus, tasks or 3 * cpus, random.Random(seed), extras, causal)
    toy.run(min(events, max(block, 100 * cpus)))
    have = sum(map(len, toy.rows.values()))
    repeat = max(1, round(events / have))
    period = max(toy.last) + 1_000_000
    out: dict[str, dict[str, Array]] = {}
    for event, rows in toy.rows.items():
        names = ["ts", "cpu", "common_pid", "common_flags", *_FIELDS[event].split()]
        one = {
            n: np.array(v, "S16" if n.endswith("comm") else np.int64)
            for n, v in zip(names, zip(*rows, strict=True), strict=True)
        }
        out[event] = {n: np.tile(v, repeat) for n, v in one.items()}
        out[event]["ts"] = out[event]["ts"] + np.repeat(np.arange(repeat) * period, len(rows)) + 1_000_000_000
    return out
