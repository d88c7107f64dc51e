"""A core with memory behind it and a way in for the host: what simulations run."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.core import Core
from hdl.core.layouts import LINE_BITS, PROGRAMS, REPORT, UPDATE, answer, line_request
from hdl.core.sbuf import SECDED
from hdl.core.share import Share
from hdl.core.unit import join, pass_on, serve
from hdl.fifo import Fifo
from spec.core import CoreConfig, ShareConfig
from spec.fifo import FifoConfig

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
            "host": In(stream.Signature(data.StructLayout({"data": LINE_BITS, "line": 32, "write": 1}))),
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
        core, memory = Core(config), LineMemory(config)
        share = Share(
            ShareConfig(
                ports=2, request=line_request(config).size, response=LINE_BITS, depth=2 * config.hbm_latency + 2
            )
        )
        answers = Fifo(FifoConfig(width=LINE_BITS, depth=AHEAD))
        m.submodules.core = place(core, platform)
        m.submodules.memory = place(memory, platform)
        m.submodules.share = place(share, platform)
        m.submodules.answers = place(answers, platform)
        ends = ((self.start, core.start), (self.heard, core.heard), (core.report, self.report), (core.sent, self.sent))
        for source, target in ends:
            pass_on(m, source, target)
        join(m, share, 0, core.lines, core.answer)
        serve(m, share, memory.request, memory.answer)
        pass_on(m, answers.o, self.lines)
        room = Signal(range(AHEAD + 1), init=AHEAD)
        host = self.host.payload
        line = Signal(line_request(config))
        may = host.write | (room != 0)
        m.d.comb += [
            core.inject.eq(self.inject),
            line.write.eq(host.write),
            line.line.eq(host.line),
            line.data.eq(host.data),
            line.mask.eq(~0),
            share.asked_1.valid.eq(self.host.valid & may),
            share.asked_1.payload.eq(line.as_value()),
            self.host.ready.eq(share.asked_1.ready & may),
            answers.i.valid.eq(share.answer_1.valid),
            answers.i.payload.eq(share.answer_1.data),
        ]
        reads = self.host.valid & self.host.ready & ~host.write
        m.d.sync += room.eq(room - reads + (answers.o.valid & answers.o.ready))
        return m
