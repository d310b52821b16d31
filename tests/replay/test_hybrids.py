# SPDX-License-Identifier: GPL-2.0-or-later
"""Seeds on other columns: what they must share with the column and the seed, and where they have no meaning.

The conformance vectors of a column serve as machines and states: with a neutral setting a hybrid must decide them as
the column's kernel did, but for what the seed documents.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from world import World, schedules

from rewake.replay import _engine, conformance

ORACLES = Path(__file__).resolve().parents[2] / "fixtures" / "oracle"
TOPOLOGIES = {t["name"]: t for t in json.loads((ORACLES / "topologies.json").read_text())}
ORACLE = _engine.Oracle(list(TOPOLOGIES.values()))
POLICIES = {p["name"]: p for p in _engine.policies()}
SEEDS = {name: p["base"] for name, p in POLICIES.items() if p["base"]}
COLUMNS = [name for name, p in POLICIES.items() if not p["reference"] and not p["base"]]
REFUSED = {
    ("idle-thread-scan", "linux-4.12"): "no bound",
    **{("irq-aware", f"linux-{v}"): "whole groups" for v in ("3.8", "3.10", "4.5")},
    **{("userspace-hints", f"linux-{v}"): "has_idle_cores" for v in ("3.8", "3.10", "4.5")},
}


@cache
def _read(oracle: str, scope: str) -> list[dict[str, Any]]:
    return [json.loads(row) for row in conformance.read_vectors(ORACLES / f"{oracle}.{scope}.jsonl.zst").splitlines()]


def _vectors(column: str, *scopes: str) -> Iterator[dict[str, Any]]:
    return chain.from_iterable(_read(POLICIES[column]["oracle_column"], scope) for scope in scopes)


def _hybrids(seed: str) -> list[str]:
    """Columns with vectors on which the seed is a hybrid."""
    return [
        c for c in COLUMNS if POLICIES[c]["oracle_column"] and c != SEEDS[seed] and (seed, c) not in REFUSED
    ]  # fmt: skip


def _agrees(got: dict[str, Any], out: dict[str, Any]) -> bool:
    if "widened" in out:  # how far the kernel widens the mask is the cpuset's matter
        return True
    return all(got.get(k) == v for k, v in out.items() if k != "exit")


def test_every_seed_goes_on_every_column_where_it_has_a_meaning() -> None:
    for seed, base in SEEDS.items():
        for column in COLUMNS:
            if (seed, column) in REFUSED:
                with pytest.raises(ValueError, match=f"{seed} has no meaning on {column}: .*{REFUSED[seed, column]}"):
                    _engine.policy(f"{seed}@{column}")
                continue
            about = _engine.policy(f"{seed}@{column}")
            assert about["hybrid"] == (column != base)
            assert about == POLICIES[seed] if column == base else about["name"] == f"{seed}@{column}"
            own = [p["name"] for p in POLICIES[column]["params"]]
            assert [p["name"] for p in about["params"]][: len(own)] == own, "the column's parameters are the hybrid's"
            if about["hybrid"]:
                assert about["oracle_column"] is None
                assert about["deviations"][0].startswith("hybrid: ")
                assert column.removeprefix("linux-") in about["summary"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("prev@linux-6.1", "prev is no seed; those that a column takes are idle-thread-scan, wakeup-buddy"),
        ("linux-6.1@linux-6.0", "linux-6.1 is no seed"),
        ("irq-aware@linux-9", "no mainline column 'linux-9'; there are linux-3.8, "),
        ("irq-aware@", "no mainline column ''"),
        ("nobody@linux-6.1", "no policy 'nobody'"),
    ],
)
def test_what_is_no_hybrid_is_refused(name: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _engine.policy(name)


@settings(max_examples=15)
@given(schedules())
def test_a_seed_on_its_own_column_is_the_seed(world: World) -> None:
    if not world.events:
        return
    decisions = world.decisions()
    names = [*SEEDS, *(f"{seed}@{base}" for seed, base in SEEDS.items())]
    ledgers = decisions.replay(*names, same_llc=[(5, 50)]).ledgers
    assert ledgers[: len(SEEDS)] == ledgers[len(SEEDS) :]


@settings(max_examples=15)
@given(schedules())
def test_neutral_hybrids_replay_as_their_columns(world: World) -> None:
    """This machine has one capacity and no SMT, no task is hinted, and no interrupt is recorded."""
    if not world.events:
        return
    decisions = world.decisions()
    pairs = [
        (f"{seed}@{column}", column)
        for seed in ("irq-aware", "asym-prefer-prev", "userspace-hints")
        for column in ("linux-4.12.3", "linux-5.4", "linux-5.10", "linux-6.0", "linux-6.12", "linux-7.2")
        if column != SEEDS[seed]
    ]
    ledgers = decisions.replay(*(name for pair in pairs for name in pair)).ledgers
    for k, (hybrid, column) in enumerate(pairs):
        for ours, theirs in zip(ledgers[2 * k], ledgers[2 * k + 1], strict=True):
            assert (ours["cpu"], ours["branch"]) == (theirs["cpu"], theirs["branch"]), (hybrid, column)


@pytest.mark.parametrize("column", _hybrids("userspace-hints"))
def test_without_a_hint_the_column_decides(column: str) -> None:
    for vector in _vectors(column, "wake", "sis", "fork_exec"):
        assert _agrees(ORACLE.run(f"userspace-hints@{column}", vector), vector["out"]), vector


@pytest.mark.parametrize("column", _hybrids("irq-aware"))
def test_without_heavy_cpus_only_idle_cores_differ(column: str) -> None:
    """Of a wholly idle core the patch takes the last sibling, allowed or not, where the kernel takes the first met."""
    cores = 0
    for vector in _vectors(column, "wake", "sis", "fork_exec"):
        got, out = ORACLE.run(f"irq-aware@{column}", vector), vector["out"]
        if _agrees(got, out):
            continue
        smt = TOPOLOGIES[vector["topo"]]["smt"]
        core = next(core for core in smt if got.get("class_cpu", got["cpu"]) in core)
        assert out["exit"] in ("CORE", "SCAN"), vector
        assert out.get("class_cpu", out["cpu"]) in core, vector
        assert got.get("class_cpu", got["cpu"]) == max(core), vector
        assert got["hic"] == out["hic"], vector
        cores += 1
    assert cores > 5


@pytest.mark.parametrize("column", _hybrids("irq-aware"))
def test_a_heavy_cpu_is_taken_only_as_the_rules_say(column: str) -> None:
    """Every even CPU is heavy: the early exits never take one, a scan that ends by its bound takes no backup."""
    heavy_taken = differing = 0
    for vector in _vectors(column, "sis"):
        n = TOPOLOGIES[vector["topo"]]["ncpu"]
        heavy = vector | {"intrload": [int(c % 2 == 0) for c in range(n)], "intr_threshold": 0}
        got, out = ORACLE.run(f"irq-aware@{column}", heavy), vector["out"]
        differing += not _agrees(got, out)
        if got["exit"] in ("X1", "X2", "X4"):
            assert got["cpu"] % 2 == 1, vector
        heavy_taken += got["exit"] in ("CPU", "SMT", "SCAN", "CORE") and got["cpu"] % 2 == 0
        idle = {c for c in vector["idle"] if not vector["nr"][c] and c not in vector.get("pending", [])}
        soft = {c for c, k in enumerate(vector.get("idle_h", [])) if k and k == vector["nr"][c]}
        if got["exit"] not in ("TARGET", "X3", "X5", "X0", "X6"):
            assert got["cpu"] in idle | soft, vector
    assert heavy_taken and differing


@pytest.mark.parametrize("column", _hybrids("idle-thread-scan"))
def test_the_added_scan_comes_after_everything_else(column: str) -> None:
    found = 0
    for vector in _vectors(column, "sis"):
        topology = TOPOLOGIES[vector["topo"]]
        n = topology["ncpu"]
        name, out = f"idle-thread-scan@{column}", vector["out"]
        cold = vector | {"cfs_nr": [1] * n, "p_exec_start": 0, "clock_task": [10**9] * n}
        assert _agrees(ORACLE.run(name, cold | {"cfs_nr": [2] * n}), out), "a crowded target is not scanned"
        assert _agrees(ORACLE.run(name, cold | {"clock_task": [0] * n, "p_idle_policy": 0}), out) or (
            vector.get("p_idle_policy")
        ), "a hot task is not scanned"
        got = ORACLE.run(name, cold)
        if _agrees(got, out):
            continue
        assert (got["exit"], out["exit"]) in (("LINEAR", "TARGET"), ("LINEAR", "RING/TARGET")), vector
        llc = next(llc for llc in topology["llc"] if vector["target"] in llc)
        usable = set(vector["idle"]) - {c for c in range(n) if vector["nr"][c]} - set(vector.get("pending", []))
        usable -= set(vector.get("vcpu_preempted", []))
        if _usable_when_idle_policy(column, vector):
            usable |= {c for c, k in enumerate(vector.get("idle_h", [])) if k and k == vector["nr"][c]}
        assert got["cpu"] == min(usable & set(llc) & set(vector.get("allowed", topology["online"]))), vector
        found += 1
    assert found or column in ("linux-3.8",), "no vector leaves anything to the added scan"


def _usable_when_idle_policy(column: str, vector: dict[str, Any]) -> bool:
    major, minor = (int(v) for v in column.removeprefix("linux-").split(".")[:2])
    return (major, minor) >= (5, 4) and not ((major, minor) >= (7, 2) and vector.get("p_idle_policy"))


@pytest.mark.parametrize("column", _hybrids("asym-prefer-prev"))
def test_prefer_prev_is_for_asymmetric_machines(column: str) -> None:
    for vector in _vectors(column, "wake", "sis"):
        got, out = ORACLE.run(f"asym-prefer-prev@{column}", vector), vector["out"]
        if not TOPOLOGIES[vector["topo"]]["asym"] or column == "linux-5.10":
            assert _agrees(got, out), vector
        elif COLUMNS.index(column) > COLUMNS.index("linux-5.10") and not _agrees(got, out):
            kthread = vector.get("curr_kthread") and vector["prev"] == vector["waker"]
            assert kthread and got.get("class_cpu", got["cpu"]) == vector["prev"], "only X3 loses its question"


@pytest.mark.parametrize("column", [c for c in _hybrids("wakeup-buddy") if c != "linux-3.10"])
def test_buddies_are_pulled_by_the_columns_own_rule(column: str) -> None:
    """Unrelated tasks are searched from prev. Related ones are placed as the column does it, but where the waker runs
    alone, or the wakeup is on prev itself."""
    name = f"wakeup-buddy@{column}"
    buddies = {"p_waker": "curr", "p_wakee": "curr", "curr_waker": "p", "curr_wakee": "p"}
    buddies |= {f"{task}_{ref}_ref": 8 for task in ("p", "curr") for ref in ("waker", "wakee")}
    same = 0
    for vector in _vectors(column, "wake"):
        out = vector["out"]
        if vector["topo"] == "bw8" or "widened" in out or out["exit"] == "PINNED":
            continue
        alone = ORACLE.run(name, vector)
        from_prev = ORACLE.run(column, vector | {"scope": "sis", "target": vector["prev"]})
        assert alone["class_cpu"] == from_prev["cpu"], vector
        if vector["prev"] == vector["waker"] or vector["nr"][vector["waker"]] in (0, vector.get("sync", 0)):
            continue
        together = ORACLE.run(name, vector | buddies)
        assert _agrees(together, out), vector
        same += 1
    assert same > 15
