"""The arithmetic of a processing element: an exact product accumulated in fp32."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.numerics.accumulate import Accumulate
from hdl.numerics.layouts import Fp32, Operand
from hdl.numerics.product import ExactProduct
from spec.numerics import AddConfig, MultiplyAddConfig, ProductConfig


class MultiplyAdd(Block):
    """``result = fp32(addend + a * b)`` with one rounding.

    ``a`` and ``b`` come ``multiply_stages`` cycles before the ``addend`` they belong to; ``result`` follows
    ``add_stages`` cycles after ``addend``, or one less where it is not ``registered``. Only the add lies in the path
    from accumulator to accumulator.
    """

    a: In(Operand)
    b: In(Operand)
    addend: In(Fp32)
    result: Out(Fp32)

    config: MultiplyAddConfig

    def __init__(self, config: MultiplyAddConfig) -> None:
        super().__init__(config)
        self.product = ExactProduct(ProductConfig(stages=config.multiply_stages))
        self.accumulate = Accumulate(AddConfig(stages=config.add_stages, registered=config.registered))

    def elaborate(self, platform: Any) -> Module:
        """Product, then sum."""
        m = Module()
        m.submodules.product = place(self.product, platform)
        m.submodules.accumulate = place(self.accumulate, platform)
        m.d.comb += [
            self.product.a.eq(self.a),
            self.product.b.eq(self.b),
            self.accumulate.product.eq(self.product.product),
            self.accumulate.addend.eq(self.addend),
            self.result.eq(self.accumulate.result),
        ]
        return m
