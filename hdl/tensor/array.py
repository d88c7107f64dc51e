"""The systolic array: rows, the skew before them and the alignment behind them."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Shape
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block, place
from hdl.tensor.delay import Delay
from hdl.tensor.later import later
from hdl.tensor.layouts import column_layout, column_token, group_layout, row_control
from hdl.tensor.row import Row
from spec.formats import FP32
from spec.tensor import QUAD_ROWS, SCALE, DelayConfig, TensorConfig

EDGE_DELAY = 2
"""Cycles from an operand's arrival to row 0: the shortest delay line."""


class Array(Block):
    """``rows`` x ``columns`` processing elements, free-running: one moving column and one stationary group a cycle.

    ``control`` says what ``moving`` and ``stationary`` hold in this cycle. The column's ``token`` appears
    ``1 + hops + product_stages + rows * add_stages`` cycles later, its ``sums``, all columns at once, in the cycle
    after that. Reset invalidates everything in flight.
    """

    config: TensorConfig

    def __init__(self, config: TensorConfig) -> None:
        ports = {
            "control": In(row_control(config)),
            "moving": In(Shape.cast(column_layout(config)).width),
            "stationary": In(Shape.cast(group_layout(config)).width),
            "token": Out(column_token(config)),
            "sums": Out(config.columns * FP32.width),
        }
        super().__init__(config, Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """Rows from top to bottom."""
        m = Module()
        config = self.config
        above: Any = Const(0, config.columns * FP32.width)
        control: Any = later(m, "control", self.control, EDGE_DELAY, reset=True)
        for index in range(config.rows):
            row = Row(config)
            m.submodules[f"row_{index}"] = place(row, platform)
            self._skew(m, platform, index, row)
            m.d.comb += [row.control.eq(control), row.above.eq(above)]
            above, control = row.below, row.control_below
        self._align(m, above)
        token = later(m, "token", control.column, config.product_stages + config.hops - 1, reset=True)
        m.d.comb += self.token.eq(token)
        return m

    def _skew(self, m: Module, platform: Any, index: int, row: Row) -> None:
        """Delay the operands of a row as long as partial sums take to come down to it."""
        config = self.config
        width = Shape.cast(column_layout(config)).width
        columns = [self.moving, *(self.stationary[lane * width :][:width] for lane in range(config.load_columns))]
        operands = Cat(self._operand(column, index) for column in columns)
        longest = EDGE_DELAY + (config.rows - 1) * config.add_stages
        delay = Delay(DelayConfig(width=len(operands), depth=longest))
        m.submodules[f"skew_{index}"] = place(delay, platform)
        m.d.comb += [
            delay.input.eq(operands),
            delay.length.eq(EDGE_DELAY + index * config.add_stages),
            Cat(row.moving, row.stationary).eq(delay.output),
        ]

    def _operand(self, column: Any, row: int) -> Any:
        """What a row takes of a column: its element and, above it, the scale of its block."""
        config = self.config
        element = column[row * config.operand_bits :][: config.operand_bits]
        scale = column[config.rows * config.operand_bits + row // QUAD_ROWS * SCALE.width :][: SCALE.width]
        return Cat(element, scale) if config.microscaling else element

    def _align(self, m: Module, sums: Any) -> None:
        """Delay the first hops of the bottom row until the last one has come."""
        config = self.config
        late = []
        for hop in range(config.hops):
            start, end = hop * config.hop_columns, min(config.columns, (hop + 1) * config.hop_columns)
            part = sums[start * FP32.width : end * FP32.width]
            late.append(later(m, f"sums_hop_{hop}", part, config.hops - 1 - hop))
        m.d.comb += self.sums.eq(Cat(late))
