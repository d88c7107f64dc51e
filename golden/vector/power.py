"""``power`` and ``rsqrt``, bit for bit: the integer arithmetic that ``spec/power.py`` states.

Float32 arrays of any shapes that broadcast; special values are those of C's ``pow`` and of ``1 / sqrt``. The integers
take some sixty steps, so float64 comes first: where the error of the integers, of which ``margin`` is the bound, cannot
change the rounding, the float64 value is the result. The others, about four in a hundred, go through the integers.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from golden.numerics.arithmetic import CANONICAL_NAN
from spec import power as spec

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
I64 = npt.NDArray[np.int64]
Approximation = Callable[[F32, F32], tuple[F64, float]]
"""``a ** b`` in float64, and the margin."""

_ROWS = spec.log_rows()
_SCALE = np.array([scale << (1 - upper) for upper, scale, _ in _ROWS], np.int64)
_LOG = np.array([(upper << spec.LOG_BITS) + logarithm for upper, _, logarithm in _ROWS], np.int64)
"""With the power of two that an upper row takes out of the significand."""
_EXP = [np.array(column, np.int64) for column in zip(*spec.exp_rows(), strict=True)]
_MANTISSA = (1 << 23) - 1
_LOG_INDEX = 23 - spec.LOG_INDEX_BITS
_EXP_INDEX = spec.PRODUCT_BITS - spec.EXP_INDEX_BITS
_LAST = (1 << spec.LOG_INDEX_BITS) - 1
_SIGN = np.array([1, -1, CANONICAL_NAN, CANONICAL_NAN], np.float32)
BLOCK = 1 << 17
"""Elements at a time: temporaries stay in the cache, and the few that are left are enough for whole arrays too."""
ENORMOUS = 1 << 10
"""An exponent beyond every result."""


def power(a: F32, b: F32) -> F32:
    """``a ** b``."""
    a, b = np.broadcast_arrays(np.asarray(a, np.float32), np.asarray(b, np.float32))
    return _in_blocks(_power, a, b)


def rsqrt(a: F32) -> F32:
    """``1 / sqrt(a)``."""
    a = np.asarray(a, np.float32)
    return _in_blocks(_rsqrt, a, np.full(a.shape, -0.5, np.float32))


def exact(a: F32, b: F32) -> F64:
    """``a ** b`` of ``a`` of no sign before the last rounding: what the hardware computes. Of NaNs anything."""
    z = _product(b, *_logarithm(a))
    boundless = (a == 0) | np.isinf(a) | np.isinf(b)
    if boundless.any():
        boundless &= (b != 0) & (a != 1)
        z[boundless] = np.where((a > 1) == (b > 0), ENORMOUS, -ENORMOUS)[boundless] << spec.PRODUCT_BITS
    return _exponential(z)


def margin(b: F32, z: F64) -> float:
    """By how much of itself ``exact`` of these exponents may differ from ``2**z``, as long as that is finite."""
    # From -200 down and 200 up both round to zero and infinity, whatever the margin.
    size, exponent = np.fmin(max(z.max(), -z.min()), 200), max(b.max(), -b.min())
    return float(spec.RESULT_ERROR + size * spec.CUT_ERROR + np.fmin(exponent * spec.LOG_ERROR, size * spec.LOG_SHARE))


def _in_blocks(function: Callable[[F32, F32], F32], a: F32, b: F32) -> F32:
    result = np.empty(a.shape, np.float32)
    flat, bases, exponents = result.reshape(-1), np.ravel(a), np.ravel(b)
    with np.errstate(all="ignore"):
        for start in range(0, flat.size, BLOCK):
            block = slice(start, start + BLOCK)
            flat[block] = function(bases[block], exponents[block])
    return result


def _power(a: F32, b: F32) -> F32:
    result = _rounded(np.abs(a), b, _by_logarithm)
    if a.min() > 0 and not np.isnan(b.min()):
        return result
    whole, half = np.rint(b) == b, b * np.float32(0.5)
    negative = np.signbit(a) & ~np.isnan(a)
    odd = negative & whole & (np.rint(half) != half)
    nan = negative & ~whole & (a != 0) & np.isfinite(a)
    nan |= (np.isnan(a) & (b != 0)) | (np.isnan(b) & (a != 1))
    result *= _SIGN.take(odd.view(np.int8) + 2 * nan.view(np.int8))
    return result


def _rsqrt(a: F32, b: F32) -> F32:
    result = _rounded(np.abs(a), b, _by_root)
    if a.min() > 0:
        return result
    zero = np.flatnonzero(a == 0)
    result[zero] = np.copysign(np.float32(np.inf), a[zero])
    return np.where(~(a >= 0), CANONICAL_NAN, result)


def _rounded(a: F32, b: F32, approximate: Approximation) -> F32:
    """``exact``, rounded, and by way of the approximation where all numbers within its margin round to the same."""
    value, bound = approximate(a, b)
    highest = (value * (1 + bound)).astype(np.float32)
    value *= 1 - bound
    result = value.astype(np.float32)
    open_ = np.flatnonzero(result != highest)  # NaNs too
    result[open_] = exact(a[open_], b[open_])
    return result


def _by_logarithm(a: F32, b: F32) -> tuple[F64, float]:
    z = a.astype(np.float64)
    np.log2(z, out=z)
    z *= b.astype(np.float64)
    bound = margin(b, z)
    return np.exp2(z, out=z), bound


def _by_root(a: F32, b: F32) -> tuple[F64, float]:
    value = a.astype(np.float64)
    np.sqrt(value, out=value)
    np.divide(1, value, out=value)
    return value, margin(b, np.log2([value.min(), value.max()]))


def _logarithm(a: F32) -> tuple[I64, npt.NDArray[np.bool_]]:
    """``log2(a)`` in fixed point, and whether it has the bits of a result near 1."""
    # Subnormals become normal by an exact product.
    small = a < np.float32(2.0**-126)
    bits = (a * np.where(small, np.float32(2.0**24), np.float32(1))).view(np.int32)
    index = bits >> _LOG_INDEX & _LAST
    rest = ((bits >> 23) - 127 - 24 * small.view(np.int8)).astype(np.int64) << spec.LOG_BITS
    rest += _LOG.take(index)
    f = (bits & _MANTISSA | 1 << 23) * _SCALE.take(index) - (1 << spec.DISTANCE_BITS)
    h: Any = spec.SERIES[-1]
    for degree in (2, 1, 0):
        drop = spec.DISTANCE_BITS + spec.SERIES_BITS[degree + 1] - spec.SERIES_BITS[degree]
        h = spec.SERIES[degree] - (f * h >> drop)
    h *= f
    total = spec.DISTANCE_BITS + spec.SERIES_BITS[0]
    near = rest == 0  # e is 0, and the logarithm of a row inside the table is never whole
    return (h >> np.where(near, total - spec.NEAR_BITS, total - spec.LOG_BITS)) + rest, near


def _product(b: F32, logarithm: I64, near: npt.NDArray[np.bool_]) -> I64:
    """``b * log2(a)`` in fixed point; enormous where it is beyond every result."""
    leading = np.abs(logarithm)
    # 53 bits are exact in float64, whose exponent field is the place of the leading bit.
    spare = np.minimum(spec.LOG_WIDTH + 1022 - (leading.astype(np.float64).view(np.int64) >> 52), 63)
    leading <<= spare
    leading >>= spec.LOG_WIDTH - spec.LEADING_BITS
    bits = b.view(np.int32)
    field = bits >> 23 & 0xFF
    significand = bits & _MANTISSA | np.minimum(field, 1) << 23
    places = 127 + 23 - spec.LOG_WIDTH + spec.LEADING_BITS - spec.PRODUCT_BITS
    shift = spare + np.where(near, spec.NEAR_BITS + places, spec.LOG_BITS + places) - np.maximum(field, 1)
    product = leading * significand
    enormous = (shift < spec.LEAST_SHIFT) & (product != 0)
    product >>= np.clip(shift, 0, 63)
    if enormous.any():
        product[enormous] = ENORMOUS << spec.PRODUCT_BITS
    sign = (logarithm ^ bits) >> 63
    product ^= sign
    product -= sign
    return product


def _exponential(z: I64) -> F64:
    """``2**z`` to ``spec.EXP_BITS[0]`` bits below the point of its significand."""
    index = z >> _EXP_INDEX
    exponent = index >> spec.EXP_INDEX_BITS
    index &= (1 << spec.EXP_INDEX_BITS) - 1
    t = (z & ((1 << _EXP_INDEX) - 1)) - (1 << _EXP_INDEX - 1)
    c0, c1, c2 = (column.take(index) for column in _EXP)
    low, middle, high = reversed(spec.EXP_BITS)
    h = c1 + (t * c2 >> spec.PRODUCT_BITS + low - middle)
    y = c0 + (t * h >> spec.PRODUCT_BITS + middle - high)
    scale = (np.clip(exponent, -400, 400) + (1023 - high) << 52).view(np.float64)
    return y * scale
