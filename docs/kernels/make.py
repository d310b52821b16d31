# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes docs/kernels.md: how the columns do on kernels of distributions, which none of them was read from.

    python docs/kernels/make.py -o docs/kernels.md RECORDINGS...

RECORDINGS are directories of recordings, NAME/trace.dat with its snapshot.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "fidelity")]

from _pages import (  # noqa: E402
    NOTHING,
    SIMULATED,
    Refused,
    head,
    latency_or_rate,
    main,
    num,
    pct,
    rewake,
    section,
    table,
)
from measure import AUTO, BLIND, WAYS, traces  # noqa: E402

Figures = dict[str, Any]

INPUTS = ("util", "load", "rq_load", "rq_nr", "recent_cpu", "nr_idle_scan", "has_idle_cores", "sync")
"""Of the audit: what is reconstructed or inferred where events are all there is. wakee_flips at the start of recordings
this short are not known."""


REPLICAS = "5"
KINDS = {"pinned": "V3", "factual": "V4"}
FIGURES = ("p50_ns", "p90_ns", "p99_ns", "moves_per_s")


class Asked(NamedTuple):
    name: str
    kernel: str
    fidelity: dict[str, Figures]
    """By where the inputs are from."""
    inputs: dict[str, Figures]
    checks: list[Figures]
    """V3 and V4 of the closed loop; of recordings with probes, which slow what they look at, none."""
    refused: str = ""


def ask(name: str, trace: Path) -> Asked:
    print(f"kernels: {name}", file=sys.stderr)
    about = rewake("info", trace, "--format", "json")
    probed = "select_in" in about["events"]
    ways = {"probes": [*WAYS[AUTO], "--inputs"], "events": WAYS[BLIND]} if probed else {"events": WAYS[AUTO]}
    try:
        found = {inputs: rewake("fidelity", trace, *words, "--format", "json") for inputs, words in ways.items()}
    except Refused as error:
        return Asked(name, about["kernel"], {}, {}, [], str(error).splitlines()[0])
    audit = found["probes"]["inputs"]["inputs"] if probed else []
    words = ("--policy", "auto", "--replicas", REPLICAS, *SIMULATED)
    checks = [] if probed else rewake("simulate", trace, *words)["checks"]
    return Asked(name, about["kernel"], found, {row["input"]: row for row in audit}, checks)


def by_kernel(found: Asked) -> tuple[list[int], str]:
    return [int(n) for n in found.kernel.split("-")[0].split(".")[:2]], found.name


def agreement(recordings: Iterable[Asked]) -> Iterator[list[str]]:
    for found in recordings:
        for inputs, f in found.fidelity.items():
            yield [
                f"`{found.name}`", found.kernel, f"`{f['policy']}`", inputs, f"{f['decisions']:,}", pct(f["agreement"]),
                pct(f["prev_agreement"]), num(f["skill"], 2), pct(f["moved_agreement"]), pct(f["moved_precision"]),
                num(f["llc_skill"], 2),
            ]  # fmt: skip


def audit(recordings: Iterable[Asked]) -> Iterator[list[str]]:
    for found in recordings:
        if found.inputs:
            yield [f"`{found.name}`", *(_right(found.inputs[n]) if n in found.inputs else NOTHING for n in INPUTS)]


def _right(row: Figures) -> str:
    """Share within 10 % or 16 where the input is an amount, else of equal ones."""
    return pct(row["exact"] if row["close"] is None else row["close"])


def closed(recordings: Iterable[Asked]) -> Iterator[list[str]]:
    for found in recordings:
        for check in found.checks:
            f = check["figures"]
            if check["kind"] not in KINDS:
                continue
            pairs = (f"{latency_or_rate(n, f[n])} / {latency_or_rate(n, f['recorded_' + n])}" for n in FIGURES)
            missed = ", ".join(check["missed"]) or "holds"
            yield [f"`{found.name}`", KINDS[check["kind"]], *pairs, num(f["ks"]), missed]


def tally(recordings: Iterable[Asked]) -> str:
    held = {kind: [c["holds"] for m in recordings for c in m.checks if c["kind"] == kind] for kind in KINDS}
    return ", ".join(f"{KINDS[kind]} holds on {sum(all_)} of {len(all_)}" for kind, all_ in held.items()) + "."


def page(prose: Figures, recordings: list[Asked]) -> str:
    told = sorted(recordings, key=by_kernel)
    columns = ["recording", "kernel", "column", "inputs", "decisions", "agreement", "A_prev", "skill", "moved: recall"]
    measured = {
        "agreement": table([*columns, "precision", "LLC skill"], agreement(told)),
        "inputs": table(["recording", *INPUTS], audit(told)),
        "closed": [
            tally(told), "",
            *table(["recording", "arm", "p50", "p90", "p99", "moves/s", "KS", "bounds missed"], closed(told)),
        ],
    }  # fmt: skip
    lines = head("kernels", prose["title"], prose["intro"])
    for name in ("agreement", "inputs", "closed", "showed", "made"):
        lines += section(prose[name], measured.get(name, []))
        if name == "agreement":
            lines += [f"`{m.name}` is refused: {m.refused}\n" for m in told if m.refused]
    return "\n".join(lines).rstrip() + "\n"


def make(folders: list[Path]) -> str:
    prose = tomllib.loads((HERE / "page.toml").read_text(encoding="utf-8"))
    return page(prose, [ask(name, trace) for name, trace in traces(folders)])


if __name__ == "__main__":
    sys.exit(main("kernels", __doc__, make))
