# SPDX-License-Identifier: GPL-2.0-or-later
"""The quality card on manifests made up for each threshold."""

from __future__ import annotations

from typing import Any

import pytest

from rewake.analysis.quality import judge
from rewake.errors import EXIT_QUALITY, QualityVeto

GOOD: dict[str, Any] = {
    "events": {"sched_switch": 10_000, "sched_waking": 6000, "sched_wakeup": 6000, "sched_migrate_task": 2000},
    "events_total": 22_000,
    "span_ns": 1_000_000_000, "loss": [{"cpu": 0, "lost": 0, "gaps": 0, "blind_ns": 0}], "steps_back": 0,
    "source": {"format": "trace.dat"},
    "replay": {"resync": 0}, "steal_pct": 0.0, "topology": "snapshot", "problems": [], "kernel": "6.1.0",
}  # fmt: skip
CLASSES = {"moved": 2000, "stayed": 3900, "observer": 100}


def test_a_good_recording_passes_every_check() -> None:
    card = judge(GOOD, CLASSES)
    assert card.ok and card.notes == ()
    assert all(c.passed for c in card.checks)
    assert card.line() == "quality ok (lost 0.00 %)"
    card.enforce(force=False)


def lost(n: int | None, blind: int = 0) -> dict[str, Any]:
    return {"loss": [{"cpu": 0, "lost": n, "gaps": 1, "blind_ns": blind}, {"cpu": 1, "lost": 0, "gaps": 0}]}


PLACED = {"sched_switch": 1, "sched_waking": 1, "sched_migrate_task": 1}


@pytest.mark.parametrize(
    ("name", "holds", "fails"),
    [
        ("missing_events", {"events": {"sched_switch": 1, "sched_wakeup": 1}}, {"events": {"sched_switch": 1}}),
        ("missing_events", {"events": PLACED}, {"events": {"sched_waking": 1, "sched_wakeup": 1}}),
        ("missing_events", {"events": PLACED}, {"events": {"sched_switch": 1, "sched_waking": 1}}),
        ("lost", lost(222), lost(223)),
        ("blind", lost(1, 100_000_000), lost(1, 100_000_001)),
        ("steps_back", {"steps_back": 22}, {"steps_back": 23}),
        ("resync", {"replay": {"resync": 10}}, {"replay": {"resync": 11}}),
        ("steal", {"steal_pct": 5.0}, {"steal_pct": 5.1}),
    ],
)
def test_thresholds(name: str, holds: dict[str, Any], fails: dict[str, Any]) -> None:
    assert judge(GOOD | holds, CLASSES).check(name).passed is True
    card = judge(GOOD | fails, CLASSES)
    assert card.check(name).passed is False
    assert name in [c.name for c in card.failed]
    assert card.line().startswith("quality REFUSED (")


@pytest.mark.parametrize(
    ("name", "holds", "fails"),
    [
        ("decisions", {"moved": 1000}, {"moved": 999}),
        ("observer", {"moved": 9800, "observer": 200}, {"moved": 9799, "observer": 201}),
    ],
)
def test_thresholds_on_decisions(name: str, holds: dict[str, int], fails: dict[str, int]) -> None:
    assert judge(GOOD, holds).check(name).passed is True
    assert judge(GOOD, fails).check(name).passed is False


def test_the_veto_names_value_limit_and_what_to_do() -> None:
    card = judge(GOOD | {"events": {"sched_switch": 5}}, {"moved": 3})
    with pytest.raises(QualityVeto) as caught:
        card.enforce(force=False)
    assert caught.value.exit_code == EXIT_QUALITY
    message = str(caught.value)
    assert "record with -e sched_waking -e sched_wakeup" in message
    assert "decisions: 3, limit 1000 (record for longer)" in message
    assert "--force" in message and "\n" not in message
    card.enforce(force=True)


@pytest.mark.parametrize(
    ("made", "event", "buffers", "clock"),
    [
        ({"source": {"format": "trace.dat"}}, "-e sched_wakeup", "larger buffers: -b", "another clock: -C mono"),
        ({"source": {"format": "text", "version": "trace-cmd report"}}, "-e sched_wakeup", ": -b", "-C mono"),
        ({"source": {"format": "perf.data"}}, "-e sched:sched_wakeup", "perf record -m", "perf record -k mono"),
        ({"source": {"format": "pftrace"}}, 'ftrace_events: "sched/sched_wakeup"', "size_kb", "another clock, such"),
        ({"source": {"format": "text", "version": "tracefs"}}, "events/sched/sched_wakeup/en", "buffer_size", "echo"),
        ({"source": {"format": "text", "version": "lines of events"}}, "sched_wakeup", "buffers", "another clock, su"),
        ({"source": {"format": "perf.data"}, "capture": {"tool": "perf"}}, "with sched_wakeup", "--buffer", "clock"),
        ({}, "sched_wakeup", "larger buffers", "another clock, such as mono"),
    ],
)  # fmt: skip
def test_what_to_do_is_told_in_the_words_of_what_recorded(
    made: dict[str, Any], event: str, buffers: str, clock: str
) -> None:
    bare = {k: v for k, v in GOOD.items() if k != "source"} | made
    card = judge(bare | {"events": PLACED | {"sched_migrate_task": 0}} | lost(9000, 900_000_000), CLASSES)
    advice = {c.name: c.advice for c in card.checks}
    assert event in judge(bare | {"events": {"sched_switch": 1, "sched_waking": 1}}, CLASSES).checks[0].advice
    assert buffers in advice["lost"] == advice["blind"] and clock in advice["steps_back"]


def test_what_is_unknown_is_said_and_does_not_veto() -> None:
    card = judge(GOOD | {"steal_pct": None, "topology": None, "problems": ["x"]} | lost(None), CLASSES)
    assert card.ok
    assert card.check("steal").passed is None
    text = " / ".join(card.notes)
    for part in ("stolen from the guest: unknown", "no topology", "lower bound", "damage"):
        assert part in text


def test_an_empty_recording_is_refused_without_dividing_by_nothing() -> None:
    card = judge({"events": {}, "span_ns": 0, "loss": [], "replay": {}}, {})
    assert {c.name for c in card.failed} == {"missing_events", "decisions"}


def test_a_subset_of_cpus_is_said() -> None:
    card = judge(GOOD | {"machine": {"cpus": 10}, "recorded_cpus": [0, 1, 2, 3]}, {**CLASSES, "unrecorded": 1500})
    assert (
        "only 4 of 10 CPUs were recorded (--cpus, perf -C): 1,500 decisions that look at others are not counted"
        in card.notes
    )
    assert judge(GOOD, {"moved": 999, "unrecorded": 5000}).check("decisions").passed is False


def test_times_that_are_none_are_on_the_card() -> None:
    """A clock that is known to count no time refuses, as every figure in ns is wrong; one that may do so is told."""
    told = "the unit of the times: the clock x86-tsc counts something else, taken as ns; record with -C mono"
    card = judge(GOOD | {"missing": [told]}, CLASSES)
    assert told in card.notes and [c.name for c in card.failed] == ["clock"]
    with pytest.raises(QualityVeto, match=r"times that count something else than ns: 1, limit 0 \(.*-C mono\)"):
        card.enforce(force=False)
    card.enforce(force=True)
    whole = "the unit of the times, which are whole numbers: taken as ns (the clocks counter, uptime and so on)"
    card = judge(GOOD | {"missing": [whole]}, CLASSES)
    assert card.ok and whole in card.notes and card.check("clock").passed is None


def test_where_wakeups_were_put_is_in_no_event() -> None:
    """sched_waking alone: the model has no placements, so what contradicts it is no reason to refuse."""
    card = judge(GOOD | {"events": {"sched_switch": 1000, "sched_waking": 900}, "replay": {"resync": 600}}, CLASSES)
    assert [c.name for c in card.failed] == ["missing_events"] and card.check("resync").value is None
    assert "record with -e sched_wakeup" in str(card.check("missing_events").advice)


def test_events_that_have_no_row_are_lost() -> None:
    """`trace-cmd report -R` of tasks with names that are not ASCII: 95 % of the switches had no row, and all was ok."""
    rows = {"switch": [9000, 781], "waking": [6000], "wakeup": [5999], "migrate": [2000]}
    holds = GOOD | {"rows": rows, "source": {"format": "text"}}
    assert judge(holds, CLASSES).check("lost").passed, "220 of 22,000"
    check = judge(holds | {"rows": rows | {"wakeup": [5998]}}, CLASSES).check("lost")
    assert not check.passed and "221 events could not be read" in check.advice and "-b" not in check.advice
    both = judge(GOOD | lost(222) | {"rows": rows}, CLASSES).check("lost")
    assert not both.passed and both.advice.startswith("record with larger buffers: -b; 220 events")
    # A wakeup that failed has none either; compact Perfetto traces lack what the first events of a CPU refer to.
    for more in ({"wakeup_failed": 1}, {"source": {"format": "pftrace"}}):
        assert judge(holds | {"rows": rows | {"wakeup": [5998]}} | more, CLASSES).check("lost").passed


def test_what_contradicts_the_model_is_said() -> None:
    """Missing switches by name where they are half of it; 11 of 10,000 switches are too many either way."""
    told = judge(GOOD | {"replay": {"resync": 11, "unseen_by_cpu": [1, 5]}}, CLASSES).check("resync").advice
    assert "a task leaves a CPU that it never came to" in told and " 6 times, 5 of them on CPU 1" in told
    for unseen in ({}, {"unseen_by_cpu": [1, 4]}, {"unseen_by_cpu": [0, 0]}):
        told = judge(GOOD | {"replay": {"resync": 11, **unseen}}, CLASSES).check("resync").advice
        assert told == "the events contradict each other: record again"


def test_what_contradicts_a_recording_of_a_part_is_its_part() -> None:
    """Both advised to record sched_migrate_task, or again."""
    some = "recorded for some tasks only (perf record without -a): what else ran on the CPUs is unknown"
    for part, told in (({"missing": [some]}, "perf record -a"), ({"recorded_cpus": [0]}, "record all of them")):
        for events in (GOOD["events"], {"sched_switch": 10_000, "sched_wakeup": 6000}):
            card = judge(GOOD | {"replay": {"resync": 101}, "events": events} | part, CLASSES)
            assert told in card.check("resync").advice


def test_a_cpu_without_its_switches_lacks_sched_switch() -> None:
    check = judge(GOOD | {"replay": {"resync": 0, "unswitched": [3]}}, CLASSES).check("missing_events")
    assert (check.value, check.passed) == (1, False)
    assert check.advice == "record sched_switch on all CPUs: tasks run on CPU 3 that never switches to one"
    assert judge(GOOD | {"replay": {"resync": 0, "unswitched": []}}, CLASSES).ok


def test_without_sched_migrate_task_moves_are_unseen() -> None:
    events = {k: n for k, n in GOOD["events"].items() if k != "sched_migrate_task"}
    line = "no sched_migrate_task: so and so"
    card = judge(GOOD | {"events": events, "missing": ["no sched_waking: x", line], "replay": {"resync": 11}}, CLASSES)
    assert card.notes == (line,)
    assert "record with -e sched_migrate_task" in card.check("resync").advice


def test_an_unknown_kernel_is_told() -> None:
    (note,) = judge(GOOD | {"kernel": None}, CLASSES).notes
    assert note.startswith("kernel unknown: ")


def test_decisions_outside_of_the_common_window() -> None:
    window = {"begin_ns": 1, "end_ns": 2, "late": [3], "cut": [4, 5]}
    notes = judge(GOOD | {"window": window}, CLASSES | {"unrecorded": 1234}).notes
    assert notes[0] == (
        "1,234 decisions outside of the time that all CPUs' records cover are not counted: those of CPU 3 began late"
        " and of 2 CPUs ended early"
    )
    silences = [{"cpu": 1, "edge": "end", "at_ns": 5}]
    notes = judge(GOOD | {"silences": silences, "replay": {"resync": 0, "silent": 7}}, CLASSES).notes
    assert notes[0].startswith("7 decisions were made while CPU 1 had no records although a task was running")
