"""Elements under way in a DMA engine: converted side by side, then queued so that both sides take what suits them."""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.numerics import Add, Cast
from spec.core import CoreConfig
from spec.numerics import AddConfig, CastConfig

LATENCY = 3
"""Cycles from an element to its result in a :class:`TransferLane`."""


class TransferLane(Block):
    """One element a cycle from format ``source`` to format ``target`` through fp32, ``LATENCY`` cycles later.

    With ``add`` the result is the element plus the one before it, which was marked ``old``. With ``same`` it is the
    element's bits. These two and ``target`` stay as they are while elements are under way. Reset leaves what is in
    flight: who asked knows which results count.
    """

    config: CoreConfig

    def __init__(self, config: CoreConfig) -> None:
        ports = {"element": In(32), "old": In(1), "add": In(1), "same": In(1), "result": Out(32)}
        if len(config.vector.formats) > 1:
            ports |= dict.fromkeys(("source", "target"), In(range(len(config.vector.formats))))
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """Cast, add or wait, cast."""
        m = Module()
        formats = self.config.vector.formats
        into = Cast(CastConfig(sources=formats, targets=("fp32",)))
        out = Cast(CastConfig(sources=("fp32",), targets=formats))
        adder = Add(AddConfig(stages=1))
        for name, block in (("cast_in", into), ("cast_out", out), ("adder", adder)):
            m.submodules[name] = place(block, platform)
        raw = [Signal(32, name=f"raw_{index}") for index in range(LATENCY)]
        first, old, passed = Signal(32), Signal(), Signal(32)
        m.d.sync += [
            *(later.eq(earlier) for earlier, later in zip((self.element, *raw), raw, strict=False)),
            old.eq(self.old),
            passed.eq(into.result),
        ]
        with m.If(old):
            m.d.sync += first.eq(into.result)
        m.d.comb += [
            into.code.eq(self.element),
            adder.a.as_value().eq(first),
            adder.b.as_value().eq(into.result),
            out.code.eq(Mux(self.add, adder.result.as_value(), passed)),
            self.result.eq(Mux(self.same, raw[-1], out.result)),
        ]
        if len(formats) > 1:
            m.d.comb += [into.source.eq(self.source), out.target.eq(self.target)]
        for cast in (into, out):
            m.d.comb += [cast.saturate.eq(0), cast.stochastic.eq(0), cast.random.eq(0)]
        return m


class LaneQueue(Block):
    """A queue of elements of 4 bytes that takes and gives up to ``dma_lanes`` a cycle.

    ``put`` of the elements at ``i``, the lowest first, enter; the first ``level`` of those at ``o`` are there, ``take``
    of them leave. What enters can leave in the next cycle. It holds ``depth * dma_lanes``; who fills it sees to it that
    there is room. Reset empties it.
    """

    config: CoreConfig

    def __init__(self, config: CoreConfig, depth: int) -> None:
        self.depth = depth
        lanes = config.dma_lanes
        ports: dict[str, Any] = {"put": In(range(lanes + 1)), "take": In(range(lanes + 1))}
        ports["level"] = Out(range(depth * lanes + 1))
        for index in range(lanes):
            ports |= {f"i_{index}": In(32), f"o_{index}": Out(32)}
        super().__init__(config, ports)

    @property
    def module_name(self) -> str:
        """The depth is part of what it is."""
        return f"{super().module_name}_{self.depth}"

    def elaborate(self, platform: Any) -> Module:
        """A memory for each lane; elements go round."""
        m = Module()
        lanes, depth = self.config.dma_lanes, self.depth
        low = lanes.bit_length() - 1
        head, tail = Signal(range(depth * lanes)), Signal(range(depth * lanes))
        m.d.sync += [
            tail.eq(tail + self.put),
            head.eq(head + self.take),
            self.level.eq(self.level + self.put - self.take),
        ]
        found = []
        entering = Array(getattr(self, f"i_{index}") for index in range(lanes))
        for bank in range(lanes):
            memory: Memory = Memory(shape=32, depth=depth, init=[])
            m.submodules[f"lane_{bank}"] = memory
            write, read = memory.write_port(), memory.read_port(domain="comb")
            number, following = (Signal(range(max(2, lanes)), name=f"{name}_{bank}") for name in ("in", "out"))
            m.d.comb += [
                number.eq((bank - tail[:low])[:low] if low else 0),
                following.eq((bank - head[:low])[:low] if low else 0),
                write.en.eq(number < self.put),
                write.addr.eq((tail + number) >> low),
                write.data.eq(entering[number]),
                read.addr.eq((head + following) >> low),
            ]
            found.append(read.data)
        for index in range(lanes):
            bank_of = (head + index)[:low] if low else 0
            m.d.comb += getattr(self, f"o_{index}").eq(Array(found)[bank_of])
        return m
