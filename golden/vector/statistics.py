"""Batch statistics: mean and variance in one fixed order of fp32 operations, one rounding each.

Rows are float32 ``[rows, lanes]``. Sums run in element order from +0. Elements are seen once, so distances are taken
from the first element instead of the mean, and the sums corrected at the end. What that costs: the sum of squares is
larger by ``count * (first - mean)**2``, and its rounding error in proportion.
"""

import numpy as np
import numpy.typing as npt

from golden.numerics.arithmetic import add, multiply
from golden.vector.operations import apply, reciprocal
from spec.vector import STATS_MAX, TRIPLE

F32 = npt.NDArray[np.float32]


def _sum(rows: F32) -> F32:
    total = np.zeros(rows.shape[1:], np.float32)
    for row in rows:
        total = add(total, row)
    return total


def _solve(first: F32, total: F32, squares: F32, scale: F32) -> tuple[F32, F32]:
    """Mean and sum of squared distances from it; ``scale`` is 1 / count. Rounding never makes the latter negative."""
    shift = multiply(total, scale)
    spread = apply("relu", add(squares, -multiply(total, shift)), np.float32(0))
    return add(first, shift), spread


def bn_stats(rows: F32) -> F32:
    """``[6, lanes]``: count, mean and variance * count of the even elements, then of the odd ones; of none, zeros."""
    if not 0 < len(rows) <= STATS_MAX:
        raise ValueError(f"bn_stats of {len(rows)} elements: legal is 1 to {STATS_MAX}")
    halves = []
    for half in (rows[0::2], rows[1::2]):
        count = np.full(rows.shape[1], len(half), np.float32)
        if not len(half):
            halves += [count, count, count]
            continue
        distances = add(half, -half[0])
        mean, spread = _solve(half[0], _sum(distances), _sum(multiply(distances, distances)), reciprocal(count))
        halves += [count, mean, spread]
    return np.stack(halves)


def bn_aggr(triples: F32) -> F32:
    """``[2, lanes]``: mean and variance of all elements behind ``[3 * n, lanes]`` triples of :func:`bn_stats`.

    The sum of squares takes ``count * distance**2`` and then ``count * variance`` of one triple after the other.
    """
    if not len(triples) or len(triples) % TRIPLE:
        raise ValueError(f"bn_aggr of {len(triples)} rows: legal is a multiple of {TRIPLE}")
    counts, means, spreads = (triples[offset::TRIPLE] for offset in range(TRIPLE))
    distances = add(means, -means[0])
    weighted = multiply(counts, distances)
    squares = np.stack([multiply(weighted, distances), spreads], axis=1).reshape(-1, triples.shape[1])
    scale = reciprocal(_sum(counts))
    mean, spread = _solve(means[0], _sum(weighted), _sum(squares), scale)
    return np.stack([mean, multiply(spread, scale)])
