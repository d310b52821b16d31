# SPDX-License-Identifier: GPL-2.0-or-later
"""What a notebook shows of recordings, runs and simulations: small HTML tables without style or script of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rewake.analysis import simulated_table
from rewake.analysis.grid import NOTHING, Column, bounds, count, micros, number
from rewake.analysis.quality import QualityCard
from rewake.analysis.report import Report
from rewake.analysis.simulated import Simulated
from rewake.analysis.table import gate
from rewake.analysis.text import html, terminal


def recording_text(name: str, manifest: Mapping[str, Any], quality: QualityCard) -> str:
    """Two lines for a prompt."""
    return "\n".join(terminal(line, None) for line in _lines(name, manifest, quality))


def recording_html(name: str, manifest: Mapping[str, Any], quality: QualityCard) -> str:
    """The same with the name set apart."""
    first, second = _lines(name, manifest, quality)
    return f"<p><strong>{html(first)}</strong><br>{html(second)}</p>"


def _lines(name: str, manifest: Mapping[str, Any], quality: QualityCard) -> tuple[str, str]:
    machine = manifest.get("machine") or {}
    told = [name, f"{count(machine.get('cpus'))} CPUs", f"{count(machine.get('llcs'))} LLCs"]
    told += [f"kernel {manifest.get('kernel') or 'unknown'}", f"{count(manifest.get('events_total'))} events"]
    told.append(f"{(manifest.get('span_ns') or 0) / 1e9:.3f} s")
    return "  ".join(told), quality.line()


def report_html(report: Report) -> str:
    """Quality and fidelity above the one-step figures, a row per policy."""
    machine, found = report.machine, report.fidelity
    head = [
        f"{machine.recording}  {machine.cpus} CPUs  {count(machine.llcs)} LLCs",
        f"kernel {machine.kernel or 'unknown'}  {count(report.decisions)} decisions",
        report.quality.line(),
    ]
    if found is None:
        head.append(f"fidelity: none: {report.refusal or 'the kernel column was not replayed'}")
    else:
        head.append(f"fidelity of {found.policy}: {gate(found)}")
    header = (
        "one-step, per 1,000", "would move", "leave LLC of prev", "idle missed in LLC", "stacked on waker",
        "p99 latency [lo, hi] µs", "known share %", "exposure %",
    )  # fmt: skip
    rows = []
    for p in report.policies:
        recorded = p.policy == "recorded"
        p99 = micros(p["p99_lo_ns"]) if recorded else bounds(p["p99_lo_ns"], p["p99_hi_ns"], p["p99_at_least_ns"])
        rates = [p["would_move_per_1k"], p["cross_llc_prev_per_1k"], p["idle_missed_llc_per_1k"], p["stacked_per_1k"]]
        exposure = NOTHING if recorded else number(p["exposure_pct"])
        rows.append([terminal(p.policy), *map(number, rates), p99, number(p["known_pct"]), exposure])
    return "<p>" + "<br>".join(map(html, head)) + "</p>" + _table(header, rows)


def simulation_html(found: Simulated) -> str:
    """Whether the model reproduces the recording, then its figures with each policy in charge."""
    machine = found.machine
    head = [
        f"{machine.recording}  {machine.cpus} CPUs  {count(machine.llcs)} LLCs  kernel {machine.kernel or 'unknown'}",
        found.quality.line(),
        simulated_table.verdict(found),
        "first table: simulated / recorded, µs",
    ]
    grids = [simulated_table.checks(found)]
    if found.in_charge:
        grids += simulated_table.policies(found, terminal)
    notes = simulated_table.notes(found) if found.in_charge else [simulated_table.NONE_IN_CHARGE]
    return "".join([_lined(head), *map(_grid, grids), _lined(notes)])


def _lined(lines: Sequence[str]) -> str:
    return "<p>" + "<br>".join(html(terminal(line, None)) for line in lines) + "</p>"


def _grid(columns: Sequence[Column]) -> str:
    header = [" ".join(column.header).replace("- ", "") for column in columns]
    return _table(header, list(zip(*(column.cells for column in columns), strict=True)))


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["<table><thead><tr>", *(f"<th>{html(cell)}</th>" for cell in header), "</tr></thead><tbody>"]
    for row in rows:
        lines += ["<tr>", *(f"<td>{html(cell)}</td>" for cell in row), "</tr>"]
    return "".join([*lines, "</tbody></table>"])
