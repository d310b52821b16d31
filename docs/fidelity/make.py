# SPDX-License-Identifier: GPL-2.0-or-later
"""Writes docs/fidelity.md: how well the recorded kernel's own column reproduces every recording, and what it misses.

    python docs/fidelity/make.py -o docs/fidelity.md RECORDINGS... [--repeats DIR] [--apart DIR]

RECORDINGS are directories of recordings: NAME/trace.dat (or perf.data, a .pftrace) with its snapshot and meta.json.
All that they hold is measured; what rewake refuses is listed with the reason. measure.py asks, targets.py judges.
pairs.py has B predicted from A (the closed loop), for which --repeats gives more recordings. Those of --apart have the
sections of their own whose job lists name them (APART), and are counted in no other.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE)]

import peers  # noqa: E402
import targets  # noqa: E402
from _pages import NOTHING, Missing, head, jobs, main, num, pct, section, table  # noqa: E402
from measure import AUTO, CAUSAL, ZERO, Measured, measure, traces  # noqa: E402
from pairs import pairs  # noqa: E402

AT_ONCE = 2
NO, YES = "**no**", "yes"

Tables = list[str]


def amount(x: float | None) -> str:
    """An error or a mean: three digits where it is small."""
    return NOTHING if x is None else f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def inputs_of(found: Measured, way: str) -> str:
    """Where the inputs of a way come from."""
    return "probes" if found.probed and way == AUTO else "events"


def verdict(holds: bool | str | None) -> str:
    """Of a target: held, not held, why it cannot be told, or that there is none."""
    return NOTHING if holds is None else holds if isinstance(holds, str) else YES if holds else NO


def _each(recordings: Iterable[Measured]) -> Iterator[tuple[Measured, str, list[str]]]:
    """Every recording and way, with the cells that name them."""
    for found in recordings:
        for way in found.ways():
            yield found, way, [f"`{found.name}`", inputs_of(found, way)]


def overview(recordings: list[Measured]) -> Tables:
    rows = []
    for found in recordings:
        h = found.header
        load = str(found.meta.get("workload") or NOTHING)
        load += f"; beside it: {found.meta['background']}" if found.meta.get("background") else ""
        machine = [h["kernel"] or NOTHING, str(h["cpus"]), str(h["llcs"] or NOTHING), str(h["nodes"] or NOTHING)]
        column = f"`{found.fidelity[AUTO]['policy']}`"
        rows.append([f"`{found.name}`", *machine, f"`{load}`", f"{h['decisions']:,}", column])
    return table(["recording", "kernel", "CPUs", "LLCs", "nodes", "workload", "decisions", "column"], rows)


def agreement(recordings: list[Measured]) -> Tables:
    rows = []
    for found, way, names in _each(recordings):
        f = found.fidelity[way]
        cells = [pct(f["agreement"]), pct(f["prev_agreement"]), num(f["skill"]), pct(f["moved_agreement"])]
        cells += [pct(f["moved_precision"]), num(f["llc_skill"]), f"{f['inputs_assumed_pct']['any']:.1f} %"]
        for other in (CAUSAL, ZERO):
            o = found.fidelity[other] if inputs_of(found, way) == "events" else None
            cells += [pct(o["agreement"]), num(o["skill"])] if o else [NOTHING, NOTHING]
        rows.append([*names, *cells])
    names = ["recording", "inputs", "agreement", "A_prev", "skill", "moved: recall", "precision", "LLC skill"]
    names += ["on assumed inputs", "sync=causal: agreement", "sync=causal: skill"]
    return table([*names, "sync=0: agreement", "sync=0: skill"], rows)


def audits(recordings: list[Measured], wanting: bool = False) -> Tables:
    """`wanting`: only of inputs that do not hold their target."""
    rows = []
    for found in recordings:
        for i in (i for i in found.inputs if not wanting or targets.input_target(i) not in (None, True)):
            errors = [amount(i[f"error_{q}"]) for q in ("p50", "p90", "p99")]
            cells = [i["input"], i["origin"], f"{i['decisions']:,}", pct(i["exact"]), pct(i["close"]), *errors]
            cells += [num(i["r2"]), amount(i["probed_mean"]), amount(i["mean"])]
            cells += [NOTHING if i["warm"] is None else f"{i['warm']:,}", pct(i["warm_exact"], 2)]
            holds = verdict(targets.input_target(i))
            if holds == targets.TOO_SHORT and i["warm"] is None:
                holds += f": {i['span_ns'] / 1e6:.0f} ms"
            rows.append([f"`{found.name}`", *cells, holds])
    names = ["recording", "input", "origin", "decisions", "exact", "close", "error p50", "p90", "p99", "R²"]
    return table([*names, "probed mean", "mean", "past warm-up", "exact there", "target holds"], rows)


def budgets(recordings: list[Measured]) -> Tables:
    rows = []
    for found, way, names in _each(recordings):
        b = found.budget[way]
        counts = ("misses", "proven", "possible", "unexplained", "equivalent", "open_order")
        cells = [f"{b[c]:,}" for c in counts]
        rows.append([*names, f"{b['decisions']:,}", *cells, pct(b["order_agreement"]), num(b["order_answers"])])
    names = ["recording", "inputs", "decisions", "misses", "proven", "possible only", "neither", "equivalent"]
    return table([*names, "open order", "agreement with the set", "answers"], rows)


def causes(recordings: list[Measured]) -> Tables:
    """Every cause of the misses, and the branches that missed."""
    rows = []
    for found, way, names in _each(recordings):
        b = found.budget[way]
        told = [_cause(c, "proven") for c in b["causes"] if c["proven"] or c["proven_placebo"]]
        maybe = [_cause(c, "possible") for c in b["causes"] if c["possible"] or c["possible_placebo"]]
        where = [f"{r['branch']} {r['misses']:,}" for r in b["by_branch"]]
        rows.append([*names, *(", ".join(words) or NOTHING for words in (told, maybe, where))])
    head_ = ["recording", "inputs", "proven (placebo)", "possible (placebo)", "misses by branch"]
    return table(head_, rows)


def _cause(cause: dict[str, Any], kind: str) -> str:
    return f"{cause['input']} {cause[kind]:,} ({cause[f'{kind}_placebo']:,})"


def forks(recordings: list[Measured]) -> Tables:
    """One line per recording, and one for all of them."""
    rows: list[list[str]] = []
    sums: dict[str, dict[str, dict[str, int]]] = {}
    for found, way, names in _each(recordings):
        kinds = found.fidelity[way]["kinds"]
        if "fork" in kinds or "exec" in kinds:
            rows.append([*names, *_forks(kinds, (found.header["llcs"] or 1) > 1)])
        for kind, row in kinds.items():
            total = sums.setdefault(names[1], {}).setdefault(kind, {})
            for key in ("decisions", "agreed", "prev_agreed"):
                total[key] = total.get(key, 0) + row[key]
    rows += [["all", source, *_forks(kinds, False)] for source, kinds in sums.items()]
    names = ["recording", "inputs", "forks", "agreement", "A_prev", "same LLC", "LLC of prev"]
    return table([*names, "execs", "agreement", "A_prev"], rows)


def _forks(kinds: dict[str, Any], llcs: bool) -> list[str]:
    cells = []
    for kind in ("fork", "exec"):
        k = kinds.get(kind, {"decisions": 0})
        keys = ["agreed", "prev_agreed", *(["llc_agreed", "llc_prev_agreed"] if kind == "fork" else [])]
        shown = [k["decisions"] and (llcs or not key.startswith("llc")) for key in keys]
        shares = [pct(share(k[key], k["decisions"])) if s else NOTHING for key, s in zip(keys, shown, strict=True)]
        cells += [f"{k['decisions']:,}", *shares]
    return cells


def throttled(recordings: list[Measured]) -> Tables:
    rows = []
    for found in recordings:
        if i := found.idle:
            counts = [sum(abs(x) <= targets.IDLE for x in values) for values in (i.stat, i.schedstat)]
            worst = [pct(max(map(abs, values)), 2) for values in (i.stat, i.schedstat)]
            mean = [pct(sum(values) / len(values), 2) for values in (i.stat, i.schedstat)]
            n = len(i.stat)
            cells = [
                pct(i.tick, 2),
                pct(i.outside, 2),
                f"{counts[0]} of {n}",
                mean[0],
                worst[0],
                f"{counts[1]} of {n}",
                mean[1],
            ]
            rows.append([f"`{found.name}`", *cells, worst[1], verdict(targets.idle_target(i))])
    names = ["recording", "one tick", "outside", "/proc/stat: CPUs within 0.5 %", "mean", "worst"]
    return table([*names, "/proc/schedstat: CPUs within 0.5 %", "mean", "worst", "target holds"], rows)


def moved(fidelity: dict[str, Any]) -> list[str]:
    """What a skill rests on."""
    span = targets.skill_interval(fidelity)
    return [f"{fidelity['moved']:,}", f"{span[0]:.2f} to {span[1]:.2f}" if span else NOTHING]


def probed_targets(recordings: list[Measured]) -> Tables:
    rows = []
    for found in (m for m in recordings if m.probed):
        f = found.fidelity[AUTO]
        of_moved = [NOTHING] * 2 if targets.quiet(f) else [pct(f["moved_agreement"]), pct(f["moved_precision"])]
        cells = [pct(f["agreement"]), pct(f["prev_agreement"]), num(f["skill"]), *moved(f), *of_moved]
        holds = targets.probed_target(f)
        word = verdict(holds) if holds else f"{NO}: {', '.join(targets.with_probes(f))}"
        rows.append([f"`{found.name}`", *cells, word])
    limits = f"≥ {targets.MOVED:.0%}".replace("%", " %")
    names = ["recording", f"agreement ≥ {100 * targets.AGREEMENT:.0f} %", "A_prev"]
    names += [f"skill ≥ {targets.SKILL}, or {targets.QUIET_SKILL} where A_prev > 90 %", "moved wakeups"]
    return table([*names, "95 % interval", f"recall {limits}", f"precision {limits}", "holds"], rows)


def blind_targets(recordings: list[Measured], among: Sequence[Measured] = ()) -> Tables:
    """`among`: others that they are compared with, too."""
    rows, known = [], [*recordings, *among]
    for found in recordings:
        mine, others = found.blind, peers.peers(found, known)
        best = num(peers.skill(others, AUTO)) if others else NOTHING
        compared = (
            [pct(peers.share(found, others)), *held(found, others, peers.finer(found, known))]
            if others
            else [NOTHING, NOTHING, ""]
        )
        why = compared[2] if found.header["llcs"] else "no topology: nothing is searched"
        cells = [num(mine["skill"]), *moved(mine), *named(found, others), best, *compared[:2], *aims(found, others)]
        rows.append([f"`{found.name}`", *cells, why])
    names = ["recording", "skill from events", "moved wakeups", "95 % interval", "probed recording"]
    names += ["differs in", "its skill", "share", "≥ 90 % holds", "aim", "where A_prev > 90 %"]
    return table([*names, "misses that the probed input turns"], rows)


def aims(found: Measured, others: list[Measured]) -> list[str]:
    """On which side of what is asked of it the skill of a recording is: of its workload, and where it is quiet."""

    def side(holds: bool | str, limit: float) -> str:
        return holds if isinstance(holds, str) else f"≥ {limit:.2f}" if holds else f"**< {limit:.2f}**"

    mine, aim = found.blind, targets.AIMS.get(targets.workload(found))
    if mine["skill"] is None:
        return [NOTHING, NOTHING]
    return [
        NOTHING if aim is None else side(targets.aimed(mine, aim), aim),
        side(peers.quiet_holds(found, others), targets.QUIET_SKILL) if targets.quiet(mine) else NOTHING,
    ]


def named(found: Measured, others: list[Measured]) -> list[str]:
    """The probed recordings that one is compared with, and what sets them apart."""
    if not others:
        return [NOTHING, NOTHING]
    if others == [found]:
        return ["itself", NOTHING]
    more = f" and {len(others) - 1} more" if len(others) > 1 else ""
    return [f"`{others[0].name}`{more}", ", ".join(peers.differences(found, others)) or "nothing"]


def held(found: Measured, others: list[Measured], finer: Sequence[Measured] = ()) -> list[str]:
    """Whether the share holds its target and, if not, what the probes prove and finer clocks suggest."""
    holds = peers.holds(found, others)
    failed = peers.failed(found, others)
    word = f"{NO}: {', '.join(failed)}" if holds is False and failed else verdict(holds)
    if not failed:
        return [word, ""]
    if peers.differences(found, others):
        return [word, "no probes: nothing can be proven"]
    proven = str(peers.Proof.of(others)) or "the probed ones missed none"
    if (skill := peers.ordered(found, others, finer)) is not None:
        clocks = peers.Job.of(finer[0]).clocks
        proven += f"; order of events: {num(skill)} where clocks differ by {clocks / 1000:.1f} µs at most"
    return [word, proven]


def verdicts(recordings: list[Measured], among: Sequence[Measured] = ()) -> dict[str, list[bool | str | None]]:
    """By target, whether each recording that it is for holds it. `among`: as for blind_targets."""
    probed = [m for m in recordings if m.probed]
    aimed = [m for m in recordings if targets.workload(m) in targets.AIMS and m.blind["skill"] is not None]
    known = [*recordings, *among]
    return {
        "with probes: agreement; skill, recall and precision, or half of prev's misses":
            [targets.probed_target(m.fidelity[AUTO]) for m in probed],
        "from events: ≥ 90 % of the probed skill of the same workload":
            [holds for m in recordings if (holds := from_events(m, known)) is not None],
        "from events: the skill aimed at for schbench, hackbench, messaging":
            [targets.aimed(m.blind, targets.AIMS[targets.workload(m)]) for m in aimed],
        "from events, where A_prev is above 0.9: misses at most half of prev's":
            [peers.quiet_holds(m, peers.peers(m, known)) for m in recordings
             if m.blind["skill"] is not None and targets.quiet(m.blind)],
        **{f"input audit: {name}":
            [targets.input_target(i) for m in probed for i in m.inputs if i["input"] == name]
           for name in (*targets.INPUT_EXACT, "util")},
        "idle share of throttled recordings against /proc/stat":
            [targets.idle_target(m.idle) for m in recordings if m.idle],
    }  # fmt: skip


COUNTED = ["recordings", "hold", "fail", "of these for an input that no event tells", "too short to tell"]


def _counted(found: list[bool | str | None]) -> list[str]:
    held, failed, told, short = (found.count(x) for x in (True, False, targets.INPUT, targets.TOO_SHORT))
    return [str(n) for n in (len(found), held, failed + told, told, short)]


def summary(recordings: list[Measured]) -> Tables:
    """How many recordings hold each target."""
    return table(["target", *COUNTED], [[name, *_counted(found)] for name, found in verdicts(recordings).items()])


def side_by_side(apart: list[Measured], others: list[Measured], of_others: str) -> Tables:
    """How many of the recordings of a section of their own hold each target, and what share, beside that share of the
    others."""

    def held_of(found: list[bool | str | None]) -> str:
        return pct(share(found.count(True), len(found) - found.count(targets.TOO_SHORT)), 0)

    beside = verdicts(others)
    rows = [
        [name, *_counted(found), held_of(found), held_of(beside[name])]
        for name, found in verdicts(apart, others).items()
        if found
    ]
    return table(["target", *COUNTED, "hold, of those that tell", of_others], rows)


def from_events(found: Measured, recordings: list[Measured]) -> bool | str | None:
    """Whether the share of the probed skill holds; None: there is nothing to compare."""
    others = peers.peers(found, recordings)
    return peers.holds(found, others) if others else None


def refusals(recordings: Iterable[Measured]) -> Tables:
    return table(["recording", "reason"], [[f"`{m.name}`", m.refused] for m in recordings if m.refused])


SECTIONS: dict[str, Callable[[list[Measured]], Tables]] = {
    "targets": summary,
    "with_probes": probed_targets,
    "from_events": blind_targets,
    "recordings": overview,
    "agreement": agreement,
    "inputs": audits,
    "budget": budgets,
    "causes": causes,
    "forks": forks,
    "throttled": throttled,
}
"""What writes the table of each section of page.toml."""


APART = {"unseen": "jobs.judges", "clocks": "jobs.clocks"}
"""Sections of page.toml with recordings of their own, and the lists of their jobs."""
CLOCKS_NS = 2_000
"""By so much the lab's clocks differ if nothing else is asked of it."""


def section_apart(about: dict[str, str], found: list[Measured], others: list[Measured], of_others: str) -> list[str]:
    """A section of recordings that are counted in no other table; `others`: those that they are compared with."""
    good = [m for m in found if not m.refused]
    if not good:
        return []
    told = [] if len(good) == len(found) else [
        f"rewake measures {len(good)} of the {len(found)}, and [refuses](#not-measured) the others.", ""
    ]  # fmt: skip
    out = section(about, [*told, *side_by_side(good, others, of_others)])
    for title, lines in (
        ("The recordings", overview(good)),
        ("With probes", probed_targets(good)),
        ("From events alone", blind_targets(good, others)),
        ("Agreement and skill", agreement(good)),
        ("Inputs that do not hold their target", audits(good, wanting=True)),
    ):
        out += [f"### {title}", "", *lines]
    return out


def page(prose: dict[str, Any], recordings: list[Measured], predicted: list[str], fresh: list[Measured]) -> str:
    """`predicted`: the section of pairs; `fresh`: recordings for the sections of APART."""
    measured = [m for m in recordings if not m.refused]
    out = head("fidelity", prose["title"], prose["intro"])
    for key, write in SECTIONS.items():
        out += section(prose[key], write(measured))
    out += sections_apart(prose, fresh, measured) + predicted
    made = [line for name, line in jobs(HERE / "jobs").items() if any(m.name == name for m in recordings)]
    out += section(prose["made"], ["```", *made, "```", ""])
    out += section(prose["refused"], refusals([*recordings, *fresh]))
    return "\n".join(out).rstrip("\n") + "\n"


def sections_apart(prose: dict[str, Any], fresh: list[Measured], measured: list[Measured]) -> list[str]:
    """The sections of APART that have recordings. Those whose clocks agree stand beside such of the same jobs, wherever
    they are, whose do not."""
    out = []
    for key, file in APART.items():
        mine = [m for m in fresh if m.name in jobs(HERE / file)]
        others, beside = measured, "of the others above"
        if key == "clocks":
            mine = [m for m in mine if m.refused or peers.Job.of(m).clocks < CLOCKS_NS]
            twins = {peers.Job.of(m)._replace(clocks=CLOCKS_NS) for m in mine if not m.refused}
            others = [m for m in [*measured, *fresh] if not m.refused and peers.Job.of(m) in twins]
            beside = f"of those whose clocks differ by {CLOCKS_NS / 1000:.0f} µs"
        out += section_apart(prose[key], mine, others, beside)
    return out


def predictions(folders: list[Path]) -> list[str]:
    """The section of pairs, each of recordings that are in the folders."""
    about = tomllib.loads((HERE / "pairs.toml").read_text(encoding="utf-8"))
    found = {file.parent.name: file for folder in folders for file in sorted(folder.glob("*/trace.dat"))}
    lines = pairs(about["pair"], found)
    return section(about["pairs"], lines) if lines else []


def make(folders: list[Path], repeats: Sequence[Path] = (), apart: Sequence[Path] = ()) -> str:
    prose = tomllib.loads((HERE / "page.toml").read_text(encoding="utf-8"))
    found = list(traces(folders))
    if not found:
        raise Missing(f"no recordings in {', '.join(map(str, folders))}")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        measured, fresh = (list(pool.map(lambda nt: measure(*nt), some)) for some in (found, traces(list(apart))))
    return page(prose, measured, predictions([*folders, *repeats]), fresh)


if __name__ == "__main__":
    repeats = "more recordings, for the pairs only"
    sys.exit(main("fidelity", __doc__, make, repeats=repeats, apart="recordings of the sections of their own"))
