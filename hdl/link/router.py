"""The torus router: input lanes, outputs, and the wires between them."""

from typing import Any

from amaranth.hdl import Cat, Module
from amaranth.lib.wiring import In, Out, connect, flipped

from hdl.block import Block, place
from hdl.link.lane import Lane
from hdl.link.layouts import FlitLink, position_layout
from hdl.link.output import Output
from spec.link import OutputConfig, RouterConfig


class Router(Block):
    """A virtual-channel wormhole router with credits, for one chip of a torus, ring or mesh.

    ``i[port]`` and ``o[port]`` are links to the neighbours and, as port 0, to the chip; ``position`` are the router's
    coordinates, constant. A flit on ``i`` in cycle t is on ``o`` in cycle t + 2 at the earliest: one cycle in the
    buffer, in which route, lane and switch are decided together, one on the link. Flits of one packet stay in order; so
    do packets of the ordered kind from one chip to one chip within a message class. Backpressure is by credits only.
    An output whose ``pause`` is high starts no flit; one that has been granted is on the link in the next cycle.
    Each output sees every input lane, so that lanes of one port do not share a crossbar input.
    Reset empties the router; both ends of each link must be reset together, for credits are not exchanged anew.
    """

    config: RouterConfig

    def __init__(self, config: RouterConfig) -> None:
        super().__init__(
            config,
            {
                "position": In(position_layout(config)),
                "i": In(FlitLink(config)).array(config.ports),
                "o": Out(FlitLink(config)).array(config.ports),
                "pause": In(config.ports),
            },
        )

    def elaborate(self, platform: Any) -> Module:
        """Every lane to every output and back."""
        m = Module()
        config = self.config
        # Made here, not in the constructor: of the routers of a fabric only the first is elaborated.
        lanes_of = [[Lane(config) for _ in range(config.lanes)] for _ in range(config.ports)]
        cycles = [config.torus.flit_cycles(port) for port in range(config.ports)]
        outputs = [Output(OutputConfig(router=config, cycles=count)) for count in cycles]
        every = [lane for port in lanes_of for lane in port]
        for number, output in enumerate(outputs):
            m.submodules[f"output_{number}"] = place(output, platform)
            connect(m, output.link, flipped(self.o[number]))
            m.d.comb += output.pause.eq(self.pause[number])
            m.d.comb += output.ask.eq(Cat(lane.ask[number] for lane in every))
            for index, lane in enumerate(every):
                m.d.comb += [output.use[index].eq(lane.use), output.flits[index].eq(lane.flit)]
        for port, lanes in enumerate(lanes_of):
            for number, lane in enumerate(lanes):
                m.submodules[f"lane_{port}_{number}"] = place(lane, platform)
                channel = number % config.channels
                level = (channel >= config.lower_channels) + (channel >= config.escape_channels)
                index = port * config.lanes + number
                m.d.comb += [
                    lane.position.eq(self.position),
                    lane.came.eq(port),
                    lane.level.eq(level if channel < config.escape_channels else 2),
                    lane.group.eq(number // config.channels),
                    lane.write.eq(self.i[port].valid & (self.i[port].lane == number)),
                    lane.flit_in.eq(self.i[port].flit),
                    lane.won.eq(Cat(output.grant[index] for output in outputs).any()),
                    self.i[port].credit[number].eq(lane.credit),
                ]
                for other, output in enumerate(outputs):
                    m.d.comb += [
                        lane.open[other].eq(output.open),
                        lane.free[other].eq(output.free),
                        lane.roomy[other].eq(output.roomy),
                    ]
                    with m.If(lane.ask[other]):
                        m.d.comb += lane.given.eq(output.given)
                    for less in range(config.ports):
                        more = output.space > outputs[less].space
                        m.d.comb += lane.roomier[other][less].eq(more if other > less > 0 else 0)
        return m
