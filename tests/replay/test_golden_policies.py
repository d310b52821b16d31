# SPDX-License-Identifier: GPL-2.0-or-later
"""The golden examples of golden_policies.txt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rewake.replay import _engine

HERE = Path(__file__).parent
TOPOLOGIES = {t["name"]: t for t in json.loads((HERE.parents[1] / "fixtures/oracle/topologies.json").read_text())}
ORACLE = _engine.Oracle(list(TOPOLOGIES.values()))
UNBOUNDED = 1000


def _sections() -> dict[str, list[dict[str, str]]]:
    """Rows by section, each as {column title: cell}."""
    sections: dict[str, list[dict[str, str]]] = {}
    titles: list[str] = []
    for line in (HERE / "golden_policies.txt").read_text().splitlines():
        if line.startswith("["):
            name, _, head = line[1:].partition("] ")
            titles = [t.strip() for t in head.split("|")]
            rows = sections.setdefault(name, [])
        elif line and not line.startswith("#"):
            rows.append(dict(zip(titles, (c.strip() for c in line.split("|")), strict=True)))
    return sections


SECTIONS = _sections()


def _by_cpu(text: str, values: list[int]) -> list[int]:
    for pair in text.split(","):
        cpu, _, value = pair.partition(":")
        values[int(cpu)] = int(value)
    return values


def _vector(scope: str, row: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The row as a conformance vector, and the state that must be left behind."""
    topology = TOPOLOGIES[row["topology"]]
    n, prev = topology["ncpu"], int(row["prev"])
    words = dict(w.partition("=")[::2] for w in row["state"].split())
    cpus = {k: [int(c) for c in words[k].split(",")] for k in ("idle", "allowed", "pending", "sidle") if k in words}
    idle = cpus.get("idle", [])
    nr = [0 if c in idle else 1 for c in range(n)]
    if "nr" in words:
        _by_cpu(words["nr"], nr)
    waker = int(row.get("waker", "0"))
    scan = int(words.get("scan", UNBOUNDED))
    vector: dict[str, Any] = {
        "topo": row["topology"], "scope": scope, "kind": "wake", "waker": waker, "prev": prev, "task_cpu": prev,
        "idle": idle, "nr": nr, "curr": "idle" if waker in idle else "task", "sync": int("sync" in words),
        "load": _by_cpu(words["load"], [1024] * n) if "load" in words else [1024] * n,
        "cap": _by_cpu(words["cap"], list(topology["cap_orig"])) if "cap" in words else topology["cap_orig"],
        "cfs_nr": _by_cpu(words["cfs_nr"], list(nr)) if "cfs_nr" in words else nr,
        "idle_h": [nr[c] if c in cpus.get("sidle", []) else 0 for c in range(n)],
        "p_load": int(words.get("p_load", 1024)), "curr_load": int(words.get("curr_load", 1024)),
        "p_util": int(words.get("util", 0)), "p_recent": int(words.get("recent", prev)), "curr_recent": waker,
        "curr_kthread": int("kthread" in words), "in_task": int("softirq" not in words),
        "nr_idle_scan": [[llc[0], scan] for llc in topology["llc"]],
        "p_exec_start": 0, "clock_task": [0 if "hot" in words else 10**9] * n,
    }  # fmt: skip
    if "target" in row:
        vector["target"] = int(row["target"])
    if "kthread" in words:
        vector["curr_nr_allowed"] = 1
    if "hic" in words:
        vector["hic"] = [llc[0] for llc in topology["llc"] if vector["target"] in llc]
    vector |= {k: cpus[k] for k in ("allowed", "pending") if k in cpus}
    after: dict[str, Any] = {}
    if "recent'" in words:
        after["p_recent"] = int(words["recent'"])
    if "hic'" in words:
        after["hic"] = vector["hic"] if words["hic'"] == "1" else []
    return vector, after


def _decisions() -> list[Any]:
    return [
        pytest.param(scope, policy, row, id=f"{row['id']}-{policy}")
        for scope in ("sis", "wake_affine", "wake")
        for row in SECTIONS[scope]
        for policy in ("linux-4.5", "idle-thread-scan", "linux-6.1")
        if row.get(policy, "-") != "-"
    ]


@pytest.mark.parametrize(("scope", "policy", "row"), _decisions())
def test_decision(scope: str, policy: str, row: dict[str, str]) -> None:
    vector, after = _vector(scope, row)
    got = ORACLE.run(policy, vector)
    assert got["cpu"] == int(row[policy])
    if policy == "linux-6.1":
        assert {k: got[k] for k in after} == after


@pytest.mark.parametrize("row", SECTIONS["should_scan"], ids=lambda r: r["id"])
def test_should_scan(row: dict[str, str]) -> None:
    out, clock = (int(float(row[k]) * 1e6) for k in ("p switched out, ms", "run queue clock, ms"))
    vector = {
        "scope": "estimator", "what": "should_scan", "cfs_nr": 1, "fair": 1, "idle_policy": 0,
        "migration_cost": int(row["migration_cost, ns"]), "clock_task": clock, "exec_start": out,
    }  # fmt: skip
    assert ORACLE.run("idle-thread-scan", vector) == {"should_scan": int(row["idle-thread-scan scans"])}


def test_every_golden_example_is_run() -> None:
    """A table that lost its rows would pass silently."""
    rows = {"sis": 50, "wake_affine": 10, "wake": 1, "should_scan": 3, "wake_wide": 4}
    assert {k: len(v) for k, v in SECTIONS.items()} == rows
