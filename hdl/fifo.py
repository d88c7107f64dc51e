"""A queue for streams that keeps the payload's shape."""

from typing import Any

from amaranth.hdl import Module, Mux, Shape, Signal, ValueCastable
from amaranth.lib import memory, stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from spec.fifo import FifoConfig
from spec.parameters import refuse


class Fifo(Block):
    """Stores up to ``config.depth`` payloads and hands them out in order.

    Ports: ``i`` and ``o``, streams of ``shape``; ``level``, the number of payloads stored.

    Timing: a payload taken in cycle t is offered from cycle t + 1 on. No path leads through it from ``i`` to ``o`` or
    from ``o.ready`` to ``i.ready``, so it also cuts long paths: at depth 2 it is the usual skid buffer. A payload moves
    on both sides in every cycle from depth 2 on; at depth 1, on each side in every other cycle.
    Backpressure: ``i.ready`` falls when ``depth`` payloads are stored and rises the cycle after one leaves.
    Reset: empties it; nothing is offered in the cycle after. Stored bits are not cleared.
    """

    def __init__(self, config: FifoConfig, shape: Any = None) -> None:
        self.shape = config.width if shape is None else shape
        if Shape.cast(self.shape).width != config.width:
            raise refuse("FifoConfig", "width", config.width, f"{Shape.cast(self.shape).width}, as its payload has")
        payload = stream.Signature(self.shape)
        super().__init__(config, {"i": In(payload), "o": Out(payload), "level": Out(range(config.depth + 1))})

    def elaborate(self, platform: Any) -> Module:
        """The queue: a memory read without a clock, two pointers that wrap at ``depth``, a level."""
        m = Module()
        depth = self.config.depth
        rows: Any = memory.Memory(shape=self.config.width, depth=depth, init=[])
        m.submodules.rows = rows
        write, read = rows.write_port(), rows.read_port(domain="comb")
        put, take = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(self.level != depth),
            self.o.valid.eq(self.level != 0),
            put.eq(self.i.valid & self.i.ready),
            take.eq(self.o.valid & self.o.ready),
            write.en.eq(put),
            write.data.eq(_bits(self.i.payload)),
            _bits(self.o.payload).eq(read.data),
        ]
        m.d.sync += self.level.eq(self.level + put - take)
        for port, moves in ((write, put), (read, take)):
            pointer = Signal(range(depth))
            m.d.comb += port.addr.eq(pointer)
            with m.If(moves):
                m.d.sync += pointer.eq(Mux(pointer == depth - 1, 0, pointer + 1))
        return m


def _bits(payload: Any) -> Any:
    return payload.as_value() if isinstance(payload, ValueCastable) else payload
