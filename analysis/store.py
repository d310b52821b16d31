# SPDX-License-Identifier: GPL-2.0-or-later
"""What a store keeps of a run: its figures, its latency buckets and its report, as rows of the table `figure`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import duckdb

from rewake.analysis.jsonout import dumps
from rewake.analysis.measures import MEASURES
from rewake.analysis.report import Report
from rewake.analysis.subjects import Subject
from rewake.errors import UsageError


@dataclass(frozen=True)
class Key:
    """Under what a run is kept."""

    suite: str
    made: str
    """ISO 8601 in UTC, `2026-11-20T03:00:00Z`."""
    revision: str | None = None
    machine: str | None = None
    """Machine class; None: what the recording tells of it."""


def moment(text: str, name: str = "--date") -> str:
    """A date, a date and time (UTC where no zone is given) or @SECONDS since 1970, as the store writes it; `name`:
    where it was given."""
    try:
        if match := re.fullmatch(r"@(\d{1,11})", text):
            found = datetime.fromtimestamp(int(match[1]), UTC)
        else:
            found = datetime.fromisoformat(text)
            found = found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    except (ValueError, OverflowError):
        raise UsageError(f"{name} {text}: 2026-11-20, 2026-11-20T03:00:00+01:00 or @SECONDS expected") from None
    # Not strftime, whose %Y has no leading zeros here: moments are ordered as text.
    return found.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def rows(
    con: duckdb.DuckDBPyConnection, subject: Subject, report: Report, key: Key, version: str
) -> list[dict[str, Any]]:
    """The rows of one run; `con` is `Run.connect()`'s. An unbounded end is a row without a value."""
    common = {
        "suite": key.suite,
        "machine": key.machine or subject.machine,
        "kernel": subject.kernel,
        "revision": key.revision,
        "made": key.made,
        "recording": subject.recording,
        "run": subject.name,
        "tool": version,
    }
    told = json.dumps(json.loads(dumps(report.plain())), ensure_ascii=True, separators=(",", ":"))
    out: list[dict[str, Any]] = [common | {"policy": "", "metric": "report", "report": told}]
    for policy, figures in subject.figures.items():
        for m in MEASURES.values():
            if m.value(figures, "lo") is None:
                continue
            for side in ("lo", "hi") if m.lo != m.hi else ("lo",):
                out.append(common | {"policy": policy, "metric": m.name, "side": side, "value": m.value(figures, side)})
    buckets = con.execute("SELECT policy, metric, bucket, n FROM bucket ORDER BY ALL").fetchall()
    for policy, side, bucket, n in buckets:
        out.append(common | {"policy": policy, "metric": "latency", "side": side, "bucket": bucket, "value": float(n)})
    return out
