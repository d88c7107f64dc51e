"""``power`` and ``rsqrt``, bit for bit: the integer arithmetic that ``spec/power.py`` states.

Float32 arrays of any shapes that broadcast; special values are those of C's ``pow`` and of ``1 / sqrt``. Written for
one element and compiled: as numpy arrays the sixty steps would go through memory sixty times.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from golden.compiled import inlined, per_element
from golden.numerics.arithmetic import CANONICAL_NAN
from spec import power as spec

F32 = npt.NDArray[np.float32]

_ROWS = spec.log_rows()
_SCALE = np.array([scale << (1 - upper) for upper, scale, _ in _ROWS], np.int64)
_LOG = np.array([(upper << spec.LOG_BITS) + logarithm for upper, _, logarithm in _ROWS], np.int64)
"""With the power of two that an upper row takes out of the significand."""
_C0, _C1, _C2 = (np.array(column, np.int64) for column in zip(*spec.exp_rows(), strict=True))
_K0, _K1, _K2, _K3 = spec.SERIES
_DROP0, _DROP1, _DROP2 = (
    spec.DISTANCE_BITS + below - above for above, below in zip(spec.SERIES_BITS, spec.SERIES_BITS[1:], strict=False)
)
_SERIES_BITS = spec.DISTANCE_BITS + spec.SERIES_BITS[0]
_HIGH, _MIDDLE, _LOW = spec.EXP_BITS
_LOG_BITS, _NEAR_BITS, _LOG_WIDTH, _LEADING_BITS = spec.LOG_BITS, spec.NEAR_BITS, spec.LOG_WIDTH, spec.LEADING_BITS
_PRODUCT_BITS, _LEAST_SHIFT, _DISTANCE_BITS = spec.PRODUCT_BITS, spec.LEAST_SHIFT, spec.DISTANCE_BITS
_MANTISSA = (1 << 23) - 1
_LOG_INDEX = 23 - spec.LOG_INDEX_BITS
_LAST_LOG = (1 << spec.LOG_INDEX_BITS) - 1
_EXP_INDEX_BITS = spec.EXP_INDEX_BITS
_EXP_INDEX = spec.PRODUCT_BITS - spec.EXP_INDEX_BITS
_LAST_EXP = (1 << spec.EXP_INDEX_BITS) - 1
_BIAS, _SUBNORMAL_SHIFT = 127, 24
_NAN, _INFINITY = np.float32(CANONICAL_NAN), np.float32(np.inf)
_ZERO, _HALF, _ONE = np.float32(0), np.float32(0.5), np.float32(1)
_FARTHEST = 400
"""An exponent beyond every result, that float64 still has."""


def power(a: F32, b: F32) -> F32:
    """``a ** b``."""
    with np.errstate(all="ignore"):
        return np.asarray(_power(np.asarray(a, np.float32), np.asarray(b, np.float32)))


def rsqrt(a: F32) -> F32:
    """``1 / sqrt(a)``."""
    with np.errstate(all="ignore"):
        return np.asarray(_rsqrt(np.asarray(a, np.float32)))


@per_element
def _power(a: Any, b: Any) -> Any:
    if 0 < a < _INFINITY and abs(b) < _INFINITY:
        return np.float32(_exact(a, b))
    if b == 0 or a == 1:
        return _ONE
    if math.isnan(a) or math.isnan(b):
        return _NAN
    magnitude, sign = np.float32(abs(a)), _ONE
    if np.float32(a).view(np.int32) < 0:
        half = np.float32(b * _HALF)
        if np.rint(b) == b:
            sign = _ONE if np.rint(half) == half else -_ONE
        elif 0 < magnitude < _INFINITY:
            return _NAN
    if magnitude == 1:
        return sign
    if magnitude == 0 or math.isinf(magnitude) or math.isinf(b):
        return sign * (_INFINITY if (magnitude > 1) == (b > 0) else _ZERO)
    return sign * np.float32(_exact(magnitude, b))


@per_element
def _rsqrt(a: Any) -> Any:
    if a == 0:
        return -_INFINITY if np.float32(a).view(np.int32) < 0 else _INFINITY
    if not a > 0:
        return _NAN
    return _ZERO if math.isinf(a) else np.float32(_exact(a, np.float32(-0.5)))


@inlined
def _exact(a, b):  # type: ignore[no-untyped-def]
    """``a ** b`` in float64, before the last rounding, of finite ``a > 0`` and ``b``."""
    # The logarithm, in fixed point. Subnormals become normal by an exact product.
    bits, exponent = np.float32(a).view(np.int32), np.int64(-_BIAS)
    if bits <= _MANTISSA:
        bits = np.float32(a * np.float32(1 << _SUBNORMAL_SHIFT)).view(np.int32)
        exponent -= _SUBNORMAL_SHIFT
    index = np.uint64(bits >> _LOG_INDEX & _LAST_LOG)
    rest = ((np.int64(bits >> 23) + exponent) << _LOG_BITS) + _LOG[index]
    f = np.int64(bits & _MANTISSA | 1 << 23) * _SCALE[index] - (1 << _DISTANCE_BITS)
    h = f * (_K0 - (f * (_K1 - (f * (_K2 - (f * _K3 >> _DROP2)) >> _DROP1)) >> _DROP0))
    # Where e is 0, since the logarithm of a row inside the table is never whole.
    log_bits = _NEAR_BITS if rest == 0 else _LOG_BITS
    logarithm = (h >> (_SERIES_BITS - log_bits)) + rest
    # Its product with the exponent.
    leading = abs(logarithm)
    # 53 bits are exact in float64, whose exponent field is the place of the leading bit.
    spare = min(np.int64(_LOG_WIDTH + 1022) - (np.float64(leading).view(np.int64) >> 52), np.int64(63))
    word = np.float32(b).view(np.int32)
    field = np.int64(word >> 23 & 0xFF)
    significand = np.int64(word & _MANTISSA) | min(field, np.int64(1)) << 23
    field = max(field, np.int64(1))
    z = ((leading << spare) >> (_LOG_WIDTH - _LEADING_BITS)) * significand
    shift = spare + log_bits + (_BIAS + 23 - _LOG_WIDTH + _LEADING_BITS - _PRODUCT_BITS) - field
    z = np.int64(_FARTHEST) << _PRODUCT_BITS if z and shift < _LEAST_SHIFT else z >> min(shift, np.int64(63))
    sign = (logarithm ^ np.int64(word)) >> 63
    z = (z ^ sign) - sign
    # Two to its power.
    row = z >> _EXP_INDEX
    exponent = min(max(row >> _EXP_INDEX_BITS, np.int64(-_FARTHEST)), np.int64(_FARTHEST))
    index = np.uint64(row & _LAST_EXP)
    t = (z & ((1 << _EXP_INDEX) - 1)) - (1 << (_EXP_INDEX - 1))
    y = _C0[index] + (
        t * (_C1[index] + (t * _C2[index] >> _PRODUCT_BITS + _LOW - _MIDDLE)) >> _PRODUCT_BITS + _MIDDLE - _HIGH
    )
    return y * np.int64((exponent + 1023 - _HIGH) << 52).view(np.float64)
