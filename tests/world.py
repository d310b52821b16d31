# SPDX-License-Identifier: GPL-2.0-or-later
"""Hand-made recordings for tests: a few events in words, given to the engine as batches of columns."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import strategies as st

from rewake.forms import ENUMS, EVENT_TABLES, INPUTS, values_of
from rewake.replay import _engine

DTYPES = {
    "BIGINT": np.int64, "INTEGER": np.int32, "SMALLINT": np.int16, "UTINYINT": np.uint8, "USMALLINT": np.uint16,
    "UINTEGER": np.uint32, "BOOLEAN": np.bool_, "VARCHAR": object,
}  # fmt: skip
DEFAULTS: dict[str, Any] = {
    "prev_prio": 120, "next_prio": 120, "prio": 120, "curr_task": 0, "irq_ctx": 0, "is_new": False, "prev_state": "S",
}  # fmt: skip

Batch = dict[str, dict[str, Any]]


class World:
    """Events in order of `ts` (ns); tasks 0..n_cpus-1 are the idle tasks."""

    def __init__(self, n_cpus: int, n_tasks: int, *, llcs: int = 1, smt: int = 1, masks: Sequence[str] = ()) -> None:
        self.n_cpus, self.n_tasks = n_cpus, n_tasks
        self.events: list[tuple[str, dict[str, Any]]] = []
        size = n_cpus // llcs
        cores = size // smt
        self.cpus, self.domains = [], []
        for c in range(n_cpus):
            llc = c // size
            core = llc * size + (c - llc * size) % cores
            self.cpus.append({"cpu": c, "core": core, "llc": llc * size, "node": 0, "capacity": 1024, "online": True})
            level = 0
            if smt > 1:
                span = ",".join(str(core + k * cores) for k in range(smt))
                self._domain(c, level, "SMT", span, "SD_SHARE_PKG_RESOURCES")
                level += 1
            if size > smt:
                self._domain(c, level, "MC", f"{llc * size}-{llc * size + size - 1}", "SD_SHARE_PKG_RESOURCES")
                level += 1
            if llcs > 1:
                self._domain(c, level, "PKG", f"0-{n_cpus - 1}", "")
        self.masks = [f"0-{n_cpus - 1}", *masks]
        self.groups: list[tuple[int, int, int, int]] = []
        false = np.zeros(n_tasks, np.bool_)
        self.tasks: dict[str, Any] = {
            "kthread": false.copy(), "observer": false.copy(), "stopper": false.copy(), "ext": false.copy(),
            "fair_policy": np.zeros(n_tasks, np.uint8), "allowed_recorded": ~false, "policy_recorded": ~false,
            "allowed": np.zeros(n_tasks, np.uint32), "cgroup": (np.zeros(n_tasks, np.uint32), ~false),
        }  # fmt: skip

    def _domain(self, cpu: int, level: int, name: str, span: str, flags: str) -> None:
        flags += " SD_WAKE_AFFINE SD_BALANCE_FORK SD_BALANCE_EXEC"
        self.domains.append(
            {"cpu": cpu, "level": level, "name": name, "span": span, "flags": flags.strip(), "imbalance_pct": 117}
        )

    def add(self, table: str, ts: int, cpu: int, **values: Any) -> World:
        self.events.append((table, {"ts_ns": ts, "cpu": cpu, **values}))
        return self

    def runs(self, ts: int, cpu: int, prev: int, next_: int, state: str = "S") -> World:
        """sched_switch on `cpu`."""
        return self.add("switch", ts, cpu, prev_task=prev, next_task=next_, prev_state=state)

    def waking(self, ts: int, cpu: int, task: int, prev: int, curr: int, ctx: str = "task", prio: int = 120) -> World:
        return self.add(
            "waking",
            ts,
            cpu,
            task=task,
            target_cpu=prev,
            curr_task=curr,
            irq_ctx=ENUMS["irq_ctx"].index(ctx),
            prio=prio,
        )

    def wakeup(
        self, ts: int, cpu: int, task: int, target: int, *, new: bool = False, curr: int = 0, prio: int = 120
    ) -> World:
        return self.add("wakeup", ts, cpu, task=task, target_cpu=target, is_new=new, curr_task=curr, prio=prio)

    def migrate(self, ts: int, cpu: int, task: int, orig: int, dest: int, curr: int = 0, ctx: str = "task") -> World:
        ctx_code = ENUMS["irq_ctx"].index(ctx)
        return self.add("migrate", ts, cpu, task=task, orig_cpu=orig, dest_cpu=dest, curr_task=curr, irq_ctx=ctx_code)

    def recorded(self) -> _engine.Recorded:
        return _engine.Recorded(self.cpus, self.domains, self.tasks, self.masks, self.groups)

    def batches(self, at: Sequence[int] = ()) -> list[Batch]:
        """The events as batches, cut at the event numbers `at`."""
        edges = [0, *at, len(self.events)]
        out: list[Batch] = []
        for low, high in pairwise(edges):
            tables: dict[str, list[dict[str, Any]]] = {}
            for number in range(low, high):
                table, row = self.events[number]
                tables.setdefault(table, []).append({"id": number, **row})
            out.append({table: self._columns(table, rows) for table, rows in tables.items()})
        return out

    @staticmethod
    def _columns(table: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        for column in EVENT_TABLES[table].columns:
            values = [row.get(column.name, DEFAULTS.get(column.name)) for row in rows]
            if column.enum == "prev_state":
                values = [ENUMS["prev_state"].index(v) for v in values]
            dtype = DTYPES[column.type]
            null = np.array([v is None for v in values])
            array = np.array([0 if v is None else v for v in values], dtype)
            columns[column.name] = (array, null) if column.nullable else array
        return columns

    @staticmethod
    def running(batches: list[Batch]) -> list[tuple[int, int]]:
        first: dict[int, tuple[int, int]] = {}
        for k, batch in enumerate(batches):
            switch = batch.get("switch", {"cpu": np.array([]), "prev_task": np.array([])})
            for cpu, task in zip(switch["cpu"].tolist(), switch["prev_task"].tolist(), strict=True):
                first.setdefault(cpu, (k, task))
        return [(cpu, task) for cpu, (k, task) in first.items() if k]

    def decisions(
        self, kernel: tuple[int, int] = (6, 1), at: Sequence[int] = (), *, has_waking: bool = True,
        wakeups: bool = True, has_migrate: bool = True, has_context: bool = True,
    ) -> Decisions:  # fmt: skip
        recorded = self.recorded()
        recorded.wakeups = wakeups
        batches = self.batches(at)
        running = self.running(batches)
        builder = _engine.DecisionBuilder(recorded, *kernel, has_waking, running, has_migrate, has_context)
        causes: list[str] = []
        parts: list[dict[str, Any]] = []

        def run(batch: Batch) -> None:
            causes.extend(ENUMS["migrate_cause"][c] for c in builder.run(batch))
            while (part := builder.take()) is not None:
                parts.append(part)

        for before, batch in zip([None, *batches], batches, strict=False):
            builder.scan(batch)
            if before is not None:
                run(before)
        run(batches[-1])
        builder.finish()
        while (part := builder.take()) is not None:
            parts.append(part)
        return Decisions(self, recorded, batches, parts, causes, builder.counts())


class Decisions:
    """Decision parts of a World, and what replays make of them."""

    def __init__(
        self,
        world: World,
        recorded: _engine.Recorded,
        batches: list[Batch],
        parts: list[dict[str, Any]],
        causes: list[str],
        counts: dict[str, Any],
    ) -> None:
        self.world, self.recorded, self.batches, self.parts = world, recorded, batches, parts
        self.causes, self.counts = causes, counts

    def rows(self) -> list[dict[str, Any]]:
        out = []
        for part in self.parts:
            columns = {name: values_of(column) for name, column in part.items()}
            for row in zip(*columns.values(), strict=True):
                named = dict(zip(columns, row, strict=True))
                named["class"] = ENUMS["decision_class"][named["class"]]
                named["kind"] = ENUMS["decision_kind"][named["kind"]]
                out.append(named)
        return out

    def replay(
        self,
        *policies: str | _engine.PolicySource,
        seed: int = 0,
        sync: bool = False,
        energy_aware: bool = False,
        shapes: Sequence[tuple[int, list[int], list[int], bool, bool]] = (),
        **latency: list[tuple[int, int]],
    ) -> Replayed:
        options = {
            "sync": sync, "hz": 250, "migration_cost": 500_000, "inferred": (1 << len(INPUTS)) - 1,
            "energy_aware": energy_aware, "shapes": list(shapes),
        }  # fmt: skip
        specs: list[Any] = []
        for policy in policies:
            if not isinstance(policy, str):
                specs.append(policy)
                continue
            name, _, tail = policy.partition(":")
            specs.append((name, dict(item.split("=") for item in tail.split(",") if tail)))
        loop = _engine.OpenLoop(
            self.recorded,
            specs,
            seed,
            options,
            latency.get("same_llc", []),
            latency.get("cross_llc", []),
            World.running(self.batches),
        )
        ledgers: list[list[dict[str, Any]]] = [[] for _ in policies]
        following = [*self.batches[1:], None]
        for batch, ahead, part in zip(self.batches, following, self.parts, strict=True):
            loop.run(batch, ahead, part)
            for k, rows in enumerate(ledgers):
                columns = {name: values_of(column) for name, column in loop.ledger(k).items()}
                rows.extend(dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        return Replayed(ledgers, loop.totals(), loop.recorded_buckets())


class Replayed:
    def __init__(self, ledgers: list[list[dict[str, Any]]], totals: list[dict[str, Any]], recorded: Any) -> None:
        self.ledgers, self.totals, self.recorded = ledgers, totals, recorded


@st.composite
def schedules(draw: st.DrawFn, execs: bool = False) -> World:
    """A valid schedule: tasks run, block, are woken, wait and move, as a kernel could have done it. With `execs` those
    that run may exec, where they are."""
    n_cpus, n = 4, 6
    w = World(n_cpus, n_cpus + n, llcs=2)
    curr = list(range(n_cpus))
    queue: list[list[int]] = [[] for _ in range(n_cpus)]
    home = {t: draw(st.integers(0, n_cpus - 1)) for t in range(n_cpus, n_cpus + n)}
    sleeping = set(home)
    ts = 1000
    for _ in range(draw(st.integers(1, 60))):
        ts += draw(st.integers(6000, 50000))
        cpu = draw(st.integers(0, n_cpus - 1))
        if sleeping and draw(st.booleans()):
            p = draw(st.sampled_from(sorted(sleeping)))
            chosen = draw(st.integers(0, n_cpus - 1))
            w.waking(ts, cpu, p, home[p], curr=curr[cpu])
            if chosen != home[p]:
                w.migrate(ts + 100, cpu, p, home[p], chosen, curr=curr[cpu])
            w.wakeup(ts + 200, chosen, p, chosen)
            home[p] = chosen
            sleeping.discard(p)
            queue[chosen].append(p)
        elif execs and curr[cpu] >= n_cpus and draw(st.booleans()):
            w.add("exec", ts, cpu, task=curr[cpu], filename="x")
        else:
            prev = curr[cpu]
            preempt = prev >= n_cpus and bool(queue[cpu]) and draw(st.booleans())
            if not queue[cpu] and prev < n_cpus:
                continue
            following = queue[cpu].pop(0) if queue[cpu] else cpu
            if preempt:
                queue[cpu].append(prev)
            elif prev >= n_cpus:
                sleeping.add(prev)
            w.runs(ts, cpu, prev, following, "R" if preempt or prev < n_cpus else "S")
            curr[cpu] = following
    return w
