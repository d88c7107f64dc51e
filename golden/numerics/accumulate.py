"""Accumulation of exact products in fp32, one rounding per product, in a stated order.

Operands are float32 arrays whose values have at most 12 significant bits: what every format of the tensor engine
decodes to. Their products have at most 24. Two paths compute the same thing:

*Fast*: a product that lies in fp32's range is a float32 number, so ``acc + w * x`` in float32 rounds only in the add.

*Exact*, for the others: float64 holds the product (24 bits, exponents -298 to 256). Its sum with the accumulator is
rounded to odd in float64 and then to nearest even in float32. Rounding to odd: let ``s`` be the float64 sum and ``e``
its error, which TwoSum gives exactly because nothing over- or underflows. The exact sum ``s + e`` lies between ``s``
and the next number on the side of ``e``; if it is neither of them, the one whose last bit is odd is taken. fp32 keeps
24 of these 53 bits, fewer where it is subnormal. Its numbers and the ties between them are even in float64, so no
inexact sum becomes one of them or crosses one, and rounding again gives what one rounding of the exact sum gives.
"""

import numpy as np
from numpy.typing import NDArray

from golden.numerics.arithmetic import canonical

F32 = NDArray[np.float32]

TILE = (64, 512)
"""Columns and moving columns updated at a time: 128 KiB of accumulators stay in the second-level cache."""


def multiply_add(acc: F32, a: F32, b: F32) -> F32:
    """``float32(acc + a * b)`` element by element with one rounding; any shapes that broadcast; NaN is canonical."""
    with np.errstate(all="ignore"):
        return canonical(_add_rounding_to_odd(acc.astype(np.float64), a.astype(np.float64) * b.astype(np.float64)))


def _add_rounding_to_odd(acc: NDArray[np.float64], product: NDArray[np.float64]) -> F32:
    total = np.atleast_1d(acc + product)
    virtual = total - acc
    error = (acc - (total - virtual)) + (product - virtual)
    bits = total.view(np.int64)
    # A step of one in the pattern is a step of the magnitude: up if the error points away from zero.
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    bits += np.where(inexact, np.where((error > 0) == (total > 0), 1, -1), 0)
    return total.astype(np.float32).reshape(np.broadcast_shapes(acc.shape, product.shape))


def accumulate(acc: F32, w: F32, x: F32) -> F32:
    """Add ``w[k, :, None] * x[k, None, :]`` to ``acc`` in place, ``k`` ascending, one rounding per ``k``.

    ``acc`` is float32 ``[M, N]``, ``w`` ``[K, M]``, ``x`` ``[K, N]``. Returns ``acc``, NaNs canonical. An infinity
    times zero and the difference of two infinities are NaN; signed zeros follow IEEE 754.
    """
    exact = exact_in_fp32(w, x)
    with np.errstate(all="ignore"):
        for top in range(0, acc.shape[0], TILE[0]):
            for left in range(0, acc.shape[1], TILE[1]):
                tile = acc[top : top + TILE[0], left : left + TILE[1]]
                _accumulate_tile(tile, w[:, top : top + TILE[0]], x[:, left : left + TILE[1]], exact)
    return acc


def _accumulate_tile(tile: F32, w: F32, x: F32, exact: NDArray[np.bool_]) -> None:
    work = np.ascontiguousarray(tile)
    product = np.empty_like(work)
    for k in range(len(w)):
        column, row = w[k, :, None], x[k, None, :]
        if exact[k]:
            np.multiply(column, row, out=product)
            np.add(work, product, out=work)
        else:
            work[...] = _add_rounding_to_odd(work.astype(np.float64), column.astype(np.float64) * row)
    tile[...] = canonical(work)


def exact_in_fp32(w: F32, x: F32) -> NDArray[np.bool_]:
    """Whether fp32 holds every product ``w[k, m] * x[k, n]`` exactly, for each ``k``.

    ``w`` is ``[K, M]``, ``x`` ``[K, N]``. Infinities, NaNs and zeros are left out: float32 handles them as it should.
    """
    w_low, w_high = _range(w)
    x_low, x_high = _range(x)
    return (w_low + x_low >= -149) & (w_high + x_high < 127)


def _range(values: F32) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Exponents of the lowest bit set in, and of the largest number of, each row; refuses what is not an operand."""
    bits = values.view(np.uint32) & 0x7FFFFFFF
    field = (bits >> 23).astype(np.int64)
    counts = (bits != 0) & (field != 255)
    significand = (bits & 0x7FFFFF) | np.where(field > 0, 0x800000, 0).astype(np.uint32)
    lowest = np.frexp((significand & -significand.astype(np.int32)).astype(np.float32))[1] - 1
    highest = np.frexp(significand.astype(np.float32))[1] - 1
    if np.any(counts & (highest - lowest > 11)):
        raise ValueError("operand of more than 12 significant bits: legal are values of the tensor engine's formats")
    scale = np.maximum(field, 1) - 150
    low = np.where(counts, scale + lowest, 1000).min(axis=-1, initial=1000)
    high = np.where(counts, scale + highest, -1000).max(axis=-1, initial=-1000)
    return low, high
