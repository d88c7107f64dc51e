"""``power`` and ``rsqrt``: the fixed-point pipeline that ``spec/power.py`` states, one cycle a line."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.numerics.layouts import Fp32
from hdl.numerics.normalise import normalise
from hdl.numerics.rounding import pack, shift_right_sticky
from hdl.scalar.delay import delay
from spec import power as spec
from spec.formats import FP32
from spec.vector import POWER_CYCLES, VectorConfig

MANTISSA, BIAS = FP32.mantissa_bits, FP32.bias
SIGNIFICAND = MANTISSA + 1
DISTANCE = SIGNIFICAND + spec.RECIPROCAL_BITS + 3
"""Bits of ``u * r``, and of its distance from 1 before the leading ones are cut."""
NEAR_DISTANCE = spec.DISTANCE_BITS - spec.LOG_INDEX_BITS + 1
"""Bits of ``f``, which is less than 2**-8, with its sign."""
EXP_VARIABLE = spec.PRODUCT_BITS - spec.EXP_INDEX_BITS
EXPONENT_BITS = 11
"""Of the result, before it becomes subnormal or infinite."""
MINUS_HALF = 0xBF000000


class Power(Block):
    """``result`` is ``a ** b``, with ``root`` ``1 / sqrt(a)``, of ``POWER_CYCLES`` cycles ago; free-running.

    Special values are those of C's ``pow`` and of ``1 / sqrt``; every bit is that of ``golden.vector.power``.
    """

    a: In(Fp32)
    b: In(Fp32)
    root: In(1)
    result: Out(Fp32)

    config: VectorConfig

    def __init__(self, config: VectorConfig) -> None:
        super().__init__(config)

    def elaborate(self, platform: Any) -> Module:
        """Logarithm, product, exponential; what needs no arithmetic travels beside them."""
        m = Module()
        b = Signal(Fp32, name="exponent")
        m.d.comb += b.as_value().eq(Mux(self.root, MINUS_HALF, self.b.as_value()))
        logarithm, near = self._logarithm(m)
        z = self._product(m, delay(m, b, 4, "b"), logarithm, near)
        value, exponent = self._exponential(m, z)
        self._round(m, value, exponent, delay(m, self._special(m, b), POWER_CYCLES - 1, "special"))
        return m

    def _logarithm(self, m: Module) -> tuple[Any, Any]:
        """Four cycles: ``log2(|a|)``, and whether it has the bits of a result near 1."""
        a = self.a
        normal = a.exponent.any()
        significand, zeros = normalise(m, Cat(a.mantissa, normal), "a")
        mantissa, exponent = significand[:MANTISSA], Signal(signed(10))
        m.d.comb += exponent.eq(Mux(normal, a.exponent, 1) - BIAS - zeros)
        index = mantissa[-spec.LOG_INDEX_BITS :]
        rows = [upper | scale << 1 | (log % (1 << 48)) << 12 for upper, scale, log in spec.log_rows()]
        table: Any = Memory(shape=60, depth=len(rows), init=rows)
        m.submodules.logarithms = table
        port = table.read_port()
        m.d.comb += port.addr.eq(index)
        mantissa, exponent = delay(m, mantissa, 1, "mantissa"), delay(m, exponent, 1, "e")
        upper, scale, log = port.data[0], port.data[1:12], port.data[12:].as_signed()

        product = Signal(DISTANCE)
        f = Signal(signed(NEAR_DISTANCE))
        e = Signal(signed(10))
        m.d.comb += [
            product.eq(Mux(upper, Cat(mantissa, 1) * scale, (Cat(mantissa, 1) * scale) << 1)),
            f.eq((product - (1 << spec.DISTANCE_BITS))[:NEAR_DISTANCE].as_signed()),
            e.eq(exponent + upper),
        ]
        ends = ~delay(m, index, 1, "index").any() | delay(m, index, 1, "last").all()
        near = delay(m, (e == 0) & ends, 3, "near")
        h: Any = C(spec.SERIES[-1], signed(spec.SERIES_BITS[-1] + 1))
        stages = {2: 0, 1: 1, 0: 0}  # cycles before each step of the series
        for degree, wait in stages.items():
            if wait:
                h, f = delay(m, h, wait, f"h_{degree + 1}"), delay(m, f, wait, f"f_{degree}")
            drop = spec.DISTANCE_BITS + spec.SERIES_BITS[degree + 1] - spec.SERIES_BITS[degree]
            step = Signal(signed(spec.SERIES_BITS[degree] + 2), name=f"sum_{degree}")
            m.d.comb += step.eq(spec.SERIES[degree] - (f * h >> drop))
            h = step
        h, f = delay(m, h, 1, "h"), delay(m, f, 1, "f")
        total = spec.DISTANCE_BITS + spec.SERIES_BITS[0]
        result = Signal(signed(spec.LOG_WIDTH + 1))
        rest = (delay(m, e, 2, "e_late") << spec.LOG_BITS) + delay(m, log, 2, "log")
        far = rest + (f * h >> total - spec.LOG_BITS)
        # The last of the four cycles: ``near`` still has one to go.
        chosen = delay(m, (e == 0) & ends, 2, "chosen")
        m.d.comb += result.eq(Mux(chosen, f * h >> total - spec.NEAR_BITS, far))
        return delay(m, result, 1, "logarithm"), near

    def _product(self, m: Module, b: Any, logarithm: Any, near: Any) -> Any:
        """Two cycles: ``b * logarithm``, enormous where it is beyond every result. The end is not yet in a register."""
        size = Signal(spec.LOG_WIDTH)
        m.d.comb += size.eq(Mux(logarithm < 0, -logarithm, logarithm))
        shifted, spare = normalise(m, size, "log")
        leading = shifted[-spec.LEADING_BITS :]
        normal = b.exponent.any()
        fixed = spec.LEADING_BITS - spec.LOG_WIDTH + BIAS + MANTISSA - spec.PRODUCT_BITS
        shift = Signal(signed(10))  # beyond the least
        places = Mux(near, spec.NEAR_BITS, spec.LOG_BITS)
        m.d.comb += shift.eq(fixed - spec.LEAST_SHIFT + places + spare - Mux(normal, b.exponent, 1))
        leading, shift = delay(m, leading, 1, "leading"), delay(m, shift, 1, "shift")
        significand = delay(m, Cat(b.mantissa, normal), 1, "significand")
        negative = delay(m, (logarithm < 0) ^ b.sign, 1, "negative")
        product = Signal(spec.LEADING_BITS + SIGNIFICAND)
        m.d.comb += product.eq(leading * significand)
        beyond = (shift < 0) & leading.any() & significand.any()
        width = spec.PRODUCT_BITS + EXPONENT_BITS
        magnitude = Signal(width)
        m.d.comb += magnitude.eq(product[spec.LEAST_SHIFT :] >> shift[:6])
        with m.If(beyond):
            m.d.comb += magnitude.eq(1 << width - 1)
        with m.Elif(shift > 63):
            m.d.comb += magnitude.eq(0)
        z = Signal(signed(width + 1))
        m.d.comb += z.eq(Mux(negative, -magnitude, magnitude))
        return z

    def _exponential(self, m: Module, z: Any) -> tuple[Any, Any]:
        """One cycle: the significand of ``2**z`` with its leading 1, and its exponent."""
        widths = [bits + 1 for bits in spec.EXP_BITS]
        rows = [c0 | c1 << widths[0] | c2 << widths[0] + widths[1] for c0, c1, c2 in spec.exp_rows()]
        table: Any = Memory(shape=sum(widths), depth=len(rows), init=rows)
        m.submodules.exponentials = table
        port = table.read_port()
        m.d.comb += port.addr.eq(z[EXP_VARIABLE : spec.PRODUCT_BITS])
        c0, rest = port.data[: widths[0]], port.data[widths[0] :]
        c1, c2 = rest[: widths[1]], rest[widths[1] :]
        t = Signal(signed(EXP_VARIABLE))
        m.d.comb += t.eq(delay(m, Cat(z[: EXP_VARIABLE - 1], ~z[EXP_VARIABLE - 1]), 1, "t").as_signed())
        high, middle, low = spec.EXP_BITS
        h = Signal(signed(middle + 2))
        y = Signal(high + 1)
        m.d.comb += [
            h.eq(c1 + (t * c2 >> spec.PRODUCT_BITS + low - middle)),
            y.eq(c0 + (t * h >> spec.PRODUCT_BITS + middle - high)),
        ]
        exponent = delay(m, z[spec.PRODUCT_BITS :], 2, "power").as_signed()
        return delay(m, y, 1, "y"), exponent

    def _special(self, m: Module, b: Any) -> Any:
        """Sign, and what takes the place of the result: NaN, 1, infinity, zero."""
        a = self.a
        zero = ~a.exponent.any() & ~a.mantissa.any()
        infinite, nan = (a.exponent.all() & (a.mantissa.any() == flag) for flag in (0, 1))
        one = (a.exponent == BIAS) & ~a.mantissa.any()
        b_zero = ~b.exponent.any() & ~b.mantissa.any()
        b_infinite, b_nan = (b.exponent.all() & (b.mantissa.any() == flag) for flag in (0, 1))
        # Places of the significand below the point; none are left of large numbers, all of those below 1.
        below = Signal(range(SIGNIFICAND + 1))
        m.d.comb += below.eq(SIGNIFICAND)
        with m.If(b.exponent >= BIAS + MANTISSA):
            m.d.comb += below.eq(0)
        with m.Elif(b.exponent >= BIAS):
            m.d.comb += below.eq(BIAS + MANTISSA - b.exponent)
        significand = Cat(b.mantissa, 1)
        whole = b_zero | ~(significand & ~((C((1 << SIGNIFICAND) - 1, SIGNIFICAND) << below)[:SIGNIFICAND])).any()
        lowest = (significand & (C(1, SIGNIFICAND) << below)[:SIGNIFICAND]).any()
        odd = whole & ~b_zero & (b.exponent <= BIAS + MANTISSA) & lowest
        boundless = (zero | infinite | b_infinite) & ~b_zero & ~one
        rises = (a.exponent >= BIAS) ^ b.sign
        root_nan = nan | (a.sign & ~zero)
        power_nan = (nan & ~b_zero) | (b_nan & ~(one & ~a.sign)) | (a.sign & ~zero & ~a.exponent.all() & ~whole)
        return Cat(
            Mux(self.root, root_nan, power_nan),
            Mux(self.root, a.sign, a.sign & odd),
            b_zero | (one & ~self.root),
            boundless & rises,
            boundless & ~rises,
        )

    def _round(self, m: Module, value: Any, exponent: Any, special: Any) -> None:
        """One cycle: round, subnormals shifted first; special values."""
        nan, sign, unity, infinite, zero = (special[index] for index in range(5))
        field = Signal(signed(EXPONENT_BITS + 2))
        m.d.comb += field.eq(exponent + BIAS)
        distance = Signal(EXPONENT_BITS + 2)
        m.d.comb += distance.eq(Mux(field < 1, 1 - field, 0))
        shifted = shift_right_sticky(m, "right", Cat(C(0, 1), value), distance)
        infinite = infinite | (field > 2 * BIAS)
        rounded = pack(m, shifted, field[:8], sign, infinite & ~unity & ~zero, nan)
        final = Signal(Fp32)
        m.d.comb += final.eq(rounded)
        with m.If(~nan & unity):
            m.d.comb += [final.exponent.eq(BIAS), final.mantissa.eq(0)]
        with m.Elif(~nan & zero):
            m.d.comb += [final.exponent.eq(0), final.mantissa.eq(0)]
        m.d.comb += self.result.eq(delay(m, final, 1, "rounded"))
