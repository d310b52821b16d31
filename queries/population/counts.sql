-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: Which counts stand behind each policy's figures, so that those of several recordings can be added up?
-- Definition: What moves/one_step, idle/missed, stacking/stacked, fidelity/agreement, scan/cost and latency/policy
--   count or take shares of, as counts. Population: fair wakeups of class moved or stayed that the policy decided.
-- Units: decisions; scanned in CPUs. NULL: not known in this recording (no topology).
-- Requires: ledger decision cpu
-- Columns:
--   policy: policy instance
--   decisions: decisions in the population
--   would_move: chosen CPU is not the previous one
--   cross_llc_prev: it is not in the LLC of the previous CPU
--   cross_llc_waker: it is not in the LLC of the waker's CPU
--   cross_node_prev: it is not in the node of the previous CPU
--   cross_node_waker: it is not in the node of the waker's CPU
--   idle_missed_llc: it is busy although an allowed CPU of its LLC is idle
--   idle_missed_machine: it is busy although an allowed CPU is idle
--   stacked: it is the waker's, and something runs there
--   exposed: looked at a CPU that the policy's own earlier picks would have changed
--   self_collision: picked a CPU that its own earlier pick still occupies
--   agreed: it is the recorded one
--   prev_agreed: the recorded one is the previous one
--   moved: wakeups that the kernel moved
--   moved_agreed: of those, the recorded CPU was chosen
--   policy_moved_agreed: of those that the policy moves, the recorded CPU was chosen
--   llc_agreed: it is in the recorded LLC
--   assumed: looked at an input that was inferred or modelled
--   scans: decisions of which is known how many CPUs were examined (not of recorded)
--   scanned: CPUs that they examined
--   ranked: samples of the latency
--   censored: known choices without a recorded switch-in, which are no samples
--   no_estimate: decisions without any estimate of the latency
WITH counted AS (
    SELECT
        policy,
        total(n) AS decisions,
        tally(n, moves) AS would_move,
        tally(n, cross_llc_prev) AS cross_llc_prev,
        tally(n, cross_llc_waker) AS cross_llc_waker,
        tally(n, cross_node_prev) AS cross_node_prev,
        tally(n, cross_node_waker) AS cross_node_waker,
        tally(n, idle_missed_llc) AS idle_missed_llc,
        tally(n, idle_missed_machine) AS idle_missed_machine,
        tally(n, stacked) AS stacked,
        tally(n, exposed) AS exposed,
        tally(n, self_collision) AS self_collision,
        cases(n, agrees) AS agreed,
        cases(n, NOT recorded_moves) AS prev_agreed,
        cases(n, recorded_moves) AS moved,
        cases(n, recorded_moves AND agrees) AS moved_agreed,
        cases(n, moves AND agrees) AS policy_moved_agreed,
        tally(n, agrees_llc) AS llc_agreed,
        cases(n, inputs_assumed > 0) AS assumed,
        cases(n, cpus_scanned IS NOT NULL AND NOT is_recorded(policy)) AS scans,
        coalesce(sum(n * cpus_scanned), 0)::BIGINT AS scanned
    FROM tallied
    GROUP BY policy
),

timed AS (
    SELECT
        policy,
        count(*) FILTER (WHERE NOT (known AND (censored OR latency_ns IS NULL))) AS ranked,
        count(*) FILTER (WHERE known AND (censored OR latency_ns IS NULL)) AS censored,
        count(*) FILTER (WHERE NOT known AND lo_ns IS NULL) AS no_estimate
    FROM awaited
    GROUP BY policy
)

SELECT counted.*, timed.* EXCLUDE (policy)
FROM counted
JOIN timed ON timed.policy = counted.policy
ORDER BY policy
