"""The tables of ``spec`` as contents of memories and as constants of each function."""

import dataclasses
import functools

from spec import tables
from spec.functions import FUNCTIONS, REDUCTIONS, TAILS, function_named

SIDE_COUNT = 2

SEGMENT_FIELDS = (("shift", 2), ("tail", 1), ("base", 2), ("origin", 2))
"""Flags of a segment; ``shift`` holds the negated shift."""


@dataclasses.dataclass(frozen=True)
class Constants:
    """What the control hands to all lanes for one function."""

    reduction: int
    two_sided: bool
    first: tuple[int, int]
    last: tuple[int, int]
    level: tuple[int, int]
    root: int
    odd: bool
    factor: int
    multiplier: int
    offset: int
    limit: int
    negative_is_nan: bool
    at_infinity: tuple[int, int]
    at_zero: tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Rom:
    """Both levels of the lookup for a set of functions, and the constants of each."""

    binades: tuple[int, ...]
    segments: tuple[int, ...]
    constants: tuple[Constants, ...]


def pack_segment(segment: tables.Segment) -> int:
    """A row of the second level: coefficients from ``hi`` (lowest) to ``c3`` without their zero bits, then flags."""
    word, position = 0, 0
    for name in tables.COEFFICIENTS:
        drop = 23 - tables.MANTISSA_BITS[name]
        word |= (getattr(segment, name) >> drop) << position
        position += 32 - drop
    flags = {"shift": -segment.shift, "tail": segment.tail, "base": segment.base, "origin": segment.origin}
    for name, width in SEGMENT_FIELDS:
        assert 0 <= flags[name] < 1 << width
        word |= flags[name] << position
        position += width
    assert position == tables.SEGMENT_BITS
    return word


@functools.cache
def rom_of(functions: tuple[str, ...]) -> Rom:
    """The memories of a lane with these functions, in this order."""
    binades: list[int] = []
    segments: list[int] = []
    constants = []
    for name in functions:
        table, entry = tables.table_of(name), function_named(name)
        levels = []
        for side in table.sides:
            levels.append(len(binades))
            binades += [(start + len(segments)) | bits << 12 for start, bits in side.binades]
        segments += [pack_segment(segment) for segment in table.segments]
        sides = list(table.sides) * (SIDE_COUNT // len(table.sides))
        levels *= SIDE_COUNT // len(table.sides)
        constants.append(
            Constants(
                reduction=list(REDUCTIONS).index(entry.reduction),
                two_sided=len(table.sides) == SIDE_COUNT,
                first=(sides[0].first, sides[1].first),
                last=(len(sides[0].binades) - 1, len(sides[1].binades) - 1),
                level=(levels[0], levels[1]),
                root=table.root,
                odd=entry.symmetry == "odd",
                factor=list(TAILS).index(entry.tail),
                multiplier=table.tail_multiplier,
                offset=table.tail_offset,
                limit=tables.pattern(entry.limit),
                negative_is_nan=entry.negative is not None,
                at_infinity=(tables.pattern(entry.at_infinity[0]), tables.pattern(entry.at_infinity[1])),
                at_zero=(tables.pattern(entry.at_zero[0]), tables.pattern(entry.at_zero[1])),
            )
        )
    assert len(segments) <= 1 << 12
    assert set(functions) <= set(FUNCTIONS)
    return Rom(tuple(binades), tuple(segments), tuple(constants))
