# SPDX-License-Identifier: GPL-2.0-or-later
"""What replay takes the fair class of a recorded kernel to be set to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from rewake.replay import fair
from rewake.replay.recorded import Source


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
