"""From the bits of a number to its parts, and to the internal form of the tensor engine."""

from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Array, C, Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.numerics.count import leading_zeros
from hdl.numerics.layouts import ZERO_EXPONENT, Operand
from spec.formats import FLOATS, SCALES, SIGNIFICAND_BITS, FloatFormat, IntFormat, ScaleFormat
from spec.numerics import DecodeConfig

EXPONENT = signed(9)
"""Exponents of every format, normalised subnormals of fp32 (-149) included."""


def storage_of(entry: FloatFormat | ScaleFormat | IntFormat) -> int:
    """Bits an element takes in memory."""
    return entry.storage if isinstance(entry, FloatFormat) else entry.width


def take_apart(m: Module, entry: FloatFormat | ScaleFormat | IntFormat, code: Any) -> Any:
    """Add the logic that takes ``code``, an element as it lies in memory, apart.

    The result's attributes are ``significand``, normalised and as wide as the format needs; ``exponent``, unbiased, of
    the significand's top bit; ``sign``; ``zero``; ``infinite``; ``nan``. The significand of zero is 0; otherwise
    significand and exponent mean nothing when one of the last three is set.
    """
    if isinstance(entry, FloatFormat):
        return _take_float_apart(m, entry, code[entry.storage - entry.width : entry.storage])
    if isinstance(entry, IntFormat):
        return _take_int_apart(m, entry, code[: entry.width])
    code = code[: entry.width]
    exponent = Signal(EXPONENT, name=f"{entry.name}_exponent")
    m.d.comb += exponent.eq(code - entry.bias)
    nan = code == entry.nan_pattern
    return SimpleNamespace(significand=C(1, 1), exponent=exponent, sign=C(0), zero=C(0), infinite=C(0), nan=nan)


def _take_float_apart(m: Module, entry: FloatFormat, code: Any) -> Any:
    mantissa, field = code[: entry.mantissa_bits], code[entry.mantissa_bits : -1]
    normal, fraction = field.any(), mantissa.any()
    special = field.all() if entry.infinity else C(0)
    zeros = leading_zeros(m, mantissa, f"{entry.name}_")
    exponent = Signal(EXPONENT, name=f"{entry.name}_exponent")
    significand = Signal(entry.mantissa_bits + 1, name=f"{entry.name}_significand")
    m.d.comb += [
        exponent.eq(Mux(normal, field, -zeros) - entry.bias),
        significand.eq(Mux(normal, Cat(mantissa, 1), mantissa << 1 << zeros)),
    ]
    return SimpleNamespace(
        significand=significand,
        exponent=exponent,
        sign=code[-1],
        zero=~normal & ~fraction,
        infinite=special & ~fraction,
        nan=special & fraction if entry.infinity else code[:-1].all() if entry.nan else C(0),
    )


def _take_int_apart(m: Module, entry: IntFormat, code: Any) -> Any:
    sign = code[-1] if entry.signed else C(0)
    magnitude = Signal(entry.width, name=f"{entry.name}_magnitude")
    exponent = Signal(EXPONENT, name=f"{entry.name}_exponent")
    zeros = leading_zeros(m, magnitude, f"{entry.name}_")
    m.d.comb += [magnitude.eq(Mux(sign, -code, code)), exponent.eq(entry.width - 1 - zeros)]
    return SimpleNamespace(
        significand=(magnitude << zeros)[: entry.width],
        exponent=exponent,
        sign=sign,
        zero=~magnitude.any(),
        infinite=C(0),
        nan=C(0),
    )


def decode(m: Module, entry: FloatFormat | ScaleFormat, code: Any) -> Any:
    """Add the logic that decodes ``code``, an element as it lies in memory, and return the :class:`Operand`."""
    parts = take_apart(m, entry, code)
    operand = Signal(Operand, name=f"{entry.name}_operand")
    m.d.comb += [
        operand.significand.eq(parts.significand << (SIGNIFICAND_BITS - len(parts.significand))),
        operand.exponent.eq(Mux(parts.zero, ZERO_EXPONENT, parts.exponent)),
        operand.sign.eq(parts.sign),
        operand.infinite.eq(parts.infinite),
        operand.nan.eq(parts.nan),
    ]
    return operand


class Decode(Block):
    """Decode an element of one of several formats, combinationally.

    ``code`` holds the element as it lies in memory, in its low bits; the bits above it are ignored, and so are the bits
    of a tf32 word below its mantissa. ``select`` is the position of the element's format in ``config.formats``; with
    one format there is no such port. A selector beyond the list decodes as the last format.
    """

    config: DecodeConfig

    def __init__(self, config: DecodeConfig) -> None:
        known: dict[str, FloatFormat | ScaleFormat] = {**FLOATS, **SCALES}
        self.formats = [known[name] for name in config.formats]
        ports = {"code": In(max(map(storage_of, self.formats))), "operand": Out(Operand)}
        if len(self.formats) > 1:
            ports["select"] = In(range(len(self.formats)))
        super().__init__(config, wiring.Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """Decode in parallel and select."""
        m = Module()
        operands = Array(decode(m, entry, self.code) for entry in self.formats)
        m.d.comb += self.operand.eq(operands[self.select] if len(self.formats) > 1 else operands[0])
        return m
