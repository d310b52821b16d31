# SPDX-License-Identifier: GPL-2.0-or-later
"""The Python interface: a trace opened, replayed and asked in SQL.

    import rewake
    run = rewake.open("trace.dat").replay(["linux-6.1", "idle-thread-scan"])
    run.sql("SELECT policy, count(*) FILTER (WHERE NOT known) FROM ledger GROUP BY policy").df()

What `sql` and `query` return are DuckDB relations: `.fetchall()`, `.df()` (pandas), `.pl()` (polars),
`.to_arrow_table()`, `.filter(...)`. Errors are those of `rewake.errors`; every one is a RewakeError.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewake import forms, runs
from rewake.errors import FidelityError, UsageError

if TYPE_CHECKING:
    import duckdb

    from rewake.analysis.quality import QualityCard
    from rewake.analysis.report import Report


class _Asked:
    """What can be asked in SQL."""

    def _connect(self) -> duckdb.DuckDBPyConnection:
        raise NotImplementedError

    @cached_property
    def _con(self) -> duckdb.DuckDBPyConnection:
        return self._connect()

    def sql(self, text: str, **values: Any) -> duckdb.DuckDBPyRelation:
        """The answer to SQL text. Every table of the form is a view (docs/columns.md); `values` are its $parameters.

        UsageError where the text is no query, or names what is not there.
        """
        import duckdb

        try:
            return self._con.sql(text, params=values or None)
        except duckdb.Error as error:
            raise UsageError(f"query: {str(error).splitlines()[0]}") from None

    def query(self, name: str) -> duckdb.DuckDBPyRelation:
        """The answer to a question of the catalogue, `topic/question` (`rewake query --list`)."""
        from rewake.analysis import sql

        found = sql.catalogue().get(name)
        if found is None:
            raise UsageError(f"no query named {name}; there are {', '.join(sql.catalogue())}")
        return self.sql(found.sql)

    def table(self, name: str) -> duckdb.DuckDBPyRelation:
        """A table of the form, whole."""
        if name not in forms.TABLES:
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
        """Source, kernel, clock, span, events, losses, snapshot, notes: docs/columns.md."""
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
        without. `sync`: WF_SYNC, which no event carries: "auto" infers it, "0" and "1" take it as clear or set.
        `hints`: a rules file. `out`: where the run goes; None: the cache. QualityVeto where the quality card refuses
        the recording, unless `force`; UsageError for a policy that does not exist.
        """
        if sync not in ("0", "1", "auto"):
            raise UsageError(f"sync={sync!r}: '0', '1' or 'auto' expected")
        wanted = runs.parse_policies([policies] if isinstance(policies, str) else list(policies))
        from rewake.replay.hints import load

        rules = None if hints is None else load(Path(hints))
        self.quality.enforce(force)
        auto: str | None = None
        refusal: str | None = None
        notes: tuple[str, ...] = ()
        try:
            column = runs.recorded_column(self._opened, runs.policies())
            auto, notes = column.instance, column.notes
        except FidelityError as error:
            refusal = str(error)
        run = runs.make_run(
            self._opened,
            runs.replayed(wanted, auto),
            name=self.name,
            out=None if out is None else Path(out),
            seed=seed,
            sync="0" if sync == "auto" and auto is None else sync,
            auto=auto,
            use_probes=use_probes,
            hints=rules,
            refusal=refusal,
            notes=notes,
        )
        return Run(run)

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


class Run(_Asked):
    """What each policy would have chosen: a ledger per policy instance over a recording."""

    def __init__(self, opened: forms.Run) -> None:
        self._opened = opened

    @property
    def path(self) -> Path:
        """The run's directory."""
        return self._opened.path

    @property
    def manifest(self) -> dict[str, Any]:
        """Policies with their parameters and labels, assumptions, seed."""
        return self._opened.manifest

    @property
    def policies(self) -> list[str]:
        """Policy instances, in the order in which they were asked for."""
        return self._opened.policies

    @cached_property
    def recording(self) -> Recording:
        """What the run was made from."""
        found = self._opened.recording
        return Recording(found, str(self.manifest.get("name") or runs.display_name(found.path)))

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


def _max_exposure() -> float:
    from rewake.analysis.report import DEFAULT_MAX_EXPOSURE

    return DEFAULT_MAX_EXPOSURE


def open(path: Path | str, topology: Path | str | None = None) -> Recording:
    """A recording, or a trace of any format, imported through the cache.

    `topology`: of the machine that was traced, where it does not lie beside the trace. TraceError for what is no trace,
    or a damaged one.
    """
    from rewake.importing import import_trace

    given = Path(path)
    if (given / "manifest.json").is_file():
        if topology is not None:
            raise UsageError(f"{given}: a recording has its topology already: give topology with the trace")
        return Recording(forms.Recording(given), runs.display_name(given))
    return Recording(import_trace(given, topology), runs.display_name(given))


def open_run(path: Path | str) -> Run:
    """A run that `rewake replay -o` or `Recording.replay(out=...)` wrote."""
    return Run(forms.Run(Path(path)))
