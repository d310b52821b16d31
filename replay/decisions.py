# SPDX-License-Identifier: GPL-2.0-or-later
"""Drives the engine's model over the events: decision records at import.

Reads the event tables part by part and looks one part ahead, so memory does not grow with the recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import rewake.replay._engine as _engine
from rewake.forms import ENUMS, Columns, RecordingWriter, kernel_version, with_null
from rewake.replay.recorded import (
    Source,
    batch,
    recorded_machine,
    running,
    unrecorded_cpus,
    unswitched,
    with_next,
)


def _decisions(source: Source, *, probe: bool) -> Iterator[tuple[_engine.DecisionBuilder, Any, list[Columns]]]:
    """Per part of the events and once at the end: the builder, causes of the part's migrations, finished parts."""
    major, minor = kernel_version(source.manifest.get("kernel"))
    parts = source.n_parts
    has_waking = any(len(source.read_part("waking", k, ("id",))["id"]) for k in range(min(parts, 2)))
    recorded, _ = recorded_machine(source)
    at_start = running(source, recorded.n_cpus)
    has_migrate = bool((source.manifest.get("events") or {}).get("sched_migrate_task"))
    has_context = source.manifest.get("contexts", True)
    builder = _engine.DecisionBuilder(recorded, major, minor, has_waking, at_start, has_migrate, has_context)
    if window := source.manifest.get("window"):
        builder.count_resyncs(window["begin_ns"], window["end_ns"])

    def finished() -> list[Columns]:
        return list(iter(builder.take, None))

    def scanned(index: int) -> dict[str, Columns]:
        part = batch(source, index, probe=probe)
        builder.scan(part)
        return part

    for part, _ in with_next(scanned(i) for i in range(parts)):
        causes = builder.run(part)
        yield builder, causes, finished()
    builder.finish()
    yield builder, (), finished()


def decisions_of(source: Source, *, probe: bool = True) -> Iterator[Columns]:
    """The `decision` table's parts, worked out from the events; `probe`: and from the placement probes."""
    for _, _, parts in _decisions(source, probe=probe):
        yield from parts


def build_decisions(writer: RecordingWriter, progress: Callable[[int, int], None] | None = None) -> None:
    """Writes the `decision` table and `migrate.cause` of a recording whose other tables are written.

    The manifest gets `replay`: counts of switches, resync, unseen, throttled, conflicts, prev_mismatch, late,
    skipped_events, and of `silent`, decisions made while a CPU was silent that may not have been recorded then; and
    `unswitched`, the CPUs whose switches are missing.
    """
    written = silent = 0
    partial = _partial_llcs(writer)
    window = writer.manifest.get("window")
    silences = writer.manifest.get("silences") or ()
    n_parts = writer.n_parts
    missing = unswitched(writer, 1 + int(np.max(writer.read("cpu", ("cpu",))["cpu"])))
    for k, (builder, causes, parts) in enumerate(_decisions(writer, probe=True)):
        if len(causes):
            migrate = writer.read_part("migrate", k)
            writer.write_part("migrate", k, {**migrate, "cause": causes})
        for part in parts:
            silent += _during(part, silences)
            writer.write_part("decision", written, _excluded(part, partial, window))
            written += 1
        if progress is not None and k < n_parts:
            progress(k + 1, n_parts)
        writer.manifest["replay"] = {**builder.counts(), "silent": silent, "unswitched": missing}


def _partial_llcs(writer: RecordingWriter) -> npt.NDArray[np.bool_] | None:
    """Per CPU whether its LLC was not recorded whole, an unknown LLC among them; None: everything was recorded."""
    left_out = unrecorded_cpus(writer)
    if not left_out:
        return None
    table = writer.read("cpu", ("cpu", "llc"))
    cpu, (llc, unknown) = np.asarray(table["cpu"]), with_null(table["llc"])
    partial = unknown | np.isin(llc, llc[np.isin(cpu, list(left_out))])
    found = np.ones(int(cpu.max()) + 1, np.bool_)
    found[cpu] = partial
    return found


def _during(part: Columns, silences: Sequence[Mapping[str, Any]]) -> int:
    """Decisions before a stream that perhaps began late, or after one that perhaps ended early."""
    ts = np.asarray(part["ts_ns"])
    seen = np.zeros(len(ts), np.bool_)
    for s in silences:
        seen |= ts < s["at_ns"] if s["edge"] == "begin" else ts > s["at_ns"]
    return int(seen.sum())


def _excluded(part: Columns, partial: npt.NDArray[np.bool_] | None, window: Mapping[str, Any] | None) -> Columns:
    """Decisions that look into a partly recorded LLC become class `unrecorded`, where forks and execs look everywhere;
    so do those outside the time that all CPUs' records cover."""
    if partial is None and window is None:
        return part
    ts = np.asarray(part["ts_ns"])
    seen = np.zeros(len(ts), np.bool_)
    if window is not None:
        seen = (ts < window["begin_ns"]) | (ts > window["end_ns"])
    if partial is not None:
        seen |= np.asarray(part["kind"]) != ENUMS["decision_kind"].index("wake")
        for name in ("prev_cpu", "waker_cpu", "chosen_cpu"):
            cpu, null = with_null(part[name])
            seen |= partial[np.where(null, 0, cpu)] & ~null
    return {**part, "class": np.where(seen, np.uint8(ENUMS["decision_class"].index("unrecorded")), part["class"])}
