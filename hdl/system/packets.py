"""Messages into flits, and flits into messages."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.core.layouts import bits
from hdl.link.layouts import flit_layout, header_layout
from hdl.system.layouts import message_layout, tag_layout
from spec.link import Status
from spec.system import ANSWERS, ASKS, ERRORS, OPERATIONS, REQUESTS, SystemConfig
from spec.topology import Kind


class Packetizer(Block):
    """Cuts messages into the flits of ordered packets: ``i`` in, ``o`` out, a flit a cycle, from the cycle after on.

    ``chip`` is the number of this chip, constant. A message is taken with the last flit of the one before it, so
    packets follow each other without a gap. Reset drops the rest of a packet.
    """

    config: SystemConfig

    def __init__(self, config: SystemConfig) -> None:
        ports = {
            "chip": In(bits(config.chips)),
            "i": In(stream.Signature(message_layout(config))),
            "o": Out(stream.Signature(flit_layout(config.torus_router))),
        }
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """Header and body into a register that moves by a flit at a time."""
        m = Module()
        config, router = self.config, self.config.torus_router
        message = self.i.payload
        lengths = Array(Const(config.flits(name), bits(config.packet_flits + 1)) for name in OPERATIONS)
        header: Any = Signal(header_layout(router))
        m.d.comb += [header.kind.eq(Kind.ORDERED), header.flits.eq(lengths[message.operation])]
        m.d.comb += header.tag.eq(Cat(message.operation, message.core))
        for end, chip in (("target", message.peer), ("source", self.chip)):
            with m.Switch(chip):
                for node in range(config.chips):
                    with m.Case(node):
                        position = router.torus.coordinates(node)
                        m.d.comb += [header[f"{end}_{d}"].eq(at) for d, at in enumerate(position)]
        rest = Signal(config.packet_flits * router.flit_bits)
        left, first = Signal(range(config.packet_flits + 1)), Signal()
        m.d.comb += [
            self.i.ready.eq((left == 0) | ((left == 1) & self.o.ready)),
            self.o.valid.eq(left != 0),
            self.o.payload.data.eq(rest[: router.flit_bits]),
            self.o.payload.first.eq(first),
            self.o.payload.last.eq(left == 1),
        ]
        with m.If(self.i.ready):
            m.d.sync += [rest.eq(Cat(header, message.body)), first.eq(1), left.eq(Mux(self.i.valid, header.flits, 0))]
        with m.Elif(self.o.ready):
            m.d.sync += [rest.eq(rest >> router.flit_bits), first.eq(0), left.eq(left - 1)]
        return m


class Depacketizer(Block):
    """Joins flits to messages: ``i`` in, ``o`` out in the cycle after the last flit of its packet.

    A packet whose length is not that of its operation, whose operation is not one of this message class, or that was
    broken off on its way, is consumed and counted: ``bad`` is 1 for a cycle. When the network says that it could not
    deliver a packet, that comes out as the answer of its target, with an error. Flits wait while a message does. Reset
    drops what is half there.
    """

    config: SystemConfig

    def __init__(self, config: SystemConfig, group: int) -> None:
        self.group = group
        ports = {
            "i": In(stream.Signature(flit_layout(config.torus_router))),
            "o": Out(stream.Signature(message_layout(config))),
            "bad": Out(1),
        }
        super().__init__(config, ports)

    @property
    def module_name(self) -> str:
        """The message class is part of what it is."""
        return f"{super().module_name}_{('requests', 'answers')[self.group]}"

    def elaborate(self, platform: Any) -> Module:
        """A place for each flit of a packet; what is behind the longest is only counted."""
        m = Module()
        config, router = self.config, self.config.torus_router
        limit = config.packet_flits
        parts = [Signal(router.flit_bits, name=f"part_{n}") for n in range(limit)]
        count, whole = Signal(range(limit + 2)), Signal()
        opened, torn = Signal(), Signal()
        at = Mux(self.i.payload.first, 0, count)
        m.d.comb += self.i.ready.eq(~whole | self.o.ready | self.bad)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [
                count.eq(Mux(at == limit + 1, at, at + 1)),
                whole.eq(self.i.payload.last),
                opened.eq(~self.i.payload.last),
                torn.eq(opened & self.i.payload.first),
            ]
            for number, part in enumerate(parts):
                with m.If(at == number):
                    m.d.sync += part.eq(self.i.payload.data)
        with m.Elif(self.o.ready | self.bad):
            m.d.sync += whole.eq(0)

        packet = Cat(*parts)
        header = data.View(header_layout(router), packet[: router.header_bits])
        tag = data.View(tag_layout(config), header.tag[: config.tag_bits])
        refused, good = header.status != Status.GOOD, Signal()
        with m.Switch(tag.operation):
            for code, name in enumerate(OPERATIONS):
                asks = name in ASKS
                with m.Case(code):
                    if asks == (self.group == REQUESTS):
                        m.d.comb += good.eq(~torn & ~refused & (count == config.flits(name)))
                    elif asks:
                        m.d.comb += good.eq(~torn & refused & (count == 1))
        source: Value = Const(0)
        for dimension, size in reversed(list(enumerate(router.torus.sizes))):
            source = source * size + header[f"source_{dimension}"]
        m.d.comb += [
            self.o.valid.eq(whole & good),
            self.bad.eq(whole & ~good),
            self.o.payload.operation.eq(tag.operation),
            self.o.payload.core.eq(tag.core),
            self.o.payload.peer.eq(source),
            self.o.payload.body.eq(packet[router.header_bits :]),
        ]
        if self.group == ANSWERS:
            read, answer, done = (OPERATIONS.index(name) for name in ("read", "answer", "done"))
            with m.If(refused):
                m.d.comb += [
                    self.o.payload.operation.eq(Mux(tag.operation == read, answer, done)),
                    self.o.payload.body.eq(ERRORS.index("unreachable")),
                ]
        return m


assert (REQUESTS, ANSWERS) == (0, 1)
