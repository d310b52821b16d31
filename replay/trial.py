# SPDX-License-Identifier: GPL-2.0-or-later
"""Puts many candidate policies on trial in one pass: how often each agrees with the record, by time block.

Every candidate is replayed with WF_SYNC clear and set. Under "auto" each candidate takes, wakeup by wakeup, the answer
of the run that its own agreement on wakeups in other stretches of time speaks for (replay/sync.py): no candidate's
inference serves another one, and nothing depends on which kernel was recorded.

What is kept per wakeup is little: where the two runs of no candidate differ, nothing; elsewhere 16 bytes. Which
candidates agree is kept once per distinct pattern.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from rewake.errors import TraceError, UsageError
from rewake.forms import ENUMS, FAIR_CLASSES, Columns, Recording, RunWriter, with_null
from rewake.replay.loop import Loop
from rewake.replay.spec import PolicySpec
from rewake.replay.sync import Bools, Sites, by_fold, evidence, wakers
from rewake.replay.unseen import FOLDS, fold_of

Ints = npt.NDArray[np.int64]

SYNCS = ("0", "1", "auto")
LEAST_BLOCKS, MOST_BLOCKS = 20, 1000
BLOCK_NS = 100_000_000
"""Blocks are this long, shorter where fewer than LEAST_BLOCKS would exist, longer above MOST_BLOCKS."""


def block_length(span_ns: int) -> int:
    """Length of a time block for decisions that span this many ns."""
    return max(1, min(BLOCK_NS, -(-span_ns // LEAST_BLOCKS)), -(-span_ns // MOST_BLOCKS))


class _Count:
    """Under one WF_SYNC, by block: telling wakeups (those that the kernel or some candidate moves), and by candidate
    the wakeups agreed on, those of them that the kernel moved, and the wakeups that it moves.
    """

    def __init__(self, candidates: int, blocks: int) -> None:
        self.counts = np.zeros((3, candidates, blocks), np.int64)
        self.telling = np.zeros(blocks, np.int64)

    def add(self, blocks: Ints, agrees: Bools, recorded_moves: Bools, moves: Bools) -> None:
        """Rows of (candidate, wakeup); `blocks` does not fall."""
        if not len(blocks):
            return
        self.telling += np.bincount(blocks[recorded_moves | moves.any(axis=0)], minlength=len(self.telling))
        starts = np.flatnonzero(np.r_[True, blocks[1:] != blocks[:-1]])
        for total, flags in zip(self.counts, (agrees, agrees & recorded_moves, moves), strict=True):
            total[:, blocks[starts]] += np.add.reduceat(flags, starts, axis=1, dtype=np.int64)


class _Doubtful:
    """The wakeups at which WF_SYNC matters to some candidate."""

    def __init__(self, candidates: int, names: Ints) -> None:
        self._k, self._names = candidates, names
        self._codes: dict[bytes, int] = {}
        self._rows: list[tuple[npt.NDArray[Any], ...]] = []

    def add(
        self, block: Ints, fold: npt.NDArray[np.int8], waker: npt.NDArray[Any], wakee: npt.NDArray[Any], bits: Bools
    ) -> None:
        """Columns by wakeup; `bits`: (flag and candidate, wakeup)."""
        packed = np.ascontiguousarray(np.packbits(bits, axis=0).T)
        patterns, which = np.unique(packed.view(f"V{packed.shape[1]}").ravel(), return_inverse=True)
        codes = [self._codes.setdefault(p.tobytes(), len(self._codes)) for p in patterns]
        self._rows.append((block.astype(np.int32), fold, waker, wakee, np.array(codes, np.int32)[which]))

    def settle(self, total: _Count) -> None:
        """Adds them to `total`, each candidate with the WF_SYNC that it infers."""
        if not self._rows:
            return
        block, fold, waker, wakee, pattern = (np.concatenate(column) for column in zip(*self._rows, strict=True))
        packed = np.frombuffer(b"".join(self._codes), np.uint8).reshape(len(self._codes), -1)
        bits = np.unpackbits(packed, axis=1, count=4 * self._k + 1).astype(np.bool_)
        sites = Sites.of(waker, wakee, self._names, np.ones(len(block), np.bool_))
        telling = recorded_moves = bits[pattern, -1]
        blocks = len(total.telling)
        alike: dict[bytes, Ints] = {}
        for i in range(self._k):
            flags = bits[:, i : 4 * self._k : self._k]
            if flags.tobytes() not in alike:
                agrees0, agrees1, moves0, moves1 = flags[pattern].T
                inferred = by_fold(sites, evidence(sites.may, agrees0, agrees1), fold, FOLDS)
                sync = inferred.sync[inferred.relation, fold]
                agrees, moves = np.where(sync, agrees1, agrees0), np.where(sync, moves1, moves0)
                telling = telling | moves
                counted = (agrees, agrees & recorded_moves, moves)
                alike[flags.tobytes()] = np.stack([np.bincount(block[x], minlength=blocks) for x in counted])
            total.counts[:, i] += alike[flags.tobytes()]
        total.telling += np.bincount(block[telling], minlength=blocks)


class _Trial:
    """The state of one pass."""

    def __init__(self, specs: Sequence[PolicySpec], names: Ints, first_ns: int, block_ns: int, blocks: int) -> None:
        self.k, self._first, self._block, self.blocks = len(specs), first_ns, block_ns, blocks
        self.by_sync = {sync: _Count(self.k, blocks) for sync in SYNCS}
        self.decisions, self.moved = np.zeros((2, blocks), np.int64)
        self.digests = [blake2b() for _ in specs]
        self.doubtful, self._names = _Doubtful(self.k, names), names
        self._fair = [ENUMS["decision_class"].index(c) for c in FAIR_CLASSES]
        self._wake = ENUMS["decision_kind"].index("wake")

    def part(self, decisions: Columns, clear: Sequence[Columns], set_: Sequence[Columns]) -> None:
        """One part: its decisions, and the candidates' ledgers of it with WF_SYNC clear and set."""
        ledgers = [with_null(columns["cpu"]) for columns in (*clear, *set_)]
        counted = np.isin(decisions["class"], self._fair) & (decisions["kind"] == self._wake)
        for _, undecided in ledgers:
            counted &= ~undecided

        def column(name: str) -> npt.NDArray[Any]:
            return with_null(decisions[name])[0][counted]

        cpus = np.stack([values[counted] for values, _ in ledgers])
        for digest, cpu0, cpu1 in zip(self.digests, cpus[: self.k], cpus[self.k :], strict=True):
            digest.update(cpu0.tobytes() + cpu1.tobytes())
        agrees, moves = cpus == column("chosen_cpu"), cpus != column("prev_cpu")
        recorded = column("chosen_cpu") != column("prev_cpu")
        block = (column("ts_ns") - self._first) // self._block
        self.decisions += np.bincount(block, minlength=self.blocks)
        self.moved += np.bincount(block[recorded], minlength=self.blocks)
        agrees0, agrees1, moves0, moves1 = agrees[: self.k], agrees[self.k :], moves[: self.k], moves[self.k :]
        self.by_sync["0"].add(block, agrees0, recorded, moves0)
        self.by_sync["1"].add(block, agrees1, recorded, moves1)
        waker, may = wakers(decisions, self._names)
        doubt = ((agrees0 != agrees1) | (moves0 != moves1)).any(axis=0) & may[counted]
        self.by_sync["auto"].add(block[~doubt], agrees0[:, ~doubt], recorded[~doubt], moves0[:, ~doubt])
        if doubt.any():
            told = np.vstack([agrees0, agrees1, moves0, moves1, recorded])
            fold = fold_of(column("ts_ns")[doubt], self._first)
            self.doubtful.add(block[doubt], fold, waker[counted][doubt], column("task")[doubt], told[:, doubt])

    def table(self, names: Sequence[str]) -> Columns:
        """The `trial` table."""
        self.doubtful.settle(self.by_sync["auto"])
        start = self._first + np.arange(self.blocks, dtype=np.int64) * self._block
        each, all_ = len(SYNCS) * self.k, self.k * self.blocks
        counts = np.concatenate([self.by_sync[sync].counts for sync in SYNCS], axis=1).reshape(3, -1)
        return {
            "policy": np.tile(np.repeat(np.array(names, object), self.blocks), len(SYNCS)),
            "sync": np.repeat(np.array(SYNCS, object), all_),
            "from_ns": np.tile(start, each),
            "decisions": np.tile(self.decisions, each),
            "telling": np.concatenate([np.tile(self.by_sync[sync].telling, self.k) for sync in SYNCS]),
            "agreed": counts[0],
            "moved": np.tile(self.moved, each),
            "moved_agreed": counts[1],
            "policy_moved": counts[2],
        }


def _span(recording: Recording) -> tuple[int, int]:
    """Times of the first and of the last decision."""
    con = recording.connect(("decision",))
    try:
        first, last = con.execute("SELECT min(ts_ns), max(ts_ns) FROM decision").fetchall()[0]
    finally:
        con.close()
    if first is None:
        raise TraceError(f"{recording.given}: no wakeup in it: nothing can be identified; record for longer")
    return int(first), int(last)


def _replayable(loop: Loop, specs: Sequence[PolicySpec]) -> list[PolicySpec]:
    """Those of `specs` that this machine lets replay (a domain with BALANCE_WAKE stops some)."""

    def works(spec: PolicySpec) -> bool:
        try:
            loop.engine([spec], False)
        except UsageError:
            return False
        return True

    return [spec for spec in specs if works(spec)]


def run(
    recording: Recording,
    specs: Sequence[PolicySpec],
    writer: RunWriter,
    progress: Callable[[int, int], None] | None = None,
) -> None:
    """Replays every candidate over `recording` once with WF_SYNC clear and once set, in one pass over the events.

    Fills `writer` with the table `trial` and the manifest entries `identical` (lists of candidates that chose the same
    CPU at every wakeup under both values), `left_out` (candidates that cannot be replayed on this machine), `block_ns`.
    """
    loop = Loop(recording, 0)
    able = _replayable(loop, specs)
    if not able:
        raise UsageError(f"{recording.path}: no candidate can be replayed on this machine")
    first, last = _span(recording)
    block_ns = block_length(last - first + 1)
    trial = _Trial(able, loop.names(), first, block_ns, (last - first) // block_ns + 1)
    engines = [loop.engine(able, sync) for sync in (False, True)]
    for k, decisions in loop.run(engines, irq=False):
        clear, set_ = ([engine.ledger(i) for i in range(len(able))] for engine in engines)
        trial.part(decisions, clear, set_)
        if progress is not None:
            progress(k + 1, recording.n_parts)
    names = [str(spec) for spec in able]
    writer.write("trial", trial.table(names))
    identical: dict[bytes, list[str]] = {}
    for name, digest in zip(names, trial.digests, strict=True):
        identical.setdefault(digest.digest(), []).append(name)
    writer.manifest |= {
        "mode": "trial",
        "policies": [],
        "identical": list(identical.values()),
        "left_out": [str(spec) for spec in specs if spec not in able],
        "block_ns": block_ns,
    }
