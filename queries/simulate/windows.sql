-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: How much do the windows of a simulation differ?
-- Definition: Modelled (closed loop). One row per window and replica. Latency of its simulated wakeups: nearest rank,
--   NULL below 10/(1-q) samples. Run-queue wait: mean over its wakeups, 0 on the queue of an idle CPU. Wake cycles are
--   wakeups that ended a sleep. Moves are migrations of any cause.
-- Units: ns; per second; per 1,000 wake cycles.
-- Requires: woken arm sim_window cpu
-- Columns:
--   policy: policy instance in charge, or what was forced
--   kind: policy, factual, pinned or null
--   replica: replica
--   window_id: window
--   from_ns: start of the counted part
--   to_ns: its end
--   diverged: it was stopped, as it had left the recording behind
--   n: wakeups ranked
--   p50_ns: median
--   p90_ns: 90th percentile
--   p99_ns: 99th percentile
--   wait_ns: mean run-queue wait
--   cycles: wake cycles
--   cycles_per_s: per second of its counted part
--   moves_per_1k: moves
--   cross_llc_per_1k: moves that left the LLC; NULL, as the next: no topology
--   cross_node_per_1k: moves that left the NUMA node
WITH ranked AS (
    SELECT
        arm,
        window_id,
        count(latency_ns) AS n,
        quantile_disc(latency_ns, [0.5, 0.9, 0.99]) AS q,
        avg(CASE WHEN idle_target THEN 0 ELSE wait_ns END) FILTER (WHERE latency_ns IS NOT NULL) AS wait_ns
    FROM woken
    GROUP BY arm, window_id
)

SELECT
    arm.policy,
    arm.kind,
    arm.replica,
    w.window_id,
    w.from_ns,
    w.to_ns,
    w.diverged,
    coalesce(ranked.n, 0) AS n,
    CASE WHEN enough(ranked.n, 0.5) THEN q[1] END AS p50_ns,
    CASE WHEN enough(ranked.n, 0.9) THEN q[2] END AS p90_ns,
    CASE WHEN enough(ranked.n, 0.99) THEN q[3] END AS p99_ns,
    CASE WHEN enough(ranked.n, 0.5) THEN ranked.wait_ns END AS wait_ns,
    w.wakeups AS cycles,
    w.wakeups * 1e9 / nullif(w.to_ns - w.from_ns, 0) AS cycles_per_s,
    per_1k(
        w.wake_moves + w.fork_moves + w.exec_moves + w.newidle_moves + w.periodic_moves + w.forced_moves, w.wakeups
    ) AS moves_per_1k,
    if(topology.known, per_1k(w.cross_llc, w.wakeups), NULL) AS cross_llc_per_1k,
    if(topology.known, per_1k(w.cross_node, w.wakeups), NULL) AS cross_node_per_1k
FROM sim_window AS w
JOIN arm ON arm.arm = w.arm
CROSS JOIN (SELECT count(llc) > 0 AS known FROM cpu) AS topology
LEFT JOIN ranked ON ranked.arm = w.arm AND ranked.window_id = w.window_id
ORDER BY w.arm, w.window_id
