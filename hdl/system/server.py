"""What other chips ask of this one."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.layouts import LINE_BITS, answer, bits, line_request
from hdl.fifo import Fifo
from hdl.system.layouts import addressed_layout, body_of, message_layout
from spec.fifo import FifoConfig
from spec.system import OPERATIONS, SystemConfig

WRITE, READ, UPDATE, ANSWER = range(len(OPERATIONS))


class Server(Block):
    """Executes requests in the order in which they come: ``requests`` in, ``answers`` to reads out.

    ``memory`` and ``memory_answer`` are a port of the chip's memory, ``updates`` lead to the semaphores of its cores. A
    request is taken in the cycle in which the memory or the semaphores take it; at most ``reads`` answers are under
    way, and a further read waits until one has left. Reset forgets them.
    """

    config: SystemConfig

    def __init__(self, config: SystemConfig) -> None:
        ports = {
            "requests": In(stream.Signature(message_layout(config))),
            "answers": Out(stream.Signature(message_layout(config))),
            "memory": Out(stream.Signature(line_request(config.own))),
            "memory_answer": In(answer(LINE_BITS)),
            "updates": Out(stream.Signature(addressed_layout(config))),
        }
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """One request after the other; who asked is kept beside what was read."""
        m = Module()
        config = self.config
        owner = data.StructLayout({"peer": bits(config.chips), "core": bits(config.cores)})
        owners = Fifo(FifoConfig(width=owner.size, depth=config.reads), owner)
        results = Fifo(FifoConfig(width=LINE_BITS, depth=config.reads))
        m.submodules.owners = place(owners, platform)
        m.submodules.results = place(results, platform)
        message = self.requests.payload
        write, read, update = (body_of(message, config, OPERATIONS[n]) for n in (WRITE, READ, UPDATE))
        reads, writes = Signal(), Signal()
        m.d.comb += [
            reads.eq((message.operation == READ) & owners.i.ready),
            writes.eq(message.operation == WRITE),
            self.memory.valid.eq(self.requests.valid & (reads | writes)),
            self.memory.payload.write.eq(writes),
            self.memory.payload.data.eq(write.data),
            self.memory.payload.mask.eq(write.mask),
            self.memory.payload.line.eq(write.line),
            self.updates.valid.eq(self.requests.valid & (message.operation == UPDATE)),
            self.updates.payload.core.eq(update.core),
            self.updates.payload.update.kind.eq(update.kind),
            self.updates.payload.update.semaphore.eq(update.semaphore),
            self.updates.payload.update.value.eq(update.value),
            self.requests.ready.eq((reads | writes) & self.memory.ready | self.updates.valid & self.updates.ready),
            owners.i.valid.eq(self.requests.valid & reads & self.memory.ready),
            owners.i.payload.peer.eq(message.peer),
            owners.i.payload.core.eq(read.core),
        ]
        with m.If(message.operation == READ):
            m.d.comb += self.memory.payload.line.eq(read.line)
        body = body_of(self.answers.payload, config, "answer")
        m.d.comb += [
            results.i.valid.eq(self.memory_answer.valid),
            results.i.payload.eq(self.memory_answer.data),
            self.answers.valid.eq(results.o.valid),
            self.answers.payload.operation.eq(ANSWER),
            self.answers.payload.peer.eq(owners.o.payload.peer),
            body.core.eq(owners.o.payload.core),
            body.data.eq(results.o.payload),
            results.o.ready.eq(self.answers.ready),
            owners.o.ready.eq(results.o.valid & self.answers.ready),
        ]
        return m
