"""Casts between the formats of elements and fp32: free of cost in cycles, one rounding."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.numerics.count import leading_zeros
from hdl.numerics.layouts import Fp32
from spec.formats import FLOATS, FP32, INTS, FloatFormat, IntFormat
from spec.vector import ELEMENT_FORMATS, CastConfig

INTEGER_BITS = 32
FRACTION_BITS = 24
"""Bits kept below the last place of a result; random bits of stochastic rounding are added to them."""


def _entry(name: str) -> FloatFormat | IntFormat:
    return FLOATS[name] if name in FLOATS else INTS[name]


class InputCast(Block):
    """``number`` is the fp32 nearest to the element ``code`` of format ``format``; combinational.

    Exact but for integers of more than 24 bits. Bits above the code and below a tf32 mantissa are ignored; a NaN gives
    some NaN. ``format`` is the position in ``spec.vector.ELEMENT_FORMATS``; one outside ``config.formats`` gives 0.
    """

    code: In(32)
    format: In(4)
    number: Out(Fp32)

    config: CastConfig

    def __init__(self, config: CastConfig) -> None:
        super().__init__(config)

    def elaborate(self, platform: Any) -> Module:
        """Every format as sign, integer magnitude and exponent of its last place; one normalisation for all."""
        m = Module()
        magnitude, place, special, sign = Signal(INTEGER_BITS), Signal(signed(9)), Signal(), Signal()
        with m.Switch(self.format):
            for name in self.config.formats:
                with m.Case(ELEMENT_FORMATS.index(name)):
                    entry = _entry(name)
                    if isinstance(entry, IntFormat):
                        value = self.code[: entry.width]
                        negative = value[-1] if entry.signed else C(0, 1)
                        size = Mux(negative, -value, value)[: entry.width]
                        m.d.comb += [sign.eq(negative), magnitude.eq(size)]
                    elif entry.exponent_bits < FP32.exponent_bits:
                        self._small(m, entry, magnitude, place, special, sign)
        zeros = leading_zeros(m, magnitude)
        normal = Signal(INTEGER_BITS)
        m.d.comb += normal.eq(magnitude << zeros)
        kept, rest = normal[INTEGER_BITS - 24 :], normal[: INTEGER_BITS - 24]
        up = rest[-1] & (rest[:-1].any() | kept[0])
        rounded = Signal(25)
        exponent = Signal(9)
        m.d.comb += [
            rounded.eq(kept + up),
            exponent.eq(place + (INTEGER_BITS - 1 + FP32.bias) - zeros + rounded[-1]),
        ]
        with m.If(special):
            m.d.comb += [self.number.exponent.eq(-1), self.number.mantissa.eq(magnitude << (FP32.mantissa_bits - 10))]
        with m.Elif(magnitude.any()):
            m.d.comb += [self.number.exponent.eq(exponent), self.number.mantissa.eq(rounded)]
        m.d.comb += self.number.sign.eq(sign)
        for name in self.config.formats:
            entry = _entry(name)
            if isinstance(entry, FloatFormat) and entry.exponent_bits == FP32.exponent_bits:
                missing = FP32.mantissa_bits - entry.mantissa_bits
                word = self.code[entry.storage - entry.width : entry.storage]
                with m.If(self.format == ELEMENT_FORMATS.index(name)):
                    m.d.comb += self.number.as_value().eq(Cat(C(0, missing), word))
        return m

    def _small(self, m: Module, entry: FloatFormat, magnitude: Any, place: Any, special: Any, sign: Any) -> None:
        """A format of at most 16 bits. Of a special value, ``magnitude`` is 0 for an infinity."""
        mantissa = self.code[: entry.mantissa_bits]
        field = self.code[entry.mantissa_bits : entry.width - 1]
        normal = field.any()
        nan = entry.nan_pattern
        is_nan = C(0, 1) if nan is None else self.code[: entry.width - 1] == nan
        is_special = field.all() if entry.infinity else is_nan
        m.d.comb += [
            sign.eq(self.code[entry.width - 1]),
            special.eq(is_special),
            magnitude.eq(Mux(is_special, mantissa, Cat(mantissa, normal))),
            place.eq(Mux(normal, field, 1) - (entry.bias + entry.mantissa_bits)),
        ]


class OutputCast(Block):
    """``code`` is ``number`` rounded to the format ``format``; combinational.

    To nearest even, or with ``stochastic`` the top 24 bits of ``random`` are added below the last place and the rest is
    cut off. Beyond the largest number: infinity, NaN in a format without infinities, the largest in one without either;
    with ``saturate`` the largest. Integers always saturate. NaN gives the canonical NaN, 0 in integers.
    """

    number: In(Fp32)
    format: In(4)
    saturate: In(1)
    stochastic: In(1)
    random: In(32)
    code: Out(32)

    config: CastConfig

    def __init__(self, config: CastConfig) -> None:
        super().__init__(config)

    def elaborate(self, platform: Any) -> Module:
        """One shift and one rounding for all formats, then each format's own limits."""
        m = Module()
        number = self.number
        hidden = number.exponent.any()
        exponent = Signal(signed(11))  # unbiased, that of subnormals being the smallest
        m.d.comb += exponent.eq(Mux(hidden, number.exponent, 1) - FP32.bias)
        nan = number.exponent.all() & number.mantissa.any()
        infinite = number.exponent.all() & ~number.mantissa.any()
        distance = self._distance(m, exponent)
        kept = self._round(m, Cat(number.mantissa, hidden), distance)
        with m.Switch(self.format):
            for name in self.config.formats:
                entry = _entry(name)
                with m.Case(ELEMENT_FORMATS.index(name)):
                    if isinstance(entry, IntFormat):
                        self._integer(m, entry, kept, exponent, nan)
                    else:
                        self._float(m, entry, kept, exponent, nan, infinite)
        return m

    def _distance(self, m: Module, exponent: Any) -> Signal:
        """By how many places the significand, with its top bit at 2**31, is shifted right."""
        distance = Signal(signed(12))
        with m.Switch(self.format):
            for name in self.config.formats:
                entry = _entry(name)
                with m.Case(ELEMENT_FORMATS.index(name)):
                    if isinstance(entry, IntFormat):
                        places = INTEGER_BITS - 1 - exponent
                    else:
                        below = Signal(signed(12), name=f"below_{name}")
                        m.d.comb += below.eq(entry.exponent_min - exponent)
                        places = INTEGER_BITS - 1 - entry.mantissa_bits + Mux(below > 0, below, 0)
                    m.d.comb += distance.eq(places)
        return distance

    def _round(self, m: Module, significand: Any, distance: Any) -> Signal:
        """The integer that is left of the significand: one bit more than it had."""
        width = INTEGER_BITS + FRACTION_BITS
        value: Any = Cat(C(0, width - 24), significand)
        lost: Any = C(0, 1)
        steps = (width - 1).bit_length()
        for index in reversed(range(steps)):
            shift = distance[index]
            sticky, shifted = Signal(name=f"lost_{1 << index}"), Signal(width, name=f"right_{1 << index}")
            m.d.comb += sticky.eq(lost | (shift & value[: 1 << index].any()))
            m.d.comb += shifted.eq(Mux(shift, value >> (1 << index), value))
            value, lost = shifted, sticky
        far = distance[steps:-1].any() & ~distance[-1]
        value &= ~far.replicate(width)
        whole, fraction = value[FRACTION_BITS:], value[:FRACTION_BITS]
        up = fraction[-1] & (fraction[:-1].any() | lost | whole[0])
        carry = (fraction + self.random[-FRACTION_BITS:])[FRACTION_BITS]
        kept = Signal(INTEGER_BITS + 1)
        m.d.comb += kept.eq(whole + Mux(self.stochastic, carry, up))
        return kept

    def _integer(self, m: Module, entry: IntFormat, kept: Any, exponent: Any, nan: Any) -> None:
        negative = self.number.sign
        limit = Mux(negative, -entry.minimum, entry.maximum)
        beyond = (exponent >= INTEGER_BITS) | (kept > limit)
        size = Mux(beyond, limit, kept)[:INTEGER_BITS]
        m.d.comb += self.code.eq(Mux(nan, 0, Mux(negative, -size, size)[: entry.width]))

    def _float(self, m: Module, entry: FloatFormat, kept: Any, exponent: Any, nan: Any, infinite: Any) -> None:
        steps = Signal(signed(12), name=f"steps_{entry.name}")
        field = Signal(11, name=f"field_{entry.name}")
        plain = Signal(11 + entry.mantissa_bits, name=f"plain_{entry.name}")
        body = Signal(entry.width - 1, name=f"body_{entry.name}")
        overflow = entry.infinity_pattern or entry.nan_pattern or entry.max_finite
        invalid = entry.nan_pattern or 0
        beyond = infinite | (plain > entry.max_finite)
        m.d.comb += [
            steps.eq(exponent - entry.exponent_min),
            field.eq(Mux(steps > 0, steps, 0)),
            # The hidden bit, or its absence in a subnormal, and a carry out of rounding all count into the exponent.
            plain.eq(Cat(C(0, entry.mantissa_bits), field) + kept),
            body.eq(Mux(beyond, Mux(self.saturate, entry.max_finite, overflow), plain)),
        ]
        minus = self.number.sign
        if entry.nan_pattern is None:
            sign = minus | nan
        else:
            sign = minus & ~nan
            if not entry.infinity:
                sign &= ~(beyond & ~self.saturate)
        word = Cat(Mux(nan, invalid, body)[: entry.width - 1], sign)
        m.d.comb += self.code.eq(Cat(C(0, entry.storage - entry.width), word))
