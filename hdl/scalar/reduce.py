"""From an argument to the variable of its polynomial: bits moved, nothing rounded."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.numerics.layouts import Fp32
from hdl.scalar.layouts import ReduceControl
from spec.functions import REDUCTIONS
from spec.scalar import ScalarConfig
from spec.tables import LOG_EXPONENT_MIN

BIAS = 127
SPECIALS = ("none", "nan", "positive_infinity", "negative_infinity", "positive_zero", "negative_zero")
"""Arguments whose result does not come from the table."""


class Reduce(Block):
    """Combinational: ``x`` to ``v``, the exponent taken out, the address of its binade and whether it is special.

    ``level`` addresses the first-level table, ``log`` the table of ``e * ln 2``; ``power`` scales the result.
    """

    x: In(Fp32)
    control: In(ReduceControl)
    v: Out(Fp32)
    power: Out(signed(9))
    level: Out(12)
    log: Out(9)
    special: Out(3)

    config: ScalarConfig

    def __init__(self, config: ScalarConfig) -> None:
        super().__init__(config)

    def elaborate(self, platform: Any) -> Module:
        """Normalise, pick exponent and side, compare."""
        m = Module()
        kind = {name: self.control.reduction == index for index, name in enumerate(REDUCTIONS)}
        exponent, mantissa = self._normalised(m)
        odd = exponent[0]
        upper = mantissa[-1]
        root_power = Signal(signed(9))
        log_power = Signal(signed(10))
        side = Signal()
        m.d.comb += [
            root_power.eq(exponent >> 1),
            log_power.eq(exponent + upper),
            self.log.eq(log_power - LOG_EXPONENT_MIN),
            self.v.mantissa.eq(mantissa),
            self.v.exponent.eq(BIAS),
            self.power.eq(0),
            side.eq(self.control.two_sided & self.x.sign),
        ]
        with m.If(kind["none"]):
            m.d.comb += [self.v.mantissa.eq(self.x.mantissa), self.v.exponent.eq(self.x.exponent)]
        with m.Elif(kind["reciprocal"]):
            m.d.comb += self.power.eq(-exponent)
        with m.Elif(kind["log"]):
            m.d.comb += [self.v.exponent.eq(BIAS - upper), side.eq(log_power != 0)]
        with m.Else():
            m.d.comb += self.v.exponent.eq(Cat((~odd).replicate(7), odd))
            m.d.comb += self.power.eq(Mux(kind["rsqrt"], -root_power, root_power))
        self._address(m, side)
        self._classify(m)
        return m

    def _normalised(self, m: Module) -> tuple[Any, Any]:
        """Unbiased exponent and mantissa, subnormals shifted until their hidden bit is 1."""
        normal = self.x.exponent.any()
        value: Any = Cat(self.x.mantissa, normal)
        amount: list[Signal] = []
        for index in reversed(range(5)):
            shift = Signal(name=f"by_{1 << index}")
            shifted = Signal(24, name=f"to_{1 << index}")
            m.d.comb += shift.eq(~value[24 - (1 << index) :].any())
            m.d.comb += shifted.eq(Mux(shift, value << (1 << index), value))
            value = shifted
            amount.insert(0, shift)
        exponent = Signal(signed(9))
        m.d.comb += exponent.eq(Mux(normal, self.x.exponent, 1) - BIAS - Cat(amount))
        return exponent, value[:23]

    def _address(self, m: Module, side: Any) -> None:
        """Clamp the exponent to the binades of the side."""
        first, last = self.control.first[side], self.control.last[side]
        distance = Signal(signed(9))
        m.d.comb += distance.eq(self.v.exponent - first)
        index = Mux(distance < 0, 0, Mux(distance > last, last, distance[:8]))
        m.d.comb += self.level.eq(self.control.level[side] + index)

    def _classify(self, m: Module) -> None:
        magnitude = Cat(self.x.mantissa, self.x.exponent)
        name = {text: index for index, text in enumerate(SPECIALS)}
        negative = self.x.sign
        with m.If((magnitude > self.control.limit) | (self.control.negative_is_nan & negative & magnitude.any())):
            m.d.comb += self.special.eq(name["nan"])
        with m.Elif(self.x.exponent.all()):
            m.d.comb += self.special.eq(Mux(negative, name["negative_infinity"], name["positive_infinity"]))
        with m.Elif(~magnitude.any()):
            m.d.comb += self.special.eq(Mux(negative, name["negative_zero"], name["positive_zero"]))
