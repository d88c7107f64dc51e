"""The scalar engine's functions in numpy, bit for bit: ``evaluate(name, x)``.

Shapes: any; ``x`` is float32 and so is the result. The order of operations and the roundings are those of
``spec/functions.py``: every fp32 operation below is one numpy operation on float32 arrays, the rest moves bits.
"""

import functools

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
HALF_PRODUCT = TAIL_OPERAND_BITS // 2
ALWAYS, NEVER = 1, 0


class Evaluator:
    """One table as arrays. Build it from any :class:`~spec.tables.FunctionTable`, also one under construction."""

    def __init__(self, table: tables.FunctionTable, tail: tables.TailTable | None = None) -> None:
        self.function: Function = function_named(table.function)
        self.table = table
        width = max(len(side.binades) for side in table.sides)
        slots = 1 << tables.INDEX_BITS
        self.first = np.array([side.first for side in table.sides], np.int32)
        self.last = np.array([len(side.binades) - 1 for side in table.sides], np.int32)
        self.stride = width * slots
        lookup = np.zeros((len(table.sides), width, slots), np.int32)
        for number, side in enumerate(table.sides):
            for index, (start, bits) in enumerate(side.binades):
                lookup[number, index] = start + (np.arange(slots) >> (tables.INDEX_BITS - bits))
        self.lookup = lookup.reshape(-1)
        self.origin = self._origins(lookup)
        segments = table.segments
        self.modes = {
            name: np.array([getattr(segment, name) for segment in segments], np.int32)
            for name in ("base", "tail", "shift")
        }
        self.coefficients = {
            name: np.array([getattr(segment, name) for segment in segments], np.uint32).view(np.float32)
            for name in tables.COEFFICIENTS
        }
        self.log = (
            np.array(tables.log_table(), np.uint32).view(np.float32) if "log" in self.function.reduction else None
        )
        if self.modes["tail"].any():
            rows = np.array((tail or tables.tail_table()).rows, np.uint32).view(np.float32)
            self.tail = [np.ascontiguousarray(column) for column in rows.T]

    def _origins(self, lookup: npt.NDArray[np.int32]) -> Array:
        """The expansion point of every segment, as the hardware makes it from the argument's leading bits."""
        origins = np.zeros(len(self.table.segments), np.float32)
        for content in self.table.sides:
            for index, (start, bits) in enumerate(content.binades):
                for piece in range(1 << bits):
                    pattern = (content.first + index) << 23 | (2 * piece + 1) << (22 - bits)
                    kind = ORIGINS[self.table.segments[start + piece].origin]
                    value = {"centre": pattern, "root": self.table.root, "zero": 0}[kind]
                    origins[start + piece] = np.uint32(value).view(np.float32)
        assert len(lookup) == len(self.table.sides)
        return origins

    def __call__(self, x: Array) -> Array:
        """Values for float32 of any shape."""
        flat = np.ascontiguousarray(x, np.float32).reshape(-1)
        out = np.empty_like(flat)
        with np.errstate(all="ignore"):
            for start in range(0, len(flat), BLOCK):
                out[start : start + BLOCK] = self._block(flat[start : start + BLOCK])
        return out.reshape(np.shape(x))

    def _block(self, x: Array) -> Array:
        bits = x.view(np.int32)
        magnitude = bits & 0x7FFFFFFF
        v, exponent, side = self._reduce(bits, magnitude)
        pattern = v.view(np.int32)
        segment = self._segment(pattern, side)
        t = v - self.origin.take(segment)
        take = {name: column.take(segment) for name, column in self.coefficients.items()}
        p = take["c3"]
        p *= t
        p += take["c2"]
        p *= t
        p += take["c1"]
        p *= t
        y = self._sum(p, v, t, take, segment, exponent)
        scale = self.modes["shift"].take(segment) if self.modes["shift"].any() else None
        if exponent is not None and self.log is None:
            scale = exponent if scale is None else scale + exponent
        if self.modes["tail"].any():
            y, scale = self._times_tail(y, scale, bits, magnitude, segment)
        if scale is not None:
            y = np.ldexp(y, scale)
        if self.function.symmetry == "odd":
            y = (y.view(np.int32) ^ (bits & np.int32(-(1 << 31)))).view(np.float32)
        return self._specials(y, x, magnitude)

    def _reduce(self, bits: Bits, magnitude: Bits) -> tuple[Array, Bits | None, Bits | None]:
        """The polynomial's variable, the exponent taken out, and the side where the table has two."""
        kind = self.function.reduction
        if kind == "none":
            side = (bits >> 31) & 1 if len(self.table.sides) == 2 else None
            return magnitude.view(np.float32), None, side
        subnormal = magnitude < (1 << 23)
        if subnormal.any():
            fraction, power = np.frexp(magnitude.view(np.float32))
            normal = (fraction * np.float32(2)).view(np.int32)
            exponent = np.where(subnormal, power - 1, (magnitude >> 23) - 127).astype(np.int32)
            mantissa = np.where(subnormal, normal, magnitude) & MANTISSA
        else:
            exponent, mantissa = (magnitude >> 23) - 127, magnitude & MANTISSA
        if kind == "reciprocal":
            return (mantissa | (127 << 23)).view(np.float32), -exponent, None
        if kind == "log":
            upper = mantissa >> 22
            exponent = exponent + upper
            return (mantissa | ((127 - upper) << 23)).view(np.float32), exponent, (exponent != 0).astype(np.int32)
        odd = exponent & 1
        power = exponent >> 1
        return (mantissa | ((127 + odd) << 23)).view(np.float32), -power if kind == "rsqrt" else power, None

    def _segment(self, pattern: Bits, side: Bits | None) -> Bits:
        """Number of the segment: two levels, the first by exponent, the second by leading mantissa bits."""
        slot = (pattern >> (23 - tables.INDEX_BITS)).astype(np.int32)
        low = self.first << tables.INDEX_BITS
        high = low + ((self.last + 1) << tables.INDEX_BITS) - 1
        if side is None:
            np.clip(slot, low[0], high[0], out=slot)
            slot -= low[0]
        else:
            np.clip(slot, low.take(side), high.take(side), out=slot)
            slot -= (low - np.arange(2, dtype=np.int32) * self.stride).take(side)
        return self.lookup.take(slot)

    def _sum(self, p: Array, v: Array, t: Array, take: dict[str, Array], segment: Bits, exponent: Bits | None) -> Array:
        """Add the large term, which depends on the segment's base."""
        hi, lo = take["hi"], take["lo"]
        kinds = set(np.unique(self.modes["base"]).tolist())
        if kinds == {0}:
            p += lo
            p += hi
            return p
        base = self.modes["base"].take(segment)
        sign = hi.view(np.int32) & np.int32(-(1 << 31))
        term, small = hi, lo
        for name, variable in (("v", v), ("t", t)):
            if BASES.index(name) in kinds:
                signed = (variable.view(np.int32) ^ sign).view(np.float32)
                term = np.where(base == BASES.index(name), signed, term)
        if self.log is not None:
            assert exponent is not None
            logs = base == BASES.index("log")
            index = np.clip(exponent - tables.LOG_EXPONENT_MIN, 0, len(self.log) - 1)
            small = np.where(logs, hi, small)
            term = np.where(logs, self.log.take(index), term)
        p += small
        p += term
        return p

    def _times_tail(
        self, y: Array, scale: Bits | None, bits: Bits, magnitude: Bits, segment: Bits
    ) -> tuple[Array, Bits]:
        """Multiply segments that have one by the exponential tail; its exponent joins the scale."""
        factor, power = self.tail_of(bits, magnitude)
        active = self.modes["tail"].take(segment).astype(bool)
        y = np.where(active, y * factor, y)
        power = np.where(active, power, 0)
        return y, power if scale is None else power + scale

    def tail_of(self, bits: Bits, magnitude: Bits) -> tuple[Array, Bits]:
        """``T`` without its power of two, and that power; T is 0 where the result is far below every subnormal."""
        z = self._tail_argument(bits, magnitude)
        power = (z >> TAIL_FRACTION_BITS).astype(np.int32)
        variable_bits = TAIL_FRACTION_BITS - TAIL_INDEX_BITS
        index = (z >> variable_bits).astype(np.int32) & ((1 << TAIL_INDEX_BITS) - 1)
        offset = (z & ((1 << variable_bits) - 1)).astype(np.int32) - (1 << (variable_bits - 1))
        t = offset.astype(np.float32) * np.float32(2.0**-TAIL_FRACTION_BITS)
        hi, lo, c1, c2 = (column.take(index) for column in self.tail)
        c2 *= t
        c2 += c1
        c2 *= t
        c2 += lo
        c2 += hi
        return np.where(power <= -TAIL_LIMIT, np.float32(0), c2), power

    def _tail_argument(self, bits: Bits, magnitude: Bits) -> npt.NDArray[np.int64]:
        """``z`` in fixed point: a truncated product of ``|x|`` or ``x * x`` and a constant, signed, plus an offset."""
        exponent = (magnitude >> 23) - 127
        significand = ((magnitude & MANTISSA) | (1 << 23)).astype(np.int64)
        gauss = self.function.tail == "gauss"
        if gauss:
            operand = (significand * significand) >> (2 * 24 - TAIL_OPERAND_BITS)
            weight = 2 * exponent + 2
        else:
            operand = significand << (TAIL_OPERAND_BITS - 24)
            weight = exponent + 1
        # operand * 2**(weight - TAIL_OPERAND_BITS) is |x| or x * x
        multiplier = np.int64(self.table.tail_multiplier)
        low = (operand & ((1 << HALF_PRODUCT) - 1)) * multiplier
        high = (operand >> HALF_PRODUCT) * multiplier + (low >> HALF_PRODUCT)
        drop = TAIL_OPERAND_BITS + TAIL_CONSTANT_FRACTION - TAIL_FRACTION_BITS - HALF_PRODUCT
        shift = np.clip(drop - weight, 0, 63).astype(np.int64)
        size = high >> shift
        limit = np.int64(TAIL_LIMIT) << TAIL_FRACTION_BITS
        size = np.where(weight > 8, limit, size)
        negative = gauss | (bits < 0)
        z = np.where(negative, -size, size) + np.int64(self.table.tail_offset)
        return np.clip(z, -limit, limit)

    def _specials(self, y: Array, x: Array, magnitude: Bits) -> Array:
        """Infinities, zeros, NaN and arguments outside the domain."""
        function = self.function
        odd = magnitude >= np.float32(min(function.limit, np.inf)).view(np.int32)
        odd |= magnitude == 0
        if function.negative is not None:
            odd |= x < 0
        if not odd.any():
            return y
        y = np.where(magnitude == 0, np.where(np.signbit(x), *map(np.float32, function.at_zero[::-1])), y)
        if function.negative is not None:
            y = np.where(x < 0, np.float32(function.negative), y)
        y = np.where(x == np.inf, np.float32(function.at_infinity[0]), y)
        y = np.where(x == -np.inf, np.float32(function.at_infinity[1]), y)
        y = np.where(np.isnan(x) | (np.abs(x) > function.limit), NAN, y)
        return np.where(np.isnan(y), NAN, y)


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
