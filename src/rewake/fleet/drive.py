# SPDX-License-Identifier: GPL-2.0-or-later
"""All tasks, once each: what is in the store already is skipped, what a machine could not do is tried again."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any

from rewake.errors import UsageError
from rewake.fleet.cell import sweep
from rewake.fleet.engines import Engine
from rewake.fleet.tasks import Task
from rewake.fleet.work import BROKEN, DONE, FAILED, Outcome
from rewake.forms import FleetStore

ROUNDS = 3
"""How often a task is handed out that a machine could not do."""
HOPELESS = 20
"""So many such tasks with no other outcome between them, and it is everywhere: a full disk, a store out of reach."""
BUNDLE = 8
"""Most tasks that are handed out together; one that is lost with its worker is looked up before it is done again."""
_RECENT_S = 30.0


@dataclass
class Summary:
    """What a run came to."""

    tasks: int = 0
    skipped: int = 0
    """Done, or known to fail, before."""
    known_failures: int = 0
    done: int = 0
    failed: int = 0
    left: int = 0
    """Not done: no machine could, or the run was stopped."""
    why: str | None = None
    """Why something is left."""
    seconds: float = 0.0
    cpu_s: float = 0.0
    """Of the tasks themselves, in their cells."""
    written: int = 0
    kinds: dict[str, int] = field(default_factory=dict)
    """Failures by kind."""

    def plain(self) -> dict[str, Any]:
        return dict(vars(self))


@dataclass(frozen=True)
class MaxFailed:
    """`--max-failed 20` or `--max-failed 5%`: more failures than that end the run."""

    number: float
    share: bool

    def limit(self, tasks: int) -> float:
        return self.number * tasks / 100 if self.share else self.number


def max_failed(text: str) -> MaxFailed:
    """Reads N or N%."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text)
    if match is None:
        raise UsageError(f"--max-failed {text}: a number of tasks or a percentage expected, such as 20 or 5%")
    if match[2] and float(match[1]) > 100:
        raise UsageError(f"--max-failed {text}: no more than 100% can fail")
    return MaxFailed(float(match[1]), bool(match[2]))


Show = Callable[[Summary, float | None, float | None], None]
"""Called with the summary so far, tasks per second of late, and the seconds that are left."""


def run(
    tasks: Sequence[Task],
    store: FleetStore,
    engine: Engine,
    *,
    retry_failed: bool = False,
    limit: MaxFailed | None = None,
    show: Show | None = None,
) -> Summary:
    """Does what is not in the store yet. Stops early where more failed than `limit`, or nothing can be done."""
    began = time.monotonic()
    store.tidy()
    sweep()
    done, failed = store.tasks()
    known = done if retry_failed else done | failed
    by_key = {t.key: t for t in tasks}
    open_ = [t for k, t in by_key.items() if k not in known]
    found = Summary(tasks=len(by_key), skipped=len(by_key) - len(open_), left=len(open_))
    found.known_failures = 0 if retry_failed else sum(k in failed for k in by_key)
    most = None if limit is None else limit.limit(len(by_key))
    recent: deque[float] = deque()
    for _ in range(ROUNDS):
        broken: list[Task] = []
        in_a_row = 0
        stopped = False

        def feed(given: Sequence[Task]) -> Iterator[Sequence[Task]]:
            for bundle in _bundles(given):
                if stopped:  # noqa: B023
                    return
                yield bundle

        outcomes = engine(feed(open_))
        for outcome in outcomes:
            _count(found, outcome)
            if outcome.status == BROKEN:
                broken.append(by_key[outcome.task])
                in_a_row += outcome.error != "worker"
                found.why = outcome.message
                stopped = stopped or in_a_row >= HOPELESS
            else:
                in_a_row = 0
            if most is not None and found.failed + found.known_failures > most:
                found.why = f"more than {most:g} tasks failed (--max-failed)"
                stopped = True
            found.seconds = time.monotonic() - began
            recent.append(found.seconds)
            while recent[0] < found.seconds - _RECENT_S:
                recent.popleft()
            if show is not None:
                span = found.seconds - recent[0]
                rate = (len(recent) - 1) / span if span > 0 else None
                show(found, rate, found.left / rate if rate else None)
        if stopped or not broken:
            break
        open_ = broken
    found.seconds = time.monotonic() - began
    if not found.left:
        found.why = None
    return found


def _bundles(tasks: Sequence[Task]) -> Iterator[list[Task]]:
    """Tasks that differ in the seed alone: what is cut and read once serves them all."""
    for _, same in groupby(tasks, lambda t: (t.where, t.from_ns, t.until_ns)):
        yield from _batched(same, BUNDLE)


def _batched(tasks: Iterator[Task], most: int) -> Iterator[list[Task]]:
    while taken := list(islice(tasks, most)):
        yield taken


def _count(found: Summary, outcome: Outcome) -> None:
    found.cpu_s += outcome.cpu_s
    found.written += outcome.written
    if outcome.status == BROKEN:
        return
    found.left -= 1
    if outcome.status == DONE:
        found.done += 1
    else:
        assert outcome.status == FAILED
        found.failed += 1
        kind = outcome.error or "unknown"
        found.kinds[kind] = found.kinds.get(kind, 0) + 1
