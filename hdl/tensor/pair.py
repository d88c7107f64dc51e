"""The arithmetic of a processing element that takes two narrow products a cycle, or one wide one."""

from typing import Any

from amaranth.hdl import C, Module, Mux, Signal
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block, place
from hdl.numerics import Accumulate, ExactProduct, Fp32, Product
from hdl.numerics.accumulate import term
from hdl.tensor.later import later
from hdl.tensor.operands import element_layout, widened
from spec.formats import FP32
from spec.numerics import AddConfig, ProductConfig
from spec.tensor import TensorConfig


def as_fp32(m: Module, product: Any) -> Signal:
    """A product that fp32 can hold as an fp32 number: products of narrow formats always fit."""
    number = Signal(Fp32)
    special = product.infinite | product.nan
    m.d.comb += [
        number.sign.eq(product.sign & ~product.nan),
        number.exponent.eq(Mux(special, C(-1, FP32.exponent_bits), Mux(product.significand[-1], product.exponent, 0))),
        number.mantissa.eq(Mux(special, product.nan << (FP32.mantissa_bits - 1), product.significand[:-1])),
    ]
    return number


class PairMultiplyAdd(Block):
    """``result = fp32(addend + p0)`` or, where both are paired, ``fp32(addend + fp32(p0 + p1))``.

    ``p0`` and ``p1`` are the exact products of the first and the second operands. ``a`` and ``b`` come
    ``product_stages`` cycles before their ``addend``, ``result`` follows ``add_stages`` after it: the same for both, so
    they may take turns from cycle to cycle. The wide multiplier serves all formats; beside it there is only one as
    narrow as FP8's significands, once its constant zeros are folded.
    """

    config: TensorConfig

    def __init__(self, config: TensorConfig) -> None:
        ports = {
            "a": In(element_layout(config)),
            "b": In(element_layout(config)),
            "addend": In(Fp32),
            "result": Out(Fp32),
        }
        super().__init__(config, Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """Two products, their sum, and the accumulator's."""
        m = Module()
        config = self.config
        products = []
        for index, (a, b) in enumerate(
            ((self.a.first, self.b.first), (widened(m, self.a.second), widened(m, self.b.second)))
        ):
            product = ExactProduct(ProductConfig(stages=config.multiply_stages))
            m.submodules[f"product_{index}"] = place(product, platform)
            m.d.comb += [product.a.eq(a), product.b.eq(b)]
            products.append(product.product)

        pair = Accumulate(AddConfig(stages=config.add_stages))
        m.submodules.pair = place(pair, platform)
        m.d.comb += [pair.addend.eq(as_fp32(m, products[0])), pair.product.eq(products[1])]
        single = later(m, "single", products[0], config.add_stages)
        paired = later(m, "paired", self.a.paired & self.b.paired, config.product_stages)

        accumulate = Accumulate(AddConfig(stages=config.add_stages))
        m.submodules.accumulate = place(accumulate, platform)
        addition = Signal(Product)
        both = term(m, "both", pair.result)
        m.d.comb += [
            addition.as_value().eq(Mux(paired, both.as_value(), single.as_value())),
            accumulate.product.eq(addition),
            accumulate.addend.eq(self.addend),
            self.result.eq(accumulate.result),
        ]
        return m
