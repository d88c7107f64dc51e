"""A chip: cores, their memory, and the way to other chips."""

from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Cat, Const, Module, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from hdl.block import Block, place
from hdl.core.core import Core
from hdl.core.host import HOST, HostPort
from hdl.core.layouts import PROGRAMS, REPORT, bits
from hdl.core.sbuf import SECDED
from hdl.core.share import Share
from hdl.core.unit import pass_on
from hdl.link.layouts import FlitLink
from hdl.system.endpoint import CLASSES, Endpoint
from hdl.system.gate import Gate
from hdl.system.layouts import LINE, addressed_layout, body_of
from hdl.system.memory import PlainMemory
from hdl.system.server import Server
from hdl.system.socket import DeviceSocket
from hdl.system.stacked import DEVICES, StackedMemory
from hdl.system.switched import links_of, switches_of
from hdl.system.vertex import Vertex
from spec.core import HostConfig, ShareConfig
from spec.system import OPERATIONS, SystemConfig


class Chip(Block):
    """``cores`` cores around one memory, and an endpoint of the fabric.

    ``start_n`` and ``report_n`` are those of core ``n``; ``host`` reads and writes lines of the memory, ``lines`` gives
    what it read: ``host.line`` is one of this chip's. ``i`` and ``o`` are the links from and to the router; of a chip
    on switches ``i_*``, ``o_*`` and ``routes`` are those of its :class:`~hdl.system.vertex.Vertex` of each class.
    ``lost`` counts requests to chips or cores that do not exist and malformed packets. With stacks of HBM the devices
    are outside: ``told_n``, ``returned_n``, ``damage`` and ``corrected`` are those of
    :class:`~hdl.system.stacked.StackedMemory`; with ``config.sockets`` the first two lead into sockets within.
    Reset together with the router; it drops all that is under way.
    """

    config: SystemConfig

    def __init__(self, config: SystemConfig) -> None:
        ports: dict[str, Any] = {"chip": In(bits(config.chips)), "lost": Out(32), "inject": In(SECDED.width)}
        for core in range(config.cores):
            ports |= {f"start_{core}": In(stream.Signature(PROGRAMS)), f"report_{core}": Out(stream.Signature(REPORT))}
        ports |= {"host": In(stream.Signature(HOST)), "lines": Out(stream.Signature(LINE))}
        if config.router is not None:
            ports |= {"i": In(FlitLink(config.router)), "o": Out(FlitLink(config.router))}
        else:
            ins, outs = links_of(switches_of(config), 0)
            self.vertices = {name: Vertex(config, ins, outs, chip=True) for name in CLASSES}
            for name, vertex in self.vertices.items():
                ports |= {f"{port}_{name}": vertex.signature.members[port] for port in "io"}
                ports["routes"] = vertex.signature.members["routes"]
        self.memory: Any = PlainMemory(config) if config.stack is None else StackedMemory(config)
        inside = ("ports", *(DEVICES if config.sockets else ()))
        self.outside = [name for name in self.memory.signature.members if not name.startswith(inside)]
        """Ports of the memory that are the chip's."""
        super().__init__(config, ports | {name: self.memory.signature.members[name] for name in self.outside})

    def elaborate(self, platform: Any) -> Module:
        """Gates in front of the cores; updates and messages each shared in turn."""
        m = Module()
        config = self.config
        cores = [Core(config.core) for _ in range(config.cores)]
        gates = [Gate(config) for _ in range(config.cores)]
        server, memory = Server(config), self.memory
        host = HostPort(HostConfig(core=config.own, response=LINE.size))
        for name, blocks in (("core", cores), ("gate", gates)):
            for index, block in enumerate(blocks):
                m.submodules[f"{name}_{index}"] = place(block, platform)
        ends, events = self._ends(m, platform)
        for name, block in (("server", server), ("host", host), ("memory", memory)):
            m.submodules[name] = place(block, platform)
        for index, (core, gate) in enumerate(zip(cores, gates, strict=True)):
            connect(m, core.lines, gate.lines)
            connect(m, core.sent, gate.sent)
            connect(m, gate.own, memory.ports[index])
            connect(m, flipped(getattr(self, f"start_{index}")), core.start)
            connect(m, core.report, flipped(getattr(self, f"report_{index}")))
            m.d.comb += [
                core.inject.eq(self.inject),
                core.answer.eq(gate.answer),
                core.pending.eq(gate.pending),
                core.error.eq(gate.error),
                gate.chip.eq(self.chip),
                gate.number.eq(index),
            ]
        pass_on(m, ends.come_requests, server.requests)
        pass_on(m, server.answers, ends.send_answers)
        connect(m, server.memory, memory.ports[config.cores])
        last = memory.ports[config.cores + 1]
        for source, target in ((self.host, host.host), (host.lines, self.lines), (host.request, last.request)):
            pass_on(m, source, target)
        m.d.comb += [
            host.answer.valid.eq(last.answer.valid),
            host.answer.data.eq(last.answer.data.as_value()),
            host.done.eq(last.done.valid),
        ]
        for name in self.outside:
            outer, inner = getattr(self, name), getattr(memory, name)
            m.d.comb += outer.eq(inner) if self.signature.members[name].flow == Out else inner.eq(outer)
        if config.sockets:
            self._mount(m, platform)
        self._updates(m, platform, cores, gates, server)
        self._away(m, platform, gates, ends)
        events += [gate.lost for gate in gates]
        m.d.sync += self.lost.eq(self.lost + sum((Value.cast(event) for event in events), Const(0)))
        return m

    def _mount(self, m: Module, platform: Any) -> None:
        """A socket for the devices of each stack."""
        assert self.config.stack is not None
        for number in range(self.config.stacks):
            socket: Any = DeviceSocket(self.config.stack)
            m.submodules[f"socket_{number}"] = place(socket, platform)
            told, returned = (getattr(self.memory, f"{name}{number}") for name in DEVICES)
            m.d.comb += [socket.told.eq(told), returned.eq(socket.returned)]

    def _ends(self, m: Module, platform: Any) -> tuple[Any, list[Any]]:
        """What has the streams of messages, an endpoint of a torus or vertices of switches; what may be lost."""
        if self.config.router is None:
            return self._vertices(m, platform), []
        endpoint: Any = Endpoint(self.config)
        pins: Any = self
        m.submodules.endpoint = place(endpoint, platform)
        connect(m, flipped(pins.i), endpoint.i)
        connect(m, endpoint.o, flipped(pins.o))
        m.d.comb += endpoint.chip.eq(self.chip)
        return endpoint, [endpoint.bad]

    def _vertices(self, m: Module, platform: Any) -> Any:
        """The chip's vertex in the plane of each class."""
        ends: dict[str, Any] = {}
        pins: Any = self
        vertex: Any
        for name, vertex in self.vertices.items():
            m.submodules[f"vertex_{name}"] = place(vertex, platform)
            for outer, inner in zip(getattr(self, f"i_{name}"), vertex.i, strict=True):
                pass_on(m, outer, inner)
            for outer, inner in zip(getattr(self, f"o_{name}"), vertex.o, strict=True):
                pass_on(m, inner, outer)
            m.d.comb += [vertex.routes.eq(pins.routes), vertex.chip.eq(self.chip)]
            ends |= {f"send_{name}": vertex.send, f"come_{name}": vertex.come}
        return SimpleNamespace(**ends)

    def _updates(self, m: Module, platform: Any, cores: list[Core], gates: list[Gate], server: Server) -> None:
        """Updates from the chip's cores and from other chips, to the core that each names."""
        sources = [*(gate.near for gate in gates), server.updates]
        layout = addressed_layout(self.config)
        share = _merge(m, platform, "updates", sources)
        update = data.View(layout, share.request.payload[1:])
        for index, core in enumerate(cores):
            chosen = update.core == index
            m.d.comb += [
                core.heard.valid.eq(share.request.valid & chosen),
                core.heard.payload.eq(update.update),
            ]
            with m.If(chosen):
                m.d.comb += share.request.ready.eq(core.heard.ready)

    def _away(self, m: Module, platform: Any, gates: list[Gate], ends: Any) -> None:
        """Messages of all cores out; answers back to who asked."""
        config = self.config
        share = _merge(m, platform, "away", [gate.away for gate in gates])
        m.d.comb += [
            ends.send_requests.valid.eq(share.request.valid),
            ends.send_requests.payload.as_value().eq(share.request.payload[1:]),
            share.request.ready.eq(ends.send_requests.ready),
            ends.come_answers.ready.eq(1),
        ]
        back = ends.come_answers
        body = body_of(back.payload, config, "answer")
        for index, gate in enumerate(gates):
            m.d.comb += [
                gate.back.valid.eq(back.valid & (back.payload.core == index)),
                gate.back.data.read.eq(back.payload.operation == OPERATIONS.index("answer")),
                gate.back.data.line.error.eq(body.error),
                gate.back.data.line.data.eq(body.data),
            ]
        assert config.bodies["answer"][0] == config.bodies["done"][0]


def _merge(m: Module, platform: Any, name: str, sources: list[Any]) -> Share:
    """Streams of one kind into one, in turn; no answers."""
    width = 1 + len(sources[0].payload.as_value())
    share = Share(ShareConfig(ports=len(sources), request=width, response=1, depth=1))
    m.submodules[name] = place(share, platform)
    for index, source in enumerate(sources):
        asked = getattr(share, f"asked_{index}")
        m.d.comb += [
            asked.valid.eq(source.valid),
            asked.payload.eq(Cat(Const(1), source.payload.as_value())),
            source.ready.eq(asked.ready),
        ]
    return share
