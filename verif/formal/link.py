"""NeuronLink: credits are conserved, the arbiter is fair, a link loses and doubles nothing."""

from typing import Any, cast

from amaranth.hdl import Assert, Assume, Cover, Module, Mux, Signal, Value

from hdl.link.lane import Lane
from hdl.link.link import LinkPair
from hdl.link.output import Output
from spec.link import LinkConfig, OutputConfig, RouterConfig
from spec.topology import Torus
from verif.harness.formal import Properties

RING = RouterConfig(
    torus=Torus(sizes=(2,)), flit_bits=9, channels=2, escape_channels=2, depth=3, max_flits=2, tag_bits=1
)
"""The smallest router that has everything but adaptive lanes."""


def ones(bits: Value) -> Any:
    """How many bits are set."""
    return sum(bits[index] for index in range(len(bits)))


class CreditProperties(Properties):
    """An output, its link and the far lanes: credits, flits on the way and flits stored add up to the depth.

    What the arbiter's inputs ask for is free, within what a :class:`~hdl.link.lane.Lane` may ask; whether a far lane
    gets rid of a flit is free too. As the sum is inductive, no credit is ever lost or doubled and no lane overflows.
    """

    def __init__(self, config: RouterConfig = RING) -> None:
        self.config = config
        self.output = cast(Any, Output(OutputConfig(router=config)))
        self.lanes = [cast(Any, Lane(config)) for _ in range(config.lanes)]
        self.goes = Signal(config.lanes)
        self.given = Signal(config.lanes)
        self.fresh = Signal(len(self.output.ask))
        use, flits = self.output.use.as_value(), self.output.flits.as_value()
        self.inputs = (self.output.ask, use, flits, self.goes, self.given, self.fresh)

    def elaborate(self, platform: Any) -> Module:
        """Join the two ends and state the sum for each lane."""
        m = Module()
        output = self.output
        m.submodules.output = platform.place(output)
        for index in range(len(output.ask)):
            reach = Mux(self.fresh[index], output.free, output.open)
            legal = output.use[index].any() & ~(output.use[index] & ~reach).any()
            m.d.comb += Assume(~output.ask[index] | legal, "asks only for what is at hand")
        for number, lane in enumerate(self.lanes):
            m.submodules[f"lane_{number}"] = platform.place(lane)
            stored = lane.unread + lane.copied
            arriving = output.link.valid & (output.link.lane == number)
            m.d.comb += [
                lane.write.eq(arriving),
                lane.flit_in.eq(output.link.flit),
                lane.open.eq(-1),
                lane.free.eq(-1),
                lane.roomy.eq(-1),
                lane.won.eq(self.goes[number] & lane.ask.any()),
                lane.given.eq(self.given),
                output.link.credit[number].eq(lane.credit),
                Assert(output.credits[number] + arriving + stored + lane.credit == self.config.depth, "the sum stays"),
                Assert(stored <= self.config.depth, "no lane overflows"),
                Assert(
                    (lane.copied == 0) | (lane.active & (lane.todo & (lane.todo - 1)).any()), "kept for more copies"
                ),
            ]
        m.d.comb += [
            Assert(output.space == sum(output.credits), "space is the sum of credits"),
            Cover(output.space == 0, "all credits can be out"),
        ]
        return m


class TurnProperties(Properties):
    """The arbiter of an output: somebody is served whenever somebody asks, and everybody's turn comes.

    ``distance`` is how many inputs stand before a freely chosen one in the round. Each turn that goes to another
    brings it strictly nearer, and a turn that is kept ends with its packet: waiting is bounded by one packet of each
    other input.
    """

    def __init__(self, config: RouterConfig = RING) -> None:
        self.output = cast(Any, Output(OutputConfig(router=config)))
        self.fresh = Signal(len(self.output.ask))
        self.marked = Signal(range(len(self.output.ask)))
        output = self.output
        use, flits = output.use.as_value(), output.flits.as_value()
        self.inputs = (output.ask, use, flits, output.link.credit, self.fresh, self.marked)

    def elaborate(self, platform: Any) -> Module:
        """One step of the round."""
        m = Module()
        output = self.output
        count = len(output.ask)
        m.submodules.output = platform.place(output)
        for index in range(count):
            reach = Mux(self.fresh[index], output.free, output.open)
            legal = output.use[index].any() & ~(output.use[index] & ~reach).any()
            m.d.comb += Assume(~output.ask[index] | legal, "asks only for what is at hand")
        pointer = Signal(range(count + 1))
        m.d.comb += [pointer.eq(count - ones(output.behind)), Assume(self.marked < count, "one of the inputs")]
        marked = Signal.like(self.marked)
        waited, distance = Signal(), Signal(range(2 * count + 1))
        now = Mux(self.marked >= pointer, self.marked - pointer, self.marked + count - pointer)
        kept = (output.ask & output.hold).any()
        asks = output.ask.bit_select(self.marked, 1) & ~output.grant.bit_select(self.marked, 1)
        m.d.sync += [waited.eq(asks & ~kept), distance.eq(now), marked.eq(self.marked)]
        m.d.comb += [
            Assert(~(output.behind[:-1] & ~output.behind[1:]).any(), "the pointer is one place"),
            Assert(ones(output.hold) <= 1, "one holder at most"),
            Assert(ones(output.grant) == output.ask.any(), "somebody, and only one, is served if somebody asks"),
            Assert(~(output.grant & ~output.ask).any(), "only who asks"),
            Assert(~output.ask.any() | (ones(output.given) == 1), "with one lane"),
            Assert(~(output.given & ~output.open).any(), "that has a credit"),
        ]
        with m.If(waited & (marked == self.marked)):
            m.d.comb += Assert(now < distance, "a turn that goes to another brings everybody nearer")
        return m


class ReplayProperties(Properties):
    """A pair of link ends whose wires damage any frame at will: payloads come out counted up, none missing, none twice.

    The payloads put in are a running count. Damage is of the check sum, so that it is always noticed: what a check sum
    cannot notice no protocol can repair.
    """

    def __init__(self, config: LinkConfig) -> None:
        self.config = config
        self.pair = cast(Any, LinkPair(config))
        self.damage = Signal(2)
        self.inputs = (self.pair.i[0].valid, self.pair.i[1].valid, self.damage)

    def elaborate(self, platform: Any) -> Module:
        """Count what goes in and what comes out, in each direction."""
        m = Module()
        pair, config = self.pair, self.config
        m.submodules.pair = platform.place(pair)
        for way in range(2):
            put, got = Signal(config.payload_bits, name=f"put_{way}"), Signal(config.payload_bits, name=f"got_{way}")
            m.d.comb += [
                pair.i[way].payload.eq(put),
                pair.flips[way].eq(Mux(self.damage[way], 1 << (config.frame_bits - 1), 0)),
            ]
            m.d.sync += put.eq(put + (pair.i[way].valid & pair.i[way].ready))
            with m.If(pair.o[way].valid):
                m.d.comb += Assert(pair.o[way].payload == got, "the next one, unchanged")
                m.d.sync += got.eq(got + 1)
            m.d.comb += Cover((got == 2) & (pair.replays[way] != 0), "it recovers")
        return m


LINK = LinkConfig(payload_bits=3, sequence_bits=2, crc_bits=8, wire_cycles=0, timeout=5, retries=3)
"""The smallest link, with a window of two frames."""
