"""The internal forms that numbers take between decoder, multiplier and adder: behind the decoder, no format is left."""

from typing import Any

from amaranth import signed, unsigned
from amaranth.lib import data

from spec.formats import FP32, SIGNIFICAND_BITS

PRODUCT_BITS = 2 * SIGNIFICAND_BITS
"""Significand of an exact product; as many as fp32 has, which is what makes one rounding enough."""

ZERO_EXPONENT = -256
"""Exponent of an operand that is zero: so small that its product with any other ranks below every fp32 number."""


class Operand(data.Struct):
    """A decoded number: ``(-1)**sign * significand * 2**(exponent - 11)``.

    ``significand`` is normalised, its top bit is 1 unless the number is zero; then it is 0 and ``exponent`` is
    :data:`ZERO_EXPONENT`. Of an infinity or a NaN, only the flag and the sign mean anything.
    """

    significand: unsigned(SIGNIFICAND_BITS)
    exponent: signed(9)
    sign: unsigned(1)
    infinite: unsigned(1)
    nan: unsigned(1)

    @property
    def zero(self) -> Any:
        """Whether the number is zero."""
        return ~self.significand[-1] & ~self.infinite & ~self.nan


class Product(data.Struct):
    """An exact product: ``(-1)**sign * significand * 2**(exponent - 127 - 23)``.

    ``significand`` is normalised, 0 for zero. ``exponent`` carries fp32's bias but is wide enough for every product;
    fp32 can hold the number where it is 1 to 254.
    """

    significand: unsigned(PRODUCT_BITS)
    exponent: signed(10)
    sign: unsigned(1)
    infinite: unsigned(1)
    nan: unsigned(1)


class Fp32(data.Struct):
    """The fields of an fp32 pattern."""

    mantissa: unsigned(FP32.mantissa_bits)
    exponent: unsigned(FP32.exponent_bits)
    sign: unsigned(1)
