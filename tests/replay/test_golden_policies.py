# SPDX-License-Identifier: GPL-2.0-or-later
"""The golden examples of golden_policies.txt."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from rewake.replay import _engine
from rewake.replay.spec import parse

HERE = Path(__file__).parent
TOPOLOGIES = {t["name"]: t for t in json.loads((HERE.parents[1] / "fixtures/oracle/topologies.json").read_text())}
ORACLE = _engine.Oracle(list(TOPOLOGIES.values()))
UNBOUNDED = 1000
BUDDY_STEPS = "wakeups (WAKER>WAKEE, *N repeats the pair; X!: exec)"


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


def _column_vector(row: dict[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """A row of section [columns], with the words that the other sections do not have."""
    topology = TOPOLOGIES[row["topology"]]
    n, scope = topology["ncpu"], row["scope"]
    words = dict(w.partition("=")[::2] for w in row["state"].split())
    state = row["state"]
    if "free" in words:  # idle=-LIST: every CPU but these
        busy = {int(c) for c in words["idle"].removeprefix("-").split(",")}
        state = state.replace(f"idle={words['idle']}", "idle=" + ",".join(str(c) for c in range(n) if c not in busy))
    if row["target"] == "-":
        vector, after = _vector(scope, {k: v for k, v in row.items() if k != "target"} | {"state": state})
    else:
        vector, after = _vector(scope, row | {"state": state})
    vector["idle_stamp"] = [int(c in vector["idle"]) for c in range(n)]
    for word, field in (("delayed", "delayed"), ("utils", "util"), ("lat", "exit_latency"), ("stamp", "idle_stamp")):
        if word in words:
            vector[field] = _by_cpu(words[word], [-1 if word == "lat" else 0] * n)
    for word, field in (("hint", "hint"), ("avg_idle", "avg_idle"), ("cost", "avg_scan_cost")):
        vector[field] = int(words.get(word, 1_000_000 if word == "avg_idle" else 0))
    for word, field in (("group", "group"), ("hics", "hic")):
        if word in words:
            vector[field] = [int(c) for c in words[word].split(",")]
    heavy = [int(c) for c in words.get("heavy", "").split(",") if c]
    vector |= {"intrload": [int(c in heavy) for c in range(n)], "intr_threshold": 0}
    vector["p_idle_policy"] = int("p_idle" in words)
    vector["curr_flips"], vector["p_flips"] = (int(f) for f in words.get("flips", "0:0").split(":"))
    if "related" in words:
        vector |= {"p_waker": "curr", "p_wakee": "curr", "curr_waker": "p", "curr_wakee": "p"}
        vector |= {f"{task}_{ref}_ref": 8 for task in ("p", "curr") for ref in ("waker", "wakee")}
    if "all" in words:
        vector["util"] = [0 if c in vector["idle"] else int(words["all"]) for c in range(n)]
    if "nr2" in words:
        vector["nr"] = [2] * n
    vector["kind"] = "fork" if scope in ("fork_exec", "idlest_cpu") else "wake"
    if "hics'" in words:
        after["hic"] = [int(c) for c in words["hics'"].split(",")]
    if "cost'" in words:
        after["waker_scan_cost"] = int(words["cost'"])
    return vector, after


def _column_decisions() -> list[Any]:
    return [
        pytest.param(policy, cpu, row, id=f"{row['id']}-{policy}")
        for row in SECTIONS["columns"] + SECTIONS["hybrids"] + SECTIONS["parameters"]
        for policy, _, cpu in (d.rpartition("=") for d in row["decisions"].split())
    ]


@pytest.mark.parametrize(("policy", "cpu", "row"), _column_decisions())
def test_columns_and_seeds(policy: str, cpu: str, row: dict[str, str]) -> None:
    vector, after = _column_vector(row)
    (spec,) = parse(policy)
    got = ORACLE.run(spec.policy, vector, spec.params)
    if cpu in ("local", "remote"):
        llc = next(llc for llc in TOPOLOGIES[row["topology"]]["llc"] if vector["waker"] in llc)
        assert (got["cpu"] in llc) == (cpu == "local"), got
    else:
        assert got["cpu"] == int(cpu), got
    assert {k: got[k] for k in after} == after


@pytest.mark.parametrize("row", SECTIONS["intrload"], ids=lambda r: r["id"])
def test_interrupt_load(row: dict[str, str]) -> None:
    steps = [{"op": "tick", "cpu": 0, "hardirq_ns": int(ns)} for ns in row["hardirq ns of each tick"].split()]
    vector = {"scope": "estimator", "what": "intrload", "ncpu": 4, "hz": int(row["HZ"]), "steps": steps}
    got = ORACLE.run("irq-aware", vector)["steps"]
    assert [s["intrload"] for s in got] == [int(load) for load in row["intrload"].split()]
    assert got[-1]["threshold"] == 1000, "nothing is heavy before the first computation"


@pytest.mark.parametrize("row", SECTIONS["threshold"], ids=lambda r: f"{r['CPUs']}-{r['buckets']}")
def test_interrupt_threshold(row: dict[str, str]) -> None:
    vector = {"scope": "estimator", "what": "threshold", "ncpu": int(row["CPUs"])}
    vector["buckets"] = _by_cpu(row["buckets"], [0] * 10)
    assert ORACLE.run("irq-aware", vector) == {"threshold": int(row["threshold"])}


@pytest.mark.parametrize("row", SECTIONS["buddies"], ids=lambda r: r["id"])
def test_buddies(row: dict[str, str]) -> None:
    """BC1: nine wakeups each way make buddies; BC2 and BC3: another wakee or an exec unmakes them."""
    text = re.sub(r"\((.*?)\)\*(\d+)", lambda m: " ".join([m[1]] * int(m[2])), row[BUDDY_STEPS])
    steps = []
    for word in text.split():
        waker, wakee = (ord(t) - ord("A") for t in (word[0], word[-1] if word[-1] != "!" else word[0]))
        steps.append({"op": "exec" if waker == wakee else "wake", "waker": waker, "wakee": wakee})
    got = ORACLE.run("wakeup-buddy", {"scope": "sequence", "what": "buddy", "buddy_ref": 8, "steps": steps})["steps"]
    assert got[-1]["related"] == int(row["related before the last"])


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
    rows = {
        "sis": 50, "wake_affine": 10, "wake": 1, "should_scan": 3, "wake_wide": 4, "columns": 168, "hybrids": 29,
        "parameters": 11, "intrload": 9, "threshold": 10, "buddies": 6,
    }  # fmt: skip
    assert {k: len(v) for k, v in SECTIONS.items()} == rows


@pytest.mark.parametrize(("prev_load", "chosen"), [(1040, 1), (1053, 0)])
@pytest.mark.parametrize("isolated", [[], [3]])
def test_a_domain_within_a_core_has_the_imbalance_of_a_core(isolated: list[int], prev_load: int, chosen: int) -> None:
    """110 by the flag of sharing a core (sd_init() of 6.1), so the factor is 105 and an LLC's 108: also where isolcpus=
    or a cpuset took a sibling out of the core's domain. 1000 < 9.4 x 105 does not hold, 1000 < 9.53 x 105 does.
    """
    cores = [[0, 1, 2, 3], [4, 5, 6, 7]]
    spans = [[c for c in core if c not in isolated] for core in cores]
    llc = spans[0] + spans[1]
    levels = [{"name": "SMT", "spans": spans, "asym_spans": []}, {"name": "MC", "spans": [llc], "asym_spans": []}]
    topology = TOPOLOGIES["flat8"] | {"smt_active": 1, "smt": cores, "llc": [llc], "isolated": isolated}
    vector = {
        "topo": "flat8", "scope": "wake_affine", "kind": "wake", "waker": 0, "prev": 1, "task_cpu": 1, "idle": [],
        "nr": [1] * 8, "curr": "task", "load": [900, prev_load] + [0] * 6, "p_load": 100, "curr_load": 100,
    }  # fmt: skip
    oracle = _engine.Oracle([topology | {"levels": levels}])
    assert oracle.run("linux-6.1", vector)["cpu"] == chosen
