"""The host's way into a memory: lines to write, lines to read."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from hdl.block import Block, place
from hdl.core.layouts import LINE_BITS, answer, line_request
from hdl.fifo import Fifo
from spec.core import HostConfig
from spec.fifo import FifoConfig

HOST = data.StructLayout({"data": LINE_BITS, "line": 32, "write": 1})
"""A line that the host writes or asks for."""


class HostPort(Block):
    """``host`` in, what it read out at ``lines``, in order; ``request``, ``answer`` and ``done`` are a memory's port.

    A write is taken in the cycle in which it is ``done``, so what the host has written is there. A read is taken with
    the memory's request, if there is room for its answer. Reset forgets what the host has asked for.
    """

    config: HostConfig

    def __init__(self, config: HostConfig) -> None:
        ports = {
            "host": In(stream.Signature(HOST)),
            "lines": Out(stream.Signature(config.response)),
            "request": Out(stream.Signature(line_request(config.core))),
            "answer": In(answer(config.response)),
            "done": In(1),
        }
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """One write at a time; as many reads as there is room for."""
        m = Module()
        ahead = self.config.ahead
        found = Fifo(FifoConfig(width=self.config.response, depth=ahead))
        m.submodules.found = place(found, platform)
        room, writing = Signal(range(ahead + 1), init=ahead), Signal()
        host, request = self.host.payload, self.request.payload
        moves, reads = Signal(), Signal()
        may = host.write & ~writing | ~host.write & (room != 0)
        m.d.comb += [
            self.request.valid.eq(self.host.valid & may),
            request.write.eq(host.write),
            request.line.eq(host.line),
            request.data.eq(host.data),
            request.mask.eq(~0),
            moves.eq(self.request.valid & self.request.ready),
            reads.eq(moves & ~host.write),
            self.host.ready.eq(reads | self.done),
            found.i.valid.eq(self.answer.valid),
            found.i.payload.eq(self.answer.data),
        ]
        connect(m, found.o, flipped(self.lines))
        m.d.sync += [
            writing.eq((writing | moves & host.write) & ~self.done),
            room.eq(room - reads + (found.o.valid & found.o.ready)),
        ]
        return m
