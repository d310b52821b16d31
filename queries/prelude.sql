-- SPDX-License-Identifier: GPL-2.0-or-later
-- What every query may use, run once per connection after the name macros that analysis/sql.py makes from forms.ENUMS:
-- NAME_of(code) and code_NAME('word') per enumeration, has_outcome(bits, 'word'), has_input(bits, 'word'),
-- is_fair(class).

-- Over rows that stand for `n` equal ones: how many there are; of how many is x true, cases 0 and tally NULL where
-- nothing is known, as with LLCs and no topology.
CREATE OR REPLACE TEMP MACRO total(n) AS sum(n)::BIGINT;
CREATE OR REPLACE TEMP MACRO cases(n, x) AS coalesce(sum(n) FILTER (WHERE x), 0)::BIGINT;
CREATE OR REPLACE TEMP MACRO tally(n, x) AS CASE WHEN count(x) > 0 THEN cases(n, x) END;

-- The policy is the record itself, of all tasks or of a cgroup (queries/cgroups.sql).
CREATE OR REPLACE TEMP MACRO is_recorded(policy) AS split_part(policy, chr(31), 1) = 'recorded';

-- Share of whole in per cent, rate per 1,000; NULL when the whole is empty.
CREATE OR REPLACE TEMP MACRO pct(part, whole) AS 100.0 * part / nullif(whole, 0);
CREATE OR REPLACE TEMP MACRO per_1k(part, whole) AS 1000.0 * part / nullif(whole, 0);
-- Agreement with the record beyond that of prev alone, of what is left to agree with; NULL where nothing is. As
-- analysis/budget.py has it.
CREATE OR REPLACE TEMP MACRO skill(agreed, prev_agreed, decisions) AS
    (agreed - prev_agreed) / nullif(decisions - prev_agreed, 0);
-- Over such rows: in how many of 1,000 x is true, of those of which it is known.
CREATE OR REPLACE TEMP MACRO tally_per_1k(n, x) AS per_1k(cases(n, x), sum(n) FILTER (WHERE x IS NOT NULL));

-- Wakeups of fair tasks that had to wait for a CPU, and of which the wait is known. Of those that did not come to
-- placement (bypass_on_rq) the wakee of some went on running; all others sleep: they were about to, or were delayed on
-- their queue. Without probes most of these are maybe_on_cpu and maybe_delayed.
CREATE OR REPLACE TEMP MACRO waited_for_cpu(kind, class, prio, censored, latency_ns) AS
    kind = code_decision_kind('wake') AND NOT censored AND latency_ns IS NOT NULL AND prio >= 100
    AND (class IN (
        code_decision_class('moved'), code_decision_class('stayed'), code_decision_class('pinned'),
        code_decision_class('maybe_on_cpu'), code_decision_class('maybe_delayed')
    ) OR (class = code_decision_class('bypass_on_rq') AND latency_ns > 0));

-- The value that stands for a bucket (replay/engine/buckets.hpp): at most 1 % from all that it holds, and no more than a
-- BIGINT holds. NULL is the value 0.
CREATE OR REPLACE TEMP MACRO bucket_ns(bucket) AS
    CASE WHEN bucket IS NULL THEN 0
        ELSE least(round(0.99 * pow(101.0 / 99.0, bucket)), 9223372036854774784)::BIGINT END;

-- A percentile needs ten samples beyond it: n >= 10 / (1 - q). Decimal arithmetic, so exact.
CREATE OR REPLACE TEMP MACRO enough(n, q) AS n * (1 - q) >= 10;

-- Where the curves of a distribution have their points: closer the nearer the tail is.
CREATE OR REPLACE TEMP MACRO curve_quantiles() AS [
    0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.84, 0.87, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97,
    0.975, 0.98, 0.984, 0.987, 0.99, 0.992, 0.994, 0.995, 0.996, 0.997, 0.9975, 0.998, 0.9984, 0.9987, 0.999,
    0.9992, 0.9994, 0.9995, 0.9996, 0.9997, 0.9998, 0.9999, 0.99995, 0.99998, 0.99999
];

-- Place of percentile q among n values in order, the first is 1: nearest rank, as quantile_disc has it. That one holds
-- all values at once; where they may be many, counts of equal ones are added up to this place, which DuckDB may spill.
CREATE OR REPLACE TEMP MACRO nearest(q, n) AS greatest(ceil(q * n::BIGINT), 1)::BIGINT;

-- Lowest of the four published percentiles that censoring may bias: censored > (1 - q) * n / 10. NULL: none.
CREATE OR REPLACE TEMP MACRO biased_from(censored, n) AS CAST(CASE
    WHEN censored * 10 > n * 0.5 THEN 50.0
    WHEN censored * 10 > n * 0.1 THEN 90.0
    WHEN censored * 10 > n * 0.01 THEN 99.0
    WHEN censored * 10 > n * 0.001 THEN 99.9
END AS DOUBLE);
