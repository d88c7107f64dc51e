"""Chips on switches: planes of them, each of which carries the messages of one class."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from amaranth.hdl import Module

from hdl.block import place
from hdl.core.unit import pass_on
from hdl.system.vertex import Vertex
from spec.system import SystemConfig
from spec.topology import SwitchedServers


def add_plane(m: Module, platform: Any, config: SystemConfig, name: str, chips: Sequence[tuple[Any, Any]]) -> None:
    """A :class:`~hdl.system.vertex.Vertex` at every switch, joined to each other and to the vertices of the ``chips``.

    These, one a chip, are given by their beats in and out. A cell goes the one way that the topology has for its
    target, so messages of a chip to another keep their order; waiting goes from direct links up to switches and down to
    chips, never in a circle.
    """
    topology = switches_of(config)
    routes = routes_of(topology)
    ends = list(chips)
    for number in range(topology.nodes, len(routes)):
        vertex: Any = Vertex(config, *links_of(topology, number), chip=False)
        m.submodules[f"{name}_{number - topology.nodes}"] = place(vertex, platform)
        m.d.comb += vertex.routes.eq(routes[number])
        ends.append((vertex.i, vertex.o))
    for link in topology.links:
        pass_on(m, ends[link.source][1][link.source_port], ends[link.target][0][link.target_port])


def switches_of(config: SystemConfig) -> SwitchedServers:
    """The topology of a system on switches."""
    assert config.switches is not None
    return config.switches


def links_of(topology: SwitchedServers, vertex: int) -> tuple[int, int]:
    """How many links lead into a vertex and out of it; of all chips as many as of chip 0."""
    return sum(link.target == vertex for link in topology.links), sum(link.source == vertex for link in topology.links)


def routes_of(topology: SwitchedServers) -> list[int]:
    """What each vertex has for ``routes``: towards each chip the link that goes on, or at that chip its own output."""
    outs = Counter(link.source for link in topology.links)
    ways: list[dict[int, int]] = [{} for _ in outs]
    for source in range(topology.nodes):
        ways[source][source] = outs[source]
        for target in range(topology.nodes):
            at = source
            while target not in ways[at]:
                (channel,) = topology.moves(at, None, target)
                link = topology.links[channel.link]
                ways[at][target] = link.source_port
                at = link.target
    return [
        sum(1 << (outs[vertex] + (vertex < topology.nodes)) * target + output for target, output in way.items())
        for vertex, way in enumerate(ways)
    ]
