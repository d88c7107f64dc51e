"""A torus of nodes, assembled from its topology."""

from typing import Any

from amaranth.hdl import Cat, Module
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, connect, flipped

from hdl.block import Block, place
from hdl.link.layouts import FlitLink, flit_layout
from hdl.link.narrow import Narrow
from hdl.link.node import Node
from spec.link import OutputConfig, RouterConfig
from spec.topology import LOCAL, opposite


class Fabric(Block):
    """All nodes of ``config.torus`` and the links between them, the node emitted once.

    ``chips[node]`` is the chip's link into its node, ``routers[node]`` the one back; ``bad[node]`` and
    ``broken[node]`` count what the node's guard refused and broke off. A link of half the width has
    half the wires and a flit takes two cycles on it. With ``probes``, for benches, ``probe[node][port]`` shows what
    arrives over each link, and ``returns[node][port]`` the credits that leave each input.
    Reset of the whole empties it. A line's end has no link: nothing is routed there, and its wires are tied off.
    """

    config: RouterConfig

    def __init__(self, config: RouterConfig, *, probes: bool = True) -> None:
        self.probes = probes
        self.wire = data.StructLayout({"flit": flit_layout(config), "lane": range(config.lanes), "valid": 1})
        nodes = config.torus.nodes
        ports: dict[str, Any] = {
            "chips": In(FlitLink(config)).array(nodes),
            "routers": Out(FlitLink(config)).array(nodes),
            "bad": Out(16).array(nodes),
            "broken": Out(16).array(nodes),
        }
        if probes:
            ports |= {
                "probe": Out(data.ArrayLayout(data.ArrayLayout(self.wire, config.ports), nodes)),
                "returns": Out(data.ArrayLayout(data.ArrayLayout(config.lanes, config.ports), nodes)),
            }
        super().__init__(config, ports)
        self.nodes = [Node(config) for _ in range(nodes)]
        self.narrow = {
            (link.source, link.source_port): Narrow(OutputConfig(router=config, cycles=link.cycles))
            for link in config.torus.links
            if link.cycles > 1
        }

    @property
    def module_name(self) -> str:
        """Whether it has probes is part of what it is."""
        return super().module_name + ("" if self.probes else "_bare")

    def elaborate(self, platform: Any) -> Module:
        """Nodes, then links."""
        m = Module()
        for node, router in enumerate(self.nodes):
            m.submodules[f"node_{node}"] = place(router, platform)
            m.d.comb += [self.bad[node].eq(router.bad), self.broken[node].eq(router.broken)]
            for dimension, coordinate in enumerate(self.config.torus.coordinates(node)):
                m.d.comb += router.position[dimension].eq(coordinate)
            connect(m, router.i[LOCAL], flipped(self.chips[node]))
            connect(m, router.o[LOCAL], flipped(self.routers[node]))
        for link in self.config.torus.links:
            sender = self.nodes[link.source].o[link.source_port]
            receiver = self.nodes[link.target].i[link.target_port]
            narrow = self.narrow.get((link.source, link.source_port))
            if narrow is None:
                connect(m, sender, receiver)
            else:
                m.submodules[f"narrow_{link.source}_{link.source_port}"] = place(narrow, platform)
                connect(m, sender, narrow.i)
                connect(m, narrow.o, receiver)
        for node, router in enumerate(self.nodes if self.probes else []):
            for port in range(self.config.ports):
                other = node if port == LOCAL else self.config.torus.neighbour(node, port)
                if other is None:
                    continue
                seen = router.o[LOCAL] if port == LOCAL else self.nodes[other].i[opposite(port)]
                m.d.comb += self.probe[node][port].as_value().eq(Cat(seen.flit, seen.lane, seen.valid))
                m.d.comb += self.returns[node][port].eq(router.i[port].credit)
        return m
