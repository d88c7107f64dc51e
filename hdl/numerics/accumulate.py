"""An fp32 number plus an exact product, rounded once."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.numerics.layouts import PRODUCT_BITS, Fp32, Product
from hdl.numerics.pipeline import Pipeline
from spec.formats import FP32
from spec.numerics import AddConfig

REGISTERS = {
    1: ("packed",),
    2: ("added", "packed"),
    3: ("aligned", "half", "packed"),
    4: ("aligned", "added", "half", "packed"),
    5: ("compared", "aligned", "added", "half", "packed"),
    6: ("compared", "aligned", "added", "half", "normalised", "packed"),
}
"""Cut points that hold a register, by latency."""

GUARD_BITS = 3
"""Below the last kept bit: guard, round and sticky. Terms at most one place apart may cancel many bits but need only the
guard; others cancel at most one."""

SUM_BITS = 1 + PRODUCT_BITS + GUARD_BITS
"""The aligned sum with its carry."""


class Accumulate(Block):
    """``result = fp32(addend + product)``: one rounding to nearest even, ``config.stages`` cycles later.

    The product may lie outside fp32's range in either direction; only the sum is rounded. Subnormals are honoured,
    overflow gives an infinity, an exact zero sum is +0 unless both terms are negative, NaN or ``inf - inf`` gives the
    canonical NaN.
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
        pipeline = Pipeline(m, REGISTERS[self.config.stages])
        behind = self._compare(m, pipeline)
        behind = self._align(m, pipeline, behind)
        behind = self._add(m, pipeline, behind)
        behind = self._normalise(m, pipeline, behind)
        m.d.comb += self.result.eq(self._pack(m, pipeline, behind))
        return m

    def _compare(self, m: Module, pipeline: Pipeline) -> Any:
        """Which term has the larger exponent, by how much, and whether the result is special."""
        addend, product = self.addend, self.product
        exponent = Signal(FP32.exponent_bits)  # subnormals share the exponent of the smallest normal number
        difference = Signal(signed(12))
        top = addend.exponent.all()
        infinite = Signal()
        subtract = Signal()
        m.d.comb += [
            exponent.eq(Cat(addend.exponent[0] | ~addend.exponent.any(), addend.exponent[1:])),
            difference.eq(exponent - product.exponent),
            infinite.eq(top & ~addend.mantissa.any()),
            subtract.eq(addend.sign ^ product.sign),
        ]
        return pipeline.cut(
            "compared",
            addend=Cat(addend.mantissa, addend.exponent.any()),
            product=product.significand,
            swap=difference[-1],
            # With the product larger the distance is the complement plus one. The alignment adds that one.
            distance=difference[:-1] ^ difference[-1].replicate(len(difference) - 1),
            exponent=Mux(difference[-1], product.exponent, exponent)[:9],
            subtract=subtract,
            sign=Mux(difference[-1], product.sign, addend.sign),
            infinite=infinite | product.infinite,
            infinite_sign=Mux(infinite, addend.sign, product.sign),
            nan=product.nan | (top & addend.mantissa.any()) | (infinite & product.infinite & subtract),
        )

    def _align(self, m: Module, pipeline: Pipeline, behind: Any) -> Any:
        """Shift the term with the smaller exponent to the larger, what falls out remembered in the sticky bit."""
        small = Signal(PRODUCT_BITS + GUARD_BITS)
        m.d.comb += small.eq(Mux(behind.swap, behind.addend << (GUARD_BITS - 1), behind.product << GUARD_BITS))
        value, lost = small, C(0, 1)
        steps = (len(small) - 1).bit_length()
        for index in reversed(range(steps)):
            shift = behind.distance[index]
            lost |= shift & value[: 1 << index].any()
            shifted = Signal(len(small), name=f"right_{1 << index}")
            m.d.comb += shifted.eq(Mux(shift, value >> (1 << index), value))
            value = shifted
        beyond = behind.distance[steps:].any()
        aligned = Signal(len(small))
        sticky = Mux(beyond, small.any(), lost | value[0])
        m.d.comb += aligned.eq(Cat(sticky, value[1:] & ~beyond.replicate(len(value) - 1)))
        return pipeline.cut(
            "aligned",
            large=Mux(behind.swap, behind.product, behind.addend),
            small=aligned,
            **_pick(behind, "exponent", "subtract", "sign", "infinite", "infinite_sign", "nan"),
        )

    def _add(self, m: Module, pipeline: Pipeline, behind: Any) -> Any:
        """Magnitude and sign of the sum."""
        large = Cat(C(0, GUARD_BITS), behind.large)
        total = Signal(SUM_BITS)
        forward = Signal(signed(SUM_BITS))
        backward = Signal(SUM_BITS)
        m.d.comb += [
            total.eq(large + behind.small),
            forward.eq(large - behind.small),
            backward.eq(behind.small - large),
        ]
        magnitude = Mux(behind.subtract, Mux(forward[-1], backward, forward), total)
        cancelled = behind.subtract & (forward == 0)
        return pipeline.cut(
            "added",
            magnitude=magnitude[:SUM_BITS],
            sign=Mux(
                behind.infinite, behind.infinite_sign, (behind.sign ^ (behind.subtract & forward[-1])) & ~cancelled
            ),
            **_pick(behind, "exponent", "infinite", "nan"),
        )

    def _normalise(self, m: Module, pipeline: Pipeline, behind: Any) -> Any:
        """Shift left until the top bit is 1 or the exponent is the smallest one."""
        value, exponent = behind.magnitude, behind.exponent
        steps = (SUM_BITS - 1).bit_length()
        # The shift is limited by the exponent; ``free`` once the exponent is known to exceed what is left to shift.
        free = exponent[steps:].any()
        shifts: list[Any] = []
        for index in reversed(range(steps)):
            shift = Signal(name=f"shift_{1 << index}")
            shifted = Signal(SUM_BITS, name=f"left_{1 << index}")
            m.d.comb += shift.eq(~value[SUM_BITS - (1 << index) :].any() & (free | exponent[index]))
            m.d.comb += shifted.eq(Mux(shift, value << (1 << index), value))
            free |= exponent[index] & ~shift
            value = shifted
            shifts.insert(0, shift)
            if index == 3:
                half = pipeline.cut(
                    "half",
                    value=value,
                    exponent=exponent,
                    free=free,
                    shifts=Cat(shifts),
                    **_pick(behind, "sign", "infinite", "nan"),
                )
                value, exponent, free = half.value, half.exponent, half.free
                shifts = list(half.shifts)
        return pipeline.cut(
            "normalised",
            value=value,
            exponent=(exponent + 1 - Cat(shifts))[:9],
            **_pick(half, "sign", "infinite", "nan"),
        )

    def _pack(self, m: Module, pipeline: Pipeline, behind: Any) -> Any:
        """Round to nearest even and put the special values in place."""
        value = behind.value
        hidden = value[-1]
        kept = value[GUARD_BITS + 1 : -1]
        guard, rest = value[GUARD_BITS], value[:GUARD_BITS].any()
        overflow = hidden & (behind.exponent[-1] | behind.exponent[:8].all())
        # One increment carries from the mantissa into the exponent: subnormal to normal, largest number to infinity.
        rounded = Signal(FP32.width - 1)
        m.d.comb += rounded.eq(Cat(kept, behind.exponent[:8] & hidden.replicate(8)) + (guard & (rest | kept[0])))
        infinite = behind.infinite | overflow
        special = infinite | behind.nan
        result = Signal(Fp32)
        m.d.comb += [
            result.sign.eq(behind.sign & ~behind.nan),
            result.exponent.eq(rounded[FP32.mantissa_bits :] | special.replicate(8)),
            result.mantissa.eq(rounded[: FP32.mantissa_bits] & ~special.replicate(FP32.mantissa_bits)),
            result.mantissa[-1].eq((rounded[FP32.mantissa_bits - 1] & ~special) | behind.nan),
        ]
        return pipeline.cut("packed", result=result).result


def _pick(signals: Any, *names: str) -> dict[str, Any]:
    """Some attributes as keywords."""
    return {name: getattr(signals, name) for name in names}
