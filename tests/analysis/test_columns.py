# SPDX-License-Identifier: GPL-2.0-or-later
"""Which policy stands for the recorded kernel, and when none does."""

from __future__ import annotations

import pytest

from rewake.analysis.columns import COLUMNS, KERNELS, NEAREST, column_of
from rewake.errors import FidelityError
from rewake.replay import _engine
from rewake.replay.spec import parse

EXIST = {
    "linux-6.1": {"SIS_UTIL": "1", "WA_IDLE": "1", "WA_WEIGHT": "1", "WA_BIAS": "1"},
    "linux-4.5": {},
    "idle-thread-scan": {"hot_clock": "stale"},
}

ALL = {p["name"]: {q["name"]: q["value"] for q in p["params"]} for p in _engine.policies()}


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


@pytest.mark.parametrize(
    ("kernel", "column"),
    [
        ("3.10.0-1160.el7.x86_64", "linux-3.10"), ("4.12.2", "linux-4.12"), ("4.12.3", "linux-4.12.3"),
        ("4.12.14", "linux-4.12.3"), ("4.19.0-27-amd64", "linux-4.19"), ("5.10.0-30-amd64", "linux-5.10:X3_IN_TASK=1"),
        ("5.10.7", "linux-5.10"), ("5.10.84", "linux-5.10:X3_IN_TASK=1"),
        ("5.15.0-91-generic", "linux-5.15"), ("6.12.95+deb12-cloud-amd64", "linux-6.12"),
        ("7.2.13+deb14-cloud-amd64", "linux-7.2"),
    ],
)  # fmt: skip
def test_distribution_kernels(kernel: str, column: str) -> None:
    found = column_of(kernel, {}, ALL)
    assert (found.instance, found.notes) == (column, ())


@pytest.mark.parametrize(
    ("kernel", "column", "note"),
    [
        ("6.6.87", "linux-6.1", "no column was read from 6.6: linux-6.1 is the nearest; its sibling scan"),
        ("6.18.2", "linux-6.12", "no column was read from 6.18: linux-6.12 is the nearest; some rules of 7.2"),
        ("7.0.0", "linux-6.12", "no column was read from 7.0"),
        ("5.19.0-50-generic", "linux-6.0", "no column was read from 5.19"),
        ("4.4.0-210-generic", "linux-4.5", "no column was read from 4.4"),
        ("8.1", "linux-7.2", "newer than every kernel that was read"),
        ("5.15.2", "linux-5.15", "linux-5.15 was read from 5.15.100; 5.15.2 may lack"),
    ],
)
def test_the_nearest_column_is_never_silent(kernel: str, column: str, note: str) -> None:
    found = column_of(kernel, {}, ALL)
    assert found.instance == column
    assert len(found.notes) == 1
    assert note in found.notes[0]


def test_every_release_from_3_8_on_has_one_column() -> None:
    last = {3: 19, 4: 20, 5: 19, 6: 19, 7: 4}
    for major, minors in last.items():
        for minor in range(8 if major == 3 else 0, minors + 1):
            release = (major, minor)
            near = [n for n in NEAREST if n[0] <= release <= n[1]]
            assert len(near) + (release in KERNELS) == 1, release
    assert {*KERNELS.values(), *(n[2] for n in NEAREST)} == set(COLUMNS)
    assert [p["name"] for p in _engine.policies() if p["name"].startswith("linux-")] == list(COLUMNS)


def test_features_come_before_the_version() -> None:
    found = column_of("5.10.0-60.oe2203", {"SIS_UTIL": True, "WA_IDLE": True}, ALL)
    assert found.instance == "linux-5.15"
    assert "recorded with the feature SIS_UTIL" in found.notes[0]
    found = column_of("6.6.30-vendor", {"SIS_UTIL": True, "DELAY_DEQUEUE": True}, ALL)
    assert found.instance == "linux-6.12"
    assert [("nearest" in n, "DELAY_DEQUEUE" in n) for n in found.notes] == [(True, False), (False, True)]


def test_a_listed_kernel_without_the_feature_does_without() -> None:
    found = column_of("5.15.0-25-generic", {"WA_IDLE": True, "SIS_PROP": True}, ALL)
    assert found.instance == "linux-5.15:SIS_UTIL=0"
    assert [n.split(":")[0] for n in found.notes] == [
        "recorded without the feature SIS_UTIL",
        "recorded with SIS_PROP, for which linux-5.15 has no parameter",
    ]
    assert column_of("5.10.7", {"SIS_PROP": False}, ALL).instance == "linux-5.10:SIS_PROP=0"


@pytest.mark.parametrize("kernel", ["6.12.95+deb12", "6.10.1", "7.2.13", "3.7.10", "2.6.32", "61.0", "", None, "six"])
def test_no_column_refuses_with_the_list(kernel: str | None) -> None:
    with pytest.raises(FidelityError, match=r"linux-4\.5, linux-6\.1$") as refused:
        column_of(kernel, {}, EXIST)
    assert refused.value.exit_code == 5


def test_sched_ext_refuses() -> None:
    with pytest.raises(FidelityError, match="sched_ext"):
        column_of("6.1.0", {}, EXIST, sched_ext=True)


def test_a_column_that_is_not_built_refuses() -> None:
    with pytest.raises(FidelityError, match=r"columns that exist: linux-6\.1$"):
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
