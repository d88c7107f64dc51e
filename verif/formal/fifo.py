"""The FIFO never loses, duplicates, reorders or changes a payload, whatever the streams and the reset do."""

from typing import Any, cast

from amaranth.hdl import Array, Assert, Cover, Module, Mux, Signal, Value

from hdl.fifo import Fifo
from spec.fifo import FifoConfig
from verif.formal.stream import offer_stands
from verif.harness.formal import Properties


class FifoProperties(Properties):
    """Follows one payload, chosen freely among all that ever enter, from its place in the queue to the exit.

    While it is inside, ``ahead`` payloads stand before it, and the row at that distance behind the read pointer holds
    it. That relation, with the one between pointers and level, is inductive: the proof holds for every number of
    cycles. As the choice is free, what is shown for one payload holds for all.
    """

    def __init__(self, config: FifoConfig, fifo: Fifo | None = None) -> None:
        self.config = config
        self.fifo = cast(Any, fifo or Fifo(config))
        self.mark = Signal()
        i, o = self.fifo.i, self.fifo.o
        self.inputs = (i.valid, i.payload, o.ready, self.mark)

    def elaborate(self, platform: Any) -> Module:
        """The block, the follower, the properties."""
        m = Module()
        fifo, depth = self.fifo, self.config.depth
        m.submodules.fifo = platform.place(fifo)
        memory, rows = platform.memories[-1]
        write, read = memory.write_ports[0].addr, memory.read_ports[0].addr

        put, take = Signal(), Signal()
        m.d.comb += [put.eq(fifo.i.valid & fifo.i.ready), take.eq(fifo.o.valid & fifo.o.ready)]

        inside, left, value = Signal(), Signal(), Signal(self.config.width)
        ahead = Signal(range(depth))
        with m.If(~inside & ~left & put & self.mark):
            m.d.sync += [inside.eq(1), value.eq(fifo.i.payload), ahead.eq(fifo.level - take)]
        with m.If(inside & take):
            m.d.sync += ahead.eq(ahead - 1)
            with m.If(ahead == 0):
                m.d.comb += Assert(Value.cast(fifo.o.payload) == value, "it leaves unchanged and in its turn")
                m.d.sync += [inside.eq(0), left.eq(1), ahead.eq(0)]

        m.d.comb += [
            Assert(fifo.level <= depth, "never more than depth inside"),
            Assert(fifo.o.valid == (fifo.level != 0), "offers whenever it holds something"),
            Assert(fifo.i.ready == (fifo.level != depth), "takes whenever it has room"),
            Assert((write < depth) & (read < depth), "pointers stay inside"),
            Assert(write == _wrapped(read + fifo.level, depth), "pointers and level agree"),
            Cover(fifo.level == depth, "it fills"),
            Cover(left & (fifo.level == 0), "it drains"),
        ]
        with m.If(inside):
            m.d.comb += [
                Assert(ahead < fifo.level, "it is inside"),
                Assert(Array(rows)[_wrapped(read + ahead, depth)] == value, "its row holds it"),
            ]
        offer_stands(m, fifo.o)
        return m


def _wrapped(value: Any, depth: int) -> Any:
    """``value`` modulo ``depth``, for values below twice ``depth`` + 1."""
    once = Mux(value >= depth, value - depth, value)
    return Mux(once >= depth, once - depth, once)
