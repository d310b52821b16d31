# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes docs/seeds.md: every figure family of the five postings, and what one-step replay shows of it.

    python docs/seeds/make.py -o docs/seeds.md RECORDINGS...

RECORDINGS are directories with NAME/trace.dat (and its snapshot and meta.json) for every recording that the claims
name; a missing one is an error, not an empty row. Every figure on the page comes from `rewake replay --format json`, or
from a query about its run. claims/POLICY.toml says what a posting claims and which replay stands beside it:

    title, author, date, policy, against (the baseline), about (what the patch does, in Markdown), remark (a quote)
    row: id; family; claim, the posting's figures; quote, verbatim but for line breaks; status, of STATUSES; why: what
      one step can and cannot say. When tried also: recordings; policy, against, where not the posting's; figures, each
      with the direction that the posting's mechanism implies (fewer, more, same; "": shown only). Where the closed loop
      can say something of the posted result: closed, see closed.py
"""

from __future__ import annotations

import math
import shlex
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import closed  # noqa: E402
from _pages import Missing, asked, head, jobs, main, meta_of, rewake, table  # noqa: E402

SYNCS = ("0", "1")
STATUSES = {
    "tried": "tried",
    "closed loop": "left to the closed loop",
    "not here": "cannot be shown here",
}
FIGURES = {
    "would_move": "would move",
    "cross_llc_prev": "leave the LLC of prev",
    "cross_llc_waker": "leave the LLC of the waker",
    "cross_node_prev": "leave the node of prev",
    "idle_missed_llc": "busy CPU chosen, one idle in its LLC",
    "idle_missed_machine": "busy CPU chosen, one idle anywhere",
    "stacked": "stacked on the waker",
    "on_heavy": "on a CPU that interrupts keep busy",
    "fork_cross_llc": "forks that leave the parent's LLC",
    "fork_cross_node": "forks that leave the parent's node",
    "p99": "p99 wakeup latency, µs",
}
FORKS = ("fork_cross_llc", "fork_cross_node")  # few: shown as counts, not as rates; no exposure
ASKED_BY_QUERY = {"on_heavy": "heavy.sql", **dict.fromkeys(FORKS, "forks.sql")}

Row = dict[str, Any]
Figures = dict[str, dict[str, Any]]  # policy instance -> figures by name


@dataclass(frozen=True)
class Replayed:
    """One recording under one assumption: its header, and the figures of every policy."""

    header: dict[str, Any]
    fidelity: dict[str, Any]
    figures: Figures


def load(folder: Path = HERE) -> dict[str, Any]:
    """The prose of the page, `posting`: the claims files by policy, `row`: all their rows, each with its posting."""
    page = tomllib.loads((folder / "page.toml").read_text(encoding="utf-8"))
    names = page["postings"]
    postings = {n: tomllib.loads((folder / f"claims/{n}.toml").read_text(encoding="utf-8")) for n in names}
    return {"page": page, "posting": postings, "row": [r | {"posting": n} for n in names for r in postings[n]["row"]]}


def pair(claims: dict[str, Any], row: Row) -> tuple[str, str]:
    """The policy of a row and the one that it is compared with."""
    posting = claims["posting"][row["posting"]]
    return row.get("against", posting["against"]), row.get("policy", posting["policy"])


def policies_of(claims: dict[str, Any], recording: str) -> list[str]:
    """What to replay on a recording, each policy once, in the order of the rows."""
    rows = [r for r in claims["row"] if recording in r.get("recordings", ())]
    return list(dict.fromkeys(p for r in rows for p in pair(claims, r)))


def options(claims: dict[str, Any], recording: str, sync: str) -> list[str]:
    """What `rewake replay` is asked of a recording."""
    asked = [word for p in policies_of(claims, recording) for word in ("--policy", p)]
    return ["--assume", f"sync={sync}", *asked, *(["--force"] if recording in claims["page"]["forced"] else [])]


def replayed(trace: Path, words: list[str], wanted: set[str]) -> Replayed:
    """Replays `trace` and collects the figures `wanted`, by policy."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "page.run"
        report = rewake("replay", trace, *words, "-o", run, "--format", "json")
        figures: Figures = {p["policy"]: dict(p) for p in report["policies"]}
        for query in sorted({ASKED_BY_QUERY[name] for name in wanted & ASKED_BY_QUERY.keys()}):
            for line in asked(run, HERE / query):
                figures[line["policy"]][query] = line
    return Replayed(report["recording"], report["fidelity"] or {}, figures)


def per_1k(figures: dict[str, Any], name: str) -> float:
    """A count per 1,000 decisions of the population that it belongs to."""
    source = figures.get(ASKED_BY_QUERY[name], {}) if name in ASKED_BY_QUERY else figures
    if source.get(name) is None or not source["decisions"]:
        raise Missing(f"{figures['policy']}: no decision with the figure {name}")
    return float(1000 * source[name] / source["decisions"])


def p99(figures: dict[str, Any]) -> tuple[float, float]:
    """The interval in µs; its end may be infinite."""
    lo, hi = figures["p99_lo_ns"], figures["p99_hi_ns"]
    if lo is None:
        raise Missing(f"{figures['policy']}: too few decisions for a p99")
    return lo / 1000, math.inf if hi is None else hi / 1000


def number(x: float) -> str:
    if math.isinf(x):
        return "∞"
    return f"{x:,.0f}" if x >= 1000 else f"{x:.1f}"


def shown(name: str, base: dict[str, Any], seed: dict[str, Any]) -> str:
    """`base → seed` of one figure."""
    if name in FORKS:
        before, after = base[ASKED_BY_QUERY[name]], seed[ASKED_BY_QUERY[name]]
        return f"{before[name]} → {after[name]} of {after['decisions']}"
    if name != "p99":
        return f"{number(per_1k(base, name))} → {number(per_1k(seed, name))}"
    return " → ".join(f"[{number(lo)}, {number(hi)}]" for lo, hi in (p99(base), p99(seed)))


def direction(name: str, base: dict[str, Any], seed: dict[str, Any]) -> str:
    """fewer, more or same; for intervals that overlap, open."""
    if name == "p99":
        (low, high), (lo, hi) = p99(base), p99(seed)
        if (lo, hi) == (low, high):
            return "same"
        return "fewer" if hi < low else "more" if lo > high else "open"
    before, after = per_1k(base, name), per_1k(seed, name)
    return "same" if before == after else "fewer" if after < before else "more"


def verdict(expected: str, found: str) -> str:
    """How a direction stands against the posting's."""
    if not expected:
        return "shown only"
    if found == "open":
        return "open: intervals overlap"
    if found == expected:
        return "as posted"
    return "no difference" if found == "same" else "not as posted"


def size(name: str, base: dict[str, Any], seed: dict[str, Any]) -> str:
    """The relative change of a count; intervals have none."""
    if name == "p99" or not (before := per_1k(base, name)):
        return ""
    change = 100 * (per_1k(seed, name) - before) / before
    return f" ({change:+.1f} %)" if change else ""


def measured(claims: dict[str, Any], row: Row, runs: dict[tuple[str, str], Replayed]) -> list[list[str]]:
    """The table cells of a tried row, one line per recording and figure."""
    against, policy = pair(claims, row)
    lines = []
    for recording in row["recordings"]:
        for name, expected in row["figures"].items():
            cells, words, exposed = [], [], []
            for sync in SYNCS:
                figures = runs[recording, sync].figures
                base, seed = figures[against], figures[policy]
                cells.append(shown(name, base, seed))
                words.append(verdict(expected, direction(name, base, seed)) + size(name, base, seed))
                exposed.append(max(base["exposure_pct"], seed["exposure_pct"]))
            told = words[0] if words[0] == words[1] else f"sync=0: {words[0]}; sync=1: {words[1]}"
            if max(exposed) > claims["page"]["max_exposure_pct"] and name not in FORKS:
                told += f"; exposure {max(exposed):.0f} % ←"
            lines.append([f"`{recording}`", FIGURES[name], *cells, told])
    return lines


def section(
    claims: dict[str, Any], key: str, runs: dict[tuple[str, str], Replayed], answers: closed.Answers
) -> list[str]:
    """Everything about one posting."""
    posting = claims["posting"][key]
    rows = [r for r in claims["row"] if r["posting"] == key]
    out = [f"## {posting['title']}", "", f"{posting['author']}, {posting['date']}. {posting['about'].strip()}", ""]
    if quote := posting.get("remark"):
        out += [f"> {' '.join(quote.split())}", ""]
    claimed = []
    for row in rows:
        said = f"{row['claim']} “{' '.join(row['quote'].split())}”"
        claimed.append([f"`{row['id']}`", row["family"], said, STATUSES[row["status"]], row["why"]])
    out += table(["row", "figure family", "the posting", "status", "what one step can and cannot say"], claimed)
    tried = [(r, line) for r in rows if r["status"] == "tried" for line in measured(claims, r, runs)]
    if tried:
        against = " / ".join(dict.fromkeys(pair(claims, r)[0] for r, _ in tried))
        out += [f"One-step figures, per 1,000 decisions where no count is given, `{against}` → the row's policy:", ""]
        lines = [[f"`{r['id']}`", f"`{pair(claims, r)[1]}`", *line] for r, line in tried]
        out += table(["row", "policy", "recording", "figure", "sync=0", "sync=1", "against the posting"], lines)
    return out + closed.section(rows, lambda row: pair(claims, row), answers)


def summary(claims: dict[str, Any], runs: dict[tuple[str, str], Replayed]) -> list[str]:
    lines = []
    for key, posting in claims["posting"].items():
        rows = [r for r in claims["row"] if r["posting"] == key]
        counts = [str(sum(r["status"] == s for r in rows)) for s in STATUSES]
        words = [w for r in rows if r["status"] == "tried" for w in _verdicts(claims, r, runs)]
        told = [str(words.count(w)) for w in ("as posted", "no difference", "not as posted", "open: intervals overlap")]
        lines.append([posting["title"], str(len(rows)), *counts, *told])
    names = ["posting", "families", *STATUSES.values(), "as posted", "no difference", "not as posted", "open"]
    return table(names, lines)


def _verdicts(claims: dict[str, Any], row: Row, runs: dict[tuple[str, str], Replayed]) -> Iterable[str]:
    against, policy = pair(claims, row)
    for recording in row["recordings"]:
        for sync in SYNCS:
            figures = runs[recording, sync].figures
            for name, expected in row["figures"].items():
                yield verdict(expected, direction(name, figures[against], figures[policy]))


def recordings_section(runs: dict[tuple[str, str], Replayed], metas: dict[str, dict[str, Any]]) -> list[str]:
    lines, made = [], jobs(HERE / "jobs")
    for name, meta in metas.items():
        run = runs[name, "0"]
        header, fidelity = run.header, run.fidelity
        machine = f"CPUs {header['cpus']}, LLCs {header['llcs']}, nodes {header['nodes']}"
        agreement = f"{fidelity['policy']}: {100 * fidelity['agreement']:.1f} %" if fidelity else "-"
        if heavy := next((f["heavy.sql"]["heavy_cpus"] for f in run.figures.values() if "heavy.sql" in f), ""):
            machine += f"; interrupts keep CPU {heavy} busy"
        load = meta["workload"] + (f"; beside it: {meta['background']}" if meta["background"] else "")
        counted = f"{header['decisions']:,}"
        lines.append([f"`{name}`", machine, header["kernel"], f"`{load}`", counted, agreement])
    out = table(["recording", "machine", "kernel", "workload", "decisions", "agreement of the kernel's column"], lines)
    out += ["Job lines of those that were made for this page:", "", "```"]
    return [*out, *(made[n] for n in metas if n in made), "```", ""]


def page(
    claims: dict[str, Any],
    runs: dict[tuple[str, str], Replayed],
    answers: closed.Answers,
    metas: dict[str, dict[str, Any]],
) -> str:
    out = head("seeds", claims["page"]["title"], claims["page"]["intro"])
    out += summary(claims, runs)
    for key in claims["posting"]:
        out += section(claims, key, runs, answers)
    out += ["## Recordings", "", claims["page"]["recordings"].strip(), ""]
    out += recordings_section(runs, metas)
    out += ["## Commands", "", claims["page"]["commands"].strip(), "", "```sh"]
    for recording, sync in runs:
        out.append(shlex.join(["rewake", "replay", f"{recording}/trace.dat", *options(claims, recording, sync)]))
    for (recording, sync), policies in simulations(claims).items():
        for factor in closed.SWEEP:
            given = closed.words(policies, sync, factor)
            out.append(shlex.join(["rewake", "simulate", f"{recording}/trace.dat", *given]))
    return "\n".join([*out, "```"]) + "\n"


def simulations(claims: dict[str, Any]) -> dict[closed.Asked, list[str]]:
    """Recordings that are simulated, each with its policies."""
    return closed.wanted(claims["row"], lambda row: pair(claims, row))


def recordings_of(claims: dict[str, Any]) -> list[str]:
    """Recordings that are replayed."""
    return list(dict.fromkeys(name for r in claims["row"] for name in r.get("recordings", ())))


def find(names: Iterable[str], folders: list[Path]) -> dict[str, Path]:
    """The directory of every recording; Missing with all that are not there."""
    found = {n: next((f / n for f in folders if (f / n / "trace.dat").is_file()), None) for n in names}
    if lacking := [name for name, path in found.items() if path is None]:
        raise Missing(f"no trace.dat of {', '.join(lacking)} in {', '.join(map(str, folders))}")
    return {name: path for name, path in found.items() if path}


def make(claims: dict[str, Any], folders: list[Path]) -> str:
    replays, simulating = recordings_of(claims), simulations(claims)
    places = find(dict.fromkeys([*replays, *(name for name, _ in simulating)]), folders)
    runs = {}
    for name, place in places.items():  # one that is only simulated is replayed once, for what stands in the last table
        wanted = {f for r in claims["row"] if name in r.get("recordings", ()) for f in r["figures"]}
        for sync in SYNCS if name in replays else SYNCS[:1]:
            print(f"seeds: {name} sync={sync}", file=sys.stderr)
            runs[name, sync] = replayed(place / "trace.dat", options(claims, name, sync), wanted)
    print(f"seeds: {len(simulating)} simulations, {len(closed.SWEEP)} times", file=sys.stderr)
    answers = closed.simulated(places, simulating)
    return page(claims, runs, answers, {name: meta_of(place) for name, place in places.items()})


if __name__ == "__main__":
    sys.exit(main("seeds", __doc__, lambda folders: make(load(), folders)))
