# SPDX-License-Identifier: GPL-2.0-or-later
"""The four commands on real runs: one bundled recording, replayed; what is made of it stands for other recordings."""

from __future__ import annotations

import csv
import io
import json
import shutil
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from command import told

from rewake.cli import main
from rewake.forms import connect

FIXTURE = Path(__file__).parents[2] / "fixtures" / "demo-split-llc-schbench" / "trace.dat"

pytest.importorskip("scipy.stats")
pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, own_cache: None) -> Path:
    """`a`: six runs; `b`: the same with all modelled latencies of linux-6.1 half as long again; `other`: one of another
    recording. Six copies under six identities stand for six recordings."""
    here = tmp_path_factory.mktemp("runs")
    made = here / "made.run"
    assert main(["replay", str(FIXTURE), "--policy", "auto", "-o", str(made)]) == 0
    manifest = json.loads((made / "manifest.json").read_text())
    recording = Path(manifest["recording"]["path"])
    for n in range(6):
        copy = here / f"{n}.rewake"
        shutil.copytree(recording, copy, copy_function=_link)
        _edit(copy / "manifest.json", id=f"{n:064x}")
        for side in ("a", "b"):
            run = here / side / f"{n}.run"
            shutil.copytree(made, run)
            _edit(run / "manifest.json", recording={"path": str(copy), "id": f"{n:064x}"}, name=f"recording {n}")
            if side == "b":
                ledger, longer = run / "linux-6.1.parquet", run / "longer"
                connect().execute(
                    f"COPY (SELECT * REPLACE ((lo_ns * 1.5)::BIGINT AS lo_ns, (hi_ns * 1.5)::BIGINT AS hi_ns,"
                    f" false AS known) FROM '{ledger}') TO '{longer}' (FORMAT parquet)"
                ).fetchall()
                longer.replace(ledger)
    shutil.copytree(here / "a" / "0.run", here / "other" / "0.run")
    shutil.copytree(here / "0.rewake", here / "other.rewake", copy_function=_link)
    _edit(here / "other.rewake" / "manifest.json", id="f" * 64)
    _edit(here / "other" / "0.run" / "manifest.json", recording={"path": str(here / "other.rewake"), "id": "f" * 64})
    return here


def _link(source: str, target: str) -> None:
    if source.endswith("manifest.json"):
        shutil.copyfile(source, target)
    else:
        Path(target).symlink_to(source)


def _edit(manifest: Path, **given: object) -> None:
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | given))


def test_the_same_runs_are_the_same(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "compare", runs / "a", runs / "a")
    assert text.splitlines()[0].startswith("no regression found (") and "same" in text.splitlines()[0]
    assert text.splitlines()[1].startswith("paired by recording; n = 6 recordings; kernel 6.1.")


def test_a_regression_is_exit_3_in_every_form(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("compare", runs / "a", runs / "b", "--fail-on", "p99+5%")
    text = told(capsys, *asked, code=3)
    assert text.startswith("FAILED by p99+5%: 1 of ") and "regression (p99+5%)" in text
    assert all(len(line) <= 100 for line in text.splitlines())
    found = json.loads(told(capsys, *asked, "--format", "json", code=3))
    assert found["kind"] == "compare" and found["design"] == "paired" and found["n"] == [6, 6]
    assert found["failed"] == [{"policy": "linux-6.1", "metric": "p99", "gate": "p99+5%"}]
    (row,) = [f for f in found["findings"] if f["failed"]]
    assert row["effect_lo_pct"] > 5 and row["interval_low_pct"] > 0 and row["q"] <= 0.05
    rows = list(csv.DictReader(io.StringIO(told(capsys, *asked, "--format", "csv", code=3))))
    assert [r["failed"] for r in rows if r["metric"] == "p99"] == ["p99+5%"]

    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    xml = tmp_path / "gate.xml"
    assert main([*map(str, asked), "--junit-xml", str(xml), "--github", "--format", "markdown"]) == 3
    out, err = capsys.readouterr()
    assert "| linux-6.1 | p99 " in out and out == summary.read_text()
    assert err.startswith("::error title=regression%3A linux-6.1 p99::linux-6.1 p99: ") and err.count("\n") == 1
    assert "%25" in err and "% " not in err
    suite = ET.parse(xml).getroot()
    assert suite.get("failures") == "1" and int(suite.get("tests", 0)) == len(suite)
    (bad,) = [c for c in suite if c.find("failure") is not None]
    assert (bad.get("classname"), bad.get("name")) == ("linux-6.1", "p99")


def test_the_comparison_is_there_where_a_file_of_it_cannot_be_written(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path))
    missing = tmp_path / "none"
    for option, why in (
        (["--github"], f"{tmp_path}: Is a directory"),
        (["--junit-xml", str(missing / "gate.xml")], f"{missing}: no such directory"),
    ):
        assert main(["compare", str(runs / "a"), str(runs / "a"), *option]) in (1, 2)
        out, err = capsys.readouterr()
        assert out.startswith("no regression found (") and err == f"rewake: error: {why}\n"


def test_one_pair_is_within_run_only(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "compare", runs / "a" / "0.run", runs / "b" / "0.run", "--policy", "linux-6.1", code=3)
    assert text.splitlines()[1].startswith("WITHIN-RUN ONLY: one recording, blocks of time")
    found = json.loads(told(capsys, "compare", runs / "a" / "0.run", runs / "b" / "0.run", "--policy", "linux-6.1",
                            "--metric", "p999", "--format", "json"))  # fmt: skip
    assert [f["verdict"] for f in found["findings"]] == ["inconclusive"]


def test_strict_makes_6_of_inconclusive(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("compare", runs / "a" / "0.run", runs / "other", "--unpaired", "--metric", "p50", "--policy", "recorded")
    assert "inconclusive: n = 1 is too small" in told(capsys, *asked)
    told(capsys, *asked, "--strict", code=6)


def test_what_cannot_be_compared(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no recording in common" in told(capsys, "compare", runs / "a", runs / "other", code=2)
    assert "neither a run nor" in told(capsys, "compare", tmp_path, runs / "a", code=2)
    assert "METRIC+N%" in told(capsys, "compare", runs / "a", runs / "b", "--fail-on", "p99>5", code=2)
    assert "not in every run" in told(capsys, "compare", runs / "a", runs / "b", "--policy", "none", code=2)


def test_a_damaged_run_is_not_passed_over(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(runs / "a", tmp_path / "a")
    for damage in ("{", None):
        manifest = tmp_path / "a" / "3.run" / "manifest.json"
        manifest.unlink() if damage is None else manifest.write_text(damage)
        for asked in (
            ("compare", runs / "a", tmp_path / "a"),
            ("store", "add", tmp_path / "a", "--store", tmp_path / "s", "--date", "2026-11-01"),
        ):
            assert "3.run" in told(capsys, *asked, code=1)
    (tmp_path / "a" / "3.run").rename(tmp_path / "a" / "else")  # a directory of something else
    told(capsys, "compare", runs / "a", tmp_path / "a")


def test_simulations_are_neither_compared_nor_kept(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(runs / "a" / "0.run", tmp_path / "sim.run")
    _edit(tmp_path / "sim.run" / "manifest.json", mode="closed")
    for asked in (
        ("compare", tmp_path / "sim.run", tmp_path / "sim.run", "--strict"),
        ("store", "add", tmp_path / "sim.run", "--store", tmp_path / "s", "--date", "2026-11-01"),
    ):
        assert "a simulation, and only replays have figures" in told(capsys, *asked, code=2)


@pytest.fixture(scope="module")
def store(runs: Path) -> Path:
    """Twelve nights: `a`, then `b`."""
    where = runs / "store"
    for n in range(6):
        for side, day in (("a", n + 1), ("b", n + 7)):
            asked = ["store", "add", runs / side / f"{n}.run", "--store", where, "--suite", "load"]
            assert main([*map(str, asked), "--date", f"2026-11-{day:02d}", "--commit", f"c{day}"]) == 0
    return where


def test_store_trend_and_dashboard(runs: Path, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for module in ("altair", "vl_convert", "otava.analysis"):
        pytest.importorskip(module)
    again = ("store", "add", runs / "a" / "0.run", "--store", store, "--suite", "load", "--date", "2026-11-01",
             "--commit", "c1", "--format", "json")  # fmt: skip
    assert [a["added"] for a in json.loads(told(capsys, *again))["added"]] == [False]

    text = told(capsys, "trend", "--store", store, "--metric", "p99", code=3)
    assert "linux-6.1" in text and "2026-11-07" in text and "c7" in text and "6+6" in text
    found = json.loads(told(capsys, "trend", "--store", store, "--format", "json", code=3))
    changed = {(s["policy"], s["metric"]) for s in found["series"] if s["changes"]}
    assert ("linux-6.1", "p99") in changed and {p for p, _ in changed} == {"linux-6.1"}
    assert "still failing" in told(capsys, "trend", "--store", store, "--since", "2026-11-08")
    told(capsys, "trend", "--store", store, "--policy", "recorded")
    rows = list(csv.DictReader(io.StringIO(told(capsys, "trend", "--store", store, "--format", "csv", code=3))))
    assert {r["revision"] for r in rows} == {"c7"}

    site = tmp_path / "site"
    first = json.loads(told(capsys, "dashboard", "--store", store, "-o", site, "--format", "json"))
    assert first["written"] == 18 and (site / "index.html").is_file()
    assert told(capsys, "dashboard", "--store", store, "-o", site).endswith("0 files written, 18 unchanged\n")


def test_a_history_needs_a_date(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("store", "add", runs / "a" / "0.run", "--store", tmp_path / "s")
    assert "--date is missing" in told(capsys, *asked, code=2)
    assert "--date soon" in told(capsys, *asked, "--date", "soon", code=2)
    assert "--since soon: 2026-11-20" in told(capsys, "trend", "--store", tmp_path / "s", "--since", "soon", code=2)
    for option in ("--suite", "--machine", "--commit"):
        assert f"{option}: a name expected" in told(capsys, *asked, "--date", "2026-11-01", option, " ", code=2)
    assert not (tmp_path / "s").exists()
    assert "no store there" in told(capsys, "trend", "--store", tmp_path / "s", code=2)


@pytest.mark.parametrize(("module", "extra"), [("scipy.stats", "report"), ("altair", "report"), ("otava", "history")])
def test_a_missing_extra_is_named(
    module: str, extra: str, runs: Path, store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    for name in [n for n in sys.modules if n == module or n.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    history = ("dashboard", "--store", store, "-o", tmp_path / "site")
    asked = ("compare", runs / "a", runs / "b") if module == "scipy.stats" else history
    assert f"rewake[{extra}]" in told(capsys, *asked, code=1)
