"""fp32 addition."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.numerics.accumulate import Accumulate, term
from hdl.numerics.layouts import Fp32
from spec.numerics import AddConfig


class Add(Block):
    """``result = fp32(a + b)``, rounded to nearest even, ``config.stages`` cycles later.

    Subnormals are honoured, overflow gives an infinity, an exact zero sum is +0 unless both terms are negative, NaN or
    ``inf - inf`` gives the canonical NaN.
    """

    a: In(Fp32)
    b: In(Fp32)
    result: Out(Fp32)

    config: AddConfig

    def __init__(self, config: AddConfig) -> None:
        super().__init__(config)
        self.adder = Accumulate(config)

    def elaborate(self, platform: Any) -> Module:
        """The processing element's adder, with one term in the form of a product."""
        m = Module()
        m.submodules.adder = place(self.adder, platform)
        m.d.comb += [
            self.adder.addend.eq(self.a),
            self.adder.product.eq(term(m, "term", self.b)),
            self.result.eq(self.adder.result),
        ]
        return m
