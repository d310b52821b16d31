# SPDX-License-Identifier: GPL-2.0-or-later
"""Hostile names, through every output function."""

from __future__ import annotations

import csv as csv_module
import io
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewake.analysis import text

HOSTILE = ["</script>", "\x1b[2J", "=cmd()", "a|b", "\udcff\udcfe", "x" * 4000, "\u202eevil", "@all #1 www.x.y", "a\nb"]
names = st.text() | st.sampled_from(HOSTILE)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("kworker/0:1H", "kworker/0:1H"),
        ("\x1b[2J", r"\x1b[2J"),
        ("\udcff\udcfe", r"\xff\xfe"),
        (r"\xff\xfe", r"\xff\xfe"),
        ("a\nb\tc\r", r"a\x0ab\x09c\x0d"),
        ("\u202eevil", r"\u202eevil"),
        ("é", "é"),
        ("x" * 200, "x" * 79 + "…"),
        ("界" * 200, "界" * 39 + "…"),
    ],
)
def test_terminal(name: str, shown: str) -> None:
    assert text.terminal(name) == shown


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("a|b", r"a\|b"),
        ("</script>", "&lt;/script&gt;"),
        ("\x1b[2J", r"\\x1b\[2J"),
        ("[x](javascript:1)", r"\[x\]\(javascript:1\)"),
        ("@all", "@<!-- -->all"),
        ("http://x", "http://<!-- -->x"),
        ("- item", r"\- item"),
        ("schbench", "schbench"),
    ],
)
def test_markdown(name: str, cell: str) -> None:
    assert text.markdown(name) == cell


@pytest.mark.parametrize("name", ["=cmd()", "+1", "-1", "@x", " =cmd()"])
def test_csv_formula(name: str) -> None:
    assert text.csv(name) == "'" + name


def test_csv_tab_and_newline_do_not_start_a_cell() -> None:
    assert text.csv("\t=cmd()") == r"\x09=cmd()"
    assert text.csv("plain, name") == "plain, name"


def test_html() -> None:
    assert text.html("</script>'\"&\x1b") == "&lt;/script&gt;&#x27;&quot;&amp;\\x1b"


def test_json_in_script() -> None:
    value = {"comm": ["</script>", "<!--", "a\u2028b", "\udcff"]}
    out = text.json_in_script(value)
    assert "<" not in out and ">" not in out and out.isascii()
    assert json.loads(out) == value


@given(names)
def test_no_output_lets_a_control_character_through(name: str) -> None:
    for out in (text.terminal(name), text.markdown(name), text.csv(name), text.html(name), text.json_in_script(name)):
        assert out.isprintable()
        out.encode("utf-8")


@given(names, st.integers(5, 100))
def test_terminal_keeps_to_the_width(name: str, width: int) -> None:
    assert text.columns(text.terminal(name, width)) <= width


@given(names)
def test_markdown_cell_has_no_open_bar_or_tag(name: str) -> None:
    cell = text.markdown(name)
    assert not re.search(r"(?<!\\)(?:\\\\)*\|", cell)
    assert "<" not in cell.replace("<!-- -->", "")


@given(st.lists(names, min_size=1))
def test_csv_survives_the_csv_module(row: list[str]) -> None:
    out = io.StringIO()
    csv_module.writer(out).writerow([text.csv(n) for n in row])
    assert next(csv_module.reader(io.StringIO(out.getvalue()))) == [text.csv(n) for n in row]
    assert all(text.csv(n)[:1] not in tuple("=+-@\t\r") for n in row)


@given(names)
def test_json_in_script_is_lossless(name: str) -> None:
    assert json.loads(text.json_in_script(name)) == name
