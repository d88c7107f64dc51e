"""The arithmetic of a processing element that takes several narrow products a cycle, or one wide one."""

from typing import Any

from amaranth.hdl import C, Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block, place
from hdl.numerics import Accumulate, ExactProduct, Fp32, Product
from hdl.numerics.accumulate import term
from hdl.numerics.layouts import ZERO_EXPONENT
from hdl.tensor.later import later
from hdl.tensor.operands import numbers_layout, widened
from spec.formats import FP32
from spec.numerics import AddConfig, ProductConfig
from spec.tensor import SCALE, TensorConfig


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


class PackedMultiplyAdd(Block):
    """``result = fp32(addend + p0)``, or the same for operands that hold several numbers, where both do.

    - Pairs: ``fp32(addend + fp32(p0 + p1))``.
    - Four: ``fp32(addend + d * 2**(scale of a + scale of b))`` with ``d = fp32(fp32(p0 + p1) + fp32(p2 + p3))``; the
      scaled number is exact, however large or small, until the sum is rounded.

    ``p0`` to ``p3`` are the exact products of the operands' numbers. ``a`` and ``b`` come ``product_stages`` cycles
    before their ``addend``, ``result`` follows ``add_stages - 1`` after it and leaves no register: the same for all, so
    they may take turns from cycle to cycle. The wide multiplier serves all formats; the others are as narrow as FP8's
    significands, once their constant zeros are folded.
    """

    config: TensorConfig

    def __init__(self, config: TensorConfig) -> None:
        ports = {
            "a": In(numbers_layout(config)),
            "b": In(numbers_layout(config)),
            "addend": In(Fp32),
            "result": Out(Fp32),
        }
        super().__init__(config, Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """Products, their sums, what is chosen of them, and the accumulator's sum."""
        m = Module()
        config = self.config
        products = self._products(m, platform)
        sums = []
        for index in range(0, len(products), 2):
            first = as_fp32(m, products[index])
            sums.append(self._sum(m, platform, f"pair_{index}", first, products[index + 1]))
        waits = config.product_stages - config.multiply_stages
        addition = Signal(Product)
        m.d.comb += addition.eq(later(m, "single", products[0], waits))
        if config.double_row:
            paired = later(m, "paired", self.a.paired & self.b.paired, config.product_stages)
            pair = later(m, "pair", term(m, "pair", sums[0]), waits - config.add_stages)
            with m.If(paired):
                m.d.comb += addition.eq(pair)
        if config.microscaling:
            self._scale(m, platform, sums, addition)

        total = self._sum(m, platform, "accumulate", self.addend, addition, registered=False)
        m.d.comb += self.result.eq(total)
        return m

    def _products(self, m: Module, platform: Any) -> list[Any]:
        names = ("second", "third", "fourth") if self.config.microscaling else ("second",)
        factors = [(self.a.first, self.b.first), *((widened(m, self.a[x]), widened(m, self.b[x])) for x in names)]
        products = []
        for index, (a, b) in enumerate(factors):
            product = ExactProduct(ProductConfig(stages=self.config.multiply_stages))
            m.submodules[f"product_{index}"] = place(product, platform)
            m.d.comb += [product.a.eq(a), product.b.eq(b)]
            products.append(product.product)
        return products

    def _sum(self, m: Module, platform: Any, name: str, addend: Any, product: Any, *, registered: bool = True) -> Any:
        adder = Accumulate(AddConfig(stages=self.config.add_stages, registered=registered))
        m.submodules[name] = place(adder, platform)
        m.d.comb += [adder.addend.eq(addend), adder.product.eq(product)]
        return adder.result

    def _scale(self, m: Module, platform: Any, sums: list[Any], addition: Any) -> None:
        """Add the scales' exponents to that of the sum of four; zero keeps an exponent below every other."""
        config, a, b = self.config, self.a, self.b
        four = self._sum(m, platform, "four", sums[0], term(m, "second_pair", sums[1]))
        exponent = Signal(signed(10), name="scale_exponent")
        m.d.comb += exponent.eq(a.scale + b.scale - 2 * SCALE.bias)
        exponent = later(m, "scale_exponent", exponent, config.product_stages)
        undefined = (a.scale == SCALE.nan_pattern) | (b.scale == SCALE.nan_pattern)
        undefined = later(m, "scale_undefined", undefined, config.product_stages)
        quad = later(m, "quad", a.quad & b.quad, config.product_stages)
        number = term(m, "four", four)
        with m.If(quad):
            m.d.comb += [
                addition.eq(number),
                addition.nan.eq(number.nan | undefined),
                addition.exponent.eq(
                    Mux(number.significand.any(), number.exponent + exponent, 2 * ZERO_EXPONENT + FP32.bias)
                ),
            ]
