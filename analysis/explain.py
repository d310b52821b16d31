# SPDX-License-Identifier: GPL-2.0-or-later
"""One decision explained: what was recorded of it, what the kernel saw, and what each policy did with that and why.

`body` puts it together once, for JSON; `table` prints the same as text for a mail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from rewake.analysis import inputs
from rewake.analysis.grid import NOTHING, counted, defined, micros, wrap
from rewake.analysis.report import Machine
from rewake.analysis.text import terminal
from rewake.analysis.topology import cpu_list
from rewake.forms import ENUMS, INPUTS

_NAME = 60

UNDECIDED = {
    "self": "the task woke itself while it was running: nothing was to be placed",
    "bypass_on_rq": "the task was still on a run queue and was only marked runnable there: placement was not asked",
    "maybe_on_cpu": "the task had hardly left its CPU: the kernel may have queued it there without placement (5.8+)",
    "maybe_delayed": "the task may still have been queued (delayed dequeue, 6.12+), which needs no placement",
    "pinned": "the task may use one CPU only: the result is forced, policies only keep their books",
    "rt": "a real-time task: its own class places it, which no policy here replaces",
    "dl": "a deadline task: its own class places it, which no policy here replaces",
    "ext": "a sched_ext task: its own scheduler places it",
    "throttled": "the task's group was throttled: it could not run wherever it was put",
    "core_cookie": "core scheduling chose among CPUs by cookie, which is not modelled",
    "unclosed": "no event tells where the task was put",
    "waker_lost": "the waker is not to be seen in the events (wake list, kernels before 4.3)",
    "observer": "a task of the recording tool itself",
    "unrecorded": "events of CPUs that placement looks at were not captured, or not at that time",
}
"""Why no policy is asked about a decision of these classes."""

_DECISION = """
    WITH named AS (
        SELECT task_id, coalesce(from_ns, -1) AS from_ns, coalesce(to_ns, 9223372036854775807) AS to_ns, comm.name
        FROM task_attr JOIN comm ON comm.id = task_attr.comm
    )
    SELECT d.*, p.tid AS wakee_tid, w.tid AS waker_tid,
        (SELECT any_value(name) FROM named WHERE task_id = d.task AND from_ns <= d.ts_ns AND d.ts_ns < to_ns)
            AS wakee_comm,
        (SELECT any_value(name) FROM named WHERE task_id = d.waker_task AND from_ns <= d.ts_ns AND d.ts_ns < to_ns)
            AS waker_comm
    FROM decision AS d
    LEFT JOIN task AS p ON p.task_id = d.task
    LEFT JOIN task AS w ON w.task_id = d.waker_task
    WHERE decision_id = ?
"""
TABLES = ("decision", "task", "task_attr", "comm", "cpu", "cpu_state")
"""Tables that a connection for decision() needs."""


def next_of(con: duckdb.DuckDBPyConnection, tid: int, at_ns: int) -> int | None:
    """The first decision about a task with that id at or after a time; None: there is none."""
    row = con.execute(
        "SELECT min(decision_id) FROM decision JOIN task ON task_id = task WHERE tid = ? AND ts_ns >= ?", [tid, at_ns]
    ).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def last_of(con: duckdb.DuckDBPyConnection, tid: int) -> int | None:
    """Time of the last decision about a task with that id; None: it has none."""
    row = con.execute("SELECT max(ts_ns) FROM decision JOIN task ON task_id = task WHERE tid = ?", [tid]).fetchone()
    return None if row is None or row[0] is None else int(row[0])


def decision(con: duckdb.DuckDBPyConnection, decision_id: int, first_ns: int | None) -> dict[str, Any]:
    """What was recorded of a decision; `first_ns`: start of the recording."""
    cursor = con.execute(_DECISION, [decision_id])
    names = [d[0] for d in cursor.description or []]
    rows = cursor.fetchall()
    found = dict(zip(names, rows[0], strict=True))
    context = None if found["irq_ctx"] is None else ENUMS["irq_ctx"][found["irq_ctx"]]
    waker = None
    if found["waker_cpu"] is not None:
        idle = found["waker_tid"] == 0
        waker = {
            "cpu": found["waker_cpu"], "tid": found["waker_tid"], "comm": found["waker_comm"], "idle_task": idle,
            "context": context,
        }  # fmt: skip
    return {
        "decision_id": found["decision_id"],
        "ts_ns": found["ts_ns"],
        "since_start_ns": None if first_ns is None else found["ts_ns"] - first_ns,
        "kind": ENUMS["decision_kind"][found["kind"]],
        "class": ENUMS["decision_class"][found["class"]],
        "wakee": {"tid": found["wakee_tid"], "comm": found["wakee_comm"], "prio": found["prio"]},
        "waker": waker,
        **{
            name: found[name]
            for name in (
                "prev_cpu", "chosen_cpu", "chosen_idle", "idle_state", "ran_cpu", "wakeup_ns", "latency_ns", "censored",
                "low_confidence",
            )
        },
    }  # fmt: skip


TURNED = "whether the previous CPU had gone idle is inferred from other wakeups: its event is too close to this one"


def body(
    recorded: Mapping[str, Any],
    told: Mapping[str, Any] | None,
    names: Sequence[str],
    about: Sequence[Mapping[str, Any]],
    *,
    sync: str,
    auto: str | None,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Everything that is said of a decision, for JSON.

    `recorded` is decision()'s, `told` the engine's explanation or None, `names` the policy instances of `told` and
    `about` their descriptions; `sync` the value of --assume; `auto` the instance of the recorded kernel.
    """
    turned = [TURNED] if told is not None and told["turned"] else []
    found: dict[str, Any] = {
        "decision": dict(recorded), "undecided": None, "auto": auto, "assume": {"sync": sync},
        "notes": [*notes, *turned],
    }  # fmt: skip
    if told is None or recorded["class"] == "pinned":
        found["undecided"] = UNDECIDED.get(recorded["class"], "what a policy needs of it was not recorded")
    found["machine"] = None if told is None else _machine(told["machine"])
    found["inputs"] = [] if told is None else _common(told, sync)
    found["policies"] = []
    if told is not None and found["undecided"] is None:
        found["policies"] = [
            _policy(name, p, told, recorded, described, sync)
            for name, p, described in zip(names, told["policies"], about, strict=True)
        ]
    return found


def _machine(view: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Per LLC: who is idle, and how many tasks the others have."""
    idle, soft, online = set(view["idle"]), view["idle_policy_only"], set(view["online"])
    out: list[dict[str, Any]] = []
    for number, span in zip(view["llc_ids"], view["llcs"], strict=True):
        cpus = [c for c in span if c in online]
        if not cpus:
            continue
        cores = [core for core in view["cores"] if core[0] in cpus]
        whole = [core for core in cores if len(core) > 1 and idle.issuperset(core)]
        out.append(
            {
                "llc": number if view["topology_known"] else None,
                "cpus": cpus,
                "idle": [c for c in cpus if c in idle],
                "whole_idle_cores": whole if view["smt"] else None,
                "nr": {c: view["nr"][c] for c in cpus if view["nr"][c] > 0},
                "not_idle_nothing_queued": [c for c in cpus if c not in idle and view["nr"][c] == 0],
                "idle_policy_only": [c for c in cpus if c in soft],
            }
        )
    if view["topology_known"] or not out:
        return out
    merged = out[0]  # every CPU is its own LLC: nothing that a line each would tell
    for row in out[1:]:
        merged["nr"] |= row["nr"]
        for key in ("cpus", "idle", "not_idle_nothing_queued", "idle_policy_only"):
            merged[key] += row[key]
    return [merged]


def _looked(told: Mapping[str, Any], name: str) -> int | None:
    """inputs_assumed of a policy that looked at the input; None: none did."""
    bit = 1 << INPUTS.index(name)
    return next((p["assumed"] for p in told["policies"] if p["looked"] & bit), None)


def _common(told: Mapping[str, Any], sync: str) -> list[dict[str, Any]]:
    """Inputs that are the same for every policy."""
    wakeup = told["wakeup"]
    values = (
        ("sync", f"sync {int(wakeup['sync'])}"),
        ("allowed", f"allowed {wakeup['allowed']} ({_cpus(wakeup['n_allowed'])})"),
    )
    out: list[dict[str, Any]] = []
    for name, value in values:
        assumed = _looked(told, name)
        out.append({"name": name, "value": value, "trust": assumed and inputs.trust(name, assumed, sync)})
        if assumed == 0:
            out[-1]["trust"] = inputs.trust(name, 0, sync)
    return out


def _policy(
    name: str,
    p: Mapping[str, Any],
    told: Mapping[str, Any],
    recorded: Mapping[str, Any],
    about: Mapping[str, Any],
    sync: str,
) -> dict[str, Any]:
    found = {"policy": name, "cpu": p["cpu"], "class_cpu": p["class_cpu"], "branch": p["branch"]}
    found["as_recorded"] = None if p["cpu"] is None else p["cpu"] == recorded["chosen_cpu"]
    found["cpus_scanned"] = p["cpus_scanned"] if p["decided"] else None
    found["inputs_assumed"] = [i.name for i in inputs.of(p["assumed"])]
    if not p["has_path"]:
        found["undecided"] = f"it has no path for a {recorded['kind']} that a recording gives all inputs of"
        return found | {"inputs": [], "steps": []}
    found["undecided"] = None
    found["inputs"] = [
        {"name": i.name, "value": value, "trust": inputs.trust(i.name, p["assumed"], sync)}
        for i in inputs.of(p["looked"])
        if i.name not in ("sync", "allowed")
        for value in (_value(i.name, p, told, about),)
    ]
    steps = [dict(step) for step in p["steps"]]
    if not steps:  # a reference policy is one step
        steps = [{"step": about["summary"], "reasons": [], "decided": True}]
    return found | {"steps": steps}


def _value(name: str, p: Mapping[str, Any], told: Mapping[str, Any], about: Mapping[str, Any]) -> str | None:
    """An input's value in words; None where the steps or the View tell it."""
    wakeup, view = told["wakeup"], told["machine"]
    waker, prev = wakeup["waker_cpu"], wakeup["prev_cpu"]
    match name:
        case "flips" if p["p_flips"] is None:
            return "counts of wakeup buddies"
        case "flips":
            return f"flips before it: waker {p['curr_flips']}, wakee {p['p_flips']}"
        case "recent":
            return f"recent_used_cpu {'unknown, taken as prev' if p['recent'] is None else p['recent']}"
        case "load":
            loads = f"L({waker}) {p['waker_load']}"
            loads += f", L({prev}) {p['prev_load']}" if prev != waker else ""
            return f"{loads}, w(p) {p['p_load']}, w(curr) {p['curr_load']}"
        case "util":
            return f"util of p {wakeup['p_util']}, estimate {wakeup['p_util_est']}"
        case "has_idle_cores":
            on = [f"LLC{llc}" for llc, flag in zip(view["llc_ids"], p["has_idle_cores"], strict=True) if flag]
            return f"has_idle_cores {'of ' + ' '.join(on) if on else 'of no LLC'}"
        case "nr_idle_scan" if any(q["name"] == "SIS_PROP" for q in about["params"]):
            return "bound of the scan (SIS_PROP)"
        case "nr_idle_scan":
            bounds = zip(view["llc_ids"], view["nr_idle_scan"], strict=True)
            return "nr_idle_scan " + " ".join(f"LLC{llc}:{n}" for llc, n in bounds)
        case "cfs_nr":
            return f"cfs_nr({waker}) {view['cfs_nr'][waker]}, cfs_nr({prev}) {view['cfs_nr'][prev]}"
        case "hot_clock":
            age = wakeup["clock_of_prev_ns"] - wakeup["p_slept_at_ns"]
            cost = wakeup["migration_cost_ns"]
            return f"p ran {micros(age)} µs ago by its CPU's clock, migration_cost {micros(cost)} µs"
        case "irq_load" if told["irq"] is not None:
            limit = told["irq"]["threshold"]
            heavy = [str(c) for c, load in enumerate(told["irq"]["load"]) if load > limit]
            return f"interrupt threshold {limit}, above it: {' '.join(heavy) or 'no CPU'}"
    return None


# --- text ---


def table(found: Mapping[str, Any], machine: Machine, quality: str) -> str:
    """The explanation as plain text of at most 100 columns."""
    recorded = found["decision"]
    lines = wrap(
        f"decision {recorded['decision_id']} of {terminal(machine.recording, _NAME)}: {machine.cpus} CPUs, "
        f"{_llcs(machine)}, kernel {terminal(machine.kernel or 'unknown', _NAME)}"
    )
    lines += [*wrap(terminal(quality, None)), "", *_recorded(recorded)]
    if found["undecided"]:
        lines += ["", *wrap(f"nothing was decided: class {recorded['class']}: {found['undecided']}")]
    if found["machine"]:
        lines += ["", "what the kernel saw (reconstructed from the events)", *_view(found["machine"], recorded)]
    common = [f"{i['value']} ({i['trust'] or 'not read'})" for i in found["inputs"]]
    if common and not found["undecided"]:
        lines += ["", *wrap("inputs of all policies: " + "; ".join(terminal(c, None) for c in common))]
    for p in found["policies"]:
        lines += ["", *_policy_lines(p, recorded, found["auto"])]
    if found["notes"]:
        lines += ["", *(line for note in found["notes"] for line in wrap(terminal(note, None)))]
    return "\n".join(lines) + "\n"


def _llcs(machine: Machine) -> str:
    if machine.llcs is None:
        return "topology unknown"
    return counted(machine.llcs, "LLC")


def _seconds(ns: int) -> str:
    return f"{ns // 10**9}.{ns % 10**9:09}"


def _task(task: Mapping[str, Any]) -> str:
    return f"{terminal(task['comm'] or '?', _NAME)}/{NOTHING if task['tid'] is None else task['tid']}"


def _recorded(d: Mapping[str, Any]) -> list[str]:
    since = "" if d["since_start_ns"] is None else f", {d['since_start_ns'] / 1e6:.3f} ms after the start"
    told = [
        ("time", f"{_seconds(d['ts_ns'])} s{since}; {d['kind']}, class {d['class']}"),
        ("wakee", f"{_task(d['wakee'])}, prio {d['wakee']['prio']}, prev CPU {_cpu(d['prev_cpu'])}"),
    ]
    waker = d["waker"]
    if waker is None:
        told.append(("waker", "not to be seen in the events"))
    else:
        who = "the idle task" if waker["idle_task"] else _task(waker)
        where = {None: "context unknown", "task": "in task context"}.get(waker["context"], f"in {waker['context']}")
        told.append(("waker", f"{who} on CPU {waker['cpu']}, {where}"))
    choice = f"CPU {_cpu(d['chosen_cpu'])}"
    if d["chosen_idle"] is not None:
        choice += " (idle" if d["chosen_idle"] else " (not idle"
        choice += f", idle state {d['idle_state']})" if d["idle_state"] is not None else ")"
    choice += f", first ran on CPU {_cpu(d['ran_cpu'])}"
    choice += ", latency unknown" if d["latency_ns"] is None else f", latency {micros(d['latency_ns'])} µs"
    if d["censored"]:
        choice += " (censored: no switch-in was seen)"
    told.append(("kernel chose", choice))
    if d["low_confidence"]:
        told.append(("doubtful", "less than 10 ms before, events contradicted the model of a CPU involved"))
    return defined(told)


def _cpus(n: int) -> str:
    return counted(n, "CPU")


def _cpu(cpu: int | None) -> str:
    return "unknown" if cpu is None else str(cpu)


def _view(machine: Sequence[Mapping[str, Any]], d: Mapping[str, Any]) -> list[str]:
    """One line per LLC, with marks for waker, prev and the kernel's choice."""
    marked = ((d["waker"] or {}).get("cpu"), "w"), (d["prev_cpu"], "p"), (d["chosen_cpu"], "c")

    def cpu(c: int) -> str:
        return f"{c}{''.join(letter for at, letter in marked if at == c)}"

    lines = []
    whole_known = any(row["whole_idle_cores"] is not None for row in machine)
    for row in machine:
        whole = row["whole_idle_cores"] or []
        in_whole = {c for core in whole for c in core}
        idle = ["+".join(map(cpu, core)) for core in whole] + [cpu(c) for c in row["idle"] if c not in in_whole]
        name = "CPUs" if row["llc"] is None else f"LLC{row['llc']}"
        parts = [f"{name} cpu {cpu_list(row['cpus'])}", f"idle: {' '.join(idle) or 'none'}"]
        if whole_known:
            parts[-1] += f" ({counted(len(whole), 'whole core')})"
        parts.append("nr: " + (" ".join(f"{cpu(c)}:{n}" for c, n in row["nr"].items()) or "0 everywhere"))
        if row["not_idle_nothing_queued"]:
            parts.append("waking up: " + " ".join(map(cpu, row["not_idle_nothing_queued"])))
        if row["idle_policy_only"]:
            parts.append("only idle-policy tasks: " + " ".join(map(cpu, row["idle_policy_only"])))
        lines += wrap("  " + "   ".join(parts), indent="      ")
    legend = "w waker CPU, p prev, c the kernel's choice; nr: runnable tasks, the running one included"
    return [*lines, *wrap(f"  {legend}{'; a+b: a whole idle core' if whole_known else ''}", indent="  ")]


def _policy_lines(p: Mapping[str, Any], d: Mapping[str, Any], auto: str | None) -> list[str]:
    name = terminal(p["policy"], _NAME) + (" (the recorded kernel's column)" if p["policy"] == auto else "")
    if p["undecided"]:
        return wrap(f"{name}: not decided: {p['undecided']}")
    verdict = "as recorded" if p["as_recorded"] else f"recorded: CPU {_cpu(d['chosen_cpu'])}"
    lines = wrap(f"{name}: CPU {p['cpu']} by {p['branch']}, {_cpus(p['cpus_scanned'])} examined; {verdict}")
    given = [f"{terminal(i['value'] or i['name'], None)} ({i['trust']})" for i in p["inputs"]]
    if given:
        lines += wrap("  given: " + "; ".join(given), indent="         ")
    open_ = True
    for step in p["steps"]:
        reasons = list(step["reasons"]) or [step["step"]]
        if step["decided"]:
            if open_:
                reasons[-1] += f" -> CPU {p['class_cpu']}"
            elif p["cpu"] != p["class_cpu"]:
                reasons[-1] += f" -> CPU {p['cpu']}"
            open_ = False
        for reason in reasons:
            lines += wrap(f"  {terminal(reason, None)}", indent="      ")
    return lines
