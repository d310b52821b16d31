# SPDX-License-Identifier: GPL-2.0-or-later
"""The report of a fleet: verdicts over made-up recordings with known effects, what is not counted, and the commands."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command import told

from rewake.analysis import fleet, fleetout, html
from rewake.errors import UsageError
from rewake.forms import FleetStore

BUCKET = 550
"""59.3 us; each step is 2 %."""


def rows(n: int, seed: int = 0, **given: Any) -> Iterator[list[dict[str, Any]]]:
    """A shard per recording: half of them on each of two machines. `better` moves less and has a p99 of 20 % less in
    all of them, `worse` one of 22 % more on the big machine alone."""
    rng = np.random.default_rng(seed)
    for i in range(n):
        big = i % 2 == 1
        noise = int(rng.integers(-10, 11))
        head = {
            "task": f"{i:032x}", "study": "s", "asked": "replay", "mode": "open", "uri": f"t{i}.dat", "seed": 0,
            "content": f"c{i}", "tool": "1", "workload": f"load {i % 3}", "kernel": "6.1.0", "cpus": 64 if big else 8,
            "machine": "64 CPUs, 8 LLCs" if big else "8 CPUs, 1 LLC",
        } | given  # fmt: skip
        out = []
        for policy, shift, moves in (("recorded", 0, 300), ("linux-6", 0, 300), ("better", -11, 200),
                                     ("worse", 10 if big else 0, 310)):  # fmt: skip
            own = 0 if policy in ("recorded", "linux-6") else int(rng.integers(-1, 2))
            bucket = BUCKET + noise + shift + own
            lists = {f"{side}_{k}": v for side in ("lo", "hi") for k, v in (("bucket", [bucket]), ("n", [5000]))}
            out.append(head | lists | {
                "policy": policy, "reference": policy == "recorded", "auto": policy == "linux-6", "decisions": 5000,
                "would_move": 5 * moves + int(rng.integers(-9, 10)), "agreed": 4500, "prev_agreed": 3000, "moved": 2000,
                "stacked": 100, "cross_llc_prev": 50, "idle_missed_llc": 40, "exposed": 100, "ranked": 5000,
                "no_estimate": 0, "scans": 0, "scanned": 0, "assumed": 0, "found": 6000,
            })  # fmt: skip
        yield out


def filled(where: Path, n: int = 16, **given: Any) -> FleetStore:
    store = FleetStore(where)
    for shard in rows(n, **given):
        store.put(shard[0]["task"], shard)
    return store


def built(store: FleetStore, **given: Any) -> fleet.Fleet:
    return fleet.build(store.connect(), store.where, **given)


def verdicts(found: list[fleet.Group]) -> dict[tuple[str, str, str], str]:
    return {(g.name, g.finding.policy, g.finding.measure.name): fleetout.verdict(g.finding) for g in found}


def test_who_wins_and_where_one_loses(tmp_path: Path) -> None:
    found = built(filled(tmp_path))
    overall = verdicts(found.overall)
    assert overall["all", "better", "p99"] == "better" and overall["all", "better", "would_move"] == "better"
    assert overall["all", "recorded", "p99"] == "same"
    by = verdicts(found.by_facet)
    assert by["64 CPUs, 8 LLCs", "worse", "p99"] == "worse"
    assert by["8 CPUs, 1 LLC", "worse", "p99"] in ("unchanged", "inconclusive", "same")
    assert by["8 CPUs, 1 LLC", "better", "p99"] == by["64 CPUs, 8 LLCs", "better", "p99"] == "better"
    first = found.changed("regression")[0]
    assert (first.facet, first.name, first.finding.policy) == ("machine", "64 CPUs, 8 LLCs", "worse")
    assert first.tally.worse == first.tally.n == 8
    assert not [k for k in by if k[0] == "6.1.0"], "a group of all recordings is no group"
    low, high = next(
        g.finding.interval_pct or (0, 0)
        for g in found.overall
        if (g.finding.policy, g.finding.measure.name) == ("better", "would_move")
    )
    assert -34 < low < high < -32.5, "200 against 300"
    assert found.worst[0].machine == "64 CPUs, 8 LLCs" and found.worst[0].policy == "worse"
    assert {s.policy for s in found.best} == {"better"}


def test_windows_and_seeds_are_one_recording(tmp_path: Path) -> None:
    """The same recordings in three tasks each: as many units, three times the decisions."""
    one = built(filled(tmp_path / "one"))
    store = FleetStore(tmp_path / "three")
    for k in range(3):
        for i, shard in enumerate(rows(16)):
            task = f"{k}{i:031x}"
            store.put(task, [row | {"task": task, "from_ns": 1000 * k} for row in shard])
    three = built(store)
    assert [g.finding.n for g in three.overall] == [g.finding.n for g in one.overall]
    assert {p["policy"]: p["decisions"] for p in three.policies} == {
        p["policy"]: 3 * p["decisions"] for p in one.policies
    }
    assert three.standing == {"counted": (48, 16)}


def test_a_recording_under_two_names_counts_once(tmp_path: Path) -> None:
    one = built(filled(tmp_path / "one"))
    store = filled(tmp_path / "two")
    for i, shard in enumerate(rows(16)):
        copy = {"task": f"c{i:031x}", "uri": f"copy/t{i}.dat"}
        store.put(copy["task"], [row | copy for row in shard])
    two = built(store)
    assert [(p["policy"], p["decisions"], p["p50_lo_ns"]) for p in two.policies] == [
        (p["policy"], p["decisions"], p["p50_lo_ns"]) for p in one.policies
    ]
    head = {"task": "f" * 32, "study": "s", "asked": "replay", "mode": "open", "seed": 0, "tool": "1"}
    broken = {"uri": "a-broken-copy.dat", "content": "c0", "error": "trace", "message": "cut off"}
    store.put("f" * 32, [head | broken])
    con = store.connect()
    assert "a-broken-copy.dat" in fleetout.table(fleet.build(con, store.where))
    named = con.execute("SELECT uri, workload FROM fleet_recording WHERE content = 'c0'").fetchall()
    assert named == [("copy/t0.dat", "load 0")]


def test_seeds_are_no_further_samples(tmp_path: Path) -> None:
    """A p99.9 takes 10,000 decisions of one seed, and 5,000 under three seeds are 5,000."""
    store = FleetStore(tmp_path / "seeds")
    for k in range(3):
        for shard in rows(1):
            store.put(f"{k:032x}", [row | {"task": f"{k:032x}", "seed": k} for row in shard])
    con = store.connect()
    fleet.build(con, store.where)
    found = con.execute(
        "SELECT policy, ranked, p99_lo_ns, p999_lo_ns FROM fleet_figure WHERE facet = 'all' AND policy = 'better'"
    ).fetchall()
    assert [(p, ranked, p99 is not None, p999) for p, ranked, p99, p999 in found] == [("better", 15_000, True, None)]


def test_what_does_not_count_is_told(tmp_path: Path) -> None:
    store = filled(tmp_path, 8)
    for i, (_, shard) in enumerate(zip(range(4), rows(4, seed=1), strict=True)):
        change: dict[str, Any] = [{"refused": "quality REFUSED (lost 3 %)"}, {"agreed": 3100}, {"auto": False}, {}][i]
        task = f"a{i:031x}"
        shard = [row | {"task": task, "content": f"x{i}", "uri": f"x{i}.dat"} | change for row in shard]
        if i == 3:
            shard = [{k: shard[0][k] for k in ("task", "study", "asked", "mode", "uri", "content", "seed", "tool")}
                     | {"error": "trace", "message": "cut off"}]  # fmt: skip
        store.put(task, shard)
    found = built(store)
    assert found.standing == {"counted": (8, 8), "refused": (1, 1), "unfaithful": (1, 1), "no column": (1, 1),
                              "failed": (1, 1)}  # fmt: skip
    text = fleetout.table(found)
    for said in ("NOT COUNTED, refused by the quality card: 1", "(skill below 0.5): 1", "no column stands", "cut off",
                 "x0.dat", "x1.dat", "x2.dat", "x3.dat", "lost 3 %"):  # fmt: skip
        assert said in text, said
    assert built(store, force=True).standing["counted"] == (9, 9)
    assert built(store, min_skill=None).standing["counted"] == (10, 10)


def test_a_failure_says_that_another_trace_of_its_name_was_done(tmp_path: Path) -> None:
    """Overwritten by a good one, or a good one overwritten; not what failed in another window of the same trace."""
    store = filled(tmp_path, 2)
    head = {"study": "s", "asked": "replay", "mode": "open", "seed": 0, "tool": "1", "error": "trace"}
    for i, (uri, content) in enumerate((("t0.dat", "broken"), ("t1.dat", "c1"), ("gone.dat", "x"))):
        key = f"f{i:031x}"
        store.put(key, [head | {"task": key, "uri": uri, "content": content, "message": f"{uri}: cut off"}])
    found = built(store)
    assert found.standing["failed"] == (3, 3)
    assert [row["message"] for row in found.failures] == [
        "gone.dat: cut off", "t0.dat: cut off (another trace of this name was done)", "t1.dat: cut off",
    ]  # fmt: skip


def test_windows_are_judged_together(tmp_path: Path) -> None:
    """Windows of 400 decisions: one is too few, three of a recording are enough, one under three seeds is not."""
    store = FleetStore(tmp_path)
    for i, shard in enumerate(rows(3)):
        for k in range((1, 3, 3)[i]):
            given = {"task": f"{i}{k:031x}", "found": 400, "from_ns": 1000 * k if i == 1 else 0, "seed": k}
            store.put(given["task"], [row | given for row in shard])
    found = built(store)
    assert found.standing == {"counted": (3, 1), "refused": (4, 2)}
    assert {a["why"] for a in found.apart} == {"too few decisions in all its windows"}


def test_several_studies_are_never_added_up(tmp_path: Path) -> None:
    store = filled(tmp_path, 6)
    for shard in rows(6):
        store.put("b" + shard[0]["task"][1:], [row | {"study": "t", "task": "b" + row["task"][1:]} for row in shard])
    with pytest.raises(UsageError, match=r"several studies.*--study s.*6 tasks"):
        built(store)
    assert built(store, study="t").tasks == 6
    with pytest.raises(UsageError, match="no such study"):
        built(store, study="u")


def test_nothing_is_claimed_of_few_recordings(tmp_path: Path) -> None:
    found = built(filled(tmp_path, 4))
    assert {g.finding.verdict for g in found.overall} <= {"inconclusive", "same"} and not found.by_facet
    assert "none was tested" in " ".join(fleetout.table(found).split())


@pytest.mark.slow
def test_null_policies_raise_no_alarm(tmp_path: Path) -> None:
    """20 fleets in which a policy differs from the kernel by noise alone."""
    alarms = 0
    for seed in range(20):
        store = FleetStore(tmp_path / str(seed))
        for shard in rows(12, seed=seed):
            kept = [row for row in shard if row["policy"] in ("recorded", "linux-6", "worse") and row["cpus"]]
            rng = np.random.default_rng(int(shard[0]["task"], 16) + 100 * seed)
            for row in kept:
                if row["policy"] == "worse":
                    row |= {f"{s}_bucket": [BUCKET + int(rng.integers(-5, 6))] for s in ("lo", "hi")}
                    row["would_move"] = 1500 + int(rng.integers(-90, 91))
                if row["policy"] == "linux-6":
                    row |= {f"{s}_bucket": [BUCKET + int(rng.integers(-5, 6))] for s in ("lo", "hi")}
                    row["would_move"] = 1500 + int(rng.integers(-90, 91))
            store.put(shard[0]["task"], kept)
        found = built(store, policies=["worse"])
        alarms += any(g.finding.verdict in ("regression", "improvement") for g in found.overall)
    assert alarms <= 3


def test_table_and_markdown_keep_names_harmless(tmp_path: Path) -> None:
    hostile = "a|b\x1b[2J</script>=cmd()" + "x" * 80
    found = built(filled(tmp_path, 16, uri=hostile, workload=hostile, kernel=hostile))
    text, markdown = fleetout.table(found), fleetout.markdown(found)
    assert "\x1b" not in text + markdown and "</script>" not in markdown
    assert all(len(line) <= 100 for line in text.splitlines()), [x for x in text.splitlines() if len(x) > 100]
    for line in markdown.splitlines():
        if line.startswith("|"):
            assert line.replace("\\|", "").count("|") in (6, 7, 8, 9, 10)


def test_where_hi_is_unbounded_only_the_record_has_one_figure(tmp_path: Path) -> None:
    """One hi of the own kernel's column is unbounded: its median is no single figure, and the record's is one."""
    store = FleetStore(tmp_path / "s")
    for shard in rows(8):
        for row in shard:
            if row["policy"] == "linux-6" and row["uri"] == "t0.dat":
                row["hi_bucket"], row["hi_n"] = [], []
        store.put(shard[0]["task"], shard)

    def medians(versus: str) -> dict[str, tuple[str, ...]]:
        overall = next(fleetout.sections(built(store, metrics=["p99"], versus=versus)))
        return {row[0]: row[2:4] for row in overall.rows}

    against = medians("auto")
    assert [text.endswith(", …]") for text in against["recorded"]] == [True, False]
    assert [text.endswith(", …]") for text in against["better"]] == [True, True]
    assert [text.endswith(", …]") for text in medians("recorded")["auto"]] == [False, True]


def test_a_page(tmp_path: Path) -> None:
    import re

    hostile = "</script><b>x"
    found = built(filled(tmp_path, 16, workload=hostile))
    page = html.fleet_page(found, "/* vega */", tool="1")
    assert hostile not in page and "&lt;/script&gt;" in page and "default-src 'none'" in page
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])  # type: ignore[index]
    drawn = {name: spec["data"]["values"] for name, spec in data["charts"].items()}
    assert set(drawn) == {f"change-{m}" for m in fleet.METRICS} | {"where-loses", "where-wins"}
    better = next(row for row in drawn["change-p99"] if row["policy"] == "better")
    assert 0.75 < better["low"] <= better["from"] <= better["high"] < 0.85 and better["verdict"] == "better"


def test_a_chart_tells_what_lies_beyond_its_axis(tmp_path: Path) -> None:
    """A change of 20 times is drawn at the end of the axis, 10, and told as it is; both ends of its interval are."""
    sync_api, browser = pytest.importorskip("playwright.sync_api"), shutil.which("chromium")
    if browser is None:
        pytest.skip("no chromium")
    store = FleetStore(tmp_path / "s")
    for i, shard in enumerate(rows(8)):
        for row in shard:
            row["stacked"] = (2000 + 20 * i) if row["policy"] == "worse" else 100
        store.put(shard[0]["task"], shard)
    found = built(store, metrics=["stacked"])
    effect, interval = next((g.finding.effect_pct, g.finding.interval_pct) for g in found.overall
                            if g.finding.policy == "worse")  # fmt: skip
    assert effect is not None and interval is not None
    page = tmp_path / "f.html"
    page.write_text(html.fleet_page(found, html.bundle(), tool="1"))
    with sync_api.sync_playwright() as driver:
        shown = driver.chromium.launch(executable_path=browser, args=["--no-sandbox", "--disable-gpu"]).new_page()
        shown.goto(page.as_uri())
        shown.wait_for_selector("html[data-drawn]", state="attached")
        drawn = {}
        for mark in shown.query_selector_all("#change-stacked .point_marks > path"):
            mark.hover(force=True)
            shown.wait_for_selector("#vg-tooltip-element.visible")
            told_of = dict(line.split("\t") for line in shown.inner_text("#vg-tooltip-element").splitlines())
            drawn[told_of["policy"]] = told_of, mark.bounding_box()["x"]
        frame = shown.query_selector("#change-stacked .role-frame > g > path").bounding_box()
    told_of, at = drawn["worse"]
    names = ("from", "to", "interval from", "interval to")
    said = [float(told_of[name].replace(",", "")) for name in names]
    assert said == pytest.approx([1 + pct / 100 for pct in (*effect, *interval)], rel=1e-3) and min(said) > 19
    assert at < frame["x"] + frame["width"], "drawn within the axis"


def test_a_dashboard(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a fleet store: the study, a page per facet, the machine where a policy loses; harmless, and written once."""
    monkeypatch.setattr("rewake.runs.vega", lambda: "/* vega */")
    hostile = "</script><b>x"
    store, out = filled(tmp_path / "store", 24, kernel=hostile).where, tmp_path / "site"
    store_of = ("dashboard", "--store", store, "-o", out)
    assert "5 files written, 0 unchanged" in told(capsys, *store_of, "--title", "a <fleet>")
    pages = {p.name: p.read_text() for p in out.iterdir()}
    assert set(pages) == {"index.html", "machine.html", "kernel.html", "workload.html", "month.html"}
    for page in pages.values():
        assert hostile not in page and "a &lt;fleet&gt;" in page and "default-src 'none'" in page
    values = json.loads(pages["index.html"].split('id="data">')[1].split("</script>")[0])["charts"]["where-loses"]
    worst = values["data"]["values"][0]
    assert (worst["policy"], worst["where"]) == ("worse", "worse: p99\n64 CPUs, 8 LLCs") and worst["from"] > 1.15
    first, other = pages["machine.html"].index("64 CPUs, 8 LLCs"), pages["machine.html"].index("8 CPUs, 1 LLC <")
    assert first < other, "the one with the largest loss comes first"
    assert "none was tested" in pages["kernel.html"] and "&lt;/script&gt;&lt;b&gt;x (24)" in pages["kernel.html"]
    assert "0 files written, 5 unchanged" in told(capsys, *store_of, "--title", "a <fleet>")
    assert "--suite" in told(capsys, *store_of, "--suite", "x", code=2)


def test_recordings_of_an_unknown_month_are_no_group_and_it_says_so(tmp_path: Path) -> None:
    """Eight of sixteen: enough, and not all."""
    store = FleetStore(tmp_path / "s")
    for i, shard in enumerate(rows(16)):
        store.put(shard[0]["task"], [row | {"made": "2026-11-20T00:00:00Z" if i < 8 else None} for row in shard])
    found = built(store)
    matrix = fleetout.matrix(found, "month")
    assert [b.name for b in matrix.blocks] == ["2026-11"] and matrix.untested == [("unknown", 8)]
    page = html.facet_page(found, "month", "month", tool="1", title="t")
    assert "or because it is not known of them: unknown (8)." in page


def test_where_the_only_large_group_is_unknown_no_known_one_is_said_to_be(tmp_path: Path) -> None:
    """Six of eight: "no group has 6 recordings" beside "unknown (6)" is untrue."""
    store = FleetStore(tmp_path / "s")
    for i, shard in enumerate(rows(8)):
        alike = {"kernel": "6.1", "machine": "8 CPUs, 1 LLC", "workload": "w"}
        made = "2026-11-20T00:00:00Z" if i < 2 else None
        store.put(shard[0]["task"], [row | alike | {"made": made} for row in shard])
    found = built(store)
    assert not found.by_facet and fleetout.matrix(found, "month").untested == [("2026-11", 2), ("unknown", 6)]
    assert "No known group by " in " ".join(fleetout.table(found).split())
    assert "No known group has 6 recordings" in html.facet_page(found, "month", "month", tool="1", title="t")


def test_a_dashboard_of_several_studies(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rewake.runs.vega", lambda: "/* vega */")
    store = FleetStore(tmp_path / "store")
    for study in ("one", "two"):
        for shard in rows(8, study=study, asked=f"asked <{study}>"):
            key = study[0] + shard[0]["task"][1:]
            store.put(key, [row | {"task": key} for row in shard])
    store.put("f" * 32, [{"task": "f" * 32, "study": "two", "asked": "asked <two>", "mode": "open", "uri": "gone.dat",
                          "seed": 0, "content": "x", "tool": "1", "workload": "w", "error": "trace",
                          "message": "gone"}])  # fmt: skip
    out = tmp_path / "site"
    body = json.loads(told(capsys, "dashboard", "--store", store.where, "-o", out, "--format", "json"))
    assert body["index"] == str(out / "index.html")
    index = (out / "index.html").read_text()
    assert 'href="one/index.html"' in index and "asked &lt;two&gt;" in index and "failed: 1 task of" in index
    assert 'href="../index.html"' in (out / "two" / "index.html").read_text()


def test_the_commands(traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "my fleet"
    wanted = ("fleet", "run", traces / "demo.rewake", traces / "garbled.dat", "--policy", "prev", "--cut", "20ms")
    run = (*wanted, "-o", store, "--workers", 2)
    out = told(capsys, *run)
    step = shlex.split(out.partition("next: ")[2].splitlines()[0])
    assert "2 traces, 5 tasks" in out and "4 done now, 1 failed now, 0 left" in out and "1 trace" in out
    body = json.loads(told(capsys, *run, "--format", "json"))
    assert (body["kind"], body["skipped"], body["done"], body["known_failures"]) == ("fleet", 5, 0, 1)
    told(capsys, *run, "--max-failed", "0", code=1)
    table = told(capsys, "fleet", "report", store, "--force")
    assert "counted: 4 tasks of 1 recording\n" in table and "NOT COUNTED, failed: 1 task of 1 recording\n" in table
    found = json.loads(told(capsys, "fleet", "report", store, "--format", "json", "--force"))
    assert found["kind"] == "fleet-report" and found["failures"][0]["uri"].endswith("garbled.dat")
    csv = told(capsys, "fleet", "report", store, "--format", "csv", "--force").splitlines()
    assert csv[0].startswith("facet,name,policy") and any(line.startswith("all,all,auto") for line in csv)
    assert "### " in told(capsys, "fleet", "report", store, "--format", "markdown")
    assert told(capsys, "fleet", "report", store, "--html", tmp_path / "f.html").strip() == str(tmp_path / "f.html")
    assert "failed" in told(capsys, "query", store, "fleet/standing")
    only_bad = ("fleet", "run", traces / "empty.dat", "-o", store, "--engine", "inline")
    assert "1 failed now" in told(capsys, *only_bad, code=1)
    assert "several studies" in told(capsys, "fleet", "report", store, code=2)
    assert told(capsys, *step[1:], "--force") == table


@pytest.mark.parametrize(("arguments", "what"), [
    (("--policy", "no-such"), "no-such"), (("--seed", "3..1"), "--seed"), (("--max-failed", "x"), "--max-failed"),
    (("--address", "tcp://x:1"), "--address"), (("--closed",), "--policy"), (("--memory", "lots"), "lots"),
    (("--cut", "soon"), "soon"), (("--windows", "50ms"), "--closed"),
    (("--engine", "dask", "--address", "x", "--workers", "2"), "--workers"),
])  # fmt: skip
def test_wrong_requests_are_told_before_anything_runs(
    arguments: tuple[str, ...], what: str, traces: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = told(capsys, "fleet", "run", traces / "demo.rewake", "-o", tmp_path / "s", *arguments, code=2)
    assert what in said and not (tmp_path / "s").exists()
