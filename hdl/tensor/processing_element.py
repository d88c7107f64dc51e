"""One processing element: two weights, one multiplier, one adder."""

from typing import Any

from amaranth.hdl import Array, Const, Module, Mux, Shape, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block, place
from hdl.numerics import Fp32, MultiplyAdd, Operand
from hdl.numerics.layouts import ZERO_EXPONENT
from hdl.tensor.later import later
from hdl.tensor.operands import OTHERS, bits_of, element_layout, numbers_layout
from hdl.tensor.packed import PackedMultiplyAdd
from spec.formats import FP32
from spec.numerics import MultiplyAddConfig
from spec.tensor import TAG_BITS, TensorConfig


class ProcessingElement(Block):
    """``below = fp32(above + weight * moving)``, or the sum of several such products where the operands hold several.

    With sparsity, a ``tag`` comes with the stationary: 0 is an ordinary weight, ``t`` one that is multiplied with the
    number ``others[t - 1]`` in the place of the moving operand's first.

    Where the moving operand is bits, ``below = above | weight`` if any of them is set, else ``above``.

    ``above``, which the row has registered, comes ``product_stages`` cycles after the ``moving`` operand it belongs to;
    ``below`` follows ``add_stages - 1`` cycles later, the logic of the last stage: the next row registers it. One of
    each every cycle. ``load`` stores ``stationary`` into the shadow weight; ``swap`` makes the shadow the weight
    of the moving operands from the next cycle on. Both may happen in one cycle: the swap takes the shadow as it was
    before. No backpressure. Reset clears both weights.
    """

    config: TensorConfig

    def __init__(self, config: TensorConfig) -> None:
        ports = {
            "moving": In(element_layout(config)),
            "stationary": In(element_layout(config)),
            "load": In(1),
            "swap": In(1),
            "above": In(Fp32),
            "below": Out(Fp32),
        }
        if config.sparsity:
            ports |= {"others": In(data.ArrayLayout(Operand, OTHERS)), "tag": In(TAG_BITS)}
        super().__init__(config, Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """Registers around the arithmetic."""
        m = Module()
        layout = element_layout(self.config)
        arithmetic: Any
        packed = self.config.double_row or self.config.microscaling
        if packed:
            arithmetic = PackedMultiplyAdd(self.config)
        else:
            stages = {"multiply_stages": self.config.multiply_stages, "add_stages": self.config.add_stages}
            arithmetic = MultiplyAdd(MultiplyAddConfig(**stages, registered=False))
        m.submodules.arithmetic = place(arithmetic, platform)
        shadow, weight = Signal(layout), Signal(layout)
        with m.If(self.load):
            m.d.sync += shadow.eq(self.stationary)
        with m.If(self.swap):
            m.d.sync += weight.eq(shadow)
        moving = self._choose(m) if self.config.sparsity else self.moving
        factor = Signal(layout)
        m.d.comb += factor.eq(weight)
        if self.config.transpose:
            with m.If(weight.moved):  # bits are no number: to a matmul of numbers, the weight is zero
                m.d.comb += factor.first.eq(Const(0, Shape.cast(Operand)))
                m.d.comb += factor.first.exponent.eq(ZERO_EXPONENT)
        width = Shape.cast(numbers_layout(self.config)).width if packed else Shape.cast(Operand).width
        m.d.comb += [
            arithmetic.a.eq(factor.as_value()[:width]),
            arithmetic.b.eq(moving.as_value()[:width]),
            arithmetic.addend.eq(self.above),
            self.below.eq(arithmetic.result),
        ]
        if self.config.transpose:
            self._move(m, weight)
        return m

    def _choose(self, m: Module) -> Any:
        """The moving operand with its first number as the weight's tag says."""
        shadow, tag = Signal(TAG_BITS, name="shadow_tag"), Signal(TAG_BITS, name="weight_tag")
        with m.If(self.load):
            m.d.sync += shadow.eq(self.tag)
        with m.If(self.swap):
            m.d.sync += tag.eq(shadow)
        numbers = [self.moving.first, *(self.others[index] for index in range(OTHERS))]
        moving = Signal(element_layout(self.config))
        m.d.comb += [moving.eq(self.moving), moving.first.eq(Array(number.as_value() for number in numbers)[tag])]
        return moving

    def _move(self, m: Module, weight: Any) -> None:
        """Beside the arithmetic, in the same time: the weight's bits, where the moving operand has any set."""
        config = self.config
        bits = bits_of(weight.first)
        chosen = weight.moved & bits_of(self.moving.first).any
        half = later(m, "half", bits.value & chosen.replicate(len(bits.value)), config.product_stages)
        upper = later(m, "upper", bits.upper, config.product_stages)
        joined = self.above.as_value() | Mux(upper, half << len(half), half)
        late = later(m, "joined", joined[: FP32.width], config.add_stages - 1)
        moved = later(m, "moved", self.moving.moved, config.product_stages + config.add_stages - 1)
        with m.If(moved):
            m.d.comb += self.below.as_value().eq(late)
