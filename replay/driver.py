# SPDX-License-Identifier: GPL-2.0-or-later
"""Open-loop replay: every recorded decision re-decided under each policy, in one pass."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import rewake.replay._engine as _engine
from rewake.errors import UsageError
from rewake.forms import ENUMS, Columns, Recording, RunWriter
from rewake.replay import plugins
from rewake.replay.first_flips import FirstFlips
from rewake.replay.hints import HINTS, PROPOSED, Rules, TaskHints, check_followed
from rewake.replay.loop import Loop
from rewake.replay.recorded import rows_of
from rewake.replay.spec import PolicySpec
from rewake.replay.unseen import MODES, Unseen


def label(spec: PolicySpec, about: Mapping[str, Any], hints: int = 0) -> str:
    """What an instance stands for: reference, proposal (it follows a hint that no patch implements), hybrid (a seed on
    a column that is not its own), variant (a constant changed) or faithful (the kernel or the posting as it is)."""
    if about["reference"]:
        return "reference"
    followed = (hints | int(spec.params.get("hint", 0))) & int(about["hints"])
    if any(followed & HINTS[name] for name in PROPOSED):
        return "proposal"
    if about["hybrid"]:
        return "hybrid"
    fixed = {p["name"]: p["value"] for p in about["params"] if p["constant"]}
    return "variant" if any(spec.params.get(name, value) != value for name, value in fixed.items()) else "faithful"


def machine_notes(recording: Recording, specs: Sequence[PolicySpec], hints: int = 0) -> list[str]:
    """What these policies cannot show on this machine; `hints`: of a rules file."""
    cpus = rows_of(recording.read("cpu", ("core", "capacity")))
    cores = [c["core"] for c in cpus if c["core"] is not None]
    seeds = {s.name: hints | int(s.params.get("hint", 0)) for s in specs}
    notes = []
    if seeds.get("userspace-hints", 0) & (HINTS["WAKE_AFFINE"] | HINTS["WAKE_HOLD"]) and len(set(cores)) == len(cores):
        notes.append(
            "no SMT: has_idle_cores is never set here, and without it no kernel follows WAKE_AFFINE or WAKE_HOLD"
        )
    if "asym-prefer-prev" in seeds and len({c["capacity"] for c in cpus}) == 1:
        notes.append("all CPUs have one capacity: asym-prefer-prev decides as its column")
    return notes


def hardirq_source(events: Mapping[str, int]) -> str:
    """Where the hardirq time of this recording comes from; `events`: the manifest's counts by event name."""
    vectors = [k for k in ENUMS["irq_kind"] if k != "device" and events.get(f"{k}_entry")]
    if events.get("irq_handler_entry"):
        if vectors:
            return "device handlers (irq_handler_entry, exit) and irq_vectors"
        return "device handlers only, a lower bound: no timer and no IPIs; record irq_vectors too"
    if vectors:
        return "irq_vectors only, a lower bound: no device interrupts; record irq:irq_handler_entry and exit too"
    return "none recorded, so no CPU is heavy; record irq:irq_handler_entry, irq_handler_exit and irq_vectors"


_Bucket = tuple[str, str, int | None, int]
"""A row of the table `bucket`."""


def _buckets(policy: str, metric: str, pairs: list[tuple[int | None, int]]) -> list[_Bucket]:
    return [(policy, metric, bucket, n) for bucket, n in pairs]


def _bucket_columns(rows: Sequence[_Bucket]) -> Columns:
    buckets = [bucket for _, _, bucket, _ in rows]
    return {
        "policy": np.array([policy for policy, _, _, _ in rows], object),
        "metric": np.array([metric for _, metric, _, _ in rows], object),
        "bucket": (
            np.array([0 if b is None else b for b in buckets], np.int32),
            np.array([b is None for b in buckets], np.bool_),
        ),
        "n": np.array([n for _, _, _, n in rows], np.int64),
    }


def _entry(spec: PolicySpec, about: Mapping[str, Any], total: Mapping[str, Any], hints: int) -> dict[str, Any]:
    """What the manifest says of a policy; `total`: of OpenLoop.totals()."""
    decided = total["decided"]
    return {
        "name": str(spec),
        "base": spec.name,
        "column": spec.column,
        "params": spec.params,
        "label": "plugin" if spec.is_plugin else label(spec, about, hints),
        "reference": about["reference"],
        "decided": decided,
        "exposure": total["exposed"] / decided if decided else None,
        "self_collision": total["self_collision"],
        "by_energy": total["by_energy"],
        "branches": list(_engine.BRANCHES),
    }


def decide_alone(source: _engine.PolicySource, *, recording: str, asked: str, irq: bool) -> None:
    """Runs one policy over a recording, for the sake of what it does on the way (plugins). `asked`: file of what
    _ask_plugins pickled."""
    opened = Recording(recording)
    (seed, sync, auto, use_probes), unseen, hints = pickle.loads(Path(asked).read_bytes())
    loop = Loop(opened, seed, use_probes=use_probes)
    column = [] if auto is None else [auto]  # its decisions are part of the state
    engine = loop.engine([source, *column], sync, auto, (FirstFlips(),) if unseen is None else unseen.first_flips)
    for _ in loop.run([engine], irq, unseen, None if hints is None else TaskHints(opened, hints)):
        pass


def _ask_plugins(
    recording: Recording,
    specs: Sequence[PolicySpec],
    folder: Path,
    settings: tuple[int, bool, PolicySpec | None, bool],
    unseen: Unseen | None,
    hints: Rules | None,
    timeout: float,
) -> dict[str, plugins.Answered]:
    """The answers of the plugins among `specs`, by instance; `settings`: seed, WF_SYNC, auto, use_probes."""
    wanted = [s for s in specs if s.is_plugin]
    if not wanted:
        return {}
    asked = folder / "asked"
    asked.write_bytes(pickle.dumps((settings, unseen, hints)))
    answered = {}
    for k, spec in enumerate(wanted):
        told = {
            "recording": str(recording.path.resolve()), "asked": str(asked),
            "irq": plugins.describe(spec.name).info()["reads_irq"],
        }  # fmt: skip
        answered[str(spec)] = plugins.decide(spec, told, recording.rows("decision"), folder / f"plugin-{k}", timeout)
    asked.unlink()
    return answered


def replay(
    recording: Recording,
    specs: Sequence[PolicySpec],
    writer: RunWriter,
    *,
    seed: int = 0,
    sync: str = "0",
    auto: PolicySpec | None = None,
    plugin_timeout: float = plugins.DEFAULT_TIMEOUT,
    use_probes: bool = True,
    hints: Rules | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any]:
    """Re-decides every decision of `recording` under each policy, in one pass.

    Fills `writer` (ledgers, buckets, manifest). `auto` is the instance that stands for the recorded kernel; `sync` is
    WF_SYNC of all wakeups, "0" or "1", or "auto" or "causal" to infer it and more (unseen.py), which needs `auto`;
    `use_probes`: what placement probes recorded goes before all of that; `hints` are for the policies that follow them.
    Returns the manifest entries. UsageError for an unknown policy or parameter, and for hints that none of the policies
    follows, or one of them cannot. A plugin that fails, or that does not answer a call within `plugin_timeout` seconds,
    leaves its other decisions undecided; `problems` of its manifest entry then says so.
    """
    names = [str(s) for s in specs]
    if len(set(names)) != len(names):
        raise UsageError("a policy instance is given twice")
    loop = Loop(recording, seed, use_probes=use_probes)
    info = [loop.about(spec) for spec in specs]
    if sync in MODES and auto is None:
        raise UsageError(f"--assume sync={sync} needs the recorded kernel's own column, and there is none")
    if sync in MODES and auto is not None and auto.is_plugin:
        raise UsageError(f"--assume sync={sync} asks a column of rewake's own, and {auto} is a plugin")
    if hints is not None:
        check_followed(hints, [(str(s), int(about["hints"])) for s, about in zip(specs, info, strict=True)])
    given = None if hints is None else TaskHints(recording, hints)
    loop.engine([spec for spec in specs if not spec.is_plugin], False)  # a wrong parameter is told at once
    unseen = loop.infer(auto, sync) if sync in MODES and auto is not None else None
    own = None if auto is None or auto.is_plugin or auto not in specs else auto
    settings = seed, sync == "1", own, use_probes
    answered = _ask_plugins(recording, specs, writer.part, settings, unseen, hints, plugin_timeout)
    engine = loop.engine(
        [answered[s].source if s in answered else spec for s, spec in zip(names, specs, strict=True)],
        sync == "1", auto, (FirstFlips(),) if unseen is None else unseen.first_flips,
    )  # fmt: skip
    reads_irq = any(about["reads_irq"] for about in info)
    for k, _ in loop.run([engine], reads_irq, unseen, given):
        for i, name in enumerate(names):
            writer.write_ledger(name, k, engine.ledger(i))
        if progress is not None:
            progress(k + 1, recording.n_parts)
    used = 0 if hints is None else hints.used
    buckets = _buckets("recorded", "recorded", engine.recorded_buckets())
    policies = []
    for spec, name, about, total in zip(specs, names, info, engine.totals(), strict=True):
        policies.append(_entry(spec, about, total, used) | (answered[name].manifest() if name in answered else {}))
        buckets += _buckets(name, "lo", total["lo"]) + _buckets(name, "hi", total["hi"])
    writer.write("bucket", _bucket_columns(buckets))
    summary: dict[str, Any] = {
        "policies": policies,
        "seed": seed,
        "sync": sync,
        "first_flips": None if unseen is None else list(unseen.first_flips),
        "sync_share": float(unseen.sync.mean()) if unseen is not None and len(unseen.sync) else None,
        "sync_unknown": float(1 - unseen.told.mean()) if unseen is not None and len(unseen.told) else None,
        "turned": None if unseen is None or unseen.turned is None else int(unseen.turned.sum()),
        "auto": None if auto is None else str(auto),
        "probed": None if loop.truth is None else int((~loop.truth["probe_id"][1]).sum()),
        "hints": None if given is None else given.summary(),
        "notes": machine_notes(recording, specs, used),
        "hardirq": hardirq_source(recording.manifest.get("events") or {}) if reads_irq else None,
        "options": loop.options,
    }
    writer.manifest |= summary
    return summary
