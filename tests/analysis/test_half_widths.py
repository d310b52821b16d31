# SPDX-License-Identifier: GPL-2.0-or-later
"""The percentiles of block-bootstrap samples, against samples that are made."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

from rewake.analysis.simulated import _BLOCKS, _LEVEL, _RESAMPLES, _SEED, _half_widths, _nearest_ranks


@pytest.mark.parametrize("seed", range(5))
def test_percentiles_are_those_of_the_samples(seed: int) -> None:
    rng = np.random.default_rng(seed)
    blocks = [np.sort(rng.integers(0, rng.integers(2, 1000), rng.integers(1, 300))) for _ in range(7)]
    times = np.stack([np.bincount(rng.integers(0, 7, 7), minlength=7) for _ in range(20)])
    percentiles = (0.5, 0.9, 0.99)
    expected = []
    for row in times:
        sample = np.sort(np.concatenate([block for block, n in zip(blocks, row, strict=True) for _ in range(n)]))
        expected.append([sample[int(np.ceil(q * len(sample))) - 1] for q in percentiles])
    assert _nearest_ranks(lambda: blocks, times, percentiles).tolist() == expected


def _decisions(waits: list[int], ts: list[int]) -> duckdb.DuckDBPyConnection:
    """Of which none is at its place."""
    con = duckdb.connect()
    con.execute("CREATE MACRO waited_for_cpu(kind, class, prio, censored, latency_ns) AS latency_ns IS NOT NULL")
    con.execute("CREATE TABLE decision (decision_id BIGINT, ts_ns BIGINT, kind INT, class INT, prio INT, "
                "censored BOOLEAN, latency_ns BIGINT)")  # fmt: skip
    for i in np.random.default_rng(1).permutation(len(waits)).tolist():
        con.execute("INSERT INTO decision VALUES (?, ?, 0, 0, 120, false, ?)", [i, ts[i], waits[i]])
        con.execute("INSERT INTO decision VALUES (?, ?, 0, 0, 120, false, NULL)", [i + len(waits), ts[i]])
    return con


@pytest.mark.parametrize("n", [1, 3, 20, 237])
@pytest.mark.parametrize("apart_ns", [0, 1, 10, 1_000_000])
def test_half_widths_are_those_of_samples_of_blocks(n: int, apart_ns: int) -> None:
    waits = np.random.default_rng(n).integers(1_000, 90_000, n).tolist()
    ts = [5 + i // 4 * apart_ns for i in range(n)]
    blocks = [b for b in np.array_split(np.array(waits), _BLOCKS) if len(b)]
    rng = np.random.default_rng(_SEED)
    drawn = []
    for _ in range(_RESAMPLES):
        sample = np.sort(np.concatenate([blocks[k] for k in rng.integers(0, len(blocks), len(blocks))]))
        drawn.append([sample[int(np.ceil(q * len(sample))) - 1] for q in (0.5, 0.9, 0.99)])
    low, high = np.quantile(drawn, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2], axis=0)
    assert _half_widths(_decisions(waits, ts)) == dict(zip((0.5, 0.9, 0.99), (high - low) / 2, strict=True))


def test_where_nobody_waited_there_are_none() -> None:
    assert _half_widths(_decisions([], [])) == {}
