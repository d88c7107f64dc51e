"""The processing elements of one row."""

from typing import Any

from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Signal
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block, place
from hdl.tensor.later import later
from hdl.tensor.operands import load_layout, moving_layout
from hdl.tensor.processing_element import ProcessingElement
from spec.formats import FP32
from spec.tensor import TensorConfig


class Elements(Block):
    """``columns`` processing elements that share a moving operand; every input goes straight into a register.

    ``moving`` is taken where it is ``valid`` and reaches the columns of hop ``h`` (``hop_columns`` columns) ``1 + h``
    cycles later; ``load`` and ``swap`` reach them after ``h`` cycles. So the partial sum of column ``m`` is expected at
    ``above`` ``h + product_stages`` cycles after the operand, and leaves at ``below`` ``add_stages`` later.
    Free-running. Reset clears the weights a cycle after it.
    """

    config: TensorConfig

    def __init__(self, config: TensorConfig) -> None:
        ports = {
            "moving": In(moving_layout(config)),
            "valid": In(1),
            "load": In(load_layout(config)),
            "swap": In(1),
            "above": In(config.columns * FP32.width),
            "below": Out(config.columns * FP32.width),
        }
        super().__init__(config, Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """Hand from hop to hop."""
        m = Module()
        self._late_reset(m)
        moving = Signal(moving_layout(self.config))
        with m.If(self.valid):  # bubbles leave the operands where they are: nothing behind them toggles
            m.d.sync += moving.eq(self.moving)
        load, swap = self.load, self.swap
        self.sums = later(m, "above", self.above, 1)  # of all elements: their ports hang on registers alone
        for hop in range(self.config.hops):
            if hop:
                moving, load, swap = (self._hop(m, hop, what) for what in (moving, load, swap))
            self._elements(m, platform, hop, moving, load, swap)
        return m

    def _late_reset(self, m: Module) -> None:
        """A domain whose reset comes from a register: it reaches all elements, and nothing of them hangs on a port."""
        late = Signal(reset_less=True)
        m.domains += ClockDomain("late", local=True)
        m.d.comb += [ClockSignal("late").eq(ClockSignal()), ResetSignal("late").eq(late)]
        m.d.sync += late.eq(ResetSignal())

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
            m.submodules[f"element_{column}"] = DomainRenamer("late")(place(element, platform))
            m.d.comb += [
                element.moving.eq(moving.own),
                element.stationary.eq(load.operands[lane]),
                element.load.eq(loads[group]),
                element.swap.eq(swap),
                element.above.as_value().eq(self.sums.word_select(column, FP32.width)),
                self.below.word_select(column, FP32.width).eq(element.below),
            ]
            if config.sparsity:
                m.d.comb += [element.others.eq(moving.others), element.tag.eq(load.tags[lane])]
