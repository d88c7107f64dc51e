"""From lines to HBM: one asker's way to the stacks of its chip."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.layouts import LINE_BITS, bits
from hdl.fifo import Fifo
from hdl.system.layouts import ERROR_BITS, MemoryPort
from spec.core import LINE_BYTES
from spec.fifo import FifoConfig
from spec.system import ERRORS, STACK_LINES, SystemConfig

READ, WRITE, MERGE, BEYOND, REFUSED = range(5)
"""What a response is of: a read, a write, the read of a merge; a read and a write beyond the last line."""
LOST, OUTSIDE = ERRORS.index("memory_lost"), ERRORS.index("bad_address")
BEFORE = 4
"""Lines of data that wait for their stack."""


def ask_layout(config: SystemConfig) -> data.StructLayout:
    """A request to one stack: a line of it."""
    return data.StructLayout({"write": 1, "line": bits(config.chip_lines // config.stacks)})


GIVEN = data.StructLayout({"data": LINE_BITS, "lost": 1})
"""A stack's response: a line, or that a write is done."""


class Requester(Block):
    """``port`` is the asker's; ``ask``, ``put`` (data of writes, in order) and ``given`` lead to each stack.

    A request of a whole line leaves in the cycle in which it is taken, one a cycle; responses are given in the order of
    requests, in the cycle in which they come. A write of part of a line is a merge, because a stack keeps check bits of
    whole words: once all writes under way on the chip are done, the line is read, changed and written, and nobody else
    writes meanwhile. ``wants`` asks for that; ``may`` allows it, while ``stop`` of the others is 1 and ``quiet`` of all
    was; ``quiet``: no write is under way. What cannot be read is not merged. Reset forgets everything.
    """

    config: SystemConfig

    def __init__(self, config: SystemConfig) -> None:
        count = config.stacks
        ports = {
            "port": In(MemoryPort(config)),
            "ask": Out(stream.Signature(ask_layout(config))).array(count),
            "put": Out(stream.Signature(LINE_BITS)).array(count),
            "given": In(stream.Signature(GIVEN)).array(count),
            "wants": Out(1),
            "may": In(1),
            "stop": In(1),
            "quiet": Out(1),
        }
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """What leaves, what comes back, and the merge between them."""
        m = Module()
        config = self.config
        pins: Any = self
        assert config.stack is not None
        way = data.StructLayout({"stack": bits(config.stacks), "kind": bits(REFUSED + 1)})
        order = Fifo(FifoConfig(width=way.size, depth=config.stack.port_lines), way)
        held_data = data.StructLayout({"stack": bits(config.stacks), "data": LINE_BITS})
        waiting = Fifo(FifoConfig(width=held_data.size, depth=BEFORE), held_data)
        m.submodules.order = place(order, platform)
        m.submodules.waiting = place(waiting, platform)

        request, held = pins.port.request.payload, Signal.like(pins.port.request.payload)
        merging, use = Signal(), Signal.like(pins.port.request.payload)
        low, high = STACK_LINES.bit_length() - 1, config.stacks.bit_length() - 1
        stack = Signal(bits(config.stacks))
        line = Signal(bits(config.chip_lines // config.stacks))
        m.d.comb += [
            use.eq(Mux(merging, held, request)),
            stack.eq(use.line[low : low + high] if high else 0),
            line.eq(Cat(use.line[:low], use.line[low + high :])),
        ]
        exists = line < config.stack_lines
        goes, writes, kind, moved = Signal(), Signal(), Signal(bits(REFUSED + 1)), Signal()
        free = Cat(ask.ready for ask in pins.ask).bit_select(stack, 1)
        room = order.i.ready & (~writes | waiting.i.ready)
        m.d.comb += [
            moved.eq(goes & room & ((kind >= BEYOND) | free)),
            order.i.valid.eq(moved),
            order.i.payload.stack.eq(stack),
            order.i.payload.kind.eq(kind),
            waiting.i.valid.eq(moved & writes),
            waiting.i.payload.stack.eq(stack),
            waiting.i.payload.data.eq(use.data),
            waiting.o.ready.eq(Cat(put.ready for put in pins.put).bit_select(waiting.o.payload.stack, 1)),
        ]
        for index, (ask, put) in enumerate(zip(pins.ask, pins.put, strict=True)):
            m.d.comb += [
                ask.valid.eq(goes & room & (kind < BEYOND) & (stack == index)),
                ask.payload.write.eq(writes),
                ask.payload.line.eq(line),
                put.valid.eq(waiting.o.valid & (waiting.o.payload.stack == index)),
                put.payload.eq(waiting.o.payload.data),
            ]
        came, found = self._responses(m, order)
        under_way = Signal(range(config.stack.port_lines + 1))
        m.d.comb += self.quiet.eq(under_way == 0)
        m.d.sync += under_way.eq(under_way + (moved & writes) - (came & (order.o.payload.kind == WRITE)))
        merges = came & (order.o.payload.kind == MERGE)
        self._lead(m, held, merging, exists, (goes, writes, kind, moved), merges, found)
        return m

    def _responses(self, m: Module, order: Fifo) -> tuple[Any, Any]:
        """To whom the next response goes. Returns: it has come; the line and whether it is lost."""
        pins: Any = self
        head, found, came = order.o.payload, Signal(GIVEN), Signal()
        real = head.kind < BEYOND
        for index, given in enumerate(pins.given):
            m.d.comb += given.ready.eq(order.o.valid & real & (head.stack == index))
            with m.If(head.stack == index):
                m.d.comb += [found.eq(given.payload), came.eq(order.o.valid & (given.valid | ~real))]
        answer, done = pins.port.answer, pins.port.done
        error = Signal(ERROR_BITS)
        m.d.comb += [
            order.o.ready.eq(came),
            error.eq(Mux(real, Mux(found.lost, LOST, 0), OUTSIDE)),
            answer.valid.eq(came & ((head.kind == READ) | (head.kind == BEYOND))),
            answer.data.data.eq(found.data),
            answer.data.error.eq(error),
            done.valid.eq(came & ((head.kind == WRITE) | (head.kind == REFUSED) | ((head.kind == MERGE) & found.lost))),
            done.data.eq(error),
        ]
        return came, found

    def _lead(self, m: Module, held: Any, merging: Any, exists: Any, way: Any, merges: Any, found: Any) -> None:
        """Requests one after the other; a write of part of a line is held until it is merged."""
        pins: Any = self
        goes, writes, kind, moved = way
        asked, request = pins.port.request, pins.port.request.payload
        with m.FSM():
            with m.State("PASS"):
                part = request.write & exists & ~request.mask.all()
                m.d.comb += [
                    kind.eq(Mux(exists, Mux(request.write, WRITE, READ), Mux(request.write, REFUSED, BEYOND))),
                    writes.eq(request.write & exists),
                    goes.eq(asked.valid & ~part & ~(writes & self.stop)),
                    asked.ready.eq(moved | part),
                ]
                m.d.sync += held.eq(request)
                with m.If(asked.valid & part):
                    m.next = "WAIT"
            with m.State("WAIT"):
                m.d.comb += self.wants.eq(1)
                with m.If(self.may):
                    m.next = "READ"
            with m.State("READ"):
                m.d.comb += [self.wants.eq(1), merging.eq(1), goes.eq(1), kind.eq(MERGE)]
                with m.If(moved):
                    m.next = "MERGE"
            with m.State("MERGE"):
                m.d.comb += self.wants.eq(1)
                with m.If(merges):
                    for byte in range(LINE_BYTES):
                        part_ = slice(8 * byte, 8 * byte + 8)
                        with m.If(~held.mask[byte]):
                            m.d.sync += held.data[part_].eq(found.data[part_])
                    with m.If(found.lost):
                        m.next = "PASS"
                    with m.Else():
                        m.next = "WRITE"
            with m.State("WRITE"):
                m.d.comb += [self.wants.eq(1), merging.eq(1), goes.eq(1), writes.eq(1), kind.eq(WRITE)]
                with m.If(moved):
                    m.next = "SETTLE"
            with m.State("SETTLE"):
                m.d.comb += self.wants.eq(1)
                with m.If(self.quiet):
                    m.next = "PASS"
