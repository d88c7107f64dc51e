"""fp32 multiplication."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.numerics.count import leading_zeros
from hdl.numerics.layouts import Fp32
from hdl.numerics.pipeline import Pipeline
from hdl.numerics.rounding import SIGNIFICAND_BITS, pack, shift_right_sticky
from spec.formats import FP32
from spec.numerics import MultiplyConfig

REGISTERS = {
    1: ("packed",),
    2: ("multiplied", "packed"),
    3: ("partial", "multiplied", "packed"),
    4: ("normalised", "partial", "multiplied", "packed"),
    5: ("normalised", "partial", "multiplied", "aligned", "packed"),
}
"""Cut points that hold a register, by latency."""

EXPONENT = signed(11)
"""Exponent fields of a product before it is known whether they fit: -299 to 383."""


class Multiply(Block):
    """``result = fp32(a * b)``, rounded to nearest even, ``config.stages`` cycles later.

    Subnormals are honoured, overflow gives an infinity, NaN or an infinity times zero gives the canonical NaN.
    """

    a: In(Fp32)
    b: In(Fp32)
    result: Out(Fp32)

    config: MultiplyConfig

    def __init__(self, config: MultiplyConfig) -> None:
        super().__init__(config)

    def elaborate(self, platform: Any) -> Module:
        """Normalise the factors, multiply them, shift what is too small, round."""
        m = Module()
        pipeline = Pipeline(m, REGISTERS[self.config.stages])
        a, b = (self._normalise(m, name, factor) for name, factor in (("a", self.a), ("b", self.b)))
        field = Signal(EXPONENT)  # of a significand product below 2
        m.d.comb += field.eq(a["exponent"] + b["exponent"] - FP32.bias)
        behind = pipeline.cut(
            "normalised",
            a=a["significand"],
            b=b["significand"],
            field=field,
            sign=self.a.sign ^ self.b.sign,
            infinite=a["infinite"] | b["infinite"],
            nan=a["nan"] | b["nan"] | (a["infinite"] & b["zero"]) | (a["zero"] & b["infinite"]),
        )
        half = SIGNIFICAND_BITS // 2
        rest = {name: getattr(behind, name) for name in ("field", "sign", "infinite", "nan")}
        behind = pipeline.cut("partial", low=behind.a * behind.b[:half], high=behind.a * behind.b[half:], **rest)
        rest = {name: getattr(behind, name) for name in rest}
        product = (behind.low + (behind.high << half))[: 2 * SIGNIFICAND_BITS]
        behind = pipeline.cut("multiplied", product=product, **rest)

        above = behind.product[-1]
        value = Mux(above, behind.product, behind.product << 1)[: 2 * SIGNIFICAND_BITS]
        field, distance = Signal(EXPONENT, name="own_field"), Signal(EXPONENT)
        m.d.comb += [field.eq(behind.field + above), distance.eq(1 - field)]
        too_small = ~distance[-1] & distance.any()
        right = distance[:-1] & too_small.replicate(len(distance) - 1)
        behind = pipeline.cut(
            "aligned",
            value=shift_right_sticky(m, "right", value, right),
            field=field[: FP32.exponent_bits],
            infinite=behind.infinite | (~too_small & (field >= 255)),
            sign=behind.sign,
            nan=behind.nan,
        )
        result = pack(m, behind.value, behind.field, behind.sign, behind.infinite, behind.nan)
        m.d.comb += self.result.eq(pipeline.cut("packed", result=result).result)
        return m

    @staticmethod
    def _normalise(m: Module, name: str, factor: Any) -> dict[str, Any]:
        """A factor with the top bit of its significand set; the exponent of a subnormal goes below 1."""
        normal, top, fraction = factor.exponent.any(), factor.exponent.all(), factor.mantissa.any()
        zeros = leading_zeros(m, factor.mantissa, f"{name}_")
        exponent = Signal(signed(10), name=f"{name}_exponent")
        significand = Signal(SIGNIFICAND_BITS, name=f"{name}_significand")
        m.d.comb += [
            exponent.eq(Mux(normal, factor.exponent, -zeros)),
            significand.eq(Mux(normal, Cat(factor.mantissa, 1), factor.mantissa << 1 << zeros)),
        ]
        return {
            "significand": significand,
            "exponent": exponent,
            "zero": ~normal & ~fraction,
            "infinite": top & ~fraction,
            "nan": top & fraction,
        }
