"""Accumulation of exact products in fp32, one rounding per product, in a stated order.

Operands are float32 arrays whose values have at most 12 significant bits: what every format of the tensor engine
decodes to. Their products have at most 24. Two paths compute the same thing:

*Fast*: a product that lies in fp32's range is a float32 number, so ``acc + w * x`` in float32 rounds only in the add.

*Exact*, for the others: float64 holds the product (24 bits, exponents -298 to 255), and ``float32(float64(acc) +
product)`` rounds as if once. Proof. Let L and S be the terms of larger and smaller magnitude, 2**l and 2**s their
leading bits. Both are multiples of 2**(s-23) and the sum is below 2**(l+2), so float64 holds it exactly if l - s <= 28,
and then only the cast rounds. Otherwise |S| < 2**(l-28).

- If L is an fp32 number, its neighbours are at least 2**(l-24) away, ties half of that. The sum is closer to L than to
  a tie, and rounding it to float64 moves it by 2**(l-52) at most: both round to L.
- If not, L is the product. Either l >= 128: the sum exceeds 2**128 - 2**100, more than the 2**128 - 2**103 from which
  fp32 rounds to infinity, with and without float64 between. Or l < -126: the accumulator, below 2**-154, can only be
  zero, and the sum is exact.
"""

import numpy as np
from numpy.typing import NDArray

from golden.numerics.arithmetic import canonical

F32 = NDArray[np.float32]

ONE = 0x3F800000
"""1.0 as fp32."""
TILE = (64, 512)
"""Columns and moving columns updated at a time: 128 KiB of accumulators stay in the second-level cache."""


def multiply_add(acc: F32, a: F32, b: F32) -> F32:
    """``float32(acc + a * b)`` element by element with one rounding; any shapes that broadcast; NaN is canonical."""
    with np.errstate(all="ignore"):
        return canonical((acc.astype(np.float64) + a.astype(np.float64) * b.astype(np.float64)).astype(np.float32))


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
            work[...] = work.astype(np.float64) + column.astype(np.float64) * row
    tile[...] = canonical(work)


def exact_in_fp32(w: F32, x: F32) -> NDArray[np.bool_]:
    """Whether fp32 holds every product ``w[k, m] * x[k, n]`` exactly, for each ``k``.

    ``w`` is ``[K, M]``, ``x`` ``[K, N]``. Infinities, NaNs and zeros are left out: float32 handles them as it should.
    """
    one, other = _extremes(w), _extremes(x)
    if one and other and one[0] + other[0] >= -149 and one[1] + other[1] < 127:
        return np.ones(len(w), np.bool_)
    w_low, w_high = _range(w)
    x_low, x_high = _range(x)
    return (w_low + x_low >= -149) & (w_high + x_high < 127)


def _extremes(values: F32) -> tuple[int, int] | None:
    """Bounds of :func:`_range` over all rows, at little cost; None if only that can tell."""
    bits = values.view(np.uint32) & 0x7FFFFFFF
    if not bits.size or (bits & 0xFFF).any():
        return None
    least, most = int(np.where(bits == 0, ONE, bits).min()) >> 23, int(bits.max()) >> 23
    return (least - 127 - 11, max(most, 1) - 127) if least > 0 and most < 255 else None


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
