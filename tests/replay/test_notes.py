# SPDX-License-Identifier: GPL-2.0-or-later
"""What a simulation says that it does not know."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from rewake.replay import hotplug, simulate


@pytest.mark.parametrize(
    ("away", "events", "never_idle", "topology", "said"),
    [
        ((5, 3, 5), {"sched_wakeup": 9}, False, "snapshot", "offline for a time: CPU 3, 5: busy then"),
        ((), {"sched_waking": 9}, False, "snapshot", "no sched_wakeup: when a wakee was queued is a model"),
        ((), {"sched_wakeup": 9}, True, "snapshot", "no wakeup onto an idle CPU was recorded"),
        ((), {"sched_wakeup": 9}, False, None, "no topology: searches, domains and costs of moves"),
    ],
)
def test_the_closed_loop_says_what_it_does_not_know(
    monkeypatch: pytest.MonkeyPatch, away: tuple[int, ...], events: dict[str, int], never_idle: bool,
    topology: str | None, said: str,
) -> None:  # fmt: skip
    gone = [hotplug.Away(cpu, 0, (1, 2), 3, (4, 5)) for cpu in away]
    monkeypatch.setattr(simulate, "machine_notes", lambda *_: ["no SMT"])
    simulator = SimpleNamespace(
        recording=SimpleNamespace(manifest={"events": events, "topology": topology}),
        loop=SimpleNamespace(away=gone), never_idle=never_idle, span=(0, 10**9),
    )  # fmt: skip
    first, note = simulate._notes(simulator, [], 0)  # type: ignore[arg-type]
    assert first == "no SMT" and note.startswith(said)
