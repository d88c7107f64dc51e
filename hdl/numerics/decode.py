"""From the bits of a number to the internal form."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.numerics.layouts import ZERO_EXPONENT, Operand
from spec.formats import FLOATS, SCALES, SIGNIFICAND_BITS, FloatFormat, ScaleFormat
from spec.numerics import DecodeConfig


def _normalise(m: Module, name: str, significand: Any) -> tuple[Any, Any]:
    """``significand`` shifted until its top bit is 1, and by how much; log2(width) steps."""
    value = significand
    amount: list[Signal] = []
    width = len(significand)
    step = 1 << (width - 1).bit_length() >> 1
    while step:
        shift = Signal(name=f"{name}_by_{step}")
        shifted = Signal(width, name=f"{name}_to_{step}")
        m.d.comb += shift.eq(~value[width - step :].any())
        m.d.comb += shifted.eq(Mux(shift, value << step, value))
        value = shifted
        amount.insert(0, shift)
        step >>= 1
    return value, Cat(amount)


def decode(m: Module, entry: FloatFormat | ScaleFormat, code: Any) -> Signal:
    """Add the logic that decodes ``code``, the element as it lies in memory, and return the :class:`Operand`."""
    operand = Signal(Operand, name=f"operand_{entry.name}")
    if isinstance(entry, ScaleFormat):
        m.d.comb += [
            operand.nan.eq(code == entry.nan_pattern),
            operand.exponent.eq(code - entry.bias),
            operand.significand.eq(1 << (SIGNIFICAND_BITS - 1)),
        ]
        return operand
    mantissa_end = entry.storage - entry.width + entry.mantissa_bits
    mantissa = code[entry.storage - entry.width : mantissa_end]
    field = code[mantissa_end : mantissa_end + entry.exponent_bits]
    normal = field.any()
    special = field.all() if entry.infinity else 0
    exponent = Signal(signed(10), name=f"exponent_{entry.name}")
    normalised, amount = _normalise(m, f"subnormal_{entry.name}", mantissa)
    m.d.comb += [
        exponent.eq(Mux(normal, field, -amount) - entry.bias),
        operand.sign.eq(code[entry.storage - 1]),
        operand.infinite.eq(special & ~mantissa.any()),
        operand.significand[SIGNIFICAND_BITS - 1].eq(normal | mantissa.any()),
        operand.exponent.eq(Mux(normal | mantissa.any(), exponent, ZERO_EXPONENT)),
    ]
    fraction = operand.significand[SIGNIFICAND_BITS - 1 - entry.mantissa_bits : SIGNIFICAND_BITS - 1]
    m.d.comb += fraction.eq(Mux(normal, mantissa, normalised << 1))
    if entry.infinity:
        m.d.comb += operand.nan.eq(special & mantissa.any())
    elif entry.nan:
        m.d.comb += operand.nan.eq(Cat(mantissa, field).all())
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
        ports = {
            "code": In(max(entry.storage if isinstance(entry, FloatFormat) else entry.width for entry in self.formats)),
            "operand": Out(Operand),
        }
        if len(self.formats) > 1:
            ports["select"] = In(range(len(self.formats)))
        super().__init__(config, wiring.Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """Decode in parallel and select."""
        m = Module()
        operands = Array(decode(m, entry, self.code) for entry in self.formats)
        m.d.comb += self.operand.eq(operands[self.select] if len(self.formats) > 1 else operands[0])
        return m
