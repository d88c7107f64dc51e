"""The chip's side of its router: messages of both classes in and out, credits spent and returned."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.layouts import bits
from hdl.fifo import Fifo
from hdl.link.layouts import FlitLink, flit_layout
from hdl.system.layouts import message_layout
from hdl.system.packets import Depacketizer, Packetizer
from spec.fifo import FifoConfig
from spec.system import ANSWERS, REQUESTS, SystemConfig

CLASSES = {"requests": REQUESTS, "answers": ANSWERS}


class Endpoint(Block):
    """``send_*`` go to other chips, ``come_*`` have come from there, for requests and answers; ``i`` and ``o`` are the
    links from and to the router. ``bad`` is 1 in a cycle in which a malformed packet is dropped.

    Packets are of the ordered kind, on the first channel of their class: messages of a class from one chip to one chip
    arrive in the order in which they were sent. A class that is not taken holds up no other. Answers have to be taken
    in every cycle. Reset together with the router.
    """

    config: SystemConfig

    def __init__(self, config: SystemConfig) -> None:
        message = stream.Signature(message_layout(config))
        ports: dict[str, Any] = {"chip": In(bits(config.chips)), "bad": Out(1)}
        for name in CLASSES:
            ports |= {f"send_{name}": In(message), f"come_{name}": Out(message)}
        ports |= {"i": In(FlitLink(config.torus_router)), "o": Out(FlitLink(config.torus_router))}
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """Each class on its own; the wire out is shared flit by flit."""
        m = Module()
        router = self.config.torus_router
        ready, bad, offers = [], [], []
        for name, group in CLASSES.items():
            lane = group * router.channels
            out = Packetizer(self.config)
            m.submodules[f"out_{name}"] = place(out, platform)
            sent, taken, credits = (
                getattr(self, f"send_{name}"),
                Signal(name=f"taken_{name}"),
                Signal(range(router.depth + 1), init=router.depth, name=f"credits_{name}"),
            )
            m.d.comb += [
                out.chip.eq(self.chip),
                out.i.valid.eq(sent.valid),
                out.i.payload.eq(sent.payload),
                sent.ready.eq(out.i.ready),
                out.o.ready.eq(taken),
            ]
            m.d.sync += credits.eq(credits + self.o.credit[lane] - taken)
            offers.append((lane, out, taken))
            ready.append(out.o.valid & (credits != 0))
            bad.append(self._receive(m, platform, name, group))
        last = Signal(len(CLASSES))
        turn = Mux(Cat(ready).all(), ~last[ANSWERS], ready[ANSWERS])
        m.d.comb += [self.o.valid.eq(Cat(ready).any()), self.bad.eq(Cat(bad).any())]
        for group, (lane, out, taken) in enumerate(offers):
            m.d.comb += taken.eq(ready[group] & (turn == group))
            m.d.sync += last[group].eq(taken)
            with m.If(taken):
                m.d.comb += [self.o.lane.eq(lane), self.o.flit.eq(out.o.payload)]
        return m

    def _receive(self, m: Module, platform: Any, name: str, group: int) -> Any:
        """The buffers behind the router's credits, and the messages from them."""
        router = self.config.torus_router
        layout = flit_layout(router)
        come = getattr(self, f"come_{name}")
        # Packets of chips are on the first channel; the network's own answers may come on any.
        channels = router.channels if group == ANSWERS and self.config.cable is not None else 1
        bad, turn = [], Signal(range(max(2, channels)), name=f"turn_{name}")
        for channel in range(channels):
            lane = group * router.channels + channel
            buffer = Fifo(FifoConfig(width=layout.size, depth=router.depth), layout)
            into = Depacketizer(self.config, group)
            suffix = f"{name}_{channel}" if channel else name
            m.submodules[f"buffer_{suffix}"] = place(buffer, platform)
            m.submodules[f"in_{suffix}"] = place(into, platform)
            m.d.comb += [
                buffer.i.valid.eq(self.i.valid & (self.i.lane == lane)),
                buffer.i.payload.eq(self.i.flit),
                into.i.valid.eq(buffer.o.valid),
                into.i.payload.eq(buffer.o.payload),
                buffer.o.ready.eq(into.i.ready),
                into.o.ready.eq(come.ready & (turn == channel)),
            ]
            with m.If(into.o.valid):
                m.d.comb += [turn.eq(channel), come.valid.eq(1), come.payload.eq(into.o.payload)]
            m.d.sync += self.i.credit[lane].eq(buffer.o.valid & buffer.o.ready)
            bad.append(into.bad)
        return Cat(bad).any()
