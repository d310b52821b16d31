-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: When in the recording does each policy part from the kernel?
-- Definition: Decisions by windows of time. disagreed: another CPU than the recorded one. exposed: the policy's own
--   earlier picks would have changed a CPU that it looked at, so the recorded state is no longer the one it would
--   have met: the drift. Windows are 1, 2 or 5 times a power of ten long and at least 1 ms; the shortest of which
--   there are at most 100, and at most 5,000 rows over all policies. Windows without a decision have no shares.
--   Population: fair wakeups of class moved or stayed that the policy decided.
-- Units: ns; decisions; _pct in per cent of the window's decisions.
-- Requires: ledger decision cpu
-- Columns:
--   policy: policy instance
--   from_ns: start of the window, from the first decision of the population
--   width_ns: length of the windows
--   decisions: decisions in the window
--   disagreed: of these, another CPU than the recorded one
--   disagreed_pct: their share; NULL without decisions
--   exposed: of these, looked at a CPU which the policy's own picks would have changed
--   exposed_pct: their share; NULL without decisions
WITH span AS (
    SELECT min(ts_ns) AS first_ns, max(ts_ns) - min(ts_ns) + 1 AS span_ns FROM fair_wakeup
),

width AS (
    SELECT any_value(span.first_ns) AS first_ns, any_value(span.span_ns) AS span_ns, min(steps.ns) AS ns
    FROM span
    CROSS JOIN (
        SELECT unnest(flatten([[10 ** e, 2 * 10 ** e, 5 * 10 ** e] FOR e IN range(6, 18)]))::BIGINT AS ns
    ) AS steps
    CROSS JOIN (SELECT count(DISTINCT policy) AS policies FROM tallied) AS replayed
    WHERE span.span_ns / steps.ns <= greatest(1, least(100, 5000 // greatest(1, replayed.policies)))
),

-- Once per decision and not once per policy.
timed AS MATERIALIZED (
    SELECT
        fair_wakeup.decision_id,
        fair_wakeup.chosen_cpu,
        ((fair_wakeup.ts_ns - width.first_ns) // width.ns)::INTEGER AS number
    FROM fair_wakeup
    CROSS JOIN width
),

counted AS (
    SELECT
        ledger.policy,
        timed.number,
        count(*) AS decisions,
        count(*) FILTER (WHERE ledger.cpu <> timed.chosen_cpu) AS disagreed,
        count(*) FILTER (WHERE has_outcome(ledger.outcome, 'exposed')) AS exposed
    FROM ledger
    JOIN timed ON timed.decision_id = ledger.decision_id
    WHERE ledger.cpu IS NOT NULL
    GROUP BY ALL
),

places AS (
    SELECT decided.policy, windows.number, windows.ns
    FROM (SELECT DISTINCT policy FROM counted) AS decided
    CROSS JOIN (SELECT ns, unnest(range((span_ns - 1) // ns + 1)) AS number FROM width) AS windows
)

SELECT
    places.policy,
    places.number * places.ns AS from_ns,
    places.ns AS width_ns,
    coalesce(counted.decisions, 0) AS decisions,
    coalesce(counted.disagreed, 0) AS disagreed,
    pct(counted.disagreed, counted.decisions) AS disagreed_pct,
    coalesce(counted.exposed, 0) AS exposed,
    pct(counted.exposed, counted.decisions) AS exposed_pct
FROM places
LEFT JOIN counted ON counted.policy = places.policy AND counted.number = places.number
ORDER BY places.policy, from_ns
