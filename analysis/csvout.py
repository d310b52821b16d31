# SPDX-License-Identifier: GPL-2.0-or-later
"""The CSV outputs: a header line, empty cells for NULL, names that no spreadsheet takes for a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from rewake.analysis import sql, text
from rewake.analysis.report import Report, per_policy


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
    return rows(per_policy(r))
