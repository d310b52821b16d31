# SPDX-License-Identifier: GPL-2.0-or-later
"""Windows of small worlds, re-run by the closed loop at fixed costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from world import World

from rewake.forms import ENUMS
from rewake.replay import _engine

OPTIONS: dict[str, Any] = {"sync": False, "hz": 250, "migration_cost": 500_000, "inferred": 0, "major": 6, "minor": 1}
FIXED = {"path": [0, 1, 2, 3, 4], "relation": [0] * 5, "in_task": [True] * 5, "target": [0] * 5,
         "queue_ns": [1000, 1000, 0, 1000, 1000], "run_ns": [2000, 0, 2000, 2000, 2000],
         "leave_ns": [0] * 5}  # fmt: skip
TYPES = {"path": np.uint8, "relation": np.uint8, "in_task": np.bool_, "target": np.uint8, "queue_ns": np.int64,
         "run_ns": np.int64, "leave_ns": np.int64}  # fmt: skip
COSTS = {name: np.array(values, TYPES[name]) for name, values in FIXED.items()}


def interrupts(handlers: Sequence[tuple[int, int, int]], n_cpus: int = 4) -> _engine.Interrupts:
    columns = zip(*handlers, strict=True) if handlers else ((), (), ())
    types = {"cpu": np.uint16, "from_ns": np.int64, "to_ns": np.int64}
    given = {name: np.array(values, t) for (name, t), values in zip(types.items(), columns, strict=True)}
    return _engine.Interrupts(given, n_cpus)


def whole(world: World) -> tuple[int, int, int, int] | None:
    """The window of all that happens; None where nobody was ever switched."""
    switch = world.batches()[0].get("switch")
    if switch is None or not len(switch["ts_ns"]):
        return None
    last = int(max(switch["ts_ns"])) + 1_000
    return 0, 0, last, last + 1


def survey(
    world: World,
    kernel: tuple[int, int] = (6, 1),
    mask_changes: Sequence[tuple[int, int, int]] = (),
    processes: Sequence[int] = (),
) -> dict[str, Any]:
    """What only the recording can tell a simulation. `mask_changes`: as simulate(); `processes`: by task."""
    batches, none = world.batches(), interrupts((), world.n_cpus)
    options = OPTIONS | {"major": kernel[0], "minor": kernel[1]}
    loop = _engine.ClosedLoop(
        world.recorded(), [], 0, options, [], [], [_engine.Costs(COSTS)], none, world.running(batches), 1
    )
    loop.change_masks(mask_changes)
    loop.processes(processes)
    loop.run(batches[0], world.decisions().parts[0])
    found: dict[str, Any] = loop.survey()
    return found


def simulate(
    world: World,
    window: tuple[int, int, int, int],
    *policies: str | tuple[str, dict[str, str]],
    threads: int = 1,
    handlers: Sequence[tuple[int, int, int]] = (),
    kernel: tuple[int, int] = (6, 1),
    costs: dict[str, Any] = COSTS,
    mask_changes: Sequence[tuple[int, int, int]] = (),
    phases: Sequence[int] = (),
    told: dict[str, Any] | None = None,
    options: dict[str, Any] | None = None,
    **arm: Any,
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Windows of all arms, and the script; a policy called "pinned" forces what was recorded. `handlers`: cpu, from,
    to; `mask_changes`: when, task, number of the mask; `phases`: when periods begin, by group; `told`: columns that all
    decisions share; `options`: of the engine."""
    batches, decisions = world.batches(), world.decisions()
    if "migrate" in batches[0]:  # as import tells them
        causes = np.array([ENUMS["migrate_cause"].index(c) for c in decisions.causes], np.uint8)
        batches[0]["migrate"]["cause"] = (causes, np.zeros(len(causes), np.bool_))
    arms = [{"pinned": p == "pinned", "balance": "forced" if p == "pinned" else "off", "own_luck": False} | arm
            for p in policies]  # fmt: skip
    specs = [None if p == "pinned" else (p, {}) if isinstance(p, str) else p for p in policies]
    loop = _engine.ClosedLoop(
        world.recorded(),
        specs,
        0,
        OPTIONS | {"major": kernel[0], "minor": kernel[1]} | (options or {}),
        arms,
        [(*window, 0)],
        [_engine.Costs(costs)],
        interrupts(handlers, world.n_cpus),
        world.running(batches),
        threads,
    )
    if phases:
        none = np.zeros(0, np.int64)
        loop.begin_with(none, np.array(phases, np.int64), none)
    loop.keep_scripts()
    loop.change_masks(mask_changes)
    part = decisions.parts[0]
    n = len(part["event_id"])
    loop.run(batches[0], part | {name: np.full(n, value) for name, value in (told or {}).items()})
    loop.finish()
    return loop.take(), loop.scripts()[0]
