# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake policies list` and `show`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rewake.analysis.text import columns
from rewake.replay import _engine, conformance

Run = Callable[..., tuple[int, str, str]]

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden"
POLICIES: dict[str, dict[str, Any]] = {p["name"]: p for p in _engine.policies()}
SEEDS = [name for name, p in POLICIES.items() if p["base"]]


def told(run: Run, *arguments: object) -> str:
    code, out, err = run("policies", *arguments)
    assert code == 0, err
    return out


def test_list_has_a_line_for_each(run: Run) -> None:
    lines = told(run, "list").splitlines()
    assert [line.split()[0] for line in lines[1 : lines.index("")]] == list(POLICIES)
    assert all(columns(line) <= 100 for line in lines)
    assert "irq-aware         seed       linux-4.12  2017-05-12  Linux 4.12 that passes over idle" in "\n".join(lines)
    found = {p["name"]: p for p in json.loads(told(run, "list", "--format", "json"))["policies"]}
    assert {p["kind"] for p in found.values()} == {"mainline", "seed", "reference"}
    assert [n for n, p in found.items() if p["kind"] == "seed"] == SEEDS
    assert told(run, "list", "--format", "csv").startswith("policy,kind,base,date,vectors,summary\n")


def test_show_golden(run: Run) -> None:
    assert told(run, "show", "linux-3.10") == (GOLDEN / "policies-show-linux-3.10.txt").read_text(encoding="utf-8")


def test_show_says_that_5_4_balances_wakeups_on_asymmetric_machines(run: Run) -> None:
    """sd_init() sets SD_BALANCE_WAKE below SD_ASYM_CPUCAPACITY, which 4.20 detects, until 5.6."""
    said = {n: told(run, "show", f"linux-{n}", "--format", "json") for n in ("4.19", "5.4", "5.9")}
    assert [n for n, text in said.items() if "BALANCE_WAKE" in text] == ["5.4"]


@pytest.mark.parametrize("name", POLICIES)
def test_show_fits_and_is_complete(name: str, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "bundled", lambda column: [])
    text = told(run, "show", name)
    assert all(columns(line) <= 100 for line in text.splitlines())
    data = json.loads(told(run, "show", name, "--format", "json"))
    if data["kind"] == "reference":
        return
    assert data["quirks"] and data["deviations"] and data["kernel"]
    for i in data["inputs"]:
        assert set(i["trust"].replace("else ", "").replace(" or ", " ").replace(",", "").split()) <= {
            "recorded", "reconstructed", "inferred", "modelled",
        }  # fmt: skip
    if data["kind"] == "seed":
        assert data["author"] and data["date"] and data["posting"] and data["base"] in POLICIES
        assert all(word in text.replace("\n", " ") for word in (data["author"], data["date"], data["base"]))
    if data["oracle_column"]:
        assert f"vectors of column {data['oracle_column']}; not run here, run `rewake policies check" in text


def test_show_runs_the_vectors_of_the_source_tree(run: Run) -> None:
    data = json.loads(told(run, "show", "idle-thread-scan", "--format", "json"))["conformance"]
    assert data["vectors"] == "fixtures/oracle"
    assert data["passed"] == sum(s["passed"] for s in data["scopes"]) > 1000
    assert data["failed"] == data["not_run"] == 0
    assert {s["scope"] for s in data["scopes"]} >= {"sis", "wake", "wake_affine", "fork_exec", "idlest_cpu"}


def test_show_runs_given_vectors(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    file = Path("fixtures/oracle/v6.1.sis.jsonl.zst")
    text = told(run, "show", "linux-6.1", "--vectors", file)
    assert f"column v6.1 of {file}: " in text
    assert " 0 failed, 0 not run" in text
    assert f"{file} holds no vector of column v6.0" in told(run, "show", "linux-6.0", "--vectors", file)
    rows = conformance.read_vectors(file).splitlines()
    wrong = json.loads(rows[0])
    wrong["out"]["cpu"] = (wrong["out"]["cpu"] + 1) % 2
    bad = tmp_path / "bad.jsonl"
    bad.write_text(json.dumps(wrong) + "\n" + rows[1].decode() + "\n")
    assert "1 passed, 1 failed, 0 not run" in " ".join(told(run, "show", "linux-6.1", "--vectors", bad).split())


def test_show_errors(run: Run) -> None:
    assert run("policies", "show", "nope")[0] == 2
    assert run("policies", "show", "linux-6.1", "--vectors", "/nonexistent")[0] == 2
