# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes docs/simulate.md: how well the closed loop reproduces every recording.

    python docs/simulate/make.py -o docs/simulate.md RECORDINGS... [--unseen DIR] [--repeats DIR]

RECORDINGS are directories of recordings: NAME/trace.dat or NAME/perf.data with its snapshot. What rewake refuses of
them is listed, and why. Those of --unseen, which the code has not met before, have a section of their own. Those of
--repeats, NAME-R1 and so on, are of the same jobs as NAME of RECORDINGS: they tell what one recording says of another.
How well one is predicted from another stands in docs/fidelity.md.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent)]

from _pages import (  # noqa: E402
    NOTHING,
    SIMULATED,
    Missing,
    Refused,
    head,
    latency_or_rate,
    main,
    printed,
    rewake,
    section,
    table,
)

AT_ONCE = 2
REPLICAS = 5
"""Simulations with a policy in charge, each with its own seed: a single one scatters by a tenth."""
PAIRS = HERE.parent / "fidelity/pairs.toml"


EXAMPLE = ("fixtures/demo-split-llc-schbench/trace.dat", "--policy", "idle-thread-scan")
"""What the page shows the table of: a recording of the repository, for whoever reads it to try."""

Answers = dict[str, dict[str, Any]]
"""What simulate says, by recording."""


def traces(folders: Sequence[Path]) -> dict[str, Path]:
    """Traces by the name of their directory."""
    files = [file for folder in folders for name in ("trace.dat", "perf.data") for file in folder.glob(f"*/{name}")]
    if folders and not files:
        raise Missing("no NAME/trace.dat or NAME/perf.data in " + ", ".join(map(str, folders)))
    return {file.parent.name: file for file in sorted(files)}


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


def example() -> list[str]:
    """A command and what it prints, but for where it stored the run."""
    trace, *words = EXAMPLE
    table = printed("simulate", HERE.parents[1] / trace, *words).partition("\nnext: ")[0]
    return ["```console", f"$ rewake simulate {' '.join(EXAMPLE)}", table, "```", ""]


def beside(figures: dict[str, Any], figure: str) -> str:
    """Simulated / recorded."""
    return f"{latency_or_rate(figure, figures[figure])} / {latency_or_rate(figure, figures['recorded_' + figure])}"


def check_row(name: str, check: dict[str, Any], diverged: float | None) -> list[str]:
    f = check["figures"]

    def pair(figure: str, short: str) -> str:
        return beside(f, figure) + (" !" if short in check["missed"] else "")

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


class Tally(NamedTuple):
    """How many recordings hold the checks."""

    recordings: int
    pinned: int
    better: int
    """Nearer to the recording than the null model is, in latency."""
    waits: int
    """In queue waits."""
    compared: int
    """That have enough of these."""
    factual: int
    factuals: int
    """That have a factual run."""

    @classmethod
    def of(cls, found: Answers) -> Tally:
        held = {kind: sum(c["holds"] for a in found.values() for c in a["checks"] if c["kind"] == kind)
                for kind in ("pinned", "factual")}  # fmt: skip
        both = [({c["kind"]: c for c in a["checks"]}) for a in found.values()]
        waits = [m for m in both if enough_waits(m["pinned"]) and enough_waits(m["null"])]
        nearer = [sum(m["pinned"]["figures"][ks] < m["null"]["figures"][ks] for m in some)
                  for some, ks in ((both, "ks"), (waits, "wait_ks"))]  # fmt: skip
        factuals = sum(factual_check(a) is not None for a in found.values())
        return cls(len(found), held["pinned"], nearer[0], nearer[1], len(waits), held["factual"], factuals)

    def __str__(self) -> str:
        return (
            f"V3 holds on {self.pinned} of {self.recordings} recordings and beats the null model (KS) on "
            f"{self.better}, by queue waits alone on {self.waits} of the {self.compared} with at least {FEWEST_WAITS} "
            f"of them, recorded and simulated; V4 holds on {self.factual} of {self.factuals}."
        )


def missing(found: Answers) -> list[str]:
    """Which recordings miss V3 or V4, and by which of its bounds."""
    lines = []
    for kind, title in (("pinned", "V3"), ("factual", "V4")):
        missed = {n: c["missed"] for n, a in found.items() for c in a["checks"] if c["kind"] == kind and c["missed"]}
        if missed:
            by = ", ".join(f"`{name}` ({', '.join(bounds)})" for name, bounds in missed.items())
            lines += [f"{title} is missed by {by}.", ""]
    return lines


def checks(found: Answers) -> list[str]:
    rows = []
    for name, answer in found.items():
        factual = next((p for p in answer["policies"] if p["kind"] == "factual"), None)
        for check in answer["checks"]:
            of_factual = factual and check["kind"] == "factual"
            rows.append(check_row(name, check, factual["diverged_pct"] if of_factual else None))
    columns = ["recording", "arm", "p50", "p90", "p99", "KS", "queue wait p90", "KS", "moves/s", "windows diverged"]
    tally = f"{Tally.of(found)} V5 was never violated: a violation is an error."
    return [tally, "", *missing(found), *table(columns, rows)]


def balancing(found: Answers) -> list[str]:
    """How often balancing moved tasks under V4, beside the recording."""
    rows = [
        [f"`{name}`", beside(check["figures"], "newidle_per_s"), beside(check["figures"], "periodic_per_s")]
        for name, answer in found.items()
        if (check := factual_check(answer)) is not None
    ]
    return table(["recording", "to CPUs that go idle", "periodically"], rows)


def not_seen(prose: dict[str, Any], found: Answers, others: Answers) -> list[str]:
    """The section of recordings that this version had not seen; `others`: those that it had."""
    if not found:
        return []
    beside = f"Of the others above, {Tally.of(others)}"
    return section(prose, [*checks(found), beside, ""])


def stands_for(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether V4 would hold for the recording of `one` if the model had said what was recorded of `other`."""
    names = {"p50": "recorded_p50_ns", "p99": "recorded_p99_ns", "moves": "recorded_moves_per_s"}
    for short, allowed in one["allowed"].items():
        truth, said = one["figures"][names[short]], other["figures"][names[short]]
        if said is None or abs(said - truth) > allowed:
            return False
    return True


def spread(checks: Iterable[dict[str, Any]], figure: str) -> str:
    """The least and the most that was recorded."""
    values = [check["figures"][f"recorded_{figure}"] for check in checks]
    return f"{latency_or_rate(figure, min(values))} to {latency_or_rate(figure, max(values))}"


def compared(found: Answers, groups: list[tuple[str, ...]]) -> list[str]:
    """How often a repeat of a recording is within V4's bounds of it, how often the model is; how far they are apart."""
    rows = []
    for names in groups:
        there = {n: check for n in names if n in found and (check := factual_check(found[n])) is not None}
        if len(there) < 2:
            continue
        ordered = [stands_for(a, b) for x, a in there.items() for y, b in there.items() if x != y]
        tally = Tally.of({n: found[n] for n in there})
        first, *rest = there
        rows.append(
            [f"`{first}` and {len(rest)} more", *(spread(there.values(), f) for f in ("p99_ns", "moves_per_s")),
             f"{sum(ordered)} of {len(ordered)}", f"{tally.factual} of {len(there)}", f"{tally.pinned} of {len(there)}"]
        )  # fmt: skip
    return table(
        ["recordings of one job", "p99, recorded", "moves/s, recorded", "one repeat for another",
         "the model for the recording", "with its placement (V3)"], rows,
    )  # fmt: skip


def again(names: Sequence[str], repeated: Sequence[str]) -> list[tuple[str, ...]]:
    """Each of `names` that has some, and its repeats: NAME-R1 and so on."""
    groups = [(name, *(r for r in repeated if r.rpartition("-R")[0] == name)) for name in names]
    return [group for group in groups if len(group) > 1]


def asked(found: dict[str, Path]) -> tuple[Answers, list[list[str]]]:
    """What simulate says of the recordings, and those that it refuses, with why."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = dict(zip(found, pool.map(simulated, found.values()), strict=True))
    good = {name: a for name, a in answers.items() if not isinstance(a, str)}
    return good, [[f"`{name}`", a] for name, a in answers.items() if isinstance(a, str)]


def make(folders: list[Path], unseen: Sequence[Path] = (), repeats: Sequence[Path] = ()) -> str:
    prose = tomllib.loads((HERE / "page.toml").read_text(encoding="utf-8"))
    good, refused = asked(traces(folders))
    fresh, refused_too = asked(traces(unseen))
    repeated, refused_again = asked(traces(repeats))
    wanted = tomllib.loads(PAIRS.read_text(encoding="utf-8"))["pair"]
    groups = list(dict.fromkeys(tuple(pair[side]) for pair in wanted for side in ("a", "b")))
    groups += again(list(good), list(repeated))
    lines = head("simulate", prose["title"], prose["intro"])
    lines += section(prose["example"], [*example(), prose["example"]["after"].strip(), ""])
    lines += section(prose["trust"], [])
    lines += section(prose["checks"], checks(good))
    if refused or refused_too or refused_again:
        lines += ["Refused:", "", *table(["recording", "why"], refused + refused_too + refused_again)]
    lines += not_seen(prose["unseen"], fresh, good)
    lines += section(prose["balancing"], balancing(good | fresh))
    lines += section(prose["repeats"], compared(good | repeated, groups))
    lines += section(prose["misses"], [])
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    unseen, repeats = "recordings that this version had not seen", "more recordings of some jobs"
    sys.exit(main("simulate", __doc__, make, unseen=unseen, repeats=repeats))
