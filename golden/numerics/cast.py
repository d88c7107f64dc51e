"""Rounding a number into a format: to nearest even, stochastically, saturating."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from golden.numerics.codes import F64, Codes, code_dtype, decode, element_named
from spec.formats import FloatFormat, IntFormat, ScaleFormat
from spec.numerics import STOCHASTIC_BITS

I64 = NDArray[np.int64]


def cast(codes: ArrayLike, source: str, target: str, *, bits: Codes | None = None, saturate: bool = False) -> Codes:
    """Codes of format ``target`` for ``codes`` of format ``source``: one rounding, as :func:`encode` says."""
    return encode(target, decode(source, codes), bits=bits, saturate=saturate)


def encode(name: str, values: ArrayLike, *, bits: Codes | None = None, saturate: bool = False) -> Codes:
    """Codes of the numbers of format ``name`` that ``values`` round to.

    ``values`` are numbers of any format in float64. Without ``bits`` they are rounded to nearest even. With ``bits``,
    a uint32 array of random words, they are rounded stochastically: the top ``STOCHASTIC_BITS`` of the word, as a
    fraction of the last kept place, are added to the magnitude, and what is then below that place is cut off.

    =====================  ====================================================================================
    NaN                    the canonical NaN; -0 in ``fp4_e2m1``, which has none; 0 in integers
    beyond the largest     infinity, or NaN in a format without infinities, or the largest in ``fp4_e2m1``
    ... with ``saturate``  the largest number of that sign, for infinities too
    integers               saturate always
    ``e8m0``               NaN for zero and negative numbers; not below its smallest, 2**-127
    =====================  ====================================================================================
    """
    entry = element_named(name)
    values = np.asarray(values, np.float64)
    if isinstance(entry, IntFormat):
        codes = _to_int(entry, values, bits)
    elif isinstance(entry, ScaleFormat):
        codes = _to_scale(entry, values, bits, saturate)
    else:
        codes = _to_float(entry, values, bits, saturate)
    return codes.astype(code_dtype(name))


def _rounded(scaled: F64, bits: Codes | None) -> F64:
    """Non-negative ``scaled`` to an integer."""
    if bits is None:
        return np.rint(scaled)
    # Truncating first changes nothing: the random fraction has no bits below. 32 + 24 bits would not fit float64, but
    # only integers have 32 bits before the point, and those have none behind it.
    whole = np.floor(scaled)
    fraction = np.floor(np.ldexp(scaled - whole, STOCHASTIC_BITS)).astype(np.int64)
    random = np.asarray(bits, np.uint32).astype(np.int64) >> (32 - STOCHASTIC_BITS)
    return whole + (fraction + random >> STOCHASTIC_BITS)


def _to_int(entry: IntFormat, values: F64, bits: Codes | None) -> I64:
    limit = 2.0 ** (entry.width + 1)
    limited = np.clip(np.where(np.isnan(values), 0.0, values), -limit, limit)
    rounded = np.copysign(_rounded(np.abs(limited), bits), limited)
    return np.clip(rounded, entry.minimum, entry.maximum).astype(np.int64) & ((1 << entry.width) - 1)


def _kept(values: F64, lowest: int, mantissa_bits: int, bits: Codes | None) -> tuple[I64, I64]:
    """Exponents, none below ``lowest``, and rounded significands of finite values; the latter may reach 2.0."""
    magnitude = np.abs(np.where(np.isfinite(values), values, 0.0))
    exponent = np.where(magnitude == 0, lowest, np.maximum(np.frexp(magnitude)[1] - 1, lowest))
    return exponent.astype(np.int64), _rounded(np.ldexp(magnitude, mantissa_bits - exponent), bits).astype(np.int64)


def _to_float(entry: FloatFormat, values: F64, bits: Codes | None, saturate: bool) -> I64:
    exponent, kept = _kept(values, entry.exponent_min, entry.mantissa_bits, bits)
    # The significand's hidden bit, or its absence in a subnormal, and a carry out of it all count into the exponent.
    codes = (exponent - entry.exponent_min << entry.mantissa_bits) + kept
    overflow = entry.infinity_pattern or entry.nan_pattern
    if saturate or overflow is None:
        overflow = entry.max_finite
    codes = np.where((codes > entry.max_finite) | np.isinf(values), overflow, codes)
    sign = 1 << (entry.width - 1)
    nan = sign if entry.nan_pattern is None else entry.nan_pattern
    # Of the results so far only the overflow of a format without infinities can be NaN, and NaN has no sign.
    beyond = np.isnan(values) | (codes == nan)
    codes = np.where(beyond, nan, codes | np.signbit(values).astype(np.int64) * sign)
    return codes << (entry.storage - entry.width)


def _to_scale(entry: ScaleFormat, values: F64, bits: Codes | None, saturate: bool) -> I64:
    exponent, kept = _kept(values, -entry.bias, 0, bits)
    codes = exponent + (kept > 1) + entry.bias
    overflow = entry.nan_pattern - 1 if saturate else entry.nan_pattern
    codes = np.where((codes >= entry.nan_pattern) | np.isinf(values), overflow, codes)
    return np.where(np.isnan(values) | (values <= 0), entry.nan_pattern, codes)
