# SPDX-License-Identifier: GPL-2.0-or-later
"""A validation as text. Every name goes through `text.terminal`; no figure is computed here, only formatted."""

from __future__ import annotations

import math

from rewake.analysis.grid import NOTHING, Column, counted, micros, number, render, wrap
from rewake.analysis.simulated import MOST_DIVERGED
from rewake.analysis.text import terminal
from rewake.analysis.validation import Predicted, Validation

_NAMES = {
    "p50_ns": "latency p50, µs", "p90_ns": "latency p90, µs", "p99_ns": "latency p99, µs",
    "wait_p90_ns": "queue wait p90, µs", "cycles_per_s": "wake cycles/s", "moves_per_s": "moves by wakeups/s",
}  # fmt: skip


def _figure(name: str, value: float) -> str:
    if not math.isfinite(value):
        return "∞"
    return micros(round(value)) if name.endswith("_ns") else number(value, 0)


def table(v: Validation) -> str:
    """Predicted against measured, figure by figure; then who was nearer."""
    lines = wrap(
        f"A: {counted(len(v.a), 'recording')} under {terminal(v.policy_a)}. "
        f"B: {len(v.b)} under {terminal(v.policy_b)}. B is predicted from A alone (modelled)."
    )
    lines += [line for note in v.notes for line in wrap(terminal(f"{note[:1].upper()}{note[1:]}.", None))]
    rows = v.rows
    if not rows:
        return "\n".join([*lines, "Nothing can be compared: too few wakeups."]) + "\n"

    def span(name: str, p: Predicted) -> str:
        return f"{_figure(name, p.low)}..{_figure(name, p.high)}"

    def right(sign: bool | None) -> str:
        return NOTHING if sign is None else "right" if sign else "WRONG"

    grid = [
        Column(("",), [_NAMES[r.figure] for r in rows], left=True),
        Column(("A", "measured"), [_figure(r.figure, r.a) for r in rows]),
        Column(("B", "measured"), [_figure(r.figure, r.b) for r in rows]),
        Column(("B", "predicted"), [_figure(r.figure, r.model.value) for r in rows]),
        Column(("90 % interval",), [span(r.figure, r.model) for r in rows]),
        Column(("error:", "model"), [number(100 * r.model.error, 0) + "%" for r in rows]),
        Column(("no", "change"), [number(100 * r.null.error, 0) + "%" for r in rows]),
        Column(
            ("one-", "step"), [NOTHING if r.one_step is None else number(100 * r.one_step.error, 0) + "%" for r in rows]
        ),
        Column(("direc-", "tion"), [right(r.sign_right) for r in rows]),
    ]
    lines += ["", *render(grid), ""]
    if v.diverged_pct > MOST_DIVERGED:
        lines += wrap(
            f"Up to {v.diverged_pct:.0f} % of the windows of a simulation left the recording behind: do not rely on it."
        )
    model, null = v.mean("model", "error"), v.mean("null", "error")
    assert model is not None
    assert null is not None
    verdict = "nearer than" if model < null else "NOT nearer than"
    lines += wrap(
        f'Mean error {100 * model:.0f} %, of "no change" {100 * null:.0f} %: the model is {verdict} no change at all. '
        "Errors are |ln(predicted / measured)|; direction: where B differs from A by more than one more repeat of A "
        "would (90 %). With a single recording of A nothing is known of repeats, and intervals are unbounded."
    )
    return "\n".join(lines) + "\n"
