"""Instructions from HBM, ahead of their sequencer."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.layouts import COUNTER_BITS, LINE_BITS, START, WORD_BITS, answer, line_request
from hdl.fifo import Fifo
from spec.core import LINE_BYTES, CoreConfig
from spec.fifo import FifoConfig
from spec.isa import INSTRUCTION_BYTES

LINES = INSTRUCTION_BYTES // LINE_BYTES


class Fetch(Block):
    """Reads a program's words in order and offers them as ``words``; ``fetch_depth`` of them at most are ahead.

    ``go`` begins at instruction ``target`` of ``program``; words on their way are dropped first. Past the program's end
    nothing is offered. ``outstanding`` lines have been asked for and are not there. Bits of an instruction's number
    that ``mask`` does not have do not count: a ring goes round. ``lines`` and ``answer`` are a port to HBM.
    """

    config: CoreConfig

    def __init__(self, config: CoreConfig) -> None:
        ports = {
            "go": In(1),
            "target": In(COUNTER_BITS),
            "program": In(START),
            "mask": In(COUNTER_BITS),
            "words": Out(stream.Signature(WORD_BITS)),
            "lines": Out(stream.Signature(line_request(config))),
            "answer": In(answer(LINE_BITS)),
            "outstanding": Out(range(2 * config.fetch_depth + 1)),
        }
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """Ask for both lines of a word, put them together."""
        m = Module()
        depth = self.config.fetch_depth
        words = Fifo(FifoConfig(width=WORD_BITS, depth=depth))
        m.submodules.words = place(words, platform)
        following, half = Signal(COUNTER_BITS), Signal(range(LINES))
        out, room = Signal(range(2 * depth + 1)), Signal(range(depth + 1), init=depth)
        flushing = Signal()
        part, first = Signal(range(LINES)), Signal(LINE_BITS)
        asked, took = Signal(), Signal()
        m.d.comb += [
            self.lines.valid.eq(~flushing & ~self.go & (following < self.program.count) & ((room != 0) | (half != 0))),
            self.lines.payload.line.eq(self.program.line + Cat(half, following & self.mask)),
            asked.eq(self.lines.valid & self.lines.ready),
            words.i.valid.eq(self.answer.valid & (part == LINES - 1) & ~flushing),
            words.i.payload.eq(Cat(first, self.answer.data)),
            self.words.valid.eq(words.o.valid & ~flushing),
            self.words.payload.eq(words.o.payload),
            words.o.ready.eq(self.words.ready | flushing),
            took.eq(words.o.valid & words.o.ready & ~flushing),
            self.outstanding.eq(out),
        ]
        m.d.sync += out.eq(out + asked - self.answer.valid)
        with m.If(asked):
            m.d.sync += [half.eq(half + 1), following.eq(following + (half == LINES - 1))]
        with m.If(self.answer.valid):
            m.d.sync += [part.eq(part + 1), first.eq(self.answer.data)]
        m.d.sync += room.eq(room - (asked & (half == 0)) + took)
        with m.If(flushing & (out == 0) & ~words.o.valid):
            m.d.sync += [flushing.eq(0), room.eq(depth), half.eq(0), part.eq(0)]
        with m.If(self.go):
            m.d.sync += [flushing.eq(1), following.eq(self.target)]
        return m
