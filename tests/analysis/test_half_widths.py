# SPDX-License-Identifier: GPL-2.0-or-later
"""The percentiles of block-bootstrap samples, against samples that are made."""

from __future__ import annotations

import numpy as np
import pytest

from rewake.analysis.simulated import _nearest_ranks


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
    assert _nearest_ranks(blocks, times, percentiles).tolist() == expected
