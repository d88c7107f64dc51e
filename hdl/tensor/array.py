"""The systolic array: rows, the skew before them and the alignment behind them."""

from typing import Any

from amaranth.hdl import Array as HdlArray
from amaranth.hdl import Cat, Const, Module, Shape, Signal
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block, place
from hdl.tensor.delay import SHORTEST, Delay
from hdl.tensor.later import later
from hdl.tensor.layouts import column_layout, column_token, group_layout, row_control, stationary_layout
from hdl.tensor.row import Row
from spec.formats import FP32
from spec.tensor import QUAD_ROWS, SCALE, SPARSE_PLANES, SPARSE_ROWS, TAG_BITS, DelayConfig, TensorConfig

EDGE_DELAY = 2
"""Cycles from an operand's arrival to row 0."""

EARLY = ("swap", "load", "load_group", "load_select", "load_sparse")
"""What of a row's control comes a cycle early."""


class Array(Block):
    """``rows`` x ``columns`` processing elements, free-running: one moving column and one stationary group a cycle.

    ``control`` says what ``moving`` and ``stationary`` hold in this cycle. The column's ``token`` appears
    ``1 + hops + product_stages + rows * add_stages`` cycles later, its ``sums``, all columns at once, in the cycle
    after that. Where the rows are split, each tile's sums begin at 0, and ``sums`` holds as many results: those of the
    upper tiles wait until the lowest one is done. Reset invalidates everything in flight.
    """

    config: TensorConfig

    def __init__(self, config: TensorConfig) -> None:
        ports = {
            "control": In(row_control(config)),
            "moving": In(Shape.cast(column_layout(config)).width),
            "stationary": In(Shape.cast(group_layout(config)).width),
            "token": Out(column_token(config)),
            "sums": Out(config.tiles * config.columns * FP32.width),
        }
        super().__init__(config, Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """Rows from top to bottom."""
        m = Module()
        config = self.config
        above: Any = Const(0, config.columns * FP32.width)
        control = self._enter(m)
        taps = []
        for index in range(config.rows):
            row = Row(config)
            m.submodules[f"row_{index}"] = place(row, platform)
            self._skew(m, platform, index, row)
            m.d.comb += [row.control.eq(control), row.above.eq(above)]
            above, control = row.below, row.control_below
            done, left = divmod(index + 1, config.rows // config.tiles)
            if not left:
                taps.append(self._tap(m, platform, done, above))
                if done < config.tiles:
                    above = self._begin(m, done, control, above)
        token = later(m, "token", control.column, config.product_stages + config.hops - 1, reset=True)
        m.d.comb += self.token.eq(token)
        self._select(m, later(m, "token_late", token, 1), taps)
        return m

    def _enter(self, m: Module) -> Any:
        """What comes to the first row: of loads and swaps a cycle before the operands, as :class:`Row` wants it."""
        early: Any = later(m, "control_early", self.control, EDGE_DELAY - 1, reset=True)
        layout = row_control(self.config)
        control: Any = Signal(layout)
        m.d.comb += control.eq(later(m, "control", early, 1, reset=True))
        m.d.comb += [control[field].eq(early[field]) for field in EARLY if field in layout.members]
        return control

    def _skew(self, m: Module, platform: Any, index: int, row: Row) -> None:
        """Delay the operands of a row as long as partial sums take to come down to it; those of loads a cycle less."""
        config = self.config
        width = Shape.cast(stationary_layout(config)).width
        lanes = [self.stationary[lane * width :][:width] for lane in range(config.load_columns)]
        operands = [self._stationary(column, index) for column in lanes]
        if config.sparsity:
            self._window(m, platform, index, row)
        else:
            operands.append(self._operand(self.moving, config.rows, index, index))
        early = self._delay(m, platform, f"skew_{index}", index, Cat(operands))
        m.d.comb += row.stationary.eq(early)
        if not config.sparsity:
            m.d.comb += row.moving.eq(later(m, f"moving_{index}", early[len(row.stationary) :], 1))

    def _delay(self, m: Module, platform: Any, name: str, row: int, what: Any) -> Any:
        """``what``, a cycle before partial sums come down to ``row``."""
        config = self.config
        length = EDGE_DELAY - 1 + row * config.add_stages
        if length < SHORTEST:
            return later(m, name, what, length)
        longest = EDGE_DELAY - 1 + (config.rows - 1) * config.add_stages
        delay = Delay(DelayConfig(width=len(what), depth=max(SHORTEST, longest)))
        m.submodules[name] = place(delay, platform)
        m.d.comb += [delay.input.eq(what), delay.length.eq(length)]
        return delay.output

    def _operand(self, column: Any, elements: int, index: int, row: int) -> Any:
        """What a row takes of a column of so many elements: that of an index and, above it, the scale of its block."""
        config = self.config
        element = column.word_select(index, config.operand_bits)
        scale = column[elements * config.operand_bits + row // QUAD_ROWS * SCALE.width :][: SCALE.width]
        return Cat(element, scale) if config.microscaling else element

    def _stationary(self, column: Any, row: int) -> Any:
        """What a row takes of a column of the stationary; its tag, if any, then counts from the row itself."""
        config = self.config
        operand = self._operand(column, config.rows, row, row)
        if not config.sparsity:
            return operand
        tag = column[-config.rows * TAG_BITS :][row * TAG_BITS :][:TAG_BITS]
        return Cat(operand, tag ^ Const(row % SPARSE_ROWS, TAG_BITS))

    def _window(self, m: Module, platform: Any, index: int, row: Row) -> None:
        """Moving operands of the four rows: delayed for the first of these, then handed from row to row."""
        config = self.config
        own = index % SPARSE_ROWS
        places = [(plane, other) for plane in range(SPARSE_PLANES) for other in range(SPARSE_ROWS)]
        if own == 0:
            count = config.planes * config.rows
            indices = [plane * config.rows + index + other for plane, other in places]
            first, *rest = (self._operand(self.moving, count, each, index) for each in indices)
            codes = [first, *(code[: config.operand_bits] for code in rest)]
            early = self._delay(m, platform, f"windows_{index}", index, Cat(codes))
            self.window = later(m, f"window_{index}", early, 1)
        else:
            self.window = later(m, f"window_{index}", self.window, config.add_stages)
        scale = self.window[config.operand_bits : config.edge_bits]
        elements = Cat(self.window[: config.operand_bits], self.window[config.edge_bits :])
        codes = [
            elements.word_select(plane * SPARSE_ROWS + (other ^ own), config.operand_bits) for plane, other in places
        ]
        m.d.comb += [row.moving.eq(Cat(codes[0], scale)), row.others.eq(Cat(codes[1:]))]

    def _begin(self, m: Module, tile: int, control: Any, above: Any) -> Any:
        """What comes down to the first row of a tile: 0 where the rows are split here, hop by hop."""
        config = self.config
        least = 1 if 2 * tile == config.tiles else 2
        cut = later(m, f"cut_{tile}", control.column.split >= least, config.product_stages)
        parts = []
        for hop, (start, end) in enumerate(self._hops()):
            if hop:
                cut = later(m, f"cut_{tile}_hop_{hop}", cut, 1)
            parts.append(above[start:end] & ~cut.replicate(end - start))
        return Cat(parts)

    def _hops(self) -> list[tuple[int, int]]:
        """The bits of a row of sums that each hop holds."""
        step, width = self.config.hop_columns * FP32.width, self.config.columns * FP32.width
        return [(start, min(width, start + step)) for start in range(0, width, step)]

    def _tap(self, m: Module, platform: Any, tile: int, sums: Any) -> Any:
        """The sums that leave a tile: registered, those of the first hops until the last has come, all to the end."""
        config = self.config
        late = []
        for hop, (start, end) in enumerate(self._hops()):
            late.append(later(m, f"sums_{tile}_hop_{hop}", sums[start:end], config.hops - hop))
        if tile == config.tiles:
            return Cat(late)
        longest = (config.rows - config.rows // config.tiles) * config.add_stages
        delay = Delay(DelayConfig(width=len(sums), depth=longest))
        m.submodules[f"wait_{tile}"] = place(delay, platform)
        rest = (config.rows - tile * config.rows // config.tiles) * config.add_stages
        m.d.comb += [delay.input.eq(Cat(late)), delay.length.eq(rest)]
        return delay.output

    def _select(self, m: Module, token: Any, taps: list[Any]) -> None:
        """Result ``way`` is that of the tile which ends there when the rows are split as the token says."""
        config = self.config
        if config.tiles == 1:
            m.d.comb += self.sums.eq(taps[0])
            return
        for way in range(config.tiles):
            ends = [((way + 1) * config.tiles >> split) - 1 for split in range(config.splits)]
            choice = HdlArray(taps[min(end, config.tiles - 1)] for end in ends)[token.split]
            m.d.comb += self.sums.word_select(way, config.columns * FP32.width).eq(choice)
