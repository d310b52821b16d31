-- SPDX-License-Identifier: GPL-2.0-or-later
-- Decisions of the fair class by kind and policy: on the recorded CPU and LLC, and where staying on prev is. Beside
-- them, in every row: rows of placement probes and cgroups with a quota in the recording, and its length.
SELECT
    ledger.policy,
    decision_kind_of(decision.kind) AS kind,
    count(*) AS decisions,
    count(*) FILTER (WHERE ledger.cpu = decision.chosen_cpu) AS agreed,
    count(*) FILTER (WHERE decision.prev_cpu = decision.chosen_cpu) AS prev_agreed,
    count(*) FILTER (WHERE at_cpu.llc = at_chosen.llc) AS llc_agreed,
    count(*) FILTER (WHERE at_prev.llc = at_chosen.llc) AS llc_prev_agreed,
    (SELECT count(*) FROM probe) AS probes,
    (SELECT max(ts_ns) - min(ts_ns) FROM decision) AS span_ns,
    (SELECT count(*) FROM cgroup WHERE quota_ns IS NOT NULL) AS quotas
FROM ledger
JOIN decision USING (decision_id)
LEFT JOIN cpu AS at_cpu ON at_cpu.cpu = ledger.cpu
LEFT JOIN cpu AS at_chosen ON at_chosen.cpu = decision.chosen_cpu
LEFT JOIN cpu AS at_prev ON at_prev.cpu = decision.prev_cpu
WHERE is_fair(decision.class) AND ledger.cpu IS NOT NULL
GROUP BY ledger.policy, decision.kind
ORDER BY ledger.policy, decision.kind
