-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: On which CPUs were events lost?
-- Definition: Gaps in a CPU's stream. A gap whose size the tracer did not write down is counted, its events are not.
-- Units: gaps and events.
-- Requires: loss
-- Columns:
--   cpu: CPU whose events are missing
--   gaps: gaps in its stream
--   lost: events known to be lost; NULL when no gap has a known size
--   unknown_gaps: gaps of unknown size
SELECT
    cpu,
    count(*) AS gaps,
    sum(lost)::BIGINT AS lost,
    count(*) FILTER (WHERE lost IS NULL) AS unknown_gaps
FROM loss
GROUP BY cpu
ORDER BY cpu
