# SPDX-License-Identifier: GPL-2.0-or-later
"""B predicted from A: what `rewake validate` comes to over pairs of repeated recordings."""

from __future__ import annotations

import math
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from _pages import NOTHING, SIMULATED, latency_or_rate, rewake, table

AT_ONCE = 2
MOST_DIVERGED = 10.0
FIGURES = {
    "p50_ns": "p50", "p90_ns": "p90", "p99_ns": "p99", "wait_p90_ns": "queue wait p90", "cycles_per_s": "wake cycles/s",
    "moves_per_s": "moves/s",
}  # fmt: skip


def diverged(answer: dict[str, Any]) -> bool:
    """More windows than rewake answers for without --force."""
    return float(answer["diverged_pct"]) > MOST_DIVERGED


def pair_rows(name: str, answer: dict[str, Any]) -> list[list[str]]:
    rows = []
    for r in answer["figures"]:
        kind, model = r["figure"], r["model"]
        step = NOTHING if r["one_step"] is None else f"{100 * r['one_step']['error']:.0f}"
        sign = {None: NOTHING, True: "right", False: "**wrong**"}[r["sign_right"]]
        span = (
            "unbounded"
            if model["high"] is None
            else f"{latency_or_rate(kind, model['low'])} - {latency_or_rate(kind, model['high'])}"
        )
        repeats = f"{name} ({len(answer['a'])}/{len(answer['b'])})" + (" †" if diverged(answer) else "")
        values = [latency_or_rate(kind, x) for x in (r["a"], r["b"], model["value"])]
        errors = [f"{100 * r[which]['error']:.0f}" for which in ("model", "null")]
        covered = f"{100 * model['covered']:.0f} %"
        rows.append([repeats, FIGURES[kind], *values, span, covered, *errors, step, sign])
    return rows


def pairs(wanted: list[dict[str, Any]], found: dict[str, Path]) -> list[str]:
    """The table of the pairs of which there are recordings, and what they come to."""
    words: dict[str, list[str | Path]] = {}
    for pair in wanted:
        there = {side: [found[n] for n in pair[side] if n in found] for side in ("a", "b")}
        if not there["a"] or not there["b"]:
            continue
        (a, *more_a), (b, *more_b) = there["a"], there["b"]
        words[pair["name"]] = ["validate", a, b]
        for option, paths in (("--a", more_a), ("--b", more_b)):
            for path in paths:
                words[pair["name"]] += [option, path]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found_out = pool.map(lambda command: dict(rewake(*command, *SIMULATED)), words.values())
        answers = dict(zip(words, found_out, strict=True))
    rows = [row for name, answer in answers.items() for row in pair_rows(name, answer)]
    sound = {name: answer for name, answer in answers.items() if not diverged(answer)}
    columns = ["pair (repeats A/B)", "figure", "A", "B", "B predicted", "90 % interval", "covered", "error",
               "no change", "one step", "direction"]  # fmt: skip
    lines = table(columns, rows)
    if sound:
        lines += ["All of them, those marked † too:", "", *judged(list(answers.values()))]
    if 0 < len(sound) < len(answers):
        lines += ["Without those:", "", *judged(list(sound.values()))]
    return lines


def mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def half(figure: dict[str, Any], which: str) -> float:
    """Half the width of an interval, on logarithms."""
    p = figure[which]
    return math.inf if p["high"] is None or not p["low"] else (math.log(p["high"]) - math.log(p["low"])) / 2


def judged(answers: list[dict[str, Any]]) -> list[str]:
    """What the predictions come to, beside what was asked of them."""
    figures = [f for answer in answers for f in answer["figures"]]
    stepped = [f for f in figures if f["one_step"] is not None]
    big = [a for a in answers if any(abs(f["changed"]) > 2 * (f["null_spread"] or math.inf) for f in a["figures"])]
    signs = [f["sign_right"] for f in figures if f["sign_right"] is not None]
    covered = mean(f["model"]["covered"] for f in figures)
    narrow = sorted(
        half(f, "model") / max(2 * f["null_spread"], abs(f["changed"])) for f in figures if f["null_spread"] is not None
    )
    median = narrow[len(narrow) // 2] if narrow else math.inf

    def row(asked: str, found: str, holds: bool) -> list[str]:
        return [asked, found, "yes" if holds else "**no**"]

    def against(what: str, other: str, name: str, of: list[dict[str, Any]]) -> list[str]:
        of = [f for f in of if None not in (f["model"][what], f[other][what])]  # one repeat has no interval to score
        if not of:
            return row(f"{what} below that of {name}", NOTHING, False)
        unit, scale = (" %", 100) if what == "error" else ("", 1)
        model, rival = (scale * mean(f[w][what] for f in of) for w in ("model", other))
        digits = 0 if scale > 1 else 2
        told = f"{model:.{digits}f}{unit} against {rival:.{digits}f}{unit}, {len(of)} figures"
        return row(f"mean {what} below that of {name}", told, model < rival)

    repeats = [min(len(a["a"]), len(a["b"])) for a in answers]
    rows = [
        row("6 pairs of at least 5 repeats per arm", f"{sum(n >= 5 for n in repeats)} of {len(answers)}",
            sum(n >= 5 for n in repeats) >= 6),
        row("3 of them with a change beyond twice the null spread", str(len(big)), len(big) >= 3),
        against("error", "null", "*no change*", figures),
        against("score", "null", "*no change*", figures),
        against("error", "one_step", "the one-step ratio", stepped),
        against("score", "one_step", "the one-step ratio", stepped),
        row("90 % intervals cover 80 to 97 %", f"{100 * covered:.0f} %", 0.80 <= covered <= 0.97),
        row("median half width within twice the null spread, or the change", f"{median:.2f} of it", median <= 1),
        row("direction right in 90 %, of figures that changed by more than the null spread",
            f"{sum(signs)} of {len(signs)}", bool(signs) and sum(signs) >= 0.9 * len(signs)),
    ]  # fmt: skip
    return table(["asked", "found", "holds"], rows)
