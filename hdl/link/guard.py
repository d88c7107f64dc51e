"""What stands between a chip and its router, so that nothing a chip sends can hold up the network."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.link.layouts import FlitLink, header_layout, position_layout
from spec.link import RouterConfig, Status
from spec.topology import Kind


class Guard(Block):
    """Passes good packets in the same cycle, unchanged; turns bad ones into answers to their sender.

    A packet whose header says nothing sensible (see :class:`spec.link.Status`) is consumed. Its first flit becomes the
    answer: one flit in the same lane, to this chip, with the packet's tag and the status. Lanes and credits are those
    of the packet, so an answer needs no buffer and cannot be lost or held up. Flits that are consumed give their
    credits back in the next cycle, or as soon as the router gives none on that lane.

    A packet that ends sooner or later than its header said is already on its way: it is broken off there, by a last
    flit that is also marked as first, and whoever receives it drops it. What follows is consumed up to its last flit.
    ``bad`` and ``broken`` count both, a flit on a lane that does not exist among the bad ones; they stop at their end.
    Reset: no packet open. A chip that sends without a credit breaks the lane, as at any input.
    """

    config: RouterConfig

    def __init__(self, config: RouterConfig) -> None:
        super().__init__(
            config,
            {
                "position": In(position_layout(config)),
                "i": In(FlitLink(config)),
                "o": Out(FlitLink(config)),
                "bad": Out(16),
                "broken": Out(16),
            },
        )

    def elaborate(self, platform: Any) -> Module:
        """Where the flit stands in its packet, then what becomes of it."""
        m = Module()
        config, flit = self.config, self.i.flit
        header = data.View(header_layout(config), flit.data[: config.header_bits])
        here, opened, skips = (Signal(config.lanes, name=name) for name in ("here", "opened", "skips"))
        m.d.comb += here.eq(Mux(self.i.valid, Cat(self.i.lane == lane for lane in range(config.lanes)), 0))
        inside, skipping, head, wrong = Signal(), Signal(), Signal(), Signal(Status)
        m.d.comb += [
            inside.eq((opened & here).any()),
            skipping.eq((skips & here).any() & ~flit.first),
            head.eq(here.any() & ~inside & ~skipping),
            wrong.eq(self._verdict(header)),
        ]
        left = [Signal(range(config.max_flits), name=f"left_{lane}") for lane in range(config.lanes)]
        ends, breaks, refused = Signal(), Signal(), Signal()
        rest = reduce(or_, (Mux(bit, count, 0) for bit, count in zip(here, left, strict=True)))
        m.d.comb += [
            ends.eq(rest == 1),
            breaks.eq(inside & (flit.first | (flit.last != ends))),
            refused.eq(head & (wrong != Status.GOOD)),
            self.o.valid.eq(head | inside),
            self.o.lane.eq(self.i.lane),
            self.o.flit.first.eq(head | breaks),
            self.o.flit.last.eq(Mux(head, flit.last | refused, flit.last | ends | flit.first)),
            self.o.flit.data.eq(Mux(refused, self._answer(m, header, wrong), flit.data)),
        ]
        for lane in range(config.lanes):
            with m.If(here[lane]):
                m.d.sync += [
                    opened[lane].eq((head | inside) & ~self.o.flit.last),
                    skips[lane].eq(~flit.last & (skipping | self.o.flit.last)),
                    left[lane].eq(Mux(head, header.flits - 1, left[lane] - 1)),
                ]
        for count, event in ((self.bad, refused | (self.i.valid & ~here.any())), (self.broken, breaks)):
            with m.If(event & ~count.all()):
                m.d.sync += count.eq(count + 1)
        self._credits(m, Mux(skipping, here, 0))
        return m

    def _verdict(self, header: Any) -> Value:
        """Status of a first flit."""
        config, flit = self.config, self.i.flit
        dimensions = range(config.torus.dimensions)
        multicast = header.kind == Kind.MULTICAST
        foreign = Cat(header[f"source_{d}"] != self.position[d] for d in dimensions).any()
        beyond = Cat(header[f"target_{d}"] >= config.torus.sizes[d] for d in dimensions).any()
        length = (header.flits == 0) | (header.flits > config.max_flits) | ((header.flits == 1) != flit.last)
        malformed = ~flit.first | foreign | length | (multicast & (not config.multicast))
        return Mux(malformed, Status.MALFORMED, Mux(beyond & ~multicast, Status.NO_CHIP, Status.GOOD))

    def _answer(self, m: Module, header: Any, wrong: Value) -> Value:
        """Header of the answer: from this chip to this chip."""
        answer: Any = Signal(header_layout(self.config))
        m.d.comb += [answer.kind.eq(Kind.FREE), answer.flits.eq(1), answer.tag.eq(header.tag), answer.status.eq(wrong)]
        for dimension in range(self.config.torus.dimensions):
            for end in ("target", "source"):
                m.d.comb += answer[f"{end}_{dimension}"].eq(self.position[dimension])
        value: Value = answer.as_value()
        return value

    def _credits(self, m: Module, consumed: Value) -> None:
        """Credits of consumed flits wait until the router gives none on their lane."""
        for lane in range(self.config.lanes):
            owed = Signal(range(self.config.depth + 1), name=f"owed_{lane}")
            gives = (owed != 0) & ~self.o.credit[lane]
            m.d.comb += self.i.credit[lane].eq(self.o.credit[lane] | (owed != 0))
            m.d.sync += owed.eq(owed + consumed[lane] - gives)
