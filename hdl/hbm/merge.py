"""Many streams into one: fair, and patient enough to keep a stream on its row."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.hbm.onehot import first_of, select
from spec.hbm_stack import HbmStackConfig


class HbmMerge(Block):
    """Round robin among the streams ``i``; whoever has the turn keeps it for up to ``streak`` items while it offers.

    Combinational from ``i`` to ``o``. An item that was offered on ``o`` stays there until it is taken. Fairness: a
    stream that offers waits for at most ``(inputs - 1) * streak`` items of others. Reset gives the turn to stream 0.
    """

    config: HbmStackConfig

    def __init__(self, config: HbmStackConfig, shape: Any, inputs: int, streak: int) -> None:
        self.inputs, self.streak, self.shape = inputs, streak, shape
        self.holder, self.behind, self.left = Signal(inputs), Signal(inputs, init=-1), Signal(range(streak + 1))
        payload = stream.Signature(shape)
        super().__init__(config, {"i": In(payload).array(inputs), "o": Out(payload)})

    @property
    def module_name(self) -> str:
        """Merges of one stack differ in what they carry."""
        return f"{super().module_name}_{self.inputs}_{self.streak}_{self.shape.size}"

    def elaborate(self, platform: Any) -> Module:
        """``left`` counts what the holder may still send; as an offer stands until it is taken, it keeps the choice."""
        m = Module()
        streams: Any = self.i
        output: Any = self.o
        ask, grant = Signal(self.inputs), Signal(self.inputs)
        holder, behind, left = self.holder, self.behind, self.left
        keeps, taken = Signal(), Signal()
        m.d.comb += [
            ask.eq(Cat(one.valid for one in streams)),
            keeps.eq((left != 0) & (ask & holder).any()),
            grant.eq(Mux(keeps, holder, first_of(Mux((ask & behind).any(), ask & behind, ask)))),
            output.valid.eq(ask.any()),
            output.payload.eq(select(grant, [one.payload for one in streams])),
            taken.eq(output.valid & output.ready),
        ]
        for index, one in enumerate(streams):
            m.d.comb += one.ready.eq(output.ready & grant[index])
        with m.If(output.valid):
            m.d.sync += [
                holder.eq(grant),
                behind.eq(~(grant | (grant - 1)[: self.inputs])),
                left.eq(Mux(keeps, left, self.streak) - taken),
            ]
        return m
