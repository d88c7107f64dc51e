"""A correctly rounded reciprocal: restoring division, five quotient bits a cycle."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.numerics.count import leading_zeros
from hdl.numerics.layouts import Fp32
from hdl.numerics.rounding import pack, shift_right_sticky
from hdl.scalar.delay import delay
from spec.formats import FP32
from spec.vector import RECIPROCAL_CYCLES, VectorConfig

SIGNIFICAND = FP32.mantissa_bits + 1
QUOTIENT_BITS = 25
"""24 of the result and one to round by; the remainder tells whether anything follows."""
BITS_A_CYCLE = QUOTIENT_BITS // (RECIPROCAL_CYCLES - 1)


class Reciprocal(Block):
    """``result = fp32(1 / a)``, ``RECIPROCAL_CYCLES`` cycles later; free-running.

    1 / 0 is an infinity with the zero's sign, 1 / infinity a zero, NaN the canonical NaN. Subnormals are honoured.
    """

    a: In(Fp32)
    result: Out(Fp32)

    config: VectorConfig

    def __init__(self, config: VectorConfig) -> None:
        super().__init__(config)

    def elaborate(self, platform: Any) -> Module:
        """Normalise, divide, round."""
        m = Module()
        a = self.a
        normal, fraction, top = a.exponent.any(), a.mantissa.any(), a.exponent.all()
        zeros = leading_zeros(m, a.mantissa)
        divisor: Any = Signal(SIGNIFICAND)
        exponent = Signal(signed(10))
        m.d.comb += [
            divisor.eq(Mux(normal, Cat(a.mantissa, 1), a.mantissa << 1 << zeros)),
            exponent.eq(Mux(normal, a.exponent, -zeros)),
        ]
        # 1 / d for d in (1, 2) is in (1/2, 1): the quotient's first bit has weight 1/2. d = 1 is told apart.
        remainder: Any = C(1 << FP32.mantissa_bits, SIGNIFICAND)
        quotient: Any = C(0, 0)
        for cycle in range(RECIPROCAL_CYCLES - 1):
            for step in range(BITS_A_CYCLE):
                name = f"{cycle}_{step}"
                difference = Signal(signed(SIGNIFICAND + 2), name=f"difference_{name}")
                m.d.comb += difference.eq((remainder << 1) - divisor)
                left = Signal(SIGNIFICAND, name=f"left_{name}")
                m.d.comb += left.eq(Mux(difference < 0, remainder << 1, difference))
                remainder, quotient = left, Cat(difference >= 0, quotient)
            remainder = delay(m, remainder, 1, f"remainder_{cycle}")
            quotient = delay(m, quotient, 1, f"quotient_{cycle}")
            divisor = delay(m, divisor, 1, f"divisor_{cycle}")
        late = RECIPROCAL_CYCLES - 1
        one = ~divisor[:-1].any()
        field = Signal(signed(11))
        base = delay(m, exponent, late, "exponent")
        m.d.comb += field.eq(2 * FP32.bias - 1 - base + one)
        value = Signal(QUOTIENT_BITS + 2)
        m.d.comb += value.eq(Mux(one, 1 << (QUOTIENT_BITS + 1), Cat(remainder.any(), 0, quotient)))
        too_small = field < 1
        distance = Signal(11)
        m.d.comb += distance.eq(Mux(too_small, 1 - field, 0))
        flags = delay(m, Cat(a.sign, ~normal & ~fraction, top & ~fraction, top & fraction), late, "flags")
        sign, zero, infinite, nan = (flags[index] for index in range(4))
        shifted = shift_right_sticky(m, "right", value, distance)
        result = pack(m, shifted, field[:8], sign, zero | (field > 254), nan)
        none = Signal(Fp32)
        m.d.comb += none.sign.eq(sign)
        m.d.comb += self.result.eq(delay(m, Mux(infinite & ~nan, none.as_value(), result.as_value()), 1, "rounded"))
        return m
