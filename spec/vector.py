"""Parameters, instructions and operations of the vector engine."""

import dataclasses

from spec.formats import FLOATS, INTS
from spec.parameters import Parameters, parameter

ELEMENT_FORMATS: tuple[str, ...] = tuple(FLOATS) + tuple(INTS)
"""Formats of operands and results of vector and scalar engine, in the order of their codes in instructions."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CastConfig(Parameters):
    """A cast between fp32 and the formats of elements."""

    formats: tuple[str, ...] = parameter(ELEMENT_FORMATS, choices=ELEMENT_FORMATS, doc="formats beside fp32")
