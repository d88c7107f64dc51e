"""Parameters of the arithmetic components: formats they accept and registers they hold."""

import dataclasses

from spec.formats import FLOATS, INTS, SCALES, SIGNIFICAND_BITS
from spec.parameters import Parameters, parameter, refuse

OPERANDS = tuple(name for name, entry in FLOATS.items() if entry.mantissa_bits < SIGNIFICAND_BITS) + tuple(SCALES)
"""Formats whose significand fits the tensor engine's internal form."""

CASTABLE = tuple(FLOATS) + tuple(SCALES) + tuple(INTS)
"""Formats a cast converts from and to."""

STOCHASTIC_BITS = 24
"""Random bits that stochastic rounding adds below the last kept place, the top bits of a 32-bit word: the 22 that an
fp32 number can lose to a normal number of any format, and two more."""


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
    registered: bool = parameter(
        True, choices=(False, True), doc="the result leaves a register; else that one is missing, and its cycle"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiplyAddConfig(Parameters):
    """An exact product, added to an fp32 accumulator with one rounding."""

    multiply_stages: int = parameter(1, unit="cycles", low=1, high=4, doc="latency of the product")
    add_stages: int = parameter(2, unit="cycles", low=1, high=6, doc="latency from accumulator to result")
    registered: bool = parameter(
        True, choices=(False, True), doc="the result leaves a register; else that one is missing, and its cycle"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiplyConfig(Parameters):
    """An fp32 multiplication."""

    stages: int = parameter(2, unit="cycles", low=1, high=5, doc="latency, one register each")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CompareConfig(Parameters):
    """An fp32 comparison, combinational: nothing to choose."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CastConfig(Parameters):
    """A conversion from one of several formats into one of several formats."""

    sources: tuple[str, ...] = parameter(("fp32",), choices=CASTABLE, doc="formats, in the order of the selector")
    targets: tuple[str, ...] = parameter(("bf16",), choices=CASTABLE, doc="formats, in the order of the selector")
    stages: int = parameter(1, unit="cycles", low=1, high=3, doc="latency, one register each")

    def check(self) -> None:
        """Refuse a format named twice: the selector would have two values for it."""
        for field, formats in (("sources", self.sources), ("targets", self.targets)):
            if len(set(formats)) != len(formats):
                raise refuse("CastConfig", field, formats, "each format once")


@dataclasses.dataclass(frozen=True, kw_only=True)
class XorshiftConfig(Parameters):
    """A generator of 32-bit random words."""

    seed: int = parameter(0x9E3779B9, low=1, high=(1 << 32) - 1, doc="state after reset; any but zero")
