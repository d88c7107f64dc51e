"""An fp32 number plus an exact product, rounded once."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.numerics.count import leading_zeros
from hdl.numerics.layouts import PRODUCT_BITS, Fp32, Product
from hdl.numerics.pipeline import Pipeline
from hdl.numerics.rounding import pack, shift_right_sticky
from spec.formats import FP32
from spec.numerics import AddConfig

REGISTERS = {
    1: ("packed",),
    2: ("added", "packed"),
    3: ("aligned", "counted", "packed"),
    4: ("aligned", "added", "counted", "packed"),
    5: ("compared", "aligned", "added", "counted", "packed"),
    6: ("compared", "aligned", "added", "counted", "normalised", "packed"),
}
"""Cut points that hold a register, by latency: the choices with the shallowest deepest stage."""

GUARD_BITS = 3
"""Below the last kept bit: guard, round and sticky. Terms at most one place apart may cancel many bits but need only
the guard; others cancel at most one."""

SUM_BITS = 1 + PRODUCT_BITS + GUARD_BITS
"""The aligned sum with its carry."""


class Accumulate(Block):
    """``result = fp32(addend + product)``: one rounding to nearest even, ``config.stages`` cycles later, or one less
    where the result is not ``registered``.

    The product may lie outside fp32's range in either direction; only the sum is rounded. A product with exponent 0
    need not be normalised: an fp32 number can take its place, see :func:`term`. Subnormals are honoured, overflow gives
    an infinity, an exact zero sum is +0 unless both terms are negative, NaN or ``inf - inf`` gives the canonical NaN.
    """

    addend: In(Fp32)
    product: In(Product)
    result: Out(Fp32)

    config: AddConfig

    def __init__(self, config: AddConfig) -> None:
        super().__init__(config)

    def elaborate(self, platform: Any) -> Module:
        """Compare, align, add, normalise, round."""
        m = Module()
        registers = REGISTERS[self.config.stages]
        pipeline = Pipeline(m, registers if self.config.registered else registers[:-1])
        behind = self._compare(m, pipeline)
        behind = self._align(m, pipeline, behind)
        behind = self._add(m, pipeline, behind)
        behind = self._normalise(m, pipeline, behind)
        result = pack(m, behind.value, behind.field, behind.sign, behind.infinite, behind.nan)
        m.d.comb += self.result.eq(pipeline.cut("packed", result=result).result)
        return m

    def _compare(self, m: Module, pipeline: Pipeline) -> Any:
        """Which term has the larger exponent, by how much, and whether the result is special."""
        addend, product = self.addend, self.product
        # A subnormal takes exponent 0 as it stands and a significand one place further left: no detour of the exponent.
        normal = addend.exponent.any()
        top = addend.exponent.all()
        infinite = top & ~addend.mantissa.any()
        subtract = addend.sign ^ product.sign
        difference = Signal(signed(12))
        m.d.comb += difference.eq(addend.exponent - product.exponent)
        return pipeline.cut(
            "compared",
            addend=Mux(normal, Cat(addend.mantissa, 1), Cat(0, addend.mantissa)),
            product=product.significand,
            swap=difference[-1],
            # With the product larger the distance is the complement plus one. The alignment adds that one.
            distance=difference[:-1] ^ difference[-1].replicate(len(difference) - 1),
            exponent=Mux(difference[-1], product.exponent, addend.exponent)[:9],
            subtract=subtract,
            sign=Mux(difference[-1], product.sign, addend.sign),
            infinite=infinite | product.infinite,
            infinite_sign=Mux(infinite, addend.sign, product.sign),
            nan=product.nan | (top & addend.mantissa.any()) | (infinite & product.infinite & subtract),
        )

    def _align(self, m: Module, pipeline: Pipeline, behind: Any) -> Any:
        """Shift the term with the smaller exponent to the larger, what falls out remembered in the lowest bit."""
        small = Signal(PRODUCT_BITS + GUARD_BITS)
        m.d.comb += small.eq(Mux(behind.swap, behind.addend << (GUARD_BITS - 1), behind.product << GUARD_BITS))
        return pipeline.cut(
            "aligned",
            large=Mux(behind.swap, behind.product, behind.addend),
            small=shift_right_sticky(m, "right", small, behind.distance),
            **_pick(behind, "exponent", "subtract", "sign", "infinite", "infinite_sign", "nan"),
        )

    def _add(self, m: Module, pipeline: Pipeline, behind: Any) -> Any:
        """Magnitude of the sum, and its sign unless it is zero."""
        # Only ``small`` has bits below the last place. To borrow for them makes the places above ``large - small - 1``;
        # should the difference be negative, its magnitude is the complement of that, borrowed or not.
        below, above = behind.small[:GUARD_BITS], behind.small[GUARD_BITS:]
        flip = behind.subtract.replicate(len(above))
        borrowing = Signal(PRODUCT_BITS + 1)
        plain = Signal(PRODUCT_BITS + 1)
        m.d.comb += [
            borrowing.eq(behind.large + (above ^ flip)),
            plain.eq((Cat(1, behind.large) + Cat(1, above ^ flip))[1:]),
        ]
        negative = behind.subtract & ~borrowing[-1]
        complete = behind.subtract & ~below.any()
        places = Mux(complete, plain, borrowing)[:-1]
        places = Mux(negative, ~borrowing[:-1], places)
        magnitude = Cat(
            Mux(behind.subtract & ~negative, (-below)[:GUARD_BITS], below), places, borrowing[-1] & ~behind.subtract
        )
        return pipeline.cut(
            "added",
            magnitude=magnitude,
            sign=Mux(behind.infinite, behind.infinite_sign, behind.sign ^ negative),
            **_pick(behind, "subtract", "exponent", "infinite", "nan"),
        )

    def _normalise(self, m: Module, pipeline: Pipeline, behind: Any) -> Any:
        """Shift left until the top bit is 1 or the exponent is the smallest one."""
        magnitude, exponent = behind.magnitude, behind.exponent
        # A mark where the exponent would become the smallest one stops the count there.
        mark = Signal(SUM_BITS)
        m.d.comb += mark.eq(C(1 << SUM_BITS >> 1, SUM_BITS) >> exponent)
        behind = pipeline.cut(
            "counted",
            magnitude=magnitude,
            shift=leading_zeros(m, magnitude | mark),
            exponent=exponent,
            sign=behind.sign & (magnitude.any() | behind.infinite | ~behind.subtract),
            **_pick(behind, "infinite", "nan"),
        )
        field = Signal(signed(10))  # the result's, if its top bit is 1
        excess = Signal(signed(10))
        m.d.comb += [field.eq((behind.exponent + 1) - behind.shift), excess.eq((behind.exponent - 254) - behind.shift)]
        return pipeline.cut(
            "normalised",
            value=(behind.magnitude << behind.shift)[:SUM_BITS],
            field=field[: FP32.exponent_bits],
            infinite=behind.infinite | ~excess[-1],
            **_pick(behind, "sign", "nan"),
        )


def term(m: Module, name: str, number: Any) -> Any:
    """An fp32 number in the form of a product."""
    product = Signal(Product, name=name)
    normal, top, fraction = number.exponent.any(), number.exponent.all(), number.mantissa.any()
    m.d.comb += [
        product.significand.eq(Mux(normal, Cat(number.mantissa, 1), number.mantissa << 1)),
        product.exponent.eq(number.exponent),
        product.sign.eq(number.sign),
        product.infinite.eq(top & ~fraction),
        product.nan.eq(top & fraction),
    ]
    return product


def _pick(signals: Any, *names: str) -> dict[str, Any]:
    """Some attributes as keywords."""
    return {name: getattr(signals, name) for name in names}
