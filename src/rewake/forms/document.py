# SPDX-License-Identifier: GPL-2.0-or-later
"""docs/columns.md from the declarations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from rewake.forms.tables import (
    DECISION,
    ENUMS,
    EVENT_TABLES,
    FLEET_TABLES,
    INPUTS,
    MACHINE_TABLES,
    OUTCOMES,
    RUN_TABLES,
    SCHEMA_VERSION,
    STORE_TABLES,
    TASK_TABLES,
    Table,
)

_HEAD = f"""\
<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- Generated: python -m rewake.forms > docs/columns.md -->
# Tables and columns

Schema version {SCHEMA_VERSION}. A recording (`NAME.rewake/`) holds the event, machine, task and decision tables, a run
(`NAME.run/`) its ledgers and counts, a store what stays of many runs. All is Parquet (zstd) and opens in any reader.
Tables in parts are directories, `switch/000000.parquet` and so on, one file per million events, in time order; the
others are single files. A table without rows has no file; `manifest.json` lists the rows of each table and part. Absent
is NULL, never a number. Columns ending in `_ns` are nanoseconds. Enumerations are stored as the number in front of the
name.
"""


_VIEWS = """\
In SQL, `ledger` is one view of all policies and has two columns more: `policy`, the instance, and `decision_id` of
`decision`. `branch` (policy, code, name) names the branches. What the shipped questions are made of are views, too:
`fair_wakeup` (the decisions that count), `placeable` (with LLCs and nodes of their CPUs), `placed` (a row per decision
and policy), `tallied` (equal ones of these counted, `n`), `awaited` (latencies), `relocated` (from which CPU to which).
"""


def markdown() -> str:
    """The whole document."""
    groups: tuple[tuple[str, Mapping[str, Table]], ...] = (
        ("Event tables", EVENT_TABLES),
        ("Machine tables", MACHINE_TABLES),
        ("Task tables", TASK_TABLES),
        ("Decisions", {"decision": DECISION}),
        ("Run", RUN_TABLES),
        ("Store", STORE_TABLES),
        ("Fleet", FLEET_TABLES),
    )
    lines = [_HEAD]
    for title, tables in groups:
        lines += [f"## {title}", ""]
        if title == "Run":
            lines += [_VIEWS, ""]
        for table in tables.values():
            lines += [*_table(table), ""]
    lines += ["## Enumerations", ""]
    lines += [f"- `{name}`: " + ", ".join(f"{i} {v}" for i, v in enumerate(values)) for name, values in ENUMS.items()]
    lines += ["", "## Bit sets", ""]
    lines += [_bits("inputs_assumed", INPUTS), _bits("outcome", OUTCOMES)]
    return "\n".join(lines) + "\n"


def _table(table: Table) -> Iterator[str]:
    parts = " In parts." if table.parts and table.name != "ledger" else ""
    where = " One file per policy instance, `POLICY.parquet`." if table.name == "ledger" else ""
    yield f"### {table.name}"
    yield ""
    yield f"{table.meaning}.{parts}{where}"
    yield ""
    yield "| column | type | NULL | unit | meaning |"
    yield "|---|---|---|---|---|"
    for c in table.columns:
        unit = f"`{c.enum}`" if c.enum else c.unit
        yield f"| {c.name} | {c.type} | {'yes' if c.nullable else ''} | {unit} | {_cell(c.meaning)} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _bits(name: str, values: tuple[str, ...]) -> str:
    return f"- `{name}`: " + ", ".join(f"bit {i} {v}" for i, v in enumerate(values))
