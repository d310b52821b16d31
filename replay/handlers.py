# SPDX-License-Identifier: GPL-2.0-or-later
"""Interrupt handlers that have their CPU whatever runs there. They are as many as the events: of them only those of a
stretch of time are in memory."""

from __future__ import annotations

from contextlib import closing

import numpy as np

import rewake.replay._engine as _engine
from rewake.forms import ENUMS, Recording, sparingly
from rewake.replay.segments import Growing, pieces_of

LONG_HANDLER = 20_000
"""No scheduler tick, timer or reschedule interrupt takes so long on the fastest CPU, ns: one that does has
other work to do. A timer that wakes a task takes 23 us on a CPU of 462 in the lab."""

_INTERRUPTS = """
WITH marks AS (
    SELECT
        cpu, kind, entry, ts_ns AS from_ns,
        lead(ts_ns) OVER later AS to_ns,
        lead(kind) OVER later AS next_kind,
        lead(entry) OVER later AS next_entry
    FROM irq WINDOW later AS (PARTITION BY cpu ORDER BY id)
),

slow AS (SELECT cpu, max(capacity) OVER () / nullif(capacity, 0) AS times FROM cpu)

SELECT marks.cpu, from_ns, to_ns
FROM marks LEFT JOIN slow ON slow.cpu = marks.cpu, (SELECT coalesce(bool_or(kind = {timer}), false) AS told FROM irq)
WHERE entry AND NOT next_entry AND next_kind = kind
    AND to_ns - from_ns >= CASE WHEN kind = {device} AND told THEN 0 ELSE {long} * coalesce(times, 1) END
    AND NOT EXISTS (
        SELECT 1 FROM loss WHERE loss.cpu = marks.cpu AND loss.ts_ns BETWEEN marks.from_ns AND marks.to_ns
    )
ORDER BY from_ns, to_ns, marks.cpu
"""
"""Handlers of devices, and others that last: time of their CPUs that no placement changes. The rest (ticks, reschedule
interrupts) is a consequence of what runs where, and stays in the work of the interrupted tasks. Without irq_vectors
events (arm64 has none) timers and reschedule interrupts look like devices: then only what lasts counts."""

_MARKED = 1024
"""Of so many handlers the time of one is in memory."""


class Handlers:
    """Those of a recording, by time."""

    def __init__(self, recording: Recording) -> None:
        self._n_cpus = len(recording.read("cpu", ("cpu",))["cpu"])
        self._kept = Growing()
        self._longest = 0
        marks = [np.empty(0, np.int64)]
        device, timer = (ENUMS["irq_kind"].index(kind) for kind in ("device", "local_timer"))
        asked = _INTERRUPTS.format(device=device, timer=timer, long=LONG_HANDLER)
        with closing(recording.connect(("cpu", "irq", "loss"))) as con:
            sparingly(lambda: con.execute(f"CREATE OR REPLACE TEMP TABLE handlers AS {asked}").fetchall())
            for columns in pieces_of(con, "handlers"):
                self._kept.append(columns)
                self._longest = max(self._longest, int((columns["to_ns"] - columns["from_ns"]).max()))
                marks.append(columns["from_ns"][::_MARKED].copy())
            con.execute("DROP TABLE handlers").fetchall()
        self._marks = np.concatenate(marks)

    def during(self, first_ns: int, end_ns: int) -> _engine.Interrupts:
        """All that have some of that time, and some that have not."""
        first, end = np.searchsorted(self._marks, [first_ns - self._longest, end_ns]) * _MARKED
        first, end = max(int(first) - _MARKED, 0), min(int(end), len(self._kept))
        columns = self._kept.read(first, end) if first < end else {n: np.empty(0, t) for n, t in _NONE.items()}
        return _engine.Interrupts(columns, self._n_cpus)


_NONE = {"cpu": np.uint16, "from_ns": np.int64, "to_ns": np.int64}
