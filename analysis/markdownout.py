# SPDX-License-Identifier: GPL-2.0-or-later
"""Markdown for comments and mails: tables with what qualifies them. Every name goes through `text.markdown`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rewake.analysis import advice_table, simulated_table, table
from rewake.analysis.advice import Advice
from rewake.analysis.grid import NOTHING, Column, count, llcs, number
from rewake.analysis.report import Report
from rewake.analysis.simulated import Simulated
from rewake.analysis.sql import Rows
from rewake.analysis.text import markdown


def _grid(header: Sequence[str], body: Sequence[Sequence[str]], left: int = 1) -> list[str]:
    """A table whose first `left` columns are words."""
    ruler = ["---" if i < left else "---:" for i in range(len(header))]
    return ["| " + " | ".join(line) + " |" for line in (header, ruler, *body)]


def report(r: Report) -> str:
    """Machine, quality and fidelity above; policies as rows; notes below."""
    m = r.machine
    machine = f"{m.cpus} CPUs, {llcs(m.llcs)}, kernel {markdown(m.kernel or 'unknown')}, {count(r.decisions)} decisions"
    lines = [f"### {markdown(m.recording)}", "", f"{machine}; {markdown(r.quality.line(), None)}", ""]
    if r.fidelity is None:
        lines.append(f"**Fidelity: none**: {markdown(r.refusal or 'the kernel column was not replayed', None)}")
    else:
        lines.append(f"**Fidelity** of {markdown(r.fidelity.policy)}: {table.gate(r.fidelity)}")
        lines += [f"- {markdown(note, None)}" for note in r.fidelity.notes]
    header = ["one-step, per 1,000", *(label for _, label, _ in table.RATES)]
    header += [f"{label}, {unit}" for label, unit in table.TAIL]
    over = {p.policy for p in r.over_exposed()}
    body = [
        [
            markdown(p.policy),
            *(number(p[key]) for key, _, _ in table.RATES),
            table.p99(p),
            number(p["known_pct"]),
            table.own(p, number(p["exposure_pct"]) + (" ←" if p.policy in over else "")),
            table.own(p, number(p["self_collision_per_1k"])),
        ]
        for p in r.policies
    ]
    lines += ["", *_grid(header, body), "", *(f"- {markdown(note.strip(), None)}" for note in table.notes(r))]
    return "\n".join(lines) + "\n"


def simulation(s: Simulated) -> str:
    """A closed-loop run: how far it reproduces the recording above; policies as rows; notes below."""
    m = s.machine
    lines = [f"### {markdown(m.recording)}", ""]
    lines += [f"{m.cpus} CPUs, kernel {markdown(m.kernel or 'unknown')}; {markdown(s.quality.line(), None)}", ""]
    lines += ["Does the model reproduce what was recorded? simulated / recorded, µs", ""]
    lines += [*_table(simulated_table.checks(s)), "", f"**{simulated_table.verdict(s)}**", ""]
    if s.in_charge:
        for grid in simulated_table.policies(s, markdown):
            lines += [*_table(grid), ""]
    else:
        lines += [simulated_table.NONE_IN_CHARGE, ""]
    return "\n".join([*lines, *(f"- {markdown(note, None)}" for note in simulated_table.notes(s))]) + "\n"


def advice(a: Advice) -> str:
    """The verdict, what it rests on, every trial."""

    def whole(text: str) -> str:
        return markdown(text, None)

    lines = [f"### {advice_table.headline(a, whole)}", "", advice_table.about(a, whole), ""]
    if a.judged is not None:
        lines += [advice_table.judged_title(a), "", *_table(advice_table.judged(a.judged)), ""]
        lines += [markdown(advice_table.verdict(a.judged), None), ""]
    if a.trials:
        lines += [advice_table.trials_title(a), "", *_table(advice_table.trials(a, markdown)), ""]
    return "\n".join([*lines, *(f"- {note}" for note in advice_table.notes(a, whole))]) + "\n"


def _table(columns: Sequence[Column]) -> list[str]:
    """A grid of the text tables."""
    header = [" ".join(c.header).replace("- ", "") for c in columns]
    return _grid(
        header, [[" ".join(cell.split()) for cell in line] for line in zip(*(c.cells for c in columns), strict=True)]
    )


def rows(answer: Rows) -> str:
    """Any query's answer."""
    body = [[_cell(value) for value in row] for row in answer.rows]
    return "\n".join(_grid([markdown(name) for name in answer.columns], body, 0)) + "\n"


def _cell(value: Any) -> str:
    return NOTHING if value is None else markdown(table.cell(value))
