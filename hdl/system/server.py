"""What other chips ask of this one."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.layouts import bits
from hdl.fifo import Fifo
from hdl.system.layouts import ERROR_BITS, LINE, MemoryPort, addressed_layout, body_of, message_layout
from spec.fifo import FifoConfig
from spec.system import ASKS, OPERATIONS, SystemConfig

WRITE, READ, UPDATE, ANSWER, DONE = range(len(OPERATIONS))
KINDS = len(ASKS)


class Server(Block):
    """Executes requests in the order in which they come: ``requests`` in, ``answers`` out, one to each, in that order.

    ``memory`` is a port of the chip's memory, ``updates`` lead to the semaphores of its cores. A request is taken in
    the cycle in which the memory or the semaphores take it; an update waits until all writes before it are done.
    At most ``served`` requests are under way, and a further one waits until an answer has left. Reset forgets them.
    """

    config: SystemConfig

    def __init__(self, config: SystemConfig) -> None:
        ports = {
            "requests": In(stream.Signature(message_layout(config))),
            "answers": Out(stream.Signature(message_layout(config))),
            "memory": Out(MemoryPort(config)),
            "updates": Out(stream.Signature(addressed_layout(config))),
        }
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """One request after the other; who asked what is kept beside what memory says."""
        m = Module()
        config = self.config
        pins: Any = self
        owner = data.StructLayout({"peer": bits(config.chips), "core": bits(config.cores), "kind": bits(KINDS)})
        owners = Fifo(FifoConfig(width=owner.size, depth=config.served), owner)
        lines = Fifo(FifoConfig(width=LINE.size, depth=config.served), LINE)
        dones = Fifo(FifoConfig(width=ERROR_BITS, depth=config.served))
        for name, queue in (("owners", owners), ("lines", lines), ("dones", dones)):
            m.submodules[name] = place(queue, platform)
        memory, message, taken = pins.memory, self.requests.payload, Signal()
        write, read, update = (body_of(message, config, OPERATIONS[n]) for n in (WRITE, READ, UPDATE))
        accesses, writes = Signal(), Signal(range(config.served + 1))
        may = self.requests.valid & owners.i.ready
        m.d.comb += [
            accesses.eq((message.operation == READ) | (message.operation == WRITE)),
            memory.request.valid.eq(may & accesses),
            memory.request.payload.write.eq(message.operation == WRITE),
            memory.request.payload.data.eq(write.data),
            memory.request.payload.mask.eq(write.mask),
            memory.request.payload.line.eq(Mux(message.operation == READ, read.line, write.line)),
            self.updates.valid.eq(may & (message.operation == UPDATE) & (writes == 0)),
            self.updates.payload.core.eq(update.core),
            self.updates.payload.update.kind.eq(update.kind),
            self.updates.payload.update.semaphore.eq(update.semaphore),
            self.updates.payload.update.value.eq(update.value),
            taken.eq((memory.request.valid & memory.request.ready) | (self.updates.valid & self.updates.ready)),
            self.requests.ready.eq(taken),
            owners.i.valid.eq(taken),
            owners.i.payload.peer.eq(message.peer),
            owners.i.payload.core.eq(message.core),
            owners.i.payload.kind.eq(message.operation),
            lines.i.valid.eq(memory.answer.valid),
            lines.i.payload.eq(memory.answer.data),
            dones.i.valid.eq(memory.done.valid),
            dones.i.payload.eq(memory.done.data),
        ]
        m.d.sync += writes.eq(writes + (taken & (message.operation == WRITE)) - memory.done.valid)
        head, there, leaves = owners.o.payload, Signal(), Signal()
        line, done = (body_of(self.answers.payload, config, OPERATIONS[n]) for n in (ANSWER, DONE))
        m.d.comb += [
            there.eq(Mux(head.kind == READ, lines.o.valid, (head.kind == UPDATE) | dones.o.valid)),
            self.answers.valid.eq(owners.o.valid & there),
            leaves.eq(self.answers.valid & self.answers.ready),
            owners.o.ready.eq(leaves),
            lines.o.ready.eq(leaves & (head.kind == READ)),
            dones.o.ready.eq(leaves & (head.kind == WRITE)),
            self.answers.payload.operation.eq(Mux(head.kind == READ, ANSWER, DONE)),
            self.answers.payload.peer.eq(head.peer),
            self.answers.payload.core.eq(head.core),
        ]
        with m.If(head.kind == READ):
            m.d.comb += [line.error.eq(lines.o.payload.error), line.data.eq(lines.o.payload.data)]
        with m.Elif(head.kind == WRITE):
            m.d.comb += done.error.eq(dones.o.payload)
        return m
