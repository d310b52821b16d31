# SPDX-License-Identifier: GPL-2.0-or-later
"""`rewake slice` and --redact on the demo's recording: what a window keeps, and that no name leaves."""

from __future__ import annotations

import json
import re
import struct
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tracedat
from command import told

from rewake.analysis.quality import assess
from rewake.forms import EVENT_TABLES, RUN_TABLES, Recording, Run
from rewake.redact import WELL_KNOWN, Redactor
from rewake.replay.recorded import running

FIXTURES = Path(__file__).parents[2] / "fixtures"
DEMO = FIXTURES / "demo-split-llc-schbench" / "trace.dat"
OTHER = FIXTURES / "cgroup-throttle-split-llc" / "trace.dat"
MS = 1_000_000


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("slice")
    (folder / "key").write_bytes(bytes(range(32)))
    return folder


def made(folder: Path, name: str, *arguments: object) -> Recording:
    from rewake.cli import main

    if not (folder / name).exists():
        assert main([*map(str, arguments), "-o", str(folder / name)]) == 0
    return Recording(folder / name)


@pytest.fixture(scope="module")
def whole(place: Path) -> Recording:
    return made(place, "whole.rewake", "import", DEMO)


@pytest.fixture(scope="module")
def part(place: Path, whole: Recording) -> Recording:
    return made(place, "part.rewake", "slice", whole.path, "--window", "200ms..450ms")


@pytest.fixture(scope="module")
def redacted(place: Path) -> Recording:
    return made(place, "redacted.rewake", "import", DEMO, "--redact", place / "key")


def plain(column: Any) -> Any:
    return np.ma.MaskedArray(*column).filled(0) if isinstance(column, tuple) else column


def same(a: Recording, b: Recording, table: str, keep: Any = slice(None)) -> None:
    one, two = a.read(table), b.read(table)
    assert list(one) == list(two)
    for name in one:
        assert np.array_equal(plain(one[name])[keep], plain(two[name])), (table, name)


# --- slice ---


def test_rows_of_the_window_keep_their_numbers(whole: Recording, part: Recording) -> None:
    start = whole.manifest["first_ns"]
    lo, hi = part.manifest["slice"]["events"]
    total = 0
    for table in EVENT_TABLES:
        events = whole.read(table)
        keep = (plain(events["ts_ns"]) >= start + 200 * MS) & (plain(events["ts_ns"]) < start + 450 * MS)
        same(whole, part, table, keep)
        total += int(keep.sum())
        ids = plain(events["id"])[keep]
        assert not len(ids) or (ids.min() >= lo and ids.max() <= hi)
    assert total == part.manifest["events_total"] == hi - lo + 1
    assert sum(part.manifest["events"].values()) == total
    assert 240 * MS < part.manifest["span_ns"] < 250 * MS
    for table in ("task", "task_attr", "comm", "cgroup", "cpu", "cpu_state", "domain"):
        same(whole, part, table)


def test_decisions_of_the_window_equal_those_of_the_whole(whole: Recording, part: Recording) -> None:
    events = plain(whole.read("decision", ("event_id",))["event_id"])
    lo, hi = part.manifest["slice"]["events"]
    keep = (events >= lo) & (events <= hi)
    same(whole, part, "decision", keep)
    ids = plain(part.read("decision", ("decision_id",))["decision_id"])
    assert ids[0] == part.first_decision > 0 and np.array_equal(ids, np.arange(ids[0], ids[0] + len(ids)))


def test_what_ran_at_the_start_of_the_window(whole: Recording, part: Recording) -> None:
    lo = part.manifest["slice"]["events"][0]
    switch = whole.read("switch")
    expected = {}
    for cpu, task in zip(*(plain(switch[c])[plain(switch["id"]) < lo] for c in ("cpu", "next_task")), strict=True):
        expected[int(cpu)] = int(task)
    said = dict(part.manifest["running_at_start"])
    assert said == expected
    inside = part.read("switch")
    first: dict[int, int] = {}
    for cpu, task in zip(plain(inside["cpu"]), plain(inside["prev_task"]), strict=True):
        first.setdefault(int(cpu), int(task))
    assert {c: said[c] for c in first} == first  # the window's own switches say the same


def test_a_cpu_that_never_switches_in_the_window_is_known(place: Path, whole: Recording) -> None:
    short = made(place, "short.rewake", "slice", whole.path, "--window", "300ms..300200us")
    switching = set(plain(short.read("switch", ("cpu",))["cpu"]).tolist())
    silent = set(range(16)) - switching
    assert silent
    assert {cpu for cpu, _ in running(short, 16)} == silent


def test_a_slice_replays_explains_and_joins(place: Path, part: Recording, capsys: pytest.CaptureFixture[str]) -> None:
    run = place / "part.run"
    told(capsys, "replay", part.path, "--policy", "recorded", "--policy", "linux-6.1", "--assume", "sync=0", "-o", run)
    con = Run(run).connect()
    joined = con.execute(
        "SELECT count(*), count_if(l.cpu = d.chosen_cpu) FROM ledger l JOIN decision d USING (decision_id)"
        " WHERE policy = 'recorded' AND l.cpu IS NOT NULL"
    ).fetchall()[0]
    assert joined[0] == joined[1] > 3000
    at = part.first_decision + 100
    assert f"decision {at} of" in told(capsys, "explain", part.path, "--decision", at, "--assume", "sync=0")
    assert f"has decisions {part.first_decision} to" in told(capsys, "explain", part.path, "--decision", 5, code=2)


def test_a_slice_of_a_slice(place: Path, whole: Recording, part: Recording) -> None:
    twice = made(place, "twice.rewake", "slice", part.path, "--window", "50ms..100ms")
    begin = part.manifest["first_ns"] - whole.manifest["first_ns"] + 50 * MS
    once = made(place, "once.rewake", "slice", whole.path, "--window", f"{begin}ns..{begin + 50 * MS}ns")
    for table in ("switch", "decision"):
        same(once, twice, table)
    assert once.manifest["running_at_start"] == twice.manifest["running_at_start"]
    assert once.first_decision == twice.first_decision


@pytest.mark.parametrize(
    ("window", "why"),
    [("2s..5s", "no events in the window: the recording is 1.002 s long"), ("5s", "FROM..UNTIL expected"),
     ("..", "FROM..UNTIL expected"), ("3s..1s", "ends before it begins"), ("a..b", "is no time"),
     ("-1s..2s", "is no time")],
)  # fmt: skip
def test_windows_that_are_none(
    place: Path, whole: Recording, window: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert why in told(capsys, "slice", whole.path, "--window", window, "-o", place / "none.rewake", code=2)
    assert not (place / "none.rewake").exists()


def test_messages_name_the_trace_and_not_its_recording_in_the_cache(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments in (
        ("slice", DEMO, "--window", "2s..5s", "-o", place / "none.rewake"),
        ("fidelity", DEMO, "--inputs"),
        ("explain", DEMO, "--pid", 999_999),
    ):
        said = told(capsys, *arguments, code=2)
        assert str(DEMO) in said
        assert ".rewake" not in said.replace("none.rewake", "")


def test_nothing_to_do_and_into_itself(whole: Recording, capsys: pytest.CaptureFixture[str]) -> None:
    assert "give --window" in told(capsys, "slice", whole.path, "-o", whole.path.with_name("x.rewake"), code=2)
    told_ = told(capsys, "slice", whole.path, "--window", "..1s", "-o", whole.path, code=2)
    assert "cannot be sliced into itself" in told_


# --- redact ---


def words(recording: Recording) -> set[str]:
    """Names in a recording that are somebody's: of tasks and of parts of cgroup paths."""
    names = {str(n) for n in recording.read("comm")["name"] if not WELL_KNOWN.fullmatch(str(n))}
    names |= {part for path in recording.read("cgroup")["path"] for part in str(path).split("/")}
    return {n for n in names if len(n) >= 5}


def test_no_name_is_in_any_file(whole: Recording, redacted: Recording) -> None:
    names = words(whole)
    assert "schbench" in names and len(names) > 10
    files = [f for f in redacted.path.rglob("*") if f.is_file()]
    assert len(files) > 10
    # Parquet is compressed: what a reader of it gets is looked at as well.
    content = b"\0".join(f.read_bytes() for f in files)
    texts = [str(v) for t, c in (("comm", "name"), ("cgroup", "path"), ("domain", "name"), ("domain", "flags"))
             for v in redacted.read(t, (c,))[c]]  # fmt: skip
    content += "\0".join(texts).encode()
    found = [n for n in sorted(names) if n.encode() in content]
    assert not found
    assert not (redacted.path / "topology.xml").exists()
    assert set(redacted.manifest) <= set(whole.manifest) | {"redacted"}


def test_no_place_of_a_name_is_forgotten(tmp_path: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One word in every text that a trace and its snapshot carry, and the same word in no file of the recording."""
    word = "acmecorp"
    fmts = (*tracedat.FORMATS, tracedat.Format(word, f"{word}_probe", 900, ("int x",), "x=%d"))
    wake = {"comm": f"{word}-web", "pid": 9, "prio": 120, "target_cpu": 1}
    rows: list[tracedat.Row] = [
        (1000, 0, "sched_waking", wake),
        (1100, 0, f"{word}_probe", {"x": 1}),
        (1200, 1, "sched_switch", {"prev_comm": "swapper/1", "next_comm": f"{word}-web", "next_pid": 9}),
        (1300, 1, "sched_process_exec", {"filename": f"/opt/{word}", "pid": 9}),
    ]
    trace = tmp_path / word / f"{word}.dat"
    trace.parent.mkdir()
    machine = tracedat.Machine(
        16, uname=f"Linux {word}-prod 6.1.0 x86_64", clock="mono",
        options=((1, word.encode()), (6, word.encode()), (3, struct.pack("<Q", 0) + f"{word}-instance\0".encode())),
    )  # fmt: skip
    tracedat.write(trace, rows, fmts=fmts, machine=machine)
    tree = trace.parent / "topology"
    with tarfile.open(DEMO.with_name("topology.tar.gz")) as tar:
        tar.extractall(tree)
    for name, text in {
        "proc/sys/kernel/hostname": word, "uname": f"Linux {word} 6.1.0 {word}",
        "sys/class/dmi/id/product_serial": word, "proc/sys/kernel/sched_child_runs_first": "0",
        "capture": f"tool={word}\nmode=stream\nevents=sched:* {word}:*\nstopped_by={word}\nbuffer_kb=1408",
        f"sys/fs/cgroup/{word}.slice/cpu.weight": "100",
    }.items():  # fmt: skip
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text + "\n")

    def told_of(path: Path) -> bytes:
        texts = [str(v) for t, c in (("comm", "name"), ("cgroup", "path")) for v in Recording(path).read(t, (c,))[c]]
        return b"".join(f.read_bytes() for f in path.rglob("*") if f.is_file()) + "".join(texts).encode()

    told(capsys, "import", trace, "-o", tmp_path / "open.rewake")
    told(capsys, "import", trace, "--redact", place / "key", "-o", tmp_path / "hidden.rewake")
    assert told_of(tmp_path / "open.rewake").count(word.encode()) > 5
    assert word.encode() not in told_of(tmp_path / "hidden.rewake")
    hidden = Recording(tmp_path / "hidden.rewake").manifest
    assert hidden["capture"]["buffer_kb"] == 1408
    assert "trace instance besides the main buffer, not decoded" in hidden["problems"]


def test_no_name_of_an_event_is_forgotten(tmp_path: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In text any event with `vector=` and such a name is that of an interrupt; what cannot be read is named, too."""
    text = tmp_path / "trace.txt"
    text.write_text(
        "# tracer: nop\n"
        + "".join(
            f"           bash-100     [000] d..2.     1.00000{n}: {event}\n"
            for n, event in enumerate(
                ("sched_waking: comm=a pid=7 prio=120 target_cpu=000", "acmecorp_entry: vector=9",
                 "acmecorp_exit: vector=x", "local_timer_entry: vector=236", "acmecorp_probe: x=1")
            )
        )
    )  # fmt: skip
    told(capsys, "import", text, "--redact", place / "key", "-o", tmp_path / "hidden.rewake")
    hidden = Recording(tmp_path / "hidden.rewake").manifest
    assert "acmecorp" not in json.dumps(hidden)
    assert hidden["events"] == {"sched_waking": 1, "local_timer_entry": 1, "(others)": 3}
    assert "event whose text cannot be read, skipped" in hidden["problems"]


def test_a_gap_that_the_end_of_the_window_cuts_is_blindness(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[tracedat.Row] = [
        (t * MS, cpu, "sched_switch", {"prev_pid": 0, "next_pid": 0}) for t in range(1, 40) for cpu in (0, 1)
        if cpu == 0 or not 11 <= t < 30
    ]  # fmt: skip
    rows.insert(next(n for n, r in enumerate(rows) if r[:2] == (30 * MS, 1)), (30 * MS, 1, "loss", {"lost": 5}))
    trace = tmp_path / "t.dat"
    tracedat.write(trace, rows, machine=tracedat.Machine(2))
    told(capsys, "import", trace, "-o", tmp_path / "all.rewake")
    for window, lost, gaps, blind in (("..25ms", 0, 1, 15 * MS), ("..9ms", 0, 0, 0), ("15ms..", 5, 1, 14 * MS)):
        name = tmp_path / f"{window}.rewake"
        told(capsys, "slice", tmp_path / "all.rewake", "--window", window, "-o", name)
        assert Recording(name).manifest["loss"][1] == {"cpu": 1, "lost": lost, "gaps": gaps, "blind_ns": blind}


def test_tids_are_hidden_and_distinct(whole: Recording, redacted: Recording) -> None:
    before, after = (plain(r.read("task", ("tid",))["tid"]).tolist() for r in (whole, redacted))
    pairs = dict(zip(before, after, strict=True))
    assert len(set(pairs.values())) == len(pairs) and pairs[0] == 0
    assert sum(a == b for a, b in pairs.items() if a) == 0
    kept = [str(n) for n in redacted.read("comm")["name"] if WELL_KNOWN.fullmatch(str(n))]
    assert "swapper/3" in kept and any(n.startswith("migration/") for n in kept)


@pytest.mark.parametrize("trace", [DEMO, OTHER], ids=lambda p: p.parent.name)
def test_replay_of_the_redacted_is_replay_of_the_original(
    place: Path, trace: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = []
    for name, how in (("open", ()), ("hidden", ("--redact", place / "key"))):
        recording = made(place, f"{trace.parent.name}-{name}.rewake", "import", trace, *how)
        run = place / f"{trace.parent.name}-{name}.run"
        told(capsys, "replay", recording.path, "--policy", "recorded", "--policy", "auto", "--policy", "linux-6.12",
             "--policy", "wakeup-buddy", "--force", "-o", run)  # fmt: skip
        runs.append(Run(run))
    assert runs[0].policies == runs[1].policies
    for policy in runs[0].policies:
        one, two = (r.read_ledger(policy) for r in runs)
        for name in RUN_TABLES["ledger"].names:
            a, b = one[name], two[name]
            assert np.array_equal(plain(a), plain(b)), (policy, name)
            if isinstance(a, tuple):
                assert np.array_equal(a[1], b[1])
    cards = [assess(r.recording).as_dict()["checks"] for r in runs]
    assert cards[0] == cards[1]


def test_the_same_key_gives_the_same_hashes_in_two_recordings(
    place: Path, whole: Recording, redacted: Recording
) -> None:
    other = made(place, f"{OTHER.parent.name}-hidden.rewake", "import", OTHER, "--redact", place / "key")
    shared = {str(n) for n in redacted.read("comm")["name"]} & {str(n) for n in other.read("comm")["name"]}
    hidden = {n for n in shared if not WELL_KNOWN.fullmatch(n)}
    expected = {str(n) for n in whole.read("comm")["name"]} & {
        str(n) for n in made(place, f"{OTHER.parent.name}-open.rewake", "import", OTHER).read("comm")["name"]
    }
    redactor = Redactor(place / "key")
    assert hidden and {redactor.comm(n) for n in expected} <= shared
    (place / "key2").write_bytes(bytes(range(1, 33)))
    assert Redactor(place / "key2").comm("schbench") != redactor.comm("schbench")


def test_slice_redacts_as_import_does(place: Path, whole: Recording, redacted: Recording) -> None:
    later = made(place, "later.rewake", "slice", whole.path, "--redact", place / "key")
    for table in (*EVENT_TABLES, "task", "task_attr", "comm", "cgroup", "decision"):
        same(redacted, later, table)
    assert later.manifest == redacted.manifest


def test_names_by_kind(place: Path) -> None:
    redactor = Redactor(place / "key")
    assert redactor.comm("kworker/0:1H-kblockd") == "kworker/0:1H" and redactor.comm("swapper/12") == "swapper/12"
    for name in ("kworker/acme", "migration/secret", "kswapd0 of acme", "worker/7", "", "\\x1b[2J"):
        hidden = redactor.comm(name)
        assert re.fullmatch(r"t[0-9a-f]{14}|t[0-9a-f]{12}/0", hidden), name
    assert re.search(r"/\d", redactor.comm("worker/7")) and not re.search(r"/\d", redactor.comm("worker"))
    a, b = redactor.path("/team/app").split("/")[1:], redactor.path("/team/db").split("/")[1:]
    assert a[0] == b[0] and a[1] != b[1] and redactor.path("/") == "/"
    assert len({redactor.tid(t) for t in range(5000)}) == 5000


@pytest.mark.parametrize("content", [None, b"short"])
def test_keys_that_are_none(tmp_path: Path, content: bytes | None, capsys: pytest.CaptureFixture[str]) -> None:
    key = tmp_path / "key"
    if content is not None:
        key.write_bytes(content)
    message = told(capsys, "import", DEMO, "--redact", key, "-o", tmp_path / "x.rewake", code=2)
    assert ("head -c 32 /dev/urandom" in message) == (content is not None)
