# SPDX-License-Identifier: GPL-2.0-or-later
"""The closed loop in this process, over generated recordings that a simulation can re-run."""

from __future__ import annotations

import time
from pathlib import Path

from replays import MACHINES, imported, make_trace

IN_CHARGE = (
    "prev", "waker", "random-idle", "oracle-idle", "linux-6.1", "linux-4.12", "linux-4.5", "idle-thread-scan",
)  # fmt: skip


class Simulations:
    """One recording of a machine of so many CPUs, about `events` events, and its windows of the default length."""

    def __init__(self, folder: Path, events: int, cpus: int) -> None:
        from rewake.replay.simulate import Settings, Simulator
        from rewake.replay.spec import PolicySpec

        self.trace = make_trace(folder, events, "none", cpus, causal=True)
        recording = imported(self.trace, MACHINES[cpus].topology, folder)
        self.simulator = Simulator(recording, Settings(), PolicySpec("linux-6.1"))

    def run(self, *policies: str, warm_up: bool = True) -> tuple[float, int]:
        """cpu-seconds of all windows with each policy in charge, the recording followed; counted wakeups."""
        from rewake.replay.simulate import arms_of, plan
        from rewake.replay.spec import PolicySpec

        specs = [PolicySpec(name) for name in policies]
        wanted = {str(s) for s in specs}
        arms = [arm for arm in arms_of(self.simulator, specs) if arm.name in wanted]
        s = self.simulator
        windows = s.windows if warm_up else plan(s.span[0], s.usable, s.length, 0, end=s.span[1])
        start = time.process_time()
        wakeups = sum(len(result["woken"]["ts_ns"]) for result in s.run(arms, windows))
        return time.process_time() - start, wakeups

    def seconds(self, *policies: str) -> float:
        return self.run(*policies)[0]

    def per_wakeup(self, *policies: str) -> float:
        """Nanoseconds of a simulated wakeup: the mean over the policies. Without warm-up: all that are simulated count.
        Of the short windows of a large machine's recording the warm-up is half, of others a third."""
        seconds, wakeups = self.run(*policies, warm_up=False)
        return seconds / max(1, wakeups) * 1e9
