# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/columns.md says what forms declares."""

from pathlib import Path

from rewake import forms
from rewake.forms.document import markdown

DOCUMENT = Path(__file__).parents[2] / "docs" / "columns.md"


def test_the_document_is_current() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == markdown(), "run: python -m rewake.forms > docs/columns.md"


def test_every_column_and_code_is_in_it() -> None:
    text = markdown()
    for table in forms.TABLES.values():
        assert f"### {table.name}\n" in text
        for column in table.columns:
            assert f"| {column.name} | {column.type} |" in text
    for values in forms.ENUMS.values():
        assert all(f"{i} {v}" in text for i, v in enumerate(values))
