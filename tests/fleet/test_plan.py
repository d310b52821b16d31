# SPDX-License-Identifier: GPL-2.0-or-later
"""From names to tasks: what is found, how it is cut, and what a task's hash depends on."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fleetcheck import study

from rewake.errors import NOT_UTF8, UsageError
from rewake.fleet import drive, engines, plan, remote
from rewake.fleet.cell import Limits
from rewake.fleet.tasks import Task
from rewake.forms import FleetStore


def names(*given: str | Path) -> list[str]:
    return [Path(s.where).name for s in plan.find([str(g) for g in given]).sources]


def test_a_directory_gives_traces_and_recordings(traces: Path) -> None:
    found = plan.find([str(traces)])
    assert [Path(s.where).name for s in found.sources] == ["demo.rewake", "empty.dat", "garbled.dat"]
    assert found.passed_over == 2, "the list and the readme"


def test_a_pattern_and_a_plain_name(traces: Path) -> None:
    assert names(traces / "*.dat") == ["empty.dat", "garbled.dat"]
    assert names(traces / "demo.rewake", traces / "*.rewake") == ["demo.rewake"], "each once"
    assert names(traces / "gone.dat") == ["gone.dat"], "a task that will fail and say so"
    with pytest.raises(UsageError, match="nothing matches"):
        plan.find([str(traces / "*.pftrace")])


def test_an_empty_directory_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no traces there"):
        plan.find([str(tmp_path)])


def test_what_cannot_be_read_is_a_task_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").mkdir()
    os.mkfifo(tmp_path / "pipe.dat")
    inside = Path.iterdir

    def closed(path: Path) -> Iterator[Path]:
        if path.name == "secret":
            raise PermissionError(errno.EACCES, "Permission denied")
        return inside(path)

    monkeypatch.setattr(Path, "iterdir", closed)
    found = plan.find([str(tmp_path)])
    assert [Path(s.where).name for s in found.sources] == ["pipe.dat", "secret"]
    assert plan._content(str(tmp_path / "pipe.dat"), None) == "unreadable-special", "to open a FIFO is to wait"


@pytest.mark.parametrize("engine", [engines.inline, lambda store: engines.local(store, Limits(), 1)])
def test_a_name_that_is_not_utf_8_is_a_task_that_fails(
    engine: Callable[[str], engines.Engine], traces: Path, tmp_path: Path
) -> None:
    shutil.copytree(traces / "demo.rewake", os.fsdecode(os.fsencode(tmp_path) + b"/in/d\xff.rewake"))
    tasks = plan.tasks(plan.find([str(tmp_path / "in")]).sources, study())
    store = FleetStore(tmp_path / "fleet")
    assert drive.run(tasks, store, engine(str(tmp_path / "fleet"))).kinds == {"usage": 1}
    con = store.connect()
    told = con.execute("SELECT uri, message FROM shard WHERE error IS NOT NULL").fetchall()
    con.close()
    assert told == [(f"{tmp_path}/in/d\\xff.rewake", f"{tmp_path}/in/d\\xff.rewake: {NOT_UTF8}")]


def test_a_snapshot_beside_a_trace_is_not_searched(tmp_path: Path) -> None:
    (tmp_path / "topology" / "sys").mkdir(parents=True)
    (tmp_path / "topology" / "sys" / "x.dat").write_bytes(b"")
    (tmp_path / "trace.dat").write_bytes(b"")
    assert names(tmp_path) == ["trace.dat"]


def test_a_link_to_a_directory_above_has_nothing_new(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "trace.dat").write_bytes(b"")
    (tmp_path / "in" / "again").symlink_to("..")
    (tmp_path / "other").symlink_to("in")
    assert [s.uri for s in plan.find([str(tmp_path)]).sources] == [
        f"{tmp_path}/in/trace.dat",
        f"{tmp_path}/other/trace.dat",
    ]


def test_a_list_has_windows_and_labels(traces: Path) -> None:
    sources = plan.find([str(traces / "all.list")]).sources
    assert [(s.from_ns, s.until_ns) for s in sources[:2]] == [(0, 20_000_000), (20_000_000, 40_000_000)]
    assert sources[0].labels == {"workload": "web", "time": "2026-11-20T00:00:00Z"}
    task = plan.tasks(sources[:1], study())[0]
    assert task.labels == {"workload": "web", "made": "2026-11-20T00:00:00Z"}


@pytest.mark.parametrize("line", ["a.dat colour=red", "a.dat workload=", "a.dat time=yesterday", "a.dat 'open"])
def test_a_wrong_line_is_named(line: str, tmp_path: Path) -> None:
    (tmp_path / "x.list").write_text(f"b.dat\n{line}\n")
    with pytest.raises(UsageError, match=r"x\.list:2: "):
        plan.find([str(tmp_path / "x.list")])


def test_a_window_of_a_list_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.list").write_text("trace.dat\n")
    with pytest.raises(UsageError, match=r"a\.list@1s\.\.2s: a list has no window"):
        plan.find([str(tmp_path / "a.list@1s..2s")])


def test_labels_of_a_list_within_a_list_stay(tmp_path: Path) -> None:
    (tmp_path / "all.list").write_text("web.list machine=prod-3\n")
    (tmp_path / "web.list").write_text("trace.dat workload=web machine=prod-1\n")
    labels = plan.find([str(tmp_path / "all.list")]).sources[0].labels
    assert labels == {"workload": "web", "machine": "prod-3"}, "the outer list has the last word"


def test_a_list_that_names_itself_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.list").write_text("b.list\n")
    (tmp_path / "b.list").write_text("trace.dat\n./a.list\n")
    with pytest.raises(UsageError, match=r"a\.list: a list that names itself"):
        plan.find([str(tmp_path / "a.list")])
    (tmp_path / "c.list").write_text("d.list\nd.list\n")
    (tmp_path / "d.list").write_text("trace.dat\n")
    assert names(tmp_path / "c.list") == ["trace.dat"], "one that is named twice is none"


def test_a_file_of_a_list_may_be_named_like_a_window(tmp_path: Path) -> None:
    (tmp_path / "x.list").write_text("a@1..2\n")
    (tmp_path / "a@1..2").write_bytes(b"")
    assert names(tmp_path / "x.list") == ["a@1..2"]


def test_a_window_of_a_plain_name(traces: Path) -> None:
    source = plan.find([str(traces / "demo.rewake") + "@10ms..20ms"]).sources[0]
    assert (source.from_ns, source.until_ns) == (10_000_000, 20_000_000) and source.where.endswith("demo.rewake")


def test_cutting_covers_the_recording_once(traces: Path) -> None:
    source = plan.find([str(traces / "demo.rewake")]).sources
    parts = [(t.from_ns, t.until_ns) for t in plan.tasks(source, study(), cut_ns=30_000_000, seeds=(0, 1))]
    assert parts == [(0, 30_000_000)] * 2 + [(30_000_000, 60_000_000)] * 2 + [(60_000_000, None)] * 2
    whole = plan.tasks(source, study(), cut_ns=10**12)
    assert [(t.from_ns, t.until_ns) for t in whole] == [(0, None)]


def test_more_tasks_than_can_be_held(traces: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = plan.find([str(traces / "demo.rewake")]).sources
    with pytest.raises(UsageError, match=r"^2,000,000 tasks are more than the 1,000,000 of one run: fewer seeds"):
        plan.tasks(source * 2, study(), seeds=range(1_000_000))
    for cut_ns, seeds in ((30_000_000, range(400_000)), (50, range(1))):
        monkeypatch.setattr(plan, "Task", None)  # nothing is built before
        with pytest.raises(UsageError, match=r"^1,[0-9,]+ tasks are more"):
            plan.tasks(source, study(), cut_ns=cut_ns, seeds=seeds)


def test_the_hash_is_of_what_decides(traces: Path) -> None:
    task = plan.tasks(plan.find([str(traces / "demo.rewake")]).sources, study())[0]
    assert Task.of(json.loads(json.dumps(task.plain()))).key == task.key
    assert replace(task, where="/elsewhere").key == task.key, "where it lies on this machine decides nothing"
    others = [
        replace(task, **change).key
        for change in ({"uri": "x"}, {"content": "x"}, {"from_ns": 1}, {"until_ns": 1}, {"seed": 1},
                       {"topology": "pack:1"}, {"labels": {"workload": "x"}}, {"study": study("prev")},
                       {"study": replace(task.study, settings={"sync": "0", "probes": True})},
                       {"study": replace(task.study, tool="other")})
    ]  # fmt: skip
    assert len({task.key, *others}) == 11


def test_content_follows_the_bytes_and_the_topology_beside(tmp_path: Path) -> None:
    demo = Path(__file__).parents[2] / "fixtures" / "demo-split-llc-schbench"

    def content() -> str:
        return plan.tasks(plan.find([str(tmp_path / "trace.dat")]).sources, study())[0].content

    gone = content()
    shutil.copy(demo / "trace.dat", tmp_path)
    alone = content()
    shutil.copy(demo / "topology.tar.gz", tmp_path)
    beside = content()
    (tmp_path / "trace.dat").write_bytes(b"")
    assert len({gone, alone, beside, content()}) == 4


def test_traces_behind_a_url(traces: Path, tmp_path: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    memory.put(str(traces / "demo.rewake"), "/fleet/demo.rewake", recursive=True)
    memory.pipe_file("/fleet/sub/bad.dat", b"x")
    memory.pipe_file("/fleet/sub/notes.txt", b"x")
    sources = plan.find(["memory://fleet"]).sources
    assert [s.uri.rpartition("/")[2] for s in sources] == ["demo.rewake", "bad.dat"]
    copied = remote.copy(sources[0].uri, tmp_path)
    assert sorted(p.name for p in copied.iterdir()) == sorted(p.name for p in (traces / "demo.rewake").iterdir())
    before = remote.content(sources[1].uri)
    memory.pipe_file("/fleet/sub/bad.dat", b"other")
    assert remote.content(sources[1].uri) != before
