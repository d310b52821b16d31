# SPDX-License-Identifier: GPL-2.0-or-later
"""The report of a run: all that the writers print, from the queries, the manifests and the quality card."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import duckdb

from rewake.analysis import fidelity, metrics, sql
from rewake.analysis.quality import QualityCard
from rewake.errors import FidelityError

DEFAULT_MAX_EXPOSURE = 20.0
"""Per cent of decisions above which one-step figures hide too much of a policy's own herding."""


@dataclass(frozen=True)
class Machine:
    """What was recorded, and on what."""

    recording: str
    kernel: str | None
    cpus: int
    llcs: int | None
    """None without topology."""
    nodes: int | None


@dataclass(frozen=True)
class Report:
    """One run. `fidelity` is None where the recorded kernel has no column; `refusal` then says why."""

    machine: Machine
    quality: QualityCard
    fidelity: fidelity.Fidelity | None
    refusal: str | None
    auto: str | None
    policies: list[metrics.PolicyFigures]
    classes: list[dict[str, Any]]
    migrations: list[dict[str, Any]]
    recorded_latency: list[dict[str, Any]]
    max_exposure: float
    run: dict[str, Any]
    """Seed, assumptions and flags of the run's manifest."""

    @property
    def decisions(self) -> int:
        """Decisions that the metrics count."""
        return sum(row["decisions"] for row in self.classes if row["counted"])

    @property
    def topology(self) -> bool:
        return self.machine.llcs is not None

    def over_exposed(self) -> list[metrics.PolicyFigures]:
        """Policies whose one-step figures hide too much of their own herding."""
        return [p for p in self.policies if (p["exposure_pct"] or 0.0) > self.max_exposure]

    def plain(self) -> dict[str, Any]:
        """As plain data, for the writers."""
        return {
            "recording": asdict(self.machine) | {"decisions": self.decisions},
            "quality": self.quality.as_dict(),
            "fidelity": self.fidelity.plain() if self.fidelity else None,
            "refusal": self.refusal,
            "max_exposure_pct": self.max_exposure,
            "policies": [
                {"policy": p.policy, "base": p.base, "label": p.label, "reference": p.reference}
                | ({"problems": list(p.problems)} if p.label == "plugin" else {})
                | p.figures
                | {"inputs_assumed_pct": p.inputs}
                for p in self.policies
            ],
            "not_counted": [row for row in self.classes if not row["counted"]],
            "counted": [row for row in self.classes if row["counted"]],
            "recorded_migrations": self.migrations,
            "recorded_latency": self.recorded_latency,
            "run": self.run,
        }


def per_policy(r: Report) -> sql.Rows:
    """The figures as one table, a row per policy; its columns do not depend on what the policies decided."""
    figures = [c for name in metrics.PER_POLICY for c in sql.catalogue()[name].columns if c != "policy"]
    figures = list(dict.fromkeys(figures))
    words = ("recording", "kernel", "policy", "base", "label", "reference")
    types = r.policies[0].types if r.policies else {}
    return sql.Rows(
        (*words, *figures, "inputs_assumed_pct"),
        [
            (
                *(r.machine.recording, r.machine.kernel, p.policy, p.base, p.label, p.reference),
                *(p[name] for name in figures),
                p.inputs.get("any", 0.0),
            )
            for p in r.policies
        ],
        (*("VARCHAR",) * 5, "BOOLEAN", *(types.get(name, "DOUBLE") for name in figures), "DOUBLE"),
    )


def machine_of(con: duckdb.DuckDBPyConnection, name: str, kernel: str | None) -> Machine:
    """CPUs, LLCs and nodes of a prepared connection's recording."""
    # An offline CPU has no LLC but itself.
    cpus, llcs, nodes = con.execute(
        "SELECT count(*), count(DISTINCT llc) FILTER (coalesce(online, true)), count(DISTINCT node)"
        " FROM cpu LEFT JOIN (SELECT cpu, arg_min(online, from_ns) AS online FROM cpu_state GROUP BY cpu) USING (cpu)"
    ).fetchall()[0]
    return Machine(name, kernel, cpus, llcs or None, nodes or None)


def branches_of(policies: Sequence[Mapping[str, Any]]) -> dict[str, Sequence[str]]:
    """Names of branch codes by policy instance, from a run manifest's `policies`."""
    return {str(p["name"]): list(p.get("branches", [])) for p in policies}


def build(
    con: duckdb.DuckDBPyConnection,
    manifest: Mapping[str, Any],
    *,
    name: str,
    kernel: str | None,
    quality: QualityCard,
    max_exposure: float = DEFAULT_MAX_EXPOSURE,
) -> Report:
    """Assembles the report of a run: `con` is `Run.connect()`'s, `manifest` the run's, `name` the recording's."""
    policies = list(manifest["policies"])
    sql.prepare(con, branches_of(policies))
    sql.settle(con)
    auto = manifest.get("auto")
    refusals = manifest.get("refusals") or {}
    faithful, refusal = None, refusals.get("auto")
    if auto is not None:
        try:
            faithful = fidelity.measure(con, str(auto), notes=tuple(manifest.get("auto_notes") or ()))
        except FidelityError as error:
            refusal = str(error)
    return Report(
        machine=machine_of(con, name, kernel),
        quality=quality,
        fidelity=faithful,
        refusal=refusal,
        auto=auto,
        policies=metrics.measure(con, policies),
        classes=sql.run(con, "population/by_class").dicts(),
        migrations=sql.run(con, "migrations/by_cause").dicts(),
        recorded_latency=sql.run(con, "latency/recorded").dicts(),
        max_exposure=max_exposure,
        run={key: manifest.get(key) for key in ("seed", "assume", "auto", "sync", "hints", "hardirq", "notes")}
        | {"by_energy": {str(p["name"]): p["by_energy"] for p in policies if p.get("by_energy")}},
    )
