"""Queues of DMA transfers and the engines that serve them."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.layouts import transfer_layout
from hdl.core.share import round_robin
from hdl.fifo import Fifo
from spec.core import ENGINES, CoreConfig
from spec.fifo import FifoConfig

CLASSES = 4


class DmaQueues(Block):
    """Transfers of every sequencer go to the queue they name, one a cycle, and from there to an engine that is free.

    Transfers of one queue run one after the other, in order. Of the queues that could go on, those of the lowest
    class are served in turn; their first transfer's class counts. ``done_n``: engine n has finished its transfer.
    ``busy`` while anything waits; what engines work on is not known here.
    """

    config: CoreConfig

    def __init__(self, config: CoreConfig) -> None:
        ports: dict[str, Any] = {"busy": Out(1)}
        for engine in ENGINES:
            ports[f"from_{engine}"] = In(stream.Signature(transfer_layout()))
        for index in range(config.dma_engines):
            ports[f"engine_{index}"] = Out(stream.Signature(transfer_layout()))
            ports[f"done_{index}"] = In(1)
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """In, wait, out."""
        m = Module()
        config = self.config
        count, size = config.dma_queues, transfer_layout().size
        queues = [Fifo(FifoConfig(width=size, depth=config.dma_depth)) for _ in range(count)]
        for index, queue in enumerate(queues):
            m.submodules[f"queue_{index}"] = place(queue, platform)
        sources = [getattr(self, f"from_{engine}") for engine in ENGINES]
        free = Cat(queue.i.ready for queue in queues)
        wants, moved = Signal(len(sources)), Signal()
        for index, source in enumerate(sources):
            m.d.comb += wants[index].eq(source.valid & free.bit_select(source.payload.word.queue, 1))
        chosen = round_robin(m, wants, len(sources), wants.any(), "source")
        payload = Signal(transfer_layout())
        m.d.comb += [
            payload.as_value().eq(Array(source.payload.as_value() for source in sources)[chosen]),
            moved.eq(wants.any()),
        ]
        for index, source in enumerate(sources):
            m.d.comb += source.ready.eq(wants[index] & (chosen == index))
        running = Signal(count)
        ready, best = Signal(count), Signal(count)
        heads = [data.View(transfer_layout(), queue.o.payload) for queue in queues]
        for index, queue in enumerate(queues):
            m.d.comb += [
                queue.i.valid.eq(moved & (payload.word.queue == index)),
                queue.i.payload.eq(payload.as_value()),
                ready[index].eq(queue.o.valid & ~running[index]),
            ]
        for level in reversed(range(CLASSES)):
            mine = Cat(ready[index] & (head.word.priority == level) for index, head in enumerate(heads))
            with m.If(mine.any()):
                m.d.comb += best.eq(mine)
        engines = [getattr(self, f"engine_{index}") for index in range(config.dma_engines)]
        idle = Cat(engine.ready for engine in engines)
        served = Signal()
        queue_number = round_robin(m, best, count, served, "queue")
        engine_number = Signal(range(max(2, config.dma_engines)))
        for index in reversed(range(config.dma_engines)):
            with m.If(idle[index]):
                m.d.comb += engine_number.eq(index)
        head = Array(queue.o.payload for queue in queues)[queue_number]
        owner = [Signal(range(count), name=f"owner_{index}") for index in range(config.dma_engines)]
        ended = Signal(count)
        m.d.comb += served.eq(best.any() & idle.any())
        for index, engine in enumerate(engines):
            given = served & (engine_number == index)
            m.d.comb += [engine.valid.eq(given), engine.payload.as_value().eq(head)]
            with m.If(given):
                m.d.sync += owner[index].eq(queue_number)
            with m.If(getattr(self, f"done_{index}")):
                m.d.comb += ended.bit_select(owner[index], 1).eq(1)
        begun = Signal(count)
        m.d.comb += begun.eq(Mux(served, 1 << queue_number, 0))
        m.d.sync += running.eq((running & ~ended) | begun)
        for index, queue in enumerate(queues):
            m.d.comb += queue.o.ready.eq(begun[index])
        m.d.comb += self.busy.eq(Cat(queue.o.valid for queue in queues).any() | Cat(s.valid for s in sources).any())
        return m
