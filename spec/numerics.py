"""Parameters of the arithmetic components: formats they accept and registers they hold."""

import dataclasses

from spec.formats import FLOATS, INTS, SCALES, SIGNIFICAND_BITS
from spec.parameters import Parameters, parameter, refuse

OPERANDS = tuple(name for name, entry in FLOATS.items() if entry.mantissa_bits < SIGNIFICAND_BITS) + tuple(SCALES)
"""Formats whose significand fits the tensor engine's internal form."""

CASTABLE = tuple(FLOATS) + tuple(INTS)
"""Formats a cast converts from and to."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class DecodeConfig(Parameters):
    """A decoder from the bits of one or several formats into the internal form."""

    formats: tuple[str, ...] = parameter(
        ("bf16", "fp16"), choices=OPERANDS, doc="formats, in the order of the selector's values"
    )

    def check(self) -> None:
        """Refuse a format named twice: the selector would have two values for it."""
        if len(set(self.formats)) != len(self.formats):
            raise refuse("DecodeConfig", "formats", self.formats, "each format once")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProductConfig(Parameters):
    """The exact product of two operands in the internal form."""

    stages: int = parameter(1, unit="cycles", low=1, high=4, doc="latency, one register each")


@dataclasses.dataclass(frozen=True, kw_only=True)
class AddConfig(Parameters):
    """An fp32 addition with one rounding."""

    stages: int = parameter(2, unit="cycles", low=1, high=6, doc="latency, one register each")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiplyAddConfig(Parameters):
    """An exact product, added to an fp32 accumulator with one rounding."""

    multiply_stages: int = parameter(1, unit="cycles", low=1, high=4, doc="latency of the product")
    add_stages: int = parameter(2, unit="cycles", low=1, high=6, doc="latency from accumulator to result")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiplyConfig(Parameters):
    """An fp32 multiplication."""

    stages: int = parameter(2, unit="cycles", low=1, high=5, doc="latency, one register each")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompareConfig(Parameters):
    """An fp32 comparison, combinational: nothing to choose."""
