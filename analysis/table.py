# SPDX-License-Identifier: GPL-2.0-or-later
"""The text tables. Every name goes through `text.terminal`; no figure is computed here, only formatted.

Up to three alternatives beside the recorded choice: policies are columns, with the distance from the record behind each
figure (positive: fewer than recorded). More: policies are rows. At most 100 columns either way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rewake.analysis import fidelity as fid
from rewake.analysis.grid import (
    NOTHING,
    Column,
    bounds,
    count,
    counted,
    defined,
    llcs,
    micros,
    number,
    percent,
    render,
    share,
    wrap,
)
from rewake.analysis.identify import LEVEL, RESAMPLES, SEED, Candidate, Identification
from rewake.analysis.metrics import PolicyFigures
from rewake.analysis.quality import QualityCard
from rewake.analysis.report import Machine, Report
from rewake.analysis.sql import Query, Rows
from rewake.analysis.text import terminal

_NAME = 60
_COLUMN_NAME = 20
MOST_COLUMNS = 3
"""Alternatives up to which policies are columns."""


RATES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("would_move_per_1k", "would move", ("would", "move")),
    ("cross_llc_prev_per_1k", "would leave LLC of prev", ("leave", "LLC of", "prev")),
    ("cross_llc_waker_per_1k", "would leave LLC of waker", ("leave", "LLC of", "waker")),
    ("idle_missed_llc_per_1k", "idle missed in LLC", ("idle", "missed", "in LLC")),
    ("idle_missed_machine_per_1k", "idle missed anywhere", ("idle", "missed", "any")),
    ("stacked_per_1k", "stacked on waker", ("stacked", "on", "waker")),
)
"""Rates per 1,000 decisions, fewer is better: figure, row label, column header."""


LABELS = {
    "hybrid": "a seed on a kernel that it was not posted for; no vectors prove it",
    "proposal": "follows WAKE_WIDE, which the posting only describes; what it does is our reading",
    "variant": "a constant of the kernel or the posting is changed",
    "plugin": "a user's own code; nothing here proves it",
}
"""Labels of policies that stand for no kernel and no posting as it is."""


def p99(p: PolicyFigures) -> str:
    if p.policy == "recorded":
        return micros(p["p99_lo_ns"])
    return bounds(p["p99_lo_ns"], p["p99_hi_ns"], p["p99_at_least_ns"])


def versus(value: float | None, base: float | None) -> str:
    """Distance from the record, positive when fewer; blank where there is none."""
    if value is None or not base:
        return " " * 7
    return f"({max(-999, round(100 * (base - value) / base)):>4}%)"


def own(p: PolicyFigures, text: str) -> str:
    """The recorded state contains the recorded choices: nothing there can be exposed."""
    return NOTHING if p.policy == "recorded" else text


def _exposure(p: PolicyFigures, limit: float) -> str:
    mark = " ←" if (p["exposure_pct"] or 0.0) > limit else ""
    return own(p, number(p["exposure_pct"]) + mark)


def head(machine: Machine, quality: QualityCard, decisions: int) -> list[str]:
    """Recording, machine and quality: what stands above every table."""
    nodes = f"  {machine.nodes} nodes" if (machine.nodes or 1) > 1 else ""
    return [
        *wrap(
            f"{terminal(machine.recording, _NAME)}  {machine.cpus} CPUs  {llcs(machine.llcs)}{nodes}  kernel "
            f"{terminal(machine.kernel or 'unknown', _NAME)}  {count(decisions)} decisions"
        ),
        *wrap(terminal(quality.line(), None)),
    ]


def fidelity_line(measured: fid.Fidelity | None, refusal: str | None) -> list[str]:
    """How well the recorded kernel's own column does: the figure that qualifies the table below it."""
    if measured is None:
        return wrap(f"fidelity: none: {terminal(refusal or 'the kernel column was not replayed', None)}")
    name = terminal(measured.policy, _NAME)
    asked = " (by --as)" if measured.asked else ""
    lines = wrap(f"fidelity of {name}{asked}: {gate(measured)}")
    return lines + [line for note in measured.notes for line in wrap(f"  {terminal(note, None)}")]


def gate(measured: fid.Fidelity) -> str:
    """The figures of the gate. LLC skill stands where the kernel chose between LLCs."""
    llc = "" if measured.llc_skill is None else f" (LLC {_ratio(measured.llc_skill)})"
    return (
        f"agreement {share(measured.agreement)}, skill over prev {_ratio(measured.skill)}{llc}, "
        f"moved: recall {_ratio(measured.moved_agreement)} precision {_ratio(measured.moved_precision)}, "
        f"decisions on assumed inputs {percent(measured.inputs_assumed_pct['any'])}"
    )


def _ratio(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.2f}"


def report(r: Report, next_steps: Sequence[str] = ()) -> str:
    """The report's table, with everything that qualifies it above and below."""
    alternatives = [p for p in r.policies if p.policy != "recorded"]
    short = all(len(p.policy) <= _COLUMN_NAME for p in alternatives)
    as_columns = len(alternatives) <= MOST_COLUMNS and short
    lines = [*head(r.machine, r.quality, r.decisions), *fidelity_line(r.fidelity, r.refusal), ""]
    lines += _columns(r, alternatives) if as_columns else _rows(r)
    if as_columns and "recorded" in (p.policy for p in r.policies):
        lines += ["(%): distance from recorded, positive is fewer; -999: that far and farther."]
    lines += ["", *_footer(r), *_next(next_steps)]
    return "\n".join(lines) + "\n"


def _columns(r: Report, alternatives: Sequence[PolicyFigures]) -> list[str]:
    recorded = next((p for p in r.policies if p.policy == "recorded"), None)
    labels = [f"{label:<28}/1k" for _, label, _ in RATES]
    labels += [f"{label:<29}{unit}" for label, unit in TAIL]
    grid = [Column(("one-step",), labels, left=True)]
    for p in ([recorded] if recorded else []) + list(alternatives):
        cells = []
        for key, _, _ in RATES:
            cell = number(p[key])
            if p is not recorded and recorded is not None:
                cell += " " + versus(p[key], recorded[key])
            cells.append(cell)
        cells += [p99(p), number(p["known_pct"]), _exposure(p, r.max_exposure)]
        cells.append(own(p, number(p["self_collision_per_1k"])))
        grid.append(Column((terminal(p.policy, _COLUMN_NAME),), cells))
    return render(grid)


TAIL = (("p99 wakeup latency", "µs"), ("known share", "%"), ("exposure", "%"), ("self-collision", "/1k"))


def _rows(r: Report) -> list[str]:
    grid = [Column(("one-step,", "per 1,000"), [terminal(p.policy) for p in r.policies], left=True)]
    for key, _, header in RATES:
        grid.append(Column(header, [number(p[key]) for p in r.policies]))
    grid.append(Column(("p99 latency", "[lo, hi] µs"), [p99(p) for p in r.policies]))
    grid.append(Column(("known", "share", "%"), [number(p["known_pct"]) for p in r.policies]))
    grid.append(Column(("expo-", "sure", "%"), [_exposure(p, r.max_exposure) for p in r.policies]))
    grid.append(Column(("self-", "colli-", "sion"), [own(p, number(p["self_collision_per_1k"])) for p in r.policies]))
    return render(grid, spill=True)


def _footer(r: Report) -> list[str]:
    return [line for note in notes(r) for line in wrap(note, indent="     " if note.startswith("  ") else "  ")]


def notes(r: Report) -> list[str]:
    """What qualifies the figures, a paragraph each; every name in them is made safe for a terminal."""
    out = []
    if r.over_exposed():
        out.append(
            f"← above {r.max_exposure:g} %: use simulate (rewake simulate REC --policy P). A policy's own earlier "
            "picks would have changed what it looked at; one-step figures do not show that."
        )
    if not r.topology:
        out.append(
            f"cross LLC, idle missed LLC: {NOTHING} because the recording has no topology; import it again with "
            "--topology XML|TAR|DIR."
        )
        out.append(_ALONE)
    if r.quality.outside:
        out.append(f"{r.quality.outside} (--topology). Figures of LLCs and nodes leave out what concerns them.")
    out.append(
        "p99: recorded where the policy chose what the kernel chose (known), modelled [lo, hi] elsewhere, over all "
        "decisions. Idle and busy CPUs: reconstructed from the events (the order of close ones is inferred)."
    )
    if any(p["p99_lo_ns"] is None for p in r.policies):
        out.append("A p99 needs 1,000 samples.")
    out += _inputs(r) + _sync(r) + _machine(r) + hints(r.run.get("hints")) + _energy(r)
    if any(p.base == "oracle-idle" for p in r.policies):
        out.append("oracle-idle sees every CPU at no cost: an unreachable bound, not a policy to ship.")
    for name, meaning in LABELS.items():
        labelled = _instances([p.policy for p in r.policies if p.label == name])
        if labelled:
            out.append(f"{name} ({meaning}): {', '.join(labelled)}.")
    for p in r.policies:
        out += [f"{terminal(p.policy, _NAME)}: {terminal(text, None)}." for text in p.problems]
    return out + _uncounted(r)


_ALONE = (  # stands with figures that would otherwise pass for findings, such as skill 0.00
    "No topology: every CPU is taken as its own core, LLC and node. Columns and seeds then search no CPU, and their "
    "figures say nothing about this machine."
)


def _instances(policies: Sequence[str]) -> list[str]:
    """The instances by name; of one policy several only as their number."""
    by_policy: dict[str, list[str]] = {}
    for instance in policies:
        by_policy.setdefault(instance.partition(":")[0], []).append(instance)
    return [
        terminal(some[0], _NAME) if len(some) == 1 else f"{terminal(policy, _NAME)} ({len(some)} instances)"
        for policy, some in by_policy.items()
    ]


def _inputs(r: Report) -> list[str]:
    by_inputs: dict[str, list[str]] = {}
    for p in r.policies:
        if p.reference or not p.inputs.get("any"):
            continue
        names = ", ".join(name for name, _ in _by_share(p.inputs))
        by_inputs.setdefault(f"{percent(p.inputs['any'])} ({names})", []).append(p.policy)
    told = [f"{', '.join(_instances(policies))} {inputs}" for inputs, policies in by_inputs.items()]
    return [f"Decisions that rest on assumed (inferred or modelled) inputs: {'; '.join(told)}."] if told else []


def _by_share(inputs: Mapping[str, float]) -> list[tuple[str, float]]:
    """Assumed inputs and their shares, the largest first."""
    return sorted(((n, x) for n, x in inputs.items() if n != "any"), key=lambda pair: (-pair[1], pair[0]))


def _sync(r: Report) -> list[str]:
    """What was assumed of WF_SYNC, in the words of --assume."""
    unseen = "WF_SYNC, nr_idle_scan and wakee_flips at the start are in no event:"
    infers = "only the recorded kernel's own column" if r.auto is None else "--assume sync=auto"
    told = {
        "0": f"WF_SYNC is in no event: taken as clear; {infers} infers it per pair of waker and wakee.",
        "1": "WF_SYNC is in no event: taken as set for every wakeup (--assume sync=1).",
        "auto": f"{unseen} inferred from wakeups in other stretches of time, never from the decision's own outcome "
        "(--assume sync=causal: from earlier ones; sync=0: nothing).",
        "causal": f"{unseen} inferred from earlier wakeups (--assume sync=causal).",
    }
    assume = r.run.get("assume")
    text = told.get(str(assume.get("sync"))) if isinstance(assume, dict) else None
    return [text] if text else []


def _machine(r: Report) -> list[str]:
    """What this recording and its machine leave the policies to show."""
    source = r.run.get("hardirq")
    out = [f"Hardirq time: {terminal(str(source), None)}."] if source else []
    return out + [f"{terminal(str(note), None)}." for note in r.run.get("notes") or ()]


def hints(given: object) -> list[str]:
    """What the rules of --hints came to, rule by rule; `given`: the run's word on it, if any."""
    if not isinstance(given, dict):
        return []
    out = [f"Hints of {terminal(str(given['file']), _NAME)}, by rule:"]
    for i, rule in enumerate(given["rules"], 1):
        told = counted(rule["tasks"], "task")
        told += f", {count(rule['inherited'])} more by fork"
        told += f", {count(rule['decisions'])} decisions"
        if not rule["tasks"]:
            told = "applies to no task of this recording"
        out.append(f"  {i}  {' '.join(rule['hints']) or 'none'}: {told}")
    return out


def _energy(r: Report) -> list[str]:
    """Wakeups that energy-aware placement may have decided."""
    told = [f"{terminal(name, _NAME)} {n:,}" for name, n in (r.run.get("by_energy") or {}).items()]
    return [f"Left as observed, because the machine placed by energy: {', '.join(told)} wakeups."] if told else []


def _uncounted(r: Report) -> list[str]:
    rest = [row for row in r.classes if not row["counted"]]
    if not rest:
        return []
    told = ", ".join(
        f"{row['class'] if row['kind'] == 'wake' else row['kind'] + ' ' + row['class']} {count(row['decisions'])}"
        for row in rest
    )
    return [f"Not counted, by class: {told}."]


def _next(steps: Sequence[str]) -> list[str]:
    return ["", *(f"{'next:' if i == 0 else '':<6}{step}" for i, step in enumerate(steps))] if steps else []


def fidelity(machine: Machine, quality: QualityCard, measured: fid.Fidelity) -> str:
    """Agreement as a whole and rule by rule."""
    lines = [*head(machine, quality, measured.decisions), *fidelity_line(measured, None)]
    lines += wrap(
        f"staying on prev alone agrees {share(measured.prev_agreement)}; the kernel moved {count(measured.moved)}, the "
        f"policy {count(measured.policy_moved)}; LLC agreement {share(measured.llc_agreement)}"
    )
    lines += wrap(_ALONE) if machine.llcs is None else []
    inputs = ", ".join(f"{name} {percent(x)}" for name, x in _by_share(measured.inputs_assumed_pct))
    lines += wrap(f"assumed (inferred or modelled) inputs, by decisions that look at them: {inputs or 'none'}")
    b = measured.branches
    grid = [
        Column(("branch",), [terminal(x.branch, _NAME) for x in b], left=True),
        Column(("decisions",), [count(x.decisions) for x in b]),
        Column(("agreement",), [share(x.agreement) for x in b]),
        Column(("moves",), [count(x.moves) for x in b]),
        Column(("the kernel", "chose: same"), [count(x.agreed) for x in b]),
        Column(("prev",), [count(x.recorded_prev) for x in b]),
        Column(("waker",), [count(x.recorded_waker) for x in b]),
        Column(("same LLC",), [count(x.recorded_same_llc) for x in b]),
        Column(("elsewhere",), [count(x.recorded_elsewhere) for x in b]),
    ]
    return "\n".join([*lines, "", *render(grid)]) + "\n"


_VERDICTS = {
    "named": "one column does what was recorded best",
    "ambiguous": "the recording does not tell these columns apart",
    "inconclusive": "there is too little in this recording to tell the columns apart",
}


def identification(machine: Machine, quality: QualityCard, found: Identification) -> str:
    """The set that cannot be told apart, what it was measured on, and the candidates in order."""
    ranking = found.ranking
    lines = head(machine, quality, found.decisions)
    lines += wrap(
        f"{found.verdict}, from {count(found.telling)} wakeups: {_VERDICTS[found.verdict]}: {_short(ranking.columns)}"
    )
    lines += wrap(_ALONE) if machine.llcs is None else []
    lines += _identical(found)
    if found.settings:
        told = "; ".join(f"{f} {' or '.join(values)}" for f, values in found.settings.items())
        lines += wrap(f"features over that set: {told}")
    lines += _recorded_column(found)
    lines += wrap(
        f"Agreement on the {count(found.telling)} wakeups that the kernel ({count(found.moved)}) or some candidate "
        "moves; at all others every candidate agrees."
    )
    lines += wrap(_SYNCS[ranking.sync])
    lines += [
        line
        for r in found.under
        for line in wrap(f"With sync={r.sync}: best {terminal(r.candidates[0].policy, _NAME)}; {_short(r.columns)}.")
    ]
    shown = [c for i, c in enumerate(ranking.candidates) if c.in_set or i < _SHOWN]
    grid = [
        Column(("candidate",), [terminal(c.policy) for c in shown], left=True),
        Column(("others", "alike"), [count(len(c.same)) for c in shown]),
        Column(("agreement",), [share(c.agreement) for c in shown]),
        Column(("bursts", "capped"), [share(c.score) for c in shown]),
        Column(("moved:", "recall"), [_ratio(c.recall) for c in shown]),
        Column(("", "precision"), [_ratio(c.precision) for c in shown]),
        Column(("behind the best", "by points"), [_behind(c) if i else NOTHING for i, c in enumerate(shown)]),
        Column(("in the", "set"), [cell(c.in_set) for c in shown]),
    ]
    lines += ["", *render(grid, spill=True), ""]
    if len(shown) < len(ranking.candidates):
        lines += wrap(f"{count(len(ranking.candidates) - len(shown))} more are further behind (--format json or csv).")
    lines += wrap(
        f"Intervals: {100 * LEVEL:g} %, simultaneous, from {count(RESAMPLES)} draws of {count(found.blocks)} blocks of "
        f"{number(found.block_ns / 1e6)} ms (seed {SEED}); no block counts for more wakeups than the median one. They "
        "hold the sampling error, not what the model gets wrong of its inputs. Of these only WF_SYNC is inferred here: "
        "rewake fidelity, which infers more, agrees more."
    )
    if found.left_out:
        lines += wrap(f"Cannot be replayed on this machine: {', '.join(terminal(p, _NAME) for p in found.left_out)}.")
    return "\n".join(lines) + "\n"


_SHOWN = 12
"""Candidates of which at least so many are listed, whether they are in the set or not."""
_SYNCS = {
    "0": "WF_SYNC is in no event: taken as clear (--assume sync=0).",
    "1": "WF_SYNC is in no event: taken as set for every wakeup (--assume sync=1).",
    "auto": "WF_SYNC is in no event: inferred for each candidate apart, per pair of waker and wakee from wakeups in "
    "other stretches of time.",
}


def _short(columns: Sequence[str], between: str = ", ") -> str:
    """`linux-6.0, 6.1`: the name once."""
    return terminal(between.join(c if i == 0 else c.removeprefix("linux-") for i, c in enumerate(columns)), None)


def _identical(found: Identification) -> list[str]:
    """Columns that decide identically as they are."""
    lines = []
    for c in found.ranking.candidates:
        plain = [column for column in found.ranking.columns if column in c.members]
        if c.in_set and len(plain) > 1:
            lines += wrap(f"identical decisions on this recording: {_short(plain, ' = ')}")
    return lines


def _recorded_column(found: Identification) -> list[str]:
    if found.recorded is None:
        return wrap(f"recorded kernel: {terminal('; '.join(found.recorded_notes), None)}")
    where = "in the set" if found.column_in_set else "not in the set"
    if found.column_in_set and found.instance_in_set is False:
        where = "its column is in the set, its features are not"
    lines = wrap(f"recorded kernel, which took no part in this: {terminal(found.recorded, _NAME)}: {where}")
    return lines + [line for note in found.recorded_notes for line in wrap(f"  {terminal(note, None)}")]


def _behind(c: Candidate) -> str:
    return f"{100 * c.behind:.2f} [{100 * c.low:.2f}, {100 * c.high:.2f}]"


def rows(answer: Rows) -> str:
    """Any query's answer: numbers to the right, names to the left and made harmless."""
    grid = []
    for i, name in enumerate(answer.columns):
        values = [row[i] for row in answer.rows]
        words = any(isinstance(v, str) for v in values)
        grid.append(Column((terminal(name),), [cell(v) for v in values], left=words))
    return "\n".join(render(grid)) + "\n" if grid else ""


_LARGEST = 1e15
"""From there on a double has no two decimals, and in the end 300 digits."""


def cell(value: Any) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.2f}" if 1 <= abs(value) < _LARGEST else f"{value:.4g}"
    return str(value) if isinstance(value, int) else terminal(str(value))


def catalogue(queries: Sequence[Query]) -> str:
    """What `query --list` prints."""
    return "\n".join(defined([(q.name, q.question) for q in queries])) + "\n"


def contract(query: Query) -> str:
    """What one query of the catalogue answers, and in which columns."""
    lines = [query.name, *wrap(query.question), "", *wrap(query.definition), *wrap(f"Units: {query.units}")]
    lines += [f"Needs: {' '.join(query.requires)}", ""]
    return "\n".join([*lines, *defined(list(query.columns.items()))]) + "\n"


def conformance(outcome: Mapping[str, Any], explained: Sequence[str]) -> str:
    """What `policies check` prints: counts by column, scope and the kernel's exit branch, then the failures."""
    found = outcome["rows"]
    grid = [
        Column(("column",), [terminal(r["column"], _NAME) for r in found], left=True),
        Column(("scope",), [terminal(r["scope"], _NAME) for r in found], left=True),
        Column(("exit",), [terminal(r["exit"] or NOTHING, _NAME) for r in found], left=True),
        Column(("passed",), [count(r["passed"]) for r in found]),
        Column(("failed",), [count(r["failed"]) for r in found]),
    ]
    lines = render(grid) if found else []
    for text in explained:
        lines += ["", *(terminal(line, None) for line in text.splitlines())]
    lines += [f"error: {terminal(e['reason'], None)}: {count(e['vectors'])} vectors" for e in outcome["errors"]]
    left = sum(row["vectors"] for row in outcome["left_out"])
    lines.append(
        f"{count(outcome['passed'])} passed, {count(outcome['failed'])} failed, "
        f"{count(sum(e['vectors'] for e in outcome['errors']))} not run" + (f", {count(left)} left out" if left else "")
    )
    return "\n".join(lines) + "\n"
