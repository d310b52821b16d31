# SPDX-License-Identifier: GPL-2.0-or-later
"""What a shard holds is what the report of the same run says; fleet stores; traces and shards behind URLs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fleetcheck import check, shards, study

import rewake
from rewake import runs
from rewake.errors import TraceError, UsageError
from rewake.fleet import engines, plan
from rewake.fleet.cell import Limits
from rewake.fleet.drive import run
from rewake.fleet.tasks import CLOSED, Study, Task, tool
from rewake.fleet.work import FAILED, do, rows_of
from rewake.forms import FleetStore, connect
from rewake.forms.objects import Objects

ROOT = Path(__file__).parents[2]


def test_counts_are_those_of_the_report(recording: Path) -> None:
    policies = ("oracle-idle", "wakeup-buddy")
    task = plan.tasks(plan.find([str(recording)]).sources, study(*policies), seeds=(3,))[0]
    rows = {row["policy"]: row for row in rows_of(task)}
    report = rewake.open(recording).replay(list(policies), seed=3, force=True).report
    assert list(rows) == sorted(p.policy for p in report.policies)
    for p in report.policies:
        row = rows[p.policy]
        for name in ("decisions", "would_move", "cross_llc_prev", "cross_llc_waker", "cross_node_prev", "stacked",
                     "cross_node_waker", "idle_missed_llc", "idle_missed_machine", "exposed", "self_collision", "moved",
                     "censored", "no_estimate"):  # fmt: skip
            assert row[name] == p[name], (p.policy, name)
        assert row["ranked"] == p["n"]
        assert row["agreed"] == pytest.approx(p["agreement"] * p["decisions"])
        assert row["agreed"] == pytest.approx(p["known_pct"] / 100 * p["decisions"])
        assert row["prev_agreed"] == pytest.approx(p["prev_agreement"] * p["decisions"])
        assert row["moved_agreed"] == pytest.approx((p["moved_agreement"] or 0) * p["moved"])
        assert row["policy_moved_agreed"] == pytest.approx((p["moved_precision"] or 0) * p["policy_moved"])
        assert row["llc_agreed"] == pytest.approx(p["llc_agreement"] * p["decisions"])
        assert row["scanned"] == pytest.approx((p["mean_cpus"] or 0) * (p["scans"] or 0))
        assert row["assumed"] == pytest.approx(p.inputs.get("any", 0) / 100 * p["decisions"])
        assert sum(row["lo_n"]) + row["no_estimate"] == row["ranked"] >= sum(row["hi_n"])
    assert rows["recorded"]["lo_n"] == rows["recorded"]["hi_n"] and rows["linux-6.1"]["auto"]


def test_cgroups_add_up_to_the_whole() -> None:
    trace = ROOT / "fixtures" / "cgroup-throttle-split-llc" / "trace.dat"
    source = plan.find([f"{trace}@0ms..60ms"]).sources
    rows = rows_of(plan.tasks(source, study("prev"))[0])
    for policy in ("recorded", "prev"):
        whole = next(r for r in rows if r["policy"] == policy and r.get("cgroup") is None)
        parts = [r for r in rows if r["policy"] == policy and r.get("cgroup") is not None]
        assert len(parts) > 2 and "/service/web" in {r["cgroup"] for r in parts}
        for name in ("decisions", "would_move", "agreed", "scans", "ranked", "censored", "no_estimate"):
            assert sum(r[name] for r in parts) == whole[name], name
        for side in ("lo", "hi"):
            merged: dict[int | None, int] = {}
            for part in parts:
                for bucket, n in zip(part.get(f"{side}_bucket") or (), part.get(f"{side}_n") or (), strict=True):
                    merged[bucket] = merged.get(bucket, 0) + n
            assert merged == dict(zip(whole[f"{side}_bucket"], whole[f"{side}_n"], strict=True))


def test_a_simulated_task(recording: Path) -> None:
    closed = Study(CLOSED, ("idle-thread-scan",), {"windows": "20ms"}, "", (), tool())
    task = plan.tasks(plan.find([str(recording)]).sources, closed)[0]
    rows = {row["policy"]: row for row in rows_of(task)}
    assert {r["kind"] for r in rows.values()} == {"factual", "policy", "pinned", "null"}
    run_ = rewake.open(recording).simulate(["idle-thread-scan"], windows="20ms", force=True)
    for p in run_.report.policies:
        row = rows[p["policy"]]
        assert (row["ranked"], row["censored"]) == (p["n"], p["censored"])
        assert sum(row["lo_n"]) == row["ranked"] and row["lo_n"] == row["hi_n"]
        assert row["sim_ns"] > 0 and row["windows"] >= row["diverged"]


def test_a_shard_is_a_parquet_file_that_says_what_it_is(reference: Path, tasks: list[Task]) -> None:
    con = connect()
    file = reference / "done" / f"{tasks[0].key}.parquet"
    kv = con.execute(f"SELECT key::VARCHAR, value::VARCHAR FROM parquet_kv_metadata('{file}')").fetchall()
    assert ("rewake_table", "shard") in kv
    row = con.execute(f"SELECT DISTINCT task, uri, from_ns, workload, made, kernel, llcs FROM '{file}'").fetchall()
    at = "2026-11-20T00:00:00Z"
    assert row == [(tasks[0].key, tasks[0].uri, 0, "web", at, "6.1.0-56-cloud-amd64", 2)]


def test_failures_say_why_and_name_the_trace_as_it_was_named(reference: Path) -> None:
    con = FleetStore(reference).connect()
    found = con.execute("SELECT DISTINCT error, message FROM shard WHERE error IS NOT NULL").fetchall()
    assert len(found) == 3 and {kind for kind, _ in found} == {"trace"}
    for name in ("garbled.dat", "empty.dat", "gone.dat"):
        assert any(name in message for _, message in found)
    assert not any("/tmp/rewake-" in message for _, message in found)


def test_a_name_that_is_not_utf8_is_shown_in_bytes_and_stops_nothing(tmp_path: Path) -> None:
    """No shard could be written of it, so the run never came to its end."""
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / os.fsdecode(b"t\xff.dat")).write_bytes(b"")
    (task,) = plan.tasks(plan.find([str(tmp_path / "traces")]).sources, study())
    store = FleetStore(tmp_path / "store")
    done = do(task, store)
    assert (done.status, done.error) == (FAILED, "trace")
    ((uri, message),) = store.connect().execute("SELECT uri, message FROM shard").fetchall()
    assert uri.endswith("/t\\xff.dat") and message.startswith(f"{uri}: empty")
    assert runs.display_name(tmp_path / os.fsdecode(b"t\xff.dat")) == "t\\xff"


def test_a_fleet_store_of_another_version(reference: Path, tmp_path: Path) -> None:
    con = connect()
    (tmp_path / "done").mkdir()
    for i, file in enumerate(sorted((reference / "done").glob("*"))[:2]):
        columns = "* EXCLUDE (kernel, hi_n)" if i else "*, 7 AS flavour"
        con.execute(f"COPY (SELECT {columns} FROM '{file}') TO '{tmp_path / 'done' / file.name}'").fetchall()
    shard = FleetStore(tmp_path).connect()
    assert shard.execute("SELECT count(DISTINCT task), count(kernel) > 0 FROM shard").fetchall() == [(2, True)]
    (tmp_path / "done" / "half.parquet").write_bytes(b"PAR1")
    with pytest.raises(TraceError, match="damaged"):
        FleetStore(tmp_path).connect()


def test_a_file_that_is_no_shard_or_another_counts_for_nothing(reference: Path, tmp_path: Path) -> None:
    (tmp_path / "done").mkdir()
    file = min((reference / "done").glob("*"))
    shutil.copy(file, tmp_path / "done")
    for data, why in ((file.read_bytes(), "holds another task"), (b"", "damaged"), (None, "no shard of rewake")):
        odd = tmp_path / "done" / "copy.parquet"
        if data is None:
            connect().execute(f"COPY (SELECT 'prev' AS policy) TO '{odd}'").fetchall()
        else:
            odd.write_bytes(data)
        with pytest.raises(TraceError, match=f"{odd}: .*{why}"):
            FleetStore(tmp_path).connect()


def test_no_fleet_store_and_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no fleet store"):
        FleetStore(tmp_path / "none").connect()
    with pytest.raises(UsageError, match="empty"):
        FleetStore(tmp_path).connect()


def test_shards_and_traces_behind_a_url(recording: Path) -> None:
    fsspec = pytest.importorskip("fsspec")
    fsspec.filesystem("memory").put(str(recording), "/traces/demo.rewake", recursive=True)
    work = plan.tasks(plan.find(["memory://traces/demo.rewake@0ms..20ms"]).sources, study())
    store = FleetStore("memory://fleets/one")
    assert run(work, store, engines.inline("memory://fleets/one")).done == 1
    assert run(work, store, engines.inline("memory://fleets/one")).skipped == 1
    assert store.connect().execute("SELECT DISTINCT uri FROM shard").fetchall() == [("memory://traces/demo.rewake",)]


def test_a_file_url_is_a_directory(tmp_path: Path) -> None:
    objects = Objects(f"file://{tmp_path}/new/store")
    objects.put("done/a.parquet", b"whole")
    assert objects.names("done") == ["done/a.parquet"]
    assert (tmp_path / "new/store/done/a.parquet").read_bytes() == b"whole"


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    server = pytest.importorskip("moto.server")
    pytest.importorskip("s3fs")
    import fsspec

    running = server.ThreadedMotoServer(port=0, verbose=False)
    running.start()
    host, port = running.get_host_and_port()
    for name, value in (("AWS_ACCESS_KEY_ID", "x"), ("AWS_SECRET_ACCESS_KEY", "x"), ("AWS_DEFAULT_REGION", "us-east-1"),
                        ("AWS_ENDPOINT_URL", f"http://{host}:{port}")):  # fmt: skip
        monkeypatch.setenv(name, value)
    system = fsspec.filesystem("s3", skip_instance_cache=True)
    system.mkdir("bucket")
    yield system
    running.stop()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_an_object_store(s3: Any, recording: Path, tasks: list[Task], reference: Path, tmp_path: Path) -> None:
    """Traces from it and shards to it, from cells; the same bytes as in a directory."""
    limits = Limits(1 << 30, 60)
    found = run(tasks, FleetStore("s3://bucket/fleet"), engines.local("s3://bucket/fleet", limits, 2))
    s3.get("bucket/fleet", str(tmp_path / "copy"), recursive=True)
    check(found, tmp_path / "copy", reference)
    assert run(tasks, FleetStore("s3://bucket/fleet"), engines.inline("s3://bucket/fleet")).skipped == len(tasks)
    assert len(shards(tmp_path / "copy")) == len(tasks)
    s3.put(str(recording), "bucket/traces/demo.rewake", recursive=True)
    remote = plan.tasks(plan.find(["s3://bucket/traces"]).sources, study())
    assert run(remote, FleetStore("s3://bucket/two"), engines.local("s3://bucket/two", limits, 1)).done == 1
    con = FleetStore("s3://bucket/two").connect()
    assert con.execute("SELECT DISTINCT uri FROM shard").fetchall() == [("s3://bucket/traces/demo.rewake",)]
