# SPDX-License-Identifier: GPL-2.0-or-later
"""Durations and sizes mean the same wherever they are asked for, and what is none is told before anything is done."""

from __future__ import annotations

from pathlib import Path

import pytest
from command import told

from rewake import quantity
from rewake.errors import UsageError

NEITHER = (
    "", "0", "5", "-1", "-1s", "-1K", "1e3", "1e3s", "1e3K", "nan", "inf", "infs", "s", "K", "B", ".s", ".K", "1.2.3s",
    "²s", "²K", "٣s", "٣K", "1d", "1T", "1X", "1  s", " 1s", "1s;x", "0x1s", "9" * 13 + "s", "9" * 13 + "K",
    "999999999999h", "9223372037s", "9999999999G",
)  # fmt: skip


def test_durations_and_sizes() -> None:
    durations = {
        "500ms": 5 * 10**8, "10s": 10**10, "2m": 120 * 10**9, "1.5s": 15 * 10**8, "5us": 5000, "1ns": 1,
        ".5h": 1800 * 10**9, "0.000000001s": 1, "2 s": 2 * 10**9, "9223372036.854775807s": 2**63 - 1,
    }  # fmt: skip
    assert {text: quantity.duration(text) for text in durations} == durations
    assert {text: quantity.instant(text) for text in durations} == durations
    assert quantity.instant("0s") == quantity.instant("0.5ns") == 0
    sizes = {"512K": 1 << 19, "8M": 8 << 20, "1GiB": 1 << 30, "3MB": 3 << 20, "1.5G": 3 << 29, "1 GiB": 1 << 30,
             "2gb": 2 << 30, "1.K": 1024, ".5m": 1 << 19}  # fmt: skip
    assert {text: quantity.size(text) for text in sizes} == sizes


@pytest.mark.parametrize("text", NEITHER)
def test_what_is_neither(text: str) -> None:
    for parse in (quantity.duration, quantity.instant, quantity.size):
        with pytest.raises(UsageError):
            parse(text)


@pytest.mark.parametrize("text", ["0s", "0ns", "0.5ns", "0K", "0.0G", "0.0001K"])
def test_none_at_all(text: str) -> None:
    with pytest.raises(UsageError, match="above 0"):
        (quantity.duration if text.endswith("s") else quantity.size)(text)


@pytest.mark.parametrize(
    "asked",
    [
        ("simulate", "x", "--policy", "prev", "--windows"), ("validate", "x", "y", "--windows"),
        ("advise", "x", "--sweep", "prev", "--windows"), ("record", "--duration"), ("record", "--buffer"),
        ("record", "--max-size"), ("record", "--flight-recorder", "--stop-on", "wakeup-latency="),
        ("record", "--emit-script", "--duration"), ("record", "--emit-script", "--buffer"),
        ("fleet", "run", ".", "-o", "s", "--cut"), ("fleet", "run", ".", "-o", "s", "--timeout"),
        ("fleet", "run", ".", "-o", "s", "--memory"),
    ],
)  # fmt: skip
def test_every_option_takes_the_same(
    asked: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for text in ("nan", "1e3s", "-1K", "0s", "5"):
        given = (*asked[:-1], asked[-1] + text) if asked[-1].endswith("=") else (*asked, text)
        said = told(capsys, *given, code=2)
        assert "expected a " in said or "the unit is missing" in said
    assert list(tmp_path.iterdir()) == []
