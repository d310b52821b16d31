# SPDX-License-Identifier: GPL-2.0-or-later
"""A fleet's report as text: table and Markdown. Names go through analysis/text.py; figures are formatted only."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rewake.analysis import sql, stats, text
from rewake.analysis.compare import Finding
from rewake.analysis.fleet import FACETS, LEAST_GROUP, Fleet, Group, Single
from rewake.analysis.grid import NOTHING, Column, count, counted, micros, number, render, wrap
from rewake.analysis.measures import Measure
from rewake.analysis.report import DEFAULT_MAX_EXPOSURE

Safe = Callable[[str], str]
MOST_GROUPS, MOST_APART, MOST_FAILURES = 15, 20, 20
_WORDS = {"regression": "worse", "improvement": "better", "same": "same", "unchanged": "unchanged"}
_STANDING = {
    "counted": "counted",
    "refused": "refused by the quality card",
    "unfaithful": "not reproduced by their own kernel's column",
    "no column": "no column stands for their kernel",
    "failed": "failed",
}


@dataclass(frozen=True)
class Section:
    """A heading, a table (header, rows, how many columns are words) and notes below it."""

    title: str
    header: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    words: int
    notes: tuple[str, ...] = ()


def verdict(f: Finding) -> str:
    """In words for a policy against a baseline."""
    return _WORDS.get(f.verdict, f.verdict)


def _value(measure: Measure, ends: Sequence[float | None]) -> str:
    """`lo`, or `[lo, hi]` where they differ; an unbounded end is an ellipsis."""
    form = (lambda x: micros(round(x))) if measure.unit == "ns" else number
    shown = ["…" if e is None else form(e) for e in dict.fromkeys(ends)]
    return shown[0] if len(shown) == 1 else f"[{', '.join(shown)}]"


def _medians(f: Finding, policy: str, new: bool) -> str:
    """Of `policy`, on its side of the comparison. Where hi is unbounded on one side, neither's was compared; the record
    alone has one end."""
    if not f.ends:
        return NOTHING
    ends: list[float | None] = [e.new if new else e.base for e in f.ends]
    return _value(f.measure, [*ends, None] if f.why.startswith("hi is unbounded") and policy != "recorded" else ends)


def _pct(values: tuple[float, float] | None) -> str:
    if values is None:
        return NOTHING
    low, high = (_signed(v) for v in values)
    return low if low == high else f"[{low}, {high}]"


def _signed(x: float) -> str:
    return f"{x:+.0f}" if abs(x) >= 100 else f"{x:+.1f}"


def metric(measure: Measure) -> str:
    """By the name that --metric takes."""
    return f"{measure.name} { ({'ns': 'µs', 'per 1,000': '/1k'}.get(measure.unit, measure.unit)) }"


def head(f: Fleet) -> list[str]:
    """What is counted and what is not, in lines."""
    lines = [f"{f.asked}; rewake {f.tool}"]
    lines.append(f"{counted(f.tasks, 'task')}; counted: {_of(*f.standing.get('counted', (0, 0)))}")
    for name, (tasks, recordings) in f.standing.items():
        if name != "counted":
            lines.append(f"NOT COUNTED, {_STANDING[name]}{_limit(f, name)}: {_of(tasks, recordings)}")
    if f.min_skill is None:
        lines.append("no fidelity gate: recordings count whether or not their own kernel's column reproduces them")
    return lines


def _of(tasks: int, recordings: int) -> str:
    return f"{counted(tasks, 'task')} of {counted(recordings, 'recording')}"


def _limit(f: Fleet, standing: str) -> str:
    return f" (skill below {f.min_skill:g})" if standing == "unfaithful" and f.mode == "open" else ""


def sections(f: Fleet) -> Iterator[Section]:
    """The report's tables in order."""
    if f.overall:
        yield _overall(f)
    if f.policies:
        yield _figures(f)
        yield from _where(f)
    for title, singles in (("Worst recordings", f.worst), ("Best recordings", f.best)):
        if singles:
            yield _singles(f, title, singles)
    if f.apart:
        yield _apart(f)
    if f.failures:
        yield _failures(f)


def _overall(f: Fleet) -> Section:
    rows = []
    last = ""
    for g in f.overall:
        x = g.finding
        rows.append(
            ("" if x.policy == last else x.policy, metric(x.measure),
             _medians(x, f.versus, False), _medians(x, x.policy, True), _pct(x.effect_pct), _pct(x.interval_pct),
             f"{g.tally.better}/{g.tally.worse}/{g.tally.open}", verdict(x))
        )  # fmt: skip
        last = x.policy
    header = ("policy", "metric", f.versus, "policy's", "change, %", "95 % interval", "b/w/open", "verdict")
    why: dict[str, list[str]] = {}
    for g in f.overall:
        if g.finding.verdict in ("inconclusive", "unclear") and g.finding.why:
            why.setdefault(f"{g.finding.verdict}: {g.finding.why}", []).append(
                f"{g.finding.policy} {g.finding.measure.name}"
            )
    notes = [f"{reason}: {', '.join(who[:6])}{f' and {len(who) - 6} more' if len(who) > 6 else ''}."
             for reason, who in why.items()]  # fmt: skip
    return Section(f"Against {f.versus}, over recordings", header, rows, 2, tuple(notes))


def _figures(f: Fleet) -> Section:
    columns: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
        ("decisions", lambda p: count(p["decisions"])),
        ("move /1k", lambda p: number(p["would_move_per_1k"])),
        ("x-LLC /1k", lambda p: number(p["cross_llc_prev_per_1k"])),
        ("missed /1k", lambda p: number(p["idle_missed_llc_per_1k"])),
        ("~p50 µs", lambda p: _bounds(p, "p50")),
        ("~p99 µs", lambda p: _bounds(p, "p99")),
        ("known %", lambda p: number(p["known_pct"])),
        ("exposed %", lambda p: number(p["exposure_pct"]) + _over(p)),
    )
    rows = [(p["policy"], *(form(p) for _, form in columns)) for p in f.policies]
    said = ["All decisions of all counted recordings together: long and busy ones weigh more. ~: from buckets, to 1 %."]
    if any(_over(p) for p in f.policies):
        said.append(
            f"← above {DEFAULT_MAX_EXPOSURE:g} %: its own earlier picks would have changed what it looked at, which "
            "one-step figures do not show (rewake simulate)."
        )
    return Section("Sums", ("policy", *(name for name, _ in columns)), rows, 1, tuple(said))


def _over(p: dict[str, Any]) -> str:
    return " ←" if (p["exposure_pct"] or 0.0) > DEFAULT_MAX_EXPOSURE else ""


def _bounds(p: dict[str, Any], name: str) -> str:
    lo, hi = p[f"{name}_lo_ns"], p[f"{name}_hi_ns"]
    if lo is None:
        return NOTHING
    if lo == hi:
        return micros(lo)
    return f"[{micros(lo)}, {'…' if hi is None else micros(hi)}]"


def _where(f: Fleet) -> Iterator[Section]:
    header = ("policy", "metric", "where", "change, %", "95 % interval", "n", "b/w/open")
    for word, found in (("loses", f.changed("regression")), ("wins", f.changed("improvement"))):
        rows = [_group(g) for g in found[:MOST_GROUPS]]
        more = (f"and {len(found) - MOST_GROUPS} more (--format json).",) if len(found) > MOST_GROUPS else ()
        order = "worst first" if word == "loses" else "largest gain first"
        if rows:
            yield Section(f"Where a policy {word}, {order}", header, rows, 3, more)
    if not f.by_facet:
        said = (
            f"No known group by {', '.join(FACETS)} has {LEAST_GROUP} recordings without being all of them: "
            "none was tested."
        )
        yield Section("Where a policy wins or loses", (), [], 0, (said,))
    elif not f.changed("regression") and not f.changed("improvement"):
        yield Section(
            "Where a policy wins or loses", (), [], 0, (f"Nothing significant in {counted(len(f.by_facet), 'test')}.",)
        )


def _group(g: Group) -> tuple[str, ...]:
    x = g.finding
    tally = f"{g.tally.better}/{g.tally.worse}/{g.tally.open}"
    where = f"{g.facet} {g.name}"
    return x.policy, metric(x.measure), where, _pct(x.effect_pct), _pct(x.interval_pct), str(x.n), tally


def _singles(f: Fleet, title: str, singles: Sequence[Single]) -> Section:
    rows = [
        (s.policy, metric(s.measure), s.workload, _value(s.measure, s.base), _value(s.measure, s.new),
         _signed(s.change_pct))
        for s in singles
    ]  # fmt: skip
    header = ("policy", "metric", "recording", f.versus, "policy's", "change, %")
    note = "A replay is deterministic: these are as they are, and say nothing of other recordings."
    return Section(title, header, rows, 3, (note,))


def _apart(f: Fleet) -> Section:
    rows = [
        (a["standing"], _tail(a["uri"]), str(a["tasks"]), number(a["skill"], 2), a["why"] or "")
        for a in f.apart[:MOST_APART]
    ]  # fmt: skip
    more = (f"and {len(f.apart) - MOST_APART} more (--format json).",) if len(f.apart) > MOST_APART else ()
    return Section("Not counted", ("why", "recording", "tasks", "skill", "what was said"), rows, 2, more)


def _tail(uri: str, width: int = 48) -> str:
    """The end of a path, which tells traces apart."""
    return uri if len(uri) <= width else "…" + uri[1 - width :]


def _failures(f: Fleet) -> Section:
    by: dict[tuple[str, str], list[str]] = {}
    for row in f.failures:
        by.setdefault((row["error"], row["message"]), []).append(row["uri"])
    rows = [
        (kind, str(len(uris)), _tail(uris[0]), message)
        for (kind, message), uris in sorted(by.items(), key=lambda item: (-len(item[1]), item[0]))
    ]  # fmt: skip
    more = (f"and {len(rows) - MOST_FAILURES} more kinds (--format json).",) if len(rows) > MOST_FAILURES else ()
    return Section("Failed", ("kind", "tasks", "trace", "what was said"), rows[:MOST_FAILURES], 1, more)


@dataclass(frozen=True)
class Cell:
    """A policy's metric in a group: the change, its interval, and what to make of it."""

    change: str = NOTHING
    interval: str = ""
    mark: str = ""
    """better or worse where it is significant."""
    tally: str = ""


@dataclass(frozen=True)
class Block:
    """A group of a facet: how many recordings, and per metric a cell of every policy."""

    name: str
    n: int
    rows: Sequence[tuple[str, Sequence[Cell]]]


@dataclass(frozen=True)
class Matrix:
    """Every policy in every group of a facet that was tested, the group with the largest loss first."""

    facet: str
    policies: Sequence[str]
    blocks: Sequence[Block]
    untested: Sequence[tuple[str, int]]
    """Groups that are too few, or all there is: name, recordings."""


def matrix(f: Fleet, facet: str) -> Matrix:
    """What there is of one facet."""
    mine = [g for g in f.by_facet if g.facet == facet]
    policies = list(dict.fromkeys(g.finding.policy for g in mine))
    by: dict[str, dict[str, dict[str, Group]]] = {}
    for g in mine:
        by.setdefault(g.name, {}).setdefault(metric(g.finding.measure), {})[g.finding.policy] = g
    worst = [g.name for g in f.changed("regression") if g.facet == facet]
    order = [*dict.fromkeys(worst), *sorted(set(by) - set(worst))]
    blocks = [
        Block(
            name,
            max(g.finding.n for of in by[name].values() for g in of.values()),
            [(label, [_cell(of.get(p)) for p in policies]) for label, of in by[name].items()],
        )
        for name in order
    ]
    sizes = {str(g["name"]): int(g["recordings"]) for g in f.groups if g["facet"] == facet}
    return Matrix(facet, policies, blocks, sorted((n, k) for n, k in sizes.items() if n not in by))


def _cell(g: Group | None) -> Cell:
    if g is None:
        return Cell()
    x = g.finding
    said = verdict(x)
    return Cell(
        _pct(x.effect_pct), _pct(x.interval_pct), said if said in ("better", "worse") else "",
        f"{g.tally.better}/{g.tally.worse}/{g.tally.open}",
    )  # fmt: skip


def notes(f: Fleet) -> list[str]:
    """How it was judged."""
    unit = (
        "Unit: the recording; its windows and seeds are added up first. Against the baseline on the same recordings: "
        "Wilcoxon's signed-rank test and a BCa interval (from 1,000 recordings on Student's) of the mean log-ratio, "
        f"Benjamini and Hochberg over all tests of a table; better or worse: q ≤ {stats.ALPHA:g}, an interval without "
        f"0, at least {f.floor_pct:g} %, and at both ends where a figure is known as [lo, hi]. Columns {f.versus} and "
        "policy's: medians over recordings. b/w/open: recordings in which it is better, worse, or one cannot tell. "
        "Less is better for every metric."
    )
    auto = (
        "auto: the replayed column of each recording's own kernel. What tells it from recorded is the error of replay "
        "itself, in the latency above all: where a policy chose another CPU than the kernel, latency is modelled."
    )
    closed = (
        "Closed loop: everything is modelled. auto: the simulated run of each recording's own kernel. would_move: "
        "migrations by wakeups; cross_llc_prev: migrations of any cause that left the LLC."
    )
    if f.mode == "closed":
        return [unit, closed]
    return [unit, auto, "One-step figures: what each policy would have chosen given exactly what the kernel saw."]


def table(f: Fleet, next_steps: Sequence[str] = ()) -> str:
    """For a terminal, at most 100 columns."""

    def safe(name: str) -> str:
        return text.terminal(name, 48)

    lines = [text.terminal(f.store, None), *(line for h in head(f) for line in wrap(text.terminal(h, None)))]
    for s in sections(f):
        lines += ["", s.title]
        if s.rows:
            lines += _grid(s, safe)
        for note in s.notes:
            lines += wrap(text.terminal(note, None))
    lines.append("")
    for note in notes(f):
        lines += wrap(note)
    if next_steps:
        lines += ["", *(("next: " if i == 0 else "      ") + step for i, step in enumerate(next_steps))]
    return "\n".join(lines) + "\n"


def _shown(cell: str, s: Section, i: int, safe: Safe) -> str:
    return text.terminal(cell, None) if s.header[i].startswith("what") else safe(cell)


def _grid(s: Section, safe: Safe) -> list[str]:
    """The last column of words takes the room that is left."""
    cells = [[_shown(row[i], s, i, safe) for row in s.rows]
             for i in range(len(s.header))]  # fmt: skip
    columns = [Column((name,), cells[i], i < s.words or name.startswith(("what", "verdict", "trace")))
               for i, name in enumerate(s.header)]  # fmt: skip
    if not s.header[-1].startswith("what"):
        return render(columns, spill=True)
    lines = render(columns[:-1], spill=False)
    out = [lines[0]]
    for line, said in zip(lines[1:], columns[-1].cells, strict=True):
        out += [line] + (wrap("    " + said, "    ") if said else [])
    return out


def markdown(f: Fleet) -> str:
    """For a mail or a comment."""

    def safe(name: str) -> str:
        return text.markdown(name, None)

    lines = [f"### {safe(f.store)}", "", *(f"- {safe(line)}" for line in head(f)), ""]
    for s in sections(f):
        lines += [f"**{s.title}**", ""]
        if s.rows:
            ruler = ["---" if i < s.words or h.startswith("what") else "---:" for i, h in enumerate(s.header)]
            body = [[safe(c) for c in row] for row in s.rows]
            lines += ["| " + " | ".join(line) + " |" for line in (s.header, ruler, *body)] + [""]
        lines += [f"- {safe(note)}" for note in s.notes]
        lines += [""] if s.notes else []
    return "\n".join([*lines, *(f"- {safe(note)}" for note in notes(f))]) + "\n"


def rows(f: Fleet) -> sql.Rows:
    """Figures of every group and policy as one table (fleet/by_group)."""
    columns = tuple(sql.catalogue()["fleet/by_group"].columns)
    every = [*f.policies, *f.groups]
    return sql.Rows(columns, [tuple(g[c] for c in columns) for g in every], ())
