# SPDX-License-Identifier: GPL-2.0-or-later
"""What `rewake policies list` and `show` say of a policy, as dicts for JSON and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rewake.analysis import inputs
from rewake.analysis.grid import NOTHING, WIDTH, Column, count, defined, render, wrap
from rewake.analysis.text import terminal

_WITHOUT_VECTORS = {
    "reference": "",
    "mainline": ": no build of that kernel's code was made; by golden examples only",
    "seed": ": no build of that kernel's code was made; by golden examples only",
    "hybrid": ": nothing proves it but its two halves",
    "plugin": " of it; judge it by a kernel's: `rewake policies check FILES --policy PATH --as COLUMN`",
}


def described(about: Mapping[str, Any]) -> dict[str, Any]:
    """The engine's description with the kind (mainline, seed, hybrid, reference, plugin) and the inputs spelled out."""
    found = {"plugin": None, **about}
    if found["plugin"]:
        found["kind"] = "plugin"
    elif about["reference"]:
        found["kind"] = "reference"
    else:
        found["kind"] = "hybrid" if about["hybrid"] else "seed" if about["base"] else "mainline"
    needed = [*([] if about["reference"] else inputs.ALWAYS), *inputs.of(about["inputs"])]
    found["inputs"] = [
        {"name": i.name, "meaning": i.meaning, "trust": inputs.words(i), "how": i.how} for i in needed
    ]  # fmt: skip
    return found


def conformance(outcome: Mapping[str, Any], given: Sequence[str]) -> dict[str, Any]:
    """Passed and failed vectors per scope from a conformance report of one column; `given`: paths that the user named,
    none for those of the source tree."""
    scopes: dict[str, dict[str, int]] = {}
    for row in outcome["rows"]:
        scope = scopes.setdefault(row["scope"], {"passed": 0, "failed": 0})
        scope["passed"] += row["passed"]
        scope["failed"] += row["failed"]
    return {
        "vectors": list(given) or "fixtures/oracle",
        "passed": outcome["passed"],
        "failed": outcome["failed"],
        "not_run": sum(e["vectors"] for e in outcome["errors"]),
        "scopes": [{"scope": name, **figures} for name, figures in scopes.items()],
    }


def listing(found: Sequence[Mapping[str, Any]]) -> str:
    """One line per policy: name, kind, base, date, what it is."""
    grid = [
        Column(("policy",), [p["name"] for p in found], left=True),
        Column(("kind",), [p["kind"] for p in found], left=True),
        Column(("base",), [p["base"] or NOTHING for p in found], left=True),
        Column(("date",), [p["date"] or NOTHING for p in found], left=True),
    ]
    heads = render(grid)
    width = max(len(line) for line in heads) + 2
    summaries = ["", *(terminal(p["summary"], WIDTH - width) for p in found)]
    lines = [f"{head:<{width}}{said}".rstrip() for head, said in zip(heads, summaries, strict=True)]
    lines += ["", *wrap("SEED@COLUMN puts a seed on another kernel, for instance irq-aware@linux-6.12.")]
    return "\n".join(lines) + "\n"


def card(p: Mapping[str, Any]) -> str:
    """Everything about one policy."""
    lines = [p["name"], *wrap(terminal(p["summary"], None)), ""]
    origin = [("kind", p["kind"])]
    if p["plugin"]:
        origin.append(("file", p["plugin"]))
    if p["posting"]:
        origin += [("posting", p["posting"]), ("author", p["author"]), ("date", p["date"])]
    if p["base"]:
        origin.append(("base", f"{p['base']}, read from Linux {p['kernel']}"))
    elif p["kernel"]:
        origin.append(("kernel", f"kernel/sched/fair.c and core.c of Linux {p['kernel']}"))
    lines += defined(origin)
    if p["params"]:
        lines += ["", "parameters, with defaults"]
        lines += defined([(f"  {terminal(q['name'])}={terminal(q['value'])}", q["meaning"]) for q in p["params"]])
    lines += _list("steps, in order", p["steps"], numbered=True)
    if p["inputs"]:
        lines += ["", "inputs"]
        for i in p["inputs"]:
            lines += wrap(f"  {i['name']}: {i['meaning']}. {i['trust'].capitalize()}: {i['how']}", indent="    ")
    lines += _list("quirks, kept as they are", p["quirks"])
    lines += _list("deviations of replay", p["deviations"])
    return "\n".join([*lines, "", *_conformance(p)]) + "\n"


def _list(title: str, items: Sequence[str], *, numbered: bool = False) -> list[str]:
    if not items:
        return []
    lines = ["", title]
    for k, item in enumerate(items, 1):
        mark = f"{k:>2} " if numbered else ""
        lines += wrap(f"  {mark}{terminal(item, None)}", indent="     " if numbered else "    ")
    return lines


def _conformance(p: Mapping[str, Any]) -> list[str]:
    column = p["oracle_column"]
    if column is None:
        return wrap(f"conformance: no vectors exist{_WITHOUT_VECTORS[p['kind']]}")
    found = p["conformance"]
    if found is None:
        return wrap(f"conformance: vectors of column {column}; not run here, run `rewake policies check FILES`")
    named = found["vectors"] if isinstance(found["vectors"], str) else ", ".join(found["vectors"])
    where = terminal(named, None)
    if not found["scopes"] and not found["not_run"]:
        return wrap(f"conformance: {where} holds no vector of column {column}")
    lines = wrap(
        f"conformance: column {column} of {where}: {count(found['passed'])} passed, {count(found['failed'])} failed, "
        f"{count(found['not_run'])} not run"
    )
    grid = [
        Column(("  scope",), [f"  {terminal(s['scope'])}" for s in found["scopes"]], left=True),
        Column(("passed",), [count(s["passed"]) for s in found["scopes"]]),
        Column(("failed",), [count(s["failed"]) for s in found["scopes"]]),
    ]
    return lines + (render(grid) if found["scopes"] else [])
