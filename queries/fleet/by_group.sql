-- SPDX-License-Identifier: GPL-2.0-or-later
-- Question: What does each policy do over all recordings, and over those of each machine class, kernel, workload,
--   cgroup and month?
-- Definition: Counts and latency buckets of the shards added up, then rates and percentiles as moves/one_step,
--   idle/missed, stacking/stacked, scan/cost and latency/policy define them; percentiles from buckets, within 1 % of
--   the nearest-rank ones. Tasks that failed, and recordings that the quality card refuses or whose own kernel is not
--   reproduced, are not in it (fleet/standing). `auto` is the column of each recording's own kernel.
-- Units: ns; rates per 1,000 decisions; shares in per cent.
-- Requires: shard
-- Columns:
--   facet: all, machine, kernel, workload, cgroup or month
--   name: which machine class, kernel, ...
--   policy: policy instance
--   reference: a record, a null or an unreachable best
--   recordings: recordings in it
--   decisions: decisions of the population, over their windows and seeds
--   tasks: tasks behind it
--   would_move_per_1k: chosen CPU is not the previous one
--   cross_llc_prev_per_1k: it is not in the LLC of the previous CPU; of decisions with a known topology
--   cross_llc_waker_per_1k: it is not in the LLC of the waker's CPU
--   cross_node_prev_per_1k: it is not in the node of the previous CPU
--   idle_missed_llc_per_1k: it is busy although an allowed CPU of its LLC is idle
--   idle_missed_machine_per_1k: it is busy although an allowed CPU is idle
--   stacked_per_1k: it is the waker's, and something runs there
--   exposure_pct: looked at a CPU that the policy's own earlier picks would have changed
--   self_collision_per_1k: picked a CPU that its own earlier pick still occupies
--   known_pct: chose the recorded CPU
--   assumed_pct: looked at an input that was inferred or modelled
--   scans: decisions of which is known how many CPUs were examined
--   mean_cpus: CPUs that one of them examined
--   ranked: samples of the latency
--   p50_lo_ns: median of the lower ends of the latency
--   p50_hi_ns: median of the upper ends; NULL: unbounded
--   p90_lo_ns: 90th percentile of the lower ends
--   p90_hi_ns: of the upper ends
--   p99_lo_ns: 99th percentile of the lower ends
--   p99_hi_ns: of the upper ends
--   p999_lo_ns: 99.9th percentile of the lower ends
--   p999_hi_ns: of the upper ends
SELECT
    facet,
    name,
    policy,
    reference,
    recordings,
    decisions,
    tasks,
    would_move_per_1k,
    cross_llc_prev_per_1k,
    cross_llc_waker_per_1k,
    cross_node_prev_per_1k,
    idle_missed_llc_per_1k,
    idle_missed_machine_per_1k,
    stacked_per_1k,
    exposure_pct,
    self_collision_per_1k,
    known_pct,
    assumed_pct,
    scans,
    mean_cpus,
    ranked,
    p50_lo_ns,
    p50_hi_ns,
    p90_lo_ns,
    p90_hi_ns,
    p99_lo_ns,
    p99_hi_ns,
    p999_lo_ns,
    p999_hi_ns
FROM fleet_figure
WHERE facet <> 'recording'
ORDER BY facet, name, policy
