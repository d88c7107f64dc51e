"""Writes corrected lines back, so that a second wrong bit does not join the first."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import enum
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.fifo import Fifo
from hdl.hbm.layouts import ControllerLayouts
from spec.fifo import FifoConfig
from spec.hbm_controller import HbmControllerConfig


class ScrubState(enum.Enum, shape=2):
    """What the line under way needs next."""

    IDLE = 0
    READ = 1
    WAIT = 2
    WRITE = 3


class HbmScrubber(Block):
    """Reads a line again and, if it still holds correctable errors and no other ones, writes it back.

    ``found``, ``found_place``   a read was corrected there; remembered if fewer than ``scrub_lines`` are
    ``offer``      a line for the scheduler: ``write`` tells which; stands until ``taken``
    ``may_offer``    the scheduler's port holds no offer of someone else
    ``answer``      accesses of the read, with what the decoder says
    ``guard``, ``place``   a line at ``place`` must wait: between read and write nobody else may write there
    ``done``      a line was written back (one slot)

    The line is read again, because whoever asked may have written it in the meantime. Reset forgets all.
    """

    config: HbmControllerConfig

    def __init__(self, config: HbmControllerConfig) -> None:
        self.layouts = ControllerLayouts(config)
        super().__init__(
            config,
            {
                "found": In(1),
                "found_place": In(self.layouts.place),
                "offer": Out(1),
                "write": Out(1),
                "place": Out(self.layouts.place),
                "data": Out(self.layouts.plain),
                "may_offer": In(1),
                "taken": In(1),
                "answer": In(self.layouts.answer),
                "guard": Out(1),
                "done": Out(1),
            },
        )

    def elaborate(self, platform: Any) -> Module:
        """A queue of places and four states."""
        m = Module()
        self.queue: Any = Fifo(
            FifoConfig(width=self.layouts.place.size, depth=self.config.scrub_lines), self.layouts.place
        )
        m.submodules.queue = place(self.queue, platform)
        waiting: Any = self.queue
        state = Signal(ScrubState)
        corrected, lost, offered = Signal(), Signal(), Signal()
        answer: Any = self.answer
        wants = (state == ScrubState.READ) | (state == ScrubState.WRITE)
        m.d.comb += [
            waiting.i.valid.eq(self.found),
            waiting.i.payload.eq(self.found_place),
            waiting.o.ready.eq(state == ScrubState.IDLE),
            self.offer.eq(wants & (self.may_offer | offered)),
            self.write.eq(state == ScrubState.WRITE),
            self.guard.eq((state == ScrubState.WAIT) | (state == ScrubState.WRITE)),
            self.done.eq((state == ScrubState.WRITE) & self.taken),
        ]
        m.d.sync += offered.eq(self.offer & ~self.taken)
        with m.Switch(state):
            with m.Case(ScrubState.IDLE):
                m.d.sync += [self.place.eq(waiting.o.payload), corrected.eq(0), lost.eq(0)]
                with m.If(waiting.o.valid):
                    m.d.sync += state.eq(ScrubState.READ)
            with m.Case(ScrubState.READ), m.If(self.taken):
                m.d.sync += state.eq(ScrubState.WAIT)
            with m.Case(ScrubState.WAIT), m.If(answer.valid):
                for half in range(2):
                    with m.If(answer.last == half):
                        m.d.sync += self.data[half].eq(answer.data)
                m.d.sync += [corrected.eq(corrected | answer.corrected), lost.eq(lost | answer.lost)]
                with m.If(answer.last):
                    worth = (corrected | answer.corrected) & ~(lost | answer.lost)
                    m.d.sync += state.eq(Mux(worth, ScrubState.WRITE, ScrubState.IDLE))
            with m.Case(ScrubState.WRITE), m.If(self.taken):
                m.d.sync += state.eq(ScrubState.IDLE)
        return m
