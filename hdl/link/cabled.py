"""A torus whose links are noisy cables."""

from typing import Any

from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Module, Mux, ResetSignal, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, connect, flipped

from hdl.block import Block, place
from hdl.link.layouts import FlitLink, position_layout
from hdl.link.link import frame_layout
from hdl.link.node import Node
from hdl.link.port import Port
from spec.link import CableConfig
from spec.topology import LOCAL


class CabledNode(Block):
    """A :class:`~hdl.link.node.Node` with a :class:`~hdl.link.port.Port` at each of its links: all of one chip.

    ``chip`` leads from the chip into the network, ``network`` back. ``transmit[n]`` and ``receive[n]`` are the cable of
    port ``n + 1``. A port without a cable is silent, so it is dead after ``config.layer.silence`` cycles; nothing is
    routed there. A reset of one node alone has to last that long.
    """

    config: CableConfig

    def __init__(self, config: CableConfig) -> None:
        cables, link = config.router.ports - 1, FlitLink(config.router)
        super().__init__(
            config,
            {
                "position": In(position_layout(config.router)),
                "chip": In(link),
                "network": Out(link),
                "transmit": Out(frame_layout(config.layer)).array(cables),
                "receive": In(frame_layout(config.layer)).array(cables),
                "dead": Out(cables),
                "lost": Out(16).array(cables),
                "bad": Out(16),
                "broken": Out(16),
            },
        )

    def elaborate(self, platform: Any) -> Module:
        """The node, and a port for each cable."""
        m = Module()
        node = Node(self.config.router)
        m.submodules.node = place(node, platform)
        m.d.comb += [node.position.eq(self.position), self.bad.eq(node.bad), self.broken.eq(node.broken)]
        connect(m, flipped(self.chip), node.i[LOCAL])
        connect(m, node.o[LOCAL], flipped(self.network))
        for number in range(self.config.router.ports - 1):
            port = Port(self.config)
            m.submodules[f"port_{number + 1}"] = place(port, platform)
            connect(m, node.o[number + 1], port.i)
            connect(m, port.o, node.i[number + 1])
            m.d.comb += [
                port.position.eq(self.position),
                node.pause[number + 1].eq(port.pause),
                self.transmit[number].eq(port.transmit),
                port.receive.eq(self.receive[number]),
                self.dead[number].eq(port.dead),
                self.lost[number].eq(port.lost),
            ]
        return m


class CabledFabric(Block):
    """A fabric as :class:`~hdl.link.fabric.Fabric`, with a link layer under each link and wires ``wire_cycles`` long.

    ``flips[link]`` inverts bits at the far end of a directed link of ``torus.links``, ``cut[link]`` holds it at zero.
    ``restart[node]`` resets one node, all others go on. ``dead[node]`` has a bit for each port but the local one,
    ``lost[node]`` counts packets its dead links consumed. A hop takes ``6 + wire_cycles`` cycles. A narrow link
    (``torus.cycles``) passes a flit every so many cycles, in frames of full width.
    """

    config: CableConfig

    def __init__(self, config: CableConfig) -> None:
        torus, link = config.router.torus, FlitLink(config.router)
        count = len(torus.links)
        super().__init__(
            config,
            {
                "chips": In(link).array(torus.nodes),
                "routers": Out(link).array(torus.nodes),
                "flips": In(config.layer.frame_bits).array(count),
                "cut": In(count),
                "restart": In(torus.nodes),
                "dead": Out(config.router.ports - 1).array(torus.nodes),
                "lost": Out(data.ArrayLayout(16, config.router.ports - 1)).array(torus.nodes),
                "bad": Out(16).array(torus.nodes),
                "broken": Out(16).array(torus.nodes),
            },
        )
        self.nodes = [CabledNode(config) for _ in range(torus.nodes)]

    def elaborate(self, platform: Any) -> Module:
        """Nodes, each in a clock domain with a reset of its own, then cables."""
        m = Module()
        torus = self.config.router.torus
        for index, node in enumerate(self.nodes):
            domain = f"node_{index}"
            m.domains += ClockDomain(domain, local=True)
            m.d.comb += [
                ClockSignal(domain).eq(ClockSignal()),
                ResetSignal(domain).eq(ResetSignal() | self.restart[index]),
            ]
            m.submodules[domain] = DomainRenamer(domain)(place(node, platform))
            for dimension, coordinate in enumerate(torus.coordinates(index)):
                m.d.comb += node.position[dimension].eq(coordinate)
            connect(m, flipped(self.chips[index]), node.chip)
            connect(m, node.network, flipped(self.routers[index]))
            m.d.comb += [
                self.dead[index].eq(node.dead),
                self.bad[index].eq(node.bad),
                self.broken[index].eq(node.broken),
            ]
            m.d.comb += [self.lost[index][n].eq(lost) for n, lost in enumerate(node.lost)]
        for number, link in enumerate(torus.links):
            wire = self.nodes[link.source].transmit[link.source_port - 1].as_value()
            for hop in range(self.config.layer.wire_cycles):
                later = Signal(len(wire), name=f"wire_{number}_{hop}")
                m.d.sync += later.eq(wire)
                wire = later
            far = self.nodes[link.target].receive[link.target_port - 1].as_value()
            m.d.comb += far.eq(Mux(self.cut[number], 0, wire ^ self.flips[number]))
        return m
