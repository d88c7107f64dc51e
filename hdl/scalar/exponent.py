"""A number times a power of two, rounded once where the result is subnormal."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed

from hdl.numerics.layouts import Fp32
from hdl.scalar.layouts import EXPONENT_BITS


def scale_exponent(m: Module, number: Any, power: Any) -> Signal:
    """Add the logic of ``number * 2**power``. A subnormal ``number`` may only be made smaller: ``power <= 0``."""
    result = Signal(Fp32, name="scaled")
    exponent = Signal(signed(EXPONENT_BITS + 1), name="scaled_exponent")
    hidden = number.exponent.any()
    significand = Cat(number.mantissa, hidden)
    m.d.comb += exponent.eq(Mux(hidden, number.exponent, 1) + power)
    below = Signal(EXPONENT_BITS + 1, name="places_below")
    m.d.comb += below.eq(1 - exponent)
    far = below[5:].any()
    value: Any = significand
    lost: Any = C(0, 1)
    guard: Any = C(0, 1)
    for index in range(5):
        shift = below[index]
        step = 1 << index
        shifted = Signal(24, name=f"down_{step}")
        sticky = Signal(name=f"lost_{step}")
        half = Signal(name=f"half_{step}")
        m.d.comb += [
            shifted.eq(Mux(shift, value >> step, value)),
            half.eq(Mux(shift, value[step - 1] if step <= 24 else 0, guard)),
            sticky.eq(lost | (shift & (guard | (value[: step - 1].any() if step > 1 else 0)))),
        ]
        value, lost, guard = shifted, sticky, half
    rounded = Signal(24, name="rounded_down")
    m.d.comb += rounded.eq(Mux(far, 0, value) + (~far & guard & (lost | value[0])))
    special = number.exponent.all()
    m.d.comb += result.sign.eq(number.sign)
    with m.If(special):
        m.d.comb += [result.exponent.eq(number.exponent), result.mantissa.eq(number.mantissa)]
    with m.Elif(exponent < 1):
        m.d.comb += Cat(result.mantissa, result.exponent).eq(rounded)
    with m.Elif(~hidden):
        m.d.comb += result.mantissa.eq(number.mantissa)
    with m.Elif(exponent > 254):
        m.d.comb += result.exponent.eq(255)
    with m.Else():
        m.d.comb += [result.exponent.eq(exponent), result.mantissa.eq(number.mantissa)]
    return result
