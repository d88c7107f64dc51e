"""The scalar engine's functions in numpy, bit for bit: ``evaluate(name, x)``.

Shapes: any; ``x`` is float32 and so is the result. The order of operations and the roundings are those of
``spec/functions.py``: every fp32 operation below is one numpy operation on float32 arrays, the rest moves bits.
"""

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from spec import tables
from spec.functions import (
    BASES,
    ORIGINS,
    TAIL_CONSTANT_FRACTION,
    TAIL_FRACTION_BITS,
    TAIL_INDEX_BITS,
    TAIL_LIMIT,
    TAIL_OPERAND_BITS,
    Function,
    function_named,
)

Array = npt.NDArray[np.float32]
Bits = npt.NDArray[np.int32]

BLOCK = 1 << 14
"""Elements evaluated at a time: all temporaries stay in the cache."""

NAN = np.uint32(0x7FC00000).view(np.float32)
MANTISSA = (1 << 23) - 1
INFINITY = 0x7F800000
HALF_PRODUCT = TAIL_OPERAND_BITS // 2
SMALLEST_NORMAL = 1 << 23
SIGN = np.int32(-(1 << 31))
ONE = np.float32(1)
OVERFLOW_WEIGHT = 8
"""``|x|`` or ``x * x`` of 2**8 and more is beyond every representable result."""
LEAST_POWER = -149
POWERS = np.ldexp(ONE, np.arange(LEAST_POWER, 128))
"""Every power of two that fp32 has."""


class Evaluator:
    """One table as arrays. Build it from any :class:`~spec.tables.FunctionTable`, also one under construction."""

    def __init__(self, table: tables.FunctionTable, tail: tables.TailTable | None = None) -> None:
        self.function: Function = function_named(table.function)
        self.table = table
        self.sides = len(table.sides)
        self.slots = self._slots()
        self.origin = self._origins()
        segments = table.segments
        self.shift = np.array([segment.shift for segment in segments], np.int32)
        self.tailed = np.array([-segment.tail for segment in segments], np.int32)
        bases = np.array([segment.base for segment in segments], np.int32)
        self.bases = {
            name: np.where(bases == code, np.int32(-1), np.int32(0)) for code, name in enumerate(BASES) if code in bases
        }
        self.coefficients = {
            name: np.array([getattr(segment, name) for segment in segments], np.uint32).view(np.float32)
            for name in tables.COEFFICIENTS
        }
        factors = [self.coefficients[name].any() for name in ("c3", "c2", "c1", "lo")]
        highest = self.coefficients["hi"]
        plain = list(self.bases) == ["hi"] and not any(factors) and (highest == highest[0]).all()
        self.constant = highest[0] if plain else None
        """What the polynomial is in every segment, where that is one number: of pure exponentials."""
        self.log = np.array(tables.log_table(), np.uint32).view(np.float32)
        if self.tailed.any():
            rows = np.array((tail or tables.tail_table()).rows, np.uint32).view(np.float32)
            self.tail = [np.ascontiguousarray(column) for column in rows.T]

    def _slots(self) -> npt.NDArray[np.intp]:
        """The number of the segment for every side, exponent and leading mantissa bits: both levels in one."""
        slot = np.arange(1 << (8 + tables.INDEX_BITS))
        found = []
        for side in self.table.sides:
            pieces = [
                start + (np.arange(1 << tables.INDEX_BITS) >> (tables.INDEX_BITS - bits))
                for start, bits in side.binades
            ]
            content = np.concatenate(pieces)
            found.append(content[np.clip(slot - (side.first << tables.INDEX_BITS), 0, len(content) - 1)])
        return np.concatenate(found).astype(np.intp)

    def _origins(self) -> Array:
        """The expansion point of every segment, as the hardware makes it from the argument's leading bits."""
        origins = np.zeros(len(self.table.segments), np.float32)
        for content in self.table.sides:
            for index, (start, bits) in enumerate(content.binades):
                for piece in range(1 << bits):
                    pattern = (content.first + index) << 23 | (2 * piece + 1) << (22 - bits)
                    kind = ORIGINS[self.table.segments[start + piece].origin]
                    value = {"centre": pattern, "root": self.table.root, "zero": 0}[kind]
                    origins[start + piece] = np.uint32(value).view(np.float32)
        return origins

    def __call__(self, x: Array) -> Array:
        """Values for float32 of any shape."""
        flat = np.ascontiguousarray(x, np.float32).reshape(-1)
        out = np.empty_like(flat)
        with np.errstate(all="ignore"):
            for start in range(0, len(flat), BLOCK):
                out[start : start + BLOCK] = self._block(flat[start : start + BLOCK])
        return out.reshape(np.shape(x))

    def segment_of(self, x: Array) -> npt.NDArray[np.intp]:
        """Numbers of the segments that arguments fall into."""
        bits = x.view(np.int32)
        v, _, side = self._reduce(bits, bits & 0x7FFFFFFF)
        return self._segment(v.view(np.int32), side)

    def _block(self, x: Array) -> Array:
        bits = x.view(np.int32)
        magnitude = bits & 0x7FFFFFFF
        v, exponent, side = self._reduce(bits, magnitude)
        segment = self._segment(v.view(np.int32), side)
        y = self._polynomial(v, segment, exponent)
        scale = _take(self.shift, segment) if self.shift.any() else None
        if exponent is not None and "log" not in self.bases:
            scale = exponent if scale is None else scale + exponent
        if self.tailed.any():
            y, scale = self._times_tail(y, scale, bits, magnitude, segment)
        if scale is not None:
            y = _scaled(y, scale)
        if self.function.symmetry == "odd":
            y = (y.view(np.int32) ^ (bits & SIGN)).view(np.float32)
        return self._specials(y, x, magnitude)

    def _reduce(self, bits: Bits, magnitude: Bits) -> tuple[Array, Bits | None, Bits | None]:
        """The polynomial's variable, the exponent taken out, and the side where the table has two."""
        kind = self.function.reduction
        if kind == "none":
            return magnitude.view(np.float32), None, (bits >> 31) & 1 if self.sides == 2 else None
        exponent, mantissa = (magnitude >> 23) - 127, magnitude & MANTISSA
        if magnitude.min(initial=SMALLEST_NORMAL) < SMALLEST_NORMAL:
            subnormal = magnitude < SMALLEST_NORMAL
            fraction, power = np.frexp(magnitude.view(np.float32))
            normal = (fraction * np.float32(2)).view(np.int32)
            exponent = np.where(subnormal, power - 1, exponent).astype(np.int32)
            mantissa = np.where(subnormal, normal, magnitude) & MANTISSA
        if kind == "reciprocal":
            return (mantissa | (127 << 23)).view(np.float32), -exponent, None
        if kind == "log":
            upper = mantissa >> 22
            exponent = exponent + upper
            return (mantissa | ((127 - upper) << 23)).view(np.float32), exponent, (exponent != 0).astype(np.int32)
        odd = exponent & 1
        power = exponent >> 1
        return (mantissa | ((127 + odd) << 23)).view(np.float32), -power if kind == "rsqrt" else power, None

    def _segment(self, pattern: Bits, side: Bits | None) -> npt.NDArray[np.intp]:
        """Number of the segment: side, exponent and leading mantissa bits choose it."""
        slot = pattern >> (23 - tables.INDEX_BITS)
        if side is not None:
            slot |= side << (8 + tables.INDEX_BITS)
        found: npt.NDArray[np.intp] = _take(self.slots, slot.astype(np.intp))
        return found

    def _polynomial(self, v: Array, segment: npt.NDArray[np.intp], exponent: Bits | None) -> Array:
        """Horner's rule, and the large term."""
        if self.constant is not None:
            return np.full_like(v, self.constant)
        t = v - _take(self.origin, segment)
        p: Array = _take(self.coefficients["c3"], segment)
        p *= t
        p += _take(self.coefficients["c2"], segment)
        p *= t
        p += _take(self.coefficients["c1"], segment)
        p *= t
        return self._sum(p, v, t, segment, exponent)

    def _sum(self, p: Array, v: Array, t: Array, segment: npt.NDArray[np.intp], exponent: Bits | None) -> Array:
        """Add the large term, which depends on the segment's base."""
        hi, lo = _take(self.coefficients["hi"], segment), _take(self.coefficients["lo"], segment)
        term = hi
        for name, variable in (("v", v), ("t", t)):
            if name in self.bases:
                signed = variable.view(np.int32) ^ (hi.view(np.int32) & SIGN)
                term = _chosen(_take(self.bases[name], segment), signed.view(np.float32), term)
        if "log" in self.bases:
            assert exponent is not None
            logs = _take(self.bases["log"], segment)
            index = np.clip(exponent - tables.LOG_EXPONENT_MIN, 0, len(self.log) - 1)
            lo = _chosen(logs, hi, lo)
            term = _chosen(logs, _take(self.log, index), term)
        p += lo
        p += term
        return p

    def _times_tail(
        self, y: Array, scale: Bits | None, bits: Bits, magnitude: Bits, segment: npt.NDArray[np.intp]
    ) -> tuple[Array, Bits]:
        """Multiply segments that have one by the exponential tail; its exponent joins the scale."""
        active = None if self.tailed.all() else np.flatnonzero(_take(self.tailed, segment))
        if active is None or len(active) == len(y):
            factor, power = self.tail_of(bits, magnitude)
            y *= factor
            return y, power if scale is None else power + scale
        scale = np.zeros(len(y), np.int32) if scale is None else scale
        if len(active):
            factor, power = self.tail_of(bits[active], magnitude[active])
            y[active] *= factor
            scale[active] += power
        return y, scale

    def tail_of(self, bits: Bits, magnitude: Bits) -> tuple[Array, Bits]:
        """``T`` without its power of two, and that power; T is 0 where the result is far below every subnormal."""
        z = self._tail_argument(bits, magnitude)
        power = (z >> TAIL_FRACTION_BITS).astype(np.int32)
        variable_bits = TAIL_FRACTION_BITS - TAIL_INDEX_BITS
        index = (z >> variable_bits) & ((1 << TAIL_INDEX_BITS) - 1)
        fraction = z.astype(np.int32)  # the low 32 bits
        offset = (fraction & ((1 << variable_bits) - 1)) - (1 << (variable_bits - 1))
        t = offset.astype(np.float32)
        t *= np.float32(2.0**-TAIL_FRACTION_BITS)
        hi, lo, c1, c2 = (_take(column, index) for column in self.tail)
        c2 *= t
        c2 += c1
        c2 *= t
        c2 += lo
        c2 += hi
        if power.min(initial=0) <= -TAIL_LIMIT:
            c2[power <= -TAIL_LIMIT] = 0
        return c2, power

    def _tail_argument(self, bits: Bits, magnitude: Bits) -> npt.NDArray[np.int64]:
        """``z`` in fixed point: a truncated product of ``|x|`` or ``x * x`` and a constant, signed, plus an offset."""
        field = magnitude >> 23
        significand = ((magnitude & MANTISSA) | SMALLEST_NORMAL).astype(np.int64)
        multiplier = np.int64(self.table.tail_multiplier)
        drop = TAIL_OPERAND_BITS + TAIL_CONSTANT_FRACTION - TAIL_FRACTION_BITS
        # operand * 2**(weight - bits) is |x| or x * x
        if self.function.tail == "gauss":
            significand *= significand
            significand >>= 2 * 24 - TAIL_OPERAND_BITS
            weight = 2 * field - 2 * 127 + 2
            low = (significand & ((1 << HALF_PRODUCT) - 1)) * multiplier
            product = (significand >> HALF_PRODUCT) * multiplier + (low >> HALF_PRODUCT)
            drop -= HALF_PRODUCT
            sign: Any = np.int64(-1)
        else:
            weight = field - 126
            product = significand * multiplier  # 62 bits: all of it
            drop -= TAIL_OPERAND_BITS - 24
            sign = (bits >> 31).astype(np.int64)
        product >>= np.minimum(drop - weight, 63).astype(np.int64)
        limit = np.int64(TAIL_LIMIT) << TAIL_FRACTION_BITS
        beyond = int(weight.max(initial=0)) > OVERFLOW_WEIGHT or product.max(initial=0) > limit
        if beyond:
            product[weight > OVERFLOW_WEIGHT] = limit
        product ^= sign
        product -= sign
        product += np.int64(self.table.tail_offset)
        return np.clip(product, -limit, limit) if beyond else product

    def _specials(self, y: Array, x: Array, magnitude: Bits) -> Array:
        """Infinities, zeros, NaN and arguments outside the domain."""
        function = self.function
        beyond = min(int(np.float32(function.limit).view(np.int32)) + 1, INFINITY)
        plain = magnitude.max(initial=1) < beyond and magnitude.min(initial=1) > 0
        if plain and (function.negative is None or x.min(initial=1) > 0):
            return y
        outside = magnitude == 0
        outside |= magnitude >= beyond
        if function.negative is not None:
            outside |= x < 0
        special = np.flatnonzero(outside)
        y[special] = self._special(x[special])
        return y

    def _special(self, x: Array) -> Array:
        function = self.function
        y = np.where(x == 0, np.where(np.signbit(x), *map(np.float32, function.at_zero[::-1])), NAN)
        if function.negative is not None:
            y = np.where(x < 0, np.float32(function.negative), y)
        y = np.where(x == np.inf, np.float32(function.at_infinity[0]), y)
        y = np.where(x == -np.inf, np.float32(function.at_infinity[1]), y)
        return np.where(np.isnan(x) | np.isnan(y) | (np.abs(x) > function.limit), NAN, y)


def _take(table: npt.NDArray[Any], index: npt.NDArray[Any]) -> Any:
    """``table[index]`` for indices that are legal; not checking them is faster."""
    return table.take(index, mode="clip")


def _chosen(mask: Bits, a: Array, b: Array | np.float32) -> Array:
    """``a`` where the mask is -1, ``b`` where it is 0; faster than ``np.where``."""
    other = b.view(np.int32)
    return (((a.view(np.int32) ^ other) & mask) ^ other).view(np.float32)


def _scaled(y: Array, power: Bits) -> Array:
    """``y * 2**power`` with one rounding: multiplications by powers of two, of which only the last one rounds."""
    least, most = int(power.min(initial=0)), int(power.max(initial=0))
    if least < -126 or most > 127:
        first = np.where(power < -100, np.int32(-60), np.where(power > 100, np.int32(30), np.int32(0)))
        y = y * _take(POWERS, first - LEAST_POWER)
        power = np.clip(power - first, LEAST_POWER, 127)
        return np.asarray(y * _take(POWERS, power - LEAST_POWER), np.float32)
    return np.asarray(y * ((power + 127) << 23).view(np.float32), np.float32)


@functools.cache
def evaluator(name: str) -> Evaluator:
    """The evaluator of a tabulated function."""
    return Evaluator(tables.table_of(name))


def evaluate(name: str, x: npt.ArrayLike, alpha: float = 0.0) -> Array:
    """``name`` of float32 ``x``, of any shape. ``alpha`` is the slope of ``prelu`` at negative arguments."""
    function = function_named(name)
    value = np.asarray(x, np.float32)
    if function.tabulated:
        return evaluator(name)(value)
    with np.errstate(all="ignore"):
        result = _direct(name, value, np.float32(alpha))
    return np.where(np.isnan(result), NAN, result).astype(np.float32, copy=False)


def _direct(name: str, x: Array, alpha: np.float32) -> Array:
    """Functions without a table: bits, or one multiplication."""
    if name == "square":
        return x * x
    if name == "prelu":
        return np.where(x < 0, x * alpha, x)
    if name == "relu":
        return np.where((x > 0) | np.isnan(x), x, np.float32(0))
    if name == "abs":
        return np.abs(x)
    if name == "sign":
        return np.sign(x)
    return x
