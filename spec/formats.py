"""Number formats as data: every golden model, decoder and test derives from this table.

Source of each row: ``docs/numerics.md``; IEEE 754-2019 for fp32 and fp16, OCP 8-bit Floating Point v1.0 for e4m3fn and
e5m2, OCP Microscaling v1.0 for e2m1, e8m0 and the block of 32. Subnormals are honoured everywhere; a computed NaN is
the canonical quiet NaN of its format.
"""

import dataclasses

from spec.parameters import lookup

SIGNIFICAND_BITS = 12
"""Width of the tensor engine's significand, hidden bit included: tf32 and fp16 need 11, half an fp32 needs 12."""


@dataclasses.dataclass(frozen=True)
class FloatFormat:
    """A binary floating-point format of ``1 + exponent_bits + mantissa_bits`` bits, sign first.

    ``infinity``: the all-ones exponent holds infinities and NaNs, as in IEEE 754. Without it, ``nan`` says whether the
    pattern of all ones is a NaN (``fn`` formats) or a number.
    """

    name: str
    exponent_bits: int
    mantissa_bits: int
    bias: int
    infinity: bool = True
    nan: bool = True
    storage_bits: int = 0
    """Bits that hold it in memory where that differs from ``width`` (tf32 lies in a 32-bit word, high bits first)."""

    @property
    def width(self) -> int:
        """Bits of the encoding."""
        return 1 + self.exponent_bits + self.mantissa_bits

    @property
    def storage(self) -> int:
        """Bits one element takes in memory."""
        return self.storage_bits or self.width

    @property
    def exponent_max(self) -> int:
        """Largest unbiased exponent of a finite number."""
        top = (1 << self.exponent_bits) - 1 - self.bias
        return top - 1 if self.infinity else top

    @property
    def exponent_min(self) -> int:
        """Unbiased exponent of the smallest normal number; subnormals share it."""
        return 1 - self.bias

    @property
    def max_finite(self) -> int:
        """Bit pattern of the largest finite number."""
        if self.infinity:
            return (((1 << self.exponent_bits) - 1) << self.mantissa_bits) - 1
        return (1 << (self.width - 1)) - 1 - int(self.nan)

    @property
    def infinity_pattern(self) -> int | None:
        """Bit pattern of +infinity, or None."""
        return ((1 << self.exponent_bits) - 1) << self.mantissa_bits if self.infinity else None

    @property
    def nan_pattern(self) -> int | None:
        """Bit pattern of the canonical quiet NaN, or None where the format has none."""
        if not self.nan:
            return None
        if self.infinity:
            return ((1 << self.exponent_bits) - 1) << self.mantissa_bits | 1 << (self.mantissa_bits - 1)
        return (1 << (self.width - 1)) - 1


@dataclasses.dataclass(frozen=True)
class ScaleFormat:
    """A power-of-two scale, ``2**(code - bias)``; the code of all ones is NaN. No sign, no zero, no infinity."""

    name: str
    exponent_bits: int
    bias: int

    @property
    def width(self) -> int:
        """Bits of the encoding."""
        return self.exponent_bits

    @property
    def nan_pattern(self) -> int:
        """The code that is NaN."""
        return (1 << self.exponent_bits) - 1


@dataclasses.dataclass(frozen=True)
class IntFormat:
    """A two's complement or unsigned integer."""

    name: str
    width: int
    signed: bool

    @property
    def minimum(self) -> int:
        """Smallest value."""
        return -(1 << (self.width - 1)) if self.signed else 0

    @property
    def maximum(self) -> int:
        """Largest value."""
        return (1 << (self.width - int(self.signed))) - 1


@dataclasses.dataclass(frozen=True)
class BlockFormat:
    """A microscaling format: ``block`` elements share one scale."""

    name: str
    elements: tuple[str, ...]
    scale: str
    block: int


_FLOATS = (
    FloatFormat("fp32", 8, 23, 127),
    FloatFormat("tf32", 8, 10, 127, storage_bits=32),
    FloatFormat("bf16", 8, 7, 127),
    FloatFormat("fp16", 5, 10, 15),
    FloatFormat("fp8_e4m3", 4, 3, 7),
    FloatFormat("fp8_e4m3fn", 4, 3, 7, infinity=False),
    FloatFormat("fp8_e5m2", 5, 2, 15),
    FloatFormat("fp8_e3m4", 3, 4, 3),
    FloatFormat("fp4_e2m1", 2, 1, 1, infinity=False, nan=False),
)

FLOATS: dict[str, FloatFormat] = {entry.name: entry for entry in _FLOATS}
SCALES: dict[str, ScaleFormat] = {"e8m0": ScaleFormat("e8m0", 8, 127)}
INTS: dict[str, IntFormat] = {
    entry.name: entry
    for width in (8, 16, 32)
    for entry in (IntFormat(f"int{width}", width, True), IntFormat(f"uint{width}", width, False))
}
BLOCKS: dict[str, BlockFormat] = {
    "mxfp8": BlockFormat("mxfp8", ("fp8_e4m3fn", "fp8_e5m2"), "e8m0", 32),
    "mxfp4": BlockFormat("mxfp4", ("fp4_e2m1",), "e8m0", 32),
}
FORMATS: dict[str, FloatFormat | ScaleFormat | IntFormat | BlockFormat] = {**FLOATS, **SCALES, **INTS, **BLOCKS}

FP32 = FLOATS["fp32"]


def format_named(name: str) -> FloatFormat | ScaleFormat | IntFormat | BlockFormat:
    """The format called ``name``; an unknown name is refused with the list of known ones."""
    return lookup("format", FORMATS, name)


def float_named(name: str) -> FloatFormat:
    """The floating-point format called ``name``; an unknown name is refused with the list of known ones."""
    return lookup("floating-point format", FLOATS, name)
