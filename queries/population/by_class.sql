-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: What became of every wakeup, fork and exec, and which of them do the metrics count?
-- Definition: Decisions by kind and class (docs/metrics.md). Only wakeups of class moved or stayed are the fair
--   class's own placement decisions, and these are counted; everything else is listed here and nowhere silently
--   dropped.
-- Units: decisions; share in per cent of all.
-- Requires: decision
-- Columns:
--   kind: wake, fork or exec
--   class: what became of it
--   counted: whether it belongs to the population of the decision metrics
--   decisions: how many
--   share_pct: share of all decisions
--   censored: of these, the wakee was never seen running
--   low_confidence: of these, the state of a CPU was resynchronised less than 10 ms before
SELECT
    decision_kind_of(kind) AS kind,
    decision_class_of(class) AS class,
    is_fair(class) AND decision_kind_of(kind) = 'wake' AS counted,
    count(*) AS decisions,
    pct(count(*), sum(count(*)) OVER ()) AS share_pct,
    count(*) FILTER (WHERE censored) AS censored,
    count(*) FILTER (WHERE low_confidence) AS low_confidence
FROM decision
GROUP BY decision.kind, decision.class
ORDER BY counted DESC, decisions DESC, decision.kind, decision.class
