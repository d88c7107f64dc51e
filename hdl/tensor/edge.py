"""The decoder at the edge of the array: operands of every format built in, and halves of fp32 numbers."""

from typing import Any

from amaranth.hdl import Array, Module, Mux, Signal
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block
from hdl.numerics import Operand
from hdl.numerics.count import leading_zeros
from hdl.numerics.decode import decode, take_apart
from hdl.numerics.layouts import ZERO_EXPONENT
from hdl.tensor.operands import bits_of, element_layout, narrowed
from spec.formats import FLOATS, FP32, SIGNIFICAND_BITS
from spec.tensor import BITS, FP32_HALVES, PAIRS, QUADS, TensorConfig


def decode_halves(m: Module, code: Any) -> dict[str, Any]:
    """Add the logic that splits an fp32 number into ``high + low``, 12 significant bits each, and return both.

    ``high`` is the number cut off after 12 significant bits. Infinities and NaNs are in ``high`` alone.
    """
    parts = take_apart(m, FP32, code)
    special = parts.infinite | parts.nan
    rest = parts.significand[:SIGNIFICAND_BITS]
    zeros = leading_zeros(m, rest, "fp32_low_")
    high, low = (Signal(Operand, name=f"{name}_operand") for name in FP32_HALVES)
    m.d.comb += [
        high.significand.eq(parts.significand[SIGNIFICAND_BITS:]),
        high.exponent.eq(Mux(parts.zero, ZERO_EXPONENT, parts.exponent)),
        high.sign.eq(parts.sign),
        high.infinite.eq(parts.infinite),
        high.nan.eq(parts.nan),
        low.exponent.eq(ZERO_EXPONENT),
        low.sign.eq(parts.sign),
    ]
    with m.If(rest.any() & ~special):
        m.d.comb += [
            low.significand.eq(rest << zeros),
            low.exponent.eq(parts.exponent - SIGNIFICAND_BITS - zeros),
        ]
    return dict(zip(FP32_HALVES, (high, low), strict=True))


class EdgeDecoder(Block):
    """``operand`` is ``code`` decoded as ``config.operands[select]``, combinationally.

    ``code`` holds the element as it lies in memory, in its low bits, and a scale above ``operand_bits``.
    """

    config: TensorConfig

    def __init__(self, config: TensorConfig) -> None:
        ports = {
            "code": In(config.edge_bits),
            "select": In(range(max(2, len(config.operands)))),
            "operand": Out(element_layout(config)),
        }
        super().__init__(config, Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """Decode in parallel and select."""
        m = Module()
        decoded = {name: decode(m, FLOATS[name], self.code) for name in self.config.formats if name != FP32.name}
        if FP32.name in self.config.formats:
            decoded |= decode_halves(m, self.code)
        for packed, name in {**PAIRS, **QUADS}.items():
            if packed in self.config.operands:
                decoded[packed] = decoded[name]
        for name in BITS:
            if name in self.config.operands:
                decoded[name] = self._take_bits(m, name)
        m.d.comb += self.operand.first.eq(Array(decoded[name] for name in self.config.operands)[self.select])
        if self.config.double_row or self.config.microscaling:
            self._decode_others(m)
        if self.config.transpose:
            moved = Array(name in BITS for name in self.config.operands)
            m.d.comb += self.operand.moved.eq(moved[self.select])
        return m

    def _take_bits(self, m: Module, name: str) -> Signal:
        """The element's bits, or one half of them, as they are."""
        operand = Signal(Operand, name=f"{name}_operand")
        bits, code = bits_of(operand), self.code[: BITS[name]]
        upper = name == "bits32_high"
        m.d.comb += [bits.value.eq(code[16:] if upper else code[:16]), bits.upper.eq(upper), bits.any.eq(code.any())]
        return operand

    def _decode_others(self, m: Module) -> None:
        """The other numbers of a pair or of four, above the first, and the scale above them all."""
        config, operand = self.config, self.operand
        names = ("second", "third", "fourth") if config.microscaling else ("second",)
        numbers = [Signal(Operand, name=f"{name}_operand") for name in names]
        with m.Switch(self.select):
            for position, packed in enumerate(config.operands):
                if packed not in PAIRS and packed not in QUADS:
                    continue
                entry = FLOATS[{**PAIRS, **QUADS}[packed]]
                with m.Case(position):
                    for index, number in enumerate(numbers[: 1 if packed in PAIRS else 3], start=1):
                        code = self.code[index * entry.storage : (index + 1) * entry.storage]
                        m.d.comb += number.eq(decode(m, entry, code))
                    m.d.comb += (operand.paired if packed in PAIRS else operand.quad).eq(1)
        m.d.comb += [operand[name].eq(narrowed(m, number)) for name, number in zip(names, numbers, strict=True)]
        if config.microscaling:
            m.d.comb += operand.scale.eq(self.code[config.operand_bits :])
