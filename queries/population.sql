-- SPDX-License-Identifier: GPL-2.0-or-later
-- The population of every decision metric, once: wakeups that the fair class placed itself (class moved or stayed) and
-- that the policy decided. Forks and execs, for which no policy has a path yet, are a bucket of their own
-- (population/by_class). Needs a run; the population of a bare recording is in the same words, without the policy.
-- A comparison with an unknown LLC or node is NULL, never false.
CREATE OR REPLACE TEMP VIEW placed AS
SELECT
    ledger.policy,
    ledger.decision_id,
    ledger.cpu,
    ledger.branch,
    ledger.cpus_scanned,
    ledger.inputs_assumed,
    ledger.known,
    ledger.lo_ns,
    ledger.hi_ns,
    decision.task,
    decision.waker_cpu,
    decision.prev_cpu,
    decision.chosen_cpu,
    decision.latency_ns,
    decision.censored,
    decision.low_confidence,
    ledger.cpu <> decision.prev_cpu AS moves,
    decision.chosen_cpu <> decision.prev_cpu AS recorded_moves,
    ledger.cpu = decision.chosen_cpu AS agrees,
    at_cpu.llc <> at_prev.llc AS cross_llc_prev,
    at_cpu.llc <> at_waker.llc AS cross_llc_waker,
    at_cpu.node <> at_prev.node AS cross_node_prev,
    at_cpu.node <> at_waker.node AS cross_node_waker,
    at_cpu.llc = at_chosen.llc AS agrees_llc,
    has_outcome(ledger.outcome, 'target_idle') AS target_idle,
    CASE WHEN at_cpu.llc IS NOT NULL THEN has_outcome(ledger.outcome, 'idle_missed_llc') END AS idle_missed_llc,
    has_outcome(ledger.outcome, 'idle_missed_machine') AS idle_missed_machine,
    has_outcome(ledger.outcome, 'stacked') AS stacked,
    has_outcome(ledger.outcome, 'exposed') AS exposed,
    has_outcome(ledger.outcome, 'self_collision') AS self_collision
FROM ledger
JOIN decision ON decision.decision_id = ledger.decision_id
LEFT JOIN cpu AS at_cpu ON at_cpu.cpu = ledger.cpu
LEFT JOIN cpu AS at_prev ON at_prev.cpu = decision.prev_cpu
LEFT JOIN cpu AS at_waker ON at_waker.cpu = decision.waker_cpu
LEFT JOIN cpu AS at_chosen ON at_chosen.cpu = decision.chosen_cpu
WHERE ledger.cpu IS NOT NULL
    AND is_fair(decision.class)
    AND decision_kind_of(decision.kind) = 'wake';
