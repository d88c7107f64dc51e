"""Lines on their way back: collects the two accesses of each and keeps them until their requester takes them."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, memory, stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.hbm.layouts import bits
from hdl.hbm.stack_layouts import StackLayouts
from spec.hbm import LINE_ACCESSES
from spec.hbm_stack import HbmStackConfig


class HbmReturns(Block):
    """Stands between a pseudo channel's controller and the requesters.

    ``i``      lines of any requester, ``request`` the same for the controller; a read goes through only when a row is
               free for its data, as the controller's answers cannot be held back
    ``response``   the controller's answers
    ``o``      lines read, in the order in which their second access came

    Combinational from ``i`` to ``request``. A line is offered two slots after its second access. Reset forgets all.
    """

    config: HbmStackConfig

    def __init__(self, config: HbmStackConfig) -> None:
        self.layouts = StackLayouts(config)
        controller = self.layouts.controller
        response = data.StructLayout({"valid": 1, "tag": controller.tag, "data": controller.words,
                                      "corrected": 1, "lost": 1, "last": 1})  # fmt: skip
        signature = {
            "i": In(stream.Signature(self.layouts.line)),
            "request": Out(stream.Signature(controller.stored)),
            "response": In(response),
            "o": Out(stream.Signature(self.layouts.returned)),
        }
        super().__init__(config, signature)

    def elaborate(self, platform: Any) -> Module:
        """Rows are given out by a free list; a queue of row numbers keeps the order of completion."""
        m = Module()
        rows = self.config.return_lines
        line: Any = self.i
        request: Any = self.request
        response: Any = self.response
        used, free, room = Signal(rows), Signal(range(rows)), Signal()
        for index in reversed(range(rows)):
            with m.If(~used[index]):
                m.d.comb += free.eq(index)
        m.d.comb += [
            room.eq(line.payload.write | ~used.all()),
            request.valid.eq(line.valid & room),
            line.ready.eq(request.ready & room),
            *(request.payload[name].eq(line.payload[name]) for name in ("write", "place", "data", "inject")),
            request.payload.tag.eq(free),
        ]
        asked = request.valid & request.ready & ~line.payload.write

        owner_shape = data.StructLayout({"port": self.layouts.port, "slot": self.layouts.slot})
        half = data.StructLayout({"data": self.layouts.controller.words, "corrected": 1, "lost": 1})
        owners: Any = memory.Memory(shape=owner_shape, depth=rows, init=[])
        store: Any = memory.Memory(shape=data.ArrayLayout(half, LINE_ACCESSES), depth=rows, init=[])
        queue: Any = memory.Memory(shape=bits(rows), depth=rows, init=[])
        m.submodules.owners, m.submodules.store, m.submodules.queue = owners, store, queue
        own, put, done = owners.write_port(), store.write_port(granularity=1), queue.write_port()
        owner, get, following = owners.read_port(), store.read_port(), queue.read_port(domain="comb")
        complete, taking, offered = Signal(), Signal(), Signal()
        count = Signal(range(rows + 1))
        m.d.comb += [
            own.en.eq(asked),
            own.addr.eq(free),
            own.data.port.eq(line.payload.port),
            own.data.slot.eq(line.payload.slot),
            put.en.eq(Mux(response.valid, Mux(response.last, 0b10, 0b01), 0)),
            put.addr.eq(response.tag),
            complete.eq(response.valid & response.last),
            done.en.eq(complete),
            done.data.eq(response.tag),
            taking.eq((count != 0) & (~offered | self.o.ready)),
            get.en.eq(taking),
            get.addr.eq(following.data),
            owner.en.eq(taking),
            owner.addr.eq(following.data),
            self.o.valid.eq(offered),
            self.o.payload.port.eq(owner.data.port),
            self.o.payload.line.slot.eq(owner.data.slot),
            self.o.payload.line.corrected.eq(get.data[0].corrected | get.data[1].corrected),
            self.o.payload.line.lost.eq(get.data[0].lost | get.data[1].lost),
        ]
        for index in range(LINE_ACCESSES):
            m.d.comb += self.o.payload.line.data[index].eq(get.data[index].data)
            for name in ("data", "corrected", "lost"):
                m.d.comb += put.data[index][name].eq(response[name])
        for address, moves in ((done.addr, complete), (following.addr, taking)):
            pointer = Signal(range(rows))
            m.d.comb += address.eq(pointer)
            with m.If(moves):
                m.d.sync += pointer.eq(Mux(pointer == rows - 1, 0, pointer + 1))
        m.d.sync += [
            count.eq(count + complete - taking),
            offered.eq(taking | (offered & ~self.o.ready)),
            used.eq((used | Mux(asked, 1 << free, 0)) & ~Mux(taking, 1 << following.data, 0)),
        ]
        return m
