-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: How much do the windows of a simulation differ?
-- Definition: Modelled (closed loop). One row per window and replica: latency of its simulated wakeups, nearest rank,
--   NULL below 10/(1-q) samples, and wake cycles (wakeups that ended a sleep) per second of its counted part.
-- Units: ns; per second.
-- Requires: woken arm sim_window
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
--   p99_ns: 99th percentile
--   cycles_per_s: wake cycles
WITH ranked AS (
    SELECT
        arm,
        window_id,
        count(latency_ns) AS n,
        quantile_disc(latency_ns, [0.5, 0.99]) AS q
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
    CASE WHEN enough(ranked.n, 0.99) THEN q[2] END AS p99_ns,
    w.wakeups * 1e9 / nullif(w.to_ns - w.from_ns, 0) AS cycles_per_s
FROM sim_window AS w
JOIN arm ON arm.arm = w.arm
LEFT JOIN ranked ON ranked.arm = w.arm AND ranked.window_id = w.window_id
ORDER BY w.arm, w.window_id
