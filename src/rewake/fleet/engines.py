# SPDX-License-Identifier: GPL-2.0-or-later
"""Who does the tasks: this process, processes of this machine, a Dask cluster, a Ray cluster.

An engine takes bundles of tasks from an iterator when it has room for them, and gives the outcomes in the order in
which they come. The tasks of a bundle share a window of a trace and are done by one worker, one after another. An
engine keeps nothing: what was done is in the store, so one that dies in the middle costs what was under way.
"""

from __future__ import annotations

import importlib
import logging
import os
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any

from rewake.errors import MissingExtra
from rewake.fleet.cell import Cell, Limits
from rewake.fleet.tasks import Task
from rewake.fleet.work import BROKEN, Outcome, do
from rewake.forms import FleetStore

Bundle = Sequence[Task]
Engine = Callable[[Iterator[Bundle]], Iterator[Outcome]]

AHEAD = 4
"""Bundles handed out per worker: enough that none waits for the next, few enough that the scheduler stays small."""


def inline(store: str) -> Engine:
    """In this very process, one after another: the reference. A crash ends it, limits there are none."""
    target = FleetStore(store)
    return lambda bundles: (do(task, target) for bundle in bundles for task in bundle)


def local(store: str, limits: Limits, workers: int | None) -> Engine:
    """Cells of this machine, one per worker."""

    def outcomes(bundles: Iterator[Bundle]) -> Iterator[Outcome]:
        answers: queue.SimpleQueue[Outcome | BaseException | None] = queue.SimpleQueue()
        taking, stopped = threading.Lock(), threading.Event()
        cells = [Cell(store, limits) for _ in range(workers or os.cpu_count() or 1)]

        def work(cell: Cell) -> None:
            try:
                while not stopped.is_set():
                    with taking:
                        bundle = next(bundles, ())
                    if not bundle:
                        break
                    for outcome in cell.run_all(bundle):
                        answers.put(outcome)
            except BaseException as error:
                answers.put(error)
            finally:
                cell.close()
                answers.put(None)

        threads = [threading.Thread(target=work, args=(cell,), daemon=True) for cell in cells]
        for thread in threads:
            thread.start()
        left = len(threads)
        try:
            while left:
                answer = answers.get()
                if answer is None:
                    left -= 1
                elif isinstance(answer, BaseException):
                    raise answer
                else:
                    yield answer
        finally:
            stopped.set()
            for cell in cells:
                cell.stop()
            for thread in threads:
                thread.join(10)

    return outcomes


_KEPT = threading.local()


def in_cell(bundle: list[dict[str, Any]], store: str, limits: Limits) -> list[dict[str, Any]]:
    """A bundle on a cluster's worker: in the cell of the thread that is asked. Plain data both ways."""
    if getattr(_KEPT, "of", None) != (store, limits):
        if hasattr(_KEPT, "cell"):
            _KEPT.cell.close()
        _KEPT.cell, _KEPT.of = Cell(store, limits), (store, limits)
    return [outcome.plain() for outcome in _KEPT.cell.run_all([Task.of(task) for task in bundle])]


_DASK = {
    # One task at a time on a worker: when it dies, no other is blamed for it.
    "distributed.scheduler.worker-saturation": 1.0,
    # A worker only waits for its cell, and holds one bundle: nothing to sample, to watch or to steal.
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.scheduler.work-stealing": False,
    "distributed.scheduler.active-memory-manager.start": False,
}


def dask(store: str, limits: Limits, workers: int | None, address: str | None) -> Engine:
    """A Dask cluster at `address` (tcp://HOST:8786, or a scheduler file); None: one of this machine's own."""

    def outcomes(bundles: Iterator[Bundle]) -> Iterator[Outcome]:
        distributed = _extra("distributed", "fleet", "--engine dask")
        config = importlib.import_module("dask.config")
        with config.set(_DASK), _client(distributed, workers, address) as client:
            room = AHEAD * max(1, sum(client.nthreads().values()))
            waiting = distributed.as_completed()
            of: dict[str, Bundle] = {}

            def hand_out() -> None:
                while len(of) < room and (bundle := next(bundles, ())):
                    future = client.submit(in_cell, _plain(bundle), store, limits, pure=False)
                    of[future.key] = bundle
                    waiting.add(future)

            hand_out()
            for future in waiting:
                bundle = of.pop(future.key)
                error = future.exception()
                yield from _outcomes(future.result()) if error is None else _broken(bundle, error)
                hand_out()

    return outcomes


def _client(distributed: Any, workers: int | None, address: str | None) -> Any:
    if address is None:
        cluster = distributed.LocalCluster(
            n_workers=workers or os.cpu_count(), threads_per_worker=1, dashboard_address=":0", memory_limit=0,
            silence_logs=logging.CRITICAL,
        )  # fmt: skip
        client = distributed.Client(cluster)
        close = client.close

        def close_both(*given: Any, **named: Any) -> None:
            close(*given, **named)
            cluster.close()

        client.close = close_both
        return closing(client)
    if os.path.isfile(address):
        return closing(distributed.Client(scheduler_file=address))
    return closing(distributed.Client(address))


def ray(store: str, limits: Limits, workers: int | None, address: str | None) -> Engine:
    """A Ray cluster at `address` (`auto`, HOST:6379, ray://HOST:10001); None: one of this machine's own."""

    def outcomes(bundles: Iterator[Bundle]) -> Iterator[Outcome]:
        module = _extra("ray", "ray", "--engine ray")
        if address is None:
            module.init(address="local", num_cpus=workers, include_dashboard=False, log_to_driver=False)
        else:
            module.init(address=address, log_to_driver=False)
        try:
            asked = module.remote(num_cpus=1, max_retries=2)(in_cell)
            room = AHEAD * max(1, int(module.cluster_resources().get("CPU", 1)))
            of: dict[Any, Bundle] = {}
            while True:
                while len(of) < room and (bundle := next(bundles, ())):
                    of[asked.remote(_plain(bundle), store, limits)] = bundle
                if not of:
                    return
                ready, _ = module.wait(list(of), num_returns=1)
                for reference in ready:
                    bundle = of.pop(reference)
                    try:
                        found = _outcomes(module.get(reference))
                    except module.exceptions.RayError as error:
                        found = _broken(bundle, error)
                    yield from found
        finally:
            module.shutdown()

    return outcomes


def _plain(bundle: Bundle) -> list[dict[str, Any]]:
    return [task.plain() for task in bundle]


def _outcomes(plain: list[dict[str, Any]]) -> list[Outcome]:
    return [Outcome(**p) for p in plain]


def _broken(bundle: Bundle, error: BaseException) -> list[Outcome]:
    """The worker was lost, again and again: nothing is known of its tasks."""
    message = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return [Outcome(task.key, BROKEN, error="worker", message=message) for task in bundle]


def _extra(module: str, extra: str, what: str) -> Any:
    try:
        found = importlib.import_module(module)
    except ModuleNotFoundError:
        raise MissingExtra(extra, what) from None
    if found.__file__ is None:  # some folder of that name, where Python looks for modules
        raise MissingExtra(extra, what)
    return found
