# SPDX-License-Identifier: GPL-2.0-or-later
"""What a fleet keeps of one run: counts and latency buckets that add up, as rows of the table `shard`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import duckdb

from rewake.analysis import sql
from rewake.analysis.quality import QualityCard
from rewake.analysis.report import branches_of
from rewake.analysis.simulated import Simulated
from rewake.analysis.summary import machine_line

Row = dict[str, Any]


def facts(manifest: Mapping[str, Any], card: QualityCard) -> Row:
    """What a recording's manifest and its quality card say. Whether there are decisions enough is asked of all windows
    together."""
    machine = manifest["machine"]
    refused = any(check.name != "decisions" for check in card.failed)
    found = card.check("decisions").value
    return {
        "machine": machine_line(machine),
        "cpus": machine["cpus"],
        "llcs": machine["llcs"],
        "nodes": machine["nodes"],
        "kernel": manifest.get("kernel"),
        "span_ns": manifest.get("span_ns"),
        "events": manifest.get("events_total"),
        "lost": manifest.get("lost"),
        "found": None if found is None else int(found),
        "refused": card.line() if refused else None,
    }


def open_loop(con: duckdb.DuckDBPyConnection, run: Mapping[str, Any], edges: Sequence[int]) -> list[Row]:
    """A row per policy, then one per policy and cgroup where there are cgroups. `con` is `Run.connect()`'s, `run` the
    run's manifest, `edges` the largest value of each latency bucket."""
    branches = branches_of(run["policies"])
    sql.prepare(con, branches)
    sql.settle(con)
    found = _counted(con, "SELECT policy, metric, bucket, n FROM bucket WHERE metric IN ('lo', 'hi')")
    about = {str(p["name"]): p for p in run["policies"]}
    rows = [_described(about[name], run.get("auto"), figures) for name, figures in sorted(found.items())]
    if con.execute("SELECT count(*) > 1 FROM cgroup").fetchall()[0][0]:
        rows += _by_cgroup(con, run, edges)
    return rows


def _by_cgroup(con: duckdb.DuckDBPyConnection, run: Mapping[str, Any], edges: Sequence[int]) -> list[Row]:
    """The same from the ledgers cut by cgroup."""
    con.execute(sql.shared("cgroups.sql"))
    policies = [name for (name,) in con.execute("SELECT DISTINCT policy FROM ledger").fetchall()]
    names = branches_of(run["policies"])
    sql.prepare(con, {p: names[p.partition("\x1f")[0]] for p in policies})
    about = {str(p["name"]): p for p in run["policies"]}
    # Each sample into its bucket: the first whose edge it does not exceed; 0 has none.
    bucketed = "SELECT policy, metric, ns, n::BIGINT AS n FROM latencies ORDER BY ALL"
    found = _counted(con, _in_buckets(con, bucketed, edges))
    out = []
    for key, figures in sorted(found.items()):
        policy, _, cgroup = key.partition("\x1f")
        out.append(_described(about[policy], run.get("auto"), figures) | {"cgroup": cgroup})
    return out


def closed_loop(con: duckdb.DuckDBPyConnection, edges: Sequence[int]) -> list[Row]:
    """A row per line of a closed-loop run: who was in charge, and the record and the null model. All modelled."""
    sql.prepare(con)
    sampled = (
        "SELECT policy, unnest(['lo', 'hi']) AS metric, ns, n FROM ("
        "SELECT arm.policy, latency_ns AS ns, count(*) AS n FROM woken JOIN arm ON arm.arm = woken.arm"
        " WHERE latency_ns IS NOT NULL GROUP BY ALL)"
    )
    buckets = _buckets(con, _in_buckets(con, sampled, edges))
    rows = con.execute(_CLOSED).fetchall()
    names = [d[0] for d in con.description or ()]
    out = []
    for values in rows:
        row = dict(zip(names, values, strict=True))
        kind = row["kind"]
        about = {"base": row["policy"], "reference": kind in ("pinned", "null"), "auto": kind == "factual"}
        out.append(row | about | buckets.get(row["policy"], {}))
    return out


_CLOSED = """
WITH wakeup AS (
    SELECT arm.policy, count(*) AS decisions, count(latency_ns) AS ranked, count(*) - count(latency_ns) AS censored
    FROM woken JOIN arm ON arm.arm = woken.arm
    GROUP BY arm.policy
)

SELECT
    arm.policy,
    arm.kind,
    any_value(wakeup.decisions) AS decisions,
    any_value(wakeup.ranked) AS ranked,
    any_value(wakeup.censored) AS censored,
    0 AS no_estimate,
    sum(wake_moves)::BIGINT AS would_move,
    (sum(cross_llc) FILTER (WHERE topology.known))::BIGINT AS cross_llc_prev,
    (sum(cross_node) FILTER (WHERE topology.known))::BIGINT AS cross_node_prev,
    count(*) AS windows,
    count_if(diverged) AS diverged,
    sum(to_ns - from_ns)::BIGINT AS sim_ns,
    sum(cpu_ns)::BIGINT AS cpu_ns
FROM sim_window
JOIN arm ON arm.arm = sim_window.arm
CROSS JOIN (SELECT count(llc) > 0 AS known FROM cpu) AS topology
JOIN wakeup ON wakeup.policy = arm.policy
GROUP BY arm.policy, arm.kind
ORDER BY arm.policy
"""


def missed(found: Simulated) -> str | None:
    """Figures in which a line that should reproduce the recording does not; None: all hold."""
    return "; ".join(f"{c.kind}: {', '.join(c.missed)}" for c in found.checks if c.kind != "null" and c.missed) or None


def _in_buckets(con: duckdb.DuckDBPyConnection, query: str, edges: Sequence[int]) -> str:
    """SQL for (policy, metric, bucket, n) of what `query` answers as (policy, metric, ns, n)."""
    over = [0, *(int(e) for e in edges[:-1])]
    con.execute(
        "CREATE OR REPLACE TEMP TABLE edge AS SELECT unnest(?::INTEGER[]) AS bucket, unnest(?::BIGINT[]) AS over",
        [list(range(len(edges))), over],
    )
    return f"""
        SELECT policy, metric, edge.bucket, sum(n)::BIGINT AS n
        FROM ({query}) AS sample ASOF LEFT JOIN edge ON sample.ns > edge.over
        GROUP BY ALL
    """


def _counted(con: duckdb.DuckDBPyConnection, buckets: str) -> dict[str, Row]:
    """Counts and buckets by policy."""
    found = {row.pop("policy"): row for row in sql.run(con, "population/counts").dicts()}
    for policy, lists in _buckets(con, buckets).items():
        if policy in found:
            found[policy] |= lists
    return found


def _buckets(con: duckdb.DuckDBPyConnection, query: str) -> dict[str, Row]:
    """The buckets that `query` answers as (policy, metric, bucket, n), as lists by policy."""
    found: dict[str, Row] = {}
    for policy, side, bucket, n in con.execute(
        "SELECT policy, metric, list(bucket ORDER BY bucket NULLS FIRST), list(n ORDER BY bucket NULLS FIRST)"
        f" FROM ({query}) GROUP BY ALL"
    ).fetchall():
        found.setdefault(policy, {}).update({f"{side}_bucket": bucket, f"{side}_n": n})
    return found


def _described(policy: Mapping[str, Any], auto: str | None, figures: Row) -> Row:
    name = str(policy["name"])
    return {
        "policy": name,
        "base": str(policy.get("base", name)),
        "reference": bool(policy.get("reference", False)),
        "auto": name == auto,
    } | figures
