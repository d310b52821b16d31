# SPDX-License-Identifier: GPL-2.0-or-later
"""Inference of what no event carries (`--assume sync=auto`, `sync=causal`): WF_SYNC, wakee_flips at the start,
nr_idle_scan, and the order of events that are too close (order.py).

The recorded kernel's own column is asked once under every value of them (engine/panel.hpp); what it answers does not
depend on what was recorded of any wakeup. A value is then chosen for each wakeup by the votes of others: those at which
the answer is the recorded one. Which others, is the mode:

- `auto`: time is cut into short blocks, and these are dealt to folds. What is inferred for one fold comes from the
  others, and so does everything that is inferred on the way; nr_idle_scan of a block comes from the other blocks, the
  order of close events from all other wakeups. So no
  outcome comes back to its own wakeup, not even through what was inferred for another one.
- `causal`: those before it.

A policy's private state (has_idle_cores above all) is what earlier decisions made of it. With what is inferred for
these from later ones, it would tell a decision its own outcome. So under `auto`, too, it comes from what those before
tell, and from what came of each itself: its nr_idle_scan, or the order of close events, is one under which it comes out
as recorded (Unseen.before).

What a fold takes for wakee_flips at the start is first one of FIRST_FLIPS, then the best of some close to that, and of
some still closer, for which the steps of all tasks' flips are gone through again (engine/flips.hpp, FlipCourse). Then
single tasks are looked for that began otherwise (first_flips.py).

Votes on WF_SYNC and wakee_flips are counted over the whole recording, by relation and fold; the answers themselves go
to disk where they are many. nr_idle_scan is a matter of milliseconds: it is inferred segment by segment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from rewake.replay import _engine, order, sync
from rewake.replay.first_flips import FIRST_FLIPS, MOST, FirstFlips, better, between, kinds, later, nearby, own
from rewake.replay.segments import SEGMENT, Growing
from rewake.replay.sync import Bools, Ints, Sites

ROUNDS = 2
"""So often the hypotheses between the neighbours of the one that holds are tried."""

RIVAL = 0.03
"""Part of its votes by which the best hypothesis may be ahead of one whose closer ones are tried as well."""

OWN_ROUNDS = (later, nearby, own, later, nearby)
"""What single tasks are tried with that may have begun with other flips than the rest, one after the other."""

MODES = ("auto", "causal")

FOLDS = 4
BLOCK_NS = 250_000
"""Time is cut into blocks of this length, which are dealt to so many folds."""
STAYS, KEPT = 0.95, 0.1
"""nr_idle_scan changes only when a CPU of its LLC may balance it: how likely it stays where the model says that none
did, and where one did."""
DOUBT = 0.05
"""Weight of a value under which a wakeup comes out otherwise."""
HINT = 0.8
"""The same where the modelled value was not looked at, since has_idle_cores kept the wakeup from a search: what that is
hangs on earlier values, too. 0.6 to 0.8 come out alike, 0.5 is worse."""
AROUND = 1 << 14
"""Decisions on both sides of a segment that speak for its nr_idle_scan, too."""
NEAR = 16
"""A jump goes that share of the LLC's CPUs away from the modelled value, at least one."""

_MODELLED = 1 << 31
_AT_PREV, _AT_WAKER = 1, 2
"""Codes of Asked.searched."""


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
    likeliest: FirstFlips = FirstFlips()
    """That of them under which most of all decisions come out as recorded: of no use for these themselves."""
    scan: tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]] | None = None
    """nr_idle_scan of the LLCs of the waker's and of the previous CPU; None: as modelled."""
    clock: npt.NDArray[np.uint8] | None = None
    """Which of the scan clocks that were tried (loop.SCAN_CLOCKS) bounds the searches; None: the first."""
    searched: npt.NDArray[np.int16] | None = None
    """CPUs that the search examined that came to the recorded answer; negative where none did."""
    turned: Bools | None = None
    """The previous CPU was idle where by the times of the events it was not, or the other way round; None: nowhere."""
    before: Unseen | None = None
    """With what each decision is made that stays in a policy's private state; its `flips` are of these first_flips,
    too. None: with all of the above."""


class Asked(NamedTuple):
    """The panel's answers over a part of the decisions (engine/panel.hpp), and what tells the decisions apart."""

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
    doubt: npt.NDArray[np.uint8]
    """Not 0: whether the previous CPU was idle is a matter of the order of close events."""
    otherwise: npt.NDArray[np.uint8]
    """There: bit of each of the four askings: it agrees if that CPU was the other way."""
    pair: npt.NDArray[np.uint32]
    """The waker's and the previous CPU, as one number."""
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


class Course(NamedTuple):
    """What the engine tells of hypotheses that it was not asked under, of the decisions up to some (engine/flips.hpp,
    FlipCourse)."""

    wide: Callable[[list[FirstFlips]], npt.NDArray[np.uint32]]
    """Asked.wide under others."""
    apart: Callable[[FirstFlips, list[FirstFlips], Bools], dict[str, npt.NDArray[Any]]]
    """FlipsApart: under one, with each task as some others say; of these decisions."""


def infer(
    parts: Iterable[Asked],
    mode: str,
    values: list[int],
    n_llcs: int,
    names: Ints,
    course: Course | None = None,
    *,
    before: bool = False,
    clocks: int = 0,
) -> Unseen:
    """`parts`: in order; `values`: of nr_idle_scan, as asked; empty: it is not inferred. `names`: what a task is
    called, by task. `course`: then closer hypotheses are tried, and such of single tasks; it is asked when all parts
    have been taken. `before`: with Unseen.before. `clocks`: so many scan clocks were asked in the place of values, of
    which there are none then."""
    with ExitStack() as files:
        told = _Told(parts, names, bool(values), files, clocks)
        if not told.n:
            return nothing(0)
        causal = mode == "causal"
        earlier = told.unseen(told.causal(), values, n_llcs, causal=True) if before or causal else nothing(0)
        left = told.as_recorded(earlier, values) if before else None
        if causal:
            return _with(earlier, left, None)
        found = told.unseen(told.auto(course), values, n_llcs, causal=False)
        if left is not None and left.scan is not None and found.scan is None:
            found = found._replace(scan=told.modelled())
        return _with(found, left, told.likeliest())


def _with(found: Unseen, left: Unseen | None, likeliest: FirstFlips | None) -> Unseen:
    """Unseen.before of it, with the hypotheses that either takes."""
    flips = np.zeros(0, np.uint8) if found.flips is None else found.flips
    number: dict[FirstFlips, int] = {}
    for k in np.unique(flips).tolist():
        number.setdefault(found.first_flips[k], len(number))
    flips = np.array([number.get(h, 0) for h in found.first_flips], np.uint8)[flips]
    if left is not None and left.flips is not None:
        taken, first = np.unique(left.flips, return_index=True)
        # Which of too many are left out, later ones have no say in.
        earliest = [left.first_flips[k] for k in taken[np.argsort(first)].tolist()][: MOST - FOLDS]
        for h in earliest:
            number.setdefault(h, len(number))
        of = np.array([number.get(h, number[earliest[0]]) for h in left.first_flips], np.uint8)
        left = left._replace(first_flips=(), flips=of[left.flips])
    many = len(number) > 1
    return found._replace(
        first_flips=tuple(number), flips=flips if many else None, likeliest=likeliest or next(iter(number)),
        before=left if left is None or many else left._replace(flips=None),
    )  # fmt: skip


def _chosen(each: npt.NDArray[Any], asking: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    """Of the four answers to each decision the one to that asking."""
    out = each[:, 0].copy()
    for k in range(1, 4):
        np.copyto(out, each[:, k], where=asking == k)
    return out


def _best(agreed: dict[int, int]) -> int:
    """Of equal ones the first."""
    return max(agreed, key=lambda h: agreed[h])


def _rivals(those: Sequence[int], agreed: dict[int, int]) -> bool:
    """Whether the best of those is so near the best of all that closer ones may be better."""
    best = max(agreed.values())
    return max(agreed[h] for h in those) >= best - max(1, best * RIVAL)


Told = tuple[Any, Bools, Bools]
"""Per decision of a chunk: the hypothesis, WF_SYNC, and whether that is known."""

_STEPS = ("searched", "agreed")
_LLCS = ("llc_prev", "llc_waker")
_SCANS = ("scan_prev", "scan_waker", "chances_prev", "chances_waker", "writes_prev", "writes_waker")


def _hits(asked: Asked) -> Bools:
    """(decision, asking): the modelled nr_idle_scan leads to what was recorded."""
    out: Bools = (asked.agreed >= _MODELLED).reshape(-1, 4)
    return out


def _otherwise(asked: Asked, rows: Ints) -> Bools:
    """(decision, asking): the other order does. Of decisions where there is doubt."""
    return np.unpackbits(asked.otherwise[rows, None], axis=1, count=4, bitorder="little").astype(np.bool_)


def _packed(hits: Bools) -> npt.NDArray[np.uint8]:
    return np.packbits(hits, axis=1, bitorder="little")[:, 0]


def _wide(bits: npt.NDArray[np.uint32], hypothesis: Any) -> npt.NDArray[np.uint8]:
    out: npt.NDArray[np.uint8] = (bits >> hypothesis & 1).astype(np.uint8)
    return out


def _hit(rows: dict[str, Any], asking: npt.NDArray[np.uint8]) -> Bools:
    out: Bools = (rows["hits"] >> asking & 1).astype(np.bool_)
    return out


class _Told:
    """What the answers tell. `first`: the hypotheses."""

    def __init__(self, parts: Iterable[Asked], names: Ints, scans: bool, files: ExitStack, clocks: int) -> None:
        self._clocks = clocks
        self._rows, self._open, self._scans, self._doubts = (files.enter_context(Growing()) for _ in range(4))
        """All decisions; those at which something that is inferred matters; what nr_idle_scan is inferred from; those
        that look at a CPU which goes idle just then."""
        self.first: tuple[FirstFlips, ...] = FIRST_FLIPS
        self._closer: tuple[Sequence[int], Any, list[list[int]]] | None = None
        relations = sync.Relations(names)
        alike: list[int] = [0] * len(FIRST_FLIPS)
        start = self._span_ns = 0
        for asked in parts:
            if not self.n and len(asked.ts):
                start = int(asked.ts[0])
            if len(asked.ts):
                self._span_ns = int(asked.ts[-1]) - start
            hits = _hits(asked)
            rows = {
                "relation": relations.number(asked.waker, asked.wakee), "may": asked.may,
                "fold": fold_of(asked.ts, start), "wide": asked.wide,
                "hits": _packed(hits),
            }  # fmt: skip
            matters = np.flatnonzero((hits != hits[:, :1]).any(axis=1))
            opened = {name: values[matters] for name, values in rows.items()} | {"row": matters + self.n}
            alike = _alike(alike, asked.wide[matters])
            doubtful = np.flatnonzero((asked.doubt > 0) & asked.decided)
            self._doubts.append({name: values[doubtful] for name, values in rows.items()} | {
                "row": doubtful + self.n, "ts": asked.ts[doubtful] - start,
                "pair": asked.pair[doubtful].astype(np.int64) << 2 | asked.doubt[doubtful],
                "otherwise": _packed(_otherwise(asked, doubtful)),
            })  # fmt: skip
            if scans or clocks:
                self._scans.append({"ts": asked.ts - start, "decided": asked.decided}
                                   | {name: getattr(asked, name).reshape(-1, 4) for name in _STEPS}
                                   | {name: getattr(asked, name) for name in (*_LLCS, *_SCANS)})  # fmt: skip
            self._rows.append(rows)
            self._open.append(opened)
        self._try(alike)
        self._groups = relations.groups()

    @property
    def n(self) -> int:
        return len(self._rows)

    def _try(self, alike: list[int]) -> None:
        """`same`: per hypothesis the first that asks the same everywhere; `tried`: those first ones."""
        self.same = alike
        self.tried = sorted(set(alike))

    def _sites(self, rows: dict[str, Any]) -> Sites:
        return Sites(rows["relation"], self._groups, rows["may"])

    def _bits(self, rows: dict[str, Any], row: Ints) -> npt.NDArray[np.uint32]:
        """Bit h: wake_wide() under the h-th hypothesis. `row`: numbers of the decisions, ascending."""
        if self._closer is None:
            wide: npt.NDArray[np.uint32] = rows["wide"]
            return wide
        chosen, known, near = self._closer
        out = np.zeros(len(row), np.uint32)
        for h, those in zip(chosen, near, strict=True):  # later than `known` tells nothing has changed
            for k in set(those):
                out |= _wide(rows["wide"], h).astype(np.uint32) << np.uint32(k)
        told = int(np.searchsorted(row, len(known)))
        out[:told] = known[row[:told]]
        return out

    def _opened(self) -> Iterator[tuple[dict[str, Any], npt.NDArray[np.uint32]]]:
        for rows in self._open.chunks():
            yield rows, self._bits(rows, rows["row"])

    def _votes(self, rows: dict[str, Any], wide: npt.NDArray[np.uint8]) -> npt.NDArray[np.int8]:
        return sync.evidence(rows["may"], *(_hit(rows, 2 * wide + np.uint8(k)) for k in (0, 1)))

    def _by_fold(self, hypothesis: int) -> sync.Flags:
        """WF_SYNC under it, from the votes of all other folds; of no decision yet."""
        n = len(self._groups[-1])
        votes = np.zeros((2, n, FOLDS))
        for rows, bits in self._opened():
            votes += sync.counted(rows["relation"], self._votes(rows, _wide(bits, hypothesis)), rows["fold"], n, FOLDS)
        nobody = {"relation": np.empty(0, np.int32), "may": np.empty(0, np.bool_)}
        return sync.flags_of(self._sites(nobody), votes)

    def _agreed(self, may: Sequence[Sequence[int]]) -> tuple[dict[int, sync.Flags], list[dict[int, int]]]:
        """WF_SYNC by hypothesis; and, per fold, of the hypotheses that it may take, how many decisions of all others
        each leads to."""
        tried = {h: self._by_fold(h) for h in self.tried}
        agreed = [dict.fromkeys(those, 0) for those in may]
        for rows, bits in self._opened() if max(map(len, may)) > 1 else ():
            for f, h in ((f, h) for f, those in enumerate(may) for h in those):
                flags = tried[h]._replace(relation=rows["relation"], may=rows["may"])
                hit = _hit(rows, 2 * _wide(bits, h) + flags.of(f))
                agreed[f][h] += int(np.count_nonzero(hit & (rows["fold"] != f)))
        return tried, agreed

    def folded(self, among: Sequence[Sequence[int]]) -> list[tuple[int, sync.Flags]]:
        """Per fold the hypothesis and the flags, from the votes of all the others. `among`: per fold the hypotheses
        that it may take; of equal ones the first."""
        tried, agreed = self._agreed([list(dict.fromkeys(self.same[h] for h in those)) for those in among])
        return [(h, tried[h]) for h in map(_best, agreed)]

    def auto(self, course: Course | None) -> Iterator[Told]:
        tried, agreed = self._agreed([self.tried] * FOLDS)
        chosen = [(h, tried[h]) for h in map(_best, agreed)]
        if course is not None and len(self._open):
            asked = [h for h, _ in chosen]
            if len(self.tried) > 1:
                chosen = self._closer_ones(agreed, course)
            chosen = self._with_own(asked, chosen, course)
        self._chosen = chosen
        for rows in self._rows.chunks("relation", "may", "fold"):
            n = len(rows["fold"])
            which, flags, known = np.zeros(n, np.uint8), np.zeros(n, np.bool_), np.zeros(n, np.bool_)
            for f, (hypothesis, inferred) in enumerate(chosen):
                here = inferred._replace(relation=rows["relation"], may=rows["may"])
                ours = rows["fold"] == f
                which[ours], flags[ours], known[ours] = hypothesis, here.of(f)[ours], here.known(f)[ours]
            yield which, flags, known

    def _closer_ones(self, agreed: list[dict[int, int]], course: Course) -> list[tuple[int, sync.Flags]]:
        """Chooses among hypotheses close to the best of each kind that is about as good as the best of all: which of
        two kinds is better shows only when both are as good as they get. `agreed`: of FIRST_FLIPS."""
        asked = [_best(those) for those in agreed]
        each = [{h: of[same] for h, same in enumerate(self.same)} for of in agreed]
        finalists: list[list[FirstFlips]] = [[] for _ in range(FOLDS)]
        several = [kinds(same) for same in self._alike_elsewhere()]
        for kind in kinds():
            near = [f for f in range(FOLDS) if kind in several[f] and _rivals(kind, each[f])]
            if not near:
                continue
            best = [_best({h: of[h] for h in kind}) for of in each]
            found, among = [FIRST_FLIPS[h] for h in best], [[FIRST_FLIPS[h] for h in kind]] * FOLDS
            for _ in range(ROUNDS):
                among = [between(h, tried) for h, tried in zip(found, among, strict=True)]
                found = [self.first[h] for h, _ in self._try_closer(best, among, course)]
            for f in near:
                finalists[f].append(found[f])
        return self._try_closer(asked, finalists, course)

    def _alike_elsewhere(self) -> list[list[int]]:
        """Per fold: per hypothesis the first that asks the same of all other folds' decisions."""
        alike = [[0] * len(self.first)] * FOLDS
        for rows, bits in self._opened():
            alike = [_alike(same, bits[rows["fold"] != f]) for f, same in enumerate(alike)]
        return alike

    def _try_closer(
        self, asked: Sequence[int], near: Sequence[Sequence[FirstFlips]], course: Course
    ) -> list[tuple[int, sync.Flags]]:
        """Chooses again, each fold among its own: other folds' come from this one's outcomes, and may ask otherwise
        where nothing is open. `asked`: which of FIRST_FLIPS each fold chose."""
        self.first = tuple(h for one in near for h in one)
        each = list(dict.fromkeys(self.first))
        ends = np.cumsum([len(one) for one in near]).tolist()
        numbers = [list(range(end - len(one), end)) for one, end in zip(near, ends, strict=True)]
        known = course.wide(each)
        bits = np.zeros(len(known), np.uint32)
        for k, h in enumerate(self.first):
            bits |= _wide(known, each.index(h)).astype(np.uint32) << np.uint32(k)
        self._closer = asked, bits, numbers
        alike = [0] * len(self.first)
        for _, bits in self._opened():
            alike = _alike(alike, bits)
        self._try(alike)
        found = zip(numbers, self.folded(numbers), strict=True)
        return [(next(h for h in mine if self.same[h] == best), flags) for mine, (best, flags) in found]

    def _with_own(
        self, asked: Sequence[int], found: list[tuple[int, sync.Flags]], course: Course
    ) -> list[tuple[int, sync.Flags]]:
        """Lets tasks begin otherwise where the votes of the other folds are for it. `asked`: as of _try_closer()."""
        votes = np.zeros(self.n, np.bool_)
        for rows in self._open.chunks("row", "hits"):
            votes[rows["row"]] = (rows["hits"] & 3) != (rows["hits"] >> 2)
        for tried in OWN_ROUNDS:
            before = [self.first[h] for h, _ in found]
            tries = {base: tried(base, self._span_ns / 1e9) for base in dict.fromkeys(before)}
            apart = {base: course.apart(base, those, votes) for base, those in tries.items()}
            after = []
            for f, base in enumerate(before):
                those = better(apart[base], self._gain(f, found[f][1]), len(tries[base]))
                began = dict(base.own) | {task: tries[base][k].of(task) for task, k in those.items()}
                after.append(base._replace(own=tuple(sorted(began.items()))))
            if after != before:
                found = self._try_closer(asked, [[one] for one in after], course)
        return found

    def likeliest(self) -> FirstFlips:
        """Of what the folds take. After auto()."""
        hits = [0] * len(self._chosen)
        for rows, bits in self._opened():
            for k, (h, flags) in enumerate(self._chosen):
                sync_ = flags._replace(relation=rows["relation"], may=rows["may"]).of(k)
                hits[k] += int(np.count_nonzero(_hit(rows, 2 * _wide(bits, h) + sync_)))
        return self.first[self._chosen[hits.index(max(hits))][0]]

    def _gain(self, fold: int, flags: sync.Flags) -> npt.NDArray[np.int8]:
        """Per decision the vote for wake_wide() that `fold` hears: 1, 0 or -1."""
        out = np.zeros(self.n, np.int8)
        for rows in self._open.chunks("row", "relation", "may", "hits", "fold"):
            here = flags._replace(relation=rows["relation"], may=rows["may"]).of(fold).astype(np.uint8)
            votes = _hit(rows, 2 + here).astype(np.int8) - _hit(rows, here)
            out[rows["row"]] = np.where(rows["fold"] == fold, 0, votes)
        return out

    def causal(self) -> Iterator[Told]:
        """From the votes before each decision."""
        before = {h: sync.Before(self._groups) for h in self.tried}
        agreed = np.zeros(len(self.tried), np.int64)
        for rows in self._rows.chunks():
            n = len(rows["fold"])
            hits = np.zeros((n + 1, len(self.tried)), np.int64)
            found = []
            matters = (rows["hits"] != 0) & (rows["hits"] != 15)
            decisions = sync.placed(self._groups, rows["relation"])
            for k, (h, votes) in enumerate(before.items()):
                wide = _wide(rows["wide"], h)
                flags, known = votes.hear(decisions, self._votes(rows, wide), rows["may"])
                found.append((flags, known))
                np.cumsum(_hit(rows, 2 * wide + flags) & matters, out=hits[1:, k])
            hits += agreed
            best, row = hits[:-1].argmax(axis=1), np.arange(n)
            agreed = hits[-1].copy()
            flags, known = (np.stack([of[k] for of in found])[best, row] for k in (0, 1))
            yield np.array(self.tried)[best], flags, known

    def _asking(self, fold: int, rows: dict[str, Any], wide: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint8]:
        """Per decision the asking by what that fold takes. `wide`: as of _bits(). After auto()."""
        hypothesis, inferred = self._chosen[fold]
        flags = inferred._replace(relation=rows["relation"], may=rows["may"]).of(fold)
        return 2 * _wide(wide, hypothesis) + flags

    def scans(
        self, which: npt.NDArray[np.uint8], flags: Bools, values: list[int], n_llcs: int, *, causal: bool
    ) -> tuple[Any, Any] | None:
        """nr_idle_scan of the waker's and of prev's LLC; None where no search looked at it. Each fold's comes from what
        is inferred for it of all decisions."""
        out: tuple[Any, Any] | None = None
        for first in range(0, self.n, SEGMENT):
            last = min(first + SEGMENT, self.n)
            begin, end = max(0, first - AROUND), min(self.n, last + AROUND)
            rows, asked = self._rows.read(begin, end), self._scans.read(begin, end)
            wide = self._bits(rows, np.arange(begin, end))
            here = slice(first - begin, last - begin)
            alike: dict[bytes, tuple[Any, Any] | None] = {}
            for f in (None,) if causal else range(FOLDS):
                if f is None:
                    asking, ours = 2 * _wide(wide, which[begin:end]) + flags[begin:end], slice(None)
                else:
                    asking, ours = self._asking(f, rows, wide), rows["fold"][here] == f
                if (key := asking.tobytes()) not in alike:
                    alike[key] = _scan(asked, asking, values, n_llcs, causal=causal)
                if (found := alike[key]) is None:
                    continue
                out = out or self.modelled()
                for into, steps in zip(out, found, strict=True):
                    into[first:last][ours] = steps[here][ours]
        return out

    def clock(self, which: npt.NDArray[np.uint8], flags: Bools, *, causal: bool) -> npt.NDArray[np.uint8]:
        """Per decision the scan clock under which most others come out as recorded: those of other folds, or those
        before it. Of equal ones the first. Searches leave behind what every clock makes of them, so no answer hangs on
        which of them was taken for an earlier one."""
        out = np.zeros(self.n, np.uint8)
        agreed = np.zeros((1 if causal else FOLDS, self._clocks), np.int64)
        for first in range(0, self.n, SEGMENT):
            here = slice(first, min(first + SEGMENT, self.n))
            rows, asked = self._rows.read(here.start, here.stop), self._scans.read(here.start, here.stop)
            wide = self._bits(rows, np.arange(here.start, here.stop))
            if causal:
                hits = self._by_clock(asked, 2 * _wide(wide, which[here]) + flags[here])
                heard = np.cumsum(hits, axis=0) + agreed
                out[here] = np.concatenate([agreed, heard[:-1]]).argmax(axis=1)
                agreed = heard[-1:]
                continue
            for f in range(FOLDS):
                hits = self._by_clock(asked, self._asking(f, rows, wide))
                agreed[f] += hits[rows["fold"] != f].sum(axis=0)
        if not causal:
            fold = np.concatenate([rows["fold"] for rows in self._rows.chunks("fold")])
            out[:] = agreed.argmax(axis=1)[fold]
        return out

    def _by_clock(self, asked: dict[str, Any], asking: npt.NDArray[np.uint8]) -> Bools:
        """(decision, clock): it leads to what was recorded, where it matters which."""
        agreed = _chosen(asked["agreed"], asking) * (asked["decided"] & (_chosen(asked["searched"], asking) > 0))
        bits = agreed[:, None] >> np.arange(self._clocks - 1, dtype=np.uint32) & 1
        return np.concatenate([(agreed >= _MODELLED)[:, None], bits.astype(np.bool_)], axis=1)

    def unseen(self, told: Iterator[Told], values: list[int], n_llcs: int, *, causal: bool) -> Unseen:
        """With all hypotheses. `values`: as of infer()."""
        which, flags, known = np.zeros(self.n, np.uint8), np.zeros(self.n, np.bool_), np.zeros(self.n, np.bool_)
        first = 0
        for h, flag, is_known in told:
            here = slice(first, first + len(flag))
            which[here], flags[here], known[here] = h, flag, is_known
            first += len(flag)
        scan = self.scans(which, flags, values, n_llcs, causal=causal) if values else None
        turned = self.turned(which, flags, causal=causal)
        clock = self.clock(which, flags, causal=causal) if self._clocks else None
        return Unseen(flags, known, self.first, which, scan=scan, turned=turned, clock=clock)

    def as_recorded(self, found: Unseen, values: list[int]) -> Unseen:
        """The same with the nr_idle_scan, and the order of close events, with which decisions come out as recorded that
        otherwise would not."""
        flips = np.zeros(self.n, np.uint8) if found.flips is None else found.flips
        scan = None
        if values:
            waker, prev = found.scan or self.modelled()
            scan = waker.copy(), prev.copy()
        for first in range(0, self.n, SEGMENT) if scan is not None else ():
            here = slice(first, min(first + SEGMENT, self.n))
            rows, asked = self._rows.read(here.start, here.stop), self._scans.read(here.start, here.stop)
            asking = 2 * _wide(rows["wide"], flips[here]) + found.sync[here]
            searched = _chosen(asked["searched"], asking) * asked["decided"]
            agreed = _chosen(asked["agreed"], asking)
            for llc, steps in zip((_AT_WAKER, _AT_PREV), scan or (), strict=True):
                at = np.flatnonzero(searched == llc)
                steps[first + at] = _nearest(steps[first + at], agreed[at], values)
        rows = self._doubts.read(0, len(self._doubts))
        asking = 2 * _wide(self._bits(rows, rows["row"]), flips[rows["row"]]) + found.sync[rows["row"]]
        turned = np.zeros(self.n, np.bool_)
        turned[rows["row"]] = (rows["otherwise"] >> asking & 1).astype(np.bool_) & ~_hit(rows, asking)
        return found._replace(scan=scan, turned=turned)

    def turned(self, which: npt.NDArray[np.uint8], flags: Bools, *, causal: bool) -> Bools | None:
        """Where events close to a decision were in the other order, by the votes of all others, which are asked as its
        fold infers from the other folds; None: nowhere."""
        rows = self._doubts.read(0, len(self._doubts))
        if not len(rows["row"]):
            return None
        out = np.zeros(self.n, np.bool_)
        wide = self._bits(rows, rows["row"])
        for f in (None,) if causal else range(FOLDS):
            if f is None:
                asking, ours = 2 * _wide(wide, which[rows["row"]]) + flags[rows["row"]], slice(None)
            else:
                asking, ours = self._asking(f, rows, wide), rows["fold"] == f
            votes = (rows["otherwise"] >> asking & 1).astype(np.int8) - _hit(rows, asking)
            out[rows["row"][ours]] = order.turned(rows["pair"], rows["ts"], votes, causal=causal)[ours]
        return out if out.any() else None

    def modelled(self) -> tuple[Any, Any]:
        parts = [(c["scan_waker"], c["scan_prev"]) for c in self._scans.chunks("scan_waker", "scan_prev")]
        waker, prev = (np.concatenate(pieces) for pieces in zip(*parts, strict=True))
        return waker, prev


def _alike(alike: Sequence[int], bits: npt.NDArray[np.uint32]) -> list[int]:
    """Per hypothesis the first that asks the same, `alike` before these decisions, and at them."""
    found: dict[tuple[int, bytes], int] = {}
    return [found.setdefault((same, _wide(bits, h).tobytes()), h) for h, same in enumerate(alike)]


def _nearest(scan: npt.NDArray[np.int32], agreed: npt.NDArray[np.uint32], values: list[int]) -> npt.NDArray[Any]:
    """Per decision the nearest of the values that agree, or itself if the nearest to it does. `values`: ascending."""
    tried, out = np.array(values, np.int32), scan.copy()
    near = np.searchsorted((tried[1:] + tried[:-1]) / 2, scan).astype(np.uint32)
    rows = np.flatnonzero((agreed >> near & 1 == 0) & (agreed & (_MODELLED - 1) > 0))
    away = np.full(len(rows), np.iinfo(np.int32).max, np.int32)
    for k, value in enumerate(values):
        closer = (agreed[rows] >> np.uint32(k) & 1 == 1) & (np.abs(scan[rows] - value) < away)
        away[closer] = np.abs(scan[rows[closer]] - value)
        out[rows[closer]] = value
    return out


def _scan(
    asked: dict[str, Any], asking: npt.NDArray[np.uint8], values: list[int], n_llcs: int, *, causal: bool
) -> tuple[Any, Any] | None:
    """Of these decisions; None where no search looked at it."""
    searched = _chosen(asked["searched"], asking) * asked["decided"]
    if not searched.any():
        return None
    rules = {
        "values": values, "stays": STAYS, "kept": KEPT, "doubt": DOUBT, "hint": HINT,
        "reach": max(1.0, max(values) / NEAR), "block": BLOCK_NS, "causal": causal,
    }  # fmt: skip
    votes = {
        "n_llcs": n_llcs, "ts": asked["ts"], "agreed": _chosen(asked["agreed"], asking), "searched": searched,
        "llc_prev": asked["llc_prev"], "llc_waker": asked["llc_waker"],
        "model_prev": asked["scan_prev"], "model_waker": asked["scan_waker"],
    } | {name: asked[name] for name in _SCANS if not name.startswith("scan")}  # fmt: skip
    prev, waker = _engine.steps_in_time(rules, votes)
    return waker, prev
