-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: Which CPUs would have been used?
-- Definition: Modelled (closed loop). Where the simulated wakeups of all windows and replicas went: CPU on whose run
--   queue the task was put last before it ran.
-- Units: count; per cent.
-- Requires: woken arm
-- Columns:
--   policy: policy instance in charge, or what was forced
--   cpu: CPU
--   wakeups: wakeups that went there
--   share_pct: of the policy's wakeups
--   idle_pct: of them, onto an idle CPU
--   arrived: of them, from another CPU
SELECT
    arm.policy,
    woken.cpu,
    count(*) AS wakeups,
    pct(count(*), sum(count(*)) OVER (PARTITION BY arm.policy)) AS share_pct,
    pct(count(*) FILTER (WHERE idle_target), count(*)) AS idle_pct,
    count(*) FILTER (WHERE woken.cpu <> woken.prev_cpu) AS arrived
FROM woken JOIN arm ON arm.arm = woken.arm
GROUP BY arm.policy, woken.cpu
ORDER BY min(arm.arm), woken.cpu
