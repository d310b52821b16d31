# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes docs/simulate.md: how well the closed loop reproduces every recording.

    python docs/simulate/make.py -o docs/simulate.md RECORDINGS...

RECORDINGS are directories of recordings: NAME/trace.dat with its snapshot. What rewake refuses of them is listed, and
why. How well it predicts one recording from another stands in docs/fidelity.md.
"""

from __future__ import annotations

import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent)]

from _pages import NOTHING, SIMULATED, Missing, Refused, head, latency_or_rate, main, rewake, table  # noqa: E402

AT_ONCE = 2
REPLICAS = 5
"""Simulations with a policy in charge, each with its own seed: a single one scatters by a tenth."""
PAIRS = HERE.parent / "fidelity/pairs.toml"


def traces(folders: list[Path]) -> dict[str, Path]:
    """Traces by the name of their directory."""
    found = {file.parent.name: file for folder in folders for file in sorted(folder.glob("*/trace.dat"))}
    if not found:
        raise Missing("no NAME/trace.dat in " + ", ".join(map(str, folders)))
    return found


def simulated(trace: Path) -> dict[str, Any] | str:
    """What simulate prints of a recording, or why it does not."""
    try:
        return dict(rewake("simulate", trace, "--policy", "auto", "--replicas", str(REPLICAS), *SIMULATED))
    except Refused as refused:
        return str(refused).splitlines()[-1].partition("error: ")[2] or str(refused)


FEWEST_WAITS = 20
"""Of fewer queue waits, simulated or recorded, the KS distance says little."""


def enough_waits(check: dict[str, Any]) -> bool:
    """There are so many that their distributions can be compared."""
    f = check["figures"]
    return min(f["wait_n"] or 0, f["recorded_wait_n"] or 0) >= FEWEST_WAITS


def factual_check(answer: dict[str, Any]) -> dict[str, Any] | None:
    """The check of the run with the recorded kernel's column in charge."""
    return next((c for c in answer["checks"] if c["kind"] == "factual"), None)


def check_row(name: str, check: dict[str, Any], diverged: float | None) -> list[str]:
    f = check["figures"]

    def pair(figure: str, short: str) -> str:
        mark = " !" if short in check["missed"] else ""
        return f"{latency_or_rate(figure, f[figure])} / {latency_or_rate(figure, f['recorded_' + figure])}{mark}"

    kinds = {"pinned": "V3 pinned", "null": "null model", "factual": "V4 factual"}
    ks = NOTHING if f["ks"] is None else f"{f['ks']:.3f}" + (" !" if "ks" in check["missed"] else "")
    wait_ks = NOTHING if f["wait_ks"] is None else f"{f['wait_ks']:.3f}"
    if f["wait_ks"] is not None and not enough_waits(check):
        wait_ks += f" ({f['wait_n']:,} / {f['recorded_wait_n']:,})"
    return [
        f"`{name}`", kinds[check["kind"]], pair("p50_ns", "p50"), pair("p90_ns", "p90"), pair("p99_ns", "p99"), ks,
        pair("wait_p90_ns", "wait"), wait_ks, pair("moves_per_s", "moves"),
        NOTHING if diverged is None else f"{diverged:.0f} %",
    ]  # fmt: skip


def checks(found: dict[str, dict[str, Any]]) -> list[str]:
    rows = []
    held = {"pinned": 0, "factual": 0}
    better = 0
    waits: list[bool] = []
    for name, answer in found.items():
        factual = next((p for p in answer["policies"] if p["kind"] == "factual"), None)
        by_kind = {c["kind"]: c for c in answer["checks"]}
        for kind, check in by_kind.items():
            rows.append(check_row(name, check, factual["diverged_pct"] if factual and kind == "factual" else None))
            held[kind] = held.get(kind, 0) + check["holds"]
        pinned, null = by_kind["pinned"], by_kind["null"]
        better += pinned["figures"]["ks"] < null["figures"]["ks"]
        if enough_waits(pinned) and enough_waits(null):
            waits.append(pinned["figures"]["wait_ks"] < null["figures"]["wait_ks"])
    factuals = sum(factual_check(a) is not None for a in found.values())
    columns = ["recording", "arm", "p50", "p90", "p99", "KS", "queue wait p90", "KS", "moves/s", "windows diverged"]
    line = (
        f"V3 holds on {held['pinned']} of {len(found)} recordings and beats the null model (KS) on {better}, "
        f"by queue waits alone on {sum(waits)} of the {len(waits)} with at least {FEWEST_WAITS} of them, recorded and "
        f"simulated; V4 holds on {held['factual']} of {factuals}. V5 was never violated: a violation is an error."
    )
    return [line, "", *table(columns, rows)]


def stands_for(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether V4 would hold for the recording of `one` if the model had said what was recorded of `other`."""
    names = {"p50": "recorded_p50_ns", "p99": "recorded_p99_ns", "moves": "recorded_moves_per_s"}
    for short, allowed in one["allowed"].items():
        truth, said = one["figures"][names[short]], other["figures"][names[short]]
        if said is None or abs(said - truth) > allowed:
            return False
    return True


def repeats(found: dict[str, dict[str, Any]], groups: list[tuple[str, ...]]) -> list[str]:
    """How often a repeat of a recording is within V4's bounds of it, beside how often the model is."""
    rows = []
    for names in groups:
        there = {n: check for n in names if n in found and (check := factual_check(found[n])) is not None}
        if len(there) < 2:
            continue
        ordered = [stands_for(a, b) for x, a in there.items() for y, b in there.items() if x != y]
        held = [n for n, check in there.items() if check["holds"]]
        first, *rest = there
        rows.append(
            [f"`{first}` and {len(rest)} more", f"{sum(ordered)} of {len(ordered)}", f"{len(held)} of {len(there)}"]
        )
    return table(["recordings of one job", "one repeat for another", "the model for the recording"], rows)


def make(folders: list[Path]) -> str:
    prose = tomllib.loads((HERE / "page.toml").read_text(encoding="utf-8"))
    found = traces(folders)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = dict(zip(found, pool.map(simulated, found.values()), strict=True))
    good = {name: a for name, a in answers.items() if not isinstance(a, str)}
    wanted = tomllib.loads(PAIRS.read_text(encoding="utf-8"))["pair"]
    groups = list(dict.fromkeys(tuple(pair[side]) for pair in wanted for side in ("a", "b")))
    lines = head("simulate", prose["title"], prose["intro"])
    lines += [f"## {prose['checks']['title']}", "", prose["checks"]["text"].strip(), "", *checks(good)]
    refused = [[f"`{name}`", a] for name, a in answers.items() if isinstance(a, str)]
    if refused:
        lines += ["Refused:", "", *table(["recording", "why"], refused)]
    lines += [f"## {prose['repeats']['title']}", "", prose["repeats"]["text"].strip(), "", *repeats(good, groups)]
    lines += [f"## {prose['misses']['title']}", "", prose["misses"]["text"].strip(), ""]
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(main("simulate", __doc__, make))
