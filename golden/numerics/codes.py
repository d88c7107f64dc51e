"""Bit patterns and the numbers they stand for.

A *code* is an element as it lies in memory, in an unsigned array of the width :func:`code_dtype` gives: a tf32 code is
a 32-bit word whose low 13 bits are zero, a 4-bit code lies in the low half of a byte, a negative integer is its
two's complement. A *value* is a float64, which holds every number of every format exactly.
"""

import functools

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spec.formats import FLOATS, INTS, SCALES, FloatFormat, IntFormat, ScaleFormat
from spec.parameters import lookup

Element = FloatFormat | ScaleFormat | IntFormat
Codes = NDArray[np.unsignedinteger]
F64 = NDArray[np.float64]

ELEMENTS: dict[str, Element] = {**FLOATS, **SCALES, **INTS}
"""Formats of single numbers by name."""

TABLE_BITS = 16
"""Formats no wider than this decode by table."""


def element_named(name: str) -> Element:
    """The element format called ``name``; an unknown name is refused with the list of known ones."""
    return lookup("element format", ELEMENTS, name)


def storage_bits(entry: Element) -> int:
    """Bits of a code."""
    return entry.storage if isinstance(entry, FloatFormat) else entry.width


def code_dtype(name: str) -> type[np.unsignedinteger]:
    """The unsigned numpy type that holds codes of format ``name``."""
    bits = storage_bits(element_named(name))
    return np.uint8 if bits <= 8 else np.uint16 if bits <= 16 else np.uint32


def decode(name: str, codes: ArrayLike) -> F64:
    """Values of ``codes``, exact; NaN codes give NaN. Bits above the code and below a tf32 mantissa are ignored."""
    entry = element_named(name)
    codes = np.asarray(codes).astype(np.int64) & ((1 << storage_bits(entry)) - 1)
    if storage_bits(entry) <= TABLE_BITS:
        return _table(name)[codes]
    return _decode(entry, codes)


def to_float32(name: str, codes: ArrayLike) -> NDArray[np.float32]:
    """Values of ``codes`` of a floating-point or scale format as float32, exact."""
    with np.errstate(invalid="ignore"):
        return decode(name, codes).astype(np.float32)


@functools.cache
def _table(name: str) -> F64:
    entry = element_named(name)
    return _decode(entry, np.arange(1 << storage_bits(entry)))


def _decode(entry: Element, codes: NDArray[np.int64]) -> F64:
    if isinstance(entry, IntFormat):
        return np.where(codes > entry.maximum, codes - (1 << entry.width), codes).astype(np.float64)
    if isinstance(entry, ScaleFormat):
        return np.where(codes == entry.nan_pattern, np.nan, np.ldexp(1.0, (codes - entry.bias).astype(np.int32)))
    codes = codes >> (entry.storage - entry.width)
    mantissa = codes & ((1 << entry.mantissa_bits) - 1)
    field = codes >> entry.mantissa_bits & ((1 << entry.exponent_bits) - 1)
    significand = mantissa + ((field > 0).astype(np.int64) << entry.mantissa_bits)
    exponent = np.maximum(field, 1) - entry.bias - entry.mantissa_bits
    values = np.ldexp(significand.astype(np.float64), exponent.astype(np.int32))
    top = field == (1 << entry.exponent_bits) - 1
    if entry.infinity:
        values = np.where(top, np.where(mantissa == 0, np.inf, np.nan), values)
    elif entry.nan:
        values = np.where(codes & ((1 << (entry.width - 1)) - 1) == entry.nan_pattern, np.nan, values)
    return np.copysign(values, np.where(codes >> (entry.width - 1) == 1, -1.0, 1.0))
