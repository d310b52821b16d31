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

What a fold takes for wakee_flips at the start is first one of FIRST_FLIPS, then the best of some close to that, and of
some still closer, for which the steps of all tasks' flips are gone through again (engine/flips.hpp, FlipCourse).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
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

CLOSER, ROUNDS = 7, 2
"""Hypotheses between the neighbours of the one that holds, of which the best is taken, so many times: wake_wide
compares flips of two tasks, and what is off by a few is on the wrong side of that for many wakeups."""

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
    searched: npt.NDArray[np.int16] | None = None
    """CPUs that the search examined that came to the recorded answer; negative where none did."""


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


WideUnder = Callable[[list[FirstFlips]], npt.NDArray[np.uint32]]
"""Asked.wide under other hypotheses, up to some decision."""


def infer(
    asked: Asked, mode: str, values: list[int], n_llcs: int, names: Ints, wide_under: WideUnder | None = None
) -> Unseen:
    """`values`: of nr_idle_scan, as asked; empty: it is not inferred. `names`: what a task is called, by task.
    `wide_under`: then closer hypotheses are tried."""
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
        chosen = told.folded(fold)
        if wide_under is not None and len(told.tried) > 1:
            among: list[Sequence[FirstFlips]] = [FIRST_FLIPS] * FOLDS
            for _ in range(ROUNDS):
                told, chosen, among = told.closer(fold, [h for h, _ in chosen], among, wide_under)
        for f, (hypothesis, inferred) in enumerate(chosen):
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
    first = tuple(told.first[k] for k in numbers.tolist())
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


def between(first: FirstFlips, tried: Sequence[FirstFlips] = FIRST_FLIPS) -> list[FirstFlips]:
    """That hypothesis, then CLOSER between its neighbours among those of `tried` that only differ in flips."""
    alike = sorted(h.flips for h in tried if h[1:] == first[1:])
    at = alike.index(first.flips)
    low, high = alike[max(at - 1, 0)], alike[min(at + 1, len(alike) - 1)]
    flips = np.linspace(low, high, CLOSER + 2)[1:-1].astype(int).tolist()
    return list(dict.fromkeys([first, *(first._replace(flips=n) for n in flips)]))


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

        self._try(FIRST_FLIPS, asked.wide)

    def _try(self, first: tuple[FirstFlips, ...], wide: npt.NDArray[np.uint32]) -> None:
        """From now on these are the hypotheses. `same`: per hypothesis the first that asks the same everywhere;
        `tried`: those first ones."""
        self.first, self._bits = first, wide
        found: dict[bytes, int] = {}
        self.same = [found.setdefault(self._wide(h, self._open).tobytes(), h) for h in range(len(first))]
        self.tried = sorted(found.values())

    def _votes(self, hypothesis: int) -> npt.NDArray[np.int8]:
        """The votes on WF_SYNC under it."""
        votes = np.zeros(len(self._hits), np.int8)
        wide = self._wide(hypothesis, self._open)
        clear, set_ = (self._hits[self._open, 2 * wide + k] for k in (0, 1))
        votes[self._open] = sync.evidence(self._sites.may[self._open], clear, set_)
        return votes

    def _wide(self, hypothesis: Any, rows: Any = slice(None)) -> npt.NDArray[np.uint8]:
        out: npt.NDArray[np.uint8] = (self._bits[rows] >> hypothesis & 1).astype(np.uint8)
        return out

    def asking(self, which: Any, flags: Bools) -> npt.NDArray[np.uint8]:
        """Per decision the number of the asking that holds."""
        return 2 * self._wide(which) + flags

    def folded(
        self, fold: npt.NDArray[np.int8], among: Sequence[Sequence[int]] | None = None
    ) -> list[tuple[int, sync.Flags]]:
        """Per fold the hypothesis and the flags, from the votes of all the others. `among`: per fold the hypotheses
        that it may take; of equal ones the first."""
        tried = {h: sync.by_fold(self._sites, self._votes(h), fold, FOLDS) for h in self.tried}
        out = []
        for f in range(FOLDS):
            rows = self._open[fold[self._open] != f]
            may = self.tried if among is None else list(dict.fromkeys(self.same[h] for h in among[f]))
            agreed = [
                int(self._hits[rows, 2 * self._wide(h, rows) + tried[h].of(f, rows)].sum()) if len(may) > 1 else 0
                for h in may
            ]
            best = may[int(np.argmax(agreed))]
            out.append((best, tried[best]))
        return out

    def closer(
        self,
        fold: npt.NDArray[np.int8],
        chosen: Sequence[int],
        among: Sequence[Sequence[FirstFlips]],
        wide_under: WideUnder,
    ) -> tuple[_Told, list[tuple[int, sync.Flags]], list[Sequence[FirstFlips]]]:
        """Each fold's hypothesis, and those of the same kind on both sides of it, closer than those `among` which it
        was chosen; these are returned, too. Other folds' are not looked at: they come from this one's outcomes."""
        near: list[Sequence[FirstFlips]] = []
        for h, tried in zip(chosen, among, strict=True):
            best = next(x for x in tried if self.same[self.first.index(x)] == h)
            near.append(between(best, tried))
        first = list(dict.fromkeys(h for one in near for h in one))
        told = copy.copy(self)
        wide = np.zeros_like(self._asked.wide)
        for f, h in enumerate(chosen):  # later than wide_under() tells nothing has changed
            for k in {first.index(one) for one in near[f]}:
                wide |= self._wide(h).astype(np.uint32) << np.uint32(k)
        known = wide_under(first)
        wide[: len(known)] = known
        told._try(tuple(first), wide)
        return told, told.folded(fold, [[first.index(one) for one in near_one] for near_one in near]), near

    def causal(self) -> tuple[Ints, Bools, Bools]:
        """Per decision the hypothesis, WF_SYNC, and whether it is known, from the votes before it."""
        tried = [(h, *sync.causal(self._sites, self._votes(h))) for h in self.tried]
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
