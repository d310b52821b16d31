# SPDX-License-Identifier: GPL-2.0-or-later
"""The Python interface: a trace opened, replayed and asked in SQL.

    import rewake
    run = rewake.open("trace.dat").replay(["linux-6.1", "idle-thread-scan"])
    run.sql("SELECT policy, count(*) FILTER (WHERE NOT known) FROM ledger GROUP BY policy").df()

What `sql` and `query` return are DuckDB relations: `.fetchall()`, `.df()` (pandas), `.pl()` (polars),
`.to_arrow_table()`, `.filter(...)`. Errors are those of `rewake.errors`; every one is a RewakeError.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewake import forms, quantity, runs
from rewake.errors import UsageError
from rewake.replay.settings import MOST_THREADS, WHOLE, Settings, flag, plain, whole

if TYPE_CHECKING:
    import duckdb

    from rewake.analysis.quality import QualityCard
    from rewake.analysis.report import Report
    from rewake.analysis.simulated import Simulated


class _Asked(ABC):
    """What can be asked in SQL."""

    @abstractmethod
    def _connect(self) -> duckdb.DuckDBPyConnection:
        """A prepared connection with the views of the form."""

    @cached_property
    def _connections(self) -> dict[int, duckdb.DuckDBPyConnection]:
        return {}

    @property
    def _con(self) -> duckdb.DuckDBPyConnection:
        """One for each thread that asks: DuckDB refuses a second call on one at a time. They stay, for relations need
        theirs after the thread has ended."""
        here = threading.get_ident()
        if here not in self._connections:
            self._connections[here] = self._connect()
        return self._connections[here]

    def __getstate__(self) -> dict[str, Any]:
        """To another process, or into a copy, go the files and no connection to them."""
        return {name: value for name, value in self.__dict__.items() if name != "_connections"}

    def sql(self, text: str, /, **values: Any) -> duckdb.DuckDBPyRelation:
        """The answer to SQL text. Every table of the form is a view (docs/columns.md); `values` are its $parameters.

        UsageError where the text is not one query, or names what is not there. The relation is lazy: what goes wrong
        while it is fetched is an error of DuckDB's own.
        """
        import duckdb

        from rewake.analysis import sql

        sql.require_question(_text("query", text))
        try:
            found = self._con.sql(text, params={name: plain(value) for name, value in values.items()} or None)
        except duckdb.Error as error:
            raise UsageError(f"query: {str(error).splitlines()[0]}") from None
        return found

    def query(self, name: str) -> duckdb.DuckDBPyRelation:
        """The answer to a question of the catalogue, `topic/question` (`rewake query --list`)."""
        from rewake.analysis import sql

        return self.sql(sql.named(self._con, name).sql)

    def table(self, name: str) -> duckdb.DuckDBPyRelation:
        """A table of the form, whole."""
        if _text("name", name) not in forms.TABLES:
            raise UsageError(f"no table {name}; docs/columns.md lists them")
        return self.sql(f'FROM "{name}"')


class Recording(_Asked):
    """What a machine did: an imported trace."""

    def __init__(self, opened: forms.Recording, name: str) -> None:
        self._opened = opened
        self.name = name
        """What tables call it."""

    @property
    def path(self) -> Path:
        """The recording's directory."""
        return self._opened.path

    @property
    def manifest(self) -> dict[str, Any]:
        """Source, kernel, clock, span, events, losses, snapshot, notes, as `manifest.json` has them."""
        return self._opened.manifest

    @cached_property
    def quality(self) -> QualityCard:
        """The quality card: whether figures from this recording may be believed."""
        from rewake.analysis import quality

        return quality.assess(self._opened)

    def replay(
        self,
        policies: Sequence[str] | str = (),
        *,
        sync: str = "auto",
        hints: Path | str | None = None,
        use_probes: bool = True,
        seed: int = 0,
        out: Path | str | None = None,
        force: bool = False,
    ) -> Run:
        """Re-decides every recorded wakeup under each policy, one step at a time (the open loop).

        `policies`: instances in the grammar NAME[@COLUMN][:key=value,...]; none: oracle-idle and every seed. The
        record, the null policy prev and the recorded kernel's column are always with them: no figure can be judged
        without. `sync`: WF_SYNC, which no event carries: "auto" infers it from other wakeups, "causal" from
        earlier ones, "0" and "1" take it as clear or set.
        `hints`: a rules file. `out`: where the run goes; None: the cache. QualityVeto where the quality card refuses
        the recording, unless `force`; UsageError for a policy that does not exist.
        """
        if sync not in ("0", "1", "auto", "causal"):
            raise UsageError(f"sync={sync!r}: '0', '1', 'auto' or 'causal' expected")
        seed = whole("seed", seed, *WHOLE["seed"])
        use_probes, force = flag("use_probes", use_probes), flag("force", force)
        where = None if out is None else _path("out", out).absolute()
        wanted = runs.parse_policies(_names(policies))
        from rewake.replay.hints import load

        rules = None if hints is None else load(_path("hints", hints))
        self.quality.enforce(force)
        own = runs.own_column(self._opened)
        run = runs.make_run(
            self._opened,
            runs.replayed(wanted, own.instance),
            name=self.name,
            out=where,
            seed=seed,
            sync="0" if sync == "auto" and own.instance is None else sync,
            auto=own.instance,
            use_probes=use_probes,
            hints=rules,
            refusal=own.refusal,
            notes=own.notes,
        )
        return Run(run)

    def simulate(
        self,
        policies: Sequence[str] | str = (),
        *,
        windows: str = "1s",
        replicas: int = 1,
        balance: str = "recorded-rate",
        move_cost: float = 1.0,
        scan_cost: int = 0,
        smt: float = 1.0,
        timers: str = "relative",
        sync: str = "auto",
        hints: Path | str | None = None,
        seed: int = 0,
        threads: int = 1,
        out: Path | str | None = None,
        force: bool = False,
    ) -> Simulation:
        """Re-runs the recording with each policy in charge (the closed loop). Modelled throughout.

        The recorded kernel's column, the recorded placement and the null model are always simulated beside the
        policies: what they come to says how far the rest can be trusted. `windows`: their length, "1s" or "250ms";
        `balance`: "recorded-rate", "model" or "off"; `move_cost`, `scan_cost` (ns), `smt`, `timers` ("relative",
        "absolute"), `sync` ("auto", "0", "1": WF_SYNC): as `rewake simulate` has them. `hints`: a rules file for the
        policies that follow one. `out`: where the run goes; None: the cache. QualityVeto where the quality card refuses
        the recording, or more windows diverge than can be answered for, unless `force`; UsageError for what cannot be
        simulated.
        """
        from rewake.analysis import simulated
        from rewake.replay.hints import load

        threads, force = whole("threads", threads, 1, MOST_THREADS), flag("force", force)
        where = None if out is None else _path("out", out).absolute()
        settings = Settings(
            windows_ns=quantity.duration(_text("windows", windows)), replicas=replicas, seed=seed, balance=balance,
            move_factor=move_cost, scan_ns=scan_cost, smt=smt, timers=timers, sync=sync,
        )  # fmt: skip
        wanted = runs.parse_policies(_names(policies))
        rules = None if hints is None else load(_path("hints", hints))
        self.quality.enforce(force)
        auto, specs = runs.simulated_specs(self._opened, wanted)
        run = runs.make_simulation(
            self._opened,
            specs,
            settings,
            name=self.name,
            out=where,
            auto=auto,
            threads=threads,
            hints=rules,
        )
        found = Simulation(run)
        simulated.enforce(found.report, force)
        return found

    def _connect(self) -> duckdb.DuckDBPyConnection:
        from rewake.analysis import sql

        con = self._opened.connect()
        sql.prepare(con)
        return con

    def __repr__(self) -> str:
        from rewake.analysis import notebook

        return notebook.recording_text(self.name, self.manifest, self.quality)

    def _repr_html_(self) -> str:
        from rewake.analysis import notebook

        return notebook.recording_html(self.name, self.manifest, self.quality)


class _Made(_Asked):
    """What was made from a recording."""

    def __init__(self, opened: forms.Run) -> None:
        self._opened = opened

    @property
    def path(self) -> Path:
        """The run's directory."""
        return self._opened.path

    @property
    def manifest(self) -> dict[str, Any]:
        """Policies or arms with their settings, assumptions, seed."""
        return self._opened.manifest

    @cached_property
    def recording(self) -> Recording:
        """What it was made from."""
        found = self._opened.recording
        return Recording(found, str(self.manifest.get("name") or runs.display_name(found.path)))


class Run(_Made):
    """What each policy would have chosen: a ledger per policy instance over a recording."""

    @property
    def policies(self) -> list[str]:
        """Policy instances, in the order in which they were asked for."""
        return self._opened.policies

    @cached_property
    def report(self) -> Report:
        """Quality, fidelity and the figures of every policy; `.plain()` gives them as dicts and lists."""
        return runs.report_of(self._opened, _max_exposure())

    def _connect(self) -> duckdb.DuckDBPyConnection:
        from rewake.analysis import report, sql

        con = self._opened.connect()
        sql.prepare(con, report.branches_of(self.manifest.get("policies") or []))
        return con

    def __repr__(self) -> str:
        from rewake.analysis import table

        return table.report(self.report)

    def _repr_html_(self) -> str:
        from rewake.analysis import notebook

        return notebook.report_html(self.report)


class Simulation(_Made):
    """What the machine would have done with each policy in charge. Modelled."""

    @property
    def policies(self) -> list[str]:
        """Who was in charge: the recorded kernel's column first."""
        return [p["policy"] for p in self.report.in_charge]

    @cached_property
    def report(self) -> Simulated:
        """How far the model reproduces the recording, and the figures of every policy; `.plain()` gives them as dicts
        and lists."""
        return runs.simulation_of(self._opened)

    def _connect(self) -> duckdb.DuckDBPyConnection:
        from rewake.analysis import sql

        con = self._opened.connect()
        sql.prepare(con)
        return con

    def __repr__(self) -> str:
        from rewake.analysis import simulated_table

        return simulated_table.table(self.report)

    def _repr_html_(self) -> str:
        from rewake.analysis import notebook

        return notebook.simulation_html(self.report)


def _names(policies: Sequence[str] | str) -> list[str]:
    if not isinstance(policies, Iterable):
        raise UsageError(f"policies={policies!r}: a name or a list of names expected")
    names = [policies] if isinstance(policies, str) else list(policies)
    if other := [name for name in names if not isinstance(name, str)]:
        raise UsageError(f"policies: {other[0]!r} is no name of one")
    return names


def _text(name: str, value: str) -> str:
    """The argument of that name; UsageError where it is none, and not a TypeError of whatever uses it first."""
    if not isinstance(value, str):
        raise UsageError(f"{name}={value!r}: text expected")
    return value


def _path(name: str, value: Path | str) -> Path:
    """The same of a path. What is opened and made is kept absolute: it is asked later, wherever the session is then."""
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value) or "\0" in str(value):
        raise UsageError(f"{name}={value!r}: a path expected")
    return Path(value)


def _max_exposure() -> float:
    from rewake.analysis.report import DEFAULT_MAX_EXPOSURE

    return DEFAULT_MAX_EXPOSURE


def open(path: Path | str, topology: Path | str | None = None) -> Recording:
    """A recording, or a trace of any format, imported through the cache.

    `topology`: of the machine that was traced, where it does not lie beside the trace. TraceError for what is no trace,
    or a damaged one.
    """
    from rewake.importing import import_trace

    given = _path("path", path)
    if topology is not None:
        _path("topology", topology)
    if os.path.isfile(given / "manifest.json"):  # no error where nothing may be looked at: import_trace tells that
        if topology is not None:
            raise UsageError(f"{given}: a recording has its topology already: give topology with the trace")
        return Recording(forms.Recording(given.absolute()), runs.display_name(given))
    return Recording(import_trace(given, topology), runs.display_name(given))


def open_run(path: Path | str) -> Run | Simulation:
    """A run that `rewake replay -o` or `Recording.replay(out=...)` wrote, or one of `rewake simulate`."""
    run = forms.Run(_path("path", path).absolute())
    return Simulation(run) if run.manifest.get("mode") == "closed" else Run(run)
