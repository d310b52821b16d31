# SPDX-License-Identifier: GPL-2.0-or-later
"""What a comparison says of changes that were put in, of none, and of what cannot be known."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import history
import numpy as np
import pytest

from rewake.analysis import compareout, measures
from rewake.analysis.compare import Comparison, Finding, Unit, compare
from rewake.analysis.subjects import Subject
from rewake.errors import UsageError

GATE = [measures.gate("p99+3%")]


def pairs(seed: int, n: int, grown: float = 1.0, noise: float = 0.02) -> tuple[list[Subject], list[Subject]]:
    """n recordings, very different from each other; on each the candidate's p99 is `grown` times the baseline's."""
    rng = np.random.default_rng(seed)
    base, new = [], []
    for i in range(n):
        trace = float(rng.normal(0, 0.5))
        base.append(history.subject(f"trace {i}", history.figures(rng, noise, None, trace)))
        new.append(history.subject(f"trace {i}", history.figures(rng, noise, {"linux-6.1": grown}, trace)))
    return base, new


def flat(p99: float | None, hi: float | None = None, **more: Any) -> dict[str, Any]:
    return {"decisions": 20_000, "p99_lo_ns": p99, "p99_hi_ns": p99 if hi is None else hi} | more


def subjects(values: Sequence[Mapping[str, Any]], policy: str = "linux-6.1") -> list[Subject]:
    return [history.subject(f"trace {i}", {policy: v}) for i, v in enumerate(values)]


def only(c: Comparison, metric: str = "p99", policy: str = "linux-6.1") -> Finding:
    (found,) = [f for f in c.findings if f.measure.name == metric and f.policy == policy]
    return found


def test_six_per_cent_fails_the_gate_on_every_draw() -> None:
    failed = 0
    for seed in range(20):
        c = compare(*pairs(seed, 12, 1.06), policies=["linux-6.1"], metrics=["p99"], gates=GATE)
        failed += bool(c.failed)
        assert [(f.policy, f.measure.name) for f in c.failed] in ([], [("linux-6.1", "p99")])
    assert failed == 20


def test_null_pairs_pass_in_190_of_200_draws() -> None:
    """200 draws of 12 pairs under no change; both ends must agree, so few fail."""
    asked: dict[str, Any] = {"metrics": ["p99"], "policies": ["linux-6.1"], "gates": [measures.gate("p99+0%")]}
    assert sum(not compare(*pairs(seed, 12), **asked).failed for seed in range(200)) >= 190


@pytest.mark.slow
def test_null_pairs_pass_whatever_is_looked_at() -> None:
    """All metrics and policies, no gate, no floor: what Benjamini and Hochberg leave."""
    passed = sum(not compare(*pairs(seed, 12), floor_pct=0.0).failed for seed in range(200))
    assert passed >= 190


def test_only_what_changed_is_shown() -> None:
    c = compare(*pairs(3, 12, 1.06))
    assert [(f.policy, f.measure.name, f.verdict) for f in c.changed] == [("linux-6.1", "p99", "regression")]
    shown = compareout.table(c, everything=False)
    assert "p99 (µs)" in shown and "p50 (µs)" not in shown.split("\n\n")[1]
    assert "p50 (µs)" in compareout.table(c, everything=True)


def test_an_improvement_is_told_and_passes() -> None:
    c = compare(*pairs(3, 12, 1 / 1.06))
    assert only(c).verdict == "improvement" and not c.failed
    assert [str(g) for g in c.gates] == [] and "improvement" in compareout.headline(c)


def test_a_gate_for_falls() -> None:
    c = compare(*pairs(3, 12, 1 / 1.06), gates=[measures.gate("p99-3%")])
    assert only(c).failed == "p99-3%"


def test_a_gate_leaves_other_metrics_alone() -> None:
    c = compare(*pairs(3, 12, 1.06), gates=[measures.gate("p50+3%")])
    assert only(c).verdict == "regression" and not c.failed


def test_below_the_gates_limit_passes() -> None:
    assert not compare(*pairs(3, 12, 1.06), gates=[measures.gate("p99+20%")]).failed


def test_few_recordings_are_inconclusive_never_a_pass() -> None:
    c = compare(*pairs(1, 5, 1.5, noise=0.001))
    assert only(c).verdict == "inconclusive" and "n = 5 is too small" in only(c).why
    assert c.inconclusive and not c.failed


def test_a_gate_on_what_no_run_has_is_inconclusive() -> None:
    for unpaired in (False, True):
        base, new = subjects([flat(1e6)] * 8), subjects([flat(2e6)] * 8)
        if unpaired:
            new = [replace(s, recording=f"other {s.recording}") for s in new]
        for asked in ({"gates": [measures.gate("p999+5%")]}, {"metrics": ["p999"]}):
            c = compare(base, new, unpaired=unpaired, **asked)  # type: ignore[arg-type]
            found = only(c, "p999")
            assert found.verdict == "inconclusive" and found in c.inconclusive and not c.failed
            assert found.why == "no run has this figure, which takes 10,000 decisions"
        assert "p999" not in {f.measure.name for f in compare(base, new, unpaired=unpaired).findings}


def test_a_gate_stands_whatever_metrics_are_shown() -> None:
    c = compare(*pairs(1, 12, 1.3), policies=["linux-6.1"], metrics=["p50"], gates=GATE)
    assert [f.measure.name for f in c.failed] == ["p99"]
    assert {f.measure.name for f in c.findings} == {"p50", "p99"}


def test_one_side_without_the_figure() -> None:
    base, new = subjects([flat(1e6)] * 8), subjects([flat(None)] * 8)
    new = [replace(s, recording=f"other {s.recording}") for s in new]
    for unpaired, why in ((True, "no run on one of the sides"), (False, "no unit on both sides")):
        if not unpaired:
            new = [replace(s, recording=b.recording) for s, b in zip(new, base, strict=True)]
        c = compare(base, new, unpaired=unpaired, metrics=["p99"])
        found = only(c)
        assert (found.verdict, found.why) == ("inconclusive", f"{why} has this figure")
        assert found.ends == () and "nan" not in compareout.table(c, everything=True)


def test_units_that_are_the_same_give_no_power() -> None:
    base = subjects([flat(1e6)] * 10)
    new = subjects([flat(1e6 if i < 6 else 2e6) for i in range(10)])
    found = only(compare(base, new, metrics=["p99"], gates=GATE))
    assert (found.verdict, found.why) == ("inconclusive", "only 4 of 10 differ: no p below 0.12 is possible")


def test_one_end_alone_proves_nothing() -> None:
    base = subjects([flat(1e6 + i, 2e6 + i) for i in range(10)])
    new = subjects([flat(1e6 + i, 3e6 + 7 * i) for i in range(10)])
    assert only(compare(base, new)).verdict == "unclear"
    assert only(compare(base, new)).why == "only the hi end moved"


def test_ends_that_part_prove_nothing() -> None:
    base = subjects([flat(1e6 + i, 2e6 + i) for i in range(10)])
    new = subjects([flat(0.5e6 + 3 * i, 4e6 + 7 * i) for i in range(10)])
    assert only(compare(base, new)).verdict not in ("regression", "improvement", "unchanged")


def test_an_unbounded_end_cannot_be_judged() -> None:
    base = subjects([flat(1e6 + i, 2e6) | {"p99_hi_ns": None if i == 3 else 2e6} for i in range(10)])
    new = subjects([flat(2e6 + 5 * i, 4e6) for i in range(10)])
    found = only(compare(base, new, gates=GATE))
    assert (found.verdict, found.why) == ("inconclusive", "hi is unbounded in 1 of 20")
    assert found.failed is None


def test_the_columns_of_csv_do_not_depend_on_what_was_found() -> None:
    asked: Any = {"policies": ["linux-6.1"], "metrics": ["p99"]}
    alike, changed = (compare(*pairs(1, 12, grown, noise=0.01 * (grown - 1)), **asked) for grown in (1.0, 1.5))
    none, some = (compareout.rows(c, everything=False) for c in (alike, changed))
    assert none.rows == [] and len(some.rows) > 0
    assert none.columns == some.columns and len(some.columns) == len(some.rows[0])


def test_identical_replays_are_the_same() -> None:
    base = subjects([flat(1e6 + i) for i in range(10)])
    assert only(compare(base, base)).verdict == "same"


def test_a_share_of_nothing_is_below_the_floor() -> None:
    """1 instead of 0 in 20,000 decisions is a ratio of 3 and no matter."""
    base = subjects([flat(None, stacked_per_1k=0.0, p99_hi_ns=None) for _ in range(10)])
    new = subjects([flat(None, stacked_per_1k=0.05, p99_hi_ns=None) for _ in range(10)])
    found = only(compare(base, new), "stacked")
    assert found.effect_pct is not None and found.effect_pct[0] == pytest.approx(200.0)
    assert found.verdict == "unchanged"


def test_medians_that_meet_are_no_answer_where_the_interval_is_wide() -> None:
    """16.5 us on both sides, and anything from half to twice of it possible."""
    base = subjects([flat(v) for v in (10e3, 12e3, 16.5e3, 28e3, 30e3)])
    new = subjects([flat(v) for v in (8e3, 13e3, 16.5e3, 25e3, 40e3)])
    new = [replace(s, recording=f"other {s.recording}") for s in new]
    found = only(c := compare(base, new, unpaired=True, gates=GATE))
    low, high = found.interval_pct or (0, 0)
    assert low < -30 < 30 < high
    assert (found.verdict, found.why) == ("inconclusive", "the interval is wider than the floor")
    assert found in c.inconclusive


def test_a_wide_interval_of_next_to_nothing_is_unchanged() -> None:
    """Latencies below 1 us may double: that is less than the least difference."""
    base, new = (subjects([flat(300.0 + 40 * ((7 * i + k) % 10)) for i in range(10)]) for k in (0, 4))
    found = only(compare(base, new))
    low, high = found.interval_pct or (0, 0)
    assert low < -2 < 2 < high and found.verdict == "unchanged"


def test_a_change_of_all_but_the_median_is_a_change() -> None:
    base = subjects([flat(v) for v in [10e3] * 4 + [100e3] * 5])
    new = subjects([flat(v) for v in [12e3] * 4 + [100.5e3] + [120e3] * 4])
    found = only(compare(base, new))
    assert abs(found.ends[0].new - found.ends[0].base) < found.measure.least
    assert found.verdict == "regression"


def test_different_recordings_are_not_paired_by_chance() -> None:
    base, new = pairs(1, 6)
    other = [Subject(s.name, f"other {s.recording}", s.kernel, s.machine, s.figures, s.refused, s.skill) for s in new]
    with pytest.raises(UsageError, match="no recording in common"):
        compare(base, other)
    c = compare(base, other, unpaired=True)
    assert c.design == "unpaired" and "UNPAIRED" in compareout.table(c, everything=False)


def test_unpaired_finds_what_pairing_finds_only_when_it_is_larger_than_the_spread() -> None:
    """The reason for pairing: recordings differ by more than what is looked for."""
    base, new = pairs(1, 12, 1.06)
    assert only(compare(base, new)).verdict == "regression"
    assert only(compare(base, new, unpaired=True)).verdict == "inconclusive"


def test_a_recording_twice_says_nothing_twice() -> None:
    base, new = pairs(1, 6)
    with pytest.raises(UsageError, match="replay the same recording"):
        compare([*base, base[0]], new)


def test_a_single_pair_is_cut_into_blocks_and_says_so() -> None:
    rng = np.random.default_rng(0)
    base, new = pairs(0, 1)
    asked = []

    def blocks(ms: int) -> list[Unit]:
        asked.append(ms)
        # A block of less than 500 ms has too few decisions for a p99.
        value = None if ms < 500 else 1e6
        return [
            Unit(
                str(i),
                {"linux-6.1": flat(value and value * math.exp(rng.normal(0, 0.01)))},
                {"linux-6.1": flat(value and value * 1.2 * math.exp(rng.normal(0, 0.01)))},
            )
            for i in range(10_000 // ms)
        ]

    c = compare(base, new, blocks=blocks, policies=["linux-6.1"], metrics=["p99"])
    assert asked == [100, 200, 500]
    assert c.design == "within-run" and only(c).verdict == "regression" and only(c).n == 20
    assert compareout.table(c, everything=False).splitlines()[1].startswith("WITHIN-RUN ONLY")


def test_blocks_that_one_run_lacks_are_no_pairs() -> None:
    """The policy ended after 12 of 20 blocks of the new run, as a plugin does that crashes."""
    base, new = pairs(0, 1)

    def blocks(ms: int) -> list[Unit]:
        one, other = ([{"linux-6.1": flat(p99 * (1 + i))} for i in range(20)] for p99 in (1e6, 1.2e6))
        return [Unit(str(i), one[i], other[i] if i < 12 else {}) for i in range(20)]

    found = only(compare(base, new, blocks=blocks, policies=["linux-6.1"], metrics=["p99"]))
    assert (found.verdict, found.n) == ("regression", 12)
    assert found.effect_pct == pytest.approx((20.0, 20.0), abs=0.01)


def test_what_no_block_can_have_is_no_finding() -> None:
    """What the recorded kernel examined is not recorded: longer blocks would not tell, and --strict passes."""
    base, new = pairs(0, 1)
    for n in (4, 20):
        same = {"linux-6.1": flat(1e6)}
        units = [Unit(str(i), same, same) for i in range(n)]
        c = compare(base, new, blocks=lambda ms, units=units: units, policies=["linux-6.1"])
        assert "scan" not in {f.measure.name for f in c.findings}
        found = only(compare(base, new, blocks=lambda ms, units=units: units, metrics=["scan"]), "scan")
        assert (found.verdict, found.why) == ("inconclusive", "no run has this figure")


def test_counts_of_one_are_told_in_the_singular() -> None:
    base, new = pairs(1, 8)
    assert compare(base, new[:-1]).notes == ("left out, as the other side has no partner: 1 run",)
    notes = compare(base, [*[replace(s, recording=f"o{s.recording}") for s in new[:-1]], new[-1]], unpaired=True).notes
    assert notes == ("in both sets: 1 recording; without --unpaired they are pairs",)
    missing = [*new[:-1], replace(new[-1], skill=None)]
    assert "not known of 1 run\n" in compareout.table(compare(base, missing), everything=False)


def test_it_says_which_run_a_plugin_ended_in() -> None:
    base, new = pairs(0, 8)
    told = "crashed (SIGSEGV) in decide at decision 7: undecided from there on"
    new[3] = replace(new[3], problems={"linux-6.1": (told,), "gone": ("not compared",)})
    c = compare(base, new, metrics=["p99"])
    assert c.notes == (f"NEW: trace 3: linux-6.1: {told}",)
    assert f"NEW: trace 3: linux-6.1: {told}" in " ".join(compareout.table(c, everything=False).split())


def test_too_short_for_blocks_is_inconclusive() -> None:
    base, new = pairs(0, 1)
    c = compare(base, new, blocks=lambda ms: [Unit("0", {}, {})] * 4, metrics=["p99"])
    assert {f.verdict for f in c.findings} == {"inconclusive"}


@pytest.mark.parametrize("text", ["p99", "p99+", "p99+5", "p99*5%", "+5%", "p99+5%;", "p99 + 5%"])
def test_a_gate_is_a_metric_a_sign_and_per_cent(text: str) -> None:
    with pytest.raises(UsageError, match=r"METRIC\+N%"):
        measures.gate(text)


def test_an_unknown_metric_names_the_known() -> None:
    with pytest.raises(UsageError, match="no metric named p98; there are p50, p90, p99"):
        measures.gate("p98+5%")


def test_the_same_input_gives_the_same_bytes() -> None:
    told = [compareout.table(compare(*pairs(5, 8, 1.06)), everything=True) for _ in range(2)]
    assert told[0] == told[1]


def test_a_recording_that_was_forced_is_named_above_the_table() -> None:
    base, new = pairs(1, 6)
    forced = [*new[:-1], replace(new[-1], refused="quality REFUSED: lost 3 %")]
    shown = compareout.table(compare(base, forced), everything=False)
    assert "trace 5: quality REFUSED: lost 3 % (--force)" in shown
    assert "quality ok in all 12 runs" in compareout.table(compare(base, new), everything=False)
