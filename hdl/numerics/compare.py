"""fp32 comparison."""

from typing import Any

from amaranth.hdl import Module, Mux
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.numerics.layouts import Fp32
from spec.numerics import CompareConfig


class Compare(Block):
    """``less`` is ``a < b``, ``equal`` is ``a == b``, ``unordered`` is set if either is NaN; combinational.

    Zeros of both signs are equal. Neither ``less`` nor ``equal`` is set for a NaN.
    """

    a: In(Fp32)
    b: In(Fp32)
    less: Out(1)
    equal: Out(1)
    unordered: Out(1)

    config: CompareConfig

    def __init__(self, config: CompareConfig) -> None:
        super().__init__(config)

    def elaborate(self, platform: Any) -> Module:
        """Magnitudes compare as integers."""
        m = Module()
        a, b = self.a, self.b
        nan = [number.exponent.all() & number.mantissa.any() for number in (a, b)]
        magnitude = [number.as_value()[:-1] for number in (a, b)]
        zeros = ~magnitude[0].any() & ~magnitude[1].any()
        smaller = magnitude[0] < magnitude[1]
        same = magnitude[0] == magnitude[1]
        below = Mux(a.sign, ~b.sign | (~smaller & ~same), ~b.sign & smaller)
        m.d.comb += [
            self.unordered.eq(nan[0] | nan[1]),
            self.less.eq(~self.unordered & ~zeros & below),
            self.equal.eq(~self.unordered & (zeros | ((a.sign == b.sign) & same))),
        ]
        return m
