"""Chips on switches: planes of them, each of which carries the messages of one class."""

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
    into, out_of = (_links(topology, end) for end in ("target", "source"))
    ends = list(chips)
    for number in range(topology.nodes, len(routes)):
        vertex: Any = Vertex(config, len(into[number]), len(out_of[number]), chip=False)
        m.submodules[f"{name}_{number - topology.nodes}"] = place(vertex, platform)
        m.d.comb += vertex.routes.eq(routes[number])
        ends.append((vertex.i, vertex.o))
    for number, link in enumerate(topology.links):
        near, far = ends[link.source][1], ends[link.target][0]
        pass_on(m, near[out_of[link.source].index(number)], far[into[link.target].index(number)])


def switches_of(config: SystemConfig) -> SwitchedServers:
    """The topology of a system on switches."""
    assert config.switches is not None
    return config.switches


def links_of(topology: SwitchedServers, vertex: int) -> tuple[int, int]:
    """How many links lead into a vertex and out of it; of all chips as many as of chip 0."""
    return len(_links(topology, "target")[vertex]), len(_links(topology, "source")[vertex])


def routes_of(topology: SwitchedServers) -> list[int]:
    """What each vertex has for ``routes``: towards each chip the link that goes on, or at that chip its own output."""
    out_of = _links(topology, "source")
    ways: list[dict[int, int]] = [{} for _ in out_of]
    for source in range(topology.nodes):
        ways[source][source] = len(out_of[source])
        for target in range(topology.nodes):
            at = source
            while target not in ways[at]:
                (channel,) = topology.moves(at, None, target)
                ways[at][target] = out_of[at].index(channel.link)
                at = topology.links[channel.link].target
    widths = [len(outs) + (vertex < topology.nodes) for vertex, outs in enumerate(out_of)]
    return [
        sum(1 << width * target + output for target, output in way.items())
        for width, way in zip(widths, ways, strict=True)
    ]


def _links(topology: SwitchedServers, end: str) -> list[list[int]]:
    """Of each vertex: the links whose ``end`` it is."""
    vertices = 1 + max(link.target for link in topology.links)
    found: list[list[int]] = [[] for _ in range(vertices)]
    for number, link in enumerate(topology.links):
        found[getattr(link, end)].append(number)
    return found
