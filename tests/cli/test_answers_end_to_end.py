# SPDX-License-Identifier: GPL-2.0-or-later
"""The product on a bundled recording: raw trace in, table and figures out."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from command import told

from rewake.analysis.columns import KERNELS
from rewake.analysis.text import columns
from rewake.cli import main

FIXTURES = Path(__file__).parents[2] / "fixtures"
DEMO = FIXTURES / "demo-split-llc-schbench" / "trace.dat"
NO_COLUMN = FIXTURES / "cgroup-throttle-split-llc" / "trace.dat"
FIDELITY_KEYS = {
    "decisions", "agreement", "skill", "moved", "moved_agreement", "moved_precision", "llc_agreement", "llc_skill",
    "branches", "inputs_assumed_pct",
}  # fmt: skip


pytestmark = pytest.mark.usefixtures("own_cache")


def test_a_trace_alone_is_the_product(capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "replay", DEMO)
    lines = text.splitlines()
    assert all(columns(line) <= 100 for line in lines[: lines.index("")])
    assert lines[0].startswith("demo-split-llc-schbench  16 CPUs  2 LLCs  kernel 6.1.")
    assert lines[1].startswith("quality ok (lost 0.00 %)")
    assert lines[2].startswith("fidelity of linux-6.1: agreement ")
    for policy in ("recorded", "prev", "linux-6.1", "oracle-idle", "idle-thread-scan"):
        assert any(line.startswith(policy + " ") for line in lines), policy
    assert "Not counted, by class: " in text
    assert "next: rewake fidelity " in text
    assert re.search(r"^      rewake simulate \S+ --policy idle-thread-scan$", text, re.M), "exposed above the limit"
    assert "one-step" in text
    assert told(capsys, "replay", DEMO) == text, "the same bytes from the cache"


def test_what_to_type_next_simulates_what_was_asked_about(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The recorded kernel's column stands before it and is exposed, too."""
    rules = tmp_path / "my rules.toml"
    rules.write_text('[[rule]]\ncomm = "*"\nhints = ["WAKE_HOLD"]\n')

    def proposed(*asked: object) -> str:
        text = told(capsys, "replay", DEMO, *asked)
        (line,) = re.findall(r"^      rewake simulate \S+ (.*)$", text, re.M)
        return str(line)

    hinted = ("--policy", "userspace-hints", "--hints", rules)
    assert proposed(*hinted, "--max-exposure", 0) == f"--policy userspace-hints --hints '{rules}'"
    assert proposed(*hinted, "--max-exposure", 12) == f"--policy userspace-hints --hints '{rules}'"
    assert proposed("--policy", "linux-4.5", *hinted, "--max-exposure", 0) == "--policy linux-4.5"


def test_what_to_type_next_sees_the_same_machine_past_the_same_veto(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A trace without a snapshot beside it: the command to type next is refused or sees no LLCs without --topology."""
    trace = tmp_path / "trace.dat"
    trace.write_bytes(DEMO.read_bytes())
    machine = "pack:1 l3:2 core:4 pu:2"
    text = told(capsys, "replay", trace, "--policy", "linux-4.5", "--topology", machine)
    assert f"next: rewake fidelity {trace} --topology '{machine}'\n" in text
    assert f"      rewake simulate {trace} --topology '{machine}' --policy linux-4.5\n" in text
    short = tmp_path / "short.rewake"
    told(capsys, "slice", DEMO, "--window", "..30ms", "-o", short)
    text = told(capsys, "replay", short, "--policy", "linux-4.5", "--force")
    assert "quality REFUSED" in text
    assert f"next: rewake fidelity {short} --force\n" in text
    assert ".run --html report.html --force\n" in text


def test_what_to_type_next_can_be_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Below an odd folder, of a link whose topology lies beside it, and with all that the command itself was given."""
    folder = tmp_path / 'it\'s "odd" $HOME'
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "-a b.dat").symlink_to(DEMO)
    (folder / "topology.tar.gz").symlink_to(DEMO.with_name("topology.tar.gz"))
    rules = folder / "my rules.toml"
    rules.write_text('[[rule]]\ncomm = "*"\nhints = ["WAKE_HOLD"]\n')
    given = ("--policy", "userspace-hints", "--hints", rules, "--assume", "sync=0")

    def steps(*asked: object) -> list[list[str]]:
        text = told(capsys, *asked)
        lines = text[text.index("next: ") :].removeprefix("next: ").splitlines()
        found = [shlex.split(line) for line in lines]
        assert all(step[0] == "rewake" for step in found)
        return [step[1:] for step in found]

    replayed = steps("replay", *given, "--ignore-probes", "--max-exposure", 0, "--", "-a b.dat")
    assert replayed[0] == ["fidelity", "./-a b.dat", "--assume", "sync=0", "--ignore-probes"]
    assert replayed[1] == ["simulate", "./-a b.dat", *map(str, given[:2]), "--hints", rules.name, *map(str, given[4:])]
    simulated = steps(*replayed[1])
    assert simulated[-1] == ["replay", *replayed[1][1:]]
    for step in (*replayed, *simulated):
        told(capsys, *step)


def test_without_topology_or_kernel_the_figures_are_not_taken_for_findings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "trace.dat"
    trace.write_bytes(DEMO.read_bytes())
    for wanted in (("--as", "linux-6.1"), ("--identify",)):
        text = " ".join(told(capsys, "fidelity", trace, *wanted).split())
        assert "Columns and seeds then search no CPU" in text, wanted
        assert "Columns and seeds then search" not in told(capsys, "fidelity", DEMO, *wanted)


def test_figures_of_the_reference_policies_are_what_they_must_be(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(told(capsys, "replay", DEMO, "--format", "json"))
    by_name = {p["policy"]: p for p in data["policies"]}
    recorded, prev, oracle = (by_name[n] for n in ("recorded", "prev", "oracle-idle"))
    assert recorded["agreement"] == 1.0
    assert recorded["known_pct"] == 100.0
    assert recorded["exposed"] == recorded["self_collision"] == 0
    assert recorded["p99_lo_ns"] == recorded["p99_hi_ns"]
    assert prev["would_move"] == prev["cross_llc_prev"] == 0
    assert prev["skill"] == 0.0
    assert oracle["idle_missed_machine"] == 0
    assert {p["decisions"] for p in data["policies"]} == {data["recording"]["decisions"]}
    named = sum(row["decisions"] for row in data["counted"])
    assert named == data["recording"]["decisions"]
    for p in data["policies"]:
        assert p["near_both"] + p["leaves_prev"] + p["leaves_waker"] + p["leaves_both"] == p["decisions"]
        assert p["p99_hi_ns"] is None or p["p99_lo_ns"] <= p["p99_hi_ns"]


def test_a_null_is_always_shown(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(told(capsys, "replay", DEMO, "--policy", "linux-4.5", "--format", "json"))
    assert [p["policy"] for p in data["policies"]] == ["recorded", "prev", "linux-6.1", "linux-4.5"]


def test_a_run_with_a_name_reports_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "x.run"
    replayed = told(capsys, "replay", DEMO, "-o", run, "--policy", "random-idle", "--seed", 7, "--format", "csv")
    assert told(capsys, "report", run, "--format", "csv") == replayed
    again = tmp_path / "y.run"
    assert (
        told(capsys, "replay", DEMO, "-o", again, "--policy", "random-idle", "--seed", 7, "--format", "csv") == replayed
    )


def test_fidelity(capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(told(capsys, "fidelity", DEMO, "--format", "json"))
    assert set(data) >= FIDELITY_KEYS
    assert data["policy"] == "linux-6.1"
    assert 0.0 < data["skill"] < 1.0
    assert sum(b["decisions"] for b in data["branches"]) == data["decisions"]
    for b in data["branches"]:
        parts = [b[k] for k in ("agreed", "recorded_prev", "recorded_waker", "recorded_same_llc", "recorded_elsewhere")]
        assert sum(parts) == b["decisions"]
    assert 0.0 < data["inputs_assumed_pct"]["any"] <= 100.0
    assert max(data["inputs_assumed_pct"].values()) == data["inputs_assumed_pct"]["any"]
    text = told(capsys, "fidelity", DEMO)
    assert "the kernel" in text
    assert f"decisions on assumed inputs {data['inputs_assumed_pct']['any']:.1f} %" in " ".join(text.split())


def test_min_skill(capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "fidelity", DEMO, "--min-skill", "0.1")
    for command in ("fidelity", "replay"):
        assert main([command, str(DEMO), "--min-skill", "0.999"]) == 5
        assert re.search(r"skill 0\.\d+, at least 0\.999", capsys.readouterr().err)


def test_a_kernel_without_a_column(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(KERNELS, (6, 12))
    refused = told(capsys, "fidelity", NO_COLUMN, code=5)
    assert "no column for kernel 6.12" in refused
    assert "linux-6.8, linux-6.12, linux-7.2 (--as COLUMN)" in refused
    text = told(capsys, "replay", NO_COLUMN)
    assert "fidelity: none: no column for kernel 6.12" in text
    assert "idle-thread-scan" in text, "the rest runs"
    labelled = told(capsys, "fidelity", NO_COLUMN, "--as", "linux-6.1")
    assert "linux-6.1 (by --as)" in labelled
    assert json.loads(told(capsys, "fidelity", NO_COLUMN, "--as", "linux-6.1", "--format", "json"))["asked"] is True


def test_every_seed_replays_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "replay", DEMO)
    for seed in ("idle-thread-scan", "wakeup-buddy", "irq-aware", "asym-prefer-prev", "userspace-hints"):
        assert seed in text


def test_policies(capsys: pytest.CaptureFixture[str]) -> None:
    listed = told(capsys, "policies", "list")
    assert "linux-6.1" in listed
    assert all(columns(line) <= 100 for line in listed.splitlines())
    shown = told(capsys, "policies", "show", "idle-thread-scan")
    assert "Chris Mason" in shown
    assert "v4.5+seed1" in shown


def test_policies_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = FIXTURES / "oracle" / "v4.5.sis.jsonl.zst"
    data = json.loads(told(capsys, "policies", "check", good, "--format", "json"))
    assert data["ok"] is True
    assert data["passed"] > 0
    assert data["failed"] == 0
    assert {"column", "scope", "exit", "passed", "failed"} == set(data["rows"][0])
    odd = tmp_path / "odd.jsonl"
    odd.write_text('{"column": "v9.9", "scope": "sis", "topo": "smt8", "out": {}}\n')
    assert "no policy for column 'v9.9'" in told(capsys, "policies", "check", odd, code=1)
    told(capsys, "policies", "check", tmp_path / "none.jsonl", code=1)


def test_identify(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = told(capsys, "fidelity", DEMO, "--identify")
    assert all(columns(line) <= 100 for line in text.splitlines())
    flowing = " ".join(text.split())
    assert re.search(
        "ambiguous, from [0-9,]+ wakeups: the recording does not tell these columns apart: linux-5.15, 6.0, 6.1",
        flowing,
    )
    assert "identical decisions on this recording: linux-5.15 = 6.0 = 6.1" in text
    assert "recorded kernel, which took no part in this: linux-6.1: in the set" in text
    data = json.loads(told(capsys, "fidelity", DEMO, "--identify", "--format", "json"))
    assert (data["kind"], data["sync"]) == ("identify", "auto")
    assert data["column_in_set"] is data["instance_in_set"] is True
    assert {"linux-4.19", "linux-4.12", "linux-3.8"}.isdisjoint(data["columns"])
    assert data["telling"] >= data["moved"] > 1000
    assert {r["sync"] for r in data["under"]} == {"0", "1"}
    for c in data["candidates"]:
        assert c["low"] <= c["behind"] <= c["high"]
        assert c["in_set"] == (c["low"] <= 0)
    clear = json.loads(told(capsys, "fidelity", DEMO, "--identify", "--assume", "sync=0", "--format", "json"))
    assert clear["set"] == next(r["set"] for r in data["under"] if r["sync"] == "0")
    listed = told(capsys, "fidelity", DEMO, "--identify", "--format", "csv")
    assert len(listed.splitlines()) == 1 + sum(1 + len(c["same"]) for c in data["candidates"])
    monkeypatch.delitem(KERNELS, (6, 1))
    blind = json.loads(told(capsys, "fidelity", DEMO, "--identify", "--format", "json"))
    assert blind["candidates"] == data["candidates"], "the recorded kernel takes no part"
    told(capsys, "fidelity", DEMO, "--identify", "--as", "linux-6.1", code=2)
    for other in (["--min-skill", "0.5"], ["--inputs"], ["--budget"], ["--ignore-probes"]):
        told(capsys, "fidelity", DEMO, "--identify", *other, code=2)
