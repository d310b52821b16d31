# SPDX-License-Identifier: GPL-2.0-or-later
"""The CSV outputs: a header line, empty cells for NULL, names that no spreadsheet takes for a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from rewake.analysis import sql, text
from rewake.analysis.metrics import PER_POLICY
from rewake.analysis.report import Report


def write(header: Sequence[str], body: Iterable[Sequence[Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([text.csv(name) for name in header])
    writer.writerows([_cell(value) for value in row] for row in body)
    return out.getvalue()


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, int | float) else text.csv(str(value))


def rows(answer: sql.Rows) -> str:
    return write(answer.columns, answer.rows)


def report(r: Report) -> str:
    """One line per policy; the columns do not depend on what the policies decided."""
    figures = [c for name in PER_POLICY for c in sql.catalogue()[name].columns if c != "policy"]
    figures = list(dict.fromkeys(figures))
    header = ["recording", "kernel", "policy", "base", "label", "reference", *figures, "inputs_assumed_pct"]
    return write(
        header,
        (
            [r.machine.recording, r.machine.kernel, p.policy, p.base, p.label, p.reference]
            + [p[name] for name in figures]
            + [p.inputs.get("any", 0.0)]
            for p in r.policies
        ),
    )
