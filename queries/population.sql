-- SPDX-License-Identifier: GPL-2.0-or-later
-- The population of every decision metric, once: wakeups that the fair class placed itself (class moved or stayed) and
-- that the policy decided. Forks and execs, for which no policy has a path yet, are a bucket of their own
-- (population/by_class). Needs a run; the population of a bare recording is in the same words, without the policy.
-- A comparison with an unknown LLC or node is NULL, never false.
CREATE OR REPLACE TEMP VIEW fair_wakeup AS
FROM decision
WHERE is_fair(class) AND kind = code_decision_kind('wake');

-- What does not depend on the policy is looked up here, once per decision and not once per policy.
CREATE OR REPLACE TEMP VIEW placeable AS
SELECT
    decision.decision_id,
    decision.task,
    decision.waker_cpu,
    decision.prev_cpu,
    decision.chosen_cpu,
    decision.latency_ns,
    decision.censored,
    decision.low_confidence,
    decision.chosen_cpu <> decision.prev_cpu AS recorded_moves,
    decision.chosen_cpu = decision.waker_cpu AS recorded_to_waker,
    at_chosen.llc <> at_prev.llc AS recorded_cross_llc,
    at_prev.llc AS prev_llc,
    at_prev.node AS prev_node,
    at_waker.llc AS waker_llc,
    at_waker.node AS waker_node,
    at_chosen.llc AS chosen_llc
FROM fair_wakeup AS decision
LEFT JOIN cpu AS at_prev ON at_prev.cpu = decision.prev_cpu
LEFT JOIN cpu AS at_waker ON at_waker.cpu = decision.waker_cpu
LEFT JOIN cpu AS at_chosen ON at_chosen.cpu = decision.chosen_cpu;

-- One row per decision and policy.
CREATE OR REPLACE TEMP VIEW placed AS
SELECT
    ledger.policy,
    ledger.decision_id,
    ledger.cpu,
    ledger.branch,
    ledger.cpus_scanned,
    ledger.inputs_assumed,
    ledger.outcome,
    ledger.known,
    ledger.lo_ns,
    ledger.hi_ns,
    placeable.task,
    placeable.waker_cpu,
    placeable.prev_cpu,
    placeable.chosen_cpu,
    placeable.latency_ns,
    placeable.censored,
    placeable.low_confidence,
    ledger.cpu <> placeable.prev_cpu AS moves,
    ledger.cpu = placeable.waker_cpu AS to_waker,
    placeable.recorded_moves,
    placeable.recorded_to_waker,
    placeable.recorded_cross_llc,
    ledger.cpu = placeable.chosen_cpu AS agrees,
    at_cpu.llc IS NOT NULL AS llc_known,
    at_cpu.llc <> placeable.prev_llc AS cross_llc_prev,
    at_cpu.llc <> placeable.waker_llc AS cross_llc_waker,
    at_cpu.node <> placeable.prev_node AS cross_node_prev,
    at_cpu.node <> placeable.waker_node AS cross_node_waker,
    at_cpu.llc = placeable.chosen_llc AS agrees_llc
FROM ledger
JOIN placeable ON placeable.decision_id = ledger.decision_id
LEFT JOIN cpu AS at_cpu ON at_cpu.cpu = ledger.cpu
WHERE ledger.cpu IS NOT NULL;

-- The same without the machine: half the work where it does not matter.
CREATE OR REPLACE TEMP VIEW awaited AS
SELECT
    ledger.policy,
    ledger.cpu,
    ledger.outcome,
    ledger.known,
    ledger.lo_ns,
    ledger.hi_ns,
    decision.ts_ns,
    decision.prev_cpu,
    decision.chosen_cpu,
    decision.latency_ns,
    decision.censored
FROM ledger
JOIN fair_wakeup AS decision ON decision.decision_id = ledger.decision_id
WHERE ledger.cpu IS NOT NULL;

-- One row per decision and policy with equal rows counted (`n`): what every figure that is a count is read from, in one
-- pass over the ledgers.
CREATE OR REPLACE TEMP VIEW tallied AS
SELECT
    * EXCLUDE (outcome, llc_known),
    has_outcome(outcome, 'target_idle') AS target_idle,
    CASE WHEN llc_known THEN has_outcome(outcome, 'idle_missed_llc') END AS idle_missed_llc,
    has_outcome(outcome, 'idle_missed_machine') AS idle_missed_machine,
    has_outcome(outcome, 'stacked') AS stacked,
    has_outcome(outcome, 'exposed') AS exposed,
    has_outcome(outcome, 'self_collision') AS self_collision
FROM (
    SELECT
        policy,
        branch,
        cpus_scanned,
        inputs_assumed,
        outcome,
        moves,
        to_waker,
        recorded_moves,
        recorded_to_waker,
        recorded_cross_llc,
        agrees,
        agrees_llc,
        llc_known,
        cross_llc_prev,
        cross_llc_waker,
        cross_node_prev,
        cross_node_waker,
        count(*) AS n
    FROM placed
    GROUP BY ALL
);

-- From which CPU to which, as often as the policy chooses it (`n`) and as the kernel did at the same decisions; stays
-- as well.
CREATE OR REPLACE TEMP VIEW relocated AS
WITH step AS MATERIALIZED (
    SELECT policy, prev_cpu, cpu, chosen_cpu, count(*) AS n FROM awaited GROUP BY ALL
)

SELECT policy, from_cpu, to_cpu, sum(n)::BIGINT AS n, sum(recorded)::BIGINT AS recorded
FROM (
    SELECT policy, prev_cpu AS from_cpu, cpu AS to_cpu, n, 0 AS recorded FROM step
    UNION ALL
    SELECT policy, prev_cpu AS from_cpu, chosen_cpu AS to_cpu, 0 AS n, n AS recorded FROM step
)
GROUP BY ALL;
