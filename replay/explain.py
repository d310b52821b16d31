# SPDX-License-Identifier: GPL-2.0-or-later
"""One decision explained: the open loop runs up to it, and there its policies tell their reasons.

The explanation comes from the code that decides in `rewake replay`, after the same history, so its answer is the
ledger's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from rewake.errors import UsageError
from rewake.forms import Recording
from rewake.replay.first_flips import FirstFlips
from rewake.replay.loop import Loop
from rewake.replay.spec import PolicySpec
from rewake.replay.unseen import MODES


def explain(
    recording: Recording,
    decision_id: int,
    specs: Sequence[PolicySpec],
    *,
    seed: int = 0,
    sync: str = "0",
    auto: PolicySpec | None = None,
    use_probes: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Any] | None:
    """What the policies saw, read and did at a decision; None where no policy is asked about it (its class says why).

    `sync`, `auto` and `use_probes` as for driver.replay. The engine's dict: `machine` (the View: llcs, cores, idle, nr,
    …), `wakeup` (inputs that belong to wakee and waker), `irq`, and `policies` in the order of `specs`: `has_path`,
    `decided`, `cpu`, `branch`, `looked` and `assumed` (bits of INPUTS), private state before the decision, and `steps`
    with the `reasons` of each. And `turned`: the previous CPU is idle there, or not, by the inferred order of events.
    UsageError for an unknown decision, policy or parameter.
    """
    rows = recording.manifest["rows"]["decision"]
    ends = list(accumulate(rows))
    row = decision_id - recording.first_decision
    if not 0 <= row < recording.rows("decision"):
        raise UsageError(f"no decision {decision_id}: {in_recording(recording)}")
    part = next(k for k, end in enumerate(ends) if row < end)
    loop = Loop(recording, seed, use_probes=use_probes)
    about = [loop.about(spec) for spec in specs]
    if sync in MODES and auto is None:
        raise UsageError(f"--assume sync={sync} needs the recorded kernel's own column, and there is none")
    unseen = loop.infer(auto, sync) if sync in MODES and auto is not None else None
    engine = loop.engine(specs, sync == "1", auto, (FirstFlips(),) if unseen is None else unseen.first_flips)
    events = recording.read_part("decision", part, ("event_id",))["event_id"]
    engine.watch([int(events[row - (ends[part] - rows[part])])])
    for k, _ in loop.run([engine], any(p["reads_irq"] for p in about), unseen):
        if progress is not None:
            progress(k + 1, part + 1)
        if k == part:
            break
    found = engine.explanations()
    turned = unseen is not None and unseen.turned is not None and bool(unseen.turned[row])
    return found[0] | {"turned": turned} if found else None


def in_recording(recording: Recording) -> str:
    """Which decisions there are, for error messages."""
    n = recording.rows("decision")
    first = recording.first_decision
    return f"{recording.given} has decisions {first} to {first + n - 1}" if n else f"{recording.given} has no decisions"
