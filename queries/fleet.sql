-- SPDX-License-Identifier: GPL-2.0-or-later
-- The shards of a fleet store, once: which recordings count, and the figures of every group of them. The unit is the
-- recording: its windows and seeds are added up first.
-- Variables: fleet_force (count what the quality card refuses), fleet_min_skill (NULL: any skill will do),
-- fleet_min_decisions (of all windows of a recording together; NULL: any number).

CREATE OR REPLACE TEMP TABLE fleet_task AS
SELECT DISTINCT ON (task)
    task, uri, content, from_ns, until_ns, seed, workload, made, machine, cpus, llcs, nodes, kernel, span_ns, events,
    lost, found, mode, refused, no_column, missed, error, message
FROM shard
ORDER BY task;

-- Windows that are seeds of each other are one.
CREATE OR REPLACE TEMP TABLE fleet_enough AS
SELECT content, sum(found) >= getvariable('fleet_min_decisions') AS enough
FROM (SELECT content, from_ns, until_ns, min(found) AS found FROM fleet_task GROUP BY ALL)
GROUP BY content;

-- How well the recorded kernel's own column reproduces a recording (fidelity/agreement), windows and seeds together.
CREATE OR REPLACE TEMP TABLE fleet_fidelity AS
SELECT
    content,
    sum(decisions)::BIGINT AS decisions,
    sum(agreed) / sum(decisions) AS agreement,
    sum(prev_agreed) / sum(decisions) AS prev_agreement,
    skill(sum(agreed), sum(prev_agreed), sum(decisions)) AS skill
FROM shard
WHERE auto AND cgroup IS NULL AND (refused IS NULL OR coalesce(getvariable('fleet_force'), false))
GROUP BY content;

-- What becomes of a task: failed; refused by the quality card; no column stands for its kernel; that column's skill is
-- too low (a recording in which nothing but prev was chosen has none: then it must agree everywhere), or the model of
-- the closed loop misses the recording; counted.
CREATE OR REPLACE TEMP TABLE fleet_standing AS
SELECT
    fleet_task.task,
    fleet_task.content,
    CASE
        WHEN fleet_task.error IS NOT NULL THEN 'failed'
        WHEN fleet_task.refused IS NOT NULL AND NOT coalesce(getvariable('fleet_force'), false) THEN 'refused'
        WHEN NOT fleet_enough.enough AND NOT coalesce(getvariable('fleet_force'), false) THEN 'refused'
        WHEN getvariable('fleet_min_skill') IS NULL THEN 'counted'
        WHEN fleet_task.no_column IS NOT NULL THEN 'no column'
        WHEN fleet_task.mode = 'closed' THEN if(fleet_task.missed IS NULL, 'counted', 'unfaithful')
        WHEN fleet_fidelity.agreement IS NULL THEN 'no column'
        WHEN fleet_fidelity.skill < getvariable('fleet_min_skill') THEN 'unfaithful'
        WHEN fleet_fidelity.skill IS NULL AND fleet_fidelity.agreement < 1 THEN 'unfaithful'
        ELSE 'counted'
    END AS standing
FROM fleet_task
JOIN fleet_enough ON fleet_enough.content = fleet_task.content
LEFT JOIN fleet_fidelity ON fleet_fidelity.content = fleet_task.content;

-- The column of each recording's own kernel is also the policy `auto`, whatever its name.
-- What has two names, a copy or a link, counts once.
CREATE OR REPLACE TEMP VIEW fleet_row AS
WITH once AS (
    SELECT min(standing.task) AS task
    FROM fleet_standing AS standing
    JOIN fleet_task ON fleet_task.task = standing.task
    WHERE standing.standing = 'counted'
    GROUP BY fleet_task.content, fleet_task.from_ns, fleet_task.until_ns, fleet_task.seed
),

counted AS (
    FROM shard SEMI JOIN once ON once.task = shard.task
)

SELECT * FROM counted
UNION ALL
SELECT * REPLACE ('auto' AS policy) FROM counted WHERE auto;

-- Sums per recording, policy and cgroup (NULL: all tasks).
CREATE OR REPLACE TEMP TABLE fleet_count AS
SELECT
    content,
    policy,
    cgroup,
    count(*) AS tasks,
    bool_or(coalesce(reference, false)) AS reference,
    sum(decisions)::BIGINT AS decisions,
    sum(would_move)::BIGINT AS would_move,
    sum(cross_llc_prev)::BIGINT AS cross_llc_prev,
    sum(cross_llc_waker)::BIGINT AS cross_llc_waker,
    sum(cross_node_prev)::BIGINT AS cross_node_prev,
    sum(idle_missed_llc)::BIGINT AS idle_missed_llc,
    sum(idle_missed_machine)::BIGINT AS idle_missed_machine,
    sum(stacked)::BIGINT AS stacked,
    sum(exposed)::BIGINT AS exposed,
    sum(self_collision)::BIGINT AS self_collision,
    sum(agreed)::BIGINT AS agreed,
    sum(assumed)::BIGINT AS assumed,
    sum(scans)::BIGINT AS scans,
    sum(scanned)::BIGINT AS scanned,
    sum(ranked)::BIGINT AS ranked,
    sum(ranked) / count(DISTINCT seed) AS samples,
    sum(no_estimate)::BIGINT AS no_estimate
FROM fleet_row
GROUP BY ALL;

-- Latencies per recording, policy and cgroup: the value that stands for a bucket is at most 1 % from all that it holds;
-- NULL is the value 0, and so is what has no estimate at its lower end. No value is beyond a BIGINT.
CREATE OR REPLACE TEMP TABLE fleet_latency AS
SELECT
    content,
    policy,
    cgroup,
    side,
    bucket_ns(bucket) AS ns,
    sum(n)::BIGINT AS n
FROM (
    SELECT content, policy, cgroup, 'lo' AS side, unnest(lo_bucket) AS bucket, unnest(lo_n) AS n FROM fleet_row
    UNION ALL
    SELECT content, policy, cgroup, 'hi' AS side, unnest(hi_bucket) AS bucket, unnest(hi_n) AS n FROM fleet_row
    UNION ALL
    SELECT content, policy, cgroup, 'lo' AS side, NULL AS bucket, no_estimate AS n FROM fleet_row WHERE no_estimate > 0
)
GROUP BY ALL;

-- One row per recording: what it is. Its windows agree on all of this but the time; a broken copy has another name.
CREATE OR REPLACE TEMP TABLE fleet_recording AS
SELECT
    content,
    coalesce(min(uri) FILTER (WHERE error IS NULL), min(uri)) AS uri,
    coalesce(min(workload) FILTER (WHERE error IS NULL), min(workload)) AS workload,
    coalesce(min(machine) FILTER (WHERE error IS NULL), min(machine)) AS machine,
    coalesce(min(kernel) FILTER (WHERE error IS NULL), min(kernel)) AS kernel,
    coalesce(min(made) FILTER (WHERE error IS NULL), min(made)) AS made,
    count(*) AS tasks
FROM fleet_task
GROUP BY content;

-- Every recording is in these groups; a cgroup has rows of its own.
CREATE OR REPLACE TEMP VIEW fleet_member AS
SELECT content, 'all' AS facet, 'all' AS name FROM fleet_recording
UNION ALL
SELECT content, 'machine', coalesce(machine, 'unknown') FROM fleet_recording
UNION ALL
SELECT content, 'kernel', coalesce(kernel, 'unknown') FROM fleet_recording
UNION ALL
SELECT content, 'workload', coalesce(workload, 'unknown') FROM fleet_recording
UNION ALL
SELECT content, 'month', coalesce(made[:7], 'unknown') FROM fleet_recording
UNION ALL
SELECT content, 'recording', content FROM fleet_recording;

CREATE OR REPLACE TEMP VIEW fleet_figure AS
WITH counted AS (
    SELECT member.facet, member.name, counts.* EXCLUDE (cgroup)
    FROM fleet_count AS counts JOIN fleet_member AS member ON member.content = counts.content
    WHERE counts.cgroup IS NULL
    UNION ALL
    SELECT 'cgroup' AS facet, cgroup AS name, * EXCLUDE (cgroup) FROM fleet_count WHERE cgroup IS NOT NULL
),

summed AS (
    SELECT
        facet,
        name,
        policy,
        count(DISTINCT content) AS recordings,
        bool_or(reference) AS reference,
        total(decisions) AS decisions,
        sum(tasks)::BIGINT AS tasks,
        per_1k(sum(would_move), sum(decisions)) AS would_move_per_1k,
        per_1k(sum(cross_llc_prev), sum(decisions) FILTER (WHERE cross_llc_prev IS NOT NULL)) AS cross_llc_prev_per_1k,
        per_1k(sum(cross_llc_waker), sum(decisions) FILTER (WHERE cross_llc_waker IS NOT NULL))
            AS cross_llc_waker_per_1k,
        per_1k(sum(cross_node_prev), sum(decisions) FILTER (WHERE cross_node_prev IS NOT NULL))
            AS cross_node_prev_per_1k,
        per_1k(sum(idle_missed_llc), sum(decisions) FILTER (WHERE idle_missed_llc IS NOT NULL))
            AS idle_missed_llc_per_1k,
        per_1k(sum(idle_missed_machine), sum(decisions)) AS idle_missed_machine_per_1k,
        per_1k(sum(stacked), sum(decisions)) AS stacked_per_1k,
        pct(sum(exposed), sum(decisions)) AS exposure_pct,
        per_1k(sum(self_collision), sum(decisions)) AS self_collision_per_1k,
        pct(sum(agreed), sum(decisions)) AS known_pct,
        pct(sum(assumed), sum(decisions)) AS assumed_pct,
        sum(scans)::BIGINT AS scans,
        sum(scanned) / nullif(sum(scans), 0) AS mean_cpus,
        sum(ranked)::BIGINT AS ranked,
        sum(samples) AS samples
    FROM counted
    GROUP BY facet, name, policy
),

held AS (
    SELECT member.facet, member.name, latency.policy, latency.side, latency.ns, sum(latency.n) AS n
    FROM fleet_latency AS latency JOIN fleet_member AS member ON member.content = latency.content
    WHERE latency.cgroup IS NULL
    GROUP BY ALL
    UNION ALL
    SELECT 'cgroup' AS facet, cgroup AS name, policy, side, ns, sum(n) AS n
    FROM fleet_latency
    WHERE cgroup IS NOT NULL
    GROUP BY ALL
),

heaped AS (
    SELECT facet, name, policy, side, ns, sum(n) OVER (PARTITION BY facet, name, policy, side ORDER BY ns) AS up_to
    FROM held
),

points AS (
    SELECT unnest([0.5, 0.9, 0.99, 0.999]) AS q
),

placed AS (
    SELECT
        summed.facet,
        summed.name,
        summed.policy,
        points.q,
        min(heaped.ns) FILTER (WHERE heaped.side = 'lo') AS lo,
        min(heaped.ns) FILTER (WHERE heaped.side = 'hi') AS hi
    FROM summed
    JOIN points ON enough(summed.samples, points.q) -- seeds of one recording are no further samples
    JOIN heaped
        ON heaped.facet = summed.facet AND heaped.name = summed.name AND heaped.policy = summed.policy
        AND heaped.up_to >= ceil(points.q * summed.ranked)
    GROUP BY ALL
),

ranked AS (
    SELECT
        facet,
        name,
        policy,
        min(lo) FILTER (WHERE q = 0.5) AS p50_lo_ns,
        min(hi) FILTER (WHERE q = 0.5) AS p50_hi_ns,
        min(lo) FILTER (WHERE q = 0.9) AS p90_lo_ns,
        min(hi) FILTER (WHERE q = 0.9) AS p90_hi_ns,
        min(lo) FILTER (WHERE q = 0.99) AS p99_lo_ns,
        min(hi) FILTER (WHERE q = 0.99) AS p99_hi_ns,
        min(lo) FILTER (WHERE q = 0.999) AS p999_lo_ns,
        min(hi) FILTER (WHERE q = 0.999) AS p999_hi_ns
    FROM placed
    GROUP BY facet, name, policy
)

SELECT summed.* EXCLUDE (samples), ranked.* EXCLUDE (facet, name, policy)
FROM summed
LEFT JOIN ranked ON ranked.facet = summed.facet AND ranked.name = summed.name AND ranked.policy = summed.policy;
