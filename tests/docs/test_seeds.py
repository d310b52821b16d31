# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/seeds.md: the claims are complete and quoted faithfully, the page is theirs, its figures are right."""

from __future__ import annotations

import math
import re
import sys
from pathlib import Path
from typing import Any

import duckdb
import generator
import pytest

from rewake.analysis import sql
from rewake.forms import ENUMS

ROOT = Path(__file__).parents[2]
SEEDS = ROOT / "docs/seeds"
POSTINGS = ROOT.parent / "shared/seeds"
GOLDEN = Path(__file__).parent / "golden_seeds.txt"

FAMILIES = {
    "idle-thread-scan": ["p99, 18", "p99, 19", "p99, 20", "p99.9", "p50", "production"],
    "wakeup-buddy": ["pipe", "pgbench tps, 22 MB", "pgbench tps, 7484 MB", "pgbench tps, 15 GB"],
    "irq-aware": ["OLTP", "mean", "deviation"],
    "asym-prefer-prev": ["hikey960, pipe -T, migrations", "hikey960, pipe -T, ops", "symmetric), pipe -T, migrations",
                         "symmetric), pipe -T, ops"],
    "userspace-hints": [
        "no hint",
        *(f"{machine}: {load}, {hint}"
          for machine in ("Zen 3, split LLC", "Xeon, one LLC a socket")
          for load in ("hackbench", "schbench p99")
          for hint in ("FORK_AFFINE", "FORK_SPREAD", "WAKE_AFFINE", "WAKE_HOLD", "FORK_AFFINE + WAKE_AFFINE",
                       "FORK_SPREAD + WAKE_HOLD")),
        *(f"{machine}: tbench, {hint}"
          for machine in ("Zen 3, split LLC", "Xeon, one LLC a socket")
          for hint in ("FORK_AFFINE", "FORK_SPREAD")),
        "Stream, 10 runs", "Stream, 100 runs",
    ],
}  # fmt: skip


make = generator.load(SEEDS)
closed = sys.modules["closed"]
CLAIMS = make.load()
PAGE = (ROOT / "docs/seeds.md").read_text(encoding="utf-8")


def plain(text: str) -> str:
    return " ".join(text.split())


def test_every_family_of_every_posting_has_a_row() -> None:
    assert set(FAMILIES) == set(CLAIMS["posting"])
    for posting, families in FAMILIES.items():
        mine = [row["family"] for row in CLAIMS["row"] if row["posting"] == posting]
        for family in families:
            assert any(family in name for name in mine), f"{posting}: {family}"


def test_rows_are_complete() -> None:
    ids = [row["id"] for row in CLAIMS["row"]]
    assert len(set(ids)) == len(ids)
    for row in CLAIMS["row"]:
        assert row["status"] in make.STATUSES, row["id"]
        assert all(plain(row[key]) for key in ("family", "claim", "quote", "why")), row["id"]
        tried = row["status"] == "tried"
        assert tried == bool(row.get("recordings")) == bool(row.get("figures")), row["id"]
        assert set(row.get("figures", {})) <= set(make.FIGURES), row["id"]
        assert set(row.get("figures", {}).values()) <= {"fewer", "more", "same", ""}, row["id"]
        if simulated := row.get("closed"):
            assert set(simulated) - {"sync"} == {"figure", "recordings", "why"}, row["id"]
            assert simulated["figure"] in closed.FIGURES, row["id"]
            assert set(simulated["recordings"].values()) <= {"fewer", "more", "same", ""}, row["id"]


@pytest.mark.skipif(not POSTINGS.is_dir(), reason="the postings are not part of the repository")
def test_quotes_stand_in_the_postings() -> None:
    texts = [plain(p.read_text(encoding="utf-8")) for p in POSTINGS.glob("*.txt")]
    quotes = [row["quote"] for row in CLAIMS["row"]] + [
        p["remark"] for p in CLAIMS["posting"].values() if "remark" in p
    ]
    for quote in quotes:
        assert any(plain(quote) in text for text in texts), quote


def test_page_has_the_rows_of_the_claims_in_their_order() -> None:
    statuses = "|".join(make.STATUSES.values())
    listed = re.findall(rf"^\| `([a-z0-9.-]+)` \| [^|`]+ \| .* \| ({statuses}) \| ", PAGE, re.MULTILINE)
    assert listed == [(row["id"], make.STATUSES[row["status"]]) for row in CLAIMS["row"]]
    lines = re.findall(r"^\| `([a-z0-9.-]+)` \| `([^`]+)` \| `([^`]+)` \| ([^|]+) \|", PAGE, re.MULTILINE)
    assert [line for line in lines if line[3] in make.FIGURES.values()] == [
        (row["id"], make.pair(CLAIMS, row)[1], recording, make.FIGURES[name])
        for row in CLAIMS["row"]
        for recording in row.get("recordings", ())
        for name in row["figures"]
    ]
    assert [line for line in lines if line[3] not in make.FIGURES.values()] == [
        (row["id"], make.pair(CLAIMS, row)[1], recording, closed.sync_of(row))
        for row in CLAIMS["row"]
        for recording in row.get("closed", {}).get("recordings", ())
    ]


def test_page_has_the_command_of_every_replay_and_the_job_of_every_made_recording() -> None:
    recordings = make.recordings_of(CLAIMS)
    simulated = make.simulations(CLAIMS)
    for (name, sync), policies in simulated.items():
        for factor in closed.SWEEP:
            assert f"rewake simulate {name}/trace.dat {' '.join(closed.words(policies, sync, factor))}\n" in PAGE
    for name in recordings:
        for sync in make.SYNCS:
            assert f"rewake replay {name}/trace.dat --assume sync={sync} --policy " in PAGE
    for name, line in make.jobs(SEEDS / "jobs").items():
        assert name in recordings or (name, "auto") in simulated
        assert f"\n{line}\n" in PAGE


def test_page_quotes_the_author_on_his_migration_count() -> None:
    assert CLAIMS["posting"]["asym-prefer-prev"]["remark"].endswith("overloaded by events in the tests done with v1.")
    assert f"\n> {plain(CLAIMS['posting']['asym-prefer-prev']['remark'])}\n" in PAGE


@pytest.mark.parametrize(
    ("expected", "found", "word"),
    [
        ("fewer", "fewer", "as posted"),
        ("fewer", "same", "no difference"),
        ("fewer", "more", "not as posted"),
        ("more", "more", "as posted"),
        ("same", "same", "as posted"),
        ("same", "more", "not as posted"),
        ("", "more", "shown only"),
        ("fewer", "open", "open: intervals overlap"),
    ],
)
def test_verdict(expected: str, found: str, word: str) -> None:
    assert make.verdict(expected, found) == word


def interval(lo: float, hi: float | None) -> dict[str, Any]:
    return {"policy": "x", "p99_lo_ns": 1000 * lo, "p99_hi_ns": None if hi is None else 1000 * hi}


@pytest.mark.parametrize(
    ("base", "seed", "found"),
    [
        ((10, 12), (5, 9), "fewer"),
        ((10, 12), (13, 14), "more"),
        ((10, 12), (11, 20), "open"),
        ((10, None), (11, 12), "open"),
        ((10, 12), (13, None), "more"),
        ((10, None), (10, None), "same"),
    ],
)
def test_intervals_are_compared_only_when_they_are_apart(base: Any, seed: Any, found: str) -> None:
    assert make.direction("p99", interval(*base), interval(*seed)) == found


def test_an_unbounded_interval_is_shown_as_such() -> None:
    assert make.shown("p99", interval(10, None), interval(2000, 2500)) == "[10.0, ∞] → [2,000, 2,500]"
    assert make.p99(interval(1, None)) == (1, math.inf)


def test_a_recording_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(make.Missing, match=r"no trace.dat of a, b in"):
        make.find(["a", "b"], [tmp_path])


def test_a_policy_without_a_figure_is_an_error() -> None:
    with pytest.raises(make.Missing, match="no decision with the figure fork_cross_llc"):
        make.per_1k({"policy": "x", "decisions": 10}, "fork_cross_llc")


def test_generator_on_a_bundled_recording() -> None:
    """A section of the page from a real replay of two policies on a small recording."""
    name = "12cpu-buddy-hackbench"
    row = {
        "id": "t.pair",
        "posting": "p",
        "family": "family",
        "claim": "Claim.",
        "quote": "a | b",
        "status": "tried",
        "why": "Why.",
        "recordings": [name],
        "figures": {"would_move": "fewer", "stacked": "more", "on_heavy": "fewer"},
    }
    simulated = {"figure": "wake_per_s", "recordings": {name: "fewer"}, "sync": "1", "why": "Why\nnot."}
    left = {**row, "id": "t.left", "status": "closed loop", "recordings": [], "figures": {}, "closed": simulated}
    posting = {"title": "P", "author": "A", "date": "D", "policy": "wakeup-buddy", "against": "linux-3.8",
               "about": "About.", "remark": "So\nit is."}  # fmt: skip
    page = {"title": "T", "intro": "I", "recordings": "R", "commands": "C", "max_exposure_pct": 20.0, "forced": []}
    claims = {"page": page, "posting": {"p": posting}, "row": [row, left]}
    text = make.make(claims, [ROOT / "fixtures"])
    section = text[text.index("## P") : text.index("## Recordings")]
    replays, simulations = section.split("Closed loop")
    section = f"{replays}Closed loop{re.sub(r'[0-9,]+ → [0-9,]+', 'n → n', simulations)}"
    assert section.splitlines() == GOLDEN.read_text(encoding="utf-8").splitlines()
    assert f"rewake replay {name}/trace.dat --assume sync=1 --policy linux-3.8 --policy wakeup-buddy\n" in text
    assert f"rewake simulate {name}/trace.dat --policy linux-3.8 --policy wakeup-buddy --assume sync=1 " in text


def line(value: float | None, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    return {"cycles_per_s": value, "cycles_low_per_s": low, "cycles_high_per_s": high, "diverged_pct": 0.0}


@pytest.mark.parametrize(
    ("expected", "pairs", "word"),
    [
        ("more", [(line(100, 90, 110), line(130, 120, 140))], "as posted"),
        ("more", [(line(100, 90, 125), line(130, 120, 140))], "as posted, windows overlap"),
        ("more", [(line(100), line(130))], "as posted, spread unknown"),
        ("more", [(line(100), line(101))], "no difference"),
        ("same", [(line(100), line(101))], "as posted"),
        ("fewer", [(line(100), line(130))], "not as posted"),
        ("more", [(line(100), line(130)), (line(100), line(80))], "open: depends on what a move costs"),
        ("more", [(line(None), line(130))], "too few wakeups"),
        ("", [(line(100), line(130))], "shown only"),
    ],
)
def test_verdict_of_a_sweep(expected: str, pairs: list[Any], word: str) -> None:
    assert closed.verdict("cycles_per_s", expected, pairs) == word


def test_what_is_simulated_is_asked_for_once() -> None:
    rows = [{"closed": {"recordings": {"r": "fewer"}}}, {"closed": {"recordings": {"r": "more"}, "sync": "1"}}, {},
            {"closed": {"recordings": {"r": "same", "s": ""}}}]  # fmt: skip
    pairs = iter([("a", "b"), ("a", "b"), ("a", "c"), ("a", "c")])
    found = closed.wanted(rows, lambda _: next(pairs))
    assert found == {("r", "auto"): ["a", "b", "c"], ("r", "1"): ["a", "b"], ("s", "auto"): ["a", "c"]}


def test_heavy_cpus() -> None:
    """CPU 0: 0.5 ms of interrupts in each of 5 ticks of 4 ms. CPU 1: the same in none. CPU 2: nested, 0.3 ms.

    CPU 0 begins with an exit whose entry was not recorded.
    """
    ms, tick = 1_000_000, 4_000_000
    irq: list[tuple[int, int, int, bool]] = [(0, 0, 0, False)]

    def handler(cpu: int, begin: int, length: int) -> None:
        irq.append((len(irq), begin, cpu, True))
        irq.append((len(irq), begin + length, cpu, False))

    for i in range(5):
        handler(0, i * tick + 10, ms // 2)
        handler(1, i * tick + 10, ms // 10)
        irq.append((len(irq), i * tick + 10, 2, True))
        handler(2, i * tick + 20, ms // 5)  # inside
        irq.append((len(irq), i * tick + 10 + 3 * ms // 10, 2, False))
    con = duckdb.connect()
    con.execute("CREATE TABLE irq (id BIGINT, ts_ns BIGINT, cpu USMALLINT, entry BOOLEAN)")
    con.executemany("INSERT INTO irq VALUES (?, ?, ?, ?)", irq)
    con.execute("CREATE TABLE switch AS SELECT unnest([0, 20000000]) AS ts_ns")
    con.execute("CREATE TABLE placed AS SELECT unnest(['a', 'a', 'b']) AS policy, unnest([0, 1, 2]) AS cpu")
    assert con.execute((SEEDS / "heavy.sql").read_text()).fetchall() == [("a", 2, 1, "0"), ("b", 1, 0, "0")]


def test_forks() -> None:
    """Two forks on CPU 0 and a wakeup; LLCs {0, 1} and {2}. A fork that a policy did not decide does not count."""
    con = duckdb.connect()
    con.execute(
        "CREATE TABLE cpu AS SELECT unnest([0, 1, 2]) AS cpu, unnest([0, 0, 2]) AS llc, unnest([0, 0, 0]) AS node"
    )
    kinds = [ENUMS["decision_kind"].index(k) for k in ("fork", "fork", "wake")]
    moved = ENUMS["decision_class"].index("moved")
    con.execute("CREATE TABLE decision (decision_id BIGINT, kind UTINYINT, class UTINYINT, prev_cpu USMALLINT)")
    con.executemany("INSERT INTO decision VALUES (?, ?, ?, 0)", [(i, k, moved) for i, k in enumerate(kinds)])
    sql.prepare(con)
    con.execute("CREATE TABLE ledger (policy VARCHAR, decision_id BIGINT, cpu USMALLINT)")
    rows = [("a", 0, 2), ("a", 1, 1), ("a", 2, 2), ("b", 0, 0), ("b", 1, None), ("b", 2, 0)]
    con.executemany("INSERT INTO ledger VALUES (?, ?, ?)", rows)
    assert con.execute((SEEDS / "forks.sql").read_text()).fetchall() == [("a", 2, 1, 0), ("b", 1, 0, 0)]


def test_forks_are_shown_as_counts() -> None:
    base, seed = ({"policy": p, "forks.sql": {"decisions": 30, "fork_cross_llc": n}} for p, n in (("a", 5), ("b", 15)))
    assert make.shown("fork_cross_llc", base, seed) == "5 → 15 of 30"
    assert make.direction("fork_cross_llc", base, seed) == "more"
    assert make.size("fork_cross_llc", base, seed) == " (+200.0 %)"
