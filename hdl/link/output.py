"""One output of a router: arbiter, lanes and credits of the next buffer, crossbar column and link register."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.link.layouts import FlitLink, flit_layout
from spec.link import OutputConfig


class Output(Block):
    """Grants one of all input lanes a cycle and puts its flit on the link one cycle later.

    Inputs that ask could all be served: the arbiter is the only decision, so an output is idle only if nobody asks.
    The input lane served last goes first until its packet ends, then the turn passes round: waiting is bounded by one
    packet of each other lane. Of the lanes in the winner's ``use``, the one with most credits is given; a packet's
    first flit takes it and the last gives it back, for use from the next cycle on.
    ``open`` are lanes with a credit, ``free`` those nobody has taken, ``roomy`` free ones with room for the longest
    packet; all are zero while a slow link (``cycles`` above 1) is busy, and while ``pause`` is high. ``space`` is the
    sum of credits.
    Reset: all credits at hand, nothing taken.
    """

    config: OutputConfig

    def __init__(self, config: OutputConfig) -> None:
        router = config.router
        inputs = router.ports * router.lanes
        super().__init__(
            config,
            {
                "ask": In(inputs),
                "use": In(data.ArrayLayout(router.lanes, inputs)),
                "flits": In(data.ArrayLayout(flit_layout(router), inputs)),
                "pause": In(1),
                "grant": Out(inputs),
                "given": Out(router.lanes),
                "link": Out(FlitLink(router)),
                "open": Out(router.lanes),
                "free": Out(router.lanes),
                "roomy": Out(router.lanes),
                "space": Out(range(router.lanes * router.depth + 1)),
            },
        )

        self.credits = [
            Signal(range(router.depth + 1), init=router.depth, name=f"credit_{n}") for n in range(router.lanes)
        ]
        self.behind, self.hold = Signal(inputs, init=-1), Signal(inputs)
        """State that proofs relate to that of the far end: credits of each lane, and whose turn it is."""

    def elaborate(self, platform: Any) -> Module:
        """Choose, switch, account."""
        m = Module()
        router = self.config.router
        flit = Signal(flit_layout(router))
        ready = self._pace(m)
        self._arbitrate(m, flit)
        sent = self.grant.any()
        chosen = [Mux(bit, self.flits[index].as_value(), 0) for index, bit in enumerate(self.grant)]
        m.d.comb += flit.as_value().eq(reduce(or_, chosen))

        wanted = Signal(router.lanes)
        m.d.comb += wanted.eq(reduce(or_, (Mux(bit, self.use[index], 0) for index, bit in enumerate(self.grant))))
        credits = self.credits
        taken = Signal(router.lanes)
        for lane in range(router.lanes):
            beaten = [
                wanted[other] & (credits[other] > credits[lane] if other > lane else credits[other] >= credits[lane])
                for other in range(router.lanes)
                if other != lane
            ]
            m.d.comb += self.given[lane].eq(wanted[lane] & ~Cat(beaten).any())
            m.d.sync += credits[lane].eq(credits[lane] + self.link.credit[lane] - self.given[lane])
            m.d.comb += [
                self.open[lane].eq(ready & (credits[lane] != 0)),
                self.free[lane].eq(self.open[lane] & ~taken[lane]),
                self.roomy[lane].eq(self.free[lane] & (credits[lane] >= min(router.max_flits, router.depth))),
            ]
        with m.If(sent):
            m.d.sync += taken.eq(Mux(flit.last, taken & ~self.given, taken | self.given))

        space = Signal.like(self.space, init=router.lanes * router.depth)
        returned = sum(self.link.credit[lane] for lane in range(router.lanes))
        m.d.comb += self.space.eq(space)
        m.d.sync += space.eq(space + returned - sent)

        m.d.sync += self.link.valid.eq(sent)
        with m.If(sent):
            m.d.sync += self.link.flit.eq(flit)
            for lane in range(router.lanes):
                with m.If(self.given[lane]):
                    m.d.sync += self.link.lane.eq(lane)
        return m

    def _pace(self, m: Module) -> Value:
        """High when the link can take a flit: every ``cycles`` cycles, unless it is paused."""
        if self.config.cycles == 1:
            return ~self.pause
        busy = Signal(range(self.config.cycles))
        with m.If(self.grant.any()):
            m.d.sync += busy.eq(self.config.cycles - 1)
        with m.Elif(busy != 0):
            m.d.sync += busy.eq(busy - 1)
        return (busy == 0) & ~self.pause

    def _arbitrate(self, m: Module, flit: Any) -> None:
        """The holder first, else round robin: ``behind`` masks the lanes after the last one that got a new turn."""
        inputs = len(self.ask)
        hold, behind = self.hold, self.behind
        masked, turn = Signal(inputs), Signal(inputs)
        kept = Signal()
        m.d.comb += [
            kept.eq((self.ask & hold).any()),
            masked.eq(Mux((self.ask & behind).any(), self.ask & behind, self.ask)),
            turn.eq(masked & -masked),
            self.grant.eq(Mux(kept, hold, turn)),
        ]
        with m.If(self.grant.any()):
            m.d.sync += hold.eq(Mux(flit.last, 0, self.grant))
            with m.If(~kept):
                m.d.sync += behind.eq(~(turn | (turn - 1)[:inputs]))
