# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/simulate.md: what its generator makes of answers, and that its prose types no figure of a recording."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import generator
import pytest

SIMULATE = Path(__file__).parents[2] / "docs/simulate"
make = generator.load(SIMULATE)


def check(kind: str, missed: list[str], ks: float, waits: tuple[int, int] = (20, 1_000)) -> dict[str, Any]:
    rates = ("moves_per_s", "newidle_per_s", "periodic_per_s")
    names = ("p50_ns", "p90_ns", "p99_ns", "wait_p90_ns", *rates)
    figures: dict[str, Any] = dict.fromkeys(names, 2000.0) | {f"recorded_{n}": 1000.0 for n in names}
    figures |= {"ks": ks, "wait_ks": 2 * ks if min(waits) else None, "wait_n": waits[0], "recorded_wait_n": waits[1]}
    return {"kind": kind, "missed": missed, "holds": not missed, "figures": figures}


def test_checks_are_counted_and_misses_marked() -> None:
    answer = {
        "policies": [{"kind": "factual", "diverged_pct": 25.0}],
        "checks": [check("pinned", [], 0.01), check("null", ["ks"], 0.2), check("factual", ["p99"], 0.1)],
    }
    lines = make.checks({"one": answer, "two": answer})
    assert lines[0].startswith(
        "V3 holds on 2 of 2 recordings and beats the null model (KS) on 2, by queue waits alone on 2 of the 2 with at "
        "least 20 of them, recorded and simulated; V4 holds on 0 of 2."
    )
    assert lines[2:4] == ["V4 is missed by `one` (p99), `two` (p99).", ""]
    assert (
        lines[6]
        == "| `one` | V3 pinned | 2.0 / 1.0 | 2.0 / 1.0 | 2.0 / 1.0 | 0.010 | 2.0 / 1.0 | 0.020 | 2,000 / 1,000 | - |"
    )
    assert "| 2.0 / 1.0 ! | 0.100 |" in lines[8] and lines[8].endswith("| 25 % |")


def test_moves_by_balancing_are_of_the_factual_run() -> None:
    found = check("factual", [], 0.1)
    found["figures"]["recorded_newidle_per_s"] = None  # no migrations in the recording
    other = {"checks": [check("pinned", [], 0.1)]}
    assert make.balancing({"one": {"checks": [check("pinned", [], 0.1), found]}, "two": other})[2:] == [
        "| `one` | 2,000 / - | 2,000 / 1,000 |",
        "",
    ]


def test_recordings_that_were_not_seen_stand_apart_beside_the_count_of_the_others() -> None:
    good = {"policies": [], "checks": [check("pinned", [], 0.01), check("null", [], 0.2), check("factual", [], 0.1)]}
    bad = {
        "policies": [],
        "checks": [check("pinned", ["ks"], 0.3), check("null", [], 0.2), check("factual", ["p50"], 0.1)],
    }
    lines = make.not_seen({"title": "unseen", "text": "T"}, {"new": bad}, {"one": good, "two": good, "three": bad})
    assert lines[:3] == ["## unseen", "", "T"]
    assert lines[4].startswith("V3 holds on 0 of 1 recordings and beats the null model (KS) on 0,")
    assert [line.split(" | ")[0] for line in lines if "V4 factual" in line] == ["| `new`"]
    assert (
        lines[-2].startswith("Of the others above, V3 holds on 2 of 3 recordings") and "V4 holds on 2 of 3" in lines[-2]
    )
    assert make.not_seen({}, {}, {"one": good}) == []


def test_a_handful_of_queue_waits_is_counted_and_not_compared() -> None:
    few = {"policies": [], "checks": [check("pinned", [], 0.4, (19, 1_000)), check("null", [], 0.2)]}
    none = {"policies": [], "checks": [check("pinned", [], 0.4, (0, 5)), check("null", [], 0.2, (0, 5))]}
    lines = make.checks({"few": few, "none": none})
    assert "by queue waits alone on 0 of the 0 with" in lines[0]
    assert "| 0.800 (19 / 1,000) |" in lines[4] and "| 0.400 |" in lines[5]
    assert "| 2.0 / 1.0 | - |" in lines[6]


def test_repeats_stand_for_each_other_within_the_bounds_of_the_first() -> None:
    def answer(p50: float, moves: float, missed: list[str]) -> dict[str, Any]:
        found, pinned = check("factual", missed, 0.1), check("pinned", missed[:1], 0.1)
        found["figures"] |= {"recorded_p50_ns": p50, "recorded_moves_per_s": moves}
        allowed = {"allowed": {"p50": 0.2 * p50, "p99": 200.0, "moves": 0.1 * moves}}
        return {"checks": [found | allowed, pinned, check("null", [], 0.2)]}

    found = {
        "a": answer(1000.0, 100.0, []),
        "a2": answer(1220.0, 109.5, ["p50"]),
        "a3": answer(1100.0, 150.0, ["moves"]),
    }
    # a2 is 22 % above a, and a 18 % below a2; a3 has the moves of neither
    lines = make.compared(found, [("a", "a2", "a3", "gone"), ("alone",), ("gone", "a")])
    assert lines[2:] == ["| `a` and 2 more | 1.0 to 1.0 | 100 to 150 | 1 of 6 | 1 of 3 | 1 of 3 |", ""]


def test_a_repeat_is_told_by_its_name() -> None:
    assert make.again(["a", "a-R", "b"], ["a-R1", "a-R2", "b2-R1", "a-R-R1"]) == [
        ("a", "a-R1", "a-R2"),
        ("a-R", "a-R-R1"),
    ]


def test_the_page_is_what_the_prose_says() -> None:
    prose = tomllib.loads((SIMULATE / "page.toml").read_text(encoding="utf-8"))
    page = (SIMULATE.parent / "simulate.md").read_text(encoding="utf-8")
    sections = [part for part in prose.values() if isinstance(part, dict)]
    for text in (prose["intro"], prose["example"]["after"], *(part["text"] for part in sections)):
        assert text.strip() in page


def test_recordings_that_were_not_seen_are_all_on_the_page() -> None:
    page = (SIMULATE.parent / "simulate.md").read_text(encoding="utf-8")
    before, after = page.split("\n## Recordings that this version had not seen\n")
    section = after.split("\n## ", 1)[0]
    for name in sys.modules["_pages"].jobs(SIMULATE.parent / "fidelity/jobs.judges"):
        assert (f"| `{name}` | V3 pinned |" in section) != (f"| `{name}` |" in before.split("\nRefused:\n")[-1])
        assert f"| `{name}` | V" not in before


@pytest.mark.parametrize(
    ("code", "said", "answer"),
    [
        (4, "rewake: error: the quality card refuses this recording", "the quality card refuses this recording"),
        (1, "rewake: error: KeyError: 7 (a bug in rewake: rewake --debug shows where)", None),
    ],
)
def test_a_recording_is_refused_and_a_bug_ends_the_page(
    code: int, said: str, answer: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = sys.modules["_pages"]
    monkeypatch.setattr(pages.subprocess, "run", lambda *a, **k: subprocess.CompletedProcess([], code, "", said + "\n"))
    if answer is None:
        with pytest.raises(pages.Missing, match="a bug in rewake"):
            make.simulated(Path("trace.dat"))
    else:
        assert make.simulated(Path("trace.dat")) == answer


def test_jobs_that_were_recorded_again_are_all_on_the_page() -> None:
    page = (SIMULATE.parent / "simulate.md").read_text(encoding="utf-8")
    names = {name.rpartition("-R")[0] for name in sys.modules["_pages"].jobs(SIMULATE.parent / "fidelity/jobs.again")}
    assert names and all(f"| `{name}` and 4 more |" in page for name in names)


def test_the_readme_counts_what_the_page_counts() -> None:
    page = (SIMULATE.parent / "simulate.md").read_text(encoding="utf-8")
    seen, _, unseen = page.partition("\n## Recordings that this version had not seen\n")
    counts = [re.search(rf"\b{arm} holds on (\d+) of (\d+)", part) for part in (seen, unseen) for arm in ("V3", "V4")]
    (v3, all_seen), (v4, _), (u3, all_unseen), (u4, _) = (found.groups() for found in counts if found)
    readme = " ".join((SIMULATE.parents[1] / "README.md").read_text(encoding="utf-8").split())
    assert f"within its bounds on {v3} of {all_seen} recordings, with the recorded kernel in charge on {v4};" in readme
    assert (
        f"on {all_unseen} recordings of other machines and loads, for which nothing was made, on {u3} and on {u4} ("
        in readme
    )
