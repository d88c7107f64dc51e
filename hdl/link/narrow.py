"""A link of a fraction of the width: the same flit over fewer wires in several cycles."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.link.layouts import FlitLink
from spec.link import OutputConfig


class Narrow(Block):
    """Sends each flit in ``config.cycles`` parts, lowest bits first; whole at the far end in the last one's cycle.

    A flit on ``i`` in cycle t is on ``o`` in cycle t + cycles - 1. The sender leaves ``cycles`` between flits, as an
    :class:`~hdl.link.output.Output` of the same configuration does; a flit that comes earlier is the sender's error.
    Credits pass through unchanged. Reset drops a flit that is under way.
    """

    config: OutputConfig

    def __init__(self, config: OutputConfig) -> None:
        link = FlitLink(config.router)
        super().__init__(config, {"i": In(link), "o": Out(link), "part": Out(config.part_bits), "busy": Out(1)})

    def elaborate(self, platform: Any) -> Module:
        """``part`` and ``busy`` are the wires between the chips: the sender drives them, the receiver gathers them."""
        m = Module()
        cycles, width = self.config.cycles, self.config.part_bits
        whole = Signal(width * cycles)
        rest = Signal(width * (cycles - 1))
        left = Signal(range(cycles))
        bits = len(self.i.flit.as_value())
        m.d.comb += [
            whole[:bits].eq(self.i.flit.as_value()),
            whole[bits : bits + len(self.i.lane)].eq(self.i.lane),
            self.busy.eq(self.i.valid | (left != 0)),
            self.part.eq(rest[:width]),
            self.i.credit.eq(self.o.credit),
        ]
        with m.If(self.i.valid):
            m.d.comb += self.part.eq(whole[:width])
            m.d.sync += [rest.eq(whole[width:]), left.eq(cycles - 1)]
        with m.Elif(left != 0):
            m.d.sync += [rest.eq(rest >> width), left.eq(left - 1)]

        come = Signal(range(cycles))
        held = Signal(width * (cycles - 1))
        gathered = Signal(width * cycles)
        m.d.comb += [
            gathered.eq(held | self.part << width * (cycles - 1)),
            self.o.flit.as_value().eq(gathered[:bits]),
            self.o.lane.eq(gathered[bits : bits + len(self.i.lane)]),
            self.o.valid.eq(self.busy & (come == cycles - 1)),
        ]
        with m.If(self.busy):
            m.d.sync += [held.eq(gathered >> width), come.eq(come + 1)]
            with m.If(come == cycles - 1):
                m.d.sync += come.eq(0)
        return m
