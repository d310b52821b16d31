# SPDX-License-Identifier: GPL-2.0-or-later
"""What a comparison looks like: table, markdown, CSV rows, JUnit XML, and the lines that a forge reads."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from typing import Any

from rewake.analysis import sql, stats, text
from rewake.analysis.compare import Comparison, Finding
from rewake.analysis.grid import NOTHING, Column, counted, micros, number, render, wrap
from rewake.analysis.measures import MEASURES, SIDES

_HEADERS = ("policy", "metric", "base", "new", "change, %", "95 % interval", "q", "n", "verdict")
_DESIGNS = {
    "paired": "paired by recording",
    "within-run": "WITHIN-RUN ONLY: one recording, blocks of time; nothing about another recording follows",
    "unpaired": "UNPAIRED: different recordings of the same load",
}
_METHODS = {
    "paired": "Wilcoxon's signed-rank test and a BCa bootstrap of the mean log-ratio",
    "within-run": "Wilcoxon's signed-rank test and a BCa bootstrap of the mean log-ratio",
    "unpaired": "Mann-Whitney and a BCa bootstrap of the difference of mean logarithms",
}


def _value(f: Finding, new: bool) -> str:
    """Median over the units; [lo, hi] where the figure is an interval."""
    if not f.ends:
        return NOTHING
    form: Callable[[float], str] = (lambda x: micros(round(x))) if f.measure.unit == "ns" else (lambda x: number(x, 2))
    shown = [form(e.new if new else e.base) for e in f.ends]
    if f.ends[-1].side == "lo" and f.why.startswith("hi is unbounded"):
        return f"[{shown[0]}, …]"
    return shown[0] if len(shown) == 1 else f"[{shown[0]}, {shown[1]}]"


def _pct(values: tuple[float, float] | None, *, collapse: bool) -> str:
    if values is None:
        return NOTHING
    low, high = (f"{v:+.1f}" for v in values)
    return low if collapse and low == high else f"[{low}, {high}]"


def _cells(f: Finding) -> tuple[str, ...]:
    verdict = f.verdict + (f" ({f.failed})" if f.failed else "")
    unit = "µs" if f.measure.unit == "ns" else f.measure.unit
    return (
        f.policy,
        f"{f.measure.name} ({'/1k' if unit == 'per 1,000' else unit})",
        _value(f, False),
        _value(f, True),
        _pct(f.effect_pct, collapse=True),
        _pct(f.interval_pct, collapse=False),
        NOTHING if f.q is None else f"{f.q:.2g}",
        str(f.n),
        verdict,
    )


def _counts(c: Comparison) -> str:
    told = []
    for verdict in ("regression", "improvement", "unclear", "unchanged", "same", "inconclusive"):
        n = sum(f.verdict == verdict for f in c.findings)
        if n:
            told.append(f"{n} {verdict}{'s' if n > 1 and verdict in ('regression', 'improvement') else ''}")
    return ", ".join(told) or "nothing to compare"


def headline(c: Comparison) -> str:
    """The result in one line."""
    by = f" by {', '.join(map(str, c.gates))}" if c.gates else ""
    state = f"FAILED{by}: {len(c.failed)} of {len(c.findings)}" if c.failed else f"no regression found{by}"
    return f"{state} ({_counts(c)})"


def _skills(c: Comparison) -> str:
    known = [s.skill for s in (*c.base, *c.new) if s.skill is not None]
    if not known:
        return "fidelity: not known of any run (no column stands for the recorded kernel, or it was not replayed)"
    missing = len(c.base) + len(c.new) - len(known)
    more = f", not known of {counted(missing, 'run')}" if missing else ""
    return f"fidelity of the recorded kernels' own columns: skill over prev {min(known):.2f} to {max(known):.2f}{more}"


def _quality(c: Comparison) -> list[str]:
    refused = [f"{s.name}: {s.refused} (--force)" for s in (*c.base, *c.new) if s.refused]
    return refused or [f"quality ok in all {len(c.base) + len(c.new)} runs"]


def _above(c: Comparison) -> list[str]:
    n = f"n = {c.n[0]}" if c.n[0] == c.n[1] else f"n = {c.n[0]} and {c.n[1]}"
    kernels = [sorted({s.kernel or "unknown" for s in side}) for side in (c.base, c.new)]
    told = [" ".join(k) for k in kernels]
    kernel = f"kernel {told[0]}" if told[0] == told[1] else f"kernel {told[0]} against {told[1]}"
    return [
        f"{_DESIGNS[c.design]}; {n} {'blocks' if c.design == 'within-run' else 'recordings'}; {kernel}",
        *_quality(c),
        _skills(c),
        *c.notes,
    ]


def _reasons(shown: Sequence[Finding]) -> list[str]:
    """Why, for what was not plain."""
    why: dict[str, list[str]] = {}
    for f in shown:
        if f.verdict in ("unclear", "inconclusive") and f.why:
            why.setdefault(f"{f.verdict}: {f.why}", []).append(f"{f.policy} {f.measure.name}")
    return [f"{reason}: {', '.join(who[:6])}{f' and {len(who) - 6} more' if len(who) > 6 else ''}."
            for reason, who in why.items()]  # fmt: skip


def _below(c: Comparison) -> list[str]:
    tested = sum(f.q is not None for f in c.findings)
    family = " (gated ones are a family of their own)" if c.gates else ""
    method = (
        f"Unit: the {c.unit}. {_METHODS[c.design]}; q: Benjamini-Hochberg over the {tested} tests of metric and policy"
        f"{family}. A change has q ≤ {stats.ALPHA:g}, an interval without 0 and at least {c.floor_pct:g} %. base and "
        "new are medians over the units."
    )
    return [method, "Latency of a policy is a modelled [lo, hi]: it changed only where both ends did, the same way."]


def table(c: Comparison, everything: bool) -> str:
    """For a terminal: what changed (or everything), policy by policy, with what qualifies it."""
    shown = c.findings if everything else c.changed
    lines = [line for part in (headline(c), *_above(c)) for line in wrap(text.terminal(part, None))]
    if shown:
        cells = [[text.terminal(t, 40) for t in _cells(f)[1:]] for f in shown]
        head, *body = render(
            [Column((h,), [r[i] for r in cells], left=i in (0, 7)) for i, h in enumerate(_HEADERS[1:])]
        )
        lines += ["", f"  {head}"]
        for i, (f, line) in enumerate(zip(shown, body, strict=True)):
            if i == 0 or f.policy != shown[i - 1].policy:
                lines += [text.terminal(f.policy)]
            lines += [f"  {line}"]
    lines += ["", *(line for part in (*_reasons(c.findings), *_below(c)) for line in wrap(text.terminal(part, None)))]
    return "\n".join(lines) + "\n"


def markdown(c: Comparison, everything: bool) -> str:
    """For a pull request: the result, a table of what changed, the rest folded away."""
    out = [f"**{text.markdown(headline(c), None)}**", ""]
    shown = c.findings if everything else c.changed
    if shown:
        out += [
            "| " + " | ".join(_HEADERS) + " |",
            "|" + "|".join("---" if i in (0, 1, 8) else "--:" for i in range(9)) + "|",
        ]
        out += ["| " + " | ".join(text.markdown(t) for t in _cells(f)) + " |" for f in shown]
        out += [""]
    out += ["<details><summary>How this was compared</summary>", ""]
    out += [f"- {text.markdown(line, None)}" for line in (*_above(c), *_reasons(c.findings), *_below(c))]
    return "\n".join([*out, "", "</details>"]) + "\n"


def rows(c: Comparison, everything: bool) -> sql.Rows:
    """For CSV; its columns do not depend on what was found."""
    flat = [_flat(f) for f in (c.findings if everything else c.changed)]
    none = Finding("", next(iter(MEASURES.values())), (), None, "", "")
    return sql.Rows(tuple(_flat(none)), [tuple(row.values()) for row in flat])


def _flat(f: Finding) -> dict[str, Any]:
    row = f.plain()
    ends = {e["end"]: e for e in row.pop("ends")}
    for side in SIDES:
        end = ends.get(side) or (ends.get("lo") if len(ends) == 1 and "unbounded" not in f.why else None)
        row[f"base_{side}"], row[f"new_{side}"] = (end["base"], end["new"]) if end else (None, None)
    return row


_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(c: Comparison) -> str:
    """One test case per metric and policy: a failed gate or regression fails, what cannot be told is skipped."""
    bad = {id(f) for f in c.failed}
    skipped = [f for f in c.findings if id(f) not in bad and f.verdict in ("inconclusive", "unclear")]
    suite = ET.Element("testsuite", name="rewake compare", tests=str(len(c.findings)), failures=str(len(bad)),
                       errors="0", skipped=str(len(skipped)))  # fmt: skip
    for f in c.findings:
        case = ET.SubElement(suite, "testcase", classname=_xml(f.policy), name=f.measure.name)
        said = _xml(sentence(f))
        if id(f) in bad:
            ET.SubElement(case, "failure", message=said, type="regression").text = said
        elif f in skipped:
            ET.SubElement(case, "skipped", message=_xml(f"{f.verdict}: {f.why}"))
    ET.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"


def _xml(value: str) -> str:
    return _NOT_XML.sub("?", text.terminal(value, None))


def sentence(f: Finding) -> str:
    """`linux-6.1 p99: +6.1 % (95 % interval [+5.2, +7.0] %), q = 0.01, n = 12`."""
    cells = _cells(f)
    gate = f", fails {f.failed}" if f.failed else ""
    return f"{f.policy} {f.measure.name}: {cells[4]} % (95 % interval {cells[5]} %), q = {cells[6]}, n = {f.n}{gate}"


def error_lines(c: Comparison) -> str:
    """Workflow commands, one line per failure. The forge's escapes: per cent, line ends, and in a title : and , too."""
    out = []
    for f in c.failed:
        title = _command(f"{f.verdict}: {f.policy} {f.measure.name}").replace(":", "%3A").replace(",", "%2C")
        out.append(f"::error title={title}::{_command(sentence(f))}")
    return "".join(line + "\n" for line in out)


def _command(value: str) -> str:
    return text.terminal(value, None).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
