"""How many elements of a row of a transfer go together."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal

from hdl.core.walk import Walk
from spec.core import LINE_BYTES, WORD_BYTES, CoreConfig
from spec.isa import SPACES

HBM, SBUF, PSUM = range(len(SPACES))


class Run:
    """Logic of its parent: the elements from a :class:`Walk`'s current one on that one access moves, ``count`` of them.

    Elements that follow each other byte by byte are a run as long as they stay in a line of HBM, in a partition of
    SBUF, or in a word of PSUM; elements of one row of SBUF or PSUM in successive partitions go ``across``. At most
    ``dma_lanes``, at least one.
    """

    def __init__(self, m: Module, name: str, config: CoreConfig, walk: Walk, space: Any, size: Any) -> None:
        lanes, self.address, self.step = config.dma_lanes, walk.offset, walk.steps[0]
        self.size = size
        self.count = Signal(range(lanes + 1), name=f"{name}_count")
        self.across, self.close = Signal(name=f"{name}_across"), Signal(name=f"{name}_close")
        room = Signal(range(max(LINE_BYTES, config.sbuf_pitch) + 1), name=f"{name}_room")
        fits, most = (Signal(range(lanes + 1), name=f"{name}_{what}") for what in ("fits", "most"))
        pitch = Mux(space == SBUF, config.sbuf_pitch, config.psum_pitch)
        bytes_ = {HBM: LINE_BYTES, SBUF: config.sbuf_pitch, PSUM: WORD_BYTES}
        for memory, unit in bytes_.items():
            with m.If(space == memory):
                m.d.comb += room.eq(unit - self.address[: unit.bit_length() - 1])
        elements = room >> size
        m.d.comb += [
            self.close.eq(self.step == (1 << size)),
            self.across.eq((space != HBM) & (self.step == pitch)),
            fits.eq(Mux(elements < lanes, elements, lanes)),
            most.eq(Mux(self.across, lanes, Mux(self.close, fits, 1))),
            self.count.eq(Mux(walk.left < most, walk.left, most)),
        ]

    def distance(self, count: Any) -> Any:
        """The way from the first of ``count`` elements to the one after them."""
        return Mux(self.across | self.close, count * self.step, self.step)

    def end(self, count: Any) -> Any:
        """The highest byte address of ``count`` elements, plus one; of one element where they do not go together."""
        last = Mux(self.across | self.close, (count - 1).as_unsigned()[: len(count)] * self.step, 0)
        return self.address + last + (1 << self.size)
