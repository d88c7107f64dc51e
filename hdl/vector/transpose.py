"""Square blocks of rows and lanes transposed on their way through a square of registers."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block
from spec.vector import VectorConfig


class Transposer(Block):
    """``o`` is the row whose turn it is, of the block that came ``config.block`` rows before ``i``, transposed.

    A row moves with each ``shift``; ``o`` does not depend on ``i``. Rows of one block come down from the top, the next
    block's from the right while the columns of the first leave on the left, and so on in turn: every register has one
    use. Reset starts a block.
    """

    config: VectorConfig

    def __init__(self, config: VectorConfig) -> None:
        row = data.ArrayLayout(32, config.block)
        super().__init__(config, Signature({"shift": In(1), "i": In(row), "o": Out(row)}))

    def elaborate(self, platform: Any) -> Module:
        """The square as rows, and a counter for its direction."""
        m = Module()
        size = self.config.block
        rows = [Signal(32 * size, name=f"row_{number}", reset_less=True) for number in range(size)]
        elements = [self.i[number] for number in range(size)]
        position = Signal(range(max(2, size)))
        sideways = Signal()
        with m.If(self.shift):
            m.d.sync += position.eq(position + 1)
            with m.If(position == size - 1):
                m.d.sync += [position.eq(0), sideways.eq(~sideways)]
            with m.If(sideways):
                m.d.sync += [
                    row.eq(Cat(row[32:], element)) for row, element in zip(rows, reversed(elements), strict=True)
                ]
            with m.Else():
                m.d.sync += [row.eq(above) for row, above in zip(rows, [self.i.as_value(), *rows[:-1]], strict=True)]
        with m.If(sideways):
            m.d.comb += self.o.as_value().eq(Cat(row[:32] for row in reversed(rows)))
        with m.Else():
            m.d.comb += self.o.as_value().eq(rows[-1])
        return m
