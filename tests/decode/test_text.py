# SPDX-License-Identifier: GPL-2.0-or-later
"""ftrace text: the same rows as the trace that it was printed from, in every dialect; what is no event is counted."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tracedat
from decode import printing
from decode.reading import SHARED, Decoded, Record, Reference, decode, in_order, unescape
from decode.test_golden import ROWS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rewake.collectors._decode import Text
from rewake.errors import TraceError
from rewake.forms import ENUMS
from rewake.sniff import is_text

ROOT = Path(__file__).parents[2]
SMALL = [ROOT / "fixtures" / name / "trace.dat" for name in ("64cpu-8llc-hackbench", "12cpu-buddy-hackbench")]
SMALL += sorted(SHARED.glob("traces/local-*/*.dat")) + sorted(SHARED.glob("public/traces/*/*.dat"))
LARGE = sorted(set(ROOT.glob("fixtures/*/trace.dat")) - set(SMALL))
LARGE += [p for p in sorted(SHARED.glob("traces/*/trace.dat")) if p.stat().st_size < 8 << 20]


def read(path: Path, text: bytes) -> Decoded:
    path.write_bytes(text)
    return decode(path, reader=Text)


def records(rows: list[tracedat.Row]) -> list[Record]:
    """With the losses of `rows` at the next record of their CPU."""
    lost: dict[int, int] = {}
    out = []
    for ts, cpu, event, fields in rows:
        if event == "loss":
            lost[cpu] = -1 if fields["lost"] is None else fields["lost"]
            continue
        pid = fields.get("prev_pid", 0) if event == "sched_switch" else fields.get("common_pid", 0)
        out.append(
            Record(ts, cpu, event, printing.Zero(fields), pid, fields.get("common_flags", 0), lost.pop(cpu, None))
        )
    return in_order(out)


def assert_same(got: Decoded, want: Reference, flags: bool = True) -> None:
    rows = got.resolved()
    for row, expected in zip(rows, want.rows, strict=False):
        drop = () if flags or "irq_ctx" not in row else ("irq_ctx",)
        assert {k: v for k, v in row.items() if k not in drop} == {k: v for k, v in expected.items() if k not in drop}
    assert len(rows) == len(want.rows)
    assert [(k, ns, unescape(n)) for k, ns, n in got.names()] == want.names
    assert got.end["event_counts"] == dict(want.counts)


# --- dialects


@pytest.mark.parametrize("dialect", printing.DIALECTS)
def test_golden(tmp_path: Path, dialect: str) -> None:
    all_records = records(ROWS)
    got = read(tmp_path / "text", printing.DIALECTS[dialect](all_records))
    assert got.end["problems"] == []
    assert got.end["skipped"] == {"timer_init": 1}
    known = [r for r in all_records if r.event != "made_up_entry"]
    want = Reference(got.header["cpus"]).run(all_records)
    assert len(known) + 1 == len(all_records)
    if dialect == "perf script":  # a negative count cannot be told from a missing one there
        want.rows = [dict(r, lost=None) if r["table"] == "loss" and r["lost"] is None else r for r in want.rows]
    assert_same(got, want, flags=dialect != "perf script")


def test_what_the_text_does_not_carry(tmp_path: Path) -> None:
    some = records(ROWS)
    full = read(tmp_path / "a", printing.tracefs(some)).end
    assert full["missing"] == ["kernel, uname, clock and topology of the machine"] and full["contexts"]
    coarse = read(tmp_path / "b", printing.tracefs(some, digits=6)).end["missing"]
    assert coarse[0].startswith("time finer than 1000 ns")
    perf = read(tmp_path / "c", printing.perf_script(some)).end
    assert not perf["contexts"] and perf["missing"][0] == (
        "the flags of a line: whether a wakeup came from an interrupt is rebuilt from the irq and softirq events"
    )
    quiet = [r for r in some if r.event.startswith("sched_")]
    assert "all read as from a task" in read(tmp_path / "d", printing.perf_script(quiet)).end["missing"][0]


NAMES = st.lists(
    st.sampled_from([
        b"a", b"kworker/0:1", b" ", b"-", b"-7", b"[000]", b"1.5:", b": ", b" ==> ", b":1 [2] S", b" pid=3", b"=",
        b"(1)", b" prio=4", b"]", b"\xff", b"\x1b", b"CPU:001", b"next_comm=", b"<", b"\\n\\",
    ]),
    min_size=1, max_size=6,
).map(lambda parts: b"".join(parts)[:15])  # fmt: skip


@pytest.mark.parametrize("dialect", ["tracefs", "HTML", "perf script"])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(a=NAMES, b=NAMES, c=NAMES)
def test_names_may_be_anything(tmp_path: Path, dialect: str, a: bytes, b: bytes, c: bytes) -> None:
    names = {5: a, 6: b, 7: c}
    rows: list[tracedat.Row] = [
        (1000, 0, "sched_waking", {"comm": b, "pid": 6, "prio": 120, "target_cpu": 1, "common_pid": 5}),
        (2000, 0, "sched_wakeup", {"comm": b, "pid": 6, "prio": 120, "target_cpu": 1, "common_pid": 5}),
        (3000, 1, "sched_switch", {"prev_comm": a, "prev_pid": 5, "prev_prio": 120, "prev_state": 1,
                                   "next_comm": b, "next_pid": 6, "next_prio": 120}),
        (4000, 1, "sched_process_fork", {"parent_comm": b, "parent_pid": 6, "child_comm": c, "child_pid": 7,
                                         "common_pid": 6}),
        (5000, 1, "sched_migrate_task", {"comm": c, "pid": 7, "prio": 1, "orig_cpu": 0, "dest_cpu": 1,
                                         "common_pid": 6}),
        (6000, 1, "sched_process_exec", {"filename": c, "pid": 6, "old_pid": 6, "common_pid": 6}),
        (7000, 1, "sched_process_exit", {"comm": b, "pid": 6, "prio": 120, "common_pid": 6}),
    ]  # fmt: skip
    some = records(rows)
    got = read(tmp_path / "text", printing.DIALECTS[dialect](some, names))
    assert got.end["problems"] == []
    assert_same(got, Reference(got.header["cpus"]).run(some), flags=dialect != "perf script")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(a=NAMES, b=NAMES)
def test_names_may_be_anything_in_a_report(tmp_path: Path, a: bytes, b: bytes) -> None:
    """As trace-cmd's plugins print switches and wakeups."""
    some = records([
        (1000, 0, "sched_wakeup", {"comm": b, "pid": 6, "prio": 120, "target_cpu": 1, "common_pid": 5}),
        (3000, 1, "sched_switch", {"prev_comm": a, "prev_pid": 5, "prev_prio": 120, "prev_state": 1, "next_comm": b,
                                   "next_pid": 6, "next_prio": 120}),
    ])  # fmt: skip
    text = (
        b"cpus=2\n%16s-5     [000]     0.000001000: sched_wakeup:         %s:6 [120] CPU:001\n"
        b"%16s-5     [001]     0.000003000: sched_switch:         %s:5 [120] S ==> %s:6 [120]\n" % (a, b, a, a, b)
    )
    got = read(tmp_path / "text", text)
    assert got.end["problems"] == []
    assert_same(got, Reference(2).run(some), flags=False)


# --- what trace-cmd prints, against the file that it prints


def report(trace: Path, out: Path, *options: str) -> Path:
    with out.open("wb") as file:
        subprocess.run(
            ["trace-cmd", "report", *options, "-i", trace], stdout=file, stderr=subprocess.DEVNULL, check=True
        )
    return out


LETTERS = {name: i for i, name in enumerate(ENUMS["prev_state"])}
SAME_TO_THE_PLUGIN = ({LETTERS["R"], LETTERS["R+"]}, {LETTERS["X"], LETTERS["Z"]})
"""trace-cmd's plugin prints R for both, and calls the bits of X and Z as 3.8 did."""
ONLY_IN_NUMBERS = {LETTERS["other"], LETTERS["I"], LETTERS["P"], LETTERS["R+"], LETTERS["X"]}
"""What -R's numbers may become: without the kernel's formats some have no letter."""


def differences(binary: Decoded, text: Decoded, unit: int) -> Counter[tuple[str, Any, Any]]:
    """Columns in which the rows differ. Times may be off by half a `unit`."""
    out: Counter[tuple[str, Any, Any]] = Counter()
    mine, theirs = text.resolved(), binary.resolved()
    assert len(mine) == len(theirs)
    for got, want in zip(mine, theirs, strict=True):
        assert got.keys() == want.keys() and got["table"] == want["table"]
        assert abs(got["ts_ns"] - want["ts_ns"]) <= unit // 2
        for column in got:
            if column != "ts_ns" and got[column] != want[column]:
                out[column, want[column], got[column]] += 1
    assert [(k, n) for k, _, n in text.names()] == [(k, n) for k, _, n in binary.names()]
    assert text.end["event_counts"] == binary.end["event_counts"]
    assert [(x["lost"], x["gaps"]) for x in text.end["lost"]] == [(x["lost"], x["gaps"]) for x in binary.end["lost"]]
    assert text.end["wakeup_failed"] == binary.end["wakeup_failed"]
    return out


def check_report(trace: Path, tmp_path: Path, options: tuple[str, ...], unit: int) -> None:
    binary = decode(trace)
    text = decode(report(trace, tmp_path / "report", *options), reader=Text)
    assert [p for p in text.end["problems"] if "is no event" not in p] == []  # prints of several lines
    found = differences(binary, text, unit)
    carried = "-l" in options
    for column, was, became in list(found):
        if column == "prev_state" and "-R" not in options:
            assert {was, became} in SAME_TO_THE_PLUGIN
        elif column == "prev_state":
            assert {was, became} <= ONLY_IN_NUMBERS | {LETTERS["Z"]}
        else:
            assert column == "irq_ctx" and not carried
    wakes = sum(r["table"] in ("waking", "wakeup") for r in binary.rows)
    wrong = sum(n for (column, _, _), n in found.items() if column == "irq_ctx")
    if any(r["table"] == "irq" and r["kind"] > 0 for r in binary.rows):  # with the interrupt vectors recorded
        assert wrong <= wakes * 0.01


def label(path: Path) -> str:
    return f"{path.parent.name}-{path.stem}"


@pytest.mark.parametrize("trace", SMALL, ids=label)
def test_report(tmp_path: Path, trace: Path) -> None:
    check_report(trace, tmp_path, ("-t",), 1)


@pytest.mark.slow
@pytest.mark.parametrize("trace", LARGE, ids=label)
def test_report_of_a_recording(tmp_path: Path, trace: Path) -> None:
    check_report(trace, tmp_path, ("-t",), 1)


@pytest.mark.parametrize("options", [(), ("-l",), ("-R",)], ids=["plain", "-l", "-R"])
def test_report_in_every_style(tmp_path: Path, options: tuple[str, ...]) -> None:
    check_report(ROOT / "fixtures" / "64cpu-8llc-hackbench" / "trace.dat", tmp_path, options, 1000)


# --- lines that are no events


HEAD = b"            make-40      [001] d.h2.     1.000001: "
SWITCH = (
    HEAD
    + b"sched_switch: prev_comm=make prev_pid=40 prev_prio=120 prev_state=S ==> next_comm=cc next_pid=41 next_prio=120"
)


def test_garbled_lines_are_counted(tmp_path: Path) -> None:
    text = b"\n".join([
        SWITCH, b"garbage", HEAD, HEAD + b"sched_switch: prev_comm=make", HEAD + b"sched_waking: comm=a pid=1", b"",
        b"\tffffffff81000000 schedule+0x1 ([kernel.kallsyms])", b"x" * 100_000, SWITCH[:-30], SWITCH,
    ])  # fmt: skip
    got = read(tmp_path / "text", text)
    assert len(got.table("switch")) == 2
    assert got.end["problems"] == [
        "line that is no event, skipped: line 2",
        "event whose text cannot be read, skipped: sched_switch: 2 times, first at line 4",
        "event whose text cannot be read, skipped: sched_waking: line 5",
        "line of a call chain, skipped: line 7",
        "line of more than 65536 bytes, skipped: line 8",
    ]
    assert got.end["events"] == 6 and got.end["event_counts"] == {"(unnamed)": 1, "sched_switch": 4, "sched_waking": 1}


def test_impossible_values_are_counted(tmp_path: Path) -> None:
    bad = SWITCH.replace(b"next_pid=41", b"next_pid=-4"), SWITCH.replace(b"prev_prio=120", b"prev_prio=70000")
    got = read(tmp_path / "text", b"\n".join([SWITCH, *bad]))
    assert len(got.rows) == 1
    assert got.end["problems"] == [
        "record with an impossible tid, CPU or priority, skipped: 2 times, first at CPU 1, line 2"
    ]


def test_a_cpu_above_the_header(tmp_path: Path) -> None:
    got = read(tmp_path / "text", b"cpus=1\n" + SWITCH + b"\n" + SWITCH.replace(b"[001]", b"[000]"))
    assert got.header["cpus"] == 1 and len(got.rows) == 1
    assert got.end["problems"] == ["event of a CPU above the number that the file begins with, skipped: line 2"]


def test_cpus_behind_a_name_with_a_bracket_and_behind_a_console_time(tmp_path: Path) -> None:
    named = SWITCH.replace(b"            make-40      [001]", b"           [make-40      [003]")
    got = read(tmp_path / "text", b"\n".join([SWITCH, named]))
    assert got.header["cpus"] == 4 and len(got.rows) == 2 and not got.end["problems"]
    console = [b"[   12.345678] " + line for line in (SWITCH, SWITCH.replace(b"[001]", b"[005]"))]
    got = read(tmp_path / "text", b"\n".join(console))
    assert got.header["cpus"] == 6 and len(got.rows) == 2 and not got.end["problems"]


def test_cpus_that_were_idle_throughout_are_in_the_header(tmp_path: Path) -> None:
    head = b"# tracer: nop\n#\n# entries-in-buffer/entries-written: 1/1   #P:64\n#\n"
    assert read(tmp_path / "text", head + SWITCH).header["cpus"] == 64
    assert read(tmp_path / "text", head.replace(b":64", b":1") + SWITCH).header["cpus"] == 2
    assert read(tmp_path / "text", head.replace(b":64", b":99999999") + SWITCH).header["cpus"] == 2


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"a.dat: cpus=2\nb.dat: cpus=4\na.dat: " + SWITCH, 1),
        (b"cpus=2\n     " + SWITCH + b"\nfoo: " + SWITCH, 3),
        (b"cpus=2\nfoo: " + SWITCH + b"\n     " + SWITCH, 3),
        (b"cpus=2\n" + SWITCH + b"\ncpus=4\n" + SWITCH, 3),
    ],
)
def test_traces_and_instances_printed_together_are_refused(tmp_path: Path, text: bytes, line: int) -> None:
    with pytest.raises(TraceError, match=f"line {line}: events of several traces or instances in one text"):
        read(tmp_path / "text", text)


def test_what_has_a_colon_before_the_name_is_one_trace(tmp_path: Path) -> None:
    lines = [f"Nov 28 12:00:0{n} host kernel: ".encode() + SWITCH for n in range(3)]
    got = read(tmp_path / "text", b"\n".join(lines))
    assert len(got.rows) == 3 and not got.end["problems"]


def test_lines_without_names_are_told(tmp_path: Path) -> None:
    nameless = HEAD + b"prev_comm=make prev_pid=40 ==> next_comm=cc"
    got = read(tmp_path / "text", b"\n".join([SWITCH, nameless, nameless]))
    assert got.end["event_counts"] == {"(unnamed)": 2, "sched_switch": 1}
    assert [p.partition(" in ")[0] for p in got.end["problems"]] == ["most lines have no event's name where it stands"]


def test_ids_of_idle_tasks_that_no_event_is_of(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(SWITCH)
    text = Text(str(path))
    text.reserve_idle(8)
    batch = text.next_batch()
    assert batch is not None and list(batch["switch"]["prev_task"]) == [8]
    assert list(text.finish()["tasks"]["tid"]) == [0] * 8 + [40, 41]


def test_a_task_that_perf_no_longer_knows(tmp_path: Path) -> None:
    """Reaped before its last events: its number reads -1, and was taken for 1, so init woke others."""
    wake = b"sched:sched_waking: comm=a pid=9 prio=120 target_cpu=000"
    switch = SWITCH.split(b"1.000001: ")[1]
    for task in (b"             :-1    -1 [001]", b"             :-1    -1/-1     [001]"):
        lines = [
            b"            make    40 [001] 1.0: sched:" + switch,
            task + b" 2.0: " + wake,
            task + b" 3.0: sched:" + switch,
        ]
        got = read(tmp_path / "text", b"\n".join([task + b" 0.5: " + wake, *lines]))
        assert [r["curr_task"] for r in got.table("waking")] == [r["next_task"] for r in got.table("switch")][:1]
        assert got.end["problems"] == ["record with an impossible tid, CPU or priority, skipped: CPU 1, line 1"], (
            "nobody knows who ran before the first switch"
        )
        assert 1 not in list(got.end["tasks"]["tid"])
    init = read(tmp_path / "text", b"  :-1-1     [001] d... 1.0: " + wake.partition(b":")[2])
    assert 1 in list(init.end["tasks"]["tid"])


def test_wakeup_latencies_of_a_report(tmp_path: Path) -> None:
    """report -w: its switches to those that were woken had no row."""
    line = b"            make-40    [001]     1.000001: sched_switch:         make:40 [120] S ==> cc:41 [120]"
    got = read(tmp_path / "text", b"cpus=2\n" + line + b" Latency: 32.761 usecs\n" + line)
    assert len(got.table("switch")) == 2 and not got.end["problems"]


def test_names_as_arrays_of_bytes(tmp_path: Path) -> None:
    """report -R prints all names so after the first that is not ASCII."""
    raw = SWITCH.replace(b"S ==> ", b"1 ")
    cc = b"ARRAY[c3, a9, 00, 00, 00, 00, 00, 00, 00, 00, 00, 00, 00, 00, 00, 00]"
    got = read(
        tmp_path / "text", b"\n".join([raw.replace(b"comm=cc", b"comm=" + cc), raw.replace(b"=cc", b"=ARRAY[63,")])
    )
    assert len(got.table("switch")) == 2 and not got.end["problems"]
    assert {n for _, _, n in got.names()} >= {"\u00e9", "ARRAY[63,", "make"}


def test_latency_format_of_an_instance(tmp_path: Path) -> None:
    """report -l of an instance has its name before each line, and blanks of that width where there is none."""
    line = b"    make-40      1d..2. 1.000001: sched_waking:         comm=cc pid=41 prio=120 target_cpu=000"
    for before in (b"", b"foo: ", b"  a: ", b"     ", b"a-b: "):
        got = read(tmp_path / "text", b"cpus=2\n" + before + line)
        assert len(got.table("waking")) == 1 and not got.end["problems"], before
    with pytest.raises(TraceError, match="line 3: events of several traces or instances in one text"):
        read(tmp_path / "text", b"cpus=2\n     " + line + b"\nfoo: " + line)


def test_latencies_below_a_report(tmp_path: Path) -> None:
    """report -w ends in them; --strict refused such a text for lines that are no event."""
    below = b"Average wakeup latency: 62.270 usecs\nMaximum Latency: 2088.162 usecs at timestamp: 6.583141\n"
    below += b"Minimum Latency: 0.029 usecs at timestamp: 5.732124\n\nRT task timings:\n"
    assert read(tmp_path / "text", SWITCH + b"\n\n" + below).end["problems"] == []


def test_time_since_the_line_before(tmp_path: Path) -> None:
    """report --ts-diff: all but the first event were none."""
    name = b"sched_switch: prev"
    lines = [SWITCH.replace(name, between + name) for between in (b"         ", b"(+1)     ", b"(+1040)  ")]
    got = read(tmp_path / "text", b"cpus=2\n" + b"\n".join(lines))
    assert got.end["event_counts"] == {"sched_switch": 3} and len(got.table("switch")) == 3


@pytest.mark.parametrize("task", [b"   40", b"47160", b"   40/47160", b"47160/47160"])
def test_lines_without_a_name(task: bytes, tmp_path: Path) -> None:
    """perf script -F tid,cpu,time,event,trace: a number of five digits begins the line, and it was none."""
    wake = task + b" [001]  1.0: sched:sched_waking: comm=a pid=9 prio=120 target_cpu=000"
    got = read(tmp_path / "text", wake)
    assert not got.end["problems"] and len(got.table("waking")) == 1


def test_periods_before_the_names(tmp_path: Path) -> None:
    """perf script -F +period: none of its events was read."""
    some = records(ROWS)
    text = printing.perf_script(some)
    with_period = re.sub(rb"(?m)^(.{28} +[0-9.]+: ) *(\w+:\w+: )", rb"\1         1 \2", text)
    assert with_period.count(b": " + b" " * 9 + b"1 ") == text.count(b"\n") - text.count(b"RECORD_LOST")
    got, want = read(tmp_path / "a", with_period), read(tmp_path / "b", text)
    assert (got.rows, got.end["event_counts"], got.end["problems"]) == (want.rows, want.end["event_counts"], [])
    other = read(tmp_path / "c", HEAD + b"1 sched_switch: prev")
    assert other.end["event_counts"] == {"(unnamed)": 1}, "no period without a system"


def test_events_in_lines_that_are_none_are_counted(tmp_path: Path) -> None:
    """As without a row, which counts as lost on the quality card."""
    body = b"1.000001: sched:" + SWITCH.split(b"1.000001: ")[1]
    garbled = [
        b"make " + body,
        b"make 40 " + body.replace(b"sched_switch", b"sched_waking"),
        b"to sched_switch: or not",
    ]
    got = read(tmp_path / "text", b"\n".join([SWITCH, *garbled, b"# sched_switch: 1", b"a sched_switcher: b"]))
    assert got.end["event_counts"] == {"sched_switch": 3, "sched_waking": 1} and len(got.rows) == 1


def test_what_perf_script_says_of_the_machine(tmp_path: Path) -> None:
    said = "# ========\n# captured on    : Sun\n# hostname : vm\n# os release : 6.1.0-5\n# arch : x86_64\n"
    said += "# nrcpus online : 6\n# nrcpus avail : 8\n# ========\n#\n"
    got = read(tmp_path / "text", said.encode() + SWITCH)
    assert {k: got.header[k] for k in ("kernel", "uname", "cpus")} == {
        "kernel": "6.1.0-5", "uname": "Linux vm 6.1.0-5 x86_64", "cpus": 8,
    }  # fmt: skip
    assert got.end["missing"][-1] == "clock and topology of the machine"
    assert is_text(said.encode() + b"# event : name = sched:sched_switch\n" * 200), (
        "events follow after the first bytes"
    )


LATENCY = b"""# tracer: nop
#
# nop latency trace v1.1.5 on 6.18.44
# --------------------------------------------------------------------
# latency: 0 us, #3/5, CPU#0 | (M:PREEMPT(none) VP:0, KP:0, SP:0 HP:0 #P:4)
#     \\   /        ||||||  \\    |    /
"""


def test_latency_format_of_tracefs(tmp_path: Path) -> None:
    wake = b" sched_waking: comm=a pid=9 prio=120 target_cpu=000"
    lines = [b"    make-40        1d.s2. 50032719375us%c:" % mark + wake for mark in b" !+"]
    got = read(tmp_path / "text", LATENCY + b"\n".join(lines))
    assert got.header["kernel"] == "6.18.44" and got.header["cpus"] == 4 and not got.end["problems"]
    assert [(r["ts_ns"], r["cpu"], r["irq_ctx"]) for r in got.table("waking")] == [(50_032_719_375_000, 1, 1)] * 3
    assert any(m.startswith("2 events that were overwritten") for m in got.end["missing"])
    verbose = b"  make   40   1 1 00000002 00000000 [ba62eb60f] 50032719.375ms (+0.709ms):" + wake
    with pytest.raises(TraceError, match="echo 0 > options/latency-format"):
        read(tmp_path / "text", LATENCY + verbose)


def test_fields_of_tracefs(tmp_path: Path) -> None:
    """Its option `fields`: the number is in brackets behind the same in hexadecimal."""
    body = (
        b"prev_comm=a=0x1 (b prev_pid=0x28 (40) prev_prio=0x78 (120) prev_state=0x1 (1) next_comm=cc next_pid=0x29 (41)"
    )
    got = read(tmp_path / "text", HEAD + b"sched_switch: " + body + b" next_prio=0x73 (115)")
    assert not got.end["problems"] and {n for _, _, n in got.names()} >= {"a=0x1 (b", "cc"}
    (row,) = got.table("switch")
    assert (row["prev_prio"], row["next_prio"], ENUMS["prev_state"][row["prev_state"]]) == (120, 115, "S")


def test_time_that_steps_back(tmp_path: Path) -> None:
    earlier = SWITCH.replace(b"1.000001", b"0.999999")
    got = read(tmp_path / "text", b"\n".join([SWITCH, earlier, SWITCH]))
    assert got.end["steps_back"] == 1 and len(got.rows) == 3
    assert (got.end["first_ns"], got.end["last_ns"]) == (999_999_000, 1_000_001_000)


def test_whole_numbers_as_times(tmp_path: Path) -> None:
    got = read(tmp_path / "text", SWITCH.replace(b"    1.000001", b"2165889205661"))
    assert got.rows[0]["ts_ns"] == 2165889205661
    assert any("whole numbers" in m for m in got.end["missing"])


def test_failed_wakeups_and_old_states(tmp_path: Path) -> None:
    wake = HEAD + b"sched_wakeup: comm=a pid=9 prio=120 success=%d target_cpu=000"
    raw = SWITCH.replace(b"S ==> ", b"%d ")
    got = read(tmp_path / "text", b"\n".join([wake % 0, wake % 1, *(raw % n for n in (0, 1, 1024, 2, 64))]))
    assert got.end["wakeup_failed"] == 1 and len(got.table("wakeup")) == 1
    assert [ENUMS["prev_state"][r["prev_state"]] for r in got.table("switch")] == ["R", "S", "R+", "D", "other"]
    assert any("1 raw numbers whose meaning depends on the kernel" in m for m in got.end["missing"])


def test_events_lost_after_the_last_one(tmp_path: Path) -> None:
    got = read(tmp_path / "text", SWITCH + b"\nCPU:1 [12 EVENTS DROPPED]\nCPU:900 [EVENTS DROPPED]\n")
    assert got.end["problems"] == [
        "events lost on a CPU that has none: line 3", "lost events after the last event of a CPU: CPU 1",
    ]  # fmt: skip


def test_no_event_at_all(tmp_path: Path) -> None:
    path = tmp_path / "text"
    for text, why in (
        (b"hello\nworld\n", "text, but no line of it is an event of ftrace"),
        (b"<!DOCTYPE html>\n<p>hello</p>\n" + SWITCH, "an HTML page without a trace of ftrace"),
        (b"", "no line of it is an event"),
    ):
        path.write_bytes(text)
        with pytest.raises(TraceError, match=why):
            Text(str(path))


def test_batches_do_not_matter(tmp_path: Path) -> None:
    trace = ROOT / "fixtures" / "64cpu-8llc-hackbench" / "trace.dat"
    text = report(trace, tmp_path / "report")
    whole, parts = decode(text, reader=Text), decode(text, 1000, reader=Text)
    assert parts.batches > 5 and parts.rows == whole.rows and parts.names() == whole.names()
