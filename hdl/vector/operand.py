"""An operand on its way into a lane: cast to fp32, or the 32-bit word of a raw operation."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block, place
from hdl.numerics import Cast
from hdl.scalar.delay import delay
from spec.formats import FLOATS, INTS, FloatFormat
from spec.numerics import CastConfig
from spec.vector import PACKED_BITS, VectorConfig


def storage_bits(name: str) -> int:
    """Bits of an element of this format in memory."""
    entry = FLOATS[name] if name in FLOATS else INTS[name]
    return entry.storage if isinstance(entry, FloatFormat) else entry.width


def is_signed(name: str) -> bool:
    """Whether a raw operation extends elements of this format by their sign."""
    return name in INTS and INTS[name].signed


class Operand(Block):
    """``operand`` is ``code`` of ``format`` a cycle ago, in fp32 or, with ``raw``, as a word; free-running.

    ``narrow``: only the 16-bit formats. ``format`` counts among all formats of the engine in both cases.
    """

    config: VectorConfig

    def __init__(self, config: VectorConfig, *, narrow: bool = False) -> None:
        self.narrow = narrow
        self.formats = tuple(name for name in config.formats if not narrow or storage_bits(name) == PACKED_BITS)
        code = In(PACKED_BITS if narrow else 32)
        super().__init__(config, Signature({"code": code, "format": In(4), "raw": In(1), "operand": Out(32)}))

    @property
    def module_name(self) -> str:
        """Wide and narrow operands are different hardware."""
        return super().module_name + "_narrow" * self.narrow

    def elaborate(self, platform: Any) -> Module:
        """The cast, and beside it the word."""
        m = Module()
        cast = Cast(CastConfig(sources=self.formats, targets=("fp32",)))
        m.submodules.cast = place(cast, platform)
        m.d.comb += [
            cast.code.eq(self.code),
            cast.saturate.eq(0),
            cast.stochastic.eq(0),
            cast.random.eq(0),
        ]
        word = Signal(32)
        with m.Switch(self.format):
            for position, name in enumerate(self.formats):
                with m.Case(self.config.formats.index(name)):
                    code = self.code[: storage_bits(name)]
                    m.d.comb += word.eq(code.as_signed() if is_signed(name) else code)
                    if len(self.formats) > 1:
                        m.d.comb += cast.source.eq(position)
        late = delay(m, Cat(word, self.raw), 1, "late")
        m.d.comb += self.operand.eq(Mux(late[-1], late[:-1], cast.result))
        return m
