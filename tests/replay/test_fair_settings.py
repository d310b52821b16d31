# SPDX-License-Identifier: GPL-2.0-or-later
"""What replay takes the fair class of a recorded kernel to be set to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from rewake.replay import fair
from rewake.replay.recorded import Source, tunable


def settings(kernel: str | None, **manifest: Any) -> dict[str, Any]:
    return fair.settings(cast(Source, SimpleNamespace(manifest={"kernel": kernel, **manifest})))


@pytest.mark.parametrize(
    ("kernel", "features", "delays"),
    [
        ("6.12.95+deb12-cloud-amd64", {}, True),
        ("7.2.13", {"DELAY_DEQUEUE": True}, True),
        ("6.12.95", {"DELAY_DEQUEUE": False}, False),
        ("6.11.2", {"DELAY_DEQUEUE": True}, False),
        ("6.1.0-56", {}, False),
        (None, {}, False),
    ],
)
def test_dequeues_are_delayed_from_6_12_on_unless_the_feature_is_off(
    kernel: str | None, features: dict[str, bool], delays: bool
) -> None:
    assert settings(kernel, features=features)["delays"] is delays


def test_tunables_are_those_of_the_snapshot() -> None:
    sysctl = {"debug.sched.base_slice_ns": "2800000", "debug.sched.latency_ns": "a lot"}
    assert settings("6.12.1", sysctl=sysctl, features={"HRTICK": True}) == {
        "slice_ns": 2_800_000, "major": 6, "minor": 12, "hrtick": True, "delays": True,
    }  # fmt: skip


@pytest.mark.parametrize("value", ["4294967296", "9" * 25, "9" * 5000, "-1", "\u0663", ""])
def test_no_tunable_is_more_than_an_unsigned_int(value: str) -> None:
    """The engine takes 64 bits, int() 4300 digits; migration_cost_ns was read without asking at all."""
    manifest = {"sysctl": {"debug.sched.migration_cost_ns": value, "debug.sched.base_slice_ns": value}}
    assert tunable(manifest, "migration_cost_ns") is None
    assert "slice_ns" not in settings("6.12.1", **manifest)
    assert tunable({"sysctl": {"debug.sched.migration_cost_ns": "4294967295"}}, "migration_cost_ns") == 2**32 - 1
    assert tunable({}, "migration_cost_ns") is None


def test_a_fair_class_that_stays_is_told_where_it_differs() -> None:
    kernels = {"a": "6.5.0", "b": "6.6.1", "c": "6.12.95", "d": "7.2.13", "e": None}
    assert fair.placement_only("6.1.0-56", kernels, "the recorded kernel") == (
        "only the placement is simulated of b (EEVDF), c (EEVDF with delayed dequeues), d (EEVDF of 7.0 and later): who"
        " runs next, preemption and slices stay those of the recorded kernel (CFS)"
    )
    assert fair.placement_only("6.8.1", {"b": "6.6.1"}, "it") is None
    assert fair.placement_only(None, kernels, "it") is None
