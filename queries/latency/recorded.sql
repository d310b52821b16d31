-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: How long did woken tasks wait until they ran?
-- Definition: Decision (sched_waking) to the first switch-in of the wakee; on kernels without sched_waking from
--   sched_wakeup, then lat_kind says so. Percentiles are nearest rank and NULL below 10/(1-q) samples. Decisions
--   whose switch-in was never seen are censored: counted, not ranked. Row "decisions": the population of the
--   decision metrics (wakeups of class moved or stayed). Row "all wakeups": every class in which the wakee had to
--   wait for a CPU, which is what benchmarks measure (not self, nor a wakee on its queue that went on running). Then
--   each kind and class alone, but execs, which nobody wakes.
-- Units: ns.
-- Requires: decision waking
-- Columns:
--   population: "decisions", "all wakeups", or kind and class, such as "wake pinned"
--   lat_kind: what the wait starts at, waking or wakeup
--   n: samples ranked
--   censored: decisions without a switch-in
--   p50_ns: median
--   p90_ns: 90th percentile
--   p99_ns: 99th percentile
--   p999_ns: 99.9th percentile
--   min_ns: smallest
--   max_ns: largest
--   biased_from: lowest percentile that censoring may bias (censored > (1-q) n / 10); NULL: none
WITH sample AS (
    SELECT
        kind,
        class,
        is_fair(class) AND kind = code_decision_kind('wake') AS counted,
        kind = code_decision_kind('wake') AND class <> code_decision_class('self')
            AND NOT (class = code_decision_class('bypass_on_rq') AND coalesce(latency_ns, 0) = 0) AS waits,
        CASE WHEN NOT censored THEN latency_ns END AS latency_ns,
        censored OR latency_ns IS NULL AS censored
    FROM decision
    WHERE kind <> code_decision_kind('exec')
),

labelled AS (
    SELECT 'decisions' AS named, NULL AS kind, NULL AS class, latency_ns, censored FROM sample WHERE counted
    UNION ALL
    SELECT 'all wakeups' AS named, NULL AS kind, NULL AS class, latency_ns, censored FROM sample WHERE waits
    UNION ALL
    SELECT NULL AS named, kind, class, latency_ns, censored FROM sample
),

ranked AS (
    SELECT
        coalesce(named, decision_kind_of(kind) || ' ' || decision_class_of(class)) AS population,
        count(latency_ns) AS n,
        count(*) FILTER (WHERE censored) AS censored,
        quantile_disc(latency_ns, [0.5, 0.9, 0.99, 0.999]) AS q,
        min(latency_ns) AS min_ns,
        max(latency_ns) AS max_ns
    FROM labelled
    GROUP BY named, kind, class
)

SELECT
    population,
    CASE WHEN EXISTS (SELECT 1 FROM waking) THEN 'waking' ELSE 'wakeup' END AS lat_kind,
    n,
    censored,
    CASE WHEN enough(n, 0.5) THEN q[1] END AS p50_ns,
    CASE WHEN enough(n, 0.9) THEN q[2] END AS p90_ns,
    CASE WHEN enough(n, 0.99) THEN q[3] END AS p99_ns,
    CASE WHEN enough(n, 0.999) THEN q[4] END AS p999_ns,
    min_ns,
    max_ns,
    biased_from(censored, n) AS biased_from
FROM ranked
ORDER BY population <> 'decisions', population <> 'all wakeups', n DESC, population
