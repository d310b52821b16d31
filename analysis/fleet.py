# SPDX-License-Identifier: GPL-2.0-or-later
"""What a fleet comes to: which policy wins where, over recordings, and where it loses.

The unit is the recording, as in compare.py, whose tests these are: every policy against one baseline on the same
recordings, paired. Windows and seeds of a recording are added up first. What failed, what the quality card refuses and
what the recorded kernel's own column does not reproduce is counted apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import duckdb

from rewake.analysis import compare, measures, sql
from rewake.analysis.compare import Finding
from rewake.analysis.measures import Measure
from rewake.analysis.quality import MIN_DECISIONS
from rewake.analysis.subjects import Figures, Unit
from rewake.errors import UsageError

METRICS = ("would_move", "cross_llc_prev", "idle_missed_llc", "stacked", "p99")
"""What is compared where nobody says what."""
CLOSED_METRICS = ("would_move", "cross_llc_prev", "p50", "p99")
FACETS = ("machine", "kernel", "workload", "month")
"""Groups of recordings that are tested; a group of all of them is left out."""
LEAST_GROUP = 6
"""Fewer pairs can never reach p < 0.05."""
MIN_SKILL = 0.5
"""Limit of the fidelity gate: the column of its own kernel gets half of what staying on prev gets wrong right."""
AUTO = "auto"
BETTER, WORSE, EQUAL, OPEN = "better", "worse", "equal", "open"


@dataclass(frozen=True)
class Tally:
    """In how many recordings a policy is better and worse than the baseline: by the floor, at both ends."""

    better: int = 0
    worse: int = 0
    equal: int = 0
    open: int = 0
    """Only one end tells, or one is unbounded."""

    @property
    def n(self) -> int:
        return self.better + self.worse + self.equal + self.open


@dataclass(frozen=True)
class Group:
    """A policy's metric over the recordings of a group, tested."""

    facet: str
    name: str
    finding: Finding
    tally: Tally

    def plain(self) -> dict[str, Any]:
        return {"facet": self.facet, "name": self.name, **self.finding.plain(), "recordings": asdict(self.tally)}


@dataclass(frozen=True)
class Single:
    """A policy's metric in one recording: a replay is deterministic, so it is as it is, and says nothing of others."""

    recording: str
    uri: str
    workload: str
    machine: str
    kernel: str | None
    policy: str
    measure: Measure
    base: tuple[float | None, float | None]
    new: tuple[float | None, float | None]
    change_pct: float
    """Of the end that changed least."""

    def plain(self) -> dict[str, Any]:
        told = {k: getattr(self, k) for k in ("recording", "uri", "workload", "machine", "kernel", "policy")}
        return told | {"metric": self.measure.name, "base": list(self.base), "new": list(self.new),
                       "change_pct": self.change_pct}  # fmt: skip


@dataclass(frozen=True)
class Fleet:
    """A study of a fleet store."""

    store: str
    study: str
    asked: str
    tool: str
    mode: str
    """open or closed."""
    versus: str
    min_skill: float | None
    floor_pct: float
    standing: dict[str, tuple[int, int]]
    """counted, refused, unfaithful, no column, failed -> tasks, recordings."""
    policies: list[dict[str, Any]]
    """Figures over all counted recordings, by policy (fleet/by_group)."""
    groups: list[dict[str, Any]]
    """The same by machine class, kernel, workload, cgroup and month."""
    overall: list[Group]
    by_facet: list[Group]
    """Significant ones and others, the worst first."""
    worst: list[Single]
    best: list[Single]
    apart: list[dict[str, Any]]
    failures: list[dict[str, Any]]

    @property
    def recordings(self) -> int:
        return self.standing.get("counted", (0, 0))[1]

    @property
    def tasks(self) -> int:
        return sum(tasks for tasks, _ in self.standing.values())

    def changed(self, verdict: str) -> list[Group]:
        """Groups in which a policy that is no reference has this verdict, the largest effect first."""
        proper = {p["policy"] for p in self.policies if not p["reference"]}
        found = [g for g in self.by_facet if g.finding.verdict == verdict and g.finding.policy in proper]
        return sorted(found, key=lambda g: (-_size(g.finding), g.facet, g.name, g.finding.policy))

    def plain(self) -> dict[str, Any]:
        return {
            "store": self.store,
            "study": {"id": self.study, "asked": self.asked, "tool": self.tool, "mode": self.mode},
            "versus": self.versus,
            "min_skill": self.min_skill,
            "floor_pct": self.floor_pct,
            "standing": [{"standing": k, "tasks": t, "recordings": r} for k, (t, r) in self.standing.items()],
            "policies": self.policies,
            "overall": [g.plain() for g in self.overall],
            "groups": self.groups,
            "by_facet": [g.plain() for g in self.by_facet],
            "worst": [s.plain() for s in self.worst],
            "best": [s.plain() for s in self.best],
            "apart": self.apart,
            "failures": self.failures,
        }


def _size(f: Finding) -> float:
    """The smaller of the ends' effects."""
    return min((abs(e.test.effect) for e in f.ends), default=0.0)


def studies(con: duckdb.DuckDBPyConnection) -> list[tuple[str, str, str, int]]:
    """(id, what was asked, version, tasks) of all studies in a store."""
    return con.execute(
        "SELECT study, min(asked), min(tool), count(DISTINCT task) FROM shard GROUP BY study ORDER BY 4 DESC, 1"
    ).fetchall()


def choose(con: duckdb.DuckDBPyConnection, store: str, wanted: str | None) -> tuple[str, str, str]:
    """Keeps the shards of one study: of the one that the hash begins with, or of the only one."""
    there = studies(con)
    fitting = [s for s in there if wanted is None or s[0].startswith(wanted)]
    if len(fitting) != 1:
        listed = "; ".join(f"--study {key[:8]}: {tasks:,} tasks, {asked}, rewake {tool}"
                           for key, asked, tool, tasks in (fitting or there))  # fmt: skip
        what = "no such study" if not fitting else "several studies, which must not be added up"
        raise UsageError(f"{store}: {what}: {listed}")
    key, asked, tool, _ = fitting[0]
    con.execute("DELETE FROM shard WHERE study <> ?", [key])
    return key, asked, tool


def prepare(
    con: duckdb.DuckDBPyConnection, store: str, study: str | None = None, *, min_skill: float | None = MIN_SKILL,
    force: bool = False,
) -> tuple[str, str, str]:  # fmt: skip
    """Makes a connection of `FleetStore.connect()` ready for the queries about one study; what `choose` says of it."""
    chosen = choose(con, store, study)
    con.execute("SET VARIABLE fleet_force = ?", [force])
    con.execute("SET VARIABLE fleet_min_skill = ?", [min_skill])
    con.execute("SET VARIABLE fleet_min_decisions = ?", [MIN_DECISIONS])
    sql.prepare(con)
    return chosen


def build(
    con: duckdb.DuckDBPyConnection, store: str, *, study: str | None = None, versus: str = AUTO,
    min_skill: float | None = MIN_SKILL, force: bool = False, metrics: Sequence[str] = (),
    policies: Sequence[str] = (), floor_pct: float = compare.FLOOR_PCT, most: int = 10,
) -> Fleet:  # fmt: skip
    """Reduces a fleet store: `con` is `FleetStore.connect()`'s. `versus`: the baseline, `auto` being each recording's
    own kernel; `most`: how many single recordings are named."""
    key, asked, tool = prepare(con, store, study, min_skill=min_skill, force=force)
    mode = con.execute("SELECT min(mode) FROM shard").fetchall()[0][0]
    chosen = measures.named(metrics or (METRICS if mode == "open" else CLOSED_METRICS))
    standing = {row[0]: (row[1], row[2]) for row in sql.run(con, "fleet/standing").rows}
    groups = sql.run(con, "fleet/by_group").dicts()
    rows = sql.run(con, "fleet/by_recording").dicts()
    names = _policies(con, rows, policies, versus)
    tests = _Tests(rows, versus, [n for n in names if n != versus], chosen, floor_pct)
    by_facet = [g for facet in FACETS for g in tests.groups(facet)]
    singles = tests.singles()
    return Fleet(
        store=store,
        study=key,
        asked=asked,
        tool=tool,
        mode=mode,
        versus=versus,
        min_skill=min_skill,
        floor_pct=floor_pct,
        standing=standing,
        policies=[g for n in names for g in groups if g["facet"] == "all" and g["policy"] == n],
        groups=[g for g in groups if g["facet"] != "all" and g["policy"] in names],
        overall=tests.overall(),
        by_facet=tests.judged(by_facet),
        worst=sorted((s for s in singles if s.change_pct > 0), key=_rank)[:most],
        best=sorted((s for s in singles if s.change_pct < 0), key=_rank)[:most],
        apart=sql.run(con, "fleet/apart").dicts(),
        failures=sql.run(con, "fleet/failures").dicts(),
    )


def _rank(s: Single) -> tuple[float, str, str, str]:
    return -abs(s.change_pct), s.uri, s.policy, s.measure.name


def _policies(
    con: duckdb.DuckDBPyConnection, rows: Iterable[Mapping[str, Any]], asked: Sequence[str], versus: str
) -> list[str]:
    """The record, the null, each recording's own kernel, then the others by name. A kernel's column that nobody asked
    for stands in `auto` alone."""
    alone = "SELECT policy FROM fleet_row WHERE policy <> 'auto' GROUP BY policy HAVING bool_and(auto)"
    own = {str(p) for (p,) in con.execute(alone).fetchall()}
    there = {str(r["policy"]) for r in rows}
    for name in (*asked, versus):
        if there and name not in there:
            raise UsageError(f"no policy {name} in this study; it has {', '.join(sorted(there))}")
    first = [p for p in ("recorded", "prev", AUTO) if p in there]
    others = sorted(there - set(first) - own)
    return [p for p in (*first, *others) if not asked or p in asked or p == versus] + [
        p for p in sorted(own) if p in asked or p == versus
    ]


class _Tests:
    """Every policy against the baseline, recording by recording."""

    def __init__(
        self, rows: Sequence[dict[str, Any]], versus: str, policies: Sequence[str], chosen: Sequence[Measure],
        floor_pct: float,
    ) -> None:  # fmt: skip
        self._versus, self._policies, self._chosen, self._floor = versus, policies, chosen, floor_pct
        self._of: dict[str, dict[str, dict[str, Any]]] = {}
        for row in rows:
            self._of.setdefault(row["recording"], {})[row["policy"]] = row

    def _units(self, recordings: Iterable[str]) -> list[Unit]:
        units = []
        for key in recordings:
            mine = self._of[key]
            if (base := mine.get(self._versus)) is not None:
                units.append(Unit(key, {p: base for p in self._policies if p in mine}, mine))
        return units

    def _tested(self, facet: str, name: str, recordings: Sequence[str]) -> list[_Open]:
        units = self._units(recordings)
        out = []
        for policy in self._policies:
            mine = [u for u in units if policy in u.base]
            for measure in self._chosen:
                ends, why = compare.ends_of(measure, policy, mine, False)
                if ends or why:
                    tally = _tally([self._change(u.base[policy], u.new[policy], measure) for u in mine])
                    out.append(_Open(facet, name, (policy, measure, ends, why), tally))
        return out

    def overall(self) -> list[Group]:
        return self.judged(self._tested("all", "all", list(self._of)))

    def groups(self, facet: str) -> list[_Open]:
        """Tests of the groups of a facet that are large enough and not the whole."""
        named: dict[str, list[str]] = {}
        for key, policies in self._of.items():
            row = next(iter(policies.values()))
            value = str(row["made"])[:7] if facet == "month" and row["made"] else row.get(facet)
            if value is not None:
                named.setdefault(str(value), []).append(key)
        return [t for name in sorted(named) if LEAST_GROUP <= len(named[name]) < len(self._of)
                for t in self._tested(facet, name, named[name])]  # fmt: skip

    def judged(self, tests: Sequence[_Open]) -> list[Group]:
        """Verdicts, corrected over all of them."""
        findings = compare.judge([t.test for t in tests], (), self._floor, "paired")
        return [Group(t.facet, t.name, f, t.tally) for t, f in zip(tests, findings, strict=True)]

    def _change(self, base: Figures, new: Figures, measure: Measure) -> float | None:
        """Change in per cent by the end that changed least; 0 within the floor, None where an end is open or they
        disagree."""
        changes = []
        for side in measures.SIDES:
            a, b = measure.log(base, side), measure.log(new, side)
            if a is None or b is None:
                return None
            small = abs((measure.value(new, side) or 0.0) - (measure.value(base, side) or 0.0)) < measure.least
            change = compare.percent(b - a)
            changes.append(0.0 if small or abs(change) < self._floor else change)
        if min(changes) < 0 < max(changes):
            return None
        return min(changes, key=abs)

    def singles(self) -> list[Single]:
        """Every policy that is no reference in every recording where it differs from the baseline."""
        out = []
        for key, policies in self._of.items():
            base = policies.get(self._versus)
            for policy in self._policies if base is not None else ():
                new = policies.get(policy)
                if base is None or new is None or new["reference"] or policy == AUTO:
                    continue
                for measure in self._chosen:
                    if change := self._change(base, new, measure):
                        out.append(
                            Single(
                                *(key, new["uri"], new["workload"], new["machine"], new["kernel"], policy, measure),
                                base=(measure.value(base, "lo"), measure.value(base, "hi")),
                                new=(measure.value(new, "lo"), measure.value(new, "hi")),
                                change_pct=change,
                            )
                        )
        return out


@dataclass(frozen=True)
class _Open:
    """A test before it is judged."""

    facet: str
    name: str
    test: tuple[str, Measure, tuple[compare.End, ...], str]
    tally: Tally


def _tally(changes: Sequence[float | None]) -> Tally:
    return Tally(
        better=sum(c is not None and c < 0 for c in changes),
        worse=sum(c is not None and c > 0 for c in changes),
        equal=sum(c == 0 for c in changes),
        open=sum(c is None for c in changes),
    )
