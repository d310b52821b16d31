-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: How many tasks and recordings count, and what became of the others?
-- Definition: failed: no replay. refused: by the quality card. no column: no policy stands for the recorded kernel.
--   unfaithful: the skill of that policy is below the limit, or the closed loop misses what was recorded, so figures
--   say little about that machine. counted: the rest. A recording is in several rows where its windows are.
-- Units: tasks; recordings.
-- Requires: shard
-- Columns:
--   standing: counted, refused, unfaithful, no column or failed
--   tasks: tasks
--   recordings: recordings that they are of
SELECT standing, count(*) AS tasks, count(DISTINCT content) AS recordings
FROM fleet_standing
GROUP BY standing
ORDER BY list_position(['counted', 'refused', 'unfaithful', 'no column', 'failed'], standing)
