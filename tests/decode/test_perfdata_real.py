# SPDX-License-Identifier: GPL-2.0-or-later
"""perf.data files that perf wrote: event for event what `perf script` prints, files of others, the same load through
trace-cmd."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from decode.mutating import of_all_kinds, survive
from decode.reading import SHARED, Decoded, Key, Record, Reference, decode

from rewake.collectors._decode import PerfData
from rewake.collectors.snapshot import load, of_trace
from rewake.errors import TraceError
from rewake.importing import import_trace

RECORDINGS = sorted(SHARED.glob("traces/*/*perf.data"))
LINE = re.compile(r"\s*(-?\d+) \[(\d+)\]\s+(\d+)\.(\d{9}):\s+(?:(\w+):(\w+): (.*)|(PERF_RECORD_\w+)(.*))")
UNKNOWN: Key = (-1, -1)
NUMBERS = {"vec": r"vec=(\d+)", "state": r"state=(\d+)", "cpu_id": r"cpu_id=(\d+)"}


def label(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def fields_of(event: str, text: str) -> dict[str, Any]:
    """Fields of a printed event. Names may hold blanks, and "name=" themselves: the last field decides."""
    names = {
        "sched_switch": r"prev_comm=(.*) prev_pid=(\d+) prev_prio=(-?\d+) prev_state=(\S+) ==> "
        r"next_comm=(.*) next_pid=(\d+) next_prio=(-?\d+)",
        "sched_migrate_task": r"comm=(.*) pid=(\d+) prio=(-?\d+) orig_cpu=(\d+) dest_cpu=(\d+)",
        "sched_process_fork": r"comm=(.*) pid=(\d+) child_comm=(.*) child_pid=(\d+)",
        "sched_process_exec": r"filename=.* pid=(\d+) old_pid=\d+",
        "sched_process_exit": r"comm=(.*) pid=(\d+) prio=(-?\d+)",
    }
    keys = {
        "sched_switch": "prev_comm prev_pid prev_prio prev_state next_comm next_pid next_prio",
        "sched_migrate_task": "comm pid prio orig_cpu dest_cpu",
        "sched_process_fork": "parent_comm parent_pid child_comm child_pid",
        "sched_process_exec": "pid", "sched_process_exit": "comm pid prio",
    }  # fmt: skip
    pattern = names.get(event)
    if event in ("sched_waking", "sched_wakeup", "sched_wakeup_new"):
        pattern, keys[event] = r"comm=(.*) pid=(\d+) prio=(-?\d+) target_cpu=(\d+)", "comm pid prio target_cpu"
    if pattern is None:
        return {k: int(found[1]) for k, p in NUMBERS.items() if (found := re.search(p, text))}
    found = re.match(pattern, text)
    assert found, (event, text)
    return {
        k: v if k.endswith("comm") or k == "prev_state" else int(v)
        for k, v in zip(keys[event].split(), found.groups(), strict=True)
    }


@dataclass
class Printed(Reference):
    """What `perf script` prints, to rows. It tells neither common_flags nor, of its own records, who wrote them."""

    side: list[dict[str, Any]] = field(default_factory=list)

    def record(self, r: Record) -> None:
        if r.event == "PERF_RECORD_COMM":
            key = self.newest.get(r.fields["tid"])
            if key is not None and key not in self.dead:
                self.name(key, r.fields["comm"], r.ts)
        elif r.event == "PERF_RECORD_FORK":
            parent, tid = self.see(r.fields["parent"], r.cpu), r.fields["tid"]
            old = self.newest.get(tid)
            self.newest[tid] = (tid, 0 if old is None else old[1] + 1)
            self.rows.append({"table": "fork", "ts_ns": r.ts, "cpu": r.cpu, "task": parent, "child": self.newest[tid]})
        elif r.pid < 0:  # a task that has exited: perf does not know its number any more
            n = len(self.rows)
            super().record(replace(r, pid=0))
            for row in self.rows[n:]:
                row["curr_task"] = row.get("curr_task") and UNKNOWN
        else:
            super().record(r)


def printed(path: Path, forks: bool) -> Iterator[Record]:
    """Every event as perf prints it, names and (where asked for) forks of perf's own records too."""
    argv = ["perf", "script", "-i", path, "--ns", "-F", "tid,cpu,time,event,trace", "--show-task-events"]
    text = subprocess.run(argv, capture_output=True, check=True).stdout.decode("utf-8", "surrogateescape")
    for line in text.splitlines():
        found = LINE.match(line)
        assert found, line
        tid, cpu, s, ns, _, event, trace, own, more = found.groups()
        ts = int(s) * 10**9 + int(ns)
        if own is None:
            yield Record(ts, int(cpu), event, fields_of(event, trace), int(tid))
        elif ts == 0:  # what perf made up at its start
            continue
        elif own == "PERF_RECORD_COMM":
            name, _, ids = more.removeprefix(" exec").removeprefix(": ").rpartition(":")
            yield Record(ts, int(cpu), own, {"tid": int(ids.split("/")[1]), "comm": name})
        elif own == "PERF_RECORD_FORK" and forks:
            child, parent = re.findall(r"\(\d+:(\d+)\)", more)
            yield Record(ts, int(cpu), own, {"tid": int(child), "parent": int(parent)})


@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
@pytest.mark.skipif(not RECORDINGS, reason="no shared recordings")
@pytest.mark.parametrize("path", RECORDINGS, ids=label)
def test_event_for_event_what_perf_script_prints(path: Path) -> None:
    got = decode(path)
    assert got.end["problems"] == [] and got.end["steps_back"] == 0
    asked = got.end["event_counts"]
    events = subprocess.run(["perf", "evlist", "-i", path], capture_output=True, text=True, check=True).stdout
    records = list(printed(path, forks="sched_process_fork" not in events))
    want = Printed(got.header["cpus"], state=lambda v: str(v))
    want.run(sorted(records, key=lambda r: (r.ts, r.cpu)))

    def plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{k: v for k, v in r.items() if k != "irq_ctx"} for r in rows if r["table"] != "loss"]

    mine = plain(got.resolved())
    for i, (a, b) in enumerate(zip(mine, plain(want.rows), strict=False)):
        if b.get("curr_task") in (UNKNOWN, None):
            a, b = ({k: v for k, v in row.items() if k != "curr_task"} for row in (a, b))
        assert a == b, f"row {i}"
    assert len(mine) == len(plain(want.rows))
    assert [(k, ns, n.encode()) for k, ns, n in got.names()] == want.names
    assert asked == {k: n for k, n in want.counts.items() if not k.startswith("PERF_")}
    meta = path.parent / "meta.json"
    if meta.exists():
        told = json.loads(meta.read_text())
        assert asked == {k.partition(":")[2]: n for k, n in told["event_counts"].items()}
        assert got.end["events"] == told["events"]
        assert abs((got.end["last_ns"] - got.end["first_ns"]) / 1e9 - told["trace_span_s"]) < 2e-6


@pytest.mark.skipif(not RECORDINGS, reason="no shared recordings")
def test_losses_equal_the_records_of_perf() -> None:
    """lost.perf.data: two LOST records, and LOST_SAMPLES that count the same again."""
    got = decode(SHARED / "traces/local-perf/lost.perf.data")
    assert [(c["lost"], c["gaps"]) for c in got.end["lost"]] == [(581, 1), (14, 1)]
    assert [r["lost"] for r in got.table("loss")] == [581, 14]


@pytest.mark.skipif(not RECORDINGS, reason="no shared recordings")
def test_the_header_tells_the_same_machine_as_the_snapshot() -> None:
    folder = SHARED / "traces/split-llc-perfsched"
    own, taken = of_trace(PerfData(str(folder / "perf.data")).header), load(folder / "topology.tar.gz")
    for column in ("cpu", "core", "llc", "cluster", "node", "package"):
        a, b = (m.cpu[column] if isinstance(m.cpu[column], tuple) else (m.cpu[column], None) for m in (own, taken))
        assert a[0].tolist() == b[0].tolist(), column
    assert own.domain["span"].tolist() == taken.domain["span"].tolist()
    assert own.kernel == taken.kernel


# --- files of others

NO_TRACEPOINTS = "holds no tracepoints"
NO_SCHED = "holds no tracepoints of the scheduler"
PUBLIC: dict[str, str | dict[str, int]] = {
    "hotspot/PerfFormatLost.perf.data": NO_TRACEPOINTS,
    "hotspot/true.v1.perf.data": "perf.data of version 1",
    "hotspot/true.v2.perf.data": NO_TRACEPOINTS,
    "linux-perf-data/fibo.compressed2.pipe.data": NO_TRACEPOINTS,
    "linux-perf-data/sleep.compressed.data": NO_TRACEPOINTS,
    "linux-perf-data/sleep.compressed.pipe.data": NO_TRACEPOINTS,
    "linux-perf-data/sleep.compressed2.data": NO_TRACEPOINTS,
    "linux-perf-data/sleep.compressed2.pipe.data": NO_TRACEPOINTS,
    "linux-perf-data/sleep.data": NO_TRACEPOINTS,
    "perfparser/contentsize.data": NO_TRACEPOINTS,
    "perfparser/fork_static_gcc-perf.data.zstd": NO_TRACEPOINTS,
    "perfparser/parallel_static_gcc-perf.data.zstd": {"cycles": 233, "sched_switch": 9},
    "perfparser/probe.data.file": NO_SCHED,
    "perfparser/probe.data.stream": NO_SCHED,
    "perfparser/vector_static_clang-perf.data": NO_TRACEPOINTS,
    "perfparser/vector_static_gcc-perf.data": NO_TRACEPOINTS,
    "perfparser/vector_static_gcc-perf.data.zstd": NO_TRACEPOINTS,
    "perfparser/vector_static_gcc-perf.lbr.data": NO_TRACEPOINTS,
}
"""What others published: the events that are in it, or why it is refused."""


@pytest.mark.skipif(not (SHARED / "public").exists(), reason="no shared files of others")
def test_files_of_others(tmp_path: Path) -> None:
    found = {
        f"{path.parent.name.removeprefix('perfdata-')}/{path.name}": path
        for path in sorted(SHARED.glob("public/traces/perfdata-*/*"))
    }
    assert found.keys() == PUBLIC.keys()
    for name, path in found.items():
        want = PUBLIC[name]
        if isinstance(want, str):
            with pytest.raises(TraceError, match=want):
                import_trace(path, None, tmp_path / "refused.rewake")
            assert not list(tmp_path.glob("refused*"))
            continue
        manifest = import_trace(path, None, tmp_path / "imported.rewake").manifest
        assert manifest["events"] == want and manifest["source"]["compression"] == "zstd"
        assert manifest["machine"]["cpus"] == 24 and manifest["kernel"] == "5.18.1-arch1-1"
        assert "recorded for some tasks only" in " ".join(manifest["missing"])


# --- the same load through trace-cmd and perf

# Two runs of the same kind of load, so the numbers differ; what an event of a kind tells must not.
SWITCH_WAKE = {"switch", "waking"}
CARRIED: dict[str, tuple[set[str], list[str]]] = {
    # `perf record -e` with the events of the trace.dat; no device interrupt came
    "all.perf.data": ({"exec", "exit", "fork", "migrate", "softirq", "wakeup"}, []),
    # `perf sched record` asks for neither sched_wakeup, sched_process_exit, nor interrupts
    "sched.perf.data": ({"fork", "migrate", "wakeup"}, []),
    "lost.perf.data": ({"fork", "migrate", "wakeup", "loss"}, []),
    # two events asked for; forks are perf's own records
    "zstd.perf.data": ({"fork"}, ["no sched_process_fork"]),
}
"""Tables besides switch and waking that each file carries, and what it says it does not."""


@pytest.mark.skipif(not RECORDINGS, reason="no shared recordings")
def test_the_same_load_through_trace_cmd_and_perf() -> None:
    """local-hackbench (trace-cmd) and local-perf, the same machine and load: same kinds of rows, same story."""
    cmd = decode(SHARED / "traces/local-hackbench/hackbench.v7zstd.dat")
    assert {r["table"] for r in cmd.rows} == SWITCH_WAKE | CARRIED["all.perf.data"][0]
    assert cmd.end["missing"] == []
    for name, (tables, missing) in CARRIED.items():
        got = decode(SHARED / "traces/local-perf" / name)
        assert {r["table"] for r in got.rows} == SWITCH_WAKE | tables, name
        assert [m.partition(":")[0] for m in got.end["missing"]] == missing
        assert (got.header["cpus"], got.header["long_size"]) == (cmd.header["cpus"], cmd.header["long_size"])
        assert got.header["clock"] == "perf" and cmd.header["clock"] == "local"
        assert {"hackbench", "rcu_preempt"} <= set(got.end["comm"]["name"]) & set(cmd.end["comm"]["name"])
        for d in (cmd, got):
            assert told(d)["next of a switch is prev of the CPU's next switch"] > 0.97
            assert told(d)["woken tasks run within 100 ms"] > 0.9, name


def told(d: Decoded) -> dict[str, float]:
    """Shares that hold for any complete recording."""
    running: dict[int, int] = {}
    woken: dict[int, int] = {}
    chained: Counter[bool] = Counter()
    runs: Counter[bool] = Counter()
    for r in d.rows:
        if r["table"] == "switch":
            if r["cpu"] in running:
                chained[running[r["cpu"]] == r["prev_task"]] += 1
            running[r["cpu"]] = r["next_task"]
            if (since := woken.pop(r["next_task"], None)) is not None:
                runs[r["ts_ns"] - since < 100_000_000] += 1
        elif r["table"] == "waking":
            woken[r["task"]] = r["ts_ns"]
    return {
        "next of a switch is prev of the CPU's next switch": chained[True] / chained.total(),
        "woken tasks run within 100 ms": runs[True] / (runs.total() + len(woken)),
    }


@pytest.mark.skipif(not RECORDINGS, reason="no shared recordings")
@pytest.mark.parametrize("name", ["local-perf/zstd.perf.data", "local-perf/sched.perf.data",
                                  "split-llc-perfsched/perf.data"])  # fmt: skip
def test_damaged_copies_of_real_files(tmp_path: Path, name: str, request: pytest.FixtureRequest) -> None:
    """200 copies of each with --slow, 40 otherwise."""
    path = tmp_path / "perf.data"
    shutil.copyfile(SHARED / "traces" / name, path)
    n = 200 if request.config.getoption("--slow") else 40
    tally = survive(path, of_all_kinds(path.stat().st_size, n, 3), "PerfData")
    assert tally["refused"] >= n // 8 and tally["degraded"] >= n // 8, tally
