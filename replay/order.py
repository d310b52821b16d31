# SPDX-License-Identifier: GPL-2.0-or-later
"""Whether the wakee's previous CPU had gone idle when placement looked, where clocks cannot tell.

Events of two CPUs less than a few microseconds apart have no known order, and most often the times are the best guess.
But a load that repeats itself in lockstep, like messages that go round, brings the same two CPUs to the same distance
in every round, and their clocks' error with them: then an order that comes out wrong does so every time, and the other
rounds tell. A wakeup whose answer hangs on it votes: for the order of the times where they lead to the recorded choice,
for the other where that does. An answer is turned where nearly all votes of the same two CPUs around it, without its
own, are for the other order, and there are some; where rounds differ, votes do, and the times are left alone. Some
lockstep lasts for five rounds only, less than a fold's block of time: the nearest rounds are heard, too. They may be,
since no vote hangs on what an order was taken to be, so that an outcome comes into its own vote and no other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]

WINDOW_NS = 2_000
"""Events less than this apart on two CPUs have no known order, unless the recording says more of its clock."""

AROUND_NS = 5_000_000
"""Votes this far before and after count: rounds take tens of microseconds, and loads drift."""

FEWEST, SHARE = 3, 0.8
"""So many votes, and of them so many for the other order."""


def turned(
    pair: npt.NDArray[Any], ts: npt.NDArray[np.int64], votes: npt.NDArray[np.int8], *, causal: bool = False
) -> Bools:
    """Per wakeup: the other order holds. `pair`: a number of the two CPUs, and of whether the previous one was idle by
    the times; `votes`: 1 for the other order, -1 for that of the times, 0; its own does not count. `causal`: only those
    before it do."""
    out = np.zeros(len(ts), np.bool_)
    if not len(ts):
        return out
    order = np.lexsort((ts, pair))
    since = ts[order] - ts.min()
    key = pair[order].astype(np.int64) * (int(since.max()) + 2 * AROUND_NS + 1) + since  # in reach: of the same pair
    first = np.searchsorted(key, key - AROUND_NS)
    end = np.searchsorted(key, key) if causal else np.searchsorted(key, key + AROUND_NS, "right")

    def counted(cast: Bools) -> npt.NDArray[np.int64]:
        sums = np.concatenate([[0], np.cumsum(cast[order])])
        found: npt.NDArray[np.int64] = sums[end] - sums[first] - (0 if causal else cast[order])
        return found

    other, all_ = counted(votes > 0), counted(votes != 0)
    out[order] = (all_ >= FEWEST) & (other >= SHARE * all_)
    return out
