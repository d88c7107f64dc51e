"""One processing element: two weights, one multiplier, one adder."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block, place
from hdl.numerics import Fp32, MultiplyAdd
from hdl.tensor.operands import element_layout
from hdl.tensor.pair import PairMultiplyAdd
from spec.numerics import MultiplyAddConfig
from spec.tensor import TensorConfig


class ProcessingElement(Block):
    """``below = fp32(above + weight * moving)``, or the sum of two such products where the operands are pairs.

    ``above`` comes ``product_stages`` cycles after the ``moving`` operand it belongs to, ``below`` another
    ``add_stages`` cycles later; one of each every cycle. ``load`` stores ``stationary`` into the shadow weight;
    ``swap`` makes the shadow the weight of the moving operands from the next cycle on. Both may happen in one cycle:
    the swap takes the shadow as it was before. No backpressure. Reset clears both weights.
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
        super().__init__(config, Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """Registers around the arithmetic."""
        m = Module()
        layout = element_layout(self.config)
        arithmetic: Any
        if self.config.double_row:
            arithmetic = PairMultiplyAdd(self.config)
        else:
            stages = {"multiply_stages": self.config.multiply_stages, "add_stages": self.config.add_stages}
            arithmetic = MultiplyAdd(MultiplyAddConfig(**stages))
        m.submodules.arithmetic = place(arithmetic, platform)
        shadow, weight = Signal(layout), Signal(layout)
        with m.If(self.load):
            m.d.sync += shadow.eq(self.stationary)
        with m.If(self.swap):
            m.d.sync += weight.eq(shadow)
        m.d.comb += [
            arithmetic.a.eq(weight if self.config.double_row else weight.first),
            arithmetic.b.eq(self.moving if self.config.double_row else self.moving.first),
            arithmetic.addend.eq(self.above),
            self.below.eq(arithmetic.result),
        ]
        return m
