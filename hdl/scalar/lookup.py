"""The two-level table of one lane: binade by exponent, segment by leading mantissa bits."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.numerics.layouts import Fp32
from hdl.scalar.delay import delay
from hdl.scalar.layouts import Binade, Segment
from hdl.scalar.rom import rom_of
from spec import tables
from spec.functions import ORIGINS
from spec.scalar import ScalarConfig


class Lookup(Block):
    """The segment of ``v``, its origin and ``e * ln 2``, two cycles after ``v``, ``level`` and ``log``.

    ``root`` belongs to the result: it comes two cycles after ``v``. ``later`` is ``v`` two cycles later.
    """

    v: In(Fp32)
    level: In(12)
    log: In(9)
    root: In(Fp32)
    segment: Out(Segment)
    origin: Out(Fp32)
    logarithm: Out(Fp32)
    later: Out(Fp32)

    config: ScalarConfig

    def __init__(self, config: ScalarConfig) -> None:
        super().__init__(config)

    def elaborate(self, platform: Any) -> Module:
        """Two memories in a row; the origin's bits are made beside the second."""
        m = Module()
        rom = rom_of(self.config.functions)
        binades: Any = Memory(shape=16, depth=len(rom.binades), init=rom.binades)
        segments: Any = Memory(shape=tables.SEGMENT_BITS, depth=len(rom.segments), init=rom.segments)
        m.submodules.binades, m.submodules.segments = binades, segments
        first, second = binades.read_port(), segments.read_port()
        m.d.comb += first.addr.eq(self.level)
        v = delay(m, self.v, 1, "v")
        binade = Binade(first.data)
        bits = binade.bits
        leading = v.mantissa[-tables.INDEX_BITS :]
        centre = Signal(Fp32)
        below = Signal(23)  # all ones below the bits that choose the segment
        m.d.comb += [
            second.addr.eq(binade.start + (leading << bits)[tables.INDEX_BITS : 2 * tables.INDEX_BITS]),
            below.eq((1 << 23) - 1 >> bits),
            centre.exponent.eq(v.exponent),
            centre.mantissa.eq((v.mantissa & ~below) | (below & ~(below >> 1))),
        ]
        centre = delay(m, centre, 1, "centre")
        kind = Signal(2)
        m.d.comb += [
            self.segment.as_value().eq(second.data),
            kind.eq(self.segment.origin),
            self.later.eq(delay(m, v, 1, "v_later")),
        ]
        with m.Switch(kind):
            with m.Case(ORIGINS.index("centre")):
                m.d.comb += self.origin.eq(centre)
            with m.Case(ORIGINS.index("root")):
                m.d.comb += self.origin.eq(self.root)
        if "log" in self.config.functions:
            rows = tables.log_table()
            logarithms: Any = Memory(shape=32, depth=len(rows), init=rows)
            m.submodules.logarithms = logarithms
            port = logarithms.read_port()
            m.d.comb += port.addr.eq(self.log)
            m.d.comb += self.logarithm.as_value().eq(delay(m, port.data, 1, "logarithm"))
        return m
