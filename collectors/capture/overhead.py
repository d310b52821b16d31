# SPDX-License-Identifier: GPL-2.0-or-later
"""What recording costs the recorded command: the command alone and under recording, in turns (A B A B)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median

from rewake.collectors.capture.process import Run, reap, spawn
from rewake.collectors.capture.session import Outcome, Request, write_notes
from rewake.errors import RewakeError

PAIRS = 2


def measure(request: Request, record: Callable[[], Outcome]) -> Outcome:
    """Runs `request.command` PAIRS times alone and PAIRS times by `record`; the last recording is the result, with the
    cost written beside it. Raises RewakeError when a recorded run did not come to its end."""
    alone: list[Run] = []
    recorded: list[Run] = []
    for _ in range(PAIRS):
        alone.append(_alone(request.command))
        outcome = record()
        if outcome.run is None or outcome.stopped_by != "command":
            raise RewakeError(f"no overhead: the recording ended by {outcome.stopped_by} before the command did")
        recorded.append(outcome.run)
    wall = percent([r.wall_s for r in alone], [r.wall_s for r in recorded])
    cpu = percent([r.cpu_s for r in alone], [r.cpu_s for r in recorded])
    write_notes(request.directory / "topology", overhead_wall_pct=f"{wall:.2f}", overhead_cpu_pct=f"{cpu:.2f}",
                overhead_pairs=PAIRS)  # fmt: skip
    return outcome


def _alone(command: Sequence[str]) -> Run:
    began = time.monotonic()
    run = reap(spawn(command), began, wait=True)
    assert run is not None
    return run


def percent(without: Sequence[float], with_: Sequence[float]) -> float:
    """Median over the pairs of what `with_` takes more than `without`, in per cent; 0 where nothing was measurable."""
    return 100.0 * median(b / a - 1 if a > 0 else 0.0 for a, b in zip(without, with_, strict=True))
