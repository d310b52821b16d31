# SPDX-License-Identifier: GPL-2.0-or-later
"""The postings' results in the closed loop: `rewake simulate` with the baseline and the policy in charge, in a sweep.

A row of claims/POLICY.toml may have `closed`: recordings (each with the direction that the posting found: fewer, more,
same; "": shown only), figure (of FIGURES), why (what stands between the simulated figure and the posted one). A posting
whose loads wake synchronously has sync = "1": WF_SYNC is then assumed, not inferred.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from _pages import NOTHING, latency_or_rate, rewake, table

AT_ONCE = 2
SWEEP = ("0", "1", "3")
"""--move-cost: times the modelled cost of running elsewhere (policies.md D2.7)."""
REPLICAS = "3"
SAME_WITHIN = 0.02
"""Figures closer than this are the same."""
FIGURES = {
    "p50_ns": "p50, µs",
    "p90_ns": "p90, µs",
    "p99_ns": "p99, µs",
    "p999_ns": "p99.9, µs",
    "cycles_per_s": "wake cycles/s",
    "cycles_sd_per_s": "their deviation over windows",
    "wake_per_s": "moves by wakeups/s",
}
RANGES = {
    "p50_ns": ("p50_low_ns", "p50_high_ns"),
    "p99_ns": ("p99_low_ns", "p99_high_ns"),
    "cycles_per_s": ("cycles_low_per_s", "cycles_high_per_s"),
}

Policies = dict[str, dict[str, Any]]
Asked = tuple[str, str]
"""A recording, and what is assumed of WF_SYNC on it."""
Answers = dict[tuple[Asked, str], dict[str, Any]]
"""What simulate prints, by that and the factor of the sweep."""


def sync_of(row: dict[str, Any]) -> str:
    return str(row["closed"].get("sync", "auto"))


def wanted(rows: list[dict[str, Any]], pair: Any) -> dict[Asked, list[str]]:
    """The policies to simulate. `pair`: what a row compares."""
    out: dict[Asked, list[str]] = {}
    for row in rows:
        for name in row.get("closed", {}).get("recordings", ()):
            policies = out.setdefault((name, sync_of(row)), [])
            policies += [p for p in pair(row) if p not in policies]
    return out


def words(policies: list[str], sync: str, factor: str) -> list[str]:
    asked = [word for p in policies for word in ("--policy", p)]
    return [*asked, "--assume", f"sync={sync}", "--replicas", REPLICAS, "--move-cost", factor, "--force"]


def simulated(places: dict[str, Path], policies: dict[Asked, list[str]]) -> Answers:
    keys = [(asked, factor) for asked in policies for factor in SWEEP]

    def one(key: tuple[Asked, str]) -> dict[str, Any]:
        (name, sync), factor = key
        given = words(policies[key[0]], sync, factor)
        return dict(rewake("simulate", places[name] / "trace.dat", *given, "--format", "json"))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(keys, pool.map(one, keys), strict=True))


def by_policy(answer: dict[str, Any]) -> Policies:
    """Lines of the policies in charge. A baseline that is the recorded kernel's column is the factual line."""
    return {p["policy"]: p for p in answer["policies"] if p["kind"] in ("factual", "policy")}


def told(figure: str, policy: dict[str, Any]) -> str:
    """The figure, with the smallest and largest of a single window where there is one."""
    text = latency_or_rate(figure, policy[figure])
    low, high = (policy[name] for name in RANGES[figure]) if figure in RANGES else (None, None)
    if low is not None and high is not None:
        text += f" ({latency_or_rate(figure, low)}-{latency_or_rate(figure, high)})"
    return text + (" †" if (policy["diverged_pct"] or 0) > 10 else "")


def direction(figure: str, base: dict[str, Any], seed: dict[str, Any]) -> str | None:
    """fewer, more or same; None where a figure is missing."""
    before, after = base[figure], seed[figure]
    if before is None or after is None:
        return None
    if abs(after - before) <= SAME_WITHIN * max(abs(before), abs(after)):
        return "same"
    return "fewer" if after < before else "more"


def apart(figure: str, base: dict[str, Any], seed: dict[str, Any]) -> bool:
    """Whether no window of the one reaches into the range of the other's."""
    if figure not in RANGES:
        return False
    low, high = RANGES[figure]
    ends = base[low], base[high], seed[low], seed[high]
    return None not in ends and bool(ends[3] < ends[0] or ends[2] > ends[1])


def verdict(figure: str, expected: str, pairs: list[tuple[dict[str, Any], dict[str, Any]]]) -> str:
    """How the sweep stands against the posting."""
    found = [direction(figure, *pair) for pair in pairs]
    if None in found:
        return "too few wakeups"
    if not expected:
        return "shown only"
    if len(set(found)) > 1:
        return "open: depends on what a move costs"
    if found[0] != expected:
        return "no difference" if found[0] == "same" else "not as posted"
    if expected == "same" or all(apart(figure, *pair) for pair in pairs):
        return "as posted"
    ends = [p[end] for pair in pairs for p in pair for end in RANGES.get(figure, ())]
    return "as posted, windows overlap" if ends and None not in ends else "as posted, spread unknown"


def lines(
    row: dict[str, Any], pair: tuple[str, str], answers: dict[tuple[str, str], dict[str, Any]]
) -> list[list[str]]:
    """The table lines of a row, one per recording."""
    out = []
    against, policy = pair
    figure = row["closed"]["figure"]
    for name, expected in row["closed"]["recordings"].items():
        asked = (name, sync_of(row))
        found = [by_policy(answers[asked, factor]) for factor in SWEEP]
        pairs = [(f[against], f[policy]) for f in found]
        cells = [" → ".join(told(figure, p) for p in both) for both in pairs]
        checks = {c["kind"]: c["holds"] for c in answers[asked, "0"]["checks"]}
        held = "yes" if checks.get("factual") else NOTHING if "factual" not in checks else "no"
        out.append([f"`{row['id']}`", f"`{policy}`", f"`{name}`", asked[1], FIGURES[figure], *cells, held,
                    verdict(figure, expected, pairs)])  # fmt: skip
    return out


def section(rows: list[dict[str, Any]], pair: Any, answers: Answers) -> list[str]:
    """The closed-loop table of a posting and, row by row, what stands between its figures and the posted ones."""
    mine = [row for row in rows if "closed" in row]
    if not mine:
        return []
    against = " / ".join(f"`{name}`" for name in dict.fromkeys(pair(row)[0] for row in mine))
    out = [f"Closed loop, simulated, {against} → the row's policy (smallest to largest of a window):", ""]
    names = ["row", "policy", "recording", "sync", "figure",
             *(f"moves cost {factor} times" for factor in SWEEP), "V4 holds",
             "against the posting"]  # fmt: skip
    out += table(names, [line for row in mine for line in lines(row, pair(row), answers)])
    said = [f"- `{row['id']}`: posted {row['claim']} {' '.join(row['closed']['why'].split())}" for row in mine]
    return [*out, *said, ""]
