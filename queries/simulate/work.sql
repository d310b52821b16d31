-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: How much would have been done, and was the machine used while tasks waited?
-- Definition: Modelled (closed loop). Over the counted parts of all windows and replicas. A wake cycle is a wakeup that
--   ended a sleep. Idle while waiting: time in which a task waited although a CPU was idle on which it may run
--   (work-conservation violations of at least 10 us: below is what waking an idle CPU takes; tasks that may not run
--   everywhere are left out). Makespan: of the tasks that ended in a window in the recording, from the start of its
--   counted part until the last has done what it did there and ended, at most as long again as that part is; mean
--   over the windows in which all of them did.
-- Units: per second; per cent of the counted time; ns.
-- Requires: sim_window arm cpu
-- Columns:
--   policy: policy instance in charge, or what was forced
--   windows: windows simulated, over all replicas
--   diverged: of them, those that were stopped
--   diverged_pct: their share
--   cycles_per_s: wake cycles
--   cycles_low_per_s: fewest in a window that was not stopped
--   cycles_high_per_s: most
--   cycles_sd_per_s: standard deviation over the windows that were not stopped
--   busy_cpus: CPUs that fair tasks kept busy
--   preempted_per_s: times that a task had to leave a CPU to another
--   llc_idle_pct: time in which a task waited and a CPU of its LLC was idle; NULL, as the next: no topology
--   llc_over_100us_per_s: such intervals of at least 100 us
--   machine_idle_pct: the same, any CPU of the machine
--   machine_over_100us_per_s: such intervals of at least 100 us
--   throttled_cpus: CPUs on which a task group had somebody to run and was throttled, on average
--   ended_pct: of the tasks that ended in the recording; NULL: none did
--   makespan_ns: as above; NULL: no window in which all of them ended
--   makespan_sd_ns: standard deviation over those windows
WITH each AS (
    SELECT
        arm.policy,
        arm.arm,
        w.*,
        topology.known,
        (to_ns - from_ns) / 1e9 AS seconds
    FROM sim_window AS w
    JOIN arm ON arm.arm = w.arm
    CROSS JOIN (SELECT count(llc) > 0 AS known FROM cpu) AS topology
)

SELECT
    policy,
    count(*) AS windows,
    count(*) FILTER (WHERE diverged) AS diverged,
    pct(count(*) FILTER (WHERE diverged), count(*)) AS diverged_pct,
    sum(wakeups) / nullif(sum(seconds), 0) AS cycles_per_s,
    min(wakeups / seconds) FILTER (WHERE NOT diverged AND seconds > 0) AS cycles_low_per_s,
    max(wakeups / seconds) FILTER (WHERE NOT diverged AND seconds > 0) AS cycles_high_per_s,
    stddev_samp(wakeups / seconds) FILTER (WHERE NOT diverged AND seconds > 0) AS cycles_sd_per_s,
    sum(cpu_ns) / 1e9 / nullif(sum(seconds), 0) AS busy_cpus,
    sum(preemptions) / nullif(sum(seconds), 0) AS preempted_per_s,
    pct(sum(llc_idle_ns) FILTER (WHERE known) / 1e9, sum(seconds)) AS llc_idle_pct,
    sum(llc_over_100us) FILTER (WHERE known) / nullif(sum(seconds), 0) AS llc_over_100us_per_s,
    pct(sum(machine_idle_ns) / 1e9, sum(seconds)) AS machine_idle_pct,
    sum(machine_over_100us) / nullif(sum(seconds), 0) AS machine_over_100us_per_s,
    sum(throttled_ns) / 1e9 / nullif(sum(seconds), 0) AS throttled_cpus,
    pct(sum(ended), sum(ends)) AS ended_pct,
    avg(makespan_ns) FILTER (WHERE NOT diverged) AS makespan_ns,
    stddev_samp(makespan_ns) FILTER (WHERE NOT diverged) AS makespan_sd_ns
FROM each
GROUP BY policy
ORDER BY min(arm)
