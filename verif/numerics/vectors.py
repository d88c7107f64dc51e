"""Operands for arithmetic: every corner class beside uniform bit patterns.

All functions take a numpy generator and return codes (see :mod:`golden.numerics.codes`). Uniform patterns alone would
almost never meet: exponents far apart make one operand of an addition vanish.
"""

import numpy as np
from numpy.typing import NDArray

from golden.numerics import code_dtype, decode, encode
from golden.numerics.codes import element_named, storage_bits
from spec.formats import FLOATS, FloatFormat

Codes = NDArray[np.unsignedinteger]


def corners(entry: FloatFormat) -> list[int]:
    """Patterns at every border of a format, both signs: zeros, subnormals, ones, largest, infinities, NaN payloads."""
    one = entry.bias << entry.mantissa_bits
    smallest_normal = 1 << entry.mantissa_bits
    top = ((1 << entry.exponent_bits) - 1) << entry.mantissa_bits
    borders = [0, smallest_normal, one, 2 * one, entry.max_finite, top, (1 << (entry.width - 1)) - 1]
    near = {border + step for border in borders for step in (-2, -1, 0, 1, 2)}
    near |= {top + (1 << bit) for bit in range(entry.mantissa_bits)}  # payloads, quiet and signalling
    near |= {1 << bit for bit in range(entry.width - 1)}
    sign = 1 << (entry.width - 1)
    shift = entry.storage - entry.width
    return sorted((code | s) << shift for code in near if 0 <= code < sign for s in (0, sign))


def patterns(name: str, count: int, rng: np.random.Generator) -> Codes:
    """Codes of a floating-point format: corners, small exponents, long runs of equal bits, and a third uniform."""
    entry = FLOATS[name]
    shift = entry.storage - entry.width
    codes = rng.integers(0, 1 << entry.width, count, dtype=np.uint64)
    kind = rng.integers(0, 8, count)
    edge = np.array(corners(entry), np.uint64) >> np.uint64(shift)
    codes = np.where(kind < 2, rng.choice(edge, count), codes)
    sign = np.uint64(1 << (entry.width - 1))
    subnormal = codes & (sign | np.uint64((2 << entry.mantissa_bits) - 1))
    codes = np.where(kind == 2, subnormal, codes)
    run = (np.uint64(1) << rng.integers(0, entry.mantissa_bits + 1, count).astype(np.uint64)) - np.uint64(1)
    codes = np.where(kind == 3, codes | run, codes)
    codes = np.where(kind == 4, codes & ~run, codes)
    return (codes << np.uint64(shift)).astype(code_dtype(name))


def near(values: NDArray[np.float64], count: int, rng: np.random.Generator) -> Codes:
    """fp32 codes related to the exact ``values``: their negation give or take a few places, the same 22 to 27 exponents
    away (ties and sticky bits), and anything.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = encode("fp32", values).astype(np.int64)
    kind = rng.integers(0, 4, count)
    places = rng.integers(-3, 4, count)
    cancelling = (rounded ^ 0x80000000) + places
    step = rng.integers(-28, 29, count) << 23
    apart = np.clip((rounded & 0x7FFFFFFF) + step, 0, 0x7F7FFFFF) | rng.integers(0, 2, count) << 31
    rough = (rounded ^ 0x80000000) + (rng.integers(-1, 2, count) << rng.integers(0, 26, count))
    anything = patterns("fp32", count, rng).astype(np.int64)
    return (np.choose(kind, [cancelling, apart, rough, anything]) & 0xFFFFFFFF).astype(np.uint32)


def products(name: str, count: int, rng: np.random.Generator) -> tuple[Codes, Codes, Codes]:
    """Two codes of format ``name`` and an fp32 accumulator that meets their product."""
    a, b = patterns(name, count, rng), patterns(name, count, rng)
    with np.errstate(invalid="ignore"):
        return a, b, near(decode(name, a) * decode(name, b), count, rng)


def pairs(count: int, rng: np.random.Generator) -> tuple[Codes, Codes]:
    """Two fp32 codes that meet in an addition."""
    a = patterns("fp32", count, rng)
    return a, near(decode("fp32", a), count, rng)


def factors(count: int, rng: np.random.Generator) -> tuple[Codes, Codes]:
    """Two fp32 codes whose product mostly lies near one, near the largest number or among the subnormals."""
    a, b = patterns("fp32", count, rng), patterns("fp32", count, rng)
    field = (a >> np.uint32(23) & np.uint32(255)).astype(np.int64)
    wanted = np.choose(rng.integers(0, 3, count), [127, 254, 1]) + rng.integers(-26, 4, count)
    matched = np.clip(wanted + 127 - field, 0, 255).astype(np.uint32) << np.uint32(23)
    return a, np.where(rng.random(count) < 0.7, b & np.uint32(0x807FFFFF) | matched, b).astype(np.uint32)


def all_codes(name: str) -> Codes:
    """Every code of a format of at most 19 bits."""
    entry = element_named(name)
    return (np.arange(1 << entry.width) << (storage_bits(entry) - entry.width)).astype(code_dtype(name))


def all_pairs(name: str) -> tuple[Codes, Codes]:
    """Every pair of codes of a narrow format."""
    codes = all_codes(name)
    return np.repeat(codes, len(codes)), np.tile(codes, len(codes))


def codes_of(name: str, count: int, rng: np.random.Generator, *, exhaust: bool) -> Codes:
    """Codes of any element format: all of them if there are at most ``count`` or ``exhaust`` allows 16 bits."""
    entry = element_named(name)
    if 1 << entry.width <= count or (exhaust and entry.width <= 16):
        return all_codes(name)
    if isinstance(entry, FloatFormat):
        return patterns(name, count, rng)
    magnitude = rng.integers(0, 1 << entry.width, count) >> rng.integers(0, entry.width, count)
    return np.where(rng.random(count) < 0.5, magnitude, ~magnitude).astype(code_dtype(name))
