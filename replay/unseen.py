# SPDX-License-Identifier: GPL-2.0-or-later
"""Inference of what no event carries (`--assume sync=auto`, `sync=causal`): WF_SYNC, wakee_flips at the start, and
nr_idle_scan.

The recorded kernel's own column is asked once under every value of them (engine/panel.hpp); what it answers does not
depend on what was recorded of any wakeup. A value is then chosen for each wakeup by the votes of others: those at which
the answer is the recorded one. Which others, is the mode:

- `auto`: time is cut into short blocks, and these are dealt to folds. What is inferred for one fold comes from the
  others, and so does everything that is inferred on the way; nr_idle_scan of a block comes from the other blocks. So no
  outcome comes back to its own wakeup, not even through what was inferred for another one.
- `causal`: those before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rewake.replay import _engine, sync
from rewake.replay.sync import Bools, Ints, Sites


class FirstFlips(NamedTuple):
    """One hypothesis of wakee_flips of the tasks older than the recording (engine/flips.hpp)."""

    flips: int = 0
    """What all of them inherited."""
    grown_s: float = 0.0
    """For so long each added to that what it adds at the beginning of the recording."""
    halved_s: float = 0.0
    """So long after the start they are halved first; 0: at once."""


_LATER = 1.0
FIRST_FLIPS = (
    *(FirstFlips(n) for n in (0, 16, 32, 64, 96, 128, 192, 256)),
    *(FirstFlips(n, 0.0, _LATER) for n in (16, 24, 32, 40, 48, 64, 96, 128)),
    *(FirstFlips(n, age, _LATER - age) for age in (0.15, 0.3, 0.45, 0.6, 0.8) for n in (32, 64, 128)),
)
"""Hypotheses of wakee_flips at the start that are tried. They are halved once a second at most."""

MODES = ("auto", "causal")

FOLDS = 4
BLOCK_NS = 250_000
"""Time is cut into blocks of this length, which are dealt to so many folds."""
STAYS, KEPT = 0.95, 0.1
"""nr_idle_scan changes only when a CPU of its LLC may balance it: how likely it stays where the model says that none
did, and where one did."""
DOUBT = 0.05
"""Weight of a value under which a wakeup comes out otherwise."""
NEAR = 16
"""A jump goes that share of the LLC's CPUs away from the modelled value, at least one."""

_MODELLED = 1 << 31


class Unseen(NamedTuple):
    """Inferred values, per decision."""

    sync: Bools
    """WF_SYNC."""
    told: Bools
    """Enough wakeups spoke for that; else the flag is taken as clear."""
    first_flips: tuple[FirstFlips, ...] = (FirstFlips(),)
    """Values of wakee_flips of the tasks older than the recording."""
    flips: npt.NDArray[np.uint8] | None = None
    """Which of them; None: the first."""
    scan: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]] | None = None
    """nr_idle_scan of the LLCs of the waker's and of the previous CPU; None: as modelled."""


class Asked(NamedTuple):
    """The panel's answers over all decisions (engine/panel.hpp), and what tells the decisions apart."""

    ts: npt.NDArray[np.int64]
    waker: npt.NDArray[np.uint32]
    wakee: npt.NDArray[np.uint32]
    may: Bools
    llc_waker: npt.NDArray[np.uint16]
    llc_prev: npt.NDArray[np.uint16]
    agreed: npt.NDArray[np.uint32]
    """Four per decision: bits of the values of nr_idle_scan, the highest bit the modelled one."""
    searched: npt.NDArray[np.uint8]
    """Four per decision."""
    wide: npt.NDArray[np.uint32]
    decided: Bools
    scan_prev: npt.NDArray[np.int32]
    scan_waker: npt.NDArray[np.int32]
    chances_prev: npt.NDArray[np.int32]
    """How often the balancer may have written nr_idle_scan of that LLC so far,"""
    chances_waker: npt.NDArray[np.int32]
    writes_prev: npt.NDArray[np.int32]
    """and how often it did, as modelled."""
    writes_waker: npt.NDArray[np.int32]


def fold_of(ts: npt.NDArray[np.int64], first: int) -> npt.NDArray[np.int8]:
    """The fold of each time, by blocks since `first`; dealt by a hash, so that no period of a load falls into one."""
    block = ((ts - first) // BLOCK_NS).astype(np.uint64)
    block *= np.uint64(0x9E3779B97F4A7C15)
    block >>= np.uint64(33)
    return (block % np.uint64(FOLDS)).astype(np.int8)


def scan_values(llc_size: int) -> list[int]:
    """Values of nr_idle_scan that are tried: all small ones, of the large ones every fourth."""
    steps = [*range(17), *range(20, 65, 4)]
    return sorted({v for v in steps if v < llc_size} | {llc_size})


def nothing(n: int) -> Unseen:
    return Unseen(np.zeros(n, np.bool_), np.zeros(n, np.bool_))


def infer(asked: Asked, mode: str, values: list[int], n_llcs: int, names: Ints) -> Unseen:
    """`values`: of nr_idle_scan, as asked; empty: it is not inferred. `names`: what a task is called, by task."""
    n = len(asked.ts)
    if not n:
        return nothing(0)
    told = _Told(asked, names)
    if mode == "causal":
        which, flags, known = told.causal()
        scan = told.scan(told.asking(which, flags), values, n_llcs, causal=True)
    else:
        fold = fold_of(asked.ts, int(asked.ts[0]))
        which, flags, known = np.zeros(n, np.uint8), np.zeros(n, np.bool_), np.zeros(n, np.bool_)
        scan = None
        alike: dict[bytes, tuple[Any, Any] | None] = {}
        for f, (hypothesis, inferred) in enumerate(told.folded(fold)):
            ours = fold == f
            which[ours], flags[ours], known[ours] = hypothesis, inferred.of(f)[ours], inferred.known(f)[ours]
            asking = told.asking(hypothesis, inferred.of(f))
            key = asking.tobytes()
            if key not in alike:
                alike[key] = told.scan(asking, values, n_llcs, causal=False)
            found = alike[key]
            if found is not None:
                scan = scan or (asked.scan_waker.copy(), asked.scan_prev.copy())
                for out, here in zip(scan, found, strict=True):
                    out[ours] = here[ours]
    numbers = np.unique(which)
    first = tuple(FIRST_FLIPS[k] for k in numbers.tolist())
    return Unseen(
        flags, known, first, np.searchsorted(numbers, which).astype(np.uint8) if len(first) > 1 else None, scan
    )


def _chosen(answers: npt.NDArray[Any], asking: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    """Of the four answers to each decision the one to that asking."""
    each = answers.reshape(-1, 4)
    out = each[:, 0].copy()
    for k in range(1, 4):
        np.copyto(out, each[:, k], where=asking == k)
    return out


class _Told:
    """What the answers tell."""

    def __init__(self, asked: Asked, names: Ints) -> None:
        self._asked = asked
        self._sites = Sites.of(asked.waker, asked.wakee, names, asked.may)
        hits = (asked.agreed >= _MODELLED).reshape(-1, 4)
        never, always = asked.wide == 0, asked.wide == (1 << len(FIRST_FLIPS)) - 1
        hits[never, 2:], hits[always, :2] = hits[never, :2], hits[always, 2:]
        self._hits = hits
        self._open = np.flatnonzero((hits != hits[:, :1]).any(axis=1))
        """Decisions at which something that is inferred matters."""

    def _hypotheses(self) -> Iterator[tuple[int, npt.NDArray[np.int8]]]:
        """Numbers of those that differ, each with the votes on WF_SYNC under it."""
        found: dict[bytes, int] = {}
        for h in range(len(FIRST_FLIPS)):
            wide = self._wide(h, self._open)
            if found.setdefault(wide.tobytes(), h) == h:
                votes = np.zeros(len(self._hits), np.int8)
                clear, set_ = (self._hits[self._open, 2 * wide + k] for k in (0, 1))
                votes[self._open] = sync.evidence(self._sites.may[self._open], clear, set_)
                yield h, votes

    def _wide(self, hypothesis: Any, rows: Any = slice(None)) -> npt.NDArray[np.uint8]:
        out: npt.NDArray[np.uint8] = (self._asked.wide[rows] >> hypothesis & 1).astype(np.uint8)
        return out

    def asking(self, which: Any, flags: Bools) -> npt.NDArray[np.uint8]:
        """Per decision the number of the asking that holds."""
        return 2 * self._wide(which) + flags

    def folded(self, fold: npt.NDArray[np.int8]) -> list[tuple[int, sync.Flags]]:
        """Per fold the hypothesis and the flags, from the votes of all the others."""
        tried = [(h, sync.by_fold(self._sites, votes, fold, FOLDS)) for h, votes in self._hypotheses()]
        if len(tried) == 1:
            return tried * FOLDS
        out = []
        for f in range(FOLDS):
            rows = self._open[fold[self._open] != f]
            agreed = [int(self._hits[rows, 2 * self._wide(h, rows) + flags.of(f, rows)].sum()) for h, flags in tried]
            out.append(tried[int(np.argmax(agreed))])
        return out

    def causal(self) -> tuple[Ints, Bools, Bools]:
        """Per decision the hypothesis, WF_SYNC, and whether it is known, from the votes before it."""
        tried = [(h, *sync.causal(self._sites, votes)) for h, votes in self._hypotheses()]
        agreed = np.zeros((len(self._open) + 1, len(tried)), np.int64)
        for k, (h, flags, _) in enumerate(tried):
            hit = self._hits[self._open, 2 * self._wide(h, self._open) + flags[self._open]]
            np.cumsum(hit, out=agreed[1:, k])
        row = np.arange(len(self._hits))
        best = agreed[np.searchsorted(self._open, row, "left")].argmax(axis=1)
        which = np.array([h for h, _, _ in tried])[best]
        flags, known = (np.stack([t[k] for t in tried])[best, row] for k in (1, 2))
        return which, flags, known

    def scan(
        self, asking: npt.NDArray[np.uint8], values: list[int], n_llcs: int, *, causal: bool
    ) -> tuple[Any, Any] | None:
        """nr_idle_scan of the waker's and of prev's LLC; None where no search looked at it."""
        asked = self._asked
        searched = _chosen(asked.searched, asking) * asked.decided
        if not values or not searched.any():
            return None
        rules = {
            "values": values, "stays": STAYS, "kept": KEPT, "doubt": DOUBT, "reach": max(1.0, max(values) / NEAR),
            "block": BLOCK_NS, "causal": causal,
        }  # fmt: skip
        votes = {
            "n_llcs": n_llcs, "ts": asked.ts - asked.ts[0], "agreed": _chosen(asked.agreed, asking),
            "searched": searched, "llc_prev": asked.llc_prev, "llc_waker": asked.llc_waker,
            "model_prev": asked.scan_prev, "model_waker": asked.scan_waker, "chances_prev": asked.chances_prev,
            "chances_waker": asked.chances_waker, "writes_prev": asked.writes_prev, "writes_waker": asked.writes_waker,
        }  # fmt: skip
        prev, waker = _engine.steps_in_time(rules, votes)
        return waker, prev
