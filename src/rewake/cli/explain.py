# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake explain`: one decision, what the kernel saw, and what each policy did step by step."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rewake import runs
from rewake.cli import _answers
from rewake.cli._shared import format_option, open_recording, recording_argument, topology_option
from rewake.errors import FidelityError, UsageError

if TYPE_CHECKING:
    import duckdb

    from rewake.forms import Recording
    from rewake.replay.spec import PolicySpec

_TIME = re.compile(r"(\d{1,12})(?:\.(\d{1,9}))?(s|ms|us|ns)?")
_UNITS = {None: 10**9, "s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}


@click.command(short_help="Explain one decision: what was seen, and why each policy chose what it chose.")
@recording_argument
@topology_option
@click.option("--decision", "decision_id", type=int, metavar="ID", help="decision_id of the decision table.")
@click.option(
    "--pid", type=click.IntRange(1), metavar="PID", help="Instead of --decision: a decision about this thread."
)
@click.option(
    "--at",
    metavar="TIME",
    help="With --pid: the first decision at or after TIME: seconds as `trace-cmd report` prints them, or with a unit "
    "(2s, 5ms) counted from the start of the recording. Default: its first.",
)
@click.option(
    "--policy",
    "asked",
    multiple=True,
    metavar="NAME[:key=value,...]",
    help="Policy to explain; repeat it. Default: auto, prev and every seed.",
)
@_answers.ignore_probes_option
@_answers.assume_option
@format_option("table", "json")
def command(
    recording: Path,
    topology: str | None,
    decision_id: int | None,
    pid: int | None,
    at: str | None,
    asked: tuple[str, ...],
    ignore_probes: bool,
    assume: tuple[str, ...],
    format_: str,
) -> None:
    """Explain one decision of REC, a recording or a raw trace, as `rewake replay` makes it.

    The ID is decision_id, as in `rewake query REC "FROM decision"` and `rewake query RUN "FROM ledger"`.
    """
    from rewake.analysis import explain, jsonout, quality, report
    from rewake.replay.explain import explain as run
    from rewake.replay.spec import parse

    _answers.sync_of(assume)
    wanted = runs.parse_policies(asked)
    if plugins := [s for s in wanted if s.is_plugin]:
        raise UsageError(
            f"{plugins[0]}: the steps of a plugin are its own; explain knows only those of the built-in ones"
        )
    if (decision_id is None) == (pid is None):
        raise UsageError("either --decision ID or --pid PID is expected")
    if at is not None and pid is None:
        raise UsageError("--at belongs to --pid")
    opened = open_recording(recording, topology)
    own = runs.own_column(opened)
    if own.refusal is not None and any(s.name == "auto" for s in wanted):
        raise FidelityError(own.refusal)
    auto = own.instance
    notes = own.notes if own.refusal is None else (f"no column of the recorded kernel: {own.refusal}",)
    sync = _answers.sync_of(assume, inferable=auto is not None)
    specs = _specs(wanted, auto, runs.policies())
    con = opened.connect(explain.TABLES)
    try:
        if pid is not None:
            decision_id = _decision_at(con, opened, pid, at)
        assert decision_id is not None
        told = run(
            opened,
            decision_id,
            specs,
            sync=sync,
            auto=None if auto is None else parse(auto)[0],
            use_probes=not ignore_probes,
            progress=_answers.progress("replay"),
        )
        recorded = explain.decision(con, decision_id, opened.manifest.get("first_ns"))
        machine = report.machine_of(con, runs.display_name(recording), opened.manifest.get("kernel"))
    finally:
        con.close()
    found = explain.body(
        recorded,
        told,
        [str(s) for s in specs],
        [runs.policy(s.policy) for s in specs],
        sync=sync,
        auto=auto,
        notes=notes,
    )
    card = quality.assess(opened)
    if format_ == "json":
        _answers.emit(jsonout.dumps(_answers.document("explain", found, opened, card.as_dict())))
    else:
        _answers.emit(explain.table(found, machine, card.line()))


def _specs(wanted: list[PolicySpec], auto: str | None, known: dict[str, dict[str, Any]]) -> list[PolicySpec]:
    """The recorded kernel's column, the null and every seed, or what was asked for with auto resolved; each once."""
    from rewake.replay.spec import PolicySpec, parse

    column = parse(auto) if auto else []
    specs: list[PolicySpec] = []
    for spec in wanted or [
        PolicySpec("auto"),
        PolicySpec("prev"),
        *(PolicySpec(n) for n, p in known.items() if p["base"]),
    ]:
        specs += column if spec.name == "auto" else [spec]
    return list({str(s): s for s in specs}.values())


def _decision_at(con: duckdb.DuckDBPyConnection, recording: Recording, pid: int, at: str | None) -> int:
    from rewake.analysis import explain

    first = int(recording.manifest.get("first_ns") or 0)
    last = explain.last_of(con, pid)
    if last is None:
        raise UsageError(
            f"no decision is about pid {pid}; `rewake query {recording.given} 'FROM task'` lists the tasks"
        )
    at_ns = first if at is None else _nanoseconds(at, first)
    found = explain.next_of(con, pid, at_ns)
    if found is None:
        raise UsageError(
            f"pid {pid} has no decision at or after {at}: its last is at {last // 10**9}.{last % 10**9:09}, "
            f"{(last - first) / 1e6:.6f}ms after the start"
        )
    return found


def _nanoseconds(at: str, first: int) -> int:
    """TIME of --at on the recording's clock. With six decimals, what trace-cmd rounds to that is meant as well."""
    match = _TIME.fullmatch(at)
    if match is None:
        raise UsageError(f"--at {at}: seconds (12.345678) or an offset from the start (2s, 5ms, 300us) expected")
    whole, decimals, unit = match.groups()
    ns = int(Decimal(f"{whole}.{decimals or 0}") * _UNITS[unit])
    if unit is not None:
        return first + ns
    return ns - 500 if decimals and len(decimals) == 6 else ns
