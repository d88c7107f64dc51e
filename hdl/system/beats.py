"""Wide streams over few wires: a payload in beats, the lowest bits first."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from spec.system import BeatsConfig


class Gather(Block):
    """Beats in at ``i``, a payload out at ``o``, offered in the cycle after its last beat has been taken.

    No beat of the next payload is taken while one waits. Reset drops what is half there.
    """

    config: BeatsConfig

    def __init__(self, config: BeatsConfig) -> None:
        super().__init__(config, {"i": In(stream.Signature(config.beat)), "o": Out(stream.Signature(config.width))})

    def elaborate(self, platform: Any) -> Module:
        """Beats enter at the top and move down."""
        m = Module()
        config = self.config
        held, count = Signal(config.beats * config.beat), Signal(range(config.beats + 1))
        m.d.comb += [
            self.i.ready.eq(count != config.beats),
            self.o.valid.eq(count == config.beats),
            self.o.payload.eq(held[: config.width]),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [held.eq(held >> config.beat), count.eq(count + 1)]
            m.d.sync += held[-config.beat :].eq(self.i.payload)
        with m.Elif(self.o.valid & self.o.ready):
            m.d.sync += count.eq(0)
        return m


class Scatter(Block):
    """A payload in at ``i``, its beats out at ``o``, the first in the cycle after. Reset drops what is left."""

    config: BeatsConfig

    def __init__(self, config: BeatsConfig) -> None:
        super().__init__(config, {"i": In(stream.Signature(config.width)), "o": Out(stream.Signature(config.beat))})

    def elaborate(self, platform: Any) -> Module:
        """A register that moves down by a beat at a time."""
        m = Module()
        config = self.config
        held, count = Signal(config.beats * config.beat), Signal(range(config.beats + 1))
        m.d.comb += [
            self.i.ready.eq(count == 0),
            self.o.valid.eq(count != 0),
            self.o.payload.eq(held[: config.beat]),
        ]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [held.eq(self.i.payload), count.eq(config.beats)]
        with m.Elif(self.o.valid & self.o.ready):
            m.d.sync += [held.eq(held >> config.beat), count.eq(count - 1)]
        return m
