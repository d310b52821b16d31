# SPDX-License-Identifier: GPL-2.0-or-later
"""What is asked of recordings of any length: columns that go to disk, samples that thin out, ranks among them."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewake.replay import _engine, segments, sync, unseen
from rewake.replay.first_flips import FIRST_FLIPS
from rewake.replay.ranks import Ranks
from rewake.replay.segments import CHUNK, Growing, Thinned
from rewake.replay.simulate import Simulator, Window, _kept_samples, _told
from rewake.replay.sync import Before, Sites, by_fold, causal, counted, evidence, flags_of, placed
from rewake.replay.unseen import Asked, infer


@pytest.mark.parametrize("in_memory", [4, 100])
def test_columns_come_back_from_disk_as_they_went(in_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT", in_memory)
    monkeypatch.setattr(segments, "CHUNK", 4)
    one, four = np.arange(10, dtype=np.uint16), np.arange(40, dtype=np.int64).reshape(-1, 4)
    with Growing() as kept:
        for first, last in ((0, 3), (3, 3), (3, 10)):
            kept.append({"one": one[first:last], "four": four[first:last]})
        assert len(kept) == 10
        np.testing.assert_array_equal(kept.read(2, 7)["four"], four[2:7])
        chunks = list(kept.chunks("one"))
        assert [len(chunk["one"]) for chunk in chunks] == [4, 4, 2]
        np.testing.assert_array_equal(np.concatenate([chunk["one"] for chunk in chunks]), one)


def test_a_full_disk_is_told_with_the_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file without a name lies where TMPDIR says."""
    full = Path("/dev/full").open("r+b", buffering=0)  # noqa: SIM115
    monkeypatch.setattr(tempfile, "SpooledTemporaryFile", lambda **_: full)
    with Growing() as kept, pytest.raises(OSError, match="No space left on device") as caught:
        kept.append({"one": np.zeros(4)})
    assert caught.value.filename == tempfile.gettempdir()


@pytest.mark.parametrize("at_a_time", [1, 3, 10, 100])
def test_rows_of_a_table_come_in_order_piece_by_piece(at_a_time: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "CHUNK", at_a_time)
    with duckdb.connect() as con:
        con.execute("CREATE TEMP TABLE t AS SELECT 10 - range AS a, range % 2 = 0 AS even FROM range(10)")
        pieces = list(segments.pieces_of(con, "t"))
    assert max(len(piece["a"]) for piece in pieces) == min(at_a_time, 10)
    assert np.concatenate([piece["a"] for piece in pieces]).tolist() == list(range(10, 0, -1))
    assert np.concatenate([piece["even"] for piece in pieces]).tolist() == [True, False] * 5


def test_columns_that_are_not_held_lie_in_a_file_however_few() -> None:
    kept = Growing(0)
    kept.append({"one": np.arange(3, dtype=np.uint16)})
    assert kept._files["one"]._rolled, "in no memory of this process"
    np.testing.assert_array_equal(kept.read(1, 3)["one"], [1, 2])


@pytest.mark.parametrize("in_memory", [4, 100])
def test_rows_are_written_over(in_memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT", in_memory)
    with Growing() as kept:
        kept.append({"one": np.zeros(10, np.uint16), "two": np.zeros(10)})
        kept.write(3, {"one": np.array([5, 6], np.uint16)})
        kept.append({"one": np.array([7], np.uint16), "two": np.ones(1)})
        assert kept.read(2, 11)["one"].tolist() == [0, 5, 6, 0, 0, 0, 0, 0, 7]
        assert kept.read(9, 11, "two")["two"].tolist() == [0, 1]


def test_the_class_with_most_rows_thins_out_and_rare_ones_stay() -> None:
    kept = Thinned(1, 10)
    for first in range(0, 40, 8):
        rows = np.arange(first, first + 8)
        kept.add(np.where(rows % 20 == 3, 7, 1), rows[:, np.newaxis])
    of, (numbers,) = kept.rows()
    assert kept.seen == {1: 38, 7: 2}
    common = [n for n in range(40) if n % 20 != 3]
    assert numbers[of == 1].tolist() == common[::8], "every eighth, from the first on"
    assert numbers[of == 7].tolist() == [3, 23]
    of, (numbers,) = Thinned(1).rows()
    assert len(of) == len(numbers) == 0


@given(st.lists(st.integers(0, 3), max_size=60), st.lists(st.integers(1, 9), max_size=12))
def test_what_stays_of_few_does_not_depend_on_the_pieces(classes: list[int], sizes: list[int]) -> None:
    of = np.array(classes, np.int64)
    edges = [0, *np.minimum(np.cumsum(sizes), len(of)).tolist(), len(of)]
    kept = Thinned(1, 60)
    for first, last in pairwise(edges):
        kept.add(of[first:last], np.arange(first, last)[:, np.newaxis])
    found, (numbers,) = kept.rows()
    assert numbers.tolist() == sorted(range(len(of)), key=lambda i: (classes[i], i))
    assert found.tolist() == sorted(classes)


def test_ranks_are_those_of_the_samples_and_between_them_for_others() -> None:
    ranks = Ranks(np.array([5, 5, 5, 5]), np.array([30, 10, 10, 20]), np.zeros(4, np.int64), np.array([0, 2, 4, 6]))
    rank, known = ranks.of(np.array([4, 1, 0]))
    assert known.tolist() == [True, False, True]
    assert rank.tolist() == [1.5 / 4, 3.5 / 4], "equal ones in order of their numbers"
    group, queue = np.array([5, 5, 9]), np.array([0, 90, 0])
    assert ranks.among(group, queue, np.array([15, 15, 15]))[0].tolist() == [2.5 / 4, 3.5 / 4, 0]
    assert ranks.among(group, queue)[1].tolist() == [True, True, False], "nothing like the last one"
    nobody = Ranks(*(np.empty(0, np.int64),) * 4)
    assert nobody.of(np.array([3]))[1].tolist() == [False]


votes = st.lists(st.tuples(*(st.integers(0, 3),) * 3, st.booleans(), st.booleans()), min_size=1, max_size=40)


@given(votes, st.integers(1, 40))
def test_votes_heard_in_pieces_are_those_heard_at_once(rows: Sequence[tuple[int, ...]], cut: int) -> None:
    waker, wakee, fold = (np.array([r[k] for r in rows]) for k in range(3))
    clear, set_ = (np.array([bool(r[k]) for r in rows]) for k in (3, 4))
    may = np.ones(len(rows), np.bool_)
    names = np.array([0, 1, 1, 2, 3])
    sites, vote = Sites.of(waker, wakee, names, may), evidence(may, clear, set_)
    relations = sync.Relations(names)
    pieces = [relations.number(waker[i], wakee[i]) for i in (slice(cut), slice(cut, None))]
    relation, groups = np.concatenate(pieces), relations.groups()
    n = len(relations)
    total = sum(counted(relation[i], vote[i], fold[i].astype(np.int8), n, 4) for i in (slice(cut), slice(cut, None)))
    there = flags_of(Sites(relation, groups, may), total)
    at_once = by_fold(sites, vote, fold.astype(np.int8), 4)
    for f in range(4):
        assert there.of(f).tolist() == at_once.of(f).tolist()
        assert there.known(f).tolist() == at_once.known(f).tolist()
    before = Before(groups)
    heard = [before.hear(placed(groups, relation[i]), vote[i], may[i]) for i in (slice(cut), slice(cut, None))]
    for k, expected in enumerate(causal(sites, vote)):
        assert np.concatenate([of[k] for of in heard]).tolist() == expected.tolist()


def test_pairs_are_numbered_alike_by_a_table_and_by_a_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    names = np.array([0, 1, 1, 0])

    def grouped() -> list[list[int]]:
        relations = sync.Relations(names)
        numbers = [relations.number(np.array(a), np.array(b)) for a, b in (([3, 1], [1, 1]), ([3, 0, 2], [1, 3, 2]))]
        relation = np.concatenate(numbers)
        return [group[relation].tolist() for group in relations.groups()]

    dense = grouped()
    monkeypatch.setattr(sync, "_DENSE", 0)
    assert grouped() == dense
    assert len(set(dense[2])) == 4, "of five decisions two are of one relation"
    assert dense[2][0] == dense[2][2]
    assert dense[0][1] == dense[0][4], "tasks of the same names"


def asked(n: int, seed: int) -> Asked:
    """Answers that differ by chance."""
    rng = np.random.default_rng(seed)

    def some(high: int, of: type = np.int32, times: int = 1) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
        return rng.integers(0, high, n * times).astype(of)

    counts = [np.arange(n, dtype=np.int32) // k for k in (5, 5, 25, 25)]
    return Asked(
        ts=np.arange(n, dtype=np.int64) * 60_000, waker=some(6, np.uint32), wakee=some(6, np.uint32),
        may=some(4, np.bool_), llc_waker=some(2, np.uint16), llc_prev=some(2, np.uint16),
        agreed=some(16, np.uint32, 4) | some(2, np.uint32, 4) << np.uint32(31), searched=some(5, np.uint8, 4),
        wide=some(1 << len(FIRST_FLIPS), np.uint32), doubt=some(3, np.uint8), otherwise=some(16, np.uint8),
        pair=some(2, np.uint32), decided=np.ones(n, np.bool_), scan_prev=some(4),
        scan_waker=some(4), chances_prev=counts[0], chances_waker=counts[1], writes_prev=counts[2],
        writes_waker=counts[3],
    )  # fmt: skip


@pytest.mark.parametrize("mode", ["auto", "causal"])
def test_inference_of_a_long_recording_is_that_of_a_short_one(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for nr_idle_scan, which hears what lies near its segment only."""
    whole, names = asked(900, 3), np.array([0, 1, 1, 2, 3, 4, 5])
    short = infer([whole], mode, [0, 2, 4], 2, names)
    for module in (segments, unseen):
        monkeypatch.setattr(module, "SEGMENT", 200)
    monkeypatch.setattr(segments, "CHUNK", 64)
    monkeypatch.setattr(unseen, "AROUND", 150)
    edges = [0, 100, 100, 555, 900]
    parts = [
        Asked(*(values[a * len(values) // 900 : b * len(values) // 900] for values in whole))
        for a, b in pairwise(edges)
    ]
    long = infer(parts, mode, [0, 2, 4], 2, names)
    np.testing.assert_array_equal(long.sync, short.sync)
    np.testing.assert_array_equal(long.told, short.told)
    assert short.turned is not None
    assert long.turned is not None
    np.testing.assert_array_equal(long.turned, short.turned)
    assert long.first_flips == short.first_flips
    if short.flips is not None:
        np.testing.assert_array_equal(long.flips, short.flips)
    assert long.scan is not None
    assert short.scan is not None
    for of_long, of_short in zip(long.scan, short.scan, strict=True):
        assert np.mean(of_long == of_short) > 0.97
        assert len(np.unique(of_long)) > 1


def test_what_is_inferred_of_a_decision_is_read_back_by_part() -> None:
    n = CHUNK + 5
    sync, scanned = np.arange(n) % 3 == 0, (np.arange(n) % 251).astype(np.uint8)
    part = _told(n, sync, scanned).read(CHUNK - 2, n)
    np.testing.assert_array_equal(part["sync"], sync[CHUNK - 2 :])
    np.testing.assert_array_equal(part["scanned"], scanned[CHUNK - 2 :])
    assert list(_told(n, None, scanned).read(0, 3)) == ["scanned"]
    assert _told(n, None, None).read(0, 3) == {}


def test_costs_are_made_for_the_windows_that_draw_from_them(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = np.arange(40) % 4 == 0
    costs = {"queue_ns": np.arange(40), "odd": odd}
    simulator = object.__new__(Simulator)
    simulator._samples = _kept_samples(costs)
    monkeypatch.setattr(_engine, "Costs", lambda samples: samples["queue_ns"].tolist())
    all_, even, odds = list(range(40)), np.flatnonzero(~odd).tolist(), np.flatnonzero(odd).tolist()
    for wanted, expected in (([0], [all_, [], []]), ([1, 2], [[], even, odds])):
        assert simulator._drawn_from([Window(0, 0, 0, 1, 1, costs=k) for k in wanted]) == expected
