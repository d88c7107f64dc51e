"""A chip: cores, their memory, and the way to other chips."""

from typing import Any

from amaranth.hdl import Cat, Const, Module, Signal, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, connect, flipped

from hdl.block import Block, place
from hdl.core.core import Core
from hdl.core.layouts import LINE_BITS, PROGRAMS, REPORT, answer, bits, line_request
from hdl.core.sbuf import SECDED
from hdl.core.share import Share
from hdl.core.system import LineMemory
from hdl.core.unit import join, serve
from hdl.fifo import Fifo
from hdl.link.layouts import FlitLink
from hdl.system.endpoint import Endpoint
from hdl.system.gate import Gate
from hdl.system.layouts import addressed_layout, body_of, message_layout
from hdl.system.server import Server
from spec.core import ShareConfig
from spec.fifo import FifoConfig
from spec.system import SystemConfig

AHEAD = 16
"""Lines the host may have asked for and not taken."""
HOST = data.StructLayout({"data": LINE_BITS, "line": 32, "write": 1})
"""A line that the host writes or asks for; ``line`` is one of this chip's."""


class Chip(Block):
    """``cores`` cores around one memory, and an endpoint of the fabric.

    ``start_n`` and ``report_n`` are those of core ``n``; ``host`` reads and writes lines of the memory, ``lines`` gives
    what it read. ``i`` and ``o`` are the links from and to the router. ``lost`` counts requests to chips or cores that
    do not exist and malformed packets. With ``memory = "port"`` the memory is outside: ``memory`` and
    ``memory_answer``, a line a cycle, answers in order; a request waits if ``memory`` is not ready.
    Reset together with the router; it drops all that is under way.
    """

    config: SystemConfig

    def __init__(self, config: SystemConfig) -> None:
        ports: dict[str, Any] = {"chip": In(bits(config.chips)), "lost": Out(32), "inject": In(SECDED.width)}
        for core in range(config.cores):
            ports |= {f"start_{core}": In(stream.Signature(PROGRAMS)), f"report_{core}": Out(stream.Signature(REPORT))}
        ports |= {"host": In(stream.Signature(HOST)), "lines": Out(stream.Signature(LINE_BITS))}
        ports |= {"i": In(FlitLink(config.router)), "o": Out(FlitLink(config.router))}
        if config.memory == "port":
            ports |= {"memory": Out(stream.Signature(line_request(config.own))), "memory_answer": In(answer(LINE_BITS))}
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """Gates in front of the cores; memory, updates and messages each shared in turn."""
        m = Module()
        config = self.config
        cores = [Core(config.core) for _ in range(config.cores)]
        gates = [Gate(config) for _ in range(config.cores)]
        endpoint, server = Endpoint(config), Server(config)
        for name, blocks in (("core", cores), ("gate", gates)):
            for index, block in enumerate(blocks):
                m.submodules[f"{name}_{index}"] = place(block, platform)
        m.submodules.endpoint = place(endpoint, platform)
        m.submodules.server = place(server, platform)
        for index, (core, gate) in enumerate(zip(cores, gates, strict=True)):
            connect(m, core.lines, gate.lines)
            connect(m, core.sent, gate.sent)
            connect(m, flipped(getattr(self, f"start_{index}")), core.start)
            connect(m, core.report, flipped(getattr(self, f"report_{index}")))
            m.d.comb += [
                core.inject.eq(self.inject),
                core.answer.eq(gate.answer),
                gate.chip.eq(self.chip),
                gate.number.eq(index),
            ]
        connect(m, flipped(self.i), endpoint.i)
        connect(m, endpoint.o, flipped(self.o))
        connect(m, endpoint.come_requests, server.requests)
        connect(m, server.answers, endpoint.send_answers)
        m.d.comb += endpoint.chip.eq(self.chip)
        self._memory(m, platform, gates, server)
        self._updates(m, platform, cores, gates, server)
        self._away(m, platform, gates, endpoint)
        events = [endpoint.bad, *(gate.lost for gate in gates)]
        m.d.sync += self.lost.eq(self.lost + sum((Value.cast(event) for event in events), Const(0)))
        return m

    def _memory(self, m: Module, platform: Any, gates: list[Gate], server: Server) -> None:
        """Cores, other chips and the host take turns."""
        config = self.config
        layout = line_request(config.own)
        share = Share(
            ShareConfig(
                ports=len(gates) + 2, request=layout.size, response=LINE_BITS, depth=config.core.hbm_latency + 2
            )
        )
        m.submodules.memory = place(share, platform)
        askers = [*((gate.own, gate.own_answer) for gate in gates), (server.memory, server.memory_answer)]
        for index, (requests, answers) in enumerate(askers):
            join(m, share, index, requests, answers)
        last = len(askers)
        found = Fifo(FifoConfig(width=LINE_BITS, depth=AHEAD))
        m.submodules.host_lines = place(found, platform)
        room, line = Signal(range(AHEAD + 1), init=AHEAD), Signal(layout)
        host = self.host.payload
        may = host.write | (room != 0)
        asked, back = getattr(share, f"asked_{last}"), getattr(share, f"answer_{last}")
        m.d.comb += [
            line.write.eq(host.write),
            line.line.eq(host.line),
            line.data.eq(host.data),
            line.mask.eq(~0),
            asked.valid.eq(self.host.valid & may),
            asked.payload.eq(line.as_value()),
            self.host.ready.eq(asked.ready & may),
            found.i.valid.eq(back.valid),
            found.i.payload.eq(back.data),
        ]
        connect(m, found.o, flipped(self.lines))
        reads = self.host.valid & self.host.ready & ~host.write
        m.d.sync += room.eq(room - reads + (found.o.valid & found.o.ready))
        if config.memory == "model":
            memory = LineMemory(config.own)
            m.submodules.model = place(memory, platform)
            serve(m, share, memory.request, memory.answer)
        else:
            serve(m, share, self.memory, self.memory_answer)

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

    def _away(self, m: Module, platform: Any, gates: list[Gate], endpoint: Endpoint) -> None:
        """Messages of all cores out; answers back to who asked."""
        config = self.config
        share = _merge(m, platform, "away", [gate.away for gate in gates])
        m.d.comb += [
            endpoint.send_requests.valid.eq(share.request.valid),
            endpoint.send_requests.payload.as_value().eq(share.request.payload[1:]),
            share.request.ready.eq(endpoint.send_requests.ready),
            endpoint.come_answers.ready.eq(1),
        ]
        body = body_of(endpoint.come_answers.payload, config, "answer")
        for index, gate in enumerate(gates):
            m.d.comb += [
                gate.away_answer.valid.eq(endpoint.come_answers.valid & (body.core == index)),
                gate.away_answer.data.eq(body.data),
            ]
        assert message_layout(config).size == len(share.request.payload) - 1


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
