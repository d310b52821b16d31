# SPDX-License-Identifier: GPL-2.0-or-later
"""Simulates many settings of the recorded kernel over some recordings, and the best of them over others.

A setting is a policy instance, or hints by task name for the recorded kernel with userspace hints. The search is a
coordinate search: one name and one pair of hints after the other, in an order that the seed gives. What is judged is
simulated by another `Bench`; nothing of it reaches the search.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rewake import runs
from rewake.analysis import advice, simulated, sql, stats
from rewake.errors import QualityVeto, UsageError
from rewake.forms import Recording, in_memory
from rewake.replay.driver import machine_notes
from rewake.replay.hints import HINT_PAIRS, HINTS, Rule, TaskHints, dump, exactly, rules_of
from rewake.replay.settings import Settings
from rewake.replay.simulate import Arm, Simulator, Window, kept
from rewake.replay.spec import PolicySpec, parse

if TYPE_CHECKING:
    from rewake.analysis.advice import Advice, Guard, Objective, Outcome, Searched

MOST_WINDOWS = 100
"""Windows of a recording that are simulated, evenly chosen."""
MOST_NAMES, LEAST_SHARE = 8, 0.01
"""Task names that hints are tried for: so many at most, each with at least this share of the placements."""
WAKE_BITS = sum(HINTS[name] for name in HINT_PAIRS[1])
LEAST_FORKS = 20
"""Forks of a name before hints for forks are tried."""
_TOGETHER = 8
"""Settings that are simulated in one pass: bounds the memory."""
_SEEDS = 1000
"""Seeds of one --seed: replicas, and those of the settings that draw their own."""


@dataclass(frozen=True)
class Candidate:
    """A setting. `drawn`: it draws all its costs anew, from a seed of that number; 0: the draws of no hint."""

    spec: PolicySpec
    hints: tuple[Rule, ...] = ()
    drawn: int = 0

    @property
    def name(self) -> str:
        given = [f"{' '.join(r.comm)}: {' '.join(r.hints)}" for r in self.hints]
        return "; ".join(given) or (f"{self.spec}, drawn anew {self.drawn}" if self.drawn else str(self.spec))


@dataclass(frozen=True)
class Options:
    """What the search may do."""

    objective: Objective
    guards: tuple[Guard, ...]
    sweep: tuple[Candidate, ...] = ()
    trials: int = 60
    """Assignments of hints, at most; 0: none are tried."""
    seed: int = 0
    threads: int = 1
    force: bool = False


class Bench:
    """Recordings on which settings are simulated: the only way from a setting to its figures."""

    def __init__(self, recordings: Mapping[str, Recording], auto: PolicySpec, settings: Settings, options: Options):
        self.names = tuple(recordings)
        self._settings, self._options = settings, options
        seeded = replace(settings, seed=options.seed * _SEEDS)
        self._simulators = {name: Simulator(r, seeded, auto) for name, r in recordings.items()}
        for simulator in self._simulators.values():
            simulator.calibrate(options.threads)

    def windows(self, name: str) -> list[Window]:
        """Those of a recording that are simulated."""
        every = self._simulators[name].windows
        n = len(every)
        return every if n <= MOST_WINDOWS else [every[i * n // MOST_WINDOWS] for i in range(MOST_WINDOWS)]

    def simulate(self, candidates: Sequence[Candidate]) -> list[Outcome]:
        """The windows of each candidate, over all recordings."""
        found: list[dict[advice.Key, list[advice.Window]]] = [{} for _ in candidates]
        together: dict[tuple[Rule, ...], list[int]] = {}
        for i, candidate in enumerate(candidates):
            together.setdefault(candidate.hints, []).append(i)
        for name, simulator in self._simulators.items():
            for rules, members in together.items():
                arms = [a for i in members for a in self._arms(simulator, str(i), candidates[i])]
                hints = TaskHints(simulator.recording, rules_of("tried", rules)) if rules else None
                tables = kept(simulator, arms, self.windows(name), hints, self._options.threads)
                con = in_memory({**tables, "cpu": simulator.recording.read("cpu")})
                try:
                    sql.prepare(con)
                    rows = sql.run(con, "simulate/windows").dicts()
                finally:
                    con.close()
                for i in members:
                    found[i] |= advice.outcome(name, (row for row in rows if row["policy"] == str(i)))
        return list(found)

    def _arms(self, simulator: Simulator, name: str, candidate: Candidate) -> list[Arm]:
        out = []
        for k in range(self._settings.replicas):
            own = k == 0 and not candidate.drawn
            seed = simulator.settings.seed + k + candidate.drawn * self._settings.replicas
            more = simulator.arm_settings(own_luck=own, seed=seed)
            out.append(Arm(name, candidate.spec, more, "policy", k))
        return out


def advise(
    search: Mapping[str, Recording],
    judged: Mapping[str, Recording],
    settings: Settings,
    options: Options,
    *,
    halves: bool = False,
    progress: runs.Progress | None = None,
) -> tuple[Advice, Candidate | None]:
    """The answer, and the setting if it is recommended. `settings`: as of a simulation.

    UsageError where recordings are of different kernels or where a figure has too few wakeups in a window; QualityVeto
    where more windows of no hint diverged than can be answered for, unless `options.force`.
    """
    stats.extra("scipy.stats", "report", "advice")  # said before the search, not after it
    column = runs.shared_column([*search.values(), *judged.values()])
    auto = parse(column)[0]
    for candidate in options.sweep:
        if candidate.spec.is_plugin:
            raise UsageError(f"--policy {candidate.spec}: plugins are not swept; rewake simulate puts them in charge")
    hinting = PolicySpec("userspace-hints", dict(auto.params), auto.name)
    if options.trials:
        runs.policy(hinting.policy)
    bench = Bench(search, auto, settings, options)
    looked = _Search(bench, auto, options, progress)
    names, left_out = hinted_names(search) if options.trials else ([], [])
    looked.sweep()
    looked.hints(names, hinting)
    if progress is not None:
        progress(1, 1)
    best = looked.best()
    verdict = None if best is None else _judge(best, looked, judged, auto, settings, options)
    plain = {
        "windows_ns": settings.windows_ns, "replicas": settings.replicas, "balance": settings.balance,
        "move_factor": settings.move_factor, "seed": options.seed, "trials": options.trials,
        "recordings": {name: r.manifest.get("id") for name, r in (*search.items(), *judged.items())},
    }  # fmt: skip
    level = advice.level(options.objective, looked.base)
    won = best if verdict is not None and verdict.recommended else None
    rules = dump(won.hints) if won is not None and won.hints else None
    found = advice.Advice(
        options.objective, options.guards, column, level, tuple(search), tuple(judged), halves, tuple(looked.tried),
        verdict, (*left_out, *looked.left_out), plain, rules, _checks(judged, auto, settings, options),
    )  # fmt: skip
    return found, won


def feature_flips(recordings: Sequence[Recording]) -> list[PolicySpec]:
    """The small grid: each scheduler feature of the recorded kernel's column the other way."""
    auto = parse(runs.shared_column(recordings))[0]
    switches = {p["name"]: p["value"] for p in runs.policy(auto.policy)["params"] if _is_switch(p)}
    values = switches | {k: v for k, v in auto.params.items() if k in switches}
    return [replace(auto, params={**auto.params, name: "10"[int(value)]}) for name, value in values.items()]


def _is_switch(parameter: Mapping[str, Any]) -> bool:
    return not parameter["constant"] and parameter["value"] in ("0", "1") and parameter["name"].isupper()


@dataclass(frozen=True)
class Named:
    """Tasks by a pattern of their names, and what can be tried for them."""

    pattern: str
    pairs: tuple[tuple[str, ...], ...]


def hinted_names(recordings: Mapping[str, Recording]) -> tuple[list[Named], list[str]]:
    """The task names that hints are tried for, busiest first, and what is left out."""
    wakeups: dict[str, int] = {}
    forks: dict[str, int] = {}
    for recording in recordings.values():
        con = recording.connect(("decision", "task", "task_attr", "comm"))
        try:
            sql.prepare(con)
            for row in sql.run(con, "tasks/names").dicts():
                wakeups[row["name"]] = wakeups.get(row["name"], 0) + row["wakeups"]
                forks[row["name"]] = forks.get(row["name"], 0) + row["forks"]
        finally:
            con.close()
    groups: dict[str, list[str]] = {}
    for name in wakeups:
        groups.setdefault(re.sub(r"\d+", "0", name), []).append(name)
    placed = {_pattern(names): names for names in groups.values()}
    total = sum(wakeups.values()) + sum(forks.values())
    size = {p: sum(wakeups[n] + forks[n] for n in names) for p, names in placed.items()}
    order = sorted(size, key=lambda p: (-size[p], p))
    busy = [p for p in order if size[p] >= LEAST_SHARE * total][:MOST_NAMES]
    fork, wake = HINT_PAIRS
    idle = {note for r in recordings.values() for note in machine_notes(r, [PolicySpec("userspace-hints")], WAKE_BITS)}
    forking = {p for p in busy if sum(forks[n] for n in placed[p]) >= LEAST_FORKS}
    found = [Named(p, (() if idle else (wake,)) + ((fork,) if p in forking else ())) for p in busy]
    said = [f"hints for wakeups: {note}" for note in sorted(idle)]
    if rest := len(order) - len(busy):
        least = f"fewer than {100 * LEAST_SHARE:g} % of the placements each, or beyond the {MOST_NAMES} busiest"
        said.append(f"hints for {rest} task name{'s' if rest > 1 else ''} with {least}")
    if few := [p for p in busy if p not in forking]:
        said.append(f"hints for forks of {', '.join(few)}: fewer than {LEAST_FORKS} forks")
    return found, said


def _pattern(names: Sequence[str]) -> str:
    """Names that differ in numbers only, as one pattern."""
    if len(names) == 1:
        return exactly(names[0])
    return "*".join(exactly(part) for part in re.split(r"\d+", names[0]))


class _Search:
    """What was tried over the recordings of the search, in order."""

    def __init__(self, bench: Bench, auto: PolicySpec, options: Options, progress: runs.Progress | None) -> None:
        self._bench, self._options, self._progress = bench, options, progress
        self.tried: list[Searched] = []
        self.left_out: list[str] = []
        self._candidates: list[Candidate] = []
        self._of: dict[str, tuple[Searched, Outcome]] = {}
        self.base = bench.simulate([Candidate(auto)])[0]
        if (share := advice.diverged_pct(self.base)) > simulated.MOST_DIVERGED and not options.force:
            raise QualityVeto(
                f"{auto}: {share:.0f} % of the windows left the recording behind (more than "
                f"{simulated.MOST_DIVERGED:g} %): nothing can be advised; try shorter --windows, or --force"
            )
        for about in (options.objective, *(g.objective for g in options.guards)):
            advice.require(about, self.base)

    def _look(self, candidates: Sequence[Candidate]) -> None:
        fresh = list({c.name: c for c in candidates if c.name not in self._of}.values())
        about, guards = self._options.objective, self._options.guards
        for k in range(0, len(fresh), _TOGETHER):
            some = fresh[k : k + _TOGETHER]
            for candidate, found in zip(some, self._bench.simulate(some), strict=True):
                seen = advice.searched(candidate.name, self.base, found, about, guards, simulated.MOST_DIVERGED)
                self._of[candidate.name] = seen, found
                self._candidates.append(candidate)
                self.tried.append(seen)

    def sweep(self) -> None:
        """Every instance that was asked for."""
        self._look(self._options.sweep)

    def hints(self, names: Sequence[Named], policy: PolicySpec) -> None:
        """Coordinate search: each name's hints of a pair in turn, the others as they are, until nothing gets better by
        more than its standard error, or the trials are used up."""
        coordinates = [(n.pattern, pair) for n in names for pair in n.pairs]
        random.Random(self._options.seed).shuffle(coordinates)
        now: dict[tuple[str, tuple[str, ...]], str] = {}
        budget, still = self._options.trials, 0
        while coordinates and still < len(coordinates):
            at = coordinates.pop(0)
            coordinates.append(at)
            choices = [now | {at: hint} for hint in at[1] if now.get(at) != hint]
            choices += [{k: v for k, v in now.items() if k != at}] if at in now else []
            ahead = [self._assigned(c, names, policy) for c in choices]
            fresh = sum(bool(c.hints) and c.name not in self._of for c in ahead)
            if fresh > budget:
                left = f"{budget} of {self._options.trials} trials are left, and the next step takes {fresh}"
                self.left_out.append(f"further hints: {left} (--trials)")
                return
            budget -= fresh
            self._look([c for c in ahead if c.hints])
            better = [(self._gain(c, self._assigned(now, names, policy)), i) for i, c in enumerate(ahead)]
            gain, i = max(better, key=lambda x: (x[0], -x[1]))
            still = 0 if gain > 0 else still + 1
            if gain > 0:
                now = choices[i]
            if self._progress is not None:
                self._progress(self._options.trials - budget, self._options.trials)

    @staticmethod
    def _assigned(
        now: Mapping[tuple[str, tuple[str, ...]], str], names: Sequence[Named], policy: PolicySpec
    ) -> Candidate:
        rules = []
        for n in names:
            if given := tuple(now[n.pattern, pair] for pair in n.pairs if (n.pattern, pair) in now):
                rules.append(Rule(given, comm=(n.pattern,)))
        return Candidate(policy, tuple(rules))

    def _gain(self, candidate: Candidate, before: Candidate) -> float:
        """By how much it is better than what it would replace, 0 where not by more than the standard error."""
        if candidate.hints and not self._of[candidate.name][0].within:
            return 0.0
        outcomes = [self._of[c.name][1] if c.hints else self.base for c in (before, candidate)]
        change, error = advice.middle(list(advice.ratios(self._options.objective, *outcomes).values()))
        gain = self._options.objective.sign * change
        return gain if gain > error else 0.0

    def best(self) -> Candidate | None:
        """The one that got furthest; of equal ones the first. None where none is better than no hint."""
        sign = self._options.objective.sign
        able = [(sign * s.change, -i) for i, s in enumerate(self.tried) if s.better(self._options.objective)]
        return self._candidates[-max(able)[1]] if able else None


def _judge(
    best: Candidate, looked: _Search, judged: Mapping[str, Recording], auto: PolicySpec, settings: Settings,
    options: Options,
) -> advice.Judged:  # fmt: skip
    bench = Bench(judged, auto, settings, options)
    base, redrawn, other = bench.simulate([Candidate(auto), Candidate(auto, drawn=1), best])
    for about in (options.objective, *(g.objective for g in options.guards)):
        advice.require(about, base)
    everywhere = {**looked.base, **base}
    return advice.judge(
        best.name, options.objective, options.guards, base, other, redrawn, everywhere, simulated.MOST_DIVERGED
    )


def _checks(
    judged: Mapping[str, Recording], auto: PolicySpec, settings: Settings, options: Options
) -> tuple[dict[str, Any], ...]:
    """How far the model reproduces the judged recordings, as `simulate` says it."""
    out = []
    for name, recording in judged.items():
        run = runs.make_simulation(
            recording, [], replace(settings, replicas=1), name=name, out=None, auto=auto, threads=options.threads
        )
        found = runs.simulation_of(run, name)
        simulated.enforce(found, options.force)
        out.append({"recording": name, "missed": {c.kind: c.missed for c in found.checks}})
    return tuple(out)


__all__ = ["Bench", "Candidate", "Options", "advise", "feature_flips", "hinted_names"]
