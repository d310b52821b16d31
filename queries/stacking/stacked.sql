-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: How often would a policy queue the wakee behind its waker, or behind its own earlier pick?
-- Definition: stacked: the chosen CPU is the waker's and something runs there. self_collision: the chosen CPU is
--   still occupied by an earlier pick of the same policy (which the one-step state does not contain). exposed: that
--   policy's own earlier picks would have changed a CPU that it looked at; where this is frequent, one-step figures
--   hide herding.
-- Units: decisions; _per_1k per 1,000 decisions, _pct in per cent of the population.
-- Requires: ledger decision cpu
-- Columns:
--   policy: policy instance
--   decisions: decisions in the population
--   stacked: queued on the busy waker CPU
--   stacked_per_1k: the same per 1,000 decisions
--   self_collision: picks of a CPU that its own earlier pick still occupies
--   self_collision_per_1k: the same per 1,000 decisions
--   exposed: decisions that looked at a CPU which its own picks would have changed
--   exposure_pct: their share
SELECT
    policy,
    total(n) AS decisions,
    tally(n, stacked) AS stacked,
    tally_per_1k(n, stacked) AS stacked_per_1k,
    tally(n, self_collision) AS self_collision,
    tally_per_1k(n, self_collision) AS self_collision_per_1k,
    tally(n, exposed) AS exposed,
    pct(tally(n, exposed), total(n)) AS exposure_pct
FROM tallied
GROUP BY policy
ORDER BY policy
