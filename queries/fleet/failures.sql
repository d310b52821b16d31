-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: Which tasks failed, and why?
-- Definition: What the shard of a failed task says; the trace is the reason unless the kind is crash, timeout, memory
--   or bug. A name under which another content was done is said to be: nobody knows which of them is there now.
-- Units: ns.
-- Requires: shard
-- Columns:
--   error: kind of failure
--   uri: the trace
--   from_ns: window from its first event; NULL: from its start
--   until_ns: end of the window; NULL: to the end
--   seed: seed
--   message: what failed
--   task: hash of the task
SELECT
    error,
    uri,
    from_ns,
    until_ns,
    seed,
    if(
        EXISTS (
            SELECT 1 FROM fleet_task AS done
            WHERE done.error IS NULL AND done.uri = fleet_task.uri AND done.content <> fleet_task.content
        ),
        message || ' (another trace of this name was done)',
        message
    ) AS message,
    task
FROM fleet_task
WHERE error IS NOT NULL
ORDER BY error, uri, from_ns NULLS FIRST, seed
