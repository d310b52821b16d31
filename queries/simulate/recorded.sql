-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: Do the arms that should reproduce the recording reproduce it?
-- Definition: Simulated wakeups of the pinned, null and factual arms (first replica) beside the recorded wakeups of the
--   same counted intervals. Recorded: wakeups of fair tasks that had to wait for a CPU (waited_for_cpu), not
--   censored. Queue wait: sched_wakeup to switch-in where the chosen CPU was not idle. ks: largest distance between the
--   two distribution functions. Percentiles are nearest rank, NULL below 10/(1-q) samples. Moves: by wakeups.
-- Units: ns; per second.
-- Requires: woken arm sim_window decision
-- Columns:
--   policy: arm
--   kind: pinned, null or factual
--   n: simulated wakeups
--   recorded_n: recorded wakeups
--   p50_ns: simulated median latency
--   recorded_p50_ns: recorded
--   p90_ns: simulated 90th percentile
--   recorded_p90_ns: recorded
--   p99_ns: simulated 99th percentile
--   recorded_p99_ns: recorded
--   ks: of the latency
--   wait_n: simulated wakeups onto busy CPUs
--   recorded_wait_n: recorded
--   wait_p50_ns: simulated median queue wait
--   recorded_wait_p50_ns: recorded
--   wait_p90_ns: simulated 90th percentile of the queue wait
--   recorded_wait_p90_ns: recorded
--   wait_p99_ns: simulated 99th percentile
--   recorded_wait_p99_ns: recorded
--   wait_ks: of the queue wait
--   moves_per_s: simulated migrations by wakeups
--   recorded_moves_per_s: recorded
--   cycles_per_s: simulated wake cycles
--   recorded_cycles_per_s: recorded
WITH judged AS (
    SELECT arm, policy, kind FROM arm WHERE kind IN ('pinned', 'null', 'factual') AND replica = 0
),

span AS (
    SELECT
        w.arm,
        w.from_ns,
        w.to_ns
    FROM sim_window AS w JOIN judged ON judged.arm = w.arm
    WHERE w.to_ns > w.from_ns
),

counted AS (
    SELECT
        ts_ns,
        latency_ns,
        CASE WHEN NOT chosen_idle THEN latency_ns - wakeup_ns END AS wait_ns,
        chosen_cpu <> prev_cpu AS moved
    FROM decision
    WHERE waited_for_cpu(kind, class, prio, censored, latency_ns)
),

-- Spans by the parts of time that they touch, each as long as the longest span of the arm: wakeups find theirs by
-- equality, and the join holds none of them.
parts AS (
    SELECT
        arm,
        from_ns,
        to_ns,
        step,
        unnest(range(from_ns // step, (to_ns - 1) // step + 1)) AS part
    FROM span JOIN (SELECT arm, max(to_ns - from_ns) AS step FROM span GROUP BY arm) USING (arm)
),

truth AS (
    SELECT
        parts.arm,
        d.latency_ns,
        d.wait_ns,
        d.moved
    FROM (
        SELECT counted.*, lengths.arm, counted.ts_ns // lengths.step AS part
        FROM counted CROSS JOIN (SELECT DISTINCT arm, step FROM parts) AS lengths
    ) AS d JOIN parts ON parts.arm = d.arm AND parts.part = d.part
    WHERE d.ts_ns >= parts.from_ns AND d.ts_ns < parts.to_ns
),

model AS (
    SELECT
        woken.arm,
        latency_ns,
        CASE WHEN NOT idle_target THEN wait_ns END AS wait_ns
    FROM woken JOIN judged ON judged.arm = woken.arm
    WHERE latency_ns IS NOT NULL
),

both_sides AS (
    SELECT arm, true AS simulated, latency_ns, wait_ns FROM model
    UNION ALL
    SELECT arm, false AS simulated, latency_ns, wait_ns FROM truth
),

measured AS (
    SELECT
        arm,
        simulated,
        unnest(['latency', 'wait']) AS measure,
        unnest([latency_ns, wait_ns]) AS x
    FROM both_sides
),

steps AS (
    SELECT
        arm,
        measure,
        x,
        sum(CASE WHEN simulated THEN 1.0 ELSE 0 END) AS sim,
        sum(CASE WHEN simulated THEN 0 ELSE 1.0 END) AS rec
    FROM measured
    WHERE x IS NOT NULL
    GROUP BY arm, measure, x
),

distance AS (
    SELECT arm, measure, max(abs(sim_sum / nullif(sim_all, 0) - rec_sum / nullif(rec_all, 0))) AS ks
    FROM (
        SELECT
            arm,
            measure,
            sum(sim) OVER upto AS sim_sum,
            sum(rec) OVER upto AS rec_sum,
            sum(sim) OVER (PARTITION BY arm, measure) AS sim_all,
            sum(rec) OVER (PARTITION BY arm, measure) AS rec_all
        FROM steps
        WINDOW upto AS (PARTITION BY arm, measure ORDER BY x)
    )
    GROUP BY arm, measure
),

ranked AS (
    SELECT
        arm,
        simulated,
        count(latency_ns) AS n,
        quantile_disc(latency_ns, [0.5, 0.9, 0.99]) AS q,
        count(wait_ns) AS wait_n,
        quantile_disc(wait_ns, [0.5, 0.9, 0.99]) AS w
    FROM both_sides
    GROUP BY arm, simulated
),

rates AS (
    SELECT
        arm,
        sum(wake_moves) * 1e9 / nullif(sum(to_ns - from_ns), 0) AS moves,
        sum(wakeups) * 1e9 / nullif(sum(to_ns - from_ns), 0) AS cycles,
        sum(to_ns - from_ns) / 1e9 AS seconds
    FROM sim_window
    GROUP BY arm
),

recorded_moves AS (
    SELECT arm, count(*) FILTER (WHERE moved) AS moves FROM truth GROUP BY arm
)

SELECT
    judged.policy,
    judged.kind,
    s.n,
    r.n AS recorded_n,
    CASE WHEN enough(s.n, 0.5) THEN s.q[1] END AS p50_ns,
    CASE WHEN enough(r.n, 0.5) THEN r.q[1] END AS recorded_p50_ns,
    CASE WHEN enough(s.n, 0.9) THEN s.q[2] END AS p90_ns,
    CASE WHEN enough(r.n, 0.9) THEN r.q[2] END AS recorded_p90_ns,
    CASE WHEN enough(s.n, 0.99) THEN s.q[3] END AS p99_ns,
    CASE WHEN enough(r.n, 0.99) THEN r.q[3] END AS recorded_p99_ns,
    distance.ks,
    s.wait_n,
    r.wait_n AS recorded_wait_n,
    CASE WHEN enough(s.wait_n, 0.5) THEN s.w[1] END AS wait_p50_ns,
    CASE WHEN enough(r.wait_n, 0.5) THEN r.w[1] END AS recorded_wait_p50_ns,
    CASE WHEN enough(s.wait_n, 0.9) THEN s.w[2] END AS wait_p90_ns,
    CASE WHEN enough(r.wait_n, 0.9) THEN r.w[2] END AS recorded_wait_p90_ns,
    CASE WHEN enough(s.wait_n, 0.99) THEN s.w[3] END AS wait_p99_ns,
    CASE WHEN enough(r.wait_n, 0.99) THEN r.w[3] END AS recorded_wait_p99_ns,
    wait_distance.ks AS wait_ks,
    rates.moves AS moves_per_s,
    recorded_moves.moves / nullif(rates.seconds, 0) AS recorded_moves_per_s,
    rates.cycles AS cycles_per_s,
    r.n / nullif(rates.seconds, 0) AS recorded_cycles_per_s
FROM judged
LEFT JOIN ranked AS s ON s.arm = judged.arm AND s.simulated
LEFT JOIN ranked AS r ON r.arm = judged.arm AND NOT r.simulated
LEFT JOIN distance ON distance.arm = judged.arm AND distance.measure = 'latency'
LEFT JOIN distance AS wait_distance ON wait_distance.arm = judged.arm AND wait_distance.measure = 'wait'
LEFT JOIN rates ON rates.arm = judged.arm
LEFT JOIN recorded_moves ON recorded_moves.arm = judged.arm
ORDER BY judged.arm
