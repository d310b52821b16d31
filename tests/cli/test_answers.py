# SPDX-License-Identifier: GPL-2.0-or-later
"""The commands that answer, on a synthetic recording and run whose names are hostile, through every writer."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rewake.analysis.text import columns
from rewake.cli import _answers, main
from rewake.forms import ENUMS, EVENT_TABLES, INPUTS, OUTCOMES, Recording, RecordingWriter, RunWriter, dtype_of

HOSTILE = ["</script><script>x", "\x1b[2Jgone", "=cmd()", "a|b", "\\xff\\xfe", "two\nlines", "+1", "@sum", "宽" * 80]
N = 2000
LONG = "linux-6.1:SIS_UTIL=0,WA_BIAS=0,WA_IDLE=0,WA_WEIGHT=0"


def write_recording(path: Path, *, topology: bool = True, kernel: str = "6.1.0-test", decisions: int = N) -> Recording:
    """4 CPUs, 2 LLCs. Decision i: prev i % 4, waker 0, chosen prev, except that every fourth moves from 3 to 0."""
    with RecordingWriter(path) as writer:
        llc = np.array([0, 0, 2, 2], np.uint16)
        unknown = np.full(4, not topology)
        machine: dict[str, Any] = {"cpu": np.arange(4, dtype=np.uint16)}
        for name in ("core", "llc", "cluster", "node", "package", "capacity"):
            machine[name] = (llc, unknown if name in ("llc", "node") else np.ones(4, np.bool_))
        writer.write("cpu", machine)
        writer.write("comm", {"id": np.arange(len(HOSTILE), dtype=np.uint32), "name": np.array(HOSTILE, object)})
        prev = np.arange(decisions, dtype=np.uint16) % 4
        moved = prev == 3
        some = np.zeros(decisions, np.bool_)
        classes = np.where(moved, *(ENUMS["decision_class"].index(c) for c in ("moved", "stayed")))
        writer.write_part(
            "decision",
            0,
            {
                "decision_id": np.arange(decisions, dtype=np.int64),
                "event_id": np.arange(decisions, dtype=np.int64),
                "ts_ns": np.arange(decisions, dtype=np.int64) * 1000,
                "kind": np.zeros(decisions, np.uint8),
                "class": classes.astype(np.uint8),
                "task": np.ones(decisions, np.uint32),
                "waker_task": (np.ones(decisions, np.uint32), some),
                "waker_cpu": np.zeros(decisions, np.uint16),
                "irq_ctx": np.zeros(decisions, np.uint8),
                "prio": np.full(decisions, 120, np.int16),
                "prev_cpu": prev,
                "chosen_cpu": np.where(moved, 0, prev).astype(np.uint16),
                "ran_cpu": np.where(moved, 0, prev).astype(np.uint16),
                "chosen_idle": np.ones(decisions, np.bool_),
                "idle_state": (np.zeros(decisions, np.uint32), ~some),
                "wakeup_ns": np.zeros(decisions, np.int64),
                "latency_ns": np.arange(1, decisions + 1, dtype=np.int64) * 1000,
                "censored": some,
                "low_confidence": some,
            },
        )
        for table, n in (("switch", 10_000), ("wakeup", decisions)):  # what the manifest counts
            rows = {c.name: np.zeros(n, dtype_of(c)) for c in EVENT_TABLES[table].columns}
            writer.write_part(table, 0, rows | {"id": np.arange(n)})
        writer.manifest |= {
            "id": "f" * 64, "kernel": kernel, "source": {"name": HOSTILE[0]}, "span_ns": 10**9, "steps_back": 0,
            "events": {"sched_switch": 10_000, "sched_wakeup": decisions}, "events_total": 10_000 + decisions,
            "loss": [], "lost": 0, "topology": "snapshot" if topology else None, "problems": [], "notes": [],
            "replay": {"resync": 0}, "features": {}, "sched_ext": False,
        }  # fmt: skip
        writer.commit()
    return Recording(path)


def write_run(path: Path, recording: Recording, policies: list[str]) -> None:
    """Every policy but `recorded` stays on prev; where the record does not, the latency is [1 us, unbounded)."""
    decision = recording.read("decision")
    prev, chosen, latency = (np.asarray(decision[n]) for n in ("prev_cpu", "chosen_cpu", "latency_ns"))
    n = len(prev)
    with RunWriter(path, recording) as writer:
        for name in policies:
            cpu = chosen if name == "recorded" else prev
            known = cpu == chosen
            lo = np.where(known, latency, 1000)
            exposed = 0 if name == "recorded" else 1 << OUTCOMES.index("exposed")
            writer.write_ledger(
                name,
                0,
                {
                    "cpu": cpu.astype(np.uint16),
                    "branch": np.zeros(n, np.uint8),
                    "cpus_scanned": np.zeros(n, np.uint16),
                    "inputs_assumed": np.where(known | (name == "prev"), 0, 1 << INPUTS.index("load")).astype(
                        np.uint32
                    ),
                    "outcome": np.full(n, exposed, np.uint16),
                    "known": known,
                    "lo_ns": lo,
                    "hi_ns": (lo, ~known),
                },
            )
        writer.manifest |= {
            "name": HOSTILE[1], "auto": policies[-1], "seed": 0, "sync": "0", "refusals": {},
            "policies": [
                {"name": p, "base": p.split(":")[0], "label": "reference", "reference": p == "recorded",
                 "branches": [HOSTILE[2]]}
                for p in policies
            ],
        }  # fmt: skip
        writer.commit()


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    return write_recording(tmp_path / "r.rewake").path


@pytest.fixture
def run(tmp_path: Path, recording: Path) -> Path:
    write_run(tmp_path / "few.run", Recording(recording), ["recorded", "prev", HOSTILE[1]])
    return tmp_path / "few.run"


@pytest.fixture
def wide(tmp_path: Path, recording: Path) -> Path:
    names = ["recorded", "prev", LONG, *HOSTILE[:2], HOSTILE[8]]
    write_run(tmp_path / "many.run", Recording(recording), names)
    return tmp_path / "many.run"


def told(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> str:
    """Standard output of a command; none of its lines may carry a control character."""
    assert main([str(a) for a in arguments]) == code
    out, err = capsys.readouterr()
    assert all(c.isprintable() or c == "\n" for c in out + err)
    assert out if code == 0 else err
    return out if code == 0 else err


def test_report_policies_as_columns(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, "report", run).splitlines()
    assert all(columns(line) <= 100 for line in lines)
    assert lines[0] == "\\x1b[2Jgone  4 CPUs  2 LLCs  2 nodes  kernel 6.1.0-test  2,000 decisions"
    assert lines[1].startswith("quality ok")
    assert lines[2:4] == [
        "fidelity of \\x1b[2Jgone: agreement 75.0 %, skill over prev 0.00 (LLC 0.00), moved: recall 0.00",
        "  precision -, decisions on assumed inputs 25.0 %",
    ]
    table = {line[:32].strip(): line[32:].split() for line in lines if line[:6].strip()}
    assert table["one-step"] == ["recorded", "prev", "\\x1b[2Jgone"]
    assert table["would move                  /1k"] == ["250.0", "0.0", "(", "100%)", "0.0", "(", "100%)"]
    # prev 3 -> 0 crosses: 250 of 1,000. prev stays on 2 and 3, away from waker 0: 500.
    assert table["would leave LLC of prev     /1k"][0] == "250.0"
    assert table["would leave LLC of waker    /1k"] == ["250.0", "500.0", "(-100%)", "500.0", "(-100%)"]
    # Recorded latencies are 1 .. 2000 us: rank 1,980. Under prev the 500 unbounded sort last; lo: 500 at 1 us.
    assert table["p99 wakeup latency           µs"] == ["1980", "[1973,", "≥", "1999]", "[1973,", "≥", "1999]"]
    assert table["known share                  %"] == ["100.0", "75.0", "75.0"]
    assert table["exposure                     %"] == ["-", "100.0", "←", "100.0", "←"]
    assert any("use simulate" in line for line in lines)


def test_report_policies_as_rows(wide: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = told(capsys, "report", wide).splitlines()
    assert all(columns(line) <= 100 for line in lines)
    row = next(line for line in lines if line.startswith("recorded"))
    assert row.split() == ["recorded", "250.0", "250.0", "250.0", "0.0", "0.0", "0.0", "1980", "100.0", "-", "-"]
    spilled = lines.index(LONG)
    assert lines[spilled + 1].split()[0] == "0.0"


def test_max_exposure(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "use simulate" not in told(capsys, "report", run, "--max-exposure", "100")


def test_without_topology_the_report_says_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = write_recording(tmp_path / "flat.rewake", topology=False)
    write_run(tmp_path / "flat.run", recording, ["recorded", "prev"])
    text = told(capsys, "report", tmp_path / "flat.run")
    assert "LLCs unknown" in text
    assert "because the recording has no topology" in text
    alone = "Columns and seeds then search no CPU"
    assert alone in " ".join(text.split()), "no column moves a task here, which is no finding"
    row = next(line for line in text.splitlines() if line.startswith("would leave LLC of prev"))
    assert row.split()[-2:] == ["-", "-"]
    data = json.loads(told(capsys, "report", tmp_path / "flat.run", "--format", "json"))
    assert data["recording"]["llcs"] is None
    assert data["policies"][0]["cross_llc_prev"] is None


def test_report_json_is_stable(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "report", run, "--format", "json")
    assert text.isascii()
    data = json.loads(text)
    assert list(data) == [
        "kind", "schema_version", "tool_version", "recording_hash", "quality", "recording", "fidelity", "refusal",
        "max_exposure_pct", "policies", "not_counted", "counted", "recorded_migrations", "recorded_latency", "run",
    ]  # fmt: skip
    assert data["kind"] == "report"
    assert data["recording_hash"] == "f" * 64
    assert data["quality"]["ok"] is True
    prev = data["policies"][1]
    assert (prev["policy"], prev["decisions"], prev["would_move"], prev["cross_llc_waker"]) == ("prev", 2000, 0, 1000)
    assert (prev["p99_lo_ns"], prev["p99_hi_ns"], prev["p99_at_least_ns"]) == (1_973_000, None, 1_999_000)
    assert told(capsys, "report", run, "--format", "json") == text


def test_every_report_holds_the_gate(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gate = json.loads(told(capsys, "report", run, "--format", "json"))["fidelity"]
    figures = {"agreement": 0.75, "skill": 0.0, "llc_skill": 0.0, "moved_agreement": 0.0, "moved_precision": None}
    assert {name: gate[name] for name in figures} == figures
    assert gate["inputs_assumed_pct"] == {"any": 25.0, "load": 25.0}
    told(capsys, "report", run, "--min-skill", "0")
    assert "skill 0.000, at least 0.5 was asked for" in told(capsys, "report", run, "--min-skill", "0.5", code=5)


def test_no_column_is_below_every_gate(tmp_path: Path, recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RunWriter(tmp_path / "none.run", Recording(recording)) as writer:
        writer.manifest |= {"name": "x", "auto": None, "policies": [], "refusals": {"auto": "no column for kernel 2.6"}}
        writer.commit()
    told(capsys, "report", tmp_path / "none.run")
    assert "no column for kernel 2.6: no skill" in told(
        capsys, "report", tmp_path / "none.run", "--min-skill", "0", code=5
    )


def test_identify_refuses_a_recording_that_sched_ext_decided(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = json.loads((recording / "manifest.json").read_text())
    (recording / "manifest.json").write_text(json.dumps(manifest | {"sched_ext": True}))
    assert "sched_ext scheduler" in told(capsys, "fidelity", recording, "--identify", "--force", code=5)


def test_report_csv(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(csv.DictReader(io.StringIO(told(capsys, "report", run, "--format", "csv"))))
    assert [r["policy"] for r in rows] == ["recorded", "prev", "\\x1b[2Jgone"]
    assert rows[1]["decisions"] == "2000"
    assert rows[1]["p99_hi_ns"] == ""


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_hostile_names_through_every_writer(form: str, recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = told(capsys, "query", recording, "SELECT id, name FROM comm ORDER BY id", "--format", form)
    if form == "json":
        assert [name for _, name in json.loads(out)["rows"]] == HOSTILE
        assert out.isascii()
    elif form == "csv":
        names = [row["name"] for row in csv.DictReader(io.StringIO(out))]
        assert len(names) == len(HOSTILE)
        assert all(name[0] not in "=+-@" for name in names)
    else:
        assert len(out.splitlines()) == len(HOSTILE) + 1, "one line per name"


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_hostile_column_names(form: str, recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "query", recording, 'SELECT 1 AS "=cmd()\x1b[2J"', "--format", form)


def test_query_by_name(run: Path, recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = json.loads(told(capsys, "query", run, "moves/one_step", "--format", "json"))
    assert data["columns"][:3] == ["policy", "decisions", "would_move"]
    assert "decisions" in told(capsys, "query", recording, "latency/recorded")
    assert "needs a run" in told(capsys, "query", recording, "moves/one_step", code=2)
    assert "no query named" in told(capsys, "query", recording, "moves/none", code=2)
    assert "Parser Error" in told(capsys, "query", recording, "SELEC 1 FROM x", code=2)
    assert "Catalog Error" in told(capsys, "query", recording, "FROM nothing", code=2)
    assert "Binder Error" in told(capsys, "query", recording, "SELECT nothing FROM cpu", code=2)
    assert "Conversion Error" in told(capsys, "query", recording, "SELECT name::INT FROM comm", code=1)


def test_sql_may_begin_with_a_comment(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = told(capsys, "query", recording, "SELECT count(*) AS n FROM cpu", "--format", "csv")
    for comment in ("-- how many\n", "--how many?\n", "--\n", "  -- how many\n", "/* -- */ "):
        text = f"{comment}SELECT count(*) AS n FROM cpu"
        assert told(capsys, "query", recording, text, "--format", "csv") == asked, comment
    assert "No such option" in told(capsys, "query", recording, "--formal", "csv", code=2)
    assert "no SQL in it" in told(capsys, "query", recording, "-- nothing", code=2)


def test_query_list(capsys: pytest.CaptureFixture[str]) -> None:
    text = told(capsys, "query", "--list")
    assert all(columns(line) <= 100 for line in text.splitlines())
    assert "moves/one_step" in text
    assert "p99_at_least_ns" in told(capsys, "query", "--list", "latency/policy")
    listed = json.loads(told(capsys, "query", "--list", "--format", "json"))
    assert {"name", "question", "definition", "units", "requires", "columns"} == set(listed[0])


def test_usage(recording: Path, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, "query", code=2)
    told(capsys, "replay", recording, "--policy", "nosuch", code=2)
    told(capsys, "replay", recording, "--policy", "a/b:c", code=2)
    told(capsys, "replay", recording, "--policy", "linux-6.1:NOSUCH=1", code=2)
    told(capsys, "replay", recording, "--assume", "sync=2", code=2)
    told(capsys, "policies", "show", "nosuch", code=2)
    assert "a recording, and no run: rewake replay -o" in told(capsys, "report", recording, code=1)
    assert "a run, and no recording: rewake report" in told(capsys, "info", run, code=1)
    told(capsys, "report", run / "none", code=1)
    (run.parent / "store" / "suite=load").mkdir(parents=True)
    (run.parent / "store" / "suite=load" / "x.parquet").touch()
    assert "rewake trend and rewake dashboard" in told(capsys, "query", run.parent / "store", "SELECT 1", code=2)


def test_progress_tells_the_time_left(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    monkeypatch.setattr(_answers.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(_answers.sys.stderr, "isatty", lambda: True, raising=False)
    show = _answers.progress("replay")
    assert show is not None
    now[0] = 5.0
    show(1, 4)
    assert capsys.readouterr().err == "\r\x1b[Kreplay 1/4, about 15 s left"
    show(4, 4)
    assert capsys.readouterr().err.endswith("\r\x1b[K")
