"""The scalar engine's functions, bit for bit: ``evaluate(name, x)``.

Shapes: any; ``x`` is float32 and so is the result. The order of operations and the roundings are those of
``spec/functions.py``: every fp32 operation below is one IEEE operation on float32, the rest moves bits. Written for one
element, as the hardware does it, and compiled: as numpy arrays its thirty steps would go through memory thirty times.
"""

import functools

import numpy as np
import numpy.typing as npt

from golden.compiled import compiled, inlined
from golden.numerics.arithmetic import CANONICAL_NAN
from spec import tables
from spec.functions import (
    BASES,
    ORIGINS,
    REDUCTIONS,
    TAIL_CONSTANT_FRACTION,
    TAIL_FRACTION_BITS,
    TAIL_INDEX_BITS,
    TAIL_LIMIT,
    TAIL_OPERAND_BITS,
    Function,
    function_named,
)

Array = npt.NDArray[np.float32]

NAN = np.float32(CANONICAL_NAN)
MANTISSA = (1 << 23) - 1
INFINITY = 0x7F800000
BIAS = 127
SUBNORMAL_SHIFT = 24
"""A power of two that makes every subnormal normal."""
NORMALISE = np.float32(1 << SUBNORMAL_SHIFT)
SIGN = np.int32(-(1 << 31))
INDEX_BITS = tables.INDEX_BITS
NONE, RECIPROCAL, LOG, SQRT = map(list(REDUCTIONS).index, ("none", "reciprocal", "log", "sqrt"))
BASE_V, BASE_T, BASE_LOG = map(BASES.index, ("v", "t", "log"))
LOGARITHMS = np.array(tables.log_table(), np.uint32).view(np.float32)
LEAST_LOGARITHM = tables.LOG_EXPONENT_MIN

HALF_PRODUCT = TAIL_OPERAND_BITS // 2
DROP = TAIL_OPERAND_BITS + TAIL_CONSTANT_FRACTION - TAIL_FRACTION_BITS
LIMIT = TAIL_LIMIT << TAIL_FRACTION_BITS
VARIABLE_BITS = TAIL_FRACTION_BITS - TAIL_INDEX_BITS
ULP = np.float32(2.0**-TAIL_FRACTION_BITS)
OVERFLOW_WEIGHT = 8
"""``|x|`` or ``x * x`` of 2**8 and more is beyond every representable result."""
LEAST_POWER = -149
POWERS = np.ldexp(np.float32(1), np.arange(LEAST_POWER, 128))
"""Every power of two that fp32 has."""


class Evaluator:
    """One table as arrays. Build it from any :class:`~spec.tables.FunctionTable`, also one under construction."""

    def __init__(self, table: tables.FunctionTable, tail: tables.TailTable | None = None) -> None:
        self.function: Function = function_named(table.function)
        self.table = table
        slots = self._slots()
        reduction = list(REDUCTIONS).index(self.function.reduction)
        self._choice = slots, reduction, len(table.sides)
        names = ("c3", "c2", "c1", "lo", "hi")
        columns = [np.array([getattr(s, name) for s in table.segments], np.uint32).view(np.float32) for name in names]
        self._numbers = np.stack([self._origins(), *columns], axis=1)
        self._flags = np.array([(s.base, s.tail, s.shift) for s in table.segments], np.int32)
        rows = (tail or tables.tail_table()).rows if self._flags[:, 1].any() else ((0, 0, 0, 0),)
        gauss = self.function.tail == "gauss"
        self._tail = np.array(rows, np.uint32).view(np.float32), gauss, table.tail_multiplier, table.tail_offset

    def __call__(self, x: Array) -> Array:
        """Values for float32 of any shape."""
        flat = np.ascontiguousarray(x, np.float32).reshape(-1)
        out = np.empty_like(flat)
        odd = self.function.symmetry == "odd"
        _evaluate(flat.view(np.int32), out, self._choice, self._numbers, self._flags, self._tail, odd)
        self._specials(flat, out)
        return out.reshape(np.shape(x))

    def segment_of(self, x: Array) -> npt.NDArray[np.intp]:
        """Numbers of the segments that arguments fall into."""
        return _segments(np.ascontiguousarray(x, np.float32).view(np.int32), self._choice)

    def _slots(self) -> npt.NDArray[np.int32]:
        """The number of the segment for every side, exponent and leading mantissa bits: both levels in one."""
        slot = np.arange(1 << (8 + INDEX_BITS))
        found = []
        for side in self.table.sides:
            pieces = [start + (np.arange(1 << INDEX_BITS) >> (INDEX_BITS - bits)) for start, bits in side.binades]
            content = np.concatenate(pieces)
            found.append(content[np.clip(slot - (side.first << INDEX_BITS), 0, len(content) - 1)])
        return np.concatenate(found).astype(np.int32)

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

    def _specials(self, x: Array, y: Array) -> None:
        """Infinities, zeros, NaN and arguments outside the domain."""
        function = self.function
        beyond = min(int(np.float32(function.limit).view(np.int32)) + 1, INFINITY)
        magnitude = x.view(np.int32) & 0x7FFFFFFF
        outside = (magnitude == 0) | (magnitude >= beyond)
        if function.negative is not None:
            outside |= x < 0
        special = np.flatnonzero(outside)
        y[special] = self._special(x[special])

    def _special(self, x: Array) -> Array:
        function = self.function
        y = np.where(x == 0, np.where(np.signbit(x), *map(np.float32, function.at_zero[::-1])), NAN)
        if function.negative is not None:
            y = np.where(x < 0, np.float32(function.negative), y)
        y = np.where(x == np.inf, np.float32(function.at_infinity[0]), y)
        y = np.where(x == -np.inf, np.float32(function.at_infinity[1]), y)
        return np.where(np.isnan(x) | np.isnan(y) | (np.abs(x) > function.limit), NAN, y)


@inlined
def _variable(bits, reduction):  # type: ignore[no-untyped-def]
    """``v`` as bits, the exponent taken out, and the side that a logarithm's exponent chooses."""
    magnitude = bits & 0x7FFFFFFF
    if reduction == NONE:
        return magnitude, 0, 0
    exponent = -BIAS
    if magnitude <= MANTISSA:
        magnitude = np.float32(np.int32(magnitude).view(np.float32) * NORMALISE).view(np.int32)
        exponent -= SUBNORMAL_SHIFT
    exponent += magnitude >> 23
    mantissa = magnitude & MANTISSA
    if reduction == RECIPROCAL:
        return mantissa | BIAS << 23, -exponent, 0
    if reduction == LOG:
        upper = mantissa >> 22
        exponent += upper
        return mantissa | (BIAS - upper) << 23, exponent, np.int64(exponent != 0)
    power = exponent >> 1
    return mantissa | (BIAS + (exponent & 1)) << 23, power if reduction == SQRT else -power, 0


@inlined
def _segment(bits, v, side, choice):  # type: ignore[no-untyped-def]
    """Number of the segment: side, exponent and leading mantissa bits choose it."""
    slots, reduction, sides = choice
    if reduction == NONE and sides == 2:
        side = np.int64(bits < 0)
    return np.uint32(slots[np.uint32(v >> (23 - INDEX_BITS) | side << (8 + INDEX_BITS))])


@compiled
def _segments(bits, choice):  # type: ignore[no-untyped-def]
    found = np.empty(bits.size, np.intp)
    for i in range(bits.size):
        v, _, side = _variable(bits[i], choice[1])
        found[i] = _segment(bits[i], v, side, choice)
    return found


@inlined
def _exponential(bits, tail):  # type: ignore[no-untyped-def]
    """``T`` without its power of two, and that power; T is 0 where the result is far below every subnormal."""
    rows, gauss, multiplier, offset = tail
    # z, in fixed point: a truncated product of |x| or x * x and a constant, signed, plus an offset.
    field = np.int64(bits >> 23 & 0xFF)
    significand = np.int64(bits & MANTISSA | 1 << 23)
    if gauss:
        # The operand times 2**(weight - bits) is x * x.
        significand = significand * significand >> 2 * 24 - TAIL_OPERAND_BITS
        weight = 2 * field - 2 * BIAS + 2
        low = (significand & ((1 << HALF_PRODUCT) - 1)) * multiplier >> HALF_PRODUCT
        z = (significand >> HALF_PRODUCT) * multiplier + low
        drop, negative = DROP - HALF_PRODUCT, True
    else:
        weight = field - (BIAS - 1)
        z = significand * multiplier
        drop, negative = DROP - (TAIL_OPERAND_BITS - 24), bits < 0
    z = np.int64(LIMIT) if weight > OVERFLOW_WEIGHT else min(z >> min(drop - weight, 63), np.int64(LIMIT))
    z = (-z if negative else z) + offset
    power = z >> TAIL_FRACTION_BITS
    if power <= -TAIL_LIMIT:
        return np.float32(0), -TAIL_LIMIT
    row = np.uint32(z >> VARIABLE_BITS & (1 << TAIL_INDEX_BITS) - 1)
    t = np.float32((z & (1 << VARIABLE_BITS) - 1) - (1 << VARIABLE_BITS - 1)) * ULP
    return ((rows[row, 3] * t + rows[row, 2]) * t + rows[row, 1]) + rows[row, 0], min(power, TAIL_LIMIT)


@inlined
def _scaled(y, power):  # type: ignore[no-untyped-def]
    """``y * 2**power`` with one rounding: multiplications by powers of two, of which only the last one rounds."""
    if power < -100:
        y *= POWERS[-60 - LEAST_POWER]
        power = max(power + 60, LEAST_POWER)
    elif power > 100:
        y *= POWERS[30 - LEAST_POWER]
        power = min(power - 30, BIAS)
    return y * POWERS[np.uint32(power - LEAST_POWER)]


@compiled
def _evaluate(x, out, choice, numbers, flags, tail, odd):  # type: ignore[no-untyped-def]
    """What ``spec/functions.py`` states, without the special values; ``x`` as bits."""
    for i in range(x.size):
        bits = x[i]
        v_bits, exponent, side = _variable(bits, choice[1])
        v = np.int32(v_bits).view(np.float32)
        segment = _segment(bits, v_bits, side, choice)
        origin, c3, c2 = numbers[segment, 0], numbers[segment, 1], numbers[segment, 2]
        c1, lo, hi = numbers[segment, 3], numbers[segment, 4], numbers[segment, 5]
        base, scale = flags[segment, 0], np.int64(flags[segment, 2])
        t = v - origin
        p = ((c3 * t + c2) * t + c1) * t
        if base == BASE_LOG:
            p += hi
            # Zero and infinity lie beyond the table; their results are special.
            term = LOGARITHMS[np.uint32(min(max(exponent - LEAST_LOGARITHM, 0), LOGARITHMS.size - 1))]
        else:
            p += lo
            term = hi
            if base in (BASE_V, BASE_T):
                large = v if base == BASE_V else t
                term = np.int32(np.float32(large).view(np.int32) ^ (np.float32(hi).view(np.int32) & SIGN)).view(
                    np.float32
                )
        y = p + term
        if choice[1] != LOG:
            scale += exponent
        if flags[segment, 1]:
            factor, power = _exponential(bits, tail)
            y *= factor
            scale += power
        y = _scaled(y, scale)
        if odd:
            y = np.int32(np.float32(y).view(np.int32) ^ (bits & SIGN)).view(np.float32)
        out[i] = y


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
