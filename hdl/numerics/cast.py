"""Conversion between number formats with one rounding."""

from types import SimpleNamespace
from typing import Any

from amaranth.hdl import Array, C, Cat, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.numerics.decode import EXPONENT, storage_of, take_apart
from hdl.numerics.pipeline import Pipeline
from hdl.numerics.rounding import shift_right_sticky
from spec.formats import FLOATS, INTS, SCALES, FloatFormat, IntFormat, ScaleFormat
from spec.numerics import STOCHASTIC_BITS, CastConfig

REGISTERS = {1: ("packed",), 2: ("shifted", "packed"), 3: ("taken", "shifted", "packed")}
"""Cut points that hold a register, by latency."""

Element = FloatFormat | ScaleFormat | IntFormat
ELEMENTS: dict[str, Element] = {**FLOATS, **SCALES, **INTS}


def places_of(entry: Element) -> int:
    """Bits of a rounded magnitude: significand with hidden bit, or integer."""
    if isinstance(entry, IntFormat):
        return entry.width
    return 1 + (entry.mantissa_bits if isinstance(entry, FloatFormat) else 0)


class Cast(Block):
    """Convert ``code`` of a source format into ``result`` of a target format, ``config.stages`` cycles later.

    Codes are elements as they lie in memory, in the low bits of their ports. ``source`` and ``target`` are positions in
    ``config.sources`` and ``config.targets``; where a list has one format there is no such port.

    Rounds to nearest even, or with ``stochastic`` adds ``random``, the top bits of a random word, below the last kept
    place and cuts off what is then below it. Too large a number becomes infinity, or NaN in a format without
    infinities, or the largest number in one without either; with ``saturate`` always the largest number, for infinities
    too. Integers saturate always. NaN becomes the canonical NaN, -0 in ``fp4_e2m1``, 0 in integers. A scale is NaN for
    zero and negative numbers, and never below its smallest.
    """

    config: CastConfig

    def __init__(self, config: CastConfig) -> None:
        self.sources = [ELEMENTS[name] for name in config.sources]
        self.targets = [ELEMENTS[name] for name in config.targets]
        ports = {
            "code": In(max(map(storage_of, self.sources))),
            "random": In(STOCHASTIC_BITS),
            "stochastic": In(1),
            "saturate": In(1),
            "result": Out(max(map(storage_of, self.targets))),
        }
        if len(self.sources) > 1:
            ports["source"] = In(range(len(self.sources)))
        if len(self.targets) > 1:
            ports["target"] = In(range(len(self.targets)))
        super().__init__(config, wiring.Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """Take apart, shift to the last place of the target, round, put special values in place."""
        m = Module()
        pipeline = Pipeline(m, REGISTERS[self.config.stages])
        target = self.target if len(self.targets) > 1 else C(0, 1)
        controls = {"target": target, "stochastic": self.stochastic, "saturate": self.saturate}
        number = self._take(m)
        behind = pipeline.cut("taken", **vars(number), random=self.random, **controls)
        behind = self._shift(m, pipeline, behind)
        result = self._pack(m, behind)
        m.d.comb += self.result.eq(pipeline.cut("packed", result=result).result)
        return m

    def _take(self, m: Module) -> Any:
        """The number in the parts of its format, significands aligned at the top."""
        parts = [take_apart(m, entry, self.code) for entry in self.sources]
        width = max(len(part.significand) for part in parts)
        for part in parts:
            part.significand = Cat(C(0, width - len(part.significand)), part.significand)
        chosen = {}
        for name, example in vars(parts[0]).items():
            signal = Signal(EXPONENT if name == "exponent" else len(example), name=name)
            options = Array(getattr(part, name) for part in parts)
            m.d.comb += signal.eq(options[self.source] if len(parts) > 1 else options[0])
            chosen[name] = signal
        return SimpleNamespace(**chosen)

    def _constant(self, m: Module, target: Any, name: str, values: list[int], shape: Any) -> Any:
        """A number that depends on the target."""
        signal = Signal(shape, name=name)
        m.d.comb += signal.eq(Array(C(value, shape) for value in values)[target] if len(values) > 1 else values[0])
        return signal

    def _shift(self, m: Module, pipeline: Pipeline, behind: Any) -> Any:
        """The magnitude in units of the target's last place, rounded down, and whether rounding goes up."""
        places = max(map(places_of, self.targets))
        # A float keeps places below its top bit, but none below its smallest exponent; an integer is always below it.
        lowest = [_lowest(entry) for entry in self.targets]
        floor = self._constant(m, behind.target, "floor", lowest, EXPONENT)
        spare = self._constant(m, behind.target, "spare", [places - places_of(e) for e in self.targets], 6)
        above = Signal(signed(11))
        m.d.comb += above.eq(behind.exponent - floor)
        normal = ~above[-1]
        distance = Signal(11)
        m.d.comb += distance.eq(Mux(normal, 0, -above) + spare)

        width = max(places + STOCHASTIC_BITS, len(behind.significand)) + 1
        value = Cat(C(0, width - len(behind.significand)), behind.significand)
        shifted = shift_right_sticky(m, "right", value, distance)
        kept, below = shifted[-places:], shifted[:-places]
        fraction = below[-STOCHASTIC_BITS:]
        nearest = below[-1] & (below[:-1].any() | kept[0])
        carry = (fraction + behind.random)[STOCHASTIC_BITS]
        return pipeline.cut(
            "shifted",
            kept=kept,
            up=Mux(behind.stochastic, carry, nearest),
            # Exponents above the smallest one; an integer's stands above its largest, so that any means overflow.
            field=Mux(normal & ~behind.zero, above[:9], 0),
            **{name: getattr(behind, name) for name in ("target", "saturate", "sign", "zero", "infinite", "nan")},
        )

    def _pack(self, m: Module, behind: Any) -> Any:
        """The code: rounded magnitude and exponent in one sum, or a special value."""
        results: list[Any] = []
        for entry in self.targets:
            if isinstance(entry, IntFormat):
                results.append(self._pack_int(m, entry, behind))
            elif isinstance(entry, ScaleFormat):
                results.append(self._pack_scale(m, entry, behind))
            else:
                results.append(self._pack_float(m, entry, behind))
        result = Signal(len(self.result), name="chosen")
        m.d.comb += result.eq(Array(results)[behind.target] if len(results) > 1 else results[0])
        return result

    def _pack_float(self, m: Module, entry: FloatFormat, behind: Any) -> Any:
        # Hidden bit, its absence in a subnormal and the carry of rounding all count into the exponent.
        total = Signal(10 + entry.mantissa_bits, name=f"{entry.name}_total")
        over = Signal(name=f"{entry.name}_over")
        magnitude = Signal(entry.width - 1, name=f"{entry.name}_code")
        m.d.comb += [
            total.eq((behind.field << entry.mantissa_bits) + behind.kept + behind.up),
            over.eq(behind.infinite | (total > entry.max_finite)),
            magnitude.eq(Mux(over, Mux(behind.saturate, entry.max_finite, _overflow(entry)), total)),
        ]
        padding = C(0, entry.storage - entry.width)
        if entry.nan_pattern is None:
            return Cat(padding, magnitude & ~behind.nan.replicate(len(magnitude)), behind.sign | behind.nan)
        nan = behind.nan if entry.infinity else behind.nan | (over & ~behind.saturate)
        return Cat(padding, Mux(nan, entry.nan_pattern, magnitude)[: len(magnitude)], behind.sign & ~nan)

    def _pack_scale(self, m: Module, entry: ScaleFormat, behind: Any) -> Any:
        # Rounding up moves to the next power of two, except below the smallest one, which code 0 stands for.
        total = Signal(10, name=f"{entry.name}_total")
        m.d.comb += total.eq(behind.field + (behind.kept[0] & behind.up))
        over = behind.infinite | (total >= entry.nan_pattern)
        bad = behind.nan | behind.sign | behind.zero | (over & ~behind.saturate)
        return Mux(bad, entry.nan_pattern, Mux(over, entry.nan_pattern - 1, total))[: entry.width]

    def _pack_int(self, m: Module, entry: IntFormat, behind: Any) -> Any:
        total = Signal(entry.width + 1, name=f"{entry.name}_total")
        limit = Mux(behind.sign, -entry.minimum, entry.maximum)
        m.d.comb += total.eq(behind.kept[: entry.width] + behind.up)
        over = behind.infinite | behind.field.any() | (total > limit)
        magnitude = Mux(over, limit, total)[: entry.width] & ~behind.nan.replicate(entry.width)
        return Mux(behind.sign, -magnitude, magnitude)[: entry.width]


def _lowest(entry: Element) -> int:
    """The exponent below which significands are not normalised; an integer is never above it."""
    if isinstance(entry, FloatFormat):
        return entry.exponent_min
    return entry.width - 1 if isinstance(entry, IntFormat) else -entry.bias


def _overflow(entry: FloatFormat) -> int:
    """What a number beyond the largest becomes if it does not saturate."""
    pattern = entry.infinity_pattern or entry.nan_pattern
    return entry.max_finite if pattern is None else pattern
