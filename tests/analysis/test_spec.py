# SPDX-License-Identifier: GPL-2.0-or-later
"""The policy grammar: NAME[@COLUMN][:key=value[,...]], a value may be a..b."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewake.errors import UsageError
from rewake.replay.spec import MOST_INSTANCES, PolicySpec, parse


@pytest.mark.parametrize(
    ("text", "specs"),
    [
        ("prev", [PolicySpec("prev")]),
        ("linux-6.1:SIS_UTIL=0", [PolicySpec("linux-6.1", {"SIS_UTIL": "0"})]),
        ("buddy@linux-3.8:ref=8,x=y", [PolicySpec("buddy", {"ref": "8", "x": "y"}, "linux-3.8")]),
        ("p:a=1..3", [PolicySpec("p", {"a": "1"}), PolicySpec("p", {"a": "2"}), PolicySpec("p", {"a": "3"})]),
        ("p:a=-1..0", [PolicySpec("p", {"a": "-1"}), PolicySpec("p", {"a": "0"})]),
        ("p:a=1..2,b=5..6", [PolicySpec("p", {"a": x, "b": y}) for x in "12" for y in "56"]),
    ],
)
def test_parse(text: str, specs: list[PolicySpec]) -> None:
    assert parse(text) == specs


@pytest.mark.parametrize(
    "text", ["", ":", "p:", "p:a", "p:a=", "p:=1", "p:a=1,", "p:a=1,a=2", "p@", "a/b:c", "p q", "p:a=3..1", "\x1b[2J"]
)
def test_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse(text)
    assert refused.value.exit_code == 2


def test_a_slash_makes_a_plugin() -> None:
    (spec,) = parse("./my@1/x.so:a=/b")
    assert spec == PolicySpec("./my@1/x.so", {"a": "/b"}) and spec.is_plugin and str(spec) == "./my@1/x.so:a=/b"
    assert not parse("p:a=/b")[0].is_plugin


@pytest.mark.parametrize("text", [f"p:a=1..{MOST_INSTANCES + 1}", "p:a=1..20,b=1..20", "p:a=0..99999999999999999999"])
def test_ranges_are_bounded(text: str) -> None:
    with pytest.raises(UsageError):
        parse(text)


_WORDS = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}", fullmatch=True)


@given(_WORDS, st.dictionaries(_WORDS, _WORDS, max_size=4))
def test_an_instance_name_parses_back(name: str, params: dict[str, str]) -> None:
    spec = PolicySpec(name, params)
    assert parse(str(spec)) == [spec]


def test_the_name_does_not_depend_on_the_order_of_parameters() -> None:
    assert str(parse("p:b=1,a=2")[0]) == str(parse("p:a=2,b=1")[0]) == "p:a=2,b=1"
