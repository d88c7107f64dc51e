"""How chips are joined: tori, rings and meshes, and the switched UltraServers, as data.

A topology is a set of vertices (the first ``nodes`` are chips, the rest switches), directed :class:`Link`s, and a
routing function :meth:`Topology.moves`. Everything else is computed from these: hop counts, bisection, the load of each
channel and with it the bound on throughput, and the channel-dependency graph whose acyclicity is the proof that no
packets can wait for each other in a circle (Dally and Seitz; for the adaptive class Duato's extended graph).

A *channel* is a link and one of its two classes. Hardware divides the virtual channels of a port into these classes.

>>> torus = Torus(sizes=(4, 4))
>>> torus.neighbours(0)
[1, 3, 4, 12]
>>> find_cycle(torus.dependencies()) is None
True
"""

import dataclasses
import enum
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import NamedTuple

from spec.parameters import Parameters, parameter, refuse

LOCAL = 0
"""Port of a torus router that leads to its own chip; port ``1 + 2 d`` leads up dimension ``d``, ``2 + 2 d`` down."""


class Kind(enum.IntEnum):
    """How a packet wants to be routed; two bits of its header."""

    ORDERED = 0
    """Dimension order on one fixed channel a class: packets from one chip to one chip never overtake each other."""
    FREE = 1
    """Dimension order on any channel the dateline allows; both ways round where both are shortest."""
    ADAPTIVE = 2
    """Any shortest path, with dimension order as escape."""
    MULTICAST = 3
    """Along a dimension-order tree to every chip of the dimensions whose coordinate in ``dst`` is not zero."""


class Link(NamedTuple):
    """A directed link; ``cycles`` is the time of one flit on it: 2 for a link of half the width."""

    source: int
    source_port: int
    target: int
    target_port: int
    cycles: int = 1


class Channel(NamedTuple):
    """One class of one link, by the link's index."""

    link: int
    level: int


Graph = Mapping[Channel, set[Channel]]


def find_cycle(graph: Graph) -> list[Channel] | None:
    """Channels that wait for each other in a circle, in order; None when the graph is acyclic."""
    state: dict[Channel, int] = {}
    for root in graph:
        if root in state:
            continue
        path, stack = [root], [iter(graph[root])]
        state[root] = 1
        while stack:
            after = next(stack[-1], None)
            if after is None:
                stack.pop()
                state[path.pop()] = 2
            elif state.get(after) == 1:
                return path[path.index(after) :]
            elif after not in state:
                state[after] = 1
                path.append(after)
                stack.append(iter(graph.get(after, ())))
    return None


class Topology(Parameters):
    """Vertices, links and a routing function. Subclasses give ``nodes``, ``vertices``, ``links`` and ``moves``."""

    @property
    def nodes(self) -> int:
        """Chips; they are vertices 0 to ``nodes - 1``."""
        raise NotImplementedError

    @property
    def links(self) -> tuple[Link, ...]:
        """Every directed link."""
        raise NotImplementedError

    @property
    def bisection(self) -> float:
        """Flits a cycle, one way, between the halves."""
        raise NotImplementedError

    def moves(self, at: int, came: Channel | None, target: int) -> list[Channel]:
        """Channels a packet for chip ``target`` may take next, having arrived at vertex ``at`` by ``came``."""
        raise NotImplementedError

    def dependencies(self) -> dict[Channel, set[Channel]]:
        """The channel-dependency graph: an edge where a packet may hold the first and ask for the second."""
        graph: dict[Channel, set[Channel]] = {}
        for target in range(self.nodes):
            todo: list[tuple[int, Channel | None]] = [(node, None) for node in range(self.nodes) if node != target]
            seen = set(todo)
            while todo:
                at, came = todo.pop()
                if at == target:
                    continue
                for channel in self.moves(at, came, target):
                    graph.setdefault(channel, set())
                    if came is not None:
                        graph[came].add(channel)
                    state = (self.links[channel.link].target, channel)
                    if state not in seen:
                        seen.add(state)
                        todo.append(state)
        return graph

    def hops(self, source: int, target: int) -> int:
        """Links of the longest route the routing function offers; every route of a minimal function is as long."""
        border: set[tuple[int, Channel | None]] = {(source, None)}
        count = 0
        while border := {
            (self.links[channel.link].target, channel)
            for at, came in border
            if at != target
            for channel in self.moves(at, came, target)
        }:
            count += 1
            if count > len(self.links):
                raise ValueError(f"routing from {source} to {target} never arrives")
        return count

    def neighbours(self, vertex: int) -> list[int]:
        """Vertices one link away, in rising order."""
        return sorted({link.target for link in self.links if link.source == vertex})

    def cut(self, inside: Iterable[int]) -> float:
        """Flits a cycle all links from the vertices ``inside`` to the others carry together."""
        members = set(inside)
        return sum(1 / link.cycles for link in self.links if link.source in members and link.target not in members)

    def channel_loads(self, pattern: Callable[[int], Mapping[int, float]]) -> list[float]:
        """Busy time of each link when every chip offers one flit a cycle to ``pattern(chip)``, split evenly over links.

        Links above one saturate first: ``1 / max(...)`` bounds the load each chip may offer.
        """
        loads = [0.0] * len(self.links)
        for source in range(self.nodes):
            for target, share in pattern(source).items():
                flow: dict[tuple[int, Channel | None], float] = {(source, None): share}
                while flow:
                    (at, came), amount = flow.popitem()
                    if at == target:
                        continue
                    by_link: dict[int, list[Channel]] = {}
                    for channel in self.moves(at, came, target):
                        by_link.setdefault(channel.link, []).append(channel)
                    for link, channels in by_link.items():
                        loads[link] += amount / len(by_link) * self.links[link].cycles
                        state = (self.links[link].target, channels[0])
                        flow[state] = flow.get(state, 0.0) + amount / len(by_link)
        return loads


@dataclasses.dataclass(frozen=True, kw_only=True)
class Torus(Topology):
    """Rings (``wraps``) or lines in any number of dimensions; chip ``x + size_x (y + size_y z)``. One ring is 1-D."""

    sizes: tuple[int, ...] = parameter((4, 4), choices=tuple(range(1, 65)), unit="chips", doc="chips of each dimension")
    wraps: tuple[bool, ...] = parameter((), doc="which dimensions close to rings; empty means all")
    cycles: tuple[int, ...] = parameter((), unit="cycles", doc="time of a flit on a link of each dimension; empty: 1")

    def check(self) -> None:
        """Refuse lists of unequal length."""
        for name, low in (("wraps", 0), ("cycles", 1)):
            value = getattr(self, name)
            if value and (len(value) != len(self.sizes) or min(value) < low or max(value) > 8):
                raise refuse("Torus", name, value, f"empty or {len(self.sizes)} values of {low} to 8")
        if len(self.sizes) > 4:
            raise refuse("Torus", "sizes", self.sizes, "1 to 4 dimensions")

    @property
    def dimensions(self) -> int:
        """Dimensions."""
        return len(self.sizes)

    @property
    def ports(self) -> int:
        """Ports of a router, the local one included."""
        return 1 + 2 * self.dimensions

    @property
    def nodes(self) -> int:
        """Chips."""
        return math.prod(self.sizes)

    def ring(self, dimension: int) -> bool:
        """Whether the dimension closes."""
        return self.wraps[dimension] if self.wraps else True

    def flit_cycles(self, port: int) -> int:
        """Time of one flit on the link behind ``port``."""
        return self.cycles[(port - 1) // 2] if self.cycles and port != LOCAL else 1

    def coordinates(self, node: int) -> tuple[int, ...]:
        """Position of a chip, first dimension first."""
        return self._positions[node]

    @cached_property
    def _positions(self) -> tuple[tuple[int, ...], ...]:
        backwards = itertools.product(*(range(size) for size in reversed(self.sizes)))
        return tuple(position[::-1] for position in backwards)

    def node(self, position: Iterable[int]) -> int:
        """The chip at a position; coordinates wrap."""
        number, stride = 0, 1
        for coordinate, size in zip(position, self.sizes, strict=True):
            number += coordinate % size * stride
            stride *= size
        return number

    def neighbour(self, node: int, port: int) -> int | None:
        """The chip behind a port; None where a line ends, and where a dimension holds one chip only."""
        dimension, down = divmod(port - 1, 2)
        position = list(self.coordinates(node))
        position[dimension] += -1 if down else 1
        inside = 0 <= position[dimension] < self.sizes[dimension]
        if self.sizes[dimension] == 1 or not (inside or self.ring(dimension)):
            return None
        return self.node(position)

    @cached_property
    def _links(self) -> tuple[Link, ...]:
        joined = (
            (node, port, self.neighbour(node, port)) for node in range(self.nodes) for port in range(1, self.ports)
        )
        return tuple(
            Link(node, port, other, opposite(port), self.flit_cycles(port))
            for node, port, other in joined
            if other is not None
        )

    @property
    def links(self) -> tuple[Link, ...]:
        """Every directed link, by chip and port."""
        return self._links

    @cached_property
    def link_of(self) -> dict[tuple[int, int], int]:
        """Index of the link behind each (chip, port)."""
        return {(link.source, link.source_port): index for index, link in enumerate(self.links)}

    def productive(self, at: int, target: int) -> list[int]:
        """Ports that bring a packet nearer, in order of dimension; both of a dimension when both ways are as short."""
        ports = []
        for dimension, (here, there) in enumerate(zip(self.coordinates(at), self.coordinates(target), strict=True)):
            up = (there - here) % self.sizes[dimension]
            down = (here - there) % self.sizes[dimension]
            if not up:
                continue
            if not self.ring(dimension):
                up, down = (up, up + 1) if there > here else (down + 1, down)
            ports += [1 + 2 * dimension] * (up <= down) + [2 + 2 * dimension] * (down <= up)
        return ports

    def levels(self, at: int, came: tuple[int, int] | None, port: int, there: int, kind: Kind) -> set[int]:
        """Dateline classes a packet may use through ``port`` to the coordinate ``there`` of that dimension.

        ``came`` is the input port and class. A route that still has to pass the wrapping link uses class 1 up to it;
        behind it only class 0. A route that never wraps may use both, but once in class 0 it stays there.
        """
        dimension, down = divmod(port - 1, 2)
        here, size = self.coordinates(at)[dimension], self.sizes[dimension]
        first, last = (size - 1, 0) if down else (0, size - 1)
        crosses = there > here if down else there < here
        if kind is Kind.ORDERED or kind is Kind.ADAPTIVE:
            return {0, 1} if crosses and here == last and kind is Kind.ADAPTIVE else {int(crosses)}
        if crosses:
            return {0, 1} if here == last else {1}
        through = came is not None and came[0] == opposite(port)
        if self.ring(dimension) and through and (here == first or came == (opposite(port), 0)):
            return {0}
        return {0, 1}

    def dimension_order(self, at: int, target: int, kind: Kind = Kind.FREE) -> list[int]:
        """Ports of the first unfinished dimension; where two are as short, the ordered kind takes one, by parity."""
        ports = self.productive(at, target)
        ports = [port for port in ports if (port - 1) // 2 == (ports[0] - 1) // 2]
        if kind is Kind.ORDERED and len(ports) == 2:
            return [ports[self.coordinates(at)[(ports[0] - 1) // 2] % 2]]
        return ports

    def dependencies(self) -> dict[Channel, set[Channel]]:
        """The graph of free, ordered and multicast packets together: they share all channels."""
        graph = super().dependencies()
        for spans in itertools.product((False, True), repeat=self.dimensions):
            for source in range(self.nodes):
                todo: list[tuple[int, Channel | None]] = [(source, None)]
                while todo:
                    at, came = todo.pop()
                    origin = None if came is None else (self.links[came.link].target_port, came.level)
                    for port, end in self.tree(at, source, origin[0] if origin else LOCAL, spans).items():
                        for level in self.levels(at, origin, port, end, Kind.MULTICAST) if port != LOCAL else ():
                            channel = Channel(self.link_of[at, port], level)
                            graph.setdefault(channel, set())
                            if came is not None:
                                graph[came].add(channel)
                            todo.append((self.links[channel.link].target, channel))
        return graph

    def moves(self, at: int, came: Channel | None, target: int, kind: Kind = Kind.FREE) -> list[Channel]:
        """Escape channels of a packet, in order of port and class; adaptive hops are not among them."""
        origin = None if came is None else (self.links[came.link].target_port, came.level)
        there = self.coordinates(target)
        return [
            Channel(self.link_of[at, port], level)
            for port in self.dimension_order(at, target, kind)
            for level in sorted(self.levels(at, origin, port, there[(port - 1) // 2], kind))
        ]

    def extended_dependencies(self) -> dict[Channel, set[Channel]]:
        """Duato's graph of the adaptive kind, joined with that of all others, which share the escape channels.

        An edge leads from an escape channel to each one the same packet may ask for later, also after adaptive hops.
        """
        graph = self.dependencies()
        for target in range(self.nodes):
            todo: list[tuple[int, Channel | None]] = [(node, None) for node in range(self.nodes) if node != target]
            seen = set(todo)
            while todo:
                at, held = todo.pop()
                if at == target:
                    continue
                after = [(self.links[self.link_of[at, port]].target, held) for port in self.productive(at, target)]
                for channel in self.moves(at, None, target, Kind.ADAPTIVE):
                    graph.setdefault(channel, set())
                    if held is not None:
                        graph[held].add(channel)
                    after.append((self.links[channel.link].target, channel))
                todo += [state for state in after if state not in seen]
                seen.update(after)
        return graph

    def tree(self, at: int, source: int, came: int, spans: tuple[bool, ...]) -> dict[int, int]:
        """Ports of a multicast at one chip, each with the coordinate its branch ends at; the local port always.

        ``came`` is the input port (LOCAL at the source). A branch runs half way round in each direction of a ring.
        """
        branches = {LOCAL: 0}
        arrival = (came - 1) // 2 if came != LOCAL else -1
        for dimension, size in enumerate(self.sizes):
            begin, here = self.coordinates(source)[dimension], self.coordinates(at)[dimension]
            if not spans[dimension] or dimension < arrival:
                continue
            ends = (
                ((begin + size // 2) % size, (begin - (size - 1) // 2) % size)
                if self.ring(dimension)
                else (size - 1, 0)
            )
            for down, end in enumerate(ends):
                port = 1 + 2 * dimension + down
                if here != end and (dimension > arrival or came == opposite(port)):
                    branches[port] = end
        return branches

    @property
    def bisection(self) -> float:
        """Flits a cycle, one way, between the halves across the dimension where that is least."""
        cuts = []
        for dimension, size in enumerate(self.sizes):
            if size > 1:
                lower = [node for node in range(self.nodes) if self.coordinates(node)[dimension] < size // 2]
                cuts.append(self.cut(lower))
        return min(cuts)


def opposite(port: int) -> int:
    """The port at the far end of a torus link: up meets down."""
    return port + 1 if port % 2 else port - 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class SwitchedServers(Topology):
    """An UltraServer on switches: two halves, direct links between equal chips of opposite servers.

    Chips of one half reach each other through switches; a chip of the other half is reached by the direct link first,
    then, if it is another chip, through the switches of its half. Direct, up, down: the order is the proof.
    """

    servers: int = parameter(4, unit="servers", low=2, high=64, doc="servers, an even number")
    chips: int = parameter(16, unit="chips", low=1, high=64, doc="chips of a server")
    levels: int = parameter(
        1, unit="levels", choices=(1, 2), doc="1: a switch for each half; 2: also one in each server"
    )

    def check(self) -> None:
        """Refuse an odd number of servers."""
        if self.servers % 2:
            raise refuse("SwitchedServers", "servers", self.servers, "an even number")

    @property
    def nodes(self) -> int:
        """Chips."""
        return self.servers * self.chips

    def half_switch(self, node: int) -> int:
        """The switch all chips of this chip's half share."""
        return self.nodes + node * 2 // self.nodes

    def server_switch(self, node: int) -> int:
        """The first switch of a chip: its server's, or its half's where there is one level."""
        return self.half_switch(node) if self.levels == 1 else self.nodes + 2 + node // self.chips

    def partner(self, node: int) -> int:
        """The chip at the other end of the direct link."""
        return (node + self.nodes // 2) % self.nodes

    @cached_property
    def _links(self) -> tuple[Link, ...]:
        pairs = []
        for node in range(self.nodes):
            pairs += [(node, self.partner(node)), (node, self.server_switch(node)), (self.server_switch(node), node)]
        if self.levels == 2:
            for node in range(0, self.nodes, self.chips):
                pairs += [
                    (self.server_switch(node), self.half_switch(node)),
                    (self.half_switch(node), self.server_switch(node)),
                ]
        counters: dict[tuple[int, bool], int] = {}

        def port(vertex: int, outward: bool) -> int:
            counters[vertex, outward] = counters.get((vertex, outward), -1) + 1
            return counters[vertex, outward]

        return tuple(Link(source, port(source, True), target, port(target, False)) for source, target in pairs)

    @property
    def links(self) -> tuple[Link, ...]:
        """Every directed link: direct, to and from the first switch, then between switches."""
        return self._links

    @cached_property
    def link_between(self) -> dict[tuple[int, int], int]:
        """Index of the link from one vertex to another."""
        return {(link.source, link.target): index for index, link in enumerate(self.links)}

    def moves(self, at: int, came: Channel | None, target: int) -> list[Channel]:
        """The one way on."""
        if at < self.nodes:
            after = self.server_switch(at) if self.half_switch(at) == self.half_switch(target) else self.partner(at)
        elif at in (self.server_switch(target), self.half_switch(target)):
            after = target if at == self.server_switch(target) else self.server_switch(target)
        else:
            after = self.half_switch(target)
        return [Channel(self.link_between[at, after], 0)]

    @property
    def bisection(self) -> float:
        """Flits a cycle, one way, between the halves: the direct links."""
        half = range(self.nodes // 2)
        return self.cut({*half, self.half_switch(0), *map(self.server_switch, half)})


TOPOLOGIES: dict[str, Topology] = {
    "ring2": Torus(sizes=(2,)),
    "ring4": Torus(sizes=(4,)),
    "ring16": Torus(sizes=(16,)),
    "torus4x4": Torus(sizes=(4, 4)),
    "torus4x4x4": Torus(sizes=(4, 4, 4)),
    "trn2_ultraserver": Torus(sizes=(4, 4, 4), cycles=(1, 1, 2)),
    "torus3x5": Torus(sizes=(3, 5)),
    "mesh4x4": Torus(sizes=(4, 4), wraps=(False, False)),
    "mesh3x2": Torus(sizes=(3, 2), wraps=(False, False)),
    "mesh4x4_ring2": Torus(sizes=(4, 4, 2), wraps=(False, False, True)),
    "trn3_gen1": SwitchedServers(servers=4, chips=16, levels=1),
    "trn3_gen2": SwitchedServers(servers=36, chips=4, levels=2),
}
"""What ships, by name. ``trn2_ultraserver``: four 4x4 instances and Z rings of half the width (64 of 128 GB/s)."""
