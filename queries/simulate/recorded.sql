-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: Do the arms that should reproduce the recording reproduce it?
-- Definition: Simulated wakeups of the pinned, null and factual arms, of all their replicas together, beside the
--   recorded wakeups of the same counted intervals, once for each replica. Recorded: wakeups of fair tasks that had to
--   wait for a CPU (waited_for_cpu), not censored. Queue wait: sched_wakeup to switch-in where the chosen CPU was not
--   idle. ks: largest distance between the two distribution functions. Percentiles are nearest rank, NULL below
--   10/(1-q) samples. Moves: by wakeups; those by balancing are beside all that were recorded then, of tasks of any
--   class (NULL: the recording has no migrations).
-- Units: ns; per second.
-- Requires: woken arm sim_window decision migrate
-- Columns:
--   policy: arm
--   kind: pinned, null or factual
--   replicas: simulations that these are the wakeups of
--   n: simulated wakeups
--   recorded_n: recorded wakeups, once for each replica
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
--   newidle_per_s: simulated migrations by CPUs that went idle
--   recorded_newidle_per_s: recorded
--   periodic_per_s: simulated migrations by periodic balancing
--   recorded_periodic_per_s: recorded
--   cycles_per_s: simulated wake cycles
--   recorded_cycles_per_s: recorded
WITH judged AS (
    SELECT
        arm,
        min(arm) OVER (PARTITION BY policy, kind) AS subject,
        policy,
        kind
    FROM arm
    WHERE kind IN ('pinned', 'null', 'factual')
),

span AS (
    SELECT
        judged.subject AS arm,
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
        judged.subject AS arm,
        latency_ns,
        CASE WHEN NOT idle_target THEN wait_ns END AS wait_ns
    FROM woken JOIN judged ON judged.arm = woken.arm
    WHERE latency_ns IS NOT NULL
),

-- Whoever has equal values is counted together: what is held does not grow with the wakeups.
cells AS (
    SELECT
        arm,
        simulated,
        latency_ns,
        wait_ns,
        count(*) AS times,
        count(*) FILTER (WHERE moved) AS moves
    FROM (
        SELECT arm, true AS simulated, latency_ns, wait_ns, false AS moved FROM model
        UNION ALL
        SELECT arm, false AS simulated, latency_ns, wait_ns, moved FROM truth
    )
    GROUP BY ALL
),

steps AS (
    SELECT
        arm,
        measure,
        x,
        coalesce(sum(times) FILTER (WHERE simulated), 0) AS sim,
        coalesce(sum(times) FILTER (WHERE NOT simulated), 0) AS rec
    FROM (
        SELECT arm, simulated, 'latency' AS measure, latency_ns AS x, times FROM cells
        UNION ALL
        SELECT arm, simulated, 'wait' AS measure, wait_ns AS x, times FROM cells WHERE wait_ns IS NOT NULL
    )
    GROUP BY arm, measure, x
),

added AS (
    SELECT
        arm,
        measure,
        x,
        sum(sim) OVER upto AS sim_upto,
        sum(rec) OVER upto AS rec_upto,
        sum(sim) OVER (PARTITION BY arm, measure) AS sim_n,
        sum(rec) OVER (PARTITION BY arm, measure) AS rec_n
    FROM steps
    WINDOW upto AS (PARTITION BY arm, measure ORDER BY x)
),

ranked AS (
    SELECT
        arm,
        measure,
        any_value(sim_n)::BIGINT AS sim_n,
        any_value(rec_n)::BIGINT AS rec_n,
        max(abs(sim_upto / nullif(sim_n, 0) - rec_upto / nullif(rec_n, 0))) AS ks,
        min(x) FILTER (WHERE sim_upto >= nearest(0.5, sim_n)) AS sim_p50,
        min(x) FILTER (WHERE sim_upto >= nearest(0.9, sim_n)) AS sim_p90,
        min(x) FILTER (WHERE sim_upto >= nearest(0.99, sim_n)) AS sim_p99,
        min(x) FILTER (WHERE rec_upto >= nearest(0.5, rec_n)) AS rec_p50,
        min(x) FILTER (WHERE rec_upto >= nearest(0.9, rec_n)) AS rec_p90,
        min(x) FILTER (WHERE rec_upto >= nearest(0.99, rec_n)) AS rec_p99
    FROM added
    GROUP BY arm, measure
),

rates AS (
    SELECT
        judged.subject AS arm,
        sum(wake_moves) * 1e9 / nullif(sum(to_ns - from_ns), 0) AS moves,
        sum(newidle_moves) * 1e9 / nullif(sum(to_ns - from_ns), 0) AS newidle,
        sum(periodic_moves) * 1e9 / nullif(sum(to_ns - from_ns), 0) AS periodic,
        sum(wakeups) * 1e9 / nullif(sum(to_ns - from_ns), 0) AS cycles,
        sum(to_ns - from_ns) / 1e9 AS seconds
    FROM sim_window JOIN judged ON judged.arm = sim_window.arm
    GROUP BY judged.subject
),

recorded_moves AS (
    SELECT arm, sum(moves)::BIGINT AS moves FROM cells WHERE NOT simulated GROUP BY arm
),

balanced AS (
    SELECT
        parts.arm,
        count(*) FILTER (WHERE m.cause = 'newidle') AS newidle,
        count(*) FILTER (WHERE m.cause = 'periodic') AS periodic
    FROM (
        SELECT
            migrate.ts_ns,
            migrate_cause_of(migrate.cause) AS cause,
            lengths.arm,
            migrate.ts_ns // lengths.step AS part
        FROM migrate CROSS JOIN (SELECT DISTINCT arm, step FROM parts) AS lengths
        WHERE migrate.orig_cpu <> migrate.dest_cpu
    ) AS m JOIN parts ON parts.arm = m.arm AND parts.part = m.part
    WHERE m.ts_ns >= parts.from_ns AND m.ts_ns < parts.to_ns
    GROUP BY parts.arm
)

SELECT
    judged.policy,
    judged.kind,
    judged.replicas,
    nullif(l.sim_n, 0) AS n,
    nullif(l.rec_n, 0) AS recorded_n,
    CASE WHEN enough(l.sim_n, 0.5) THEN l.sim_p50 END AS p50_ns,
    CASE WHEN enough(l.rec_n, 0.5) THEN l.rec_p50 END AS recorded_p50_ns,
    CASE WHEN enough(l.sim_n, 0.9) THEN l.sim_p90 END AS p90_ns,
    CASE WHEN enough(l.rec_n, 0.9) THEN l.rec_p90 END AS recorded_p90_ns,
    CASE WHEN enough(l.sim_n, 0.99) THEN l.sim_p99 END AS p99_ns,
    CASE WHEN enough(l.rec_n, 0.99) THEN l.rec_p99 END AS recorded_p99_ns,
    l.ks,
    CASE WHEN l.sim_n > 0 THEN coalesce(w.sim_n, 0) END AS wait_n,
    CASE WHEN l.rec_n > 0 THEN coalesce(w.rec_n, 0) END AS recorded_wait_n,
    CASE WHEN enough(w.sim_n, 0.5) THEN w.sim_p50 END AS wait_p50_ns,
    CASE WHEN enough(w.rec_n, 0.5) THEN w.rec_p50 END AS recorded_wait_p50_ns,
    CASE WHEN enough(w.sim_n, 0.9) THEN w.sim_p90 END AS wait_p90_ns,
    CASE WHEN enough(w.rec_n, 0.9) THEN w.rec_p90 END AS recorded_wait_p90_ns,
    CASE WHEN enough(w.sim_n, 0.99) THEN w.sim_p99 END AS wait_p99_ns,
    CASE WHEN enough(w.rec_n, 0.99) THEN w.rec_p99 END AS recorded_wait_p99_ns,
    w.ks AS wait_ks,
    rates.moves AS moves_per_s,
    recorded_moves.moves / nullif(rates.seconds, 0) AS recorded_moves_per_s,
    rates.newidle AS newidle_per_s,
    CASE
        WHEN told.migrations THEN coalesce(balanced.newidle, 0) / nullif(rates.seconds, 0)
    END AS recorded_newidle_per_s,
    rates.periodic AS periodic_per_s,
    CASE
        WHEN told.migrations THEN coalesce(balanced.periodic, 0) / nullif(rates.seconds, 0)
    END AS recorded_periodic_per_s,
    rates.cycles AS cycles_per_s,
    nullif(l.rec_n, 0) / nullif(rates.seconds, 0) AS recorded_cycles_per_s
FROM (SELECT subject AS arm, policy, kind, count(*) AS replicas FROM judged GROUP BY ALL) AS judged
LEFT JOIN ranked AS l ON l.arm = judged.arm AND l.measure = 'latency'
LEFT JOIN ranked AS w ON w.arm = judged.arm AND w.measure = 'wait'
LEFT JOIN rates ON rates.arm = judged.arm
LEFT JOIN recorded_moves ON recorded_moves.arm = judged.arm
LEFT JOIN balanced ON balanced.arm = judged.arm
CROSS JOIN (SELECT count(*) > 0 AS migrations FROM migrate) AS told
ORDER BY judged.arm
