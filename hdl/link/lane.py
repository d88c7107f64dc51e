"""One virtual channel of a router's input: its buffer, and what its front packet asks for."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import data, memory
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.link.layouts import flit_layout, header_layout, position_layout
from hdl.link.route import Route
from spec.link import RouterConfig
from spec.topology import LOCAL, Kind


class Lane(Block):
    """Stores flits in order and asks one output at a time for the flit at the front.

    A flit written in cycle t is at the front, if the lane was empty, in cycle t + 1. ``ask`` has at most one bit set,
    only where an output lane of ``use`` could take the flit at once; ``won`` answers in the same cycle, and ``given``
    is the output lane. The whole packet keeps both. ``credit`` is a pulse in the cycle after a flit has left.

    Choice of a first flit: adaptive lanes before escape lanes; of two ways round one ring the one with more room;
    another dimension than the first that is open only after a lost turn, so that traffic that fits stays in order.
    A multicast packet is read once for each port of its tree, lowest first, and leaves with the last copy; it holds
    nothing but this buffer between copies, so it adds no dependency to those of a unicast packet.
    Reset empties the lane. Writing to a full lane is the sender's error and loses flits.
    """

    config: RouterConfig

    def __init__(self, config: RouterConfig) -> None:
        per_lane = data.ArrayLayout(config.lanes, config.ports)
        super().__init__(
            config,
            {
                "position": In(position_layout(config)),
                "came": In(range(config.ports)),
                "level": In(2),
                "group": In(range(config.classes)),
                "write": In(1),
                "flit_in": In(flit_layout(config)),
                "open": In(per_lane),
                "free": In(per_lane),
                "roomy": In(per_lane),
                "roomier": In(data.ArrayLayout(config.ports, config.ports)),
                "ask": Out(config.ports),
                "use": Out(config.lanes),
                "flit": Out(flit_layout(config)),
                "won": In(1),
                "given": In(config.lanes),
                "credit": Out(1),
            },
        )
        self.route = Route(config)
        self.unread, self.copied = (Signal(range(config.depth + 1), name=name) for name in ("unread", "copied"))
        """Flits not yet read in this copy, and those kept for a further copy: together all that is stored."""
        self.active, self.todo = Signal(name="active"), Signal(config.ports, name="todo")
        """Whether a packet has a port and a lane, and the ports of a multicast that are still to be served."""

    def elaborate(self, platform: Any) -> Module:
        """The buffer, the packet's state, the request."""
        m = Module()
        present, final = Signal(), Signal()
        self._buffer(m, present, final)

        active, port, lane = self.active, Signal(self.config.ports), Signal(self.config.lanes)
        todo, rest = self.todo, Signal(self.config.ports)
        waited = Signal()
        fresh = Signal()
        header = data.View(header_layout(self.config), self.flit.data[: self.config.header_bits])
        multicast = header.kind == Kind.MULTICAST
        m.submodules.route = place(self.route, platform)
        m.d.comb += [
            fresh.eq(present & ~active),
            self.route.header.eq(self.flit.data[: self.config.header_bits]),
            self.route.position.eq(self.position),
            self.route.came.eq(self.came),
            self.route.level.eq(self.level),
            rest.eq(Mux(active | todo.any(), todo, Mux(multicast, self.route.tree, 0))),
            self.route.rest.eq(rest),
            final.eq((rest & (rest - 1)[: len(rest)]) == 0),
        ]
        m.d.sync += waited.eq(fresh & ~self.won)
        with m.If(self.won):
            m.d.sync += [active.eq(~self.flit.last), todo.eq(Mux(self.flit.last, rest & (rest - 1), rest))]
            with m.If(~active):
                m.d.sync += [port.eq(self.ask), lane.eq(self.given)]

        ask, use = self._first(m, header, waited)
        with m.If(active):
            reachable = Cat((self.open[p] & lane).any() for p in range(self.config.ports))
            m.d.comb += [self.ask.eq(Mux(present, port & reachable, 0)), self.use.eq(lane)]
        with m.Else():
            m.d.comb += [self.ask.eq(Mux(present, ask, 0)), self.use.eq(use)]
        return m

    def _buffer(self, m: Module, present: Value, final: Value) -> None:
        """A ring of flits that can be read again from the start of a packet."""
        depth = self.config.depth
        rows: Any = memory.Memory(shape=self.config.flit_bits + 2, depth=depth, init=[])
        m.submodules.rows = rows
        write, read = rows.write_port(), rows.read_port(domain="comb")
        put, begin, at = (Signal(range(depth), name=name) for name in ("put", "begin", "at"))
        unread, copied = self.unread, self.copied
        m.d.comb += [
            write.en.eq(self.write),
            write.addr.eq(put),
            write.data.eq(self.flit_in.as_value()),
            read.addr.eq(at),
            self.flit.as_value().eq(read.data),
            present.eq(unread != 0),
        ]
        again = self.won & self.flit.last & ~final
        m.d.sync += [
            self.credit.eq(self.won & final),
            unread.eq(unread + self.write + Mux(again, copied, 0) - (self.won & ~again)),
        ]
        with m.If(self.write):
            m.d.sync += put.eq(self._after(put))
        with m.If(self.won):
            m.d.sync += [at.eq(Mux(again, begin, self._after(at))), copied.eq(Mux(final | again, 0, copied + 1))]
            with m.If(final):
                m.d.sync += begin.eq(self._after(begin))

    def _after(self, pointer: Value) -> Value:
        return Mux(pointer == self.config.depth - 1, 0, pointer + 1)

    def _first(self, m: Module, header: Any, waited: Value) -> tuple[Value, Value]:
        """Port (one bit) and lanes of a packet's first flit; no port if none can take it now."""
        config = self.config
        ordered = header.kind == Kind.ORDERED
        narrow = Mux(ordered, Cat(c in (0, config.lower_channels) for c in range(config.channels)), -1)
        lower = (1 << config.lower_channels) - 1
        escape = (1 << config.escape_channels) - 1
        escapes, adaptives = [], []
        for port in range(config.ports):
            allow = self.route.allow[port]
            free = self.free[port].word_select(self.group, config.channels)
            room = Mux(header.flits == 1, free, self.roomy[port].word_select(self.group, config.channels))
            by_level = Mux(allow.levels[0], lower, 0) | Mux(allow.levels[1], escape & ~lower, 0)
            if port == LOCAL:
                by_level = Mux(self.route.home, Mux(ordered, 1, -1), 0)
            usable = Signal(config.channels, name=f"escape_{port}")
            wide = Signal(config.channels, name=f"adaptive_{port}")
            m.d.comb += [
                usable.eq(free & by_level & (narrow if port != LOCAL else -1)),
                wide.eq(Mux(allow.adaptive, room & ~escape, 0)),
            ]
            escapes.append(usable)
            adaptives.append(wide)
        ask, lanes = Signal(config.ports), Signal(config.channels)
        by_adaptive = self._prefer(m, [wide.any() for wide in adaptives], waited)
        by_escape = self._prefer(m, [usable.any() for usable in escapes], waited)
        prefer_adaptive = Signal()
        m.d.comb += [
            prefer_adaptive.eq(Cat(by_adaptive).any()),
            ask.eq(Mux(prefer_adaptive, Cat(by_adaptive), Cat(by_escape))),
        ]
        for port in range(config.ports):
            with m.If(ask[port]):
                m.d.comb += lanes.eq(Mux(prefer_adaptive, adaptives[port], escapes[port]))
        use = Signal(config.lanes)
        m.d.comb += use.word_select(self.group, config.channels).eq(lanes)
        return ask, use

    def _prefer(self, m: Module, usable: list[Value], waited: Value) -> list[Value]:
        """One bit at most: the first usable port, replaced by a later one with more room where that is allowed.

        Each step is a signal: as an expression inside the next step it would be repeated once for each port behind it.
        """
        chosen: list[Value] = [usable[0]]
        for port in range(1, len(usable)):
            better = [
                bit & self.roomier[port][other] & (1 if other == port - 1 and other % 2 else waited)
                for other, bit in enumerate(chosen)
            ]
            take, after = Signal(), Signal(port + 1)
            m.d.comb += take.eq(usable[port] & (~Cat(chosen).any() | Cat(better).any()))
            m.d.comb += after.eq(Cat(*(bit & ~take for bit in chosen), take))
            chosen = list(after)
        return chosen
