"""A chip's place in the network: its router behind its guard."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib.wiring import In, Out, connect, flipped

from hdl.block import Block, place
from hdl.link.guard import Guard
from hdl.link.layouts import FlitLink, position_layout
from hdl.link.router import Router
from spec.link import RouterConfig
from spec.topology import LOCAL


class Node(Block):
    """A :class:`~hdl.link.router.Router` whose local input is guarded; no cycle more than the router alone.

    ``o[LOCAL]`` brings packets to the chip, the answers of its own guard among them. ``pause[port]`` keeps an output
    from starting flits, for a link that cannot always take one. ``bad`` and ``broken`` are those of the guard.
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
                "bad": Out(16),
                "broken": Out(16),
            },
        )

    def elaborate(self, platform: Any) -> Module:
        """The guard in the way of port 0, all else straight through."""
        m = Module()
        router, guard = Router(self.config), Guard(self.config)
        m.submodules.router = place(router, platform)
        m.submodules.guard = place(guard, platform)
        m.d.comb += [
            router.position.eq(self.position),
            guard.position.eq(self.position),
            router.pause.eq(self.pause),
            self.bad.eq(guard.bad),
            self.broken.eq(guard.broken),
        ]
        connect(m, flipped(self.i[LOCAL]), guard.i)
        connect(m, guard.o, router.i[LOCAL])
        for port in range(self.config.ports):
            connect(m, router.o[port], flipped(self.o[port]))
            if port != LOCAL:
                connect(m, flipped(self.i[port]), router.i[port])
        return m
