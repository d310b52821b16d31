# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/metrics.md names every query and every decision class."""

from __future__ import annotations

from pathlib import Path

from rewake.analysis import sql
from rewake.forms import ENUMS

TEXT = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")


def test_every_query_is_explained() -> None:
    assert [n for n in sql.catalogue() if f"`{n}`" not in TEXT] == []


def test_every_class_is_explained() -> None:
    assert [c for c in ENUMS["decision_class"] if f"`{c}`" not in TEXT] == []
