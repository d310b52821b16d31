-- SPDX-License-Identifier: GPL-2.0-or-later
-- How many wakees does each policy of a run place on CPUs that interrupts keep busy?
-- A tick of a CPU is heavy when hardware interrupts took at least 11.8 % of its 4 ms (HZ=250): that is a load of 11 and
-- more, above the threshold 10 which the interrupt posting computes when most CPUs are quiet. A CPU is heavy when at
-- least a fifth of its ticks are. Hardirq time is what lies between recorded entries and exits, nested ones counted once.
WITH summed AS (
    SELECT
        cpu,
        ts_ns,
        id,
        sum(CASE WHEN entry THEN 1 ELSE -1 END) OVER (PARTITION BY cpu ORDER BY ts_ns, id) AS sum
    FROM irq
),

-- An exit whose entry came before the recording is left out: depth counts from the lowest sum so far.
depths AS (
    SELECT
        cpu,
        ts_ns,
        sum - least(0, min(sum) OVER each_cpu) AS depth,
        lead(ts_ns) OVER each_cpu AS until_ns
    FROM summed
    WINDOW each_cpu AS (PARTITION BY cpu ORDER BY ts_ns, id)
),

span AS (
    SELECT (max(ts_ns) - min(ts_ns)) / 4e6 AS ticks FROM switch
),

ticks AS (
    SELECT cpu, until_ns // 4000000 AS tick, sum(until_ns - ts_ns) AS hardirq_ns
    FROM depths
    WHERE depth > 0
    GROUP BY cpu, tick
),

heavy AS (
    SELECT cpu
    FROM ticks, span
    WHERE hardirq_ns >= 0.118 * 4e6
    GROUP BY cpu
    HAVING count(*) >= 0.2 * any_value(span.ticks)
)

SELECT
    policy,
    count(*) AS decisions,
    count(*) FILTER (WHERE cpu IN (FROM heavy)) AS on_heavy,
    (SELECT coalesce(string_agg(cpu::VARCHAR, ',' ORDER BY cpu), '') FROM heavy) AS heavy_cpus
FROM placed
GROUP BY policy
ORDER BY policy
