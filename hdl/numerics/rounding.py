"""The end of every fp32 operation: round to nearest even, put special values in place."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal

from hdl.numerics.layouts import Fp32
from spec.formats import FP32

SIGNIFICAND_BITS = FP32.mantissa_bits + 1


def pack(m: Module, value: Any, field: Any, sign: Any, infinite: Any, nan: Any) -> Any:
    """The fp32 number nearest to ``value``, a significand with its sticky bit lowest.

    The top bit of ``value`` is 1, and then ``field`` its exponent field, or the number is subnormal. Rounding may carry
    into the exponent: subnormal to normal, largest number to infinity. ``infinite`` includes fields beyond the largest.
    """
    hidden = value[-1]
    kept = value[-SIGNIFICAND_BITS:-1]
    guard, rest = value[-SIGNIFICAND_BITS - 1], value[: -SIGNIFICAND_BITS - 1].any()
    rounded = Signal(FP32.width - 1)
    m.d.comb += rounded.eq(Cat(kept, field & hidden.replicate(FP32.exponent_bits)) + (guard & (rest | kept[0])))
    special = infinite | nan
    mantissa = rounded[: FP32.mantissa_bits] & ~special.replicate(FP32.mantissa_bits)
    result = Signal(Fp32)
    m.d.comb += [
        result.sign.eq(sign & ~nan),
        result.exponent.eq(rounded[FP32.mantissa_bits :] | special.replicate(FP32.exponent_bits)),
        result.mantissa.eq(Cat(mantissa[:-1], mantissa[-1] | nan)),
    ]
    return result


def shift_right_sticky(m: Module, name: str, value: Any, distance: Any) -> Any:
    """``value`` shifted right by the unsigned ``distance``; bit 0 is also set if a 1 fell out."""
    width = len(value)
    shifted, lost = value, []
    steps = (width - 1).bit_length()
    for index in reversed(range(steps)):
        lost.append(distance[index] & shifted[: 1 << index].any())
        step = Signal(width, name=f"{name}_{1 << index}")
        m.d.comb += step.eq(shifted >> (distance[index] << index))
        shifted = step
    beyond = distance[steps:].any()
    sticky = shifted[0] | Cat(lost).any() | (beyond & value.any())
    return Cat(sticky, shifted[1:] & ~beyond.replicate(width - 1))
