# SPDX-License-Identifier: GPL-2.0-or-later
"""The quality card: whether a recording can carry the figures that are computed from it.

Every threshold is printed with its value, whether it holds or not. A value that cannot be known (no snapshot of
/proc/stat, say) is shown as unknown and does not veto; a recording without topology degrades and does not veto.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rewake.analysis import recorder
from rewake.analysis.recorder import Recorder
from rewake.analysis.topology import cpu_list
from rewake.errors import QualityVeto
from rewake.forms import ENUMS, NOT_RECORDED, Recording

MAX_LOST_PCT = 1.0
MAX_BLIND_PCT = 10.0
MAX_STEPS_BACK_PCT = 0.1
MAX_RESYNC_PER_1000_SWITCHES = 1.0
MIN_DECISIONS = 1000
MAX_STEAL_PCT = 5.0
MAX_OBSERVER_PCT = 2.0


@dataclass(frozen=True)
class Check:
    """One threshold: `value` against `limit`, both in `unit`; passed None: the value is not known."""

    name: str
    meaning: str
    value: float | None
    relation: str
    limit: float
    unit: str
    passed: bool | None
    advice: str

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name, "meaning": self.meaning, "value": self.value, "relation": self.relation,
            "limit": self.limit, "unit": self.unit, "passed": self.passed,
        }  # fmt: skip


@dataclass(frozen=True)
class QualityCard:
    """All checks, and notes on what is unknown or degraded without being a reason to refuse."""

    checks: tuple[Check, ...]
    notes: tuple[str, ...]
    outside: str | None = None
    """The note on CPUs that are not in the topology."""

    @property
    def failed(self) -> tuple[Check, ...]:
        return tuple(c for c in self.checks if c.passed is False)

    @property
    def ok(self) -> bool:
        return not self.failed

    def check(self, name: str) -> Check:
        return next(c for c in self.checks if c.name == name)

    def as_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, "checks": [c.as_dict() for c in self.checks], "notes": list(self.notes)}

    def line(self) -> str:
        """The card in one line, for the head of a table."""
        lost = self.check("lost").value
        figure = "lost unknown" if lost is None else f"lost {lost:.2f} %"
        if self.ok:
            return f"quality ok ({figure})"
        return "quality REFUSED (" + ", ".join(f"{c.name} {_figure(c)}" for c in self.failed) + ")"

    def enforce(self, force: bool) -> None:
        """Raises QualityVeto when a check fails, unless forced."""
        if self.failed and not force:
            reasons = "; ".join(f"{c.meaning}: {_figure(c)} ({c.advice})" for c in self.failed)
            raise QualityVeto(f"the quality card refuses this recording: {reasons}; --force overrides")


def _figure(check: Check) -> str:
    value = "unknown" if check.value is None else f"{check.value:.6g}"
    unit = f" {check.unit}" if check.unit else ""
    return f"{value}{unit}, limit {check.limit:.6g}{unit}"


def decisions_by_class(recording: Recording) -> dict[str, int]:
    """Decisions per class, in the order of the enumeration, zeros included."""
    counts = dict.fromkeys(range(len(ENUMS["decision_class"])), 0)
    con = recording.connect(("decision",))
    try:
        counts |= dict(con.execute("SELECT class, count(*) FROM decision GROUP BY class").fetchall())
    finally:
        con.close()
    return {ENUMS["decision_class"][code]: n for code, n in counts.items()}


def assess(recording: Recording) -> QualityCard:
    """The card of a recording. TraceError where its tables do not fit together."""
    recording.check()
    return judge(recording.manifest, decisions_by_class(recording))


def judge(manifest: Mapping[str, Any], classes: Mapping[str, int]) -> QualityCard:
    """The card, from the manifest of the recording and its decisions per class."""
    events: Mapping[str, int] = manifest.get("events") or {}
    switches = events.get("sched_switch", 0)
    span = manifest.get("span_ns") or 0
    total = manifest.get("events_total") or sum(events.values())
    losses = manifest.get("loss") or []
    lost = sum(c.get("lost") or 0 for c in losses)
    unknown_gaps = any(c.get("gaps") and not c.get("lost") for c in losses)
    blind = max((c.get("blind_ns") or 0 for c in losses), default=0)
    resync = (manifest.get("replay") or {}).get("resync")
    decisions = sum(classes.values()) - classes.get("unrecorded", 0)
    unread = _unread(manifest)
    missing = _missing(events)
    unswitched = (manifest.get("replay") or {}).get("unswitched") if switches else None
    by = recorder.of(manifest)

    def at_most(name: str, meaning: str, value: float | None, limit: float, unit: str, advice: str) -> Check:
        return Check(name, meaning, value, "<=", limit, unit, None if value is None else value <= limit, advice)

    checks = (
        at_most(
            "missing_events",
            "needed events missing (sched_switch; sched_wakeup, or sched_waking with sched_migrate_task)",
            len(missing) + bool(unswitched), 0, "", _to_record(by, missing, unswitched or ()),
        ),
        at_most(
            "lost", "events lost" + (", or in the trace and not readable" if unread else ""),
            _pct(lost + unread, total + lost), MAX_LOST_PCT, "%", _to_read(by, lost, unread),
        ),
        at_most(
            "blind", "longest blindness of a CPU, of the span", _pct(blind, span), MAX_BLIND_PCT, "%",
            f"record with {by.buffers}",
        ),
        at_most(
            "steps_back", "timestamps that step back after the merge", _pct(manifest.get("steps_back"), total),
            MAX_STEPS_BACK_PCT, "%", f"record with {by.clock}",
        ),
        at_most(
            "clock", "times that count something else than ns", _no_time(manifest), 0, "",
            f"the clock counts cycles, jiffies or events: record with {by.clock}",
        ),
        at_most(
            "resync", "state corrected against the events, per 1000 switches",
            resync * 1000 / switches if resync is not None and switches and not missing else None,
            MAX_RESYNC_PER_1000_SWITCHES, "",
            _contradiction(by, manifest, events),
        ),
        Check(
            "decisions", "decisions", decisions, ">=", MIN_DECISIONS, "", decisions >= MIN_DECISIONS,
            "record for longer",
        ),
        at_most(
            "steal", "time stolen from the guest", manifest.get("steal_pct"), MAX_STEAL_PCT, "%",
            "record on a quieter host",
        ),
        at_most(
            "observer", "wakeups of the collector's own tasks", _pct(classes.get("observer", 0), decisions),
            MAX_OBSERVER_PCT, "%", "record with larger buffers or fewer events",
        ),
    )  # fmt: skip
    outside = _outside(manifest.get("outside") or ())
    return QualityCard(checks, tuple(_notes(manifest, classes, checks, unknown_gaps, outside)), outside)


def _outside(cpus: Sequence[int]) -> str | None:
    return f"CPU {cpu_list(cpus)} ran tasks and are not in the topology: give the right one" if cpus else None


def _no_time(manifest: Mapping[str, Any]) -> int | None:
    """1 where the clock of the trace is none; None where its unit is not known, as in a text of whole numbers."""
    told = [line for line in manifest.get("missing") or () if line.startswith(_UNIT)]
    return 0 if not told else 1 if told[0].startswith(_UNIT + ": the clock ") else None


_UNIT = "the unit of the times"
"""What `missing` says first of times that are, or may be, no ns."""

_ROWS_OF = {
    "switch": ("sched_switch",), "waking": ("sched_waking",), "wakeup": ("sched_wakeup", "sched_wakeup_new"),
    "migrate": ("sched_migrate_task",),
}  # fmt: skip
"""Each of these events makes a row of its table, but for wakeups that failed."""


def _unread(manifest: Mapping[str, Any]) -> int:
    """Events that the trace has and that decode could not make a row of: a line in a form that it does not know, fields
    that cannot be. Compact Perfetto traces lack what the first events of a CPU refer to, which is not damage."""
    rows: Mapping[str, Sequence[int]] = manifest.get("rows") or {}
    if (manifest.get("source") or {}).get("format") == "pftrace":
        return 0
    events: Mapping[str, int] = manifest.get("events") or {}
    without = sum(
        max(0, sum(events.get(name, 0) for name in names) - sum(rows[table]))
        for table, names in _ROWS_OF.items()
        if any(rows.get(table) or ())  # without rows there is nothing to compare, and no decisions either
    )
    return max(0, without - (manifest.get("wakeup_failed") or 0))


def _to_read(by: Recorder, lost: int, unread: int) -> str:
    parts = [f"record with {by.buffers}"] if lost or not unread else []
    if unread:
        parts.append(
            f"{unread:,} events could not be read: rewake info says which; give the trace itself, no text of it"
        )
    return "; ".join(parts)


def _to_record(by: Recorder, missing: Sequence[str], unswitched: Sequence[int]) -> str:
    parts = [f"record with {by.events(missing)}"] if missing else []
    if unswitched:
        parts.append(f"record sched_switch on all CPUs: tasks run on {_cpus(unswitched)} that never switches to one")
    return "; ".join(parts)


def _contradiction(by: Recorder, manifest: Mapping[str, Any], events: Mapping[str, int]) -> str:
    """What to do where the model was corrected too often. A kernel that leaves out switches counts no loss."""
    replay: Mapping[str, Any] = manifest.get("replay") or {}
    if any(line.startswith("recorded for some tasks only") for line in manifest.get("missing") or ()):
        return "recorded for some tasks only: record the whole machine, perf record -a"
    kept = manifest.get("recorded_cpus")
    if kept is not None:
        return "only some CPUs were recorded, so tasks move unseen: record all of them"
    if not events.get("sched_migrate_task"):
        lacking = by.events(["sched_migrate_task"])
        return f"no sched_migrate_task in the trace, so tasks move unseen: record with {lacking}"
    unseen: Sequence[int] = replay.get("unseen_by_cpu") or ()
    if 2 * sum(unseen) < replay.get("resync", 0) or not any(unseen):
        return "the events contradict each other: record again"
    cpu = max(range(len(unseen)), key=lambda c: unseen[c])
    return (
        "switches are missing from the trace: a task leaves a CPU that it never came to, or is woken and never slept, "
        f"{sum(unseen):,} times, {unseen[cpu]:,} of them on CPU {cpu}; record again, and if it stays so, this kernel "
        "does not trace them all, or the tracer does not keep them"
    )


def _missing(events: Mapping[str, int]) -> list[str]:
    """Events without which no decision can be rebuilt. sched_waking alone does not say where the task was put."""
    missing = [] if events.get("sched_switch") else ["sched_switch"]
    if not events.get("sched_wakeup") and not events.get("sched_waking"):
        return [*missing, "sched_waking", "sched_wakeup"]
    if not events.get("sched_wakeup") and "sched_migrate_task" not in events:
        missing += ["sched_wakeup"]
    return missing


def _pct(part: float | None, whole: float) -> float | None:
    """None where there is nothing to take a share of."""
    return None if part is None or not whole else 100.0 * part / whole


def _cpus(cpus: Sequence[int]) -> str:
    return f"CPU {cpus[0]}" if len(cpus) == 1 else f"{len(cpus)} CPUs"


def _notes(
    manifest: Mapping[str, Any],
    classes: Mapping[str, int],
    checks: tuple[Check, ...],
    unknown_gaps: bool,
    outside: str | None,
) -> list[str]:
    notes = []
    if unknown_gaps:
        notes.append("some gaps lost an unknown number of events: the lost share is a lower bound")
    if manifest.get("topology") is None:
        notes.append("no topology: everything about LLCs, cores and nodes is NULL; give --topology")
    if outside:
        notes.append(outside)
    if not manifest.get("kernel") and "sched_waking" in (manifest.get("events") or {}):
        notes.append(
            "kernel unknown: wakeups that one from 5.8 or 6.12 on may have left where they were are not counted"
            " (maybe_on_cpu, maybe_delayed)"
        )
    unmoved = NOT_RECORDED.format("sched_migrate_task")
    notes += [line for line in manifest.get("missing") or () if line.startswith((unmoved, _UNIT))]
    kept = manifest.get("recorded_cpus")
    if kept is not None:
        notes.append(
            f"only {len(kept)} of {(manifest.get('machine') or {}).get('cpus')} CPUs were recorded (--cpus, perf -C): "
            f"{classes.get('unrecorded', 0):,} decisions that look at others are not counted"
        )
    window = manifest.get("window")
    if window is not None and classes.get("unrecorded"):
        edges = (("late", "began late"), ("cut", "ended early"))
        which = " and ".join(f"of {_cpus(window[key])} {what}" for key, what in edges if window[key])
        count = "" if kept is not None else f"{classes.get('unrecorded', 0):,} "
        notes.append(
            f"{count}decisions outside of the time that all CPUs' records cover are not counted: those {which}"
        )
    silent = (manifest.get("replay") or {}).get("silent")
    if silent:
        cpus = sorted({s["cpu"] for s in manifest.get("silences") or []})
        notes.append(
            f"{silent:,} decisions were made while {_cpus(cpus)} had no records although a task was running, perhaps "
            "not recorded: counted; rewake info names the window to slice"
        )
    if manifest.get("problems"):
        notes.append(f"{len(manifest['problems'])} kinds of damage in the trace, see rewake info")
    if damage := (manifest.get("slice") or {}).get("damage"):
        notes.append(f"{len(damage)} kinds of damage in the recording that this is a slice of, see rewake info")
    notes += [f"{c.meaning}: unknown" for c in checks if c.passed is None]
    return notes
