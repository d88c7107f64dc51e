"""A lane's part in ``quantize_mx``: four elements kept until their block's scale is known."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.numerics.layouts import Fp32
from hdl.numerics.normalise import normalise
from spec.formats import FP32, SCALES
from spec.vector import MX_ROWS, VectorConfig

BIAS = SCALES["e8m0"].bias
LEAST = FP32.exponent_min - FP32.mantissa_bits - 1
"""Exponent that stands for zero, below that of the smallest subnormal."""
MAGNITUDE_BITS = 9
BEYOND = (1 << MAGNITUDE_BITS) - 1
"""Magnitude of infinities and NaNs."""


class LaneQuantizer(Block):
    """Takes the element of a step with ``valid`` and gives that of four steps before, scaled, in the same cycle.

    ``step`` counts the rows of a block, ``top`` is the largest exponent of its elements.

    ``magnitude`` is the largest exponent of the block's elements of this lane so far, counted from ``LEAST``; the
    engine returns the largest of the block's lanes in ``largest`` in the same cycle. After the fourth step it makes the
    scale: ``scale`` as ``e8m0`` code, ``scaled`` the element over it, too small a number as zero.
    """

    valid: In(1)
    step: In(2)
    top: In(4)
    x: In(Fp32)
    largest: In(MAGNITUDE_BITS)
    magnitude: Out(MAGNITUDE_BITS)
    scaled: Out(Fp32)
    scale: Out(8)

    config: VectorConfig

    def __init__(self, config: VectorConfig) -> None:
        super().__init__(config)

    def elaborate(self, platform: Any) -> Module:
        """Normalise, find the largest, keep four, scale."""
        m = Module()
        x, step = self.x, self.step
        normal = x.exponent.any()
        significand, zeros = normalise(m, Cat(x.mantissa, normal), "x")
        kept = data.StructLayout({"mantissa": FP32.mantissa_bits, "exponent": signed(10), "sign": 1})
        new = Signal(kept)
        m.d.comb += [
            new.mantissa.eq(significand[:-1]),
            new.exponent.eq(Mux(normal, x.exponent, 1) - FP32.bias - zeros),
            new.sign.eq(x.sign),
        ]
        own = Signal(MAGNITUDE_BITS)
        with m.If(x.exponent.all()):
            m.d.comb += own.eq(BEYOND)
        with m.Elif(normal | x.mantissa.any()):
            m.d.comb += own.eq(new.exponent - LEAST)
        before = Signal(MAGNITUDE_BITS)
        m.d.comb += self.magnitude.eq(Mux((step != 0) & (before > own), before, own))

        elements = [Signal(kept, name=f"element_{number}") for number in range(MX_ROWS)]
        found = Signal(MAGNITUDE_BITS)
        above, exponent = Signal(signed(MAGNITUDE_BITS + 1)), Signal(signed(MAGNITUDE_BITS + 1))
        m.d.comb += [
            above.eq(found + LEAST - self.top),
            exponent.eq(Mux((found == 0) | (above < -BIAS), -BIAS, above)),
        ]
        with m.If(self.valid):
            m.d.sync += before.eq(self.magnitude)
            for number, element in enumerate(elements):
                with m.If(step == number):
                    m.d.sync += element.eq(new)
            with m.If(step == MX_ROWS - 1):
                m.d.sync += found.eq(self.largest)

        old: Any = kept(Signal(kept.size, name="old"))
        with m.Switch(step):
            for number, element in enumerate(elements):
                with m.Case(number):
                    m.d.comb += old.as_value().eq(element)
        field = Signal(signed(12))
        m.d.comb += field.eq(old.exponent - exponent + FP32.bias)
        lost = found == BEYOND
        m.d.comb += self.scale.eq(Mux(lost, C(SCALES["e8m0"].nan_pattern, 8), (exponent + BIAS)[:8]))
        with m.If(~lost):
            m.d.comb += self.scaled.sign.eq(old.sign)
            with m.If(field > 0):
                m.d.comb += [self.scaled.exponent.eq(field[:8]), self.scaled.mantissa.eq(old.mantissa)]
        return m


def largest_of(m: Module, magnitudes: list[Any], name: str) -> Any:
    """The largest of several magnitudes."""
    best: Any = magnitudes[0]
    for number, other in enumerate(magnitudes[1:]):
        larger = Signal(MAGNITUDE_BITS, name=f"{name}_{number}")
        m.d.comb += larger.eq(Mux(best > other, best, other))
        best = larger
    return best


def word_of(m: Module, code: Any, narrow: Any, valid: Any) -> Any:
    """Four codes in a word, the last one ``code`` of this cycle: a shift register that moves with ``valid``."""
    before = Signal(24, name="codes")
    word = Signal(32, name="word")
    m.d.comb += word.eq(Mux(narrow, Cat(before[12:], code[:4]), Cat(before, code[:8])))
    with m.If(valid):
        m.d.sync += before.eq(Mux(narrow, Cat(C(0, 12), before[16:], code[:4]), word[8:]))
    return word
