"""``power`` and ``rsqrt`` of the vector engine: fixed-point arithmetic, its widths and its tables.

``a ** b = 2 ** (b * log2(a))`` for positive ``a``; every step is integer arithmetic on stated bits::

    |a|  = 2**e * u, u in [0.7, 1.42)                           # bits moved
    f    = u * r - 1                  in 2**-34, exact          # r: LOG_ROWS, about 1 / u; 1 on both sides of u = 1
    h    = k0 - f * (k1 - f * (k2 - f * k3))                    # SERIES: log2(1 + f) = f * h
    L    = e - log2(r) + f * h        in 2**-44, or 2**-60 where e = log2(r) = 0, near a = 1
    W, s = L's 38 leading bits and their place
    z    = b * W                      in 2**-31
    y    = c0 + t * (c1 + t * c2)     in 2**-32                 # EXP_ROWS, t: distance from the row's middle
    a**b = 2**floor(z) * y            rounded once

All shifts to the right round down. Products have at most 63 bits.

Error. ``f * h`` is wrong by the series' tail, f**4 / 5 or 2**-34.3 of itself for f < 2**-8, and by cut bits, 2**-35.
A result of exponent z is then wrong by z * 2**-33.6 * ln 2 of itself: 0.12 units in the last place for 128, the largest
z of a normal number. The exponential adds 0.02, the last rounding 0.5. ``tests/vector`` measures both operations.
"""

import decimal
import functools

LOG_INDEX_BITS = 8
"""Leading mantissa bits that choose a row of the logarithm's table."""
RECIPROCAL_BITS = 10
"""Bits of ``r`` below the point."""
DISTANCE_BITS = 34
"""Bits of ``f`` below the point: 23 of the mantissa, one where it is halved, those of ``r``."""
SERIES_BITS = (36, 28, 20, 12)
"""Bits below the point of the coefficients and sums, ``k0`` first."""
LOG_BITS, NEAR_BITS = 44, 60
"""Bits of ``L`` below the point, and where the result is near 1."""
LOG_WIDTH = 53
"""Bits of the magnitude of ``L``, in both cases."""
LEADING_BITS = 38
"""Bits of ``W``."""
PRODUCT_BITS = 31
"""Bits of ``z`` below the point."""
LEAST_SHIFT = 22
"""A product that is shifted right by less is beyond every result, 2**8 and more."""
EXP_INDEX_BITS = 8
EXP_BITS = (32, 24, 14)
"""Bits below the point of ``c0``, ``c1``, ``c2``."""

_CONTEXT = decimal.Context(prec=40)
_LN2 = _CONTEXT.ln(2)


def _fixed(value: decimal.Decimal, bits: int) -> int:
    return int(_CONTEXT.multiply(value, decimal.Decimal(1 << bits)).to_integral_value())


SERIES: tuple[int, ...] = tuple(_fixed(1 / (_LN2 * (power + 1)), bits) for power, bits in enumerate(SERIES_BITS))
"""``k0`` to ``k3``: 1 / ((j + 1) ln 2)."""


@functools.cache
def log_rows() -> tuple[tuple[int, int, int], ...]:
    """For each index ``(upper, r, -log2(r))``: whether ``u`` is half the significand, the latter two in fixed point."""
    rows = []
    count = 1 << LOG_INDEX_BITS
    for index in range(count):
        upper = index >= 0.414 * count
        if index in (0, count - 1):
            rows.append((int(upper), 1 << RECIPROCAL_BITS, 0))
            continue
        significand = 1 + (index + decimal.Decimal("0.5")) / count
        scale = _fixed((2 if upper else 1) / significand, RECIPROCAL_BITS)
        logarithm = _CONTEXT.ln(decimal.Decimal(scale) / (1 << RECIPROCAL_BITS)) / _LN2
        rows.append((int(upper), scale, _fixed(-logarithm, LOG_BITS)))
    return tuple(rows)


@functools.cache
def exp_rows() -> tuple[tuple[int, int, int], ...]:
    """For each index ``(c0, c1, c2)`` of ``2**x`` about the middle of the row, in fixed point."""
    rows = []
    for index in range(1 << EXP_INDEX_BITS):
        middle = _CONTEXT.exp(_LN2 * (index + decimal.Decimal("0.5")) / (1 << EXP_INDEX_BITS))
        terms = (middle, middle * _LN2, middle * _LN2 * _LN2 / 2)
        c0, c1, c2 = (_fixed(term, bits) for term, bits in zip(terms, EXP_BITS, strict=True))
        rows.append((c0, c1, c2))
    return tuple(rows)
