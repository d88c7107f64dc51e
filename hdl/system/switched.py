"""Chips on switches: planes of them, each of which carries the messages of one class."""

from typing import Any

from amaranth.hdl import Module

from hdl.block import place
from hdl.core.unit import pass_on
from hdl.system.vertex import Vertex
from spec.system import SystemConfig
from spec.topology import SwitchedServers


def add_plane(m: Module, platform: Any, config: SystemConfig, name: str) -> list[Any]:
    """A :class:`~hdl.system.vertex.Vertex` at every vertex of ``config.switches``, joined. Returns those of the chips.

    A cell goes the one way that the topology has for its target, so messages of a chip to another keep their order;
    waiting goes from direct links up to switches and down to chips, never in a circle. The vertices are placed
    directly, not in a block of the whole plane: such a block would have the messages of all chips as ports, more than a
    module can have.
    """
    assert config.switches is not None
    topology: SwitchedServers = config.switches
    vertices: list[Any] = []
    into = _links(topology, "target")
    out_of = _links(topology, "source")
    ways = _ways(topology)
    for number, (ins, outs) in enumerate(zip(into, out_of, strict=True)):
        chip = number < topology.nodes
        vertex: Any = Vertex(config, len(ins), len(outs), chip=chip)
        m.submodules[f"{name}_{number}"] = place(vertex, platform)
        vertices.append(vertex)
        if chip:
            m.d.comb += vertex.chip.eq(number)
        for target, way in ways[number].items():
            output = len(outs) if way is None else outs.index(way)
            m.d.comb += vertex.routes[target].eq(1 << output)
    for number, link in enumerate(topology.links):
        near, far = vertices[link.source], vertices[link.target]
        pass_on(m, near.o[out_of[link.source].index(number)], far.i[into[link.target].index(number)])
    return vertices[: topology.nodes]


def _links(topology: SwitchedServers, end: str) -> list[list[int]]:
    """Of each vertex: the links whose ``end`` it is."""
    vertices = 1 + max(link.target for link in topology.links)
    return [
        [number for number, link in enumerate(topology.links) if getattr(link, end) == vertex]
        for vertex in range(vertices)
    ]


def _ways(topology: SwitchedServers) -> list[dict[int, int | None]]:
    """Of each vertex: target -> the link that goes on, or none at the target itself; only what has a way over it."""
    ways: list[dict[int, int | None]] = [{} for _ in range(1 + max(link.target for link in topology.links))]
    for source in range(topology.nodes):
        ways[source][source] = None
        for target in range(topology.nodes):
            at = source
            while target not in ways[at]:
                (channel,) = topology.moves(at, None, target)
                ways[at][target] = channel.link
                at = topology.links[channel.link].target
    return ways
