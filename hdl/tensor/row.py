"""One row of the array: decoders at its left edge, then its processing elements."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block, place
from hdl.tensor.edge import EdgeDecoder
from hdl.tensor.layouts import row_control
from hdl.tensor.operands import OTHERS, element_layout, moving_layout
from hdl.tensor.processing_element import ProcessingElement
from spec.formats import FP32
from spec.tensor import TAG_BITS, TensorConfig


class Row(Block):
    """``columns`` processing elements that share a moving operand.

    ``moving`` and ``stationary`` hold elements as they lie in memory; ``control`` says what they are in the cycle they
    come. A moving operand reaches the columns of hop ``h`` (``hop_columns`` columns) ``1 + h`` cycles later, a
    stationary operand and a swap after ``h`` cycles. So the partial sum of column ``m`` is expected at ``above``
    ``1 + h + product_stages`` cycles after the operand, and leaves at ``below`` ``add_stages`` later.
    ``control_below`` is ``control`` of ``add_stages`` cycles ago: what the next row needs. Free-running.

    With sparsity, ``others`` are the further operands that an element may take instead of ``moving``, by its tag; a
    tag here counts from the row itself: its two low bits say how far away the other row of the four is, by exclusive
    or.
    """

    config: TensorConfig

    def __init__(self, config: TensorConfig) -> None:
        ports = {
            "control": In(row_control(config)),
            "control_below": Out(row_control(config)),
            "moving": In(config.edge_bits),
            "stationary": In(config.load_columns * config.stationary_bits),
            "above": In(config.columns * FP32.width),
            "below": Out(config.columns * FP32.width),
        }
        if config.sparsity:
            ports["others"] = In(OTHERS * config.operand_bits)
        super().__init__(config, Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """Decode once, then hand from hop to hop."""
        m = Module()
        config, control = self.config, self.control
        passed = control
        for stage in range(config.add_stages):
            following = Signal(row_control(config), name=f"control_{stage}")
            m.d.sync += following.eq(passed)
            passed = following
        m.d.comb += self.control_below.eq(passed)

        moving = Signal(moving_layout(config))
        decoded = self._decode(m, "moving", self.moving, control.select, platform)
        with m.If(control.column.valid):  # bubbles leave the operands where they are: nothing behind them toggles
            m.d.sync += moving.own.eq(decoded)
            for index in range(OTHERS if config.sparsity else 0):
                code = self.others.word_select(index, config.operand_bits)
                other = self._decode(m, f"other_{index}", code, control.select, platform)
                m.d.sync += moving.others[index].eq(other.first)
        load = Signal(self._load_layout())
        m.d.comb += [load.valid.eq(control.load), load.group.eq(control.load_group)]
        for lane in range(config.load_columns):
            code = self.stationary.word_select(lane, config.stationary_bits)
            decoded = self._decode(m, f"stationary_{lane}", code[: config.edge_bits], control.load_select, platform)
            m.d.comb += load.operands[lane].eq(decoded)
            if config.sparsity:
                tag = code[config.edge_bits :]
                m.d.comb += load.tags[lane].eq(tag & control.load_sparse.replicate(len(tag)))
        swap = control.swap

        for hop in range(config.hops):
            if hop:
                moving, load, swap = (self._hop(m, hop, what) for what in (moving, load, swap))
            self._elements(m, platform, hop, moving, load, swap)
        return m

    def _load_layout(self) -> data.StructLayout:
        operands = data.ArrayLayout(element_layout(self.config), self.config.load_columns)
        group = range(max(2, self.config.load_cycles))
        members: dict[str, Any] = {"valid": 1, "group": group, "operands": operands}
        if self.config.sparsity:
            members["tags"] = data.ArrayLayout(TAG_BITS, self.config.load_columns)
        return data.StructLayout(members)

    def _decode(self, m: Module, name: str, code: Any, select: Any, platform: Any) -> Any:
        decoder = EdgeDecoder(self.config)
        m.submodules[f"decode_{name}"] = place(decoder, platform)
        m.d.comb += [decoder.code.eq(code), decoder.select.eq(select)]
        return decoder.operand

    def _hop(self, m: Module, hop: int, what: Any) -> Any:
        following = Signal(what.shape(), name=f"hop_{hop}")
        m.d.sync += following.eq(what)
        return following

    def _elements(self, m: Module, platform: Any, hop: int, moving: Any, load: Any, swap: Any) -> None:
        config = self.config
        end = min(config.columns, (hop + 1) * config.hop_columns)
        loads: dict[int, Signal] = {}
        for column in range(hop * config.hop_columns, end):
            group, lane = divmod(column, config.load_columns)
            if group not in loads:
                loads[group] = Signal(name=f"load_group_{group}_hop_{hop}")
                m.d.comb += loads[group].eq(load.valid & (load.group == group))
            element = ProcessingElement(config)
            m.submodules[f"element_{column}"] = place(element, platform)
            m.d.comb += [
                element.moving.eq(moving.own),
                element.stationary.eq(load.operands[lane]),
                element.load.eq(loads[group]),
                element.swap.eq(swap),
                element.above.as_value().eq(self.above.word_select(column, FP32.width)),
                self.below.word_select(column, FP32.width).eq(element.below),
            ]
            if config.sparsity:
                m.d.comb += [element.others.eq(moving.others), element.tag.eq(load.tags[lane])]
