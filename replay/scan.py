# SPDX-License-Identifier: GPL-2.0-or-later
"""Inference of nr_idle_scan, which no event carries (`--assume sync=auto`).

The balancer writes one value per LLC every some milliseconds, and every idle search until then is bounded by it. The
recorded kernel's own column is asked under each of a few values; a decision takes the value under which most of the
*other* decisions of that LLC near it in time come out as recorded (leave-one-out). Where several do, the nearest to the
modelled one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
WINDOW_NS = 2_000_000
"""How far around a decision others speak for it: the balancer runs from the tick, 4 ms apart at 250 Hz."""


def candidates(llc_size: int) -> list[int]:
    """Values that are tried: all small ones, of the large ones every second and further."""
    steps = [*range(7), *range(8, 17, 2), *range(20, 65, 4)]
    return sorted({v for v in steps if v < llc_size} | {llc_size})


def infer(
    ts: npt.NDArray[np.int64],
    searched: npt.NDArray[np.integer],
    llc: npt.NDArray[np.integer],
    agrees: npt.NDArray[np.bool_],
    values: Sequence[int],
    model: Ints,
    window_ns: int = WINDOW_NS,
) -> Ints:
    """nr_idle_scan of LLC `llc[i]` at decision i.

    `ts`: ascending. `searched`: LLC that the decision's search is in; negative: no evidence. `agrees[v, i]`: the column
    chose what was recorded under `values[v]`. `model`: the modelled value of `llc[i]`.
    """
    out = model.copy()
    tried = np.asarray(values, np.int32)
    most = 2 * int(tried.max(initial=0)) + 2  # a vote more weighs more than any distance
    for one in np.unique(llc):
        where = np.nonzero(searched == one)[0]
        asked = np.nonzero(llc == one)[0]
        low = np.searchsorted(ts[where], ts[asked] - window_ns, "left")
        high = np.searchsorted(ts[where], ts[asked] + window_ns, "right")
        own = searched[asked] == one
        model_here = model[asked]
        best, choice = np.full(len(asked), np.iinfo(np.int64).min), np.zeros(len(asked), np.int32)
        sums = np.zeros(len(where) + 1, np.int32)
        for value, agreed in zip(tried, agrees, strict=True):  # one at a time: the arrays stay in the cache
            np.cumsum(agreed[where], out=sums[1:])
            votes = sums[high] - sums[low] - (agreed[asked] & own)  # never its own
            score = votes * np.int64(most) - np.abs(value - model_here)
            better = score > best
            best[better], choice[better] = score[better], value
        out[asked] = choice
    return out


def carried(of: npt.NDArray[np.integer], wanted: npt.NDArray[np.integer], values: Ints) -> Ints:
    """The last of `values`, each of LLC `of[i]`, that is of LLC `wanted[i]`, up to i; before the first, values[i]."""
    out = values.copy()
    for one in np.unique(wanted):
        have = np.nonzero(of == one)[0]
        asked = np.nonzero(wanted == one)[0]
        at = np.searchsorted(have, asked, "right") - 1
        out[asked[at >= 0]] = values[have[at[at >= 0]]]
    return out
