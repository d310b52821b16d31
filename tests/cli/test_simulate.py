# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake simulate` on a bundled recording."""

from __future__ import annotations

import json
import re
from pathlib import Path

import duckdb
import numpy as np
import pytest
import tracedat
from command import told

from rewake.analysis.text import columns
from rewake.cli import main
from rewake.replay import costs

FIXTURES = Path(__file__).parents[2] / "fixtures"
DEMO = FIXTURES / "demo-split-llc-schbench" / "trace.dat"

pytestmark = pytest.mark.usefixtures("own_cache")


def test_simulate_says_how_far_it_can_be_trusted_and_what_it_found(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = tmp_path / "demo.run"
    text = told(capsys, "simulate", DEMO, "--policy", "prev", "-o", run)
    lines = text.splitlines()
    assert all(columns(line) <= 100 for line in lines if not line.startswith(("next:", "      rewake")))
    assert lines[2].startswith("Does the model reproduce what was recorded?")
    for name in ("V3 pinned ", "null model ", "V4 factual "):
        assert any(line.startswith(name) for line in lines), name
    assert "conservation checks: all hold" in " ".join(text.split())
    assert any(line.startswith("linux-6.1  (factual)") for line in lines)
    assert "modelled" in text
    assert told(capsys, "report", run) == text[: text.index("next: ")], "the same again, without simulating"
    assert told(capsys, "report", run, "--format", "csv").startswith("recording,kernel,policy,kind,n,")
    assert "no skill over prev" in told(capsys, "report", run, "--min-skill", "0", code=2)
    assert "no one-step decisions" in told(capsys, "export", run, "--perfetto", tmp_path / "p", code=2)
    data = json.loads(told(capsys, "simulate", DEMO, "--policy", "prev", "--threads", "3", "--format", "json"))
    assert (data["mode"], data["conservation_broken"]) == ("closed", 0)
    by_name = {p["policy"]: p for p in data["policies"]}
    assert by_name["prev"]["wake_per_s"] == 0, "prev never moves a wakeup"
    assert by_name["linux-6.1"]["p50_ns_vs_factual_pct"] == 0
    assert by_name["pinned"]["kind"] == "pinned"
    pinned, null, _ = data["checks"]
    assert pinned["figures"]["ks"] < null["figures"]["ks"], "the fair class is worth more than first come, first served"
    rows = json.loads(told(capsys, "query", run, "simulate/latency", "--format", "json"))
    shown = {row[0]: row for row in rows["rows"]}
    assert shown["prev"][rows["columns"].index("p50_ns")] == by_name["prev"]["p50_ns"], "the same at any thread count"


def test_a_run_that_left_the_recording_behind_is_refused_again_by_report(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run = tmp_path / "demo.run"
    told(capsys, "simulate", DEMO, "--policy", "prev", "-o", run)
    con = duckdb.connect()
    windows = run / "sim_window.parquet"
    con.execute(f"CREATE TABLE rows AS SELECT * REPLACE (arm >= 2 AS diverged) FROM read_parquet('{windows}')")
    con.execute(f"COPY rows TO '{windows}' (FORMAT parquet)")
    assert main(["report", str(run)]) == 4
    assert "of the windows left the recording behind" in capsys.readouterr().err
    assert "modelled" in told(capsys, "report", run, "--force")


def test_a_run_in_which_nobody_was_woken_has_its_rows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run = tmp_path / "demo.run"
    told(capsys, "simulate", DEMO, "--policy", "prev", "-o", run)
    woken = run / "woken.parquet"
    duckdb.execute(f"COPY (SELECT * FROM read_parquet('{woken}') LIMIT 0) TO '{tmp_path / 'none'}' (FORMAT parquet)")
    (tmp_path / "none").replace(woken)
    data = json.loads(told(capsys, "report", run, "--format", "json"))
    assert [(p["n"], p["queued"], p["p50_ns"], p["wait_p99_ns"]) for p in data["policies"]] == [(0, 0, None, None)] * 4
    assert re.search("V4 factual +- / ", told(capsys, "report", run))


def test_without_a_topology_nothing_is_said_of_llcs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "trace.dat").write_bytes(DEMO.read_bytes())
    run = tmp_path / "demo.run"
    text = told(capsys, "simulate", tmp_path / "trace.dat", "--policy", "waker", "-o", run)
    assert "no topology: searches, domains and costs of moves" in " ".join(text.split())
    data = json.loads(told(capsys, "report", run, "--format", "json"))
    names = ("cross_llc_per_s", "cross_node_per_s", "llc_idle_pct", "llc_over_100us_per_s")
    assert all(p[name] is None for p in data["policies"] for name in names)
    assert all(p["machine_idle_pct"] <= 100 for p in data["policies"])


def test_of_a_policy_of_another_fair_class_only_the_placement_is_simulated(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    short, newer = tmp_path / "short.rewake", FIXTURES / "cgroup-throttle-split-llc" / "trace.dat"
    told(capsys, "slice", DEMO, "--window", "..100ms", "-o", short)
    asked = [word for name in ("linux-6.0", "linux-7.2", "idle-thread-scan@linux-6.12") for word in ("--policy", name)]
    data = json.loads(told(capsys, "simulate", short, *asked, "--format", "json", "--force"))
    note = (
        "only the placement is simulated of linux-7.2 (EEVDF of 7.0 and later), idle-thread-scan@linux-6.12 (EEVDF with"
        " delayed dequeues): who runs next, preemption and slices stay those of the recorded kernel (CFS)"
    )
    assert note in data["notes"]
    told(capsys, "slice", newer, "--window", "..100ms", "-o", tmp_path / "newer.rewake")
    compared = ("validate", short, tmp_path / "newer.rewake", "--force")
    data = json.loads(told(capsys, *compared, "--format", "json"))
    assert data["policy_b"] == "linux-6.12"
    stays = "only the placement is simulated of linux-6.12 (EEVDF with delayed dequeues): who runs next, preemption and"
    assert data["notes"] == [f"{stays} slices stay those of A's kernel (CFS)"]
    assert f"O{stays[1:]} slices stay those of A's kernel (CFS)." in " ".join(told(capsys, *compared).split())


def test_moves_by_balancing_stand_beside_the_recorded_ones(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Of the factual run, in the same spans."""
    run = tmp_path / "demo.run"
    data = json.loads(told(capsys, "simulate", DEMO, "--policy", "auto", "-o", run, "--format", "json"))
    figures = next(c["figures"] for c in data["checks"] if c["kind"] == "factual")
    shown = " ".join(told(capsys, "report", run).split())
    pulls, periodic = ((figures[f"{n}_per_s"], figures[f"recorded_{n}_per_s"]) for n in ("newidle", "periodic"))
    assert pulls[1] > 0
    assert (
        "Moves by balancing in V4, simulated / recorded per second (not judged): to CPUs that go idle "
        f"{pulls[0]:.0f} / {pulls[1]:.0f}, periodically {periodic[0]:.0f} / {periodic[1]:.0f}."
    ) in shown
    spans = duckdb.execute(
        f"SELECT from_ns, to_ns FROM '{run}/sim_window.parquet' w JOIN '{run}/arm.parquet' a USING (arm) "
        "WHERE a.kind = 'factual'"
    ).fetchall()
    recording = json.loads((run / "manifest.json").read_text())["recording"]["path"]
    newidle = duckdb.execute(f"SELECT ts_ns FROM '{recording}/migrate/*.parquet' WHERE cause = 3").fetchnumpy()["ts_ns"]
    there = sum(((newidle >= begin) & (newidle < end)).sum() for begin, end in spans)
    assert pulls[1] == pytest.approx(there * 1e9 / sum(end - begin for begin, end in spans))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "--policy is missing"),
        (("--policy", "prev", "--windows", "soon"), "soon: expected a duration"),
        (("--policy", "prev", "--windows", "1us"), "too short to simulate"),
    ],
)
def test_what_cannot_be_simulated_is_said(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    assert main(["simulate", str(DEMO), *arguments]) == 2
    assert said in capsys.readouterr().err


def test_how_long_a_recording_has_to_be(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Four windows of 5 ms, behind which a twentieth is left: nobody asked for windows that short."""
    told(capsys, "slice", DEMO, "--window", "..18ms", "-o", tmp_path / "short.rewake")
    said = told(capsys, "simulate", tmp_path / "short.rewake", "--policy", "prev", "--force", code=2)
    assert re.search(r": 1[78]\.\d ms from its first switch to its last are too short to simulate: 21\.1 ms at", said)
    told(capsys, "slice", DEMO, "--window", "..22ms", "-o", tmp_path / "enough.rewake")
    told(capsys, "simulate", tmp_path / "enough.rewake", "--policy", "prev", "--force")


def test_without_a_wakeup_that_waited_there_is_nothing_to_judge(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    events = tracedat.schedule(3_000, 2)
    for table in events.values():
        for name in {"prio", "prev_prio", "next_prio"} & table.keys():
            table[name] = np.full_like(table[name], 50)
    trace, page = tmp_path / "real-time.dat", tmp_path / "page.html"
    tracedat.write(trace, events)
    asked = ("simulate", trace, "--policy", "prev", "--force", "-o", tmp_path / "a.run")
    said = " ".join(told(capsys, *asked).split())
    assert "validation says nothing: there was nothing to judge, for no wakeup was recorded that waited" in said
    assert "!" not in said
    data = json.loads(told(capsys, "report", tmp_path / "a.run", "--format", "json", "--force"))
    assert [(c["holds"], c["missed"]) for c in data["checks"]] == [(False, ["nothing to judge"])] * 3
    told(capsys, "report", tmp_path / "a.run", "--html", page, "--force")
    assert page.read_text().count("there was nothing to judge: no wakeup waited for a CPU") == 2


def test_a_damaged_time_makes_no_millions_of_windows(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A jump of eleven days is 500 million windows, of 2^63 ns more than any memory holds: said at once. Of a machine
    that was recorded for so long most seconds have a switch."""
    trace = tmp_path / "jump.dat"
    columns = tracedat.schedule(3_000, 2)
    middle = int(columns["sched_switch"]["ts"][len(columns["sched_switch"]["ts"]) // 2])
    for column in columns.values():
        column["ts"] = np.where(column["ts"] > middle, column["ts"] + 10**15, column["ts"])
    tracedat.write(trace, columns)
    said = told(capsys, "simulate", trace, "--policy", "prev", "--force", code=2)
    assert ": 277.8 h from its first switch to its last, and only 1 s of them have any: keep a part" in said
    assert "a time in it is damaged" in said


def test_a_long_recording_of_few_events_is_simulated(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One of a day has 43 million windows of 2 ms, and something happens in few of them. Here 8,810 are too many."""
    trace = tmp_path / "long.dat"
    columns = tracedat.schedule(6_000, 2)
    first = min(int(column["ts"].min()) for column in columns.values())
    for column in columns.values():
        column["ts"] = column["ts"] + (column["ts"] - first) // 100_000 * 19_900_000
    tracedat.write(trace, columns)
    arguments = ("simulate", trace, "--force", "--pin", "--format", "json")
    every = json.loads(told(capsys, *arguments, "-o", tmp_path / "every.run"))
    monkeypatch.setattr("rewake.replay.simulate.MOST_WINDOWS", 2_000)
    few = json.loads(told(capsys, *arguments, "-o", tmp_path / "few.run"))
    left_out = "windows of 2 ms in which nothing happens are left out: the recording is long"
    assert left_out in few["notes"] and left_out not in every["notes"]
    window = f"SELECT DISTINCT from_ns FROM '{tmp_path}/few.run/sim_window.parquet'"
    assert 0 < len(duckdb.sql(window).fetchall()) < 1_000
    woken = [
        duckdb.sql(
            f"SELECT w.* EXCLUDE window_id FROM '{tmp_path}/{run}.run/woken.parquet' w"
            f" JOIN '{tmp_path}/{run}.run/sim_window.parquet' USING (arm, window_id) WHERE from_ns IN ({window})"
            " ORDER BY ALL"
        ).fetchall()
        for run in ("every", "few")
    ]
    assert woken[0] == woken[1] and len(woken[1]) > 1_000
    monkeypatch.setattr("rewake.replay.simulate.MOST_WINDOWS", 500)
    said = told(capsys, *arguments, code=2)
    assert "windows of 2 ms in which anything happens are more than the 500 that can be simulated" in said


def test_a_recording_that_contradicts_itself_is_no_bug(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The clock of one of two CPUs is a second behind, which the quality card refuses."""
    trace = tmp_path / "behind.dat"
    columns = tracedat.schedule(8_000, 2)
    for column in columns.values():
        column["ts"] = np.where(column["cpu"] == 0, column["ts"], column["ts"] + 10**9)
    tracedat.write(trace, columns)
    assert main(["simulate", str(trace), "--policy", "prev", "--force"]) == 1
    assert capsys.readouterr().err.endswith("are worthless; the recording contradicts itself, see rewake check\n")


def test_hints_of_a_file_are_followed_by_those_that_follow_any(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\ncomm = "*"\nhints = ["WAKE_AFFINE"]\n')
    asked = ("--policy", "userspace-hints@linux-6.1", "--policy", "userspace-hints@linux-6.1:hint=4")
    given = ("simulate", DEMO, *asked, "--hints", rules, "--windows", "50ms")
    data = json.loads(told(capsys, *given, "--format", "json"))
    base, by_file, by_parameter = (p for p in data["policies"] if p["kind"] in ("factual", "policy"))
    figures = ("n", "p50_ns", "p99_ns", "wake_per_s", "cross_llc_per_s", "cycles_per_s")
    assert [by_file[f] for f in figures] == [by_parameter[f] for f in figures] != [base[f] for f in figures]
    assert data["hints"]["rules"][0]["decisions"] > 100
    assert "  1  WAKE_AFFINE: " in told(capsys, *given)
    assert told(capsys, "simulate", DEMO, "--policy", "prev", "--hints", rules, code=2).endswith(
        "none of these policies follows hints: userspace-hints does\n"
    )
    assert "--hints says nothing with --pin" in told(capsys, "simulate", DEMO, "--pin", "--hints", rules, code=2)


def test_no_policy_is_in_charge_of_a_pinned_run(capsys: pytest.CaptureFixture[str]) -> None:
    """It was left out of the table, and nothing said so."""
    asked = ("simulate", DEMO, "--pin", "--policy", "prev")
    assert "--policy says nothing with --pin: what was recorded is forced" in told(capsys, *asked, code=2)


def test_a_pinned_run_says_what_was_not_asked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run = tmp_path / "pinned.run"
    text = " ".join(told(capsys, "simulate", DEMO, "--pin", "-o", run).split())
    assert "as far as it goes: V4 was not asked (--pin)." in text
    assert "modelled throughout: recorded placement in short windows (1 replica)" in text
    assert "Balancing: as recorded." in text and "windows of at most" not in text
    told(capsys, "report", run, "--html", tmp_path / "p.html")
    assert "windows of at most" not in (tmp_path / "p.html").read_text()


def test_costs_are_there_where_nothing_tells_when_a_wakee_was_queued(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """perf sched records no sched_wakeup: latencies come out as recorded all the same, once as it is, and once as if it
    were not there."""
    monkeypatch.setattr(costs, "_TOLD", costs._UNTOLD)
    shared = FIXTURES.parents[1] / "shared" / "traces" / "split-llc-perfsched" / "perf.data"
    for trace in (DEMO, *([shared] if shared.exists() else [])):
        data = json.loads(told(capsys, "simulate", trace, "--policy", "auto", "--format", "json", "--force"))
        checks = {c["kind"]: c["figures"] for c in data["checks"]}
        # From a seed to the next the p90 of the demo's V4 is 8 to 21 % above what was recorded.
        bounds = [("pinned", "p50_ns", 0.1), ("pinned", "p90_ns", 0.2), ("pinned", "p99_ns", 0.2)]
        for kind, figure, off in [*bounds, ("factual", "p50_ns", 0.1), ("factual", "p99_ns", 0.2)]:
            figures = checks[kind]
            assert figures[figure] == pytest.approx(figures[f"recorded_{figure}"], rel=off)
        # perf itself seems to run on all CPUs that have no events yet, and is no task that waits beside idle ones.
        assert all(p["llc_idle_pct"] < 10 for p in data["policies"] if trace == shared and p["kind"] == "factual")
        assert [n for n in data["notes"] if n.startswith("no sched_wakeup")] == data["notes"][: trace == shared]


def test_validate_compares_arms_and_refuses_what_are_none(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    other = FIXTURES / "12cpu-buddy-hackbench" / "trace.dat"
    told(capsys, "slice", DEMO, "--window", "..500ms", "-o", tmp_path / "half.rewake")
    for arguments in ([DEMO, DEMO], [DEMO, other, "--a", DEMO], [DEMO, other, "--a", tmp_path / "half.rewake"]):
        assert main(["validate", *map(str, arguments), "--force"]) == 2
        assert "again, or a part of it: give different recordings" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["validate", str(tmp_path / "empty"), str(DEMO)]) == 2
    assert "a directory without recordings" in capsys.readouterr().err
    assert main(["validate", str(DEMO), str(other)]) == 2
    assert "of different machines (12 CPUs, 1 LLC" in capsys.readouterr().err
    data = json.loads(told(capsys, "validate", DEMO, other, "--force", "--format", "json"))
    assert (data["policy_a"], data["policy_b"], data["notes"]) == ("linux-6.1", "linux-6.1", [])
    assert {f["figure"] for f in data["figures"]} >= {"p50_ns", "cycles_per_s"}
    for figure in data["figures"]:
        assert figure["model"]["error"] == figure["null"]["error"], "the same column: the model says no change"
