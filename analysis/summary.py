# SPDX-License-Identifier: GPL-2.0-or-later
"""What a recording holds, in a few figures."""

from __future__ import annotations

from typing import Any

from rewake.analysis.quality import decisions_by_class
from rewake.forms import SCHEMA_VERSION, Recording


def summarize(recording: Recording) -> dict[str, Any]:
    """The figures of `rewake info`: the manifest's, and counts of tasks and decisions. None: not known."""
    manifest = recording.manifest
    machine, given = manifest["machine"], recording.given  # of equal traces the first one's import is in the cache
    return {
        "schema_version": SCHEMA_VERSION,
        "id": manifest["id"],
        "path": str(recording.path),
        "source": manifest["source"] | ({"name": given.name} if given != recording.path else {}),
        "kernel": manifest["kernel"],
        "clock": manifest["clock"],
        "span_ns": manifest["span_ns"],
        "cpus": machine["cpus"],
        "llcs": machine["llcs"],
        "cores": machine["cores"],
        "nodes": machine["nodes"],
        "topology": machine_line(machine),
        "events": manifest["events"],
        "events_total": manifest["events_total"],
        "skipped": manifest["skipped"],
        "lost": manifest["lost"],
        "loss": manifest["loss"],
        "steps_back": manifest["steps_back"],
        "tasks": recording.rows("task"),
        "decisions": decisions_by_class(recording),
        "guest": manifest["guest"],
        "steal_pct": manifest["steal_pct"],
        "sched_ext": manifest["sched_ext"],
        "core_scheduling": manifest["core_scheduling"],
        "preempt_rt": manifest["preempt_rt"],
        "problems": manifest["problems"],
        "damage_of_whole": (manifest.get("slice") or {}).get("damage", []),
        "missing": manifest.get("missing", []),
        "notes": manifest["notes"],
    }


def machine_line(machine: dict[str, Any]) -> str:
    """`16 CPUs, 2 LLCs, 8 cores, 1 node`, or what is known of it."""
    parts = [_count(machine["cpus"], "CPU")]
    parts += [_count(machine[k], w) for k, w in (("llcs", "LLC"), ("cores", "core"), ("nodes", "node")) if machine[k]]
    return ", ".join(parts) + ("" if machine["llcs"] else ", topology unknown")


def _count(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"
