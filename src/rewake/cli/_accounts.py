# SPDX-License-Identifier: GPL-2.0-or-later
"""What `fidelity --inputs` and `--budget` add: the input audit and the error budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rewake.errors import UsageError

if TYPE_CHECKING:
    from rewake.analysis.sql import Rows
    from rewake.forms import Recording
    from rewake.replay.hints import Rules
    from rewake.replay.spec import PolicySpec


@dataclass(frozen=True)
class Section:
    """One more answer, in each of the forms."""

    name: str
    table: str
    plain: dict[str, Any]
    rows: Rows


def inputs(recording: Recording, column: PolicySpec) -> Section:
    """The input audit; UsageError for a recording without placement probes."""
    from rewake.analysis import accounts, audit
    from rewake.analysis.sql import Rows
    from rewake.replay import inputs as found

    compared = found.inputs(recording, column)
    if compared is None:
        raise UsageError(
            f"{recording.given}: no placement probes in it, so its inputs cannot be audited: record with the typed "
            "probes rewake:select_in and rewake:select_out on select_task_rq_fair"
        )
    result = audit.compare(str(column), *compared)
    plain = result.plain()
    names = list(plain["inputs"][0]) if plain["inputs"] else ["input"]
    rows = Rows(tuple(names), [tuple(row.values()) for row in plain["inputs"]])
    return Section("inputs", accounts.audit(result), plain, rows)


def budget(
    recording: Recording, column: PolicySpec, *, sync: str, use_probes: bool, hints: Rules | None
) -> Section:  # fmt: skip
    """The error budget."""
    from rewake.analysis import accounts
    from rewake.analysis.budget import settle
    from rewake.analysis.sql import Rows
    from rewake.replay import _engine
    from rewake.replay import inputs as found
    from rewake.replay.order import WINDOW_NS

    account = found.account(recording, column, sync=sync, use_probes=use_probes, hints=hints)
    result = settle(
        str(column),
        *account,
        suspects=_engine.SUSPECTS,
        branches=_engine.BRANCHES,
        window_ns=WINDOW_NS,
        probed=use_probes and recording.rows("probe") > 0,
    )
    plain = result.plain()
    names = tuple(plain["causes"][0])
    return Section("budget", accounts.budget(result), plain, Rows(names, [tuple(c.values()) for c in plain["causes"]]))
