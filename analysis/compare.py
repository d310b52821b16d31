# SPDX-License-Identifier: GPL-2.0-or-later
"""Two sets of runs against each other: what got worse, what got better, and what cannot be told.

The unit is the recording, never the wakeup: a replay is deterministic, so more wakeups of one recording tell more about
that recording and nothing about the next. Three designs:

- *paired*: the same recordings in both sets (by their hash), Wilcoxon and BCa on the log-ratio of each recording;
- *within-run*: one recording in both sets; its blocks of time of at least 100 ms are the units, and what is found holds
  for that recording only;
- *unpaired*: different recordings of the same load, on request; Mann-Whitney and BCa on their logarithms.

A change is one whose interval excludes 0, whose p holds after Benjamini and Hochberg over metric x policy, and whose
size is above the floor. A figure known as [lo, hi] changed only where both ends did, the same way: the p of the pair is
the larger one, its interval reaches from the lower to the higher end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rewake.analysis import measures, stats
from rewake.analysis.grid import counted
from rewake.analysis.measures import SIDES, Gate, Measure
from rewake.analysis.subjects import Figures, Subject, Unit
from rewake.errors import UsageError

FLOOR_PCT = 2.0
BLOCKS_MS = (100, 200, 500, 1000, 2000, 5000)
FULL_BLOCKS = 0.9
"""Share of the blocks that must have the samples of a percentile; longer blocks are taken where fewer have."""
LEAST_BLOCKS = 10


@dataclass(frozen=True)
class End:
    """One end of a figure: the test, and the medians of both sets in the metric's unit."""

    side: str
    test: stats.Test
    base: float
    new: float
    level: float
    """The baseline's median as its logarithm has it: above 0, half an event or 1 ns being added."""

    def change(self, log: float) -> float:
        """What a log-ratio comes to from the baseline's median, in the metric's unit."""
        return abs(self.level * math.expm1(log))

    def moved(self, least: float, floor_pct: float) -> bool:
        """Whether the difference is worth a word. Medians may be the same though everything around them moved."""
        size = max(abs(self.new - self.base), self.change(self.test.effect))
        return size >= least and abs(percent(self.test.effect)) >= floor_pct

    def within(self, least: float) -> bool:
        """Whether no difference in the interval is worth a word, nor is the one of the medians."""
        ends = (self.change(self.test.low), self.change(self.test.high), abs(self.new - self.base))
        return max(ends) < least


@dataclass(frozen=True)
class Finding:
    """One metric of one policy. `verdict` ∈ regression improvement unclear unchanged same inconclusive."""

    policy: str
    measure: Measure
    ends: tuple[End, ...]
    q: float | None
    verdict: str
    why: str
    failed: str | None = None
    """The gate that it fails."""

    @property
    def p(self) -> float | None:
        return combined_p(self.ends)

    @property
    def n(self) -> int:
        return min((e.test.n for e in self.ends), default=0)

    @property
    def effect_pct(self) -> tuple[float, float] | None:
        """Change in per cent at the lo end and at the hi end."""
        if not self.ends:
            return None
        return percent(self.ends[0].test.effect), percent(self.ends[-1].test.effect)

    @property
    def interval_pct(self) -> tuple[float, float] | None:
        """From the lowest to the highest that the change may be, in per cent; None where nothing bounds it."""
        if not self.ends:
            return None
        low, high = min(e.test.low for e in self.ends), max(e.test.high for e in self.ends)
        return (percent(low), percent(high)) if math.isfinite(low) and math.isfinite(high) else None

    def plain(self) -> dict[str, Any]:
        effect, interval = self.effect_pct or (None, None), self.interval_pct or (None, None)
        return {
            "policy": self.policy,
            "metric": self.measure.name,
            "unit": self.measure.unit,
            "verdict": self.verdict,
            "why": self.why,
            "failed": self.failed,
            "n": self.n,
            "effect_lo_pct": effect[0],
            "effect_hi_pct": effect[1],
            "interval_low_pct": interval[0],
            "interval_high_pct": interval[1],
            "p": self.p,
            "q": self.q,
            "ends": [{"end": e.side, "base": e.base, "new": e.new} for e in self.ends],
        }


@dataclass(frozen=True)
class Comparison:
    """The answer. `design` ∈ paired within-run unpaired; `unit` in words, `n` as (base, new)."""

    design: str
    unit: str
    n: tuple[int, int]
    findings: tuple[Finding, ...]
    gates: tuple[Gate, ...]
    floor_pct: float
    base: tuple[Subject, ...]
    new: tuple[Subject, ...]
    notes: tuple[str, ...]

    @property
    def failed(self) -> tuple[Finding, ...]:
        """What ends with exit code 3: what the gates say, or every regression where there is no gate."""
        if self.gates:
            return tuple(f for f in self.findings if f.failed)
        return tuple(f for f in self.findings if f.verdict == "regression")

    @property
    def inconclusive(self) -> tuple[Finding, ...]:
        """Where no answer is possible, of the metrics that are gated (all where there is no gate)."""
        gated = {g.measure.name for g in self.gates}
        return tuple(
            f
            for f in self.findings
            if f.verdict in ("inconclusive", "unclear") and (not gated or f.measure.name in gated)
        )

    @property
    def changed(self) -> tuple[Finding, ...]:
        kept = ("regression", "improvement", "unclear")
        return tuple(f for f in self.findings if f.verdict in kept or f.failed)

    def plain(self) -> dict[str, Any]:
        return {
            "design": self.design,
            "unit": self.unit,
            "n": list(self.n),
            "alpha": stats.ALPHA,
            "floor_pct": self.floor_pct,
            "gates": [str(g) for g in self.gates],
            "failed": [{"policy": f.policy, "metric": f.measure.name, "gate": f.failed} for f in self.failed],
            "findings": [f.plain() for f in self.findings],
            "base": [_subject(s) for s in self.base],
            "new": [_subject(s) for s in self.new],
            "notes": list(self.notes),
        }


def _subject(s: Subject) -> dict[str, Any]:
    return {"name": s.name, "recording": s.recording, "kernel": s.kernel, "machine": s.machine, "skill": s.skill}


def percent(log: float) -> float:
    """A log-ratio as a change in per cent."""
    return 100.0 * math.expm1(log)


def combined_p(ends: Sequence[End]) -> float | None:
    """That both ends moved is rejected only where each is: the larger p (intersection-union)."""
    known = [e.test.p for e in ends if e.test.p is not None]
    return max(known) if known and len(known) == len(ends) else None


def compare(
    base: Sequence[Subject], new: Sequence[Subject], *,
    blocks: Callable[[int], Sequence[Unit]] | None = None, unpaired: bool = False, metrics: Sequence[str] = (),
    policies: Sequence[str] = (), gates: Sequence[Gate] = (), floor_pct: float = FLOOR_PCT,
) -> Comparison:  # fmt: skip
    """Compares two sets. `blocks(ms)`: units of a single pair, cut into blocks of so many milliseconds."""
    asked = {*metrics, *(g.measure.name for g in gates)}
    chosen = measures.named(sorted(asked) if metrics else ())
    notes: list[str] = []
    for what, subjects in (("BASE", base), ("NEW", new)):
        _refuse_repeats(what, subjects)
    shared = _shared_policies(base, new, policies, notes)
    by_recording = {s.recording: s for s in base}
    pairs = [(by_recording[s.recording], s) for s in new if s.recording in by_recording]
    if unpaired:
        design, unit, n = "unpaired", "recording", (len(base), len(new))
        notes += _machines(base, new)
        if pairs:
            notes.append(f"in both sets: {counted(len(pairs), 'recording')}; without --unpaired they are pairs")
        columns = [Unit(s.name, s.figures, {}) for s in base] + [Unit(s.name, {}, s.figures) for s in new]
    elif not pairs:
        raise UsageError(
            "BASE and NEW have no recording in common, so nothing can be paired: replay the same recordings on both "
            "sides, or say --unpaired where they are repeats of one load"
        )
    else:
        left = len(base) + len(new) - 2 * len(pairs)
        if left:
            notes.append(f"left out, as the other side has no partner: {counted(left, 'run')}")
        design, unit, n = "paired", "recording", (len(pairs), len(pairs))
        columns = [Unit(b.name, b.figures, s.figures) for b, s in pairs]
        if len(pairs) == 1 and blocks is not None:
            design, unit = "within-run", "block of time"
    notes += _problems(base, new, shared)
    tests: list[tuple[str, Measure, tuple[End, ...], str]] = []
    cut: dict[int, Sequence[Unit]] = {}
    for policy in shared:
        for measure in chosen:
            units: Sequence[Unit] = columns
            said = ""
            if design == "within-run":
                assert blocks is not None
                units, said = _blocks_for(measure, policy, blocks, cut)
            ends, why = ends_of(measure, policy, units, design == "unpaired")
            if not (ends or why or said) and measure.name in asked:
                takes = f", which takes {measure.samples:,} decisions" if measure.samples > 1 else ""
                why = f"no run has this figure{takes}"
            if ends or said or why:
                tests.append((policy, measure, ends, why or said))
    if design == "within-run":
        n = (max(map(len, cut.values()), default=0),) * 2
    findings = judge(tests, gates, floor_pct, design)
    return Comparison(design, unit, n, findings, tuple(gates), floor_pct, tuple(base), tuple(new), tuple(notes))


def _refuse_repeats(what: str, subjects: Sequence[Subject]) -> None:
    seen: dict[str, str] = {}
    for s in subjects:
        if s.recording in seen:
            raise UsageError(
                f"{what}: {seen[s.recording]} and {s.name} replay the same recording, which says nothing twice: "
                "leave one of them out"
            )
        seen[s.recording] = s.name


def _shared_policies(
    base: Sequence[Subject], new: Sequence[Subject], asked: Sequence[str], notes: list[str]
) -> list[str]:
    """Policies that every run has, in the order of the first."""
    everywhere = set.intersection(*(set(s.figures) for s in (*base, *new)))
    anywhere = list(dict.fromkeys(p for s in (*base, *new) for p in s.figures))
    for name in asked:
        if name not in everywhere:
            raise UsageError(f"--policy {name}: not in every run; they share {', '.join(sorted(everywhere))}")
    if missing := [p for p in anywhere if p not in everywhere]:
        notes.append(f"not in every run, left out: {', '.join(missing)}")
    return [p for p in anywhere if p in everywhere and (not asked or p in asked)]


def _problems(base: Sequence[Subject], new: Sequence[Subject], shared: Sequence[str]) -> list[str]:
    """What went wrong with the policies that are compared: one that ended early decided a part of a recording alone."""
    return [
        f"{what}: {s.name}: {policy}: {problem}"
        for what, subjects in (("BASE", base), ("NEW", new))
        for s in subjects
        for policy in shared
        for problem in s.problems.get(policy, ())
    ]


def _machines(base: Sequence[Subject], new: Sequence[Subject]) -> list[str]:
    kinds = sorted({s.machine for s in (*base, *new)})
    return [f"the machines differ: {'; '.join(kinds)}"] if len(kinds) > 1 else []


def _blocks_for(
    measure: Measure, policy: str, blocks: Callable[[int], Sequence[Unit]], cut: dict[int, Sequence[Unit]]
) -> tuple[Sequence[Unit], str]:
    """The shortest blocks in which most have the samples that the metric takes, and their length in words."""
    units: Sequence[Unit] = ()
    for ms in BLOCKS_MS:
        if ms not in cut:
            cut[ms] = blocks(ms)
        units = cut[ms]
        full = sum(measure.value(u.base.get(policy, {}), "lo") is not None for u in units)
        if measure.samples == 1 and units and not full:  # not known, however long: what the record scanned, or no LLCs
            return (), ""
        if len(units) < LEAST_BLOCKS:
            break
        if full >= FULL_BLOCKS * len(units):
            return units, f"blocks of {ms} ms"
    return (), f"fewer than {LEAST_BLOCKS} blocks with {counted(measure.samples, 'decision')} each"


def ends_of(measure: Measure, policy: str, units: Sequence[Unit], unpaired: bool) -> tuple[tuple[End, ...], str]:
    """The ends that can be compared, and why an end cannot; no ends and no reason: the metric is not known at all."""
    if not unpaired:  # a policy that ended in one run, as a plugin does that crashes, has no figures of later blocks
        units = [u for u in units if policy in u.base and policy in u.new]
    found: dict[str, End] = {}
    lost = 0
    for side in SIDES:
        base = [u.base[policy] for u in units if policy in u.base]
        new = [u.new[policy] for u in units if policy in u.new]
        known = [measure.value(f, "lo") is not None for f in (*base, *new)]
        bounded = [measure.value(f, side) is not None for f in (*base, *new)]
        if not any(known):
            return (), ""
        if side == "hi" and (lost := sum(k and not b for k, b in zip(known, bounded, strict=True))):
            continue
        if (end := _end(measure, side, base, new, unpaired)) is None:
            return (), ("no run on one of the sides" if unpaired else "no unit on both sides") + " has this figure"
        found[side] = end
    if lost:
        return tuple(found.values()), f"hi is unbounded in {lost} of {sum(known)}"
    lo, hi = found["lo"], found["hi"]
    same = (lo.test, lo.base, lo.new) == (hi.test, hi.base, hi.new)
    return ((lo,) if same else (lo, hi)), ""


def _end(measure: Measure, side: str, base: Sequence[Figures], new: Sequence[Figures], unpaired: bool) -> End | None:
    """None: there is nothing to compare."""
    if unpaired:
        a = [f for f in base if measure.value(f, side) is not None]
        b = [f for f in new if measure.value(f, side) is not None]
    else:
        both = [
            (f, g)
            for f, g in zip(base, new, strict=True)
            if measure.value(f, side) is not None and measure.value(g, side) is not None
        ]
        a, b = [f for f, _ in both], [g for _, g in both]
    if not a or not b:
        return None
    logs = [[measure.log(f, side) or 0.0 for f in s] for s in (a, b)]
    test = stats.unpaired(*logs) if unpaired else stats.paired([y - x for x, y in zip(*logs, strict=True)])
    before, after = (float(np.median([measure.value(f, side) or 0.0 for f in s])) for s in (a, b))
    return End(side, test, before, after, math.exp(float(np.median(logs[0]))))


def judge(
    tests: Sequence[tuple[str, Measure, tuple[End, ...], str]], gates: Sequence[Gate], floor_pct: float,
    design: str,
) -> tuple[Finding, ...]:  # fmt: skip
    """Verdicts. What is gated was named before anything was seen: it is corrected as a family of its own."""
    gated = {g.measure.name for g in gates}
    qs: dict[int, float] = {}
    for family in (True, False):
        members = [i for i, (_, m, ends, why) in enumerate(tests) if (m.name in gated) is family and not _open(why)]
        known = [(i, p) for i in members if (p := combined_p(tests[i][2])) is not None]
        qs.update(zip((i for i, _ in known), stats.adjusted([p for _, p in known]), strict=True))
    findings = []
    for i, (policy, measure, ends, why) in enumerate(tests):
        found = Finding(policy, measure, ends, qs.get(i), "", why)
        verdict, said = _verdict(found, floor_pct, design)
        found = replace(found, verdict=verdict, why=said)
        findings.append(replace(found, failed=_failed(found, gates)))
    return tuple(findings)


def _open(why: str) -> bool:
    return why.startswith("hi is unbounded")


def _significant(f: Finding) -> bool:
    """Both ends excluded 0 on the same side, and the corrected p holds."""
    same_way = len({e.test.effect > 0 for e in f.ends}) == 1
    return same_way and all(e.test.excludes_zero for e in f.ends) and f.q is not None and f.q <= stats.ALPHA


def _verdict(f: Finding, floor_pct: float, design: str) -> tuple[str, str]:
    if not f.ends:
        return "inconclusive", f.why
    identical = all(e.test.p is None for e in f.ends) and not _open(f.why)
    if identical and design != "unpaired":
        # The same recording, decided the same way: that needs no statistics.
        return "same", "identical in every unit"
    attainable = f.ends[0].test.attainable
    if attainable > stats.ALPHA:
        differ = 1 - round(math.log2(attainable))  # of pairs the test leaves out those that are the same
        few = f"only {differ} of {f.n} differ" if design != "unpaired" and differ < f.n else f"n = {f.n} is too small"
        return "inconclusive", f"{few}: no p below {attainable:.2g} is possible"
    if identical:
        return "same", "identical in every unit"
    if _open(f.why):
        # Only lo can be compared: a change of it alone proves nothing, and neither does its absence.
        return "inconclusive", f.why
    if _significant(f):
        if not all(e.moved(f.measure.least, floor_pct) for e in f.ends):
            return "unchanged", f"below the floor of {floor_pct:g} %"
        worse = (f.ends[0].test.effect > 0) == f.measure.lower_is_better
        return ("regression" if worse else "improvement"), f.why
    one = [e for e in f.ends if e.test.p is not None and e.test.p <= stats.ALPHA and e.test.excludes_zero]
    if len(f.ends) == 2 and len(one) == 1 and one[0].moved(f.measure.least, floor_pct):
        return "unclear", f"only the {one[0].side} end moved"
    low, high = f.interval_pct or (-math.inf, math.inf)
    small = max(floor_pct, 0.0)
    close = all(e.within(f.measure.least) for e in f.ends)
    if close or (low > -small and high < small):
        return "unchanged", f.why
    return "inconclusive", "the interval is wider than the floor"


def _failed(f: Finding, gates: Sequence[Gate]) -> str | None:
    """The strictest gate of this metric that it fails: significant, and beyond the limit at both ends."""
    if not _significant(f) or _open(f.why):
        return None
    effects = [percent(e.test.effect) for e in f.ends]
    failed = [
        g for g in gates if g.measure == f.measure and all((x > g.pct) if g.up else (x < -g.pct) for x in effects)
    ]
    return str(min(failed, key=lambda g: g.pct)) if failed else None
