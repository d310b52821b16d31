-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: What did this recording measure of that which a closed-loop simulation predicts?
-- Definition: Recorded. Wakeups of fair tasks that had to wait for a CPU (waited_for_cpu), not censored:
--   decision to first switch-in, nearest rank, NULL below 10/(1-q) samples. Queue wait: sched_wakeup to switch-in where
--   the chosen CPU was not idle. Rates are over the span of the decisions.
-- Units: ns; per second.
-- Requires: decision
-- Columns:
--   p50_ns: median latency
--   p90_ns: 90th percentile
--   p99_ns: 99th percentile
--   wait_p90_ns: 90th percentile of the queue wait
--   cycles_per_s: wakeups
--   moves_per_s: wakeups whose chosen CPU is not the previous one
WITH counted AS (
    SELECT
        ts_ns,
        latency_ns,
        CASE WHEN NOT chosen_idle THEN latency_ns - wakeup_ns END AS wait_ns,
        chosen_cpu <> prev_cpu AS moved
    FROM decision
    WHERE waited_for_cpu(kind, class, prio, censored, latency_ns)
),

ranked AS (
    SELECT
        count(*) AS n,
        quantile_disc(latency_ns, [0.5, 0.9, 0.99]) AS q,
        count(wait_ns) AS waits,
        quantile_disc(wait_ns, 0.9) AS wait_p90,
        count(*) FILTER (WHERE moved) AS moves,
        (max(ts_ns) - min(ts_ns)) / 1e9 AS seconds
    FROM counted
)

SELECT
    CASE WHEN enough(n, 0.5) THEN q[1] END AS p50_ns,
    CASE WHEN enough(n, 0.9) THEN q[2] END AS p90_ns,
    CASE WHEN enough(n, 0.99) THEN q[3] END AS p99_ns,
    CASE WHEN enough(waits, 0.9) THEN wait_p90 END AS wait_p90_ns,
    n / nullif(seconds, 0) AS cycles_per_s,
    moves / nullif(seconds, 0) AS moves_per_s
FROM ranked
