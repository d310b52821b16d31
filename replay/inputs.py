# SPDX-License-Identifier: GPL-2.0-or-later
"""The inputs that the recorded kernel's own column had at each decision, and what its misses are due to."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rewake.forms import ENUMS, FAIR_CLASSES, Recording, with_null
from rewake.replay import _engine, order, probes
from rewake.replay.decisions import decisions_of
from rewake.replay.first_flips import FirstFlips
from rewake.replay.hints import Rules, TaskHints
from rewake.replay.loop import Loop
from rewake.replay.spec import PolicySpec
from rewake.replay.unseen import MODES

Array = npt.NDArray[Any]
CARRIED = {"recent_carried": "recent_cpu", "flips_carried": "flips"}
"""Inputs that tasks have from before the recording, as the rules carry them on from the value that was probed last:
what these miss is the rules' own error, and not that the first value is in no event. A task's first probed
value does not count: nothing was carried on to it."""


class Found(NamedTuple):
    """Columns over the fair class's own decisions."""

    model: dict[str, Array]
    """Inputs as reconstructed or inferred, named as in table `probe`; `sync`."""
    truth: dict[str, probes.Nullable]
    """The same as probed."""
    late: Array
    """The decision lies behind the warm-up."""
    warm_up_ns: int
    warm: dict[str, tuple[Array, Array]]
    """Of inputs that begin with what no event tells: their values once everything that they depend on is in the
    recording, and where it is. recent_cpu is so from the first recorded placement that sets it. flips is so where it
    was probed once, of the task or of an ancestor, and it is certain when it is halved next (engine/flips.hpp,
    KnownFlips): from there on by events and the rule alone."""
    classes: list[tuple[str, int, int]]
    """Class that the events alone give a wakeup, how many there are, how many of them reached placement."""
    inferred: frozenset[str]
    """Inputs that mostly are recorded, and were inferred in this recording: masks that changed in it."""


class Account(NamedTuple):
    """Columns over the fair class's own wakeups (engine/budget.hpp)."""

    agrees: Array
    stays: Array
    """The recorded CPU is the previous one."""
    branch: Array
    blame: dict[str, Array]
    decision: Array
    """decision_id."""


def fair(decisions: Any) -> Array:
    """Wakeups that are the fair class's own decisions."""
    codes = [ENUMS["decision_class"].index(name) for name in FAIR_CLASSES]
    kind = decisions["kind"] == ENUMS["decision_kind"].index("wake")
    out: Array = np.isin(decisions["class"], codes) & kind
    return out


def inputs(recording: Recording, column: PolicySpec, seed: int = 0) -> Found | None:
    """What `column` reads without probes beside what they recorded; None for a recording without probes."""
    truth = probes.truth(recording)
    if truth is None:
        return None
    events = Loop(recording, seed, use_probes=False)
    model, ours, ts, task = _logged(events, column, truth)
    carried = _logged(Loop(recording, seed), column, truth)[0]
    recent_known, flips_known, flips = (model.pop(name) for name in ("recent_known", "flips_known", "flips_warm"))
    warm = {"recent_cpu": (model["recent_cpu"][ours], recent_known[ours]), "flips": (flips[ours], flips_known[ours])}
    for name, source in CARRIED.items():
        values, null = truth[source]
        model[name], truth[name] = carried[source], (values, null | _first_of_each(task, ~null))
    span = int(ts[-1] - ts[0]) if len(ts) else 0
    warm_up = min(2_000_000_000, span // 4)
    flags, null = truth["wake_flags"]
    truth["sync"] = (flags & probes.WF_SYNC) > 0, null
    return Found(
        model={name: values[ours] for name, values in model.items()},
        truth={name: (truth[name][0][ours], truth[name][1][ours]) for name in model},
        late=(ts[ours] - ts[0]) >= warm_up if len(ts) else np.zeros(0, np.bool_),
        warm_up_ns=warm_up,
        warm=warm,
        classes=_classes(recording, ~truth["probe_id"][1]),
        inferred=frozenset() if events.masks is None else frozenset({"nallowed"}),
    )


def _first_of_each(task: Array, there: Array) -> Array:
    """Per decision: of those that are there, it is the first of its task."""
    out = np.zeros(len(task), np.bool_)
    rows = np.flatnonzero(there)
    out[rows[np.unique(task[rows], return_index=True)[1]]] = True
    return out


def _logged(
    loop: Loop, column: PolicySpec, truth: dict[str, probes.Nullable]
) -> tuple[dict[str, Array], Array, Array, Array]:
    """What `column` has at every decision just before it learns what was probed of it, which decisions are the fair
    class's own, their times and their tasks. A loop without probes still takes from `truth` what flips_warm begins
    with."""
    unseen = loop.infer(column)
    blind = loop.truth is None
    loop.truth = truth
    engine = loop.engine([column], False, column, unseen.first_flips, log_inputs=True, blind=blind)
    kept: dict[str, list[Array]] = {}
    times: list[Array] = []
    tasks: list[Array] = []
    population: list[Array] = []
    for _, decisions in loop.run([engine], bool(loop.about(column)["reads_irq"]), unseen):
        logged = engine.inputs()
        decided = logged.pop("decided")
        population.append(fair(decisions) & decided)
        times.append(np.asarray(decisions["ts_ns"]).copy())
        tasks.append(with_null(decisions["task"])[0].copy())
        for name, values in logged.items():
            kept.setdefault(name, []).append(values)
    model = {name: np.concatenate(parts) for name, parts in kept.items()}
    return model, np.concatenate(population), np.concatenate(times), np.concatenate(tasks)


def _classes(recording: Recording, called: Array) -> list[tuple[str, int, int]]:
    """What the events alone make of every wakeup, against the probes."""
    found = np.concatenate([part["class"] for part in decisions_of(recording, probe=False)])
    kind = np.concatenate([recording.read_part("decision", k, ("kind",))["kind"] for k in range(recording.n_parts)])
    wake = kind == ENUMS["decision_kind"].index("wake")
    out = []
    for code, name in enumerate(ENUMS["decision_class"]):
        here = wake & (found == code)
        if here.any():
            out.append((name, int(here.sum()), int((here & called).sum())))
    return out


def account(
    recording: Recording, column: PolicySpec, *, sync: str = "0", use_probes: bool = True, seed: int = 0,
    hints: Rules | None = None,
) -> Account:  # fmt: skip
    """Why `column` misses what it misses. `sync`, `use_probes`, `hints`: as for replay."""
    followed = None if hints is None else TaskHints(recording, hints)
    loop = Loop(recording, seed, use_probes=use_probes)
    unseen = loop.infer(column, sync) if sync in MODES else None
    loop.truth = probes.truth(recording)
    flips = (FirstFlips(),) if unseen is None else unseen.first_flips
    irq = bool(loop.about(column)["reads_irq"])

    def engine(**more: Any) -> _engine.OpenLoop:
        return loop.engine([column], sync == "1", column, flips, blind=not use_probes, **more)

    first = engine(log_flips=True)
    for _ in loop.run([first], irq, unseen, followed):
        pass
    second = engine()
    second.account(*first.flips(), order.WINDOW_NS)
    rows: list[tuple[Array, Array, Array, Array]] = []
    first_id = 0
    blames: dict[str, list[Array]] = {}
    for _, decisions in loop.run([second], irq, unseen, followed):
        known, undecided = second.ledger(0)["known"]
        ours = fair(decisions) & ~undecided
        chosen, prev = (with_null(decisions[name])[0] for name in ("chosen_cpu", "prev_cpu"))
        branch = second.ledger(0)["branch"][0]
        ids = first_id + np.flatnonzero(ours)
        first_id += len(ours)
        rows.append((known[ours].copy(), (chosen == prev)[ours], branch[ours].copy(), ids))
        for name, values in second.blames().items():
            blames.setdefault(name, []).append(values[ours])
    agrees, stays, branch, ids = (np.concatenate(column) for column in zip(*rows, strict=True))
    return Account(agrees, stays, branch, {name: np.concatenate(parts) for name, parts in blames.items()}, ids)
