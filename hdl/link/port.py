"""A router's port on a noisy cable: flits and credits through a link layer, and what to do when the cable is dead."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.fifo import Fifo
from hdl.link.layouts import FlitLink, flit_layout, header_layout, position_layout
from hdl.link.link import LinkEnd, frame_layout
from spec.fifo import FifoConfig
from spec.link import CableConfig, Status
from spec.topology import Kind

WAITING = 4
"""Flits that wait for the link layer: two may be on their way when ``pause`` rises at two."""


class Port(Block):
    """Joins a router's output ``i`` and input ``o`` to one end of a cable.

    Alive: a flit on ``i`` in cycle t is on ``transmit`` in t + 3 at the earliest; one on ``receive`` in cycle t is on
    ``o`` in t + 1. Credits travel in the frames of the other direction, at most one a lane and frame. ``pause`` rises
    when flits wait for the link layer.

    ``dead``: flits from the router are consumed and their credits given back, so the network goes on; so are those of
    flits that were on the cable. Each packet that begins there is counted in ``lost`` and answered, as of
    :class:`spec.link.Status` ``UNREACHABLE``, in the last message class, unless it is of that class or an answer
    itself. An answer waits for room while its packet's lane goes one credit short, so none is lost, and answers wait
    for nobody. With one message class only as many wait as there is room for. Packets that had not come in whole are
    broken off with a last flit that is also marked as first. What was on the cable is lost without an answer.
    Reset: alive, as long as the other end's reset is the same one or lasts ``config.layer.silence`` cycles.
    """

    config: CableConfig

    def __init__(self, config: CableConfig) -> None:
        link, frame = FlitLink(config.router), frame_layout(config.layer)
        super().__init__(
            config,
            {
                "position": In(position_layout(config.router)),
                "i": In(link),
                "o": Out(link),
                "pause": Out(1),
                "transmit": Out(frame),
                "receive": In(frame),
                "dead": Out(1),
                "lost": Out(16),
            },
        )

    def elaborate(self, platform: Any) -> Module:
        """The link layer, flits on their way out, flits on their way in."""
        m = Module()
        router = self.config.router
        payload = data.StructLayout(
            {"flit": flit_layout(router), "lane": router.lane_bits, "valid": 1, "credit": router.lanes}
        )
        answer = data.StructLayout({"header": router.header_bits, "lane": router.lane_bits})
        entries = router.channels * max(1, router.classes - 1) * router.depth
        end = LinkEnd(self.config.layer)
        flits = Fifo(FifoConfig(width=router.flit_bits + 2 + router.lane_bits, depth=WAITING))
        answers = Fifo(FifoConfig(width=router.header_bits + router.lane_bits, depth=entries))
        for name, block in (("end", end), ("flits", flits), ("answers", answers)):
            m.submodules[name] = place(block, platform)
        front, put = Signal(data.StructLayout({"flit": flit_layout(router), "lane": router.lane_bits})), Signal(payload)
        come = data.View(payload, end.o.payload)
        owed = Signal(router.lanes)
        m.d.comb += [
            self.transmit.eq(end.transmit),
            end.receive.eq(self.receive),
            self.dead.eq(end.dead),
            flits.i.valid.eq(self.i.valid),
            flits.i.payload.eq(Cat(self.i.flit, self.i.lane)),
            self.pause.eq(flits.level >= 2),
            front.as_value().eq(flits.o.payload),
            flits.o.ready.eq(end.i.ready | self.dead),
            put.flit.eq(front.flit),
            put.lane.eq(front.lane),
            put.valid.eq(flits.o.valid),
            put.credit.eq(owed),
            end.i.payload.eq(put),
            end.i.valid.eq(~self.dead & (flits.o.valid | owed.any())),
        ]
        moved = end.i.valid & end.i.ready
        for lane in range(router.lanes):
            waits = Signal(range(router.depth + 1), name=f"waits_{lane}")
            m.d.comb += owed[lane].eq(waits != 0)
            m.d.sync += waits.eq(waits + self.o.credit[lane] - (moved & owed[lane]))
        given, asked = Signal(router.lanes), Signal(answer)
        answered, free = Signal(router.lanes), Signal()
        m.d.comb += [
            given.eq(Mux(end.o.valid, come.credit, 0)),
            asked.as_value().eq(answers.o.payload),
            answers.o.ready.eq(free),
            answered.eq(Mux(free & answers.o.valid, 1 << asked.lane, 0) if router.classes > 1 else 0),
        ]
        self._outwards(m, front, flits.o.valid & flits.o.ready, given, answered, answers)
        self._inwards(m, end.o.valid & come.valid, come, asked.header, answers.o.valid, free)
        return m

    def _outwards(self, m: Module, front: Any, leaves: Value, given: Signal, answered: Signal, answers: Fifo) -> None:
        """``away`` counts flits of a lane whose credits the far end owes; when that is dead, they are given here."""
        router = self.config.router
        opened, here, held = Signal(router.lanes), Signal(router.lanes), Signal(router.lanes)
        header = data.View(header_layout(router), front.flit.data[: router.header_bits])
        begins, earns = Signal(), Signal()
        last_class = Cat(lane >= router.lanes - router.channels for lane in range(router.lanes))
        answerable = ~(here & last_class).any() if router.classes > 1 else 1
        reply: Any = Signal(header_layout(router))
        m.d.comb += [
            here.eq(Mux(leaves, 1 << front.lane, 0)),
            begins.eq(leaves & self.dead & ~(opened & here).any()),
            earns.eq(begins & answerable & (header.status == Status.GOOD)),
            held.eq(Mux(earns & (router.classes > 1), here, 0)),
            reply.kind.eq(Kind.FREE),
            reply.flits.eq(1),
            reply.tag.eq(header.tag),
            reply.status.eq(Status.UNREACHABLE),
            answers.i.valid.eq(earns),
            answers.i.payload.eq(Cat(reply, front.lane)),
        ]
        for dimension in range(router.torus.dimensions):
            m.d.comb += reply[f"target_{dimension}"].eq(header[f"source_{dimension}"])
            m.d.comb += reply[f"source_{dimension}"].eq(self.position[dimension])
        with m.If(begins & ~self.lost.all()):
            m.d.sync += self.lost.eq(self.lost + 1)
        for lane in range(router.lanes):
            away = Signal(range(router.depth + 1), name=f"away_{lane}")
            gives = self.dead & (away != 0)
            with m.If(here[lane]):
                m.d.sync += opened[lane].eq(~front.flit.last)
            m.d.comb += self.i.credit[lane].eq(given[lane] | gives)
            m.d.sync += away.eq(away + (here[lane] & ~held[lane]) + answered[lane] - (given[lane] | gives))

    def _inwards(self, m: Module, valid: Value, come: Any, header: Value, waiting: Value, free: Signal) -> None:
        """``room`` is what is free in the router's buffer. When dead, first end what has begun, then give answers."""
        router = self.config.router
        opened, space, enter = Signal(router.lanes), Signal(router.lanes), Signal(router.lanes)
        ends, into, chosen = Signal(router.lanes), Signal(router.lanes), Signal(router.lanes)
        first_of_last = router.lanes - router.channels
        quiet = Signal()
        m.d.comb += [
            quiet.eq(self.dead & ~valid),
            ends.eq(Mux(quiet, opened & space, 0)),
            into.eq(Mux(quiet & ~ends.any(), (space & ~opened) & ~((1 << first_of_last) - 1), 0)),
            free.eq(into.any()),
            chosen.eq(Mux(ends.any(), ends & -ends, Mux(waiting, into & -into, 0))),
            enter.eq(Mux(valid, 1 << come.lane, chosen)),
            self.o.valid.eq(enter.any()),
            self.o.lane.eq(reduce(or_, (Mux(bit, lane, 0) for lane, bit in enumerate(enter)))),
            self.o.flit.eq(come.flit),
        ]
        with m.If(~valid):
            m.d.comb += [
                self.o.flit.data.eq(Mux(ends.any(), 0, header)),
                self.o.flit.first.eq(1),
                self.o.flit.last.eq(1),
            ]
        for lane in range(router.lanes):
            room = Signal(range(router.depth + 1), init=router.depth, name=f"room_{lane}")
            m.d.comb += space[lane].eq(room != 0)
            m.d.sync += room.eq(room + self.o.credit[lane] - enter[lane])
            with m.If(enter[lane]):
                m.d.sync += opened[lane].eq(~self.o.flit.last)
