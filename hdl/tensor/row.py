"""One row of the array: decoders at its left edge, then its processing elements."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block, place
from hdl.tensor.edge import EdgeDecoder
from hdl.tensor.elements import Elements
from hdl.tensor.later import later
from hdl.tensor.layouts import row_control
from hdl.tensor.operands import OTHERS, load_layout
from spec.formats import FP32
from spec.tensor import TensorConfig


class Row(Block):
    """``columns`` processing elements that share a moving operand.

    ``moving`` and ``stationary`` hold elements as they lie in memory; ``control`` says what they are in the cycle they
    come. A load or a swap is for the moving operands that come a cycle later, or after that. The partial sum of column
    ``m`` of hop ``h`` is expected at ``above`` ``h + product_stages`` cycles after the moving operand, and leaves at
    ``below`` ``add_stages`` later, see :class:`hdl.tensor.elements.Elements`.
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
        """Decode once, for all elements."""
        m = Module()
        config, control = self.config, self.control
        passed = control
        for stage in range(config.add_stages):
            following = Signal(row_control(config), name=f"control_{stage}")
            m.d.sync += following.eq(passed)
            passed = following
        m.d.comb += self.control_below.eq(passed)

        elements = Elements(config)
        m.submodules.elements = place(elements, platform)
        m.d.comb += [
            elements.moving.own.eq(self._decode(m, "moving", self.moving, control.select, platform)),
            elements.valid.eq(control.column.valid),
            elements.above.eq(self.above),
            self.below.eq(elements.below),
        ]
        for index in range(OTHERS if config.sparsity else 0):
            code = self.others.word_select(index, config.operand_bits)
            other = self._decode(m, f"other_{index}", code, control.select, platform)
            m.d.comb += elements.moving.others[index].eq(other.first)
        load = Signal(load_layout(config))
        m.d.comb += [load.valid.eq(control.load), load.group.eq(control.load_group)]
        for lane in range(config.load_columns):
            code = self.stationary.word_select(lane, config.stationary_bits)
            decoded = self._decode(m, f"stationary_{lane}", code[: config.edge_bits], control.load_select, platform)
            m.d.comb += load.operands[lane].eq(decoded)
            if config.sparsity:
                tag = code[config.edge_bits :]
                m.d.comb += load.tags[lane].eq(tag & control.load_sparse.replicate(len(tag)))
        # Registers: no logic of an element hangs on a port of the row.
        m.d.comb += [
            elements.load.eq(later(m, "load", load, 1, reset=True)),
            elements.swap.eq(later(m, "swap", control.swap, 1, reset=True)),
        ]
        return m

    def _decode(self, m: Module, name: str, code: Any, select: Any, platform: Any) -> Any:
        decoder = EdgeDecoder(self.config)
        m.submodules[f"decode_{name}"] = place(decoder, platform)
        m.d.comb += [decoder.code.eq(code), decoder.select.eq(select)]
        return decoder.operand
