"""The generated tables of the scalar engine, read from ``spec/function_tables/<function>.json``.

A side is a list of binades, from the entry for everything smaller to the entry for everything larger; a binade points
to ``2**bits`` consecutive segments chosen by as many leading mantissa bits. ``make tables`` writes the files.
"""

import dataclasses
import functools
import json
import struct
from pathlib import Path
from typing import Any

from spec.formats import FP32
from spec.functions import BASES, ORIGINS, Function, function_named

FOLDER = Path(__file__).parent / "function_tables"

INDEX_BITS = 8
"""Most leading mantissa bits a binade may use."""

COEFFICIENTS = ("hi", "lo", "c1", "c2", "c3")
MANTISSA_BITS = {"hi": 23, "lo": 23, "c1": 23, "c2": 15, "c3": 9}
"""Mantissa bits stored of each coefficient, which are fp32 numbers with the rest zero."""
FLAG_BITS = 2 + 2 + 1 + 2
"""Origin, base, tail and shift of a segment."""
SEGMENT_BITS = FLAG_BITS + sum(9 + bits for bits in MANTISSA_BITS.values())
BINADE_BITS = 12 + 4
"""Address of the first segment, and the number of leading mantissa bits."""


@dataclasses.dataclass(frozen=True)
class Segment:
    """One piece; coefficients as fp32 bit patterns."""

    origin: int
    base: int
    tail: int
    shift: int
    hi: int
    lo: int
    c1: int
    c2: int
    c3: int


@dataclasses.dataclass(frozen=True)
class Side:
    """``binades[i]``: (first segment, index bits) of biased exponent ``first + i``; the ends serve what lies beyond."""

    first: int
    binades: tuple[tuple[int, int], ...]


@dataclasses.dataclass(frozen=True)
class FunctionTable:
    """Everything golden and hardware need of one function; ``errors`` is what was achieved, by measurement."""

    function: str
    sides: tuple[Side, ...]
    segments: tuple[Segment, ...]
    root: int
    tail_multiplier: int
    tail_offset: int
    errors: dict[str, Any]

    @property
    def bits(self) -> int:
        """Size of both levels."""
        return len(self.segments) * SEGMENT_BITS + sum(len(side.binades) for side in self.sides) * BINADE_BITS


@dataclasses.dataclass(frozen=True)
class TailTable:
    """``2**f`` on [0, 1): coefficients (hi, lo, c1, c2) as fp32 bit patterns, one row a segment."""

    rows: tuple[tuple[int, int, int, int], ...]


@functools.cache
def table_of(name: str) -> FunctionTable:
    """The table of the function called ``name``."""
    function = function_named(name)
    if not function.tabulated:
        return _bits_alone(function)
    content = json.loads((FOLDER / f"{name}.json").read_text())
    return FunctionTable(
        function=name,
        sides=tuple(Side(side["first"], tuple(map(tuple, side["binades"]))) for side in content["sides"]),
        segments=tuple(parse_segment(line) for line in content["segments"]),
        root=content["root"],
        tail_multiplier=content["tail_multiplier"],
        tail_offset=content["tail_offset"],
        errors=content["errors"],
    )


def _bits_alone(function: Function) -> FunctionTable:
    """Functions that need no polynomial, in the form of the others: one segment a side, ``+-v`` or a constant."""
    one, zero = 0x3F800000, 0
    v, hi = BASES.index("v"), BASES.index("hi")
    positive = (hi, one) if function.name == "sign" else (v, one)
    negative = (hi, zero) if function.name == "relu" else (v, one | 1 << 31)
    pieces = [positive, negative] if function.symmetry == "none" else [positive]
    factor = int(function.tail != "none")
    origin = ORIGINS.index("zero")
    return FunctionTable(
        function=function.name,
        sides=tuple(Side(0, ((index, 0),)) for index in range(len(pieces))),
        segments=tuple(Segment(origin, base, factor, 0, large, 0, 0, 0, 0) for base, large in pieces),
        root=0,
        tail_multiplier=0,
        tail_offset=0,
        errors={"ulp": 0.0 if function.tail == "none" else 0.5, "bf16_wrong": 0},
    )


@functools.cache
def tail_table() -> TailTable:
    """The table of ``2**f`` that all exponential tails share."""
    content = json.loads((FOLDER / "tail.json").read_text())
    return TailTable(tuple((a, b, c, d) for a, b, c, d in (map(_hex, line.split()) for line in content["rows"])))


@functools.cache
def log_table() -> tuple[int, ...]:
    """``fp32(e * ln 2)`` as bit patterns for e = -149 to 128."""
    return tuple(_hex(word) for word in json.loads((FOLDER / "log_exponents.json").read_text())["rows"])


LOG_EXPONENT_MIN = -149
"""Exponent of the first entry of :func:`log_table`."""


def format_segment(segment: Segment) -> str:
    """One readable line of a table file."""
    words = [ORIGINS[segment.origin], BASES[segment.base], "tail" if segment.tail else "-", str(segment.shift)]
    return " ".join(words + [f"{getattr(segment, name):08x}" for name in COEFFICIENTS])


def parse_segment(line: str) -> Segment:
    """The inverse of :func:`format_segment`."""
    origin, base, tail, shift, *coefficients = line.split()
    return Segment(ORIGINS.index(origin), BASES.index(base), int(tail == "tail"), int(shift), *map(_hex, coefficients))


def _hex(word: str) -> int:
    return int(word, 16)


def pattern(value: float) -> int:
    """fp32 bit pattern of the number nearest to ``value``; a NaN gives the canonical one."""
    return FP32.nan_pattern or 0 if value != value else struct.unpack("<I", struct.pack("<f", value))[0]
