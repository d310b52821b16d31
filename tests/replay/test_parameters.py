# SPDX-License-Identifier: GPL-2.0-or-later
"""Parameters: their defaults change nothing, every number can be swept in one pass, and a changed constant is told.

That a changed constant changes decisions is in golden_policies.txt, [parameters].
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from world import World, schedules

from rewake.forms import INPUTS, Recording
from rewake.replay import _engine
from rewake.replay.driver import hardirq_source, label, machine_notes
from rewake.replay.spec import PolicySpec, parse

POLICIES = {p["name"]: p for p in _engine.policies()}
HYBRIDS = (
    "irq-aware@linux-6.12",
    "wakeup-buddy@linux-5.10",
    "idle-thread-scan@linux-4.19",
    "userspace-hints@linux-5.10",
)


def _described() -> dict[str, dict[str, Any]]:
    return POLICIES | {name: _engine.policy(name) for name in HYBRIDS}


@settings(max_examples=10)
@given(schedules())
def test_defaults_given_change_nothing(world: World) -> None:
    if not world.events:
        return
    decisions = world.decisions()
    plain = list(_described())
    given_ = [
        str(PolicySpec(name, {p["name"]: p["value"] for p in about["params"]})) for name, about in _described().items()
    ]
    ledgers = decisions.replay(*plain, *given_).ledgers
    for name, bare, explicit in zip(plain, ledgers[: len(plain)], ledgers[len(plain) :], strict=True):
        assert bare == explicit, name


@settings(max_examples=10)
@given(schedules())
def test_the_size_of_the_llc_in_numbers_is_the_default(world: World) -> None:
    """Its LLCs have two CPUs. A number does not ask for them."""
    if not world.events:
        return
    names = [n for n, p in POLICIES.items() if any(q["name"] == "wake_wide_factor" for q in p["params"])]
    ledgers = world.decisions().replay(*names, *(f"{n}:wake_wide_factor=2" for n in names)).ledgers
    domains = 1 << INPUTS.index("domains")
    plain = [[row | {"inputs_assumed": row["inputs_assumed"] & ~domains} for row in rows] for rows in ledgers]
    assert plain[: len(names)] == plain[len(names) :]


def _numbers() -> list[str]:
    """A sweep of two values for each parameter that is a whole number."""
    found = []
    for name, about in _described().items():
        for p in about["params"]:
            if p["value"].lstrip("-").isdigit():
                low = 0 if p["name"].isupper() else int(p["value"])
                found.append(f"{name}:{p['name']}={low}..{low + 1}")
    return found


def test_every_number_is_swept_in_one_pass() -> None:
    assert len(_numbers()) > 100
    w = World(4, 12, llcs=2)
    w.runs(1000, 1, 8, 1).runs(1500, 0, 0, 10, "R")
    w.waking(10_000, 0, 8, 1, curr=10).wakeup(10_200, 0, 8, 1).runs(11_000, 1, 1, 8, "R").runs(500_000, 0, 10, 0)
    specs = [spec for text in _numbers() for spec in parse(text)]
    assert len(specs) == 2 * len(_numbers())
    ledgers = w.decisions().replay(*map(str, specs)).ledgers
    assert all(ledger[0]["cpu"] is not None for ledger in ledgers)


@pytest.mark.parametrize(
    ("instance", "message"),
    [
        ("linux-6.1:imbalance_pct_pkg=99", "imbalance_pct_pkg=99: a whole number of 100 to 10000 expected"),
        ("linux-6.1:wake_wide_factor=0", "wake_wide_factor=0: a whole number of 1 to 1000000, or llc_size expected"),
        ("linux-5.10:sis_prop_divisor=0", "sis_prop_divisor=0: a whole number of 1 "),
        ("linux-6.1:fit_margin=1e3", "fit_margin=1e3: a whole number"),
        ("wakeup-buddy:ref=0", "ref=0: a whole number of 1 "),
        ("wakeup-buddy:ref=99999999999999999999", "ref=99999999999999999999: a whole number"),
        ("irq-aware:threshold=-1", "threshold=-1: a whole number of 0 to 1000000, or auto expected"),
        ("irq-aware:initial_threshold=cold", "initial_threshold=cold: .*, or warm expected"),
        ("irq-aware:decay=0", "decay=0: a whole number of 1 "),
        ("irq-aware:irq_entry_overhead_ns=-1", "irq_entry_overhead_ns=-1"),
        ("idle-thread-scan:migration_cost=-2", "migration_cost=-2: a whole number of -1 to .*, or recorded expected"),
        ("userspace-hints:hint=3", "hint=3: a sum of FORK_AFFINE 1 or FORK_SPREAD 2"),
        ("userspace-hints:hint=32", "hint=32: a whole number of 0 to 31 expected"),
        ("userspace-hints:wide_bound=0", "wide_bound=0: a whole number of 1 to 1024, or none or column expected"),
        ("userspace-hints@linux-5.4:hint=1", "hint=1: linux-5.4 compares groups by load and cannot follow fork hints"),
        ("linux-4.12:SIS_PROP=0", "linux-4.12 has no parameter 'SIS_PROP'; it has "),
    ],
)
def test_wrong_values(instance: str, message: str) -> None:
    world = World(4, 12)
    world.waking(10_000, 0, 8, 1, curr=10).wakeup(10_200, 0, 8, 1)
    with pytest.raises(ValueError, match=message):
        world.decisions().replay(instance)


@pytest.mark.parametrize(
    ("busy_us", "expected"),
    [
        (1200, {"": 4, ":share=1000": 2, ":threshold=1000": 2, ":decay=1": 4}),
        (300, {"": 2, ":threshold=5": 4, ":irq_entry_overhead_ns=1000000": 4, ":initial_threshold=5": 2}),
    ],
)
def test_each_setting_has_its_own_estimator(busy_us: int, expected: dict[str, int]) -> None:
    """One CPU of eight with `busy_us` of interrupt in each tick of 4 ms; all settings in one pass, as each alone."""
    w = World(8, 24)
    for cpu in range(8):
        w.runs(1000 + cpu, cpu, cpu, 10 + cpu, "R")
    for tick in range(48):
        ts = 1_000_000 + tick * 4_000_000
        w.add("irq", ts, 2, entry=True, kind=0, vector=9, curr_task=12)
        w.add("irq", ts + busy_us * 1000, 2, entry=False, kind=0, vector=9, curr_task=12)
    w.runs(193_000_000, 4, 14, 4).runs(193_100_000, 2, 12, 2)
    w.waking(193_200_000, 0, 12, 2, curr=10).wakeup(193_200_100, 2, 12, 2)
    decisions = w.decisions((4, 12))
    names = [f"irq-aware{params}" for params in expected]
    together = decisions.replay(*names).ledgers
    assert [rows[0]["cpu"] for rows in together] == list(expected.values())
    assert [decisions.replay(name).ledgers[0] for name in names] == together


@pytest.mark.parametrize(
    ("instance", "expected"),
    [
        ("prev", "reference"),
        ("linux-6.1", "faithful"),
        ("linux-6.1:SIS_UTIL=0", "faithful"),  # what that kernel does when told so
        ("linux-6.1:wake_wide_factor=8", "variant"),
        ("linux-6.1:wake_wide_factor=llc_size", "faithful"),
        ("wakeup-buddy", "faithful"),
        ("wakeup-buddy:ref=3", "faithful"),  # a sysctl of the posting
        ("wakeup-buddy@linux-3.8", "faithful"),
        ("wakeup-buddy@linux-3.10", "hybrid"),
        ("irq-aware:threshold=1000", "variant"),
        ("irq-aware@linux-6.12:threshold=1000", "hybrid"),
        ("userspace-hints:hint=4", "faithful"),
        ("userspace-hints:hint=20", "proposal"),
        ("userspace-hints@linux-6.1:hint=16", "proposal"),
        ("userspace-hints@linux-6.0:hint=8", "faithful"),
    ],
)
def test_labels(instance: str, expected: str) -> None:
    (spec,) = parse(instance)
    assert label(spec, _engine.policy(spec.policy)) == expected
    assert (label(spec, _engine.policy(spec.policy), 16) == "proposal") == ("hints" in instance)


@pytest.mark.parametrize(
    ("cores", "capacities", "instance", "hints", "expected"),
    [
        ([0, 1], [1024, 1024], "userspace-hints", 4, "no SMT: "),
        ([0, 1], [1024, 1024], "userspace-hints@linux-6.1:hint=8", 0, "no SMT: "),
        ([0, 1], [1024, 1024], "userspace-hints", 16, None),
        ([0, 1], [1024, 1024], "linux-6.1", 4, None),
        ([0, 0], [1024, 1024], "userspace-hints", 4, None),
        ([0, 1], [1024, 1024], "asym-prefer-prev@linux-6.12", 0, "all CPUs have one capacity"),
        ([0, 1], [1024, 512], "asym-prefer-prev", 0, None),
    ],
)
def test_what_a_machine_cannot_show_is_told(
    cores: list[int], capacities: list[int], instance: str, hints: int, expected: str | None
) -> None:
    class Machine:
        def read(self, _: str, columns: tuple[str, ...]) -> dict[str, Any]:
            return dict(zip(columns, (np.array(cores), np.array(capacities)), strict=True))

    notes = machine_notes(cast(Recording, Machine()), parse(instance), hints)
    assert notes == [] if expected is None else notes[0].startswith(expected)


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ({"irq_handler_entry": 1, "local_timer_entry": 1}, "device handlers (irq_handler_entry, exit) and irq_vectors"),
        ({"irq_handler_entry": 1, "sched_switch": 5}, "device handlers only, a lower bound"),
        ({"reschedule_entry": 3, "irq_handler_entry": 0}, "irq_vectors only, a lower bound"),
        ({"softirq_entry": 3}, "none recorded, so no CPU is heavy"),
    ],
)
def test_where_hardirq_time_comes_from(events: dict[str, int], expected: str) -> None:
    assert hardirq_source(events).startswith(expected)
