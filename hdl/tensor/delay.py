"""A delay line in memory."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block
from spec.tensor import DelayConfig

SHORTEST = 2
"""Cycles through the memory."""


class Delay(Block):
    """``output`` is ``input`` of ``length`` cycles before; 2 <= ``length`` <= ``config.depth``, constant.

    One memory used as a ring of ``length`` words. The length is a port, so that lines of all lengths are one module.
    For ``length`` cycles after reset the output means nothing.
    """

    config: DelayConfig

    def __init__(self, config: DelayConfig) -> None:
        ports = {"input": In(config.width), "output": Out(config.width), "length": In(range(config.depth + 1))}
        super().__init__(config, Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """Write here, read the place that is overwritten next."""
        m = Module()
        memory: Memory = Memory(shape=self.config.width, depth=self.config.depth, init=[])
        m.submodules.memory = memory
        write, read = memory.write_port(), memory.read_port()
        here = Signal(range(self.config.depth))
        following = Signal.like(here)
        m.d.comb += [
            following.eq(Mux(here + 1 == self.length, 0, here + 1)),
            write.addr.eq(here),
            write.data.eq(self.input),
            write.en.eq(1),
            read.addr.eq(following),
            read.en.eq(1),
            self.output.eq(read.data),
        ]
        m.d.sync += here.eq(following)
        return m
