# SPDX-License-Identifier: GPL-2.0-or-later
"""Plugins in charge: each is simulated by a process of its own (plugins.py), which tells of its windows in files."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import rewake.replay._engine as _engine
from rewake.forms import Recording
from rewake.replay import plugins
from rewake.replay.hints import Rules, TaskHints
from rewake.replay.settings import Settings
from rewake.replay.simulate import Arm, Simulator, Window, arms_of
from rewake.replay.spec import PolicySpec

_ROWS = "windows.jsonl"
_NULL = ".null"


@dataclass(frozen=True)
class Plan:
    """What the process is told beside the recording, so that its machine is that of the other policies."""

    spec: PolicySpec
    settings: Settings
    auto: PolicySpec | None
    windows: list[Window]
    hidden: float
    queues_wakeups: bool | None
    hints: Rules | None


@dataclass(frozen=True)
class Simulated:
    """How a plugin did. `arms`: its replicas; none where it failed."""

    about: plugins.About
    arms: list[Arm]
    folder: Path
    problems: list[str]

    def windows(self) -> Iterator[dict[str, Any]]:
        """As of Simulator.run(). Once: the files go."""
        if self.arms:
            with (self.folder / _ROWS).open(encoding="utf-8") as lines:
                for n, line in enumerate(lines):
                    yield json.loads(line) | {"woken": _read(self.folder / f"{n}.npz")}
        shutil.rmtree(self.folder)

    def manifest(self, name: str) -> dict[str, Any]:
        a = self.about
        return {
            "name": name, "path": a.path, "sha256": a.sha256, "version": a.version, "base": str(a.base),
            "problems": self.problems,
        }  # fmt: skip


def simulate(recording: Recording, simulator: Simulator, plan: Plan, folder: Path, timeout: float) -> Simulated:
    """Has the plugin in charge of `recording`, in `folder`, which is made. PluginError when it refuses."""
    about = plugins.describe(plan.spec.name, timeout)
    folder.mkdir()
    asked = folder / "asked"
    asked.write_bytes(pickle.dumps(plan))
    job = {
        "task": "simulate", **plugins.instance(plan.spec, timeout),
        "simulate": {"recording": str(recording.path.resolve()), "asked": str(asked), "folder": str(folder)},
    }  # fmt: skip
    told, failure = plugins.run_child(folder, job, timeout, str(plan.spec))
    if told is None:
        problems = [f"{failure} while it was in charge: nothing of it is shown"]
        return Simulated(about, [], folder, problems)
    problems = plugins.invalid_answers(tuple(told["invalid"]), "after which the wakee stayed at prev")
    return Simulated(about, _arms(simulator, plan), folder, problems)


def _arms(simulator: Simulator, plan: Plan) -> list[Arm]:
    return [arm for arm in arms_of(simulator, [plan.spec], plan.queues_wakeups) if arm.kind == "policy"]


def simulate_alone(source: _engine.PluginSource, *, recording: str, asked: str, folder: str) -> dict[str, Any]:
    """The other side of simulate(): one plugin in charge, its windows in files of `folder`."""
    opened = Recording(recording)
    plan: Plan = pickle.loads(Path(asked).read_bytes())
    simulator = Simulator(opened, plan.settings, plan.auto)
    simulator.hidden = plan.hidden
    arms = [replace(arm, spec=source) for arm in _arms(simulator, plan)]
    hints = None if plan.hints is None else TaskHints(opened, plan.hints)
    with (Path(folder) / _ROWS).open("w", encoding="utf-8") as rows:
        for n, result in enumerate(simulator.run(arms, plan.windows, hints=hints)):
            _write(Path(folder) / f"{n}.npz", result.pop("woken"))
            rows.write(json.dumps(result) + "\n")
    return {"invalid": list(source.invalid)}


def _write(file: Path, columns: Mapping[str, Any]) -> None:
    arrays = {}
    for name, column in columns.items():
        values, null = column if isinstance(column, tuple) else (column, None)
        arrays[name] = values
        if null is not None:
            arrays[name + _NULL] = null
    np.savez(file, **arrays)


def _read(file: Path) -> dict[str, Any]:
    with np.load(file, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return {
        name: (values, arrays[name + _NULL]) if name + _NULL in arrays else values
        for name, values in arrays.items()
        if not name.endswith(_NULL)
    }
