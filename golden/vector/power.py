"""``power`` and ``rsqrt``, bit for bit: the integer arithmetic that ``spec/power.py`` states.

Float32 arrays of any shapes that broadcast; special values are those of C's ``pow`` and of ``1 / sqrt``.
"""

import numpy as np
import numpy.typing as npt

from golden.numerics.arithmetic import CANONICAL_NAN
from spec import power as spec

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

_UPPER, _SCALE, _LOG = (np.array(column, np.int64) for column in zip(*spec.log_rows(), strict=True))
_EXP = [np.array(column, np.int64) for column in zip(*spec.exp_rows(), strict=True)]
_MANTISSA = (1 << 23) - 1
_LOG_INDEX = 23 - spec.LOG_INDEX_BITS
_EXP_INDEX = spec.PRODUCT_BITS - spec.EXP_INDEX_BITS
_LAST = (1 << spec.LOG_INDEX_BITS) - 1
BLOCK = 1 << 13
ENORMOUS = 1 << 10
"""An exponent beyond every result."""


def power(a: F32, b: F32) -> F32:
    """``a ** b``."""
    a, b = np.broadcast_arrays(np.asarray(a, np.float32), np.asarray(b, np.float32))
    negative = np.signbit(a) & ~np.isnan(a)
    whole, odd = _integer(b)
    result = np.where(negative & odd, -1, 1).astype(np.float32) * _magnitude(np.abs(a), b)
    invalid = negative & np.isfinite(a) & (a != 0) & ~whole
    nan = (np.isnan(a) & (b != 0)) | (np.isnan(b) & (a != 1)) | invalid
    return np.where(nan, CANONICAL_NAN, result)


def rsqrt(a: F32) -> F32:
    """``1 / sqrt(a)``."""
    a = np.asarray(a, np.float32)
    result = np.copysign(_magnitude(np.abs(a), np.full(a.shape, -0.5, np.float32)), a)
    return np.where(np.isnan(a) | (a < 0), CANONICAL_NAN, result)


def _integer(b: F32) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Whether ``b`` is an integer (infinities are), and an odd one."""
    bits = b.view(np.int32) & 0x7FFFFFFF
    below = np.clip(127 + 23 - (bits >> 23), 0, 24)  # places of the significand below the point
    significand = (bits & _MANTISSA) | 1 << 23
    whole = (bits == 0) | (significand & ((1 << below) - 1) == 0)
    return whole, whole & (bits != 0) & (bits >> 23 <= 127 + 23) & (significand >> below & 1 == 1)


def _magnitude(a: F32, b: F32) -> F32:
    """``a ** b`` for ``a`` of no sign; of NaNs anything. In blocks, whose temporaries stay in the cache."""
    result = np.empty(a.shape, np.float32)
    flat, bases, exponents = result.reshape(-1), np.ravel(a), np.ravel(b)
    with np.errstate(all="ignore"):
        for start in range(0, flat.size, BLOCK):
            block = slice(start, start + BLOCK)
            flat[block] = _block(bases[block], exponents[block])
    return result


def _block(a: F32, b: F32) -> F32:
    logarithm, bits = _logarithm(a)
    z = _product(b, logarithm, bits)
    boundless = ((a == 0) | np.isinf(a) | np.isinf(b)) & (b != 0) & (a != 1)
    rises = (a > 1) == (b > 0)
    z = np.where(boundless, np.where(rises, ENORMOUS, -ENORMOUS) << spec.PRODUCT_BITS, z)
    return _exponential(z)


def _logarithm(a: F32) -> tuple[I64, npt.NDArray[np.bool_]]:
    """``log2(a)`` in fixed point, and whether it has the bits of a result near 1."""
    finite = np.where((a == 0) | ~np.isfinite(a), np.float32(1), a)
    # Subnormals become normal by an exact product.
    small = finite < np.float32(2.0**-126)
    bits = np.where(small, finite * np.float32(2.0**24), finite).view(np.int32).astype(np.int64)
    significand = (bits & _MANTISSA) | 1 << 23
    index = significand >> _LOG_INDEX & _LAST
    upper = _UPPER[index]
    e = (bits >> 23) - 127 - 24 * small + upper
    f = (significand * _SCALE[index] << (1 - upper)) - (1 << spec.DISTANCE_BITS)
    h: I64 = np.full(f.shape, spec.SERIES[-1], np.int64)
    for degree in (2, 1, 0):
        drop = spec.DISTANCE_BITS + spec.SERIES_BITS[degree + 1] - spec.SERIES_BITS[degree]
        h = spec.SERIES[degree] - (f * h >> drop)
    total = spec.DISTANCE_BITS + spec.SERIES_BITS[0]
    near = (e == 0) & ((index == 0) | (index == _LAST))
    far = (e << spec.LOG_BITS) + _LOG[index] + (f * h >> total - spec.LOG_BITS)
    return np.where(near, f * h >> total - spec.NEAR_BITS, far), near


def _product(b: F32, logarithm: I64, near: npt.NDArray[np.bool_]) -> I64:
    """``b * log2(a)`` in fixed point; enormous where it is beyond every result."""
    size = np.abs(logarithm)
    # 53 bits are exact in float64, whose exponent field is the place of the leading bit.
    spare = np.minimum(spec.LOG_WIDTH + 1022 - (size.astype(np.float64).view(np.int64) >> 52), 63)
    leading = (size << spare) >> (spec.LOG_WIDTH - spec.LEADING_BITS)
    bits = b.view(np.int32).astype(np.int64)
    field = np.maximum(bits >> 23 & 0xFF, 1)
    significand = (bits & _MANTISSA) | np.where(bits >> 23 & 0xFF, 1 << 23, 0)
    places = np.where(near, spec.NEAR_BITS, spec.LOG_BITS) - spec.LOG_WIDTH + spec.LEADING_BITS + spare
    shift = places + (127 + 23 - field) - spec.PRODUCT_BITS
    product = leading * significand >> np.clip(shift, 0, 63)
    product = np.where((shift < spec.LEAST_SHIFT) & (leading != 0) & (significand != 0), ENORMOUS << 31, product)
    return np.where((bits < 0) ^ (logarithm < 0), -product, product)


def _exponential(z: I64) -> F32:
    """``2**z``, rounded once."""
    exponent, fraction = z >> spec.PRODUCT_BITS, z & ((1 << spec.PRODUCT_BITS) - 1)
    index = fraction >> _EXP_INDEX
    t = (fraction & ((1 << _EXP_INDEX) - 1)) - (1 << _EXP_INDEX - 1)
    c0, c1, c2 = (column[index] for column in _EXP)
    low, middle, high = reversed(spec.EXP_BITS)
    h = c1 + (t * c2 >> spec.PRODUCT_BITS + low - middle)
    y = c0 + (t * h >> spec.PRODUCT_BITS + middle - high)
    scale = (np.clip(exponent - high, -400, 400) + 1023 << 52).view(np.float64)
    return (y * scale).astype(np.float32)
