"""One processing element: two weights, one multiplier, one adder."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.numerics import Fp32, MultiplyAdd, Operand
from spec.numerics import MultiplyAddConfig
from spec.tensor import TensorConfig


class ProcessingElement(Block):
    """``below = fp32(above + weight * moving)``.

    ``above`` comes ``multiply_stages`` cycles after the ``moving`` operand it belongs to, ``below`` another
    ``add_stages`` cycles later; one of each every cycle. ``load`` stores ``stationary`` into the shadow weight;
    ``swap`` makes the shadow the weight of the moving operands from the next cycle on. Both may happen in one cycle:
    the swap takes the shadow as it was before. No backpressure. Reset clears both weights.
    """

    moving: In(Operand)
    stationary: In(Operand)
    load: In(1)
    swap: In(1)
    above: In(Fp32)
    below: Out(Fp32)

    config: TensorConfig

    def __init__(self, config: TensorConfig) -> None:
        super().__init__(config)

    def elaborate(self, platform: Any) -> Module:
        """Registers around the arithmetic."""
        m = Module()
        config = MultiplyAddConfig(multiply_stages=self.config.multiply_stages, add_stages=self.config.add_stages)
        arithmetic = MultiplyAdd(config)
        m.submodules.arithmetic = place(arithmetic, platform)
        shadow, weight = Signal(Operand), Signal(Operand)
        with m.If(self.load):
            m.d.sync += shadow.eq(self.stationary)
        with m.If(self.swap):
            m.d.sync += weight.eq(shadow)
        m.d.comb += [
            arithmetic.a.eq(weight),
            arithmetic.b.eq(self.moving),
            arithmetic.addend.eq(self.above),
            self.below.eq(arithmetic.result),
        ]
        return m
