# SPDX-License-Identifier: GPL-2.0-or-later
"""What bench/instructions.py counts instructions of, one stage after the other: `python stages.py TRACE RECORDING OUT`.

OUT gets what the counts are divided by, as JSON: events, decisions.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from replays import Replays

from rewake import quantity, runs
from rewake.collectors._decode import TraceDat
from rewake.forms import BATCH_EVENTS, Recording
from rewake.replay.decisions import decisions_of
from rewake.replay.simulate import Settings

POLICIES = (
    "recorded", "prev", "waker", "random-idle", "oracle-idle", "linux-6.1", "linux-4.5", "idle-thread-scan",
)  # fmt: skip


def main(trace: str, made: str, out: str) -> None:
    reader = TraceDat(trace, BATCH_EVENTS)
    while reader.next_batch():
        pass
    recording = Recording(made)
    for _ in decisions_of(recording):
        pass
    replays = Replays(recording)
    replays.seconds("linux-6.1")
    replays.seconds(*POLICIES)
    auto, specs = runs.simulated_specs(recording, [])
    settings = Settings(windows_ns=quantity.duration("1s"), seed=0)
    runs.make_simulation(recording, specs, settings, name="gate", out=Path(out).with_suffix(".run"), auto=auto)
    found = {"events": recording.manifest["events_total"], "decisions": replays.wakeups}
    Path(out).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
