# SPDX-License-Identifier: GPL-2.0-or-later
"""Which policy stands for the recorded kernel, and when none does."""

from __future__ import annotations

import pytest

from rewake.analysis.columns import column_of
from rewake.errors import FidelityError
from rewake.replay.spec import parse

EXIST = {
    "linux-6.1": {"SIS_UTIL": "1", "WA_IDLE": "1", "WA_WEIGHT": "1", "WA_BIAS": "1"},
    "linux-4.5": {},
    "idle-thread-scan": {"hot_clock": "stale"},
}


@pytest.mark.parametrize(
    ("kernel", "column"),
    [
        ("6.1.0-56-cloud-amd64", "linux-6.1"),
        ("6.1.192", "linux-6.1"),
        ("6.1", "linux-6.1"),
        ("4.5.0", "linux-4.5"),
        ("4.6.7", "linux-4.5"),
    ],
)
def test_version(kernel: str, column: str) -> None:
    assert column_of(kernel, {}, EXIST).instance == column


@pytest.mark.parametrize("kernel", ["6.12.95+deb12", "6.10.1", "7.2.13", "4.4.0", "61.0", "", None, "six"])
def test_no_column_refuses_with_the_list(kernel: str | None) -> None:
    with pytest.raises(FidelityError, match=r"linux-4\.5, linux-6\.1 \(--as COLUMN\)") as refused:
        column_of(kernel, {}, EXIST)
    assert refused.value.exit_code == 5


def test_sched_ext_refuses() -> None:
    with pytest.raises(FidelityError, match="sched_ext"):
        column_of("6.1.0", {}, EXIST, sched_ext=True)


def test_a_column_that_is_not_built_refuses() -> None:
    with pytest.raises(FidelityError, match=r"columns that exist: linux-6\.1 "):
        column_of("4.5.0", {}, {"linux-6.1": {}})


def test_recorded_features_become_parameters() -> None:
    features = {"SIS_UTIL": False, "WA_IDLE": True, "WA_WEIGHT": False, "TTWU_QUEUE": False}
    assert column_of("6.1.0", features, EXIST).instance == "linux-6.1:SIS_UTIL=0,WA_WEIGHT=0"


def test_the_instance_is_spelled_as_the_grammar_spells_it() -> None:
    """Else the run has a policy of another name than the one that is looked for."""
    features = dict.fromkeys(("SIS_UTIL", "WA_IDLE", "WA_WEIGHT", "WA_BIAS"), False)
    instance = column_of("6.1.0", features, EXIST).instance
    assert [str(spec) for spec in parse(instance)] == [instance]


def test_a_feature_that_the_column_cannot_follow_is_said() -> None:
    found = column_of("4.5.0", {"WA_IDLE": False}, EXIST)
    assert found.instance == "linux-4.5"
    assert found.notes == ("recorded with NO_WA_IDLE, for which linux-4.5 has no parameter",)
