"""One more 16-bit element a cycle: what a packed instruction needs of a lane, a second time."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.numerics import Cast
from hdl.scalar.delay import delay
from hdl.vector.alu import Alu
from hdl.vector.layouts import WayFinish, WayStep
from hdl.vector.operand import Operand
from spec.numerics import CastConfig
from spec.vector import PACKED_BITS, VectorConfig


class Way(Block):
    """``left`` and ``right`` in, ``result`` ``config.latency - 1`` cycles later, as in :class:`~.lane.VectorLane`.

    Ports and their times are the lane's. Operands are those of the instructions of ``spec.vector.PACKABLE``; ``c0`` and
    ``c1`` come with the two operations.
    """

    left: In(PACKED_BITS)
    right: In(PACKED_BITS)
    left_format: In(4)
    right_format: In(4)
    raw: In(2)
    c0: In(32)
    c1: In(32)
    first: In(WayStep)
    second: In(WayStep)
    finish: In(WayFinish)
    result: Out(PACKED_BITS)

    config: VectorConfig

    def __init__(self, config: VectorConfig) -> None:
        super().__init__(config)
        self.operands = [Operand(config, narrow=True) for _ in range(2)]

    def elaborate(self, platform: Any) -> Module:
        """Operands, two operations, cast."""
        m = Module()
        config, stages = self.config, self.config.operation_stages
        sides = (("left", self.left, self.left_format), ("right", self.right, self.right_format))
        for number, (operand, (name, code, format_)) in enumerate(zip(self.operands, sides, strict=True)):
            m.submodules[name] = place(operand, platform)
            m.d.comb += [operand.code.eq(code), operand.format.eq(format_), operand.raw.eq(self.raw[number])]
        x, y = (operand.operand for operand in self.operands)
        one = self._operation(m, platform, "operation_0", self.first, x, Mux(self.first.right, y, self.c0))
        b = Mux(self.second.right, delay(m, y, stages, "y"), self.c1)
        two = self._operation(m, platform, "operation_1", self.second, one, b)

        value = delay(m, two, config.compute_latency - 2 * stages, "value")
        targets = self.operands[0].formats
        cast = Cast(CastConfig(sources=("fp32",), targets=targets))
        m.submodules.cast_out = place(cast, platform)
        m.d.comb += [
            cast.code.eq(value),
            cast.saturate.eq(self.finish.saturate),
            cast.stochastic.eq(0),
            cast.random.eq(0),
        ]
        if len(targets) > 1:
            with m.Switch(self.finish.format):
                for position, name in enumerate(targets):
                    with m.Case(config.formats.index(name)):
                        m.d.comb += cast.target.eq(position)
        late = delay(m, Cat(value[:PACKED_BITS], self.finish.raw), 1, "late")
        m.d.comb += self.result.eq(Mux(late[-1], late[:-1], cast.result))
        return m

    def _operation(self, m: Module, platform: Any, name: str, control: Any, a: Any, b: Any) -> Any:
        alu = Alu(self.config)
        m.submodules[name] = place(alu, platform)
        left, right = Signal(32, name=f"{name}_a"), Signal(32, name=f"{name}_b")
        m.d.comb += [left.eq(a), right.eq(b)]
        m.d.comb += [
            alu.operation.eq(control.operation),
            alu.a.eq(Mux(control.reverse, right, left)),
            alu.b.eq(Mux(control.reverse, left, right)),
        ]
        return alu.result
