"""A core with memory behind it and a way in for the host: what simulations run."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.core import Core
from hdl.core.host import HOST, HostPort
from hdl.core.layouts import LINE_BITS, PROGRAMS, REPORT, UPDATE, answer, line_request
from hdl.core.sbuf import SECDED
from hdl.core.share import Share
from hdl.core.unit import join, pass_on, serve
from spec.core import CoreConfig, HostConfig, ShareConfig

AHEAD = 64
"""Lines the host may have asked for and not taken."""


class LineMemory(Block):
    """HBM as a plain memory: a line a cycle, answers after ``hbm_latency`` cycles, in order."""

    config: CoreConfig

    def __init__(self, config: CoreConfig) -> None:
        super().__init__(
            config, {"request": In(stream.Signature(line_request(config))), "answer": Out(answer(LINE_BITS))}
        )

    def elaborate(self, platform: Any) -> Module:
        """A memory and a delay."""
        m = Module()
        memory: Memory = Memory(shape=LINE_BITS, depth=self.config.hbm_lines, init=[])
        m.submodules.memory = memory
        write, read = memory.write_port(granularity=8), memory.read_port()
        request, taken = self.request.payload, self.request.valid
        m.d.comb += [
            self.request.ready.eq(1),
            write.addr.eq(request.line),
            write.data.eq(request.data),
            read.addr.eq(request.line),
            read.en.eq(taken & ~request.write),
        ]
        with m.If(taken & request.write):
            m.d.comb += write.en.eq(request.mask)
        valid, line = Signal(), read.data
        m.d.sync += valid.eq(taken & ~request.write)
        for stage in range(self.config.hbm_latency - 1):
            later, data_ = Signal(name=f"valid_{stage}"), Signal(LINE_BITS, name=f"line_{stage}", reset_less=True)
            m.d.sync += [later.eq(valid), data_.eq(line)]
            valid, line = later, data_
        m.d.comb += [self.answer.valid.eq(valid), self.answer.data.eq(line)]
        return m


class CoreSystem(Block):
    """A core and its HBM. ``host`` reads and writes lines, ``lines`` gives what it read; the others are the core's."""

    config: CoreConfig

    def __init__(self, config: CoreConfig) -> None:
        ports = {
            "start": In(stream.Signature(PROGRAMS)),
            "report": Out(stream.Signature(REPORT)),
            "host": In(stream.Signature(HOST)),
            "lines": Out(stream.Signature(LINE_BITS)),
            "heard": In(stream.Signature(UPDATE)),
            "sent": Out(stream.Signature(UPDATE)),
            "inject": In(SECDED.width),
        }
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """Host and core take turns."""
        m = Module()
        config = self.config
        core, memory, host = Core(config), LineMemory(config), HostPort(HostConfig(core=config, ahead=AHEAD))
        share = Share(
            ShareConfig(
                ports=2, request=line_request(config).size, response=LINE_BITS, depth=2 * config.hbm_latency + 2
            )
        )
        m.submodules.core = place(core, platform)
        m.submodules.memory = place(memory, platform)
        m.submodules.share = place(share, platform)
        m.submodules.host = place(host, platform)
        ends = ((self.start, core.start), (self.heard, core.heard), (core.report, self.report), (core.sent, self.sent))
        for source, target in (*ends, (self.host, host.host), (host.lines, self.lines)):
            pass_on(m, source, target)
        join(m, share, 0, core.lines, core.answer)
        join(m, share, 1, host.request, host.answer)
        serve(m, share, memory.request, memory.answer)
        m.d.comb += [
            core.inject.eq(self.inject),
            host.done.eq(host.request.valid & host.request.ready & host.request.payload.write),
        ]
        return m
