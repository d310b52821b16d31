# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake advise` on the bundled recording: one answer, honestly come by."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from advice_null import advised
from command import told
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

import rewake
from rewake import advising, runs
from rewake.analysis import advice
from rewake.analysis.text import columns
from rewake.cli._answers import path_shown
from rewake.replay.hints import HINT_PAIRS, Rule, dump, exactly, load
from rewake.replay.settings import Settings
from rewake.replay.spec import parse

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "fixtures" / "demo-split-llc-schbench" / "trace.dat"
SHARED = ROOT.parent / "shared" / "traces"

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Four stretches of the recording, as recordings."""
    from rewake.cli import main

    folder = tmp_path_factory.mktemp("parts")
    found = [folder / f"part{k}.rewake" for k in range(4)]
    for k, path in enumerate(found):
        window = f"{k * 250}ms..{k * 250 + 250}ms"
        assert main(["slice", str(DEMO), "--window", window, "-o", str(path)]) == 0
    return found


def test_hints_that_keep_tasks_in_their_llc(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    rules = tmp_path / "rules.toml"
    asked = ("advise", DEMO, "--objective", "cross-llc", "--trials", "4", "--seed", "1")
    text = told(capsys, *asked, "-o", rules)
    lines = text.splitlines()
    assert all(columns(line) <= 100 for line in lines if not line.startswith(("next:", "      ")))
    assert lines[0].startswith("Recommended: schbench-")
    assert "WAKE_HOLD" in lines[0]
    assert "modelled" in text and "what another run would say is not known" in " ".join(text.split())
    assert f"--policy userspace-hints@linux-6.1 --hints {rules}" in text

    data = json.loads(told(capsys, *asked, "--threads", "3", "--format", "json"))
    assert (data["trust"], data["no_hint"], data["judged_on_halves"]) == ("modelled", "linux-6.1", True)
    assert data["tried"] == len(data["trials"]) == 4
    assert "0 of 4 trials are left, and the next step takes" in data["left_out"][-1]
    judged = data["judged"]
    assert data["recommended"] == judged["setting"]
    assert judged["objective"]["high_pct"] < 0 > judged["objective"]["change_pct"]
    assert abs(judged["objective"]["change_pct"]) > judged["null_spread_pct"]
    assert [g["holds"] for g in judged["guards"]] == [True] * 3
    assert f"{judged['objective']['change_pct']:+.1f} % moves leaving LLC" in lines[0], "the same at any thread count"

    assert rules.read_text().endswith("\n\n" + data["rules"]) and list(data["settings"]["recordings"]) == [
        "demo-split-llc-schbench (first half)", "demo-split-llc-schbench (second half)"
    ]  # fmt: skip
    written = load(rules)
    assert {r.hints for r in written.rules} <= {("WAKE_HOLD",), ("WAKE_AFFINE",)}
    second = next(iter(data["checks"]))["recording"]
    assert second.endswith("(second half)")
    followed = ("simulate", DEMO, "--policy", "userspace-hints@linux-6.1", "--hints", rules, "--format", "json")
    base, held = (p for p in json.loads(told(capsys, *followed))["policies"] if p["kind"] in ("factual", "policy"))
    assert held["cross_llc_per_s"] < base["cross_llc_per_s"]


def test_the_search_never_sees_what_judges(
    parts: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[tuple[tuple[str, ...], int]] = []
    simulate = advising.Bench.simulate

    def watched(self: advising.Bench, candidates: Sequence[advising.Candidate]) -> Any:
        looked.append((self.names, len(candidates)))
        return simulate(self, candidates)

    monkeypatch.setattr(advising.Bench, "simulate", watched)
    asked = ("advise", *parts[:2], "--windows", "20ms", "--replicas", "1", "--objective", "cross-llc",
             "--guard", "p90+100%", "--trials", "4", "--format", "json")  # fmt: skip
    first = json.loads(told(capsys, *asked, "--judge", parts[2]))
    assert first["searched_on"] == ["part0", "part1"] and first["judged_on"] == ["part2"]
    sides = [names for names, _ in looked]
    assert sides == sorted(sides, key=lambda names: names == ("part2",)), "judged after all was searched"
    assert [n for names, n in looked if names == ("part2",)] == [3], "once: no hint, redrawn, the best"
    other = json.loads(told(capsys, *asked, "--judge", parts[3]))
    assert first["trials"] == other["trials"], "whatever is judged on, the search is the same"
    assert first["judged"]["objective"] != other["judged"]["objective"]


def test_of_several_recordings_the_later_half_judges(parts: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--trials", "0", "--sweep", "linux-6.1:SIS_UTIL=0,1", "--windows", "20ms", "--replicas", "1",
             "--objective", "p50", "--guard", "throughput-50%", "--format", "json")  # fmt: skip
    data = json.loads(told(capsys, "advise", *parts[:3], *asked))
    assert (data["searched_on"], data["judged_on"]) == (["part0", "part1"], ["part2"])
    assert [t["setting"] for t in data["trials"]] == ["linux-6.1:SIS_UTIL=0", "linux-6.1:SIS_UTIL=1"]
    same = data["trials"][1]
    assert (same["change_pct"], same["error_pct"]) == (0, 0), "as recorded: no hint itself"
    grid = json.loads(told(capsys, "advise", *parts[:2], "--trials", "0", "--sweep", "features", *asked[4:]))
    assert [t["setting"].split(":")[1] for t in grid["trials"]] == [
        "WA_IDLE=0",
        "WA_WEIGHT=0",
        "WA_BIAS=0",
        "SIS_UTIL=0",
    ]


def test_a_guard_keeps_a_setting_out(parts: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("advise", *parts[:2], "--trials", "0", "--sweep", "linux-6.1:SIS_UTIL=0", "--objective", "queue-wait",
             "--windows", "20ms", "--replicas", "1", "--format", "json")  # fmt: skip
    data = json.loads(told(capsys, *asked, "--guard", "migrations+100%"))
    assert data["recommended"] == "linux-6.1:SIS_UTIL=0", "it searches every CPU: less waiting, more moves"
    data = json.loads(told(capsys, *asked, "--guard", "migrations+1%", "--strict", code=6))
    assert (data["recommended"], data["judged"], data["trials"][0]["within"]) == (None, None, False)


def test_what_to_type_next_names_a_recording_and_passes_the_same_veto(
    parts: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--trials", "0", "--sweep", "linux-6.1:SIS_UTIL=0", "--objective", "queue-wait", "--windows", "20ms",
             "--replicas", "1", "--guard", "migrations+100%")  # fmt: skip
    for force in ((), ("--force",)):
        text = told(capsys, "advise", parts[0].parent, *asked, *force)
        shown = " ".join((path_shown(parts[3]), *force))
        assert f" simulate {shown} --policy linux-6.1:SIS_UTIL=0" in text, "of a directory, a recording in it"


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ((DEMO,), 2, "of REC again, or a part of it"),
        (("--judge", DEMO), 2, "of REC again, or a part of it"),
        (("--objective", "speed"), 2, "no objective named speed; there are p50, p90, p99, queue-wait"),
        (("--guard", "p99-5%"), 2, "of p99 more is worse"),
        (("--trials", "0"), 2, "nothing to try"),
        (("--trials", "0", "--sweep", "features", "-o", "x"), 2, "-o takes the rules of hints"),
        (("-o", "missing/rules.toml"), 2, "missing: no such directory"),
        (("--sweep", "linux-6.1:speed=1"), 2, "speed"),
        (("--sweep", "nothing:a=1,2"), 2, "nothing"),
        (("--windows", "10ms", "--window", "..200ms"), 2, "p99 needs 1,000 wakeups in a window"),
        (("--window", "5s.."), 2, "nothing there"),
        (("--judge", ROOT / "fixtures"), 2, "a directory without recordings"),
        (("--judge", ROOT / "fixtures" / "12cpu-buddy-hackbench" / "trace.dat", "--force", "--windows", "9us"), 2,
         "too short to simulate"),
        (("--window", "..5ms"), 4, "quality"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_said(
    capsys: pytest.CaptureFixture[str], arguments: tuple[Any, ...], code: int, said: str
) -> None:
    assert said in told(capsys, "advise", DEMO, *arguments, code=code)


def test_settings_that_make_no_difference_are_not_recommended(parts: list[Path]) -> None:
    opened = {p.stem: rewake.open(p)._opened for p in parts[:2]}
    quick = Settings(windows_ns=20_000_000, replicas=2)
    found = [
        a
        for *_, a in advised(
            "noise", "queue-wait", range(2), opened, tried=4, settings=quick, guards=("throughput-5%",)
        )
    ]
    assert all(len(a.trials) == 4 == len({t.change for t in a.trials}) for a in found), "each draws its own"
    assert sum(a.judged is not None and a.judged.recommended for a in found) == 0


@pytest.mark.slow
@pytest.mark.skipif(not SHARED.is_dir(), reason="the shared recordings are not here")
@pytest.mark.parametrize(("what", "objective"), [("hints", "p99"), ("noise", "p99"), ("noise", "cross-llc")])
def test_of_a_hundred_seeds_at_most_five_recommend_nothing_real(what: str, objective: str) -> None:
    names = ["split-llc-schbench-A", *(f"split-llc-schbench-A{k}" for k in range(2, 6))]
    opened = {name: rewake.open(SHARED / name / "trace.dat")._opened for name in names}
    found = [a for *_, a in advised(what, objective, range(100), opened)]
    assert sum(a.judged is not None and a.judged.recommended for a in found) <= 5


NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=15)


@hypothesis_settings(max_examples=60)
@given(st.lists(st.tuples(NAMES, st.sampled_from(HINT_PAIRS[1])), min_size=1, max_size=4), NAMES)
def test_a_rules_file_reads_back_whatever_the_names(
    tmp_path_factory: pytest.TempPathFactory, made: list[tuple[str, str]], other: str
) -> None:
    rules = tuple(Rule((hint,), comm=(exactly(name),)) for name, hint in made)
    file = tmp_path_factory.getbasetemp() / "rules.toml"
    file.write_text(dump(rules), encoding="utf-8")
    assert load(file).rules == rules
    for rule, (name, _) in zip(rules, made, strict=True):
        assert rule.matches(1, None, name, None)
        assert rule.matches(1, None, other, None) == (name == other)


def test_other_keys_read_back(tmp_path: Path) -> None:
    rules = (
        Rule((), cgroup=("/a/*", "b"), tgid=(5,), from_ns=1_500_000_001, to_ns=2 * 10**9),
        Rule(("FORK_SPREAD", "WAKE_HOLD"), tid=(1, 2)),
    )
    (tmp_path / "rules.toml").write_text(dump(rules))
    assert load(tmp_path / "rules.toml").rules == rules


def test_names_that_differ_in_numbers_share_their_hints(parts: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    opened = rewake.open(parts[0])._opened
    rows = [("worker-1", 60, 0), ("worker-22", 30, 0), ("b[1]", 5, 40), ("rare", 1, 0)]

    class Found:
        @staticmethod
        def dicts() -> list[dict[str, Any]]:
            return [dict(zip(("name", "wakeups", "forks"), row, strict=True)) for row in rows]

    monkeypatch.setattr(advising.sql, "run", lambda *_: Found)
    names, said = advising.hinted_names({"it": opened})
    wake = HINT_PAIRS[1]
    assert [(n.pattern, n.pairs) for n in names] == [("worker-*", (wake,)), ("b[[]1]", (wake, HINT_PAIRS[0]))]
    assert said[0].startswith("hints for 1 task name with fewer than 1 % of the placements")
    assert said[1].startswith("hints for forks of worker-*: fewer than 20 forks")
    monkeypatch.setattr(advising, "machine_notes", lambda *_: ["no SMT"])
    names, said = advising.hinted_names({"it": opened})
    assert [n.pairs for n in names] == [(), (HINT_PAIRS[0],)]
    assert said[0] == "hints for wakeups: no SMT"


def test_a_slice_is_simulated_and_keeps_its_numbers(parts: list[Path]) -> None:
    run = rewake.open(parts[1]).simulate("prev", windows="20ms")
    first = rewake.open(parts[1])._opened.first_decision
    joined = (
        "SELECT count(*), min(decision_id), bool_and(w.task = d.task) FROM woken w JOIN decision d USING (decision_id)"
    )
    n, least, same = run.sql(joined).fetchall()[0]
    assert n > 1000 and least >= first > 0 and same


def test_a_setting_is_simulated_as_simulate_does(parts: list[Path]) -> None:
    opened = rewake.open(parts[0])
    quick = Settings(windows_ns=20_000_000, replicas=2)
    auto = parse("linux-6.1")[0]
    bench = advising.Bench({"it": opened._opened}, auto, quick, advising.Options(advice.objective("p99"), ()))
    held = advising.Candidate(parse("userspace-hints@linux-6.1")[0], (Rule(("WAKE_HOLD",), comm=("*",)),))
    found = bench.simulate([advising.Candidate(auto), held, advising.Candidate(auto, drawn=1)])
    run = opened.simulate("userspace-hints@linux-6.1:hint=8", windows="20ms", replicas=2)
    names = ("window_id", "replica", "n", "p50_ns", "wait_ns", "cross_llc_per_1k")
    for ours, kind in zip(found, ("factual", "policy"), strict=False):
        theirs = run.query("simulate/windows").filter(f"kind = '{kind}'").select(*names).fetchall()
        assert sorted(tuple(w[n] for n in names) for ws in ours.values() for w in ws) == sorted(theirs)
    assert [w["wait_ns"] for ws in found[2].values() for w in ws] != [
        w["wait_ns"] for ws in found[0].values() for w in ws
    ]


def test_the_column_that_hints_are_put_on(parts: list[Path]) -> None:
    opened = rewake.open(parts[0])._opened
    assert runs.shared_column([opened]) == "linux-6.1"
    flips = advising.feature_flips([opened])
    assert {str(f) for f in flips} == {f"linux-6.1:{x}=0" for x in ("WA_IDLE", "WA_WEIGHT", "WA_BIAS", "SIS_UTIL")}
