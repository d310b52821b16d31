-- SPDX-License-Identifier: GPL-2.0-or-later
-- A run's ledgers again, cut by the cgroup of the wakee at the decision: every query with one row per policy then
-- answers with one row per policy and cgroup, `policy` being the policy, chr(31) and the cgroup's path. Wakees of an
-- unknown cgroup are left out. `latencies` has the samples of latency/policy, lo and hi, with how often they occur.
CREATE OR REPLACE TEMP TABLE grouped AS
SELECT ledger.* EXCLUDE (policy), ledger.policy || chr(31) || cgroup.path AS policy
FROM ledger
JOIN decision ON decision.decision_id = ledger.decision_id
JOIN (
    SELECT DISTINCT ON (decision.decision_id) decision.decision_id, task_attr.cgroup AS cgroup_id
    FROM decision
    JOIN task_attr ON task_attr.task_id = decision.task
    WHERE task_attr.cgroup IS NOT NULL
        AND coalesce(task_attr.from_ns <= decision.ts_ns, true)
        AND coalesce(decision.ts_ns < task_attr.to_ns, true)
    ORDER BY decision.decision_id, task_attr.from_ns DESC NULLS LAST
) AS owner ON owner.decision_id = ledger.decision_id
JOIN cgroup ON cgroup.cgroup_id = owner.cgroup_id;

CREATE OR REPLACE TEMP VIEW ledger AS FROM grouped;

CREATE OR REPLACE TEMP VIEW latencies AS
SELECT policy, metric, ns, count(*) AS n
FROM (
    SELECT
        policy,
        unnest(['lo', 'hi']) AS metric,
        unnest(CASE WHEN known THEN [latency_ns, latency_ns] ELSE [lo_ns, hi_ns] END) AS ns
    FROM awaited
    WHERE NOT (known AND censored)
)
WHERE ns IS NOT NULL
GROUP BY ALL;
