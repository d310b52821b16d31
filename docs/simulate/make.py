# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes docs/simulate.md: how well the closed loop reproduces every recording, and predicts one from another.

    python docs/simulate/make.py -o docs/simulate.md RECORDINGS...

RECORDINGS are directories of recordings: NAME/trace.dat with its snapshot. What rewake refuses is listed, and why.
"""

from __future__ import annotations

import sys
import tomllib
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
    answers = {}
    for pair in prose["pair"]:
        missing = [n for n in (*pair["a"], *pair["b"]) if n not in found]
        if missing:
            continue
        (a, *more_a), (b, *more_b) = ([found[n] for n in pair[side]] for side in ("a", "b"))
        words: list[str | Path] = ["validate", a, b]
        for option, paths in (("--a", more_a), ("--b", more_b)):
            for path in paths:
                words += [option, path]
        answers[pair["name"]] = dict(rewake(*words, *SETTINGS))
    rows = [row for name, answer in answers.items() for row in pair_rows(name, answer)]
    sound = {name: answer for name, answer in answers.items() if not diverged(answer)}
    figures = [f for answer in sound.values() for f in answer["figures"]]
    columns = ["pair (repeats A/B)", "figure", "A", "B", "B predicted", "90 % interval", "covered", "error",
               "no change", "one step", "direction"]  # fmt: skip
    lines = table(columns, rows)
    if figures:
        judged = [f["sign_right"] for f in figures if f["sign_right"] is not None]
        mean = {k: sum(f[k]["error"] for f in figures) / len(figures) for k in ("model", "null")}
        line = (
            f"Over {len(figures)} figures of {len(sound)} pairs: mean error {100 * mean['model']:.0f} %, of no "
            f"change {100 * mean['null']:.0f} %. Direction right in {sum(judged)} of {len(judged)} figures "
            "that changed by more than repeats of A differ."
        )
        lines += [line, ""]
    return lines


def make(folders: list[Path]) -> str:
    prose = tomllib.loads((HERE / "page.toml").read_text(encoding="utf-8"))
    found = traces(folders)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = dict(zip(found, pool.map(simulated, found.values()), strict=True))
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
