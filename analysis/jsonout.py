# SPDX-License-Identifier: GPL-2.0-or-later
"""The JSON outputs: one envelope, stable keys, ASCII only, no NaN (absent is null)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from rewake.analysis.sql import Query, Rows
from rewake.forms import SCHEMA_VERSION


def document(
    kind: str, body: Mapping[str, Any], *, version: str, recording: str | None, quality: Mapping[str, Any] | None
) -> dict[str, Any]:
    """`body` with what every document carries: schema and tool version, the recording's hash, the quality card."""
    return {
        "kind": kind,
        "schema_version": SCHEMA_VERSION,
        "tool_version": version,
        "recording_hash": recording,
        "quality": quality,
    } | dict(body)


def dumps(value: Any) -> str:
    return json.dumps(_plain(value), indent=2, ensure_ascii=True, allow_nan=False) + "\n"


def rows(answer: Rows) -> dict[str, Any]:
    return {"columns": list(answer.columns), "rows": [list(row) for row in answer.rows]}


def query(described: Query) -> dict[str, Any]:
    return {
        "name": described.name,
        "question": described.question,
        "definition": described.definition,
        "units": described.units,
        "requires": list(described.requires),
        "columns": described.columns,
    }


def _plain(value: Any) -> Any:
    """Only what JSON has."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else None
        case Decimal():
            return float(value)
        case Mapping():
            return {str(k): _plain(v) for k, v in value.items()}
        case list() | tuple():
            return [_plain(v) for v in value]
        case bytes():
            return value.hex()
        case _:
            return str(value)
