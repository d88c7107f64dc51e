"""Batch statistics: mean and variance in one fixed order of fp32 operations, one rounding each.

Rows are float32 ``[rows, lanes]``. Sums run in element order; a division is a multiplication by the correctly rounded
reciprocal.
"""

import numpy as np
import numpy.typing as npt

from golden.numerics.arithmetic import add, multiply
from golden.vector.operations import reciprocal

F32 = npt.NDArray[np.float32]
STATS_MAX = 512
"""Most elements of one ``bn_stats`` (aws-neuron-sdk)."""


def _sum(rows: F32) -> F32:
    total = rows[0]
    for row in rows[1:]:
        total = add(total, row)
    return total


def bn_stats(rows: F32) -> F32:
    """``[6, lanes]``: count, mean and variance * count of the even elements, then of the odd ones.

    ``mean = sum(x) * (1 / count)``, then ``sum((x - mean) * (x - mean))``; all zero where there is no element.
    """
    if not 0 < len(rows) <= STATS_MAX:
        raise ValueError(f"bn_stats of {len(rows)} elements: legal is 1 to {STATS_MAX}")
    halves = []
    for half in (rows[0::2], rows[1::2]):
        count = np.full(rows.shape[1], len(half), np.float32)
        if not len(half):
            halves += [count, count, count]
            continue
        mean = multiply(_sum(half), reciprocal(count))
        distances = add(half, -mean)
        halves += [count, mean, _sum(multiply(distances, distances))]
    return np.stack(halves)


def bn_aggr(triples: F32) -> F32:
    """``[2, lanes]``: mean and variance of all elements behind ``[3 * n, lanes]`` triples of :func:`bn_stats`.

    ``mean = sum(count * mean_i) / sum(count)``; ``variance = sum(m_i + count * (mean_i - mean)**2) / sum(count)``.
    """
    if not len(triples) or len(triples) % 3:
        raise ValueError(f"bn_aggr of {len(triples)} rows: legal is a multiple of 3")
    counts, means, squares = triples[0::3], triples[1::3], triples[2::3]
    scale = reciprocal(_sum(counts))
    mean = multiply(_sum(multiply(counts, means)), scale)
    distances = add(means, -mean)
    spread = multiply(counts, multiply(distances, distances))
    return np.stack([mean, multiply(_sum(add(squares, spread)), scale)])
