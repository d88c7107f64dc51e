"""Fit one side of a function: the fewest segments a binade that meet the bound on sampled fp32 arguments.

Fits are least squares on Chebyshev nodes with values from mpmath, coefficients rounded from the highest degree down,
each correcting the ones before it.
"""

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import mpmath
import numpy as np
import numpy.typing as npt

from spec import tables
from spec.formats import FP32
from spec.functions import BASES, ORIGINS, Function
from verif.scalar.references import formula, reference, root_of, ulp_error

Array = npt.NDArray[np.float64]
NODES = 6
DEGREE = 3
SAMPLES = 96
BOUND = 0.7
"""Units in the last place a segment may be wrong by; the last rounding alone is half a unit."""
ROOT_BOUND = 1.5
LOG_BOUND = 1.15
"""In units of the smallest result that such a segment takes part in: 2**-25."""
TAIL_BOUND = 0.6
"""Of the factor beside a tail: the product adds half a unit and what is left of the tail's own rounding."""
RELAXED = 1.2
"""By which bounds grow for a binade that cannot meet them with the most index bits."""
DIRECT_BITS = 5
"""A binade that needs more index bits than this uses the exponential tail, if the function has one."""
ORIGIN = {name: index for index, name in enumerate(ORIGINS)}
BASE = {name: index for index, name in enumerate(BASES)}

FITTED_BITS = {**tables.MANTISSA_BITS, "lo": 7}
"""Mantissa bits the fit leaves each coefficient; only beside a root ``lo`` needs all that are stored."""


class GenerationError(Exception):
    """No segmentation meets the bound."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """How a segment is evaluated."""

    origin: str
    base: str
    tail: bool = False
    shift: int = 0


def bits_of(value: float) -> int:
    """fp32 pattern of a number that is one."""
    return int(np.float32(value).view(np.uint32))


def shorten(value: float, name: str) -> float:
    """``value`` rounded to the mantissa bits that the fit leaves coefficient ``name``, subnormal or not."""
    quantum = max(math.frexp(float(value))[1], FP32.exponent_min + 1) - FITTED_BITS[name] - 1
    return float(np.float32(math.ldexp(round(math.ldexp(float(value), -quantum)), quantum)))


class Side:
    """One side of a function: values of its polynomial's variable ``v >= 0``."""

    def __init__(self, function: Function, number: int, degree: int = DEGREE) -> None:
        self.function, self.number, self.degree = function, number, degree
        self.negative = number == 1 and function.reduction == "none"
        self.formula = formula(function.formula)
        self._values: dict[float, mpmath.mpf] = {}
        root = root_of(function.name)
        self.root = None if root is None else abs(root)
        self.has_root = root is not None and (root < 0) == self.negative and number == (1 if root < 0 else 0)
        self.root32 = float(np.float32(self.root)) if self.root is not None else 0.0

    def x(self, v: Any) -> Any:
        """The argument that belongs to ``v``."""
        return -v if self.negative else v

    def value(self, v: float) -> mpmath.mpf:
        """The function, exactly; neighbouring fits ask for the same values."""
        if v not in self._values:
            self._values[v] = self.formula(self.x(mpmath.mpf(v)))
        return self._values[v]

    def tail(self, v: mpmath.mpf) -> mpmath.mpf:
        """The exponential factor, exactly."""
        x = self.x(mpmath.mpf(v))
        rate = mpmath.mpf(self.function.tail_rate)
        if self.function.tail == "exp":
            return mpmath.exp(rate * x)
        return formula(self.function.tail_scale)(x) * mpmath.exp(-rate * x * x)

    def target(self, kind: Kind, v: Array) -> Array:
        """What ``base + p`` should be, in float64, for samples."""
        with np.errstate(all="ignore"):
            x = self.x(v)
            value = reference(self.function.name, x) * 2.0**-kind.shift
            if kind.tail:
                rate = self.function.tail_rate
                scale = float(formula(self.function.tail_scale)(0))
                value /= np.exp(rate * x) if self.function.tail == "exp" else scale * np.exp(-rate * x * x)
            return value

    def kinds(self, tail: bool, tiny: bool = False) -> list[Kind]:
        """Every way worth trying."""
        if self.function.reduction == "log" and self.number == 1:
            return [Kind("centre", "log")]
        origin = "zero" if tiny else "centre"
        shifts = sorted({0, self.function.shift})
        kinds = [Kind(origin, "hi", tail)] + [Kind(origin, "v", tail, shift) for shift in shifts]
        if self.has_root and not tail and not tiny:
            kinds += [Kind("root", "t", False, shift) for shift in shifts]
        return kinds

    def fit(self, kind: Kind, low: float, high: float) -> tables.Segment:
        """Coefficients for ``v`` in [low, high)."""
        middle, half = (low + high) / 2, (high - low) / 2
        nodes = [middle + half * math.cos(math.pi * (index + 0.5) / NODES) for index in range(NODES)]
        origin = {"centre": middle, "root": self.root32, "zero": 0.0}[kind.origin]
        values = [self.value(v) * mpmath.mpf(2) ** -kind.shift / (self.tail(v) if kind.tail else 1) for v in nodes]
        slope = 1.0 if values[0] >= values[-1] else -1.0
        if kind.base == "v":
            slope = 1.0 if values[0] >= 0 else -1.0
        distances = [mpmath.mpf(v) - origin for v in nodes]
        through_zero = kind.origin != "centre"
        found = dict.fromkeys(tables.COEFFICIENTS, 0.0)
        found["hi"] = slope if kind.base in ("v", "t") else 0.0
        if kind.base == "v":
            values = [value - slope * v for value, v in zip(values, nodes, strict=True)]
        elif kind.base == "t":
            values = [value - slope * t for value, t in zip(values, distances, strict=True)]
            found["lo"] = shorten(float(self.value(origin) * mpmath.mpf(2) ** -kind.shift), "hi")
        elif through_zero:
            constant = self.value(0.0) * mpmath.mpf(2) ** -kind.shift / (self.tail(0) if kind.tail else 1)
            found |= self._split(constant)
        t = np.array([float(distance / half) for distance in distances])
        rest = values
        if through_zero:
            fixed = 0.0 if kind.base == "v" else mpmath.mpf(found["lo"]) + (found["hi"] if kind.base == "hi" else 0)
            rest = [(value - fixed) / distance for value, distance in zip(rest, distances, strict=True)]
        names = ["c0", "c1", "c2", "c3"][int(through_zero) : self.degree + 1]
        right = np.array([float(value) for value in rest])
        for degree in reversed(range(len(names))):
            name = names[degree]
            matrix = np.vander(t, degree + 1)
            coefficient = float(np.linalg.lstsq(matrix, right, rcond=None)[0][0])
            scaled = coefficient / half**degree
            if name == "c0":
                found |= self._constant(kind, scaled)
                continue
            found[name] = shorten(scaled, name)
            right = right - found[name] * (half * t) ** degree
        return tables.Segment(
            ORIGIN[kind.origin],
            BASE[kind.base],
            int(kind.tail),
            kind.shift,
            *(bits_of(found[name]) for name in tables.COEFFICIENTS),
        )

    def _constant(self, kind: Kind, value: float) -> dict[str, float]:
        if kind.base == "hi":
            return self._split(value)
        if kind.base == "log":
            return {"hi": shorten(value, "hi")}
        return {"lo": shorten(value, "lo")}

    @staticmethod
    def _split(value: Any) -> dict[str, float]:
        high = shorten(float(value), "hi")
        return {"hi": high, "lo": shorten(float(mpmath.mpf(value) - high), "lo")}

    def error(self, segment: tables.Segment, v: npt.NDArray[np.float32], middle: float) -> Array:
        """Units in the last place at each sample: the polynomial as it is evaluated against the target."""
        kind = Kind(ORIGINS[segment.origin], BASES[segment.base], bool(segment.tail), segment.shift)
        truth = self.target(kind, v.astype(np.float64))
        origin = {"centre": middle, "root": self.root32, "zero": 0.0}[kind.origin]
        hi, lo, c1, c2, c3 = (np.uint32(getattr(segment, name)).view(np.float32) for name in tables.COEFFICIENTS)
        with np.errstate(all="ignore"):
            t = v - np.float32(origin)
            p = ((c3 * t + c2) * t + c1) * t
            if kind.base == "log":  # as it is with the smallest exponent, where errors weigh most
                return np.abs(p + hi - truth) * 2.0**25
            p = p + lo
            y = p + {"hi": hi, "v": np.copysign(v, hi), "t": np.where(np.signbit(hi), -t, t)}[kind.base]
        return ulp_error(y, truth)

    def samples(self, low: float, high: float, seed: int, count: int = SAMPLES) -> npt.NDArray[np.float32]:
        """fp32 numbers of [low, high): both ends and some between, none beyond the stated domain."""
        first, last = np.float32(low).view(np.int32), np.float32(high).view(np.int32)
        rng = np.random.default_rng(seed)
        bits = np.unique(np.r_[first, last - 1, rng.integers(first, last, count)]).astype(np.int32)
        v = bits.view(np.float32)
        inside = v <= np.float32(min(self.function.limit, 3.4e38))
        if self.function.reduction == "log":
            inside &= (v >= 0.75) & (v < 1.5)
        return v[inside]

    @staticmethod
    def bound(segment: tables.Segment) -> float:
        """The bound for a segment of this kind."""
        special = {BASE["t"]: ROOT_BOUND, BASE["log"]: LOG_BOUND}
        return TAIL_BOUND if segment.tail else special.get(segment.base, BOUND)

    def alive(self, v: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Arguments whose result is not yet 0: beyond them a tail makes every factor right."""
        with np.errstate(all="ignore"):
            result = np.abs(reference(self.function.name, self.x(v.astype(np.float64))))
        return v[(result > 2.0**-151) & (v < 700)]

    def best(self, kinds: Sequence[Kind], low: float, high: float) -> tuple[tables.Segment | None, float]:
        """The best segment for [low, high), and how far it is from its bound."""
        found, least = None, math.inf
        v = self.samples(low, high, seed=bits_of(low))
        for kind in kinds:
            segment = self.fit(kind, low, high)
            probes = self.alive(v) if kind.tail and len(v) else v
            if not len(probes):
                return segment, 0.0
            error = float(np.nan_to_num(self.error(segment, probes, (low + high) / 2), nan=1e9).max())
            error /= self.bound(segment)
            if error < least:
                found, least = segment, error
        return found, least

    def binade(self, exponent: int) -> list[tables.Segment]:
        """The segments of [2**exponent, 2**(exponent + 1))."""
        most = tables.INDEX_BITS
        options = [
            (range(DIRECT_BITS + 1), False, 1.0),
            (range(most + 1), True, 1.0),
            (range(most, most + 1), True, RELAXED),
        ]
        if self.function.tail == "none":
            options = [(range(most + 1), False, 1.0)]
        worst = 0.0
        for tried, tail, slack in options:
            for bits in tried:
                width = 2.0**exponent / 2**bits
                pieces: list[tables.Segment] = []
                for index in range(1 << bits):
                    low = 2.0**exponent + index * width
                    kinds = self.kinds(False) + (self.kinds(True) if tail else [])
                    piece, worst = self.best(kinds, low, low + width)
                    if piece is None or worst > slack:
                        break
                    pieces.append(piece)
                else:
                    return pieces
        raise GenerationError(f"{self.function.name}, side {self.number}, 2**{exponent}: {worst:.2f} of the bound")

    def tiny(self) -> tuple[int, tables.Segment]:
        """The largest exponent below which one segment serves, and the segment."""
        for exponent in range(0, -40, -1):
            high = 2.0**exponent
            for kind in self.kinds(False, tiny=True) + (
                self.kinds(True, tiny=True) if self.function.tail != "none" else []
            ):
                segment = self.fit(kind, 0.0, high)
                binades = [self.samples(high * 0.5 ** (down + 1), high * 0.5**down, down, 600) for down in range(6)]
                v = np.concatenate([*binades, np.geomspace(2.0**-126, high * 0.99, 400).astype(np.float32)])
                if np.nan_to_num(self.error(segment, v, 0.0), nan=1e9).max() <= self.bound(segment):
                    return exponent, segment
        raise GenerationError(f"{self.function.name}, side {self.number}: nothing serves the smallest arguments")

    def huge(self, low: int) -> tuple[int, tables.Segment]:
        """The smallest exponent from which one segment serves, and the segment."""
        top = 127.0
        zero = tables.Segment(ORIGIN["zero"], BASE["hi"], 0, 0, 0, 0, 0, 0, 0)
        for exponent in range(low, 128):
            v = np.geomspace(2.0**exponent, 2.0**top, 2000).astype(np.float32)
            v = v[v <= np.float32(min(self.function.limit, 3.4e38))]
            if not len(v):
                return exponent, zero
            for tail in (False, True) if self.function.tail != "none" else (False,):
                probe = min(2.0**exponent * 4, 2.0**100)
                ratio = self.value(probe) / (self.tail(probe) if tail else 1)
                constants = [float(ratio)] if mpmath.isfinite(ratio) and abs(ratio) < 1e30 else []
                sign = 1.0 if ratio >= 0 else -1.0
                near = float(ratio - sign * probe) if abs(ratio) < 1e30 else 0.0
                options = [("hi", self._split(constant)) for constant in constants]
                options += [
                    ("v", {"hi": sign, "lo": 0.0}),
                    ("v", {"hi": sign, "lo": float(round(near)) if abs(near) < 4 else 0.0}),
                ]
                for base, found in options:
                    words = {"c1": 0.0, "c2": 0.0, "c3": 0.0, **found}
                    segment = dataclasses.replace(
                        zero, base=BASE[base], tail=int(tail), **{name: bits_of(word) for name, word in words.items()}
                    )
                    if self._serves(segment, v):
                        return exponent, segment
        raise GenerationError(f"{self.function.name}, side {self.number}: nothing serves the largest arguments")

    def _serves(self, segment: tables.Segment, v: npt.NDArray[np.float32]) -> bool:
        """Whether a segment serves all arguments; with a tail, those whose result is not yet 0."""
        if segment.tail:
            v = self.alive(v)
        return not len(v) or bool(np.nan_to_num(self.error(segment, v, 0.0), nan=1e9).max() <= self.bound(segment))

    def build(self, offset: int) -> tuple[tables.Side, list[tables.Segment]]:
        """All binades; ``offset`` is the number of segments before this side."""
        segments: list[tables.Segment] = []
        if self.function.reduction == "none":
            low, tiny = self.tiny()
            high, huge = self.huge(low)
            pieces = [[tiny], *(self.binade(exponent) for exponent in range(low, high)), [huge]]
            first = low - 1
        else:
            exponents = {"reciprocal": [0], "sqrt": [0, 1], "rsqrt": [0, 1], "log": [-1, 0]}[self.function.reduction]
            pieces, first = [self.binade(exponent) for exponent in exponents], exponents[0]
        binades = []
        for piece in pieces:
            binades.append((offset + len(segments), len(piece).bit_length() - 1))
            segments += piece
        return tables.Side(first + 127, tuple(binades)), segments
