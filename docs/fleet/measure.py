# SPDX-License-Identifier: GPL-2.0-or-later
"""The measured inputs of the plan in docs/fleet.md: what a task, a shard and the scheduler cost on this machine.

    python docs/fleet/measure.py STORE TRACE

STORE is a filled fleet store, TRACE any trace. Times are CPU seconds of this process, which other load on the machine
disturbs little.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def cpu(work: Callable[[], Any]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def nothing(_: int) -> None:
    """What the scheduler is asked to have done."""


def scheduler(tasks: int) -> float:
    """CPU seconds of client and scheduler (one process here) per task that does nothing."""
    import distributed

    # Two workers of their own, so that this process is client and scheduler alone.
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit=0) as cluster,
        distributed.Client(cluster) as client,
    ):
        return cpu(lambda: client.gather(client.map(nothing, range(tasks), pure=False))) / tasks


def messages() -> tuple[int, int]:
    """Bytes of a task on its way to a worker, and of its outcome on the way back."""
    from rewake.fleet.tasks import OPEN, Study, Task, tool
    from rewake.fleet.work import DONE, Outcome

    study = Study(OPEN, ("idle-thread-scan", "random-idle"), {"sync": "auto", "probes": True}, "10s", (), tool())
    where = "s3://bucket/recordings/2026-11-20/host-01234/trace.dat"
    task = Task(study, where, where, "0" * 64, 0, 10**10)
    outcome = Outcome(task.key, DONE, 1.2345, 1.2345, 15000)
    return len(json.dumps(task.plain())), len(json.dumps(outcome.plain()))


def reduce_(store: Path, shards: int) -> tuple[float, float]:
    """CPU seconds to read so many shards, and to answer all queries of the report about them."""
    from rewake.analysis import fleet, sql
    from rewake.forms import FleetStore

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "done").mkdir()
        for file in sorted((store / "done").iterdir())[:shards]:
            shutil.copy(file, Path(folder) / "done")
        found: list[Any] = []
        read = cpu(lambda: found.append(FleetStore(folder).connect()))
        con = found[0]

        def ask() -> None:
            fleet.prepare(con, folder, min_skill=None, force=True)
            for name, query in sql.catalogue().items():
                if "shard" in query.requires:
                    sql.run(con, name)

        return read, cpu(ask)


def main() -> int:
    parser = argparse.ArgumentParser(description="Measured inputs of the plan in docs/fleet.md.")
    parser.add_argument("store", type=Path)
    parser.add_argument("trace", type=Path)
    given = parser.parse_args()
    sizes = [f.stat().st_size for f in (given.store / "done").iterdir()]
    print(f"shards in the store                 {len(sizes):>10,}")
    print(f"bytes per shard                     {sum(sizes) / len(sizes):>10,.0f}")
    there, back = messages()
    print(f"bytes per task, out and back        {there:>10,} + {back}")
    data = given.trace.read_bytes() * max(1, (64 << 20) // max(1, given.trace.stat().st_size))
    print(f"sha256, MB per cpu second           {len(data) / 1e6 / cpu(lambda: hashlib.sha256(data).digest()):>10,.0f}")
    for n in (500, 1000, 2000):
        if n <= len(sizes):
            read, asked = reduce_(given.store, n)
            print(f"reduce of {n:>5} shards, cpu s         {read:>7.2f} to read, {asked:.2f} to answer")
    for n in (2000, 10_000):
        print(f"scheduler and client, {n:>6,} tasks, us {1e6 * scheduler(n):>8,.0f} each")
    return 0


if __name__ == "__main__":
    sys.exit(main())
