"""Where a packet may go next: route computation of the torus."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.link.layouts import header_layout, position_layout
from spec.link import RouterConfig
from spec.topology import LOCAL, Kind, opposite

ALLOW = data.StructLayout({"levels": 2, "adaptive": 1})
"""What a packet may use behind one port: each of the two dateline classes, the adaptive lanes."""


class Route(Block):
    """From a header to the ports it may leave by, and the lanes of each; combinational.

    ``came`` is the input port and ``level`` the dateline class of the lane the packet is in (2: adaptive lane).
    ``allow[port]`` is zero for a port that is not a choice. ``home`` says that this is the packet's chip. Of a
    multicast, ``tree`` has a bit for each port it must leave by; the choice offered is the lowest port of ``rest``,
    the part of the tree that is still to be served. The rules are those of :meth:`spec.topology.Torus.levels`.
    Headers with coordinates that do not exist are the endpoint's to refuse.
    """

    config: RouterConfig

    def __init__(self, config: RouterConfig) -> None:
        super().__init__(
            config,
            {
                "header": In(header_layout(config)),
                "position": In(position_layout(config)),
                "came": In(range(config.ports)),
                "level": In(2),
                "rest": In(config.ports),
                "allow": Out(data.ArrayLayout(ALLOW, config.ports)),
                "home": Out(1),
                "tree": Out(config.ports),
            },
        )

    def elaborate(self, platform: Any) -> Module:
        """Each dimension on its own; dimension order by masking all behind the first unfinished one."""
        m = Module()
        kind = self.header.kind
        multicast = Signal()
        m.d.comb += multicast.eq(kind == Kind.MULTICAST)
        unfinished = Signal(self.config.torus.dimensions)
        for dimension, size in enumerate(self.config.torus.sizes):
            ring = self.config.torus.ring(dimension)
            here, there = self.position[dimension], self.header[f"target_{dimension}"]
            up = Signal(range(size + 1), name=f"up_{dimension}")
            m.d.comb += up.eq(Mux(there >= here, there - here, there + size - here))
            m.d.comb += unfinished[dimension].eq(up != 0)
            both = (2 * up == size) if ring else 0
            upwards = (up != 0) & (2 * up <= size) if ring else there > here
            downwards = (2 * up >= size) if ring else there < here
            for down, nearer in enumerate((upwards, downwards)):
                port = 1 + 2 * dimension + down
                end = self._end(m, dimension, bool(down))
                goal = Signal(range(size), name=f"goal_{port}")
                m.d.comb += goal.eq(Mux(multicast, end, there))
                by_parity = (kind != Kind.ORDERED) | ~Value.cast(both) | (here[0] == down)
                in_turn = ~unfinished[:dimension].any() if dimension else 1
                served = (self.rest & ((2 << port) - 1)) == (1 << port)
                chosen = Signal(name=f"chosen_{port}")
                escape = Signal(name=f"escape_{port}")
                m.d.comb += chosen.eq(Mux(multicast, served, nearer & by_parity))
                m.d.comb += escape.eq(chosen & (multicast | in_turn))
                m.d.comb += self.allow[port].adaptive.eq(chosen & (kind == Kind.ADAPTIVE))
                with m.If(escape):
                    m.d.comb += self.allow[port].levels.eq(self._levels(port, goal))
                if size > 1:
                    spans = (there != 0) & ((self.came == opposite(port)) | self._arrived_before(dimension))
                    m.d.comb += self.tree[port].eq(spans & (here != end))
        m.d.comb += self.tree[LOCAL].eq(1)
        m.d.comb += self.home.eq(Mux(multicast, self.rest[LOCAL], ~unfinished.any()))
        return m

    def _arrived_before(self, dimension: int) -> Value:
        """Whether the packet came from its own chip or along an earlier dimension."""
        return self.came < 1 + 2 * dimension

    def _end(self, m: Module, dimension: int, down: bool) -> Value:
        """Coordinate at which a multicast branch ends: half way round a ring, or the end of a line."""
        size = self.config.torus.sizes[dimension]
        end = Signal(range(size), name=f"end_{dimension}_{'down' if down else 'up'}")
        if not self.config.torus.ring(dimension):
            m.d.comb += end.eq(0 if down else size - 1)
            return end
        begin = self.header[f"source_{dimension}"]
        step = size - (size - 1) // 2 if down else size // 2
        m.d.comb += end.eq(Mux(begin + step >= size, begin + step - size, begin + step))
        return end

    def _levels(self, port: int, goal: Value) -> Value:
        """Dateline classes for a hop through ``port`` towards ``goal``."""
        dimension, down = divmod(port - 1, 2)
        size, kind, here = self.config.torus.sizes[dimension], self.header.kind, self.position[dimension]
        first, last = (size - 1, 0) if down else (0, size - 1)
        crosses = goal > here if down else goal < here
        fixed = (kind == Kind.ORDERED) | (kind == Kind.ADAPTIVE)
        at_wrap = (here == last) & (kind != Kind.ORDERED)
        behind = (self.came == opposite(port)) & ((here == first) | (self.level == 0))
        lower_only = fixed | behind if self.config.torus.ring(dimension) else fixed
        return Mux(crosses, Cat(at_wrap, 1), Cat(1, ~lower_only))
