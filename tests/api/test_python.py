# SPDX-License-Identifier: GPL-2.0-or-later
"""The Python interface: the page's examples run, relations are what the page says, hostile names stay inert."""

from __future__ import annotations

import copy
import pickle
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import rewake
from rewake import forms, runs
from rewake.errors import TraceError, UsageError
from rewake.replay import _engine

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "fixtures/demo-split-llc-schbench"

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture(scope="module")
def page(own_cache: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The names that docs/python.md's examples leave behind, run one after the other beside a trace.dat."""
    here = tmp_path_factory.mktemp("page")
    for file in ("trace.dat", "topology.tar.gz"):
        shutil.copy(DEMO / file, here)
    names: dict[str, Any] = {}
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/python.md").read_text(), re.S | re.M)
    assert len(blocks) >= 6
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        for block in blocks:
            exec(compile(block, "docs/python.md", "exec"), names)
    return names


def test_examples_of_the_page(page: dict[str, Any]) -> None:
    decided = {policy: n for policy, n, _ in page["rows"]}
    assert set(decided) == {"recorded", "prev", "linux-6.1", "idle-thread-scan"}
    assert page["run"].policies == ["recorded", "prev", "linux-6.1", "idle-thread-scan"]
    assert {policy: differ for policy, _, differ in page["rows"]}["recorded"] == 0
    assert len(page["busiest"].fetchall()) == 3
    assert page["skill"] == page["report"].fidelity.skill > 0.5
    assert page["moves"]["prev"] == 0
    assert page["moves"]["recorded"] > 100
    ((policy, _, _, chosen, cpu),) = page["first"]
    assert policy == "idle-thread-scan" and chosen != cpu


def test_a_simulation(page: dict[str, Any]) -> None:
    simulation = page["simulation"]
    assert simulation.policies == ["linux-6.1", "prev"] == list(page["versus"])
    assert set(page["holds"]) == {"pinned", "null", "factual"}
    assert page["versus"]["linux-6.1"] == 0
    assert {row[1] for row in page["per_window"]} == {"pinned", "null", "factual", "policy"}
    assert "Does the model reproduce what was recorded?" in repr(simulation)
    again = rewake.open_run(simulation.path)
    assert isinstance(again, rewake.Simulation)
    assert again.report.plain() == simulation.report.plain()
    assert again.recording.path == page["recording"].path


def test_relations_convert(page: dict[str, Any]) -> None:
    pytest.importorskip("pandas")
    pytest.importorskip("polars")
    pytest.importorskip("pyarrow")
    relation = page["differ"]
    rows = relation.fetchall()
    assert relation.df().to_records(index=False).tolist() == rows
    assert relation.pl().rows() == rows
    assert [tuple(row.values()) for row in relation.to_arrow_table().to_pylist()] == rows
    assert [r[0] for r in relation.filter("differ = 0").fetchall()] == ["recorded"]


def test_what_is_shown(page: dict[str, Any]) -> None:
    run, recording = page["run"], page["recording"]
    assert "fidelity of linux-6.1" in repr(run)
    assert repr(recording).splitlines()[1].startswith("quality ok")
    shown = run._repr_html_()
    assert shown.count("<tr>") == 1 + len(run.policies)
    assert shown.index("quality ok") < shown.index("fidelity of") < shown.index("<table>")
    assert recording.name in recording._repr_html_()


def test_what_is_shown_of_a_simulation(page: dict[str, Any]) -> None:
    simulation = page["simulation"]
    shown = simulation._repr_html_()
    assert shown.count("<table>") == 3 and shown.count("<tr>") == 3 + len(simulation.report.checks) + 2 * len(
        simulation.policies
    )
    assert shown.index("quality ok") < shown.index("validation") < shown.index("<table>") < shown.index("periodic")


def test_a_run_opened_again(page: dict[str, Any], tmp_path: Path) -> None:
    run = page["recording"].replay("prev", sync="0", out=tmp_path / "a.run")
    again = rewake.open_run(run.path)
    assert again.recording.path == page["recording"].path
    assert again.report.plain() == run.report.plain()
    assert again.table("bucket").fetchall() == run.table("bucket").fetchall()
    assert rewake.open(again.recording.path).manifest["id"] == page["recording"].manifest["id"]


def test_hostile_names_are_inert(page: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("</p><script>alert(1)</script>", "\x1b[2Jx"):
        monkeypatch.setattr(page["recording"], "name", name)
        for shown in (page["recording"]._repr_html_(), repr(page["recording"])):
            assert "\x1b" not in shown
        assert "<script" not in page["recording"]._repr_html_()


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda r: r.replay("linux-6.1x"), "linux-6.1x"),
        (lambda r: r.replay("prev", sync="2"), "sync='2'"),
        (lambda r: r.simulate("prev", windows="soon"), "soon"),
        (lambda r: r.simulate("prev", balance="none"), "balance='none'"),
        (lambda r: r.sql("SELECT nothing FROM decision"), "nothing"),
        (lambda r: r.simulate("prev", replicas=1.5), "replicas=1.5: a whole number from 1 to 100"),
        (lambda r: r.simulate("prev", scan_cost=10**7), "scan_cost=10000000: a whole number from 0 to 100000"),
        (lambda r: r.simulate("prev", move_cost="1"), "move_cost='1': a number from 0 to 1000000"),
        (lambda r: r.simulate("prev", move_cost=1e300), "move_cost=1e+300"),
        (lambda r: r.simulate("prev", smt=1e-18), "smt=1e-18"),
        (lambda r: r.simulate("prev", threads=0), "threads=0"),
        (lambda r: r.replay("prev", seed=-1), "seed=-1"),
        (lambda r: r.replay("prev", seed=np.float64(1)), "seed=np.float64(1.0): a whole number"),
        (lambda r: r.replay("prev", seed=np.bool_(True)), "seed=np.True_: a whole number"),
        (lambda r: r.replay("prev", seed=np.timedelta64(1, "s")), "a whole number"),
        (lambda r: r.replay("prev", use_probes="no"), "use_probes='no': True or False expected"),
        (lambda r: r.replay("prev", force=1), "force=1: True or False expected"),
        (lambda r: r.replay([5]), "policies: 5 is no name"),
        (lambda r: r.replay("./a\0b"), "the path of a plugin expected, there is a NUL in it"),
        (lambda r: r.replay("linux-6.1:sis_prop=\udcff"), "the value of sis_prop is no printable text"),
        (lambda r: r.sql("SELECT '\udcff'"), "query: the SQL is not UTF-8"),
        (lambda r: r.replay(5), "policies=5: a name or a list of names expected"),
        (lambda r: r.replay("prev", hints={}), "hints={}: a path expected"),
        (lambda r: r.replay("prev", out=5), "out=5: a path expected"),
        (lambda r: r.simulate("prev", out=b"x"), "out=b'x': a path expected"),
        (lambda r: r.simulate("prev", windows=1), "windows=1: text expected"),
        (lambda r: r.sql(None), "query=None: text expected"),
        (lambda r: r.table([]), "name=[]: text expected"),
        (lambda _: rewake.open(None), "path=None: a path expected"),
        (lambda _: rewake.open_run(""), "path='': a path expected"),
        (lambda _: rewake.open_run("a\0b"), "a path expected"),
        (lambda r: rewake.open(r.path, topology=5), "topology=5: a path expected"),
        (lambda r: r.query("latency/none"), "no query named latency/none"),
        (lambda r: r.query("moves/one_step"), "needs a run"),
        (lambda r: r.query("simulate/latency"), "needs a simulation"),
        (lambda r: r.sql("DROP VIEW decision"), "not a question"),
        (lambda r: r.sql("SELECT 1; SELECT 2"), "2 statements, not one question"),
        (lambda r: r.sql(""), "no SQL in it"),
        (lambda r: r.table("wakeups"), "docs/columns.md"),
        (lambda r: rewake.open(r.path, topology="pack:2"), "topology"),
    ],
)
def test_errors_say_what_is_there(page: dict[str, Any], call: Any, told: str) -> None:
    with pytest.raises(UsageError, match=re.escape(told)):
        call(page["recording"])


def test_what_a_query_is_not_for(page: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="simulate/work needs a simulation"):
        page["run"].query("simulate/work")
    with pytest.raises(UsageError, match="moves/one_step needs a run"):
        page["simulation"].query("moves/one_step")


def test_what_sql_takes(page: dict[str, Any]) -> None:
    assert page["run"].sql("SELECT $text || $self", text="a", self="b").fetchall() == [("ab",)]
    assert len(page["run"].sql("DESCRIBE ledger").fetchall()) > 5
    count = "PIVOT (SELECT policy, known FROM ledger) ON known IN (true) USING count(*)"
    assert len(page["run"].sql(count).fetchall()) == len(page["run"].policies)


def test_numbers_of_numpy_are_taken(page: dict[str, Any]) -> None:
    """As Python's own: they make the run that is kept already."""
    recording = page["recording"]
    made = recording.replay("prev", seed=3, use_probes=False)
    again = recording.replay("prev", seed=np.int64(3), use_probes=np.bool_(False), force=np.bool_(True))
    assert again.path == made.path
    simulated = recording.simulate("prev", windows="100ms", replicas=1, move_cost=1.5, smt=1)
    same = {"replicas": np.uint8(1), "move_cost": np.float32(1.5), "smt": np.float64(1), "threads": np.int32(1)}
    assert recording.simulate("prev", windows="100ms", **same).path == simulated.path
    asked = {"a": np.int64(3), "b": np.bool_(True), "c": np.float32(0.5)}
    assert recording.sql("SELECT $a, $b, $c", **asked).fetchall() == [(3, True, 0.5)]


def test_threads_that_share_a_run(page: dict[str, Any]) -> None:
    """Each gets the answers to its own questions, also where they fetch theirs late."""
    run, ready = page["run"], Barrier(4)

    def ask(k: int) -> Any:
        ready.wait()
        return [(run.sql(f"SELECT {k}, count(*) FROM ledger").fetchall()[0], repr(run)) for _ in range(3)], run.sql(
            f"SELECT {k}"
        )

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(ask, range(4)))
    rows = run.sql("SELECT count(*) FROM ledger").fetchall()[0][0]
    assert [answers for answers, _ in found] == [[((k, rows), repr(run))] * 3 for k in range(4)]
    assert [late.fetchall() for _, late in found] == [[(k,)] for k in range(4)]


def test_threads_that_read_one_recording(page: dict[str, Any]) -> None:
    """Columns of one table are never taken for those of another."""
    recording, run, ready = forms.Recording(page["recording"].path), forms.Run(page["run"].path), Barrier(4)

    def rows(read: Any) -> set[int]:
        ready.wait()
        (columns,) = zip(*(read().values() for _ in range(50)), strict=True)
        return {len(c[0] if isinstance(c, tuple) else c) for c in columns}

    reads = [
        *(partial(recording.read, table, ("ts_ns",)) for table in ("switch", "waking")),
        *(partial(run.read_ledger, policy, names=("cpu",)) for policy in run.policies[:2]),
    ]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(rows, reads))
    assert found == [{recording.rows("switch")}, {recording.rows("waking")}, *[{recording.rows("decision")}] * 2]


def test_what_was_asked_can_be_copied_and_sent(page: dict[str, Any]) -> None:
    """Connections stay behind: with them it could be pickled until the first question, and not after it."""
    for name in ("recording", "run", "simulation"):
        made = page[name]
        asked = made.sql("SELECT count(*) FROM cpu").fetchall()
        for copied in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made), copy.copy(made)):
            assert copied.path == made.path and copied.sql("SELECT count(*) FROM cpu").fetchall() == asked


def test_a_session_may_go_elsewhere(page: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was named by a relative path was damaged then: "make it again"."""
    for name in ("recording", "run"):
        (tmp_path / name).symlink_to(page[name].path)
    monkeypatch.chdir(tmp_path)
    made = rewake.open("recording").replay("prev", out="made")
    opened = [rewake.open("recording"), rewake.open_run("run"), made]
    monkeypatch.chdir("/")
    n = page["recording"].table("decision").count("*").fetchall()
    assert [o.table("decision").count("*").fetchall() for o in opened] == [n] * 3
    assert [o.path for o in opened] == [tmp_path / "recording", tmp_path / "run", tmp_path / "made"]


def test_no_trace(tmp_path: Path) -> None:
    for name in ("none.dat", "n" * 5000):
        with pytest.raises(TraceError, match=r": no such file$|: File name too long$"):
            rewake.open(tmp_path / name)


def test_same_run_as_the_command_line(page: dict[str, Any]) -> None:
    """One way to make a run: what the command line wrote is found again in the cache."""
    recording = rewake.open(DEMO / "trace.dat")
    again = recording.replay(["linux-6.1", "idle-thread-scan"])
    assert again.path == recording.replay(["linux-6.1", "idle-thread-scan"]).path
    ledgers = [
        [run.sql(f"FROM ledger WHERE policy = '{p}'").fetchall() for p in run.policies] for run in (page["run"], again)
    ]
    assert ledgers[0] == ledgers[1]


def test_what_is_kept_is_of_the_engine_that_made_it(
    page: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever builds from source meets no run of the engine before."""
    recording = rewake.open(DEMO / "trace.dat")
    kept = recording.replay(["prev"]).path
    rebuilt = tmp_path / "engine.so"
    rebuilt.write_bytes(Path(str(_engine.__file__)).read_bytes() + b"rebuilt")
    monkeypatch.setattr(_engine, "__file__", str(rebuilt))
    assert recording.replay(["prev"]).path != kept


def test_the_package_loads_nothing_heavy() -> None:
    code = "import rewake, sys; print(*({'duckdb', 'numpy'} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert loaded.stdout.split() == []


def test_names_are_listed_before_their_first_use() -> None:
    code = "import rewake; print(sorted({*rewake.__all__} - {*dir(rewake)}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_display_name() -> None:
    assert runs.display_name(Path("a/trace.dat")) == "a"
