# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes docs/simulate.md: how well the closed loop reproduces every recording, and predicts one from another.

    python docs/simulate/make.py -o docs/simulate.md RECORDINGS...

RECORDINGS are directories of recordings: NAME/trace.dat with its snapshot. Those of the first one are checked, and what
rewake refuses of them is listed, and why; pairs are made of the recordings of all.
"""

from __future__ import annotations

import math
import sys
import tomllib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent)]

from _pages import Missing, Refused, head, main, rewake, table  # noqa: E402

AT_ONCE = 2
MOST_DIVERGED = 10.0
NOTHING = "-"
SETTINGS = ("--move-cost", "0", "--force", "--format", "json")
FIGURES = {
    "p50_ns": "p50", "p90_ns": "p90", "p99_ns": "p99", "wait_p90_ns": "queue wait p90", "cycles_per_s": "wake cycles/s",
    "moves_per_s": "moves/s",
}  # fmt: skip


def micros(ns: float | None) -> str:
    return NOTHING if ns is None else f"{ns / 1000:,.1f}" if ns < 99_950 else f"{ns / 1000:,.0f}"


def amount(figure: str, value: float | None) -> str:
    if value is None:
        return NOTHING
    return micros(value) if figure.endswith("_ns") else f"{value:,.0f}"


def traces(folders: list[Path]) -> dict[str, Path]:
    """Traces by the name of their directory."""
    found = {file.parent.name: file for folder in folders for file in sorted(folder.glob("*/trace.dat"))}
    if not found:
        raise Missing("no NAME/trace.dat in " + ", ".join(map(str, folders)))
    return found


def simulated(trace: Path) -> dict[str, Any] | str:
    """What simulate prints of a recording, or why it does not."""
    try:
        return dict(rewake("simulate", trace, "--policy", "auto", *SETTINGS))
    except Refused as refused:
        return str(refused).splitlines()[-1].partition("error: ")[2] or str(refused)


def check_row(name: str, check: dict[str, Any], diverged: float | None) -> list[str]:
    f = check["figures"]

    def pair(figure: str, short: str) -> str:
        mark = " !" if short in check["missed"] else ""
        return f"{amount(figure, f[figure])} / {amount(figure, f['recorded_' + figure])}{mark}"

    kinds = {"pinned": "V3 pinned", "null": "null model", "factual": "V4 factual"}
    ks = NOTHING if f["ks"] is None else f"{f['ks']:.3f}" + (" !" if "ks" in check["missed"] else "")
    wait_ks = NOTHING if f["wait_ks"] is None else f"{f['wait_ks']:.3f}"
    return [
        f"`{name}`", kinds[check["kind"]], pair("p50_ns", "p50"), pair("p90_ns", "p90"), pair("p99_ns", "p99"), ks,
        pair("wait_p90_ns", "wait"), wait_ks, pair("moves_per_s", "moves"),
        NOTHING if diverged is None else f"{diverged:.0f} %",
    ]  # fmt: skip


def checks(found: dict[str, dict[str, Any]]) -> list[str]:
    rows = []
    held = {"pinned": 0, "factual": 0}
    better = 0
    for name, answer in found.items():
        factual = next((p for p in answer["policies"] if p["kind"] == "factual"), None)
        by_kind = {c["kind"]: c for c in answer["checks"]}
        for kind, check in by_kind.items():
            rows.append(check_row(name, check, factual["diverged_pct"] if factual and kind == "factual" else None))
            held[kind] = held.get(kind, 0) + check["holds"]
        better += by_kind["pinned"]["figures"]["ks"] < by_kind["null"]["figures"]["ks"]
    factuals = sum(any(c["kind"] == "factual" for c in a["checks"]) for a in found.values())
    columns = ["recording", "arm", "p50", "p90", "p99", "KS", "queue wait p90", "KS", "moves/s", "windows diverged"]
    line = (
        f"V3 holds on {held['pinned']} of {len(found)} recordings and beats the null model (KS) on {better}; V4 holds "
        f"on {held['factual']} of {factuals}. V5 was never violated: a violation is an error."
    )
    return [line, "", *table(columns, rows)]


def diverged(answer: dict[str, Any]) -> bool:
    """More windows than rewake answers for without --force."""
    return float(answer["diverged_pct"]) > MOST_DIVERGED


def pair_rows(name: str, answer: dict[str, Any]) -> list[list[str]]:
    rows = []
    for r in answer["figures"]:
        kind, model = r["figure"], r["model"]
        step = NOTHING if r["one_step"] is None else f"{100 * r['one_step']['error']:.0f}"
        sign = {None: NOTHING, True: "right", False: "**wrong**"}[r["sign_right"]]
        span = "unbounded" if model["high"] is None else f"{amount(kind, model['low'])} - {amount(kind, model['high'])}"
        repeats = f"{name} ({len(answer['a'])}/{len(answer['b'])})" + (" †" if diverged(answer) else "")
        values = [amount(kind, x) for x in (r["a"], r["b"], model["value"])]
        errors = [f"{100 * r[which]['error']:.0f}" for which in ("model", "null")]
        covered = f"{100 * model['covered']:.0f} %"
        rows.append([repeats, FIGURES[kind], *values, span, covered, *errors, step, sign])
    return rows


def pairs(prose: dict[str, Any], found: dict[str, Path]) -> list[str]:
    words: dict[str, list[str | Path]] = {}
    for pair in prose["pair"]:
        there = {side: [found[n] for n in pair[side] if n in found] for side in ("a", "b")}
        if not there["a"] or not there["b"]:
            continue
        (a, *more_a), (b, *more_b) = there["a"], there["b"]
        words[pair["name"]] = ["validate", a, b]
        for option, paths in (("--a", more_a), ("--b", more_b)):
            for path in paths:
                words[pair["name"]] += [option, path]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found_out = pool.map(lambda command: dict(rewake(*command, *SETTINGS)), words.values())
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


def make(folders: list[Path]) -> str:
    prose = tomllib.loads((HERE / "page.toml").read_text(encoding="utf-8"))
    found = traces(folders)
    checked = traces(folders[:1])
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = dict(zip(checked, pool.map(simulated, checked.values()), strict=True))
    good = {name: a for name, a in answers.items() if not isinstance(a, str)}
    lines = head("simulate", prose["title"], prose["intro"])
    lines += [f"## {prose['checks']['title']}", "", prose["checks"]["text"].strip(), "", *checks(good)]
    refused = [[f"`{name}`", a] for name, a in answers.items() if isinstance(a, str)]
    if refused:
        lines += ["Refused:", "", *table(["recording", "why"], refused)]
    lines += [f"## {prose['misses']['title']}", "", prose["misses"]["text"].strip(), ""]
    lines += [f"## {prose['pairs']['title']}", "", prose["pairs"]["text"].strip(), "", *pairs(prose, found)]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(main("simulate", __doc__, make))
