"""The exact product of two operands."""

from typing import Any

from amaranth.hdl import Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.numerics.layouts import PRODUCT_BITS, Operand, Product
from hdl.numerics.pipeline import Pipeline
from spec.formats import FP32, SIGNIFICAND_BITS
from spec.numerics import ProductConfig

REGISTERS = {
    1: ("normalised",),
    2: ("partial", "normalised"),
    3: ("partial", "summed", "normalised"),
    4: ("partial", "paired", "summed", "normalised"),
}
"""Cut points that hold a register, by latency."""

PARTS = {1: 1, 2: 2, 3: 4, 4: 4}
"""Pieces one factor is divided into, by latency: smaller pieces make a shorter first stage."""


class ExactProduct(Block):
    """``a * b`` with nothing lost, ``config.stages`` cycles later.

    NaN if either is NaN or an infinity meets a zero. The sign is the exclusive or of the signs, of zeros and infinities
    too.
    """

    a: In(Operand)
    b: In(Operand)
    product: Out(Product)

    config: ProductConfig

    def __init__(self, config: ProductConfig) -> None:
        super().__init__(config)

    def elaborate(self, platform: Any) -> Module:
        """Partial products, their sum, one shift."""
        m = Module()
        a, b, stages = self.a, self.b, self.config.stages
        pipeline = Pipeline(m, REGISTERS[stages])

        rest = Signal(Product)  # all but the significand, which follows below
        m.d.comb += [
            rest.exponent.eq(a.exponent + b.exponent + FP32.bias),
            rest.sign.eq(a.sign ^ b.sign),
            rest.infinite.eq(a.infinite | b.infinite),
            rest.nan.eq(a.nan | b.nan | (a.infinite & b.zero) | (a.zero & b.infinite)),
        ]
        step = SIGNIFICAND_BITS // PARTS[stages]
        pieces = {}
        for index in range(PARTS[stages]):
            pieces[f"piece_{index}"] = a.significand * b.significand[index * step : (index + 1) * step]
        behind = pipeline.cut("partial", rest=rest, **pieces)

        sums = [getattr(behind, name) for name in pieces]
        if len(sums) == 4:
            sums = [sums[0] + (sums[1] << step), sums[2] + (sums[3] << step)]
            step *= 2
        behind = pipeline.cut("paired", rest=behind.rest, low=sums[0], high=sums[1] if len(sums) > 1 else Const(0, 1))
        behind = pipeline.cut("summed", rest=behind.rest, total=(behind.low + (behind.high << step))[:PRODUCT_BITS])

        # Two numbers in [1, 2) multiply to a number in [1, 4): one bit to normalise.
        above = behind.total[-1]
        product = Signal(Product)
        m.d.comb += [
            product.eq(behind.rest),
            product.significand.eq(Mux(above, behind.total, behind.total << 1)),
            product.exponent.eq(Mux(above, behind.rest.exponent + 1, behind.rest.exponent)),
        ]
        m.d.comb += self.product.eq(pipeline.cut("normalised", product=product).product)
        return m
