# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/fidelity.md: the generator writes what rewake says, the page is whole, its figures fit each other."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import generator
import pytest
from click.testing import CliRunner

from rewake.analysis import sql
from rewake.cli import cli
from rewake.forms import ENUMS

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/fidelity"
GOLDEN = Path(__file__).parent / "golden_fidelity.txt"


make = generator.load(FOLDER)
measure, pairs, peers, targets = (sys.modules[name] for name in ("measure", "pairs", "peers", "targets"))
PROSE = make.tomllib.loads((FOLDER / "page.toml").read_text(encoding="utf-8"))
PAIRS = make.tomllib.loads((FOLDER / "pairs.toml").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs/fidelity.md").read_text(encoding="utf-8")


def section_of(page: str, section: str) -> str:
    return page.split(f"\n## {PROSE[section]['title']}\n", 1)[1].split("\n## ", 1)[0]


def table_of(text: str) -> list[dict[str, str]]:
    """Its table, one dictionary per line. Headings that occur twice get a number."""
    lines = [
        [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines() if line.startswith("| ")
    ]
    names = [n if n not in lines[0][:i] else f"{n} {i}" for i, n in enumerate(lines[0])]
    return [dict(zip(names, line, strict=True)) for line in lines[2:]]


def rows(page: str, section: str) -> list[dict[str, str]]:
    return table_of(section_of(page, section))


def value(cell: str) -> float | None:
    """A figure of the page; None where there is none. Anything else is an error."""
    if cell == make.NOTHING:
        return None
    found = re.fullmatch(r"(-?[\d,]+(?:\.\d+)?(?:e[+-]\d+)?)( %)?", cell)
    assert found, cell
    return float(found[1].replace(",", "")) / (100 if found[2] else 1)


# The page


def test_the_page_has_every_section_and_its_prose() -> None:
    titles = [PROSE[key]["title"] for key in (*make.SECTIONS, "made", "refused")]
    titles[-2:-2] = [*(PROSE[key]["title"] for key in make.APART), PAIRS["pairs"]["title"]]
    assert re.findall(r"^## (.*)$", PAGE, re.MULTILINE) == titles
    assert all(set(pair) == {"name", "a", "b"} and not set(pair["a"]) & set(pair["b"]) for pair in PAIRS["pair"])
    for section in (*PROSE.values(), PAIRS["pairs"]):
        assert (section if isinstance(section, str) else section["text"]).strip() in PAGE


def test_the_first_paragraph_names_the_machines_and_the_command() -> None:
    first, command = PAGE.split("\n\n", 3)[1:3]
    assert all(word in " ".join(first.split()) for word in ("QEMU", "exact virtual time", "without caches", "local-*"))
    assert "docs/fidelity/make.py -o docs/fidelity.md" in command


def test_every_recording_has_its_lines_in_every_table() -> None:
    names = [r["recording"] for r in rows(PAGE, "recordings")]
    assert len(names) == len(set(names)) > 0
    probed = {r["recording"] for r in rows(PAGE, "inputs")}
    for section in ("agreement", "budget", "causes"):
        listed = [(r["recording"], r["inputs"]) for r in rows(PAGE, section)]
        assert listed == [(n, i) for n in names for i in (("probes", "events") if n in probed else ("events",))]
    assert [r["recording"] for r in rows(PAGE, "from_events")] == names
    assert {r["recording"] for r in rows(PAGE, "with_probes")} == probed
    assert not set(names) & {r["recording"] for r in rows(PAGE, "refused")}


def test_the_jobs_of_recordings_on_the_page_are_there() -> None:
    for name, line in make.jobs(FOLDER / "jobs").items():
        assert (f"\n{line}\n" in PAGE) == (f"| `{name}` |" in PAGE)


@pytest.mark.parametrize("section", make.APART)
def test_recordings_of_sections_of_their_own_are_all_there_and_counted_in_no_other(section: str) -> None:
    """Every job that was chosen, whatever came of it; of the clocks, those that agree."""
    chosen = {
        n for n, line in make.jobs(FOLDER / make.APART[section]).items() if section != "clocks" or "QUANTUM" in line
    }
    summary, *tables = map(table_of, section_of(PAGE, section).split("\n### "))
    names = [{r["recording"].strip("`") for r in some} for some in tables]
    refused = {r["recording"].strip("`") for r in rows(PAGE, "refused")}
    assert names[0] == chosen - refused
    probed = {n for n in names[0] if "probed-" in n}
    assert names[1:4] == [probed, names[0], names[0]] and names[4] <= probed
    assert not chosen & refused or f"measures {len(names[0])} of the {len(chosen)}" in PAGE
    assert not {r["recording"].strip("`") for r in rows(PAGE, "recordings")} & chosen
    above = {r["target"]: r for r in rows(PAGE, "targets")}
    for r in summary:
        shares = [("hold, of those that tell", r)]
        shares += [("of the others above", above[r["target"]])] if section == "unseen" else []
        for share, counts in shares:
            held, failed = int(counts["hold"]), int(counts["fail"])
            assert r[share] == make.pct(make.share(held, held + failed), 0)


def test_figures_of_the_page_parse_and_fit_each_other() -> None:
    for r in rows(PAGE, "agreement"):
        figures = {k: value(v) for k, v in r.items() if k not in ("recording", "inputs")}
        agreement, prev, skill = figures["agreement"], figures["A_prev"], figures["skill"]
        assert agreement is not None and prev is not None and 0 <= agreement <= 1
        if skill is not None and prev < 0.99:
            assert skill == pytest.approx((agreement - prev) / (1 - prev), abs=0.002 / (1 - prev))
    agreements = {(r["recording"], r["inputs"]): value(r["agreement"]) for r in rows(PAGE, "agreement")}
    for r in rows(PAGE, "budget"):
        figures = {k: value(v) for k, v in r.items() if k not in ("recording", "inputs")}
        misses, decisions = figures["misses"], figures["decisions"]
        assert misses is not None and decisions
        assert 1 - misses / decisions == pytest.approx(agreements[r["recording"], r["inputs"]], abs=0.002)
        assert misses == sum(figures[k] or 0 for k in ("proven", "possible only", "neither"))
    words = ("recording", "inputs", "input", "origin")
    for r in (r for section in ("inputs", "forks", "throttled") for r in rows(PAGE, section)):
        for name, text in r.items():
            if name.endswith("holds"):
                assert re.fullmatch(r"yes|\*\*no\*\*|-|too short(: \d+ ms)?", text)
            elif "CPUs within" in name:
                assert re.fullmatch(r"\d+ of \d+", text)
            elif name not in words:
                value(text)
    for r in rows(PAGE, "causes"):
        for name in ("proven (placebo)", "possible (placebo)"):
            assert r[name] == make.NOTHING or re.fullmatch(r"(\w+ [\d,]+ \([\d,]+\)(, )?)+", r[name])


def test_verdicts_of_the_page_are_those_of_its_figures() -> None:
    for r in rows(PAGE, "with_probes"):
        agreement, _prev, skill, moved, _interval, *of_moved = list(r.values())[1:-1]
        least = targets.QUIET_SKILL if of_moved == [make.NOTHING] * 2 else targets.SKILL
        limits = (targets.AGREEMENT, least, targets.MOVED, targets.MOVED)
        limited = zip((agreement, skill, *of_moved), limits, strict=True)
        over = [x - limit for cell, limit in limited if (x := value(cell)) is not None]
        few = [targets.TOO_SHORT] if int(moved.replace(",", "")) < targets.FEW else []
        if min(over) < -0.001:  # away from a limit by more than the rounding
            assert r["holds"].startswith(make.NO) or r["holds"] in few
        elif min(over) > 0.001:
            assert r["holds"] in [make.YES, *few]


def counted(cells: list[str]) -> list[str]:
    """What the table of targets says of the verdicts in the cells of another table."""
    cells = [c for c in cells if c != make.NOTHING]
    held, failed, short = (sum(c.startswith(w) for c in cells) for w in ((make.YES, "≥"), "**", targets.TOO_SHORT))
    told = cells.count(targets.INPUT)
    assert held + failed + told + short == len(cells)
    return [str(n) for n in (len(cells), held, failed + told, told, short)]


@pytest.mark.parametrize("apart", [None, *make.APART])
def test_targets_count_what_the_tables_say(apart: str | None) -> None:
    if apart:
        summary, _, with_probes, from_events, _, inputs = map(table_of, section_of(PAGE, apart).split("\n### "))
        throttled = []
    else:
        names = ("targets", "with_probes", "from_events", "inputs", "throttled")
        summary, with_probes, from_events, inputs, throttled = (rows(PAGE, name) for name in names)
    cells = [
        [r["holds"] for r in with_probes],
        *([r[name] for r in from_events] for name in ("≥ 90 % holds", "aim", "where A_prev > 90 %")),
        *([r["target holds"] for r in inputs if r["input"] == name] for name in (*targets.INPUT_EXACT, "util")),
        [r["target holds"] for r in throttled],
    ]
    said = {r["target"]: list(r.values())[1:6] for r in summary}
    for target, some in zip((r["target"] for r in rows(PAGE, "targets")), cells, strict=True):
        every = not apart or "audit" not in target  # of the audit only what does not hold is listed there
        assert said.get(target, ["0"] * 5)[0 if every else 2 :] == counted(some)[0 if every else 2 :]


# The generator


def cause(name: str, proven: int, possible: int) -> dict[str, Any]:
    return {"input": name, "proven": proven, "proven_placebo": 1, "possible": possible, "possible_placebo": 0}


def misses(n: int, proven: list[str], first: int = 0) -> list[dict[str, Any]]:
    return [{"decision_id": k, "proven": proven} for k in range(first, first + n)]


def synthetic() -> list[Any]:
    """A probed throttled recording, an unprobed quiet one of the same workload, and one that was refused."""
    wake = {"kind": "wake", "decisions": 1000, "agreed": 970, "prev_agreed": 700, "llc_agreed": 990}
    fork = {"kind": "fork", "decisions": 8, "agreed": 6, "prev_agreed": 2, "llc_agreed": 8, "llc_prev_agreed": 4}
    kinds = {"wake": wake | {"llc_prev_agreed": 900}, "fork": fork}
    fidelity = {
        "policy": "linux-6.12", "decisions": 1000, "moved": 300, "agreement": 0.97, "prev_agreement": 0.7, "skill": 0.9,
        "moved_agreement": 0.93,
        "moved_precision": 0.91, "llc_skill": 0.7, "inputs_assumed_pct": {"any": 12.5}, "kinds": kinds,
    }  # fmt: skip
    worse = fidelity | {"agreement": 0.91, "skill": 0.7}
    quiet = fidelity | {"moved": 50, "agreement": 0.98, "prev_agreement": 0.95, "skill": 0.6}
    budget = {
        "decisions": 1000, "misses": 30, "proven": 0, "possible": 20, "unexplained": 10, "equivalent": 3,
        "open_order": 4, "order_agreement": 0.974, "order_answers": 1.01, "causes": [cause("idle", 0, 20)],
        "by_branch": [{"branch": "SCAN", "misses": 30, "open_order": 4}], "listed": misses(30, []),
    }  # fmt: skip
    listed = [*misses(45, ["flips"]), *misses(15, ["load"], 45), *misses(30, [], 60)]
    proven = budget | {
        "misses": 90, "proven": 60, "causes": [cause("load", 15, 3), cause("flips", 45, 0)], "listed": listed,
    }  # fmt: skip
    inputs = [
        {"input": "recent_cpu", "origin": "reconstructed", "decisions": 900, "exact": 0.995, "close": None,
         "error_p50": None, "error_p90": None, "error_p99": None, "r2": None, "probed_mean": None, "mean": None,
         "warm": 700, "warm_exact": 0.98},
        {"input": "flips", "origin": "inferred", "decisions": 900, "exact": 0.5, "close": None, "error_p50": None,
         "error_p90": None, "error_p99": None, "r2": None, "probed_mean": None, "mean": None, "warm": 499,
         "warm_exact": 1.0},
        {"input": "flips_carried", "origin": "reconstructed", "decisions": 900, "exact": 0.98, "close": None,
         "error_p50": None, "error_p90": None, "error_p99": None, "r2": None, "probed_mean": None, "mean": None,
         "warm": None, "warm_exact": None},
        {"input": "util", "origin": "reconstructed", "decisions": 900, "exact": 0.2, "close": 0.85, "error_p50": 1.5,
         "error_p90": 20.0, "error_p99": 1234.0, "r2": 0.99, "probed_mean": 300.0, "mean": 290.0,
         "warm": None, "warm_exact": None, "span_ns": 160_000_000},
    ]  # fmt: skip
    header = {"kernel": "6.12.1", "cpus": 2, "llcs": 2, "nodes": 1, "decisions": 1000}
    load = {"workload": "schbench -m 1", "background": "a | b", "topology": "t"}
    one = measure.Measured(
        "one", "one/trace.dat", load, header=header, probed=True,
        fidelity={"auto": fidelity, "blind": worse, "causal": worse, "zero": worse},
        budget={"auto": budget, "blind": proven},
        inputs=inputs, idle=measure.Idle([0.004, -0.02], 0.002, 0.001, [0.001, 0.002]),
    )  # fmt: skip
    two = measure.Measured(
        "two", "two/trace.dat", load | {"background": ""}, header=header | {"llcs": 1},
        fidelity={"auto": quiet, "causal": quiet, "zero": quiet}, budget={"auto": budget},
    )  # fmt: skip
    return [one, two, measure.Measured("three", "three/trace.dat", {}, refused="too short | too quiet")]


def test_page_of_known_figures() -> None:
    """Every section, verdict and number format of a page whose figures are given."""
    prose = {key: {"title": key, "text": "T"} for key in (*make.SECTIONS, *make.APART, "made", "refused")}
    one, two, three = synthetic()
    better = {"auto": one.fidelity["auto"] | {"moved_precision": 0.93}, "blind": two.blind | {"skill": 0.9}}
    names = list(make.jobs(FOLDER / "jobs.judges"))
    fresh = [
        replace(one, name=names[0], fidelity=one.fidelity | better, idle=None),
        replace(two, name=names[1]),
        replace(three, name=names[2]),
    ]
    text = make.page(prose | {"title": "P", "intro": "I"}, [one, two, three], [], fresh)
    assert text.splitlines() == GOLDEN.read_text(encoding="utf-8").splitlines()
    alone = make.page(prose | {"title": "P", "intro": "I"}, [one, two, three], [], [])
    assert "## unseen" not in alone and "## clocks" not in alone


def test_recordings_whose_clocks_agree_stand_beside_those_of_the_same_job_whose_do_not() -> None:
    def of(name: str, clocks: int) -> Any:
        said = {"emulation": f"QEMU: {clocks} instructions per round, 1 instruction = 1 ns"}
        return replace(one, name=name, meta=one.meta | said)

    prose = {key: {"title": key, "text": "T"} for key in make.APART}
    one, two, _ = synthetic()
    fine, coarse = "fine-probed-2x5-messaging-61", "probed-14cpu-messaging-61"
    lines = make.sections_apart(prose, [of(fine, 400), of(coarse, 2_000)], [of("above", 2_000), replace(two, name="x")])
    assert "## unseen" not in lines
    summary, recordings, *_ = map(table_of, "\n".join(lines).split("\n### "))
    assert [r["recording"] for r in recordings] == [f"`{fine}`"]
    alike = make.verdicts([of("above", 2_000), of(coarse, 2_000)])[summary[0]["target"]]
    assert summary[0]["of those whose clocks differ by 2 µs"] == make.pct(alike.count(True) / len(alike), 0)


def test_pairs_of_one_repeat_have_no_score() -> None:
    """They are judged by their errors alone."""

    def figure(score: float | None) -> dict[str, Any]:
        said = {"error": 0.1, "score": score, "covered": True, "low": 1.0, "high": 2.0}
        return {"model": said, "null": said | {"error": 0.2}, "one_step": None, "changed": 0.5, "null_spread": None,
                "sign_right": None}  # fmt: skip

    def said(*scores: float | None) -> dict[str, str]:
        lines = pairs.judged([{"figures": [figure(s) for s in scores], "a": [1], "b": [1]}])
        return {r["asked"]: r["found"] for r in table_of("\n".join(lines))}

    assert said(None)["mean error below that of *no change*"] == "10 % against 20 %, 1 figures"
    assert said(None)["score below that of *no change*"] == make.NOTHING
    assert said(None, 0.5)["mean score below that of *no change*"] == "0.50 against 0.50, 1 figures"


def test_generator_on_a_bundled_recording(tmp_path: Path) -> None:
    """What the page says of a recording is what rewake says of it."""
    name = "cgroup-throttle-split-llc"
    shutil.copytree(ROOT / "fixtures" / name, tmp_path / name)
    text = make.make([tmp_path])
    trace = str(tmp_path / name / "trace.dat")
    words = ["fidelity", trace, "--assume", "sync=auto", "--budget", "--format", "json"]
    said = json.loads(CliRunner().invoke(cli, words, catch_exceptions=False).stdout)
    (agreement,), (budget,), (idle,) = (rows(text, s) for s in ("agreement", "budget", "throttled"))
    assert agreement["agreement"] == make.pct(said["agreement"]) and agreement["skill"] == make.num(said["skill"])
    assert agreement["on assumed inputs"] == make.pct(said["inputs_assumed_pct"]["any"] / 100)
    assert value(budget["misses"]) == said["budget"]["misses"]
    assert "of 16" in idle["/proc/stat: CPUs within 0.5 %"]
    assert rows(text, "from_events")[0]["share"] == make.NOTHING  # nothing to compare with
    assert str(tmp_path) not in text


def test_a_recording_that_rewake_refuses_is_listed_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/trace.dat").write_bytes(b"nothing")
    (told,) = rows(make.make([tmp_path]), "refused")
    assert told["recording"] == "`broken`" and "broken/trace.dat" in told["reason"]
    assert str(tmp_path) not in told["reason"]


def test_no_recordings_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(make.Missing, match="no recordings"):
        make.make([tmp_path])


# The targets


@pytest.mark.parametrize(
    ("agreement", "prev", "skill", "recall", "precision", "failed"),
    [
        (0.97, 0.5, 0.94, 0.95, 0.95, []),
        (0.95, 0.5, 0.90, 0.95, 0.95, ["agreement"]),
        (0.97, 0.8, 0.85, 0.91, 0.90, ["skill", "recall", "precision"]),
        (0.97, 0.8, None, None, 0.95, ["skill", "recall"]),
        (0.97, 0.95, 0.4, 0.1, 0.1, ["skill"]),  # 3 of 5 per cent missed
        (0.98, 0.95, 0.6, 0.1, 0.1, []),
        (1.0, 1.0, None, None, None, ["skill"]),  # without a moved wakeup it is too short, too
    ],
)
def test_targets_with_probes(
    agreement: float, prev: float, skill: float | None, recall: float | None, precision: float | None, failed: list[str]
) -> None:
    fidelity = {
        "agreement": agreement, "prev_agreement": prev, "skill": skill, "moved_agreement": recall,
        "moved_precision": precision,
    }  # fmt: skip
    assert targets.with_probes(fidelity) == failed


@pytest.mark.parametrize(("misses", "moved"), [(2, 6), (0, 12), (9, 8), (495, 4062)])
def test_interval_of_a_skill(misses: int, moved: int) -> None:
    stats = pytest.importorskip("scipy.stats")
    fidelity = {"decisions": 20_606, "agreement": 1 - misses / 20_606, "moved": moved}
    share = stats.binomtest(misses, misses + moved).proportion_ci(0.95, "exact")
    low, high = targets.skill_interval(fidelity)
    assert (low, high) == tuple(pytest.approx(1 - s / (1 - s), abs=1e-6) for s in (share.high, share.low))
    assert low < 1 - misses / moved <= high
    assert targets.skill_interval(fidelity | {"moved": 0}) is None


GOOD = {
    "agreement": 0.97, "prev_agreement": 0.7, "decisions": 1000, "moved": 300, "skill": 0.9, "moved_agreement": 0.95,
    "moved_precision": 0.95,
}  # fmt: skip


@pytest.mark.parametrize(
    ("misses", "moved", "limit", "tells"),
    [
        (1, 8, 0.9, False),
        (0, 8, 0.9, False),
        (7, 8, 0.9, True),
        (7, 8, 0.5, False),
        (1, 1, 0.9, False),
        (9, 10, 0.9, True),
        (0, 0, 0.9, False),
    ],
)
def test_a_handful_of_moved_wakeups_tells_only_what_is_clear(
    misses: int, moved: int, limit: float, tells: bool
) -> None:
    assert targets.tells({"decisions": 1000, "agreement": 1 - misses / 1000, "moved": moved}, limit) == tells


def test_a_handful_of_moved_wakeups_is_too_short_for_every_target() -> None:
    few = GOOD | {"prev_agreement": 0.994, "agreement": 1.0, "moved": 6, "skill": 1.0}
    assert targets.probed_target(few) == targets.TOO_SHORT
    assert targets.probed_target(few | {"prev_agreement": 0.985, "moved": 15}) is True
    assert targets.probed_target(few | {"agreement": 0.95}) is False, "agreement is of all wakeups"
    assert targets.aimed(few, 0.8) == targets.TOO_SHORT
    assert targets.aimed(few | {"moved": 10}, 0.8) is True
    assert targets.probed_target(few | {"prev_agreement": 1.0, "moved": 0, "skill": None}) == targets.TOO_SHORT


@pytest.mark.parametrize(
    ("more", "cells"),
    [
        ({"skill": 0.85}, ["≥ 0.80", "-"]),
        ({"skill": 0.75}, ["**< 0.80**", "-"]),
        ({"prev_agreement": 0.95, "skill": 0.75}, ["**< 0.80**", "≥ 0.50"]),
        ({"prev_agreement": 0.95, "skill": 0.45}, ["**< 0.80**", "**< 0.50**"]),
        ({"prev_agreement": 0.994, "agreement": 1.0, "moved": 6, "skill": 1.0}, ["too short", "too short"]),
        ({"prev_agreement": 1.0, "agreement": 1.0, "moved": 0, "skill": None}, ["-", "-"]),
    ],
)
def test_what_is_asked_of_a_skill_and_whether_it_is_reached(more: dict[str, Any], cells: list[str]) -> None:
    assert make.aims(recording("m", "schbench", "t", "6.1", False, fidelity=GOOD | more), []) == cells


def test_probed_recordings_of_a_handful_of_moved_wakeups_tell_no_share() -> None:
    mine = recording(
        "m", "barrier", "t", "6.1", False, fidelity=GOOD | {"agreement": 0.98, "moved": 30, "skill": 1 / 3}
    )
    idle = GOOD | {"prev_agreement": 0.997, "agreement": 1.0, "moved": 3, "skill": 1.0}
    probed = [recording(name, "barrier", "t", "6.1", True, fidelity=idle) for name in ("x", "y")]
    more = [recording(name, "barrier", "t", "6.1", True, fidelity=idle | {"moved": 30}) for name in ("x", "y")]
    for found in probed + more:
        found.budget["auto"] = {"misses": 0, "listed": []}
        found.budget["blind"] = {"misses": 0, "listed": []}
    assert peers.holds(mine, probed) == targets.TOO_SHORT, "none of six missed, which may well be by chance"
    assert peers.holds(mine, more) is False
    mine.fidelity["auto"] |= {"agreement": 1.0, "skill": 1.0}
    assert peers.holds(mine, probed) is True, "wherever their skill is"
    mine.fidelity["auto"] |= {"agreement": 0.9, "skill": -2.0}
    assert peers.holds(mine, probed) is False


def test_a_quiet_recording_has_half_of_prevs_misses_or_says_why_not() -> None:
    quiet = GOOD | {"prev_agreement": 0.98, "moved": 20}
    mine = recording("m", "pipe", "t", "6.1", False, fidelity=quiet | {"agreement": 0.99, "skill": 0.5})
    assert peers.quiet_holds(mine, []) is True
    mine.fidelity["auto"] |= {"agreement": 0.985, "skill": 0.25}
    assert peers.quiet_holds(mine, []) is False
    mine.header["llcs"] = None
    assert peers.quiet_holds(mine, []) == targets.INPUT, "without a topology nothing is searched"
    mine.header["llcs"] = 1
    mine.fidelity["auto"] |= {"agreement": 0.999, "prev_agreement": 0.999, "moved": 1, "skill": 0.0}
    assert peers.quiet_holds(mine, []) == targets.TOO_SHORT


def recording(name: str, workload: str, topology: str, kernel: str, probed: bool, **more: Any) -> Any:
    """`more`: llcs; arch; fidelity, with probes; blind, without."""
    uname = f"Linux (none) {kernel} #1 SMP {more.get('arch', 'x86_64')} GNU/Linux"
    meta = {"workload": workload, "topology": topology, "kernel": uname, "background": more.get("beside", "")}
    if clocks := more.get("clocks"):
        meta["emulation"] = f"QEMU TCG, parallel-quantum icount: {clocks} instructions per round, 1 instruction = 1 ns"
    header = {"kernel": kernel, "llcs": more.get("llcs", 1)}
    ways = {"auto": more.get("fidelity", GOOD)} | ({"blind": more.get("blind", GOOD)} if probed else {})
    return measure.Measured(name, "", meta, header=header, probed=probed, fidelity=ways)


def test_a_recording_is_compared_with_the_nearest_probed_ones() -> None:
    mine = recording("mine", "schbench -t 9", "t", "6.1.2", False, llcs=2)
    arm = recording("arm", "schbench -t 9", "t", "6.1.2", True, llcs=2, arch="aarch64")
    loads = [recording(name, "hackbench", "t", "6.1.2", True) for name in ("x", "y")]
    idle = GOOD | {"prev_agreement": 0.95}
    order = [
        recording("quiet", "schbench", "t", "6.1.9", True, llcs=2, fidelity=idle),
        recording("far", "schbench", "u", "6.12.9", True, llcs=8),
        recording("llcs", "schbench", "v", "6.12.9", True, llcs=3),
        recording("kernel", "schbench", "w", "6.1.9", True, llcs=3),
        recording("machine", "schbench", "t", "7.2.1", True, llcs=2),
        recording("line", "schbench -t 9", "v", "7.2.1", True, fidelity=idle),
        recording("twin", "begin schbench -t 9", "t", "6.1.9", True, llcs=2),
    ]
    assert peers.peers(mine, loads) == []
    for n in range(len(order)):
        assert peers.peers(mine, [arm, *loads, *order[: n + 1]]) == [order[n]], order[n].name
    assert peers.peers(mine, [arm, *loads]) == [arm]
    again = recording("again", "schbench -t 9", "t", "6.1.8", True, llcs=2)
    assert peers.peers(mine, [again, *order]) == [again, order[-1]], "all of one job"
    assert peers.peers(arm, order) == [arm], "itself"


def test_what_sets_a_probed_recording_apart_is_said() -> None:
    mine = recording("mine", "schbench -t 9", "t", "6.1.2", False)
    for other, words in (
        (recording("a", "begin schbench -t 9", "t", "6.1.9", True), []),
        (recording("b", "schbench -t 9", "t", "6.1.2", True, beside="irq"), ["load"]),
        (
            recording("c", "schbench -t 8", "u", "6.12.2", True, arch="aarch64"),
            ["architecture", "load", "machine", "kernel"],
        ),
    ):
        assert peers.differences(mine, [other]) == words
    assert make.named(mine, [mine]) == ["itself", make.NOTHING]
    assert make.named(mine, [other, other, other]) == ["`c` and 2 more", "architecture, load, machine, kernel"]


def test_a_share_of_a_skill_that_fails_its_own_target_does_not_hold() -> None:
    probed, mine = recording("p", "hackbench", "t", "6.1", True), recording("m", "hackbench", "t", "6.1", False)
    for skill, failed in ((0.82, []), (0.80, ["share"]), (None, None)):
        mine.fidelity["auto"] = GOOD | {"skill": skill}
        assert peers.failed(mine, [probed]) == failed
    mine.fidelity["auto"] = GOOD
    probed.fidelity["auto"] = GOOD | {"agreement": 0.8, "skill": 0.2}
    assert peers.failed(mine, [probed]) == ["the probed one fails"]
    probed.fidelity["auto"] = GOOD | {"agreement": 0.5, "skill": -0.7}
    assert peers.failed(mine, [probed]) == ["the probed one fails"], "a skill below that of prev is none to reach"


def twins(*from_events: tuple[int, list[str], bool]) -> list[Any]:
    """Two quiet probed recordings with 5 moved wakeups each, which miss nothing with their probes but what stays. The
    first has these misses from events: how many, the inputs that turn them alone, and whether they stay."""
    found = []
    for name in ("p", "q"):
        listed, stay = [], []
        for n, proven, stays in from_events if name == "p" else ():
            some = misses(n, proven, len(listed))
            listed += some
            stay += some if stays else []
        figures = {"decisions": 1000, "moved": 5, "prev_agreement": 0.995}
        ways = [figures | {"agreement": 1 - len(m) / 1000, "skill": 1 - len(m) / 5} for m in (stay, listed)]
        one = recording(name, "schbench", "t", "6.1", True, fidelity=ways[0], blind=ways[1])
        one.budget.update(auto={"misses": len(stay), "listed": stay}, blind={"misses": len(listed), "listed": listed})
        found.append(one)
    return found


@pytest.mark.parametrize(
    ("from_events", "told", "excused"),
    [
        ([(2, ["recent"], False)], "recent 2 of 2", True),
        (
            [(1, ["recent", "several"], False), (1, ["several"], False), (1, [], False)],
            "recent 1, together 2 of 3",
            True,
        ),
        ([(1, ["recent"], False)], "recent 1 of 1", False),  # nine of ten: the twins hold
        ([(2, ["load"], False)], "load 2 of 2", False),  # which events tell
        ([(2, ["load", "recent"], False)], "load 2, recent 2 of 2", True),
        ([(1, ["sync"], False), (2, [], True)], "sync 1 of 3", True),  # the others stay with probes, too
        ([(2, [], True), (2, ["util"], False)], "util 2 of 4", False),
        ([], "", False),
    ],
)
def test_twins_prove_that_an_input_is_missing(from_events: Any, told: str, excused: bool) -> None:
    mine = recording("m", "schbench", "t", "6.1", False, fidelity=GOOD | {"skill": 0.1})
    others = twins(*from_events)
    assert str(peers.Proof.of(others)) == told
    assert bool(peers.excuse(mine, others)) == excused
    verdict = targets.INPUT if excused else f"{make.NO}: share"
    assert make.held(mine, others) == [verdict, told or "the probed ones missed none"]
    assert make.from_events(mine, [mine, *others]) == (targets.INPUT if excused else False)
    other = recording("m", "schbench", "u", "6.1", False, fidelity=GOOD | {"skill": 0.1})
    assert make.held(other, others) == [f"{make.NO}: share", "no probes: nothing can be proven"]


def test_utilisation_that_comes_from_before_a_short_recording_fails_no_target() -> None:
    row = {"input": "util", "close": 0.7, "r2": 0.5, "span_ns": 66_000_000}
    assert targets.input_target(row) == targets.TOO_SHORT
    assert targets.input_target(row | {"span_ns": 160_000_000}) is False
    assert targets.input_target(row | {"close": 0.9, "r2": 0.95}) is True
    one, *_ = synthetic()
    short = replace(one, inputs=[one.inputs[-1] | {"span_ns": 66_000_000}])
    assert make.audits([short])[2].endswith("| too short: 66 ms |")


def test_finer_clocks_suggest_that_the_order_of_events_is_missing() -> None:
    def unprobed(name: str, skill: float, clocks: int, machine: str = "t") -> Any:
        low = GOOD | {"skill": skill}
        return recording(name, "schbench", machine, "6.1", False, fidelity=low, clocks=clocks)

    probed = recording("p", "schbench", "t", "6.1", True, clocks=2000)
    probed.budget.update(auto={"misses": 0, "listed": []}, blind={"misses": 0, "listed": []})
    mine, fine, elsewhere = unprobed("m", 0.7, 2000), unprobed("f", 0.85, 400), unprobed("e", 0.85, 400, "u")
    assert peers.finer(mine, [mine, probed, fine, elsewhere]) == [fine]
    assert peers.finer(fine, [mine, probed, fine]) == peers.finer(probed, [probed, fine]) == []
    words = "the probed ones missed none; order of events: 0.850 where clocks differ by 0.4 µs at most"
    assert make.held(mine, [probed], [fine]) == [f"{make.NO}: share", words]
    assert make.from_events(mine, [mine, probed, fine]) is False, "repeats scatter: it is no proof"
    assert make.held(mine, [probed], [unprobed("f", 0.8, 400)]) == [f"{make.NO}: share", "the probed ones missed none"]
    assert peers.differences(fine, [probed]) == ["clocks"]


# What is asked and read


def archive(path: Path, texts: dict[str, str]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, text in texts.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return path


def test_idle_shares(tmp_path: Path) -> None:
    """1 s: CPU 0 idle for 0.40 s (0.05 of it waiting for I/O) by ticks and 0.41 s by run time. The events say 0.41 s,
    5 ms of it in interrupts."""
    texts = {}
    for when, ticks, run, jiffies, uptime in (
        ("before", (10, 0, 0, 5, 0, 0, 0, 0, 0, 0), 1_000, 100, "5.00"),
        ("after", (60, 0, 10, 40, 5, 0, 0, 0, 0, 0), 590_001_000, 350, "6.00"),
    ):
        line = " ".join(map(str, ticks))
        texts[f"./{when}/proc/stat"] = f"cpu {line}\ncpu0 {line}\nintr 5 5\n"
        texts[f"./{when}/proc/schedstat"] = (
            f"version 17\ntimestamp {jiffies}\ncpu0 0 0 1 1 1 1 {run} 7 7\ndomain0 MC 1\n"
        )
        texts[f"./{when}/proc/uptime"] = f"{uptime} 9.9\n"
    path = archive(tmp_path / "topology.tar.gz", texts)
    found = measure.idle(
        [{"cpu": 0, "idle_ns": 410_000_000, "interrupts_ns": 5_000_000, "span_ns": 1_000_000_000}], path
    )
    assert found.stat == [pytest.approx(0.005)]
    assert (found.tick, found.outside) == (pytest.approx(0.01), 0)
    assert found.schedstat == [pytest.approx(0.0, abs=1e-9)]


def test_no_snapshots_no_idle_shares(tmp_path: Path) -> None:
    rows_ = [{"cpu": 0, "idle_ns": 1, "interrupts_ns": 0, "span_ns": 2}]
    assert measure.idle(rows_, tmp_path / "topology.tar.gz") is None
    assert measure.idle(rows_, archive(tmp_path / "t.tar.gz", {"./proc/stat": "cpu 1\n"})) is None


def test_idle_time_of_the_events() -> None:
    """CPU 0: idle from 10 to 40 of 0 to 100; CPU 1 in idle states until 6, from 72 to 80 and from 81 on.

    Interrupts of CPU 0 while idle: 12 to 20 with a nested one, its softirq 22 to 25; from an earlier one only the exit
    at 11 is there, and one at 50 hits a task.
    """
    con = duckdb.connect()
    con.execute("CREATE TABLE cpu AS SELECT unnest([0, 1]) AS cpu")
    con.execute("CREATE TABLE switch (id BIGINT, ts_ns BIGINT, cpu USMALLINT, prev_task UINTEGER, next_task UINTEGER)")
    switches = [(0, 0, 0, 0, 5), (1, 5, 1, 1, 6), (2, 10, 0, 5, 0), (13, 40, 0, 0, 5), (14, 70, 1, 6, 1),
                (17, 100, 0, 5, 0)]  # fmt: skip
    con.executemany("INSERT INTO switch VALUES (?, ?, ?, ?, ?)", switches)
    con.execute("CREATE TABLE idle (id BIGINT, ts_ns BIGINT, cpu USMALLINT, state UINTEGER)")
    con.execute("INSERT INTO idle VALUES (18, 6, 1, NULL), (19, 72, 1, 1), (20, 80, 1, NULL), (21, 81, 1, 2)")
    con.execute("CREATE TABLE irq (id BIGINT, ts_ns BIGINT, cpu USMALLINT, curr_task UINTEGER, entry BOOLEAN)")
    records = [(3, 11, 0, 0, False), (4, 12, 0, 0, True), (5, 14, 0, 0, True), (6, 15, 0, 0, False),
               (7, 20, 0, 0, False), (15, 50, 0, 5, True), (16, 55, 0, 5, False)]  # fmt: skip
    con.executemany("INSERT INTO irq VALUES (?, ?, ?, ?, ?)", records)
    con.execute("CREATE TABLE softirq (id BIGINT, ts_ns BIGINT, cpu USMALLINT, curr_task UINTEGER, phase UTINYINT)")
    phase = ENUMS["softirq_phase"].index
    phases = [(8, 21, 0, 0, phase("raise")), (9, 22, 0, 0, phase("entry")), (10, 25, 0, 0, phase("exit"))]
    con.executemany("INSERT INTO softirq VALUES (?, ?, ?, ?, ?)", phases)
    sql.prepare(con)
    assert con.execute((FOLDER / "idle.sql").read_text()).fetchall() == [(0, 30, 11, 100), (1, 33, 0, 100)]


@pytest.mark.parametrize(
    ("stat", "tick", "holds"),
    [([0.004, -0.005], 0.01, True), ([0.004, 0.006], 0.001, False), ([0.004, 0.006], 0.004, "too short")],
)
def test_idle_target(stat: list[float], tick: float, holds: bool | str) -> None:
    """Which /proc/stat can only decide where its ticks and what lies outside the recording are small enough."""
    assert targets.idle_target(measure.Idle(stat, tick, 0.002, [])) == holds


def test_figures_count_only_decisions_of_the_fair_class() -> None:
    """Two wakeups, one right and one in the right LLC only, a pinned one, and a fork that was not decided."""
    con = duckdb.connect()
    con.execute("CREATE TABLE cpu AS SELECT unnest([0, 1, 2]) AS cpu, unnest([0, 0, 2]) AS llc")
    con.execute("CREATE TABLE probe AS SELECT unnest([1, 2]) AS id")
    con.execute("CREATE TABLE cgroup AS SELECT unnest([NULL, 5]) AS quota_ns")
    con.execute(
        "CREATE TABLE decision (decision_id BIGINT, ts_ns BIGINT, kind UTINYINT, class UTINYINT, prev_cpu USMALLINT, "
        "chosen_cpu USMALLINT)"
    )
    kind, cls = ENUMS["decision_kind"].index, ENUMS["decision_class"].index
    decisions = [
        (0, 5, kind("wake"), cls("moved"), 0, 2), (1, 6, kind("wake"), cls("stayed"), 1, 1),
        (2, 8, kind("wake"), cls("pinned"), 1, 1), (3, 9, kind("fork"), cls("moved"), 1, 2),
    ]  # fmt: skip
    con.executemany("INSERT INTO decision VALUES (?, ?, ?, ?, ?, ?)", decisions)
    sql.prepare(con)
    con.execute("CREATE TABLE ledger (policy VARCHAR, decision_id BIGINT, cpu USMALLINT)")
    con.executemany("INSERT INTO ledger VALUES ('a', ?, ?)", [(0, 2), (1, 0), (2, 1), (3, None)])
    assert con.execute((FOLDER / "figures.sql").read_text()).fetchall() == [("a", "wake", 2, 1, 1, 2, 1, 2, 4, 1)]
