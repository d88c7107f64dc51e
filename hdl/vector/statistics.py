"""Sums of one lane for ``bn_stats`` and ``bn_aggr``: two adders, a third for squares, one multiplier."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.numerics import Add, Multiply
from hdl.numerics.layouts import Fp32
from hdl.scalar.delay import delay
from hdl.vector.layouts import AGGREGATE, COUNT, ELEMENT, MEAN, SOLVE, SPREAD, Statistics
from spec.formats import FP32
from spec.numerics import AddConfig, MultiplyConfig
from spec.vector import VectorConfig

SIGN = 1 << 31
LATE = 3
"""Cycles from a triple's spread to its sum: behind the square that its mean adds, whatever stalls between the two."""


class LaneStatistics(Block):
    """Takes a step of :data:`hdl.vector.layouts.Statistics` each cycle with ``valid``; ``result`` belongs to the cycle.

    Steps may come in every cycle or later, the sums are the same. Distances are taken from the first element or mean of
    a half; see ``golden.vector.statistics`` for the order of operations. ``SOLVE`` (with ``scale``, 1 / count) replaces
    the first element by the mean 3 cycles later, and the squares by their sum about the mean 4 cycles later, or with
    ``AGGREGATE`` by the variance 5 cycles later. ``count`` is the sum of counts, 2 cycles after the last.
    """

    valid: In(1)
    control: In(Statistics)
    x: In(Fp32)
    scale: In(Fp32)
    count: Out(Fp32)
    result: Out(32)

    config: VectorConfig

    def __init__(self, config: VectorConfig) -> None:
        super().__init__(config)

    def elaborate(self, platform: Any) -> Module:
        """Each step is a few operations, one a cycle; ``then`` counts the cycles from the step."""
        m = Module()
        self._units(m, platform)
        control, half = self.control, self.control.half
        first, total, squares = (self._pair(name) for name in ("first", "total", "squares"))
        count, weight, distance, scale = (Signal(Fp32, name=name) for name in ("sum", "weight", "distance", "scale"))
        x = self.x.as_value()
        steps = {
            code: self.valid & control.phase.matches(*codes)
            for code, codes in (
                (ELEMENT, (ELEMENT,)),
                (COUNT, (COUNT,)),
                (MEAN, (MEAN,)),
                (SPREAD, (SPREAD,)),
                (SOLVE, (SOLVE, AGGREGATE)),
            )
        }

        chains = {code: [step] for code, step in steps.items()}

        def then(code: int, cycles: int) -> Any:
            chain = chains[code]
            while len(chain) <= cycles:
                chain.append(delay(m, chain[-1], 1, f"then_{code}", reset=True))
            return chain[cycles]

        halves = [half]
        for _ in range(3):
            halves.append(delay(m, halves[-1], 1, "half"))
        initial = control.first
        with m.If(self.valid & initial):
            for register in (*first, *total, *squares, count):
                m.d.sync += register.as_value().eq(0)

        # Distances. The first element of a half is its own origin.
        origin = Signal(32)
        m.d.comb += origin.eq(Mux(control.starts, x, _of(first, half)))
        with m.If(steps[ELEMENT] | steps[MEAN]):
            self._sum(m, 0, x, origin ^ SIGN)
            with m.If(control.starts):
                self._keep(m, first, half, x)
        with m.If(then(ELEMENT, 1)):
            self._sum(m, 1, _of(total, halves[1]), self.sums[0])
            self._product(m, self.sums[0], self.sums[0])
        with m.If(then(ELEMENT, 2)):
            self._keep(m, total, halves[2], self.sums[1])
            self._sum(m, 2, _of(squares, halves[2]), self.product)
        with m.If(then(ELEMENT, 3)):
            self._keep(m, squares, halves[3], self.sums[2])

        # Triples: the count weighs the distance and its square. One half only.
        with m.If(steps[COUNT]):
            self._sum(m, 0, Mux(initial, 0, count.as_value()), x)
            m.d.sync += weight.as_value().eq(x)
        with m.If(then(COUNT, 1)):
            m.d.sync += count.as_value().eq(self.sums[0])
        with m.If(then(MEAN, 1)):
            self._product(m, weight.as_value(), self.sums[0])
            m.d.sync += distance.as_value().eq(self.sums[0])
        with m.If(then(MEAN, 2)):
            self._product(m, self.product, distance.as_value())
            self._sum(m, 1, total[0].as_value(), self.product)
        with m.If(then(MEAN, 3)):
            self._keep(m, total, 0, self.sums[1])
        latest = Mux(then(MEAN, 4), self.sums[2], squares[0].as_value())
        with m.If(then(MEAN, 3)):
            self._sum(m, 2, latest, self.product)
        spread = delay(m, x, LATE, "spread")
        with m.If(then(SPREAD, LATE)):
            self._sum(m, 2, latest, spread)
        with m.If(then(MEAN, 4) | then(SPREAD, LATE + 1)):
            self._keep(m, squares, 0, self.sums[2])

        # Mean and spread, or variance.
        inverse = Mux(control.empty, 0, self.scale.as_value())
        with m.If(steps[SOLVE]):
            self._product(m, _of(total, half), inverse)
            m.d.sync += scale.as_value().eq(inverse)
        with m.If(then(SOLVE, 1)):
            self._sum(m, 0, _of(first, halves[1]), self.product)
            self._product(m, _of(total, halves[1]), self.product)
        with m.If(then(SOLVE, 2)):
            self._keep(m, first, halves[2], self.sums[0])
            self._sum(m, 2, _of(squares, halves[2]), self.product ^ SIGN)
        positive = Mux(self.sums[2][-1] & ~_is_nan(self.sums[2]), 0, self.sums[2])
        aggregates = delay(m, control.phase == AGGREGATE, 3, "aggregates")
        with m.If(then(SOLVE, 3) & ~aggregates):
            self._keep(m, squares, halves[3], positive)
        with m.If(then(SOLVE, 3) & aggregates):
            self._product(m, positive, scale.as_value())
        with m.If(then(SOLVE, 4) & delay(m, aggregates, 1, "aggregated")):
            self._keep(m, squares, 0, self.product)
        m.d.comb += [
            self.count.eq(count),
            self.result.eq(Mux(control.spread, _of(squares, half), _of(first, half))),
        ]
        return m

    def _units(self, m: Module, platform: Any) -> None:
        """Three adders and a multiplier of one cycle."""
        adders = [Add(AddConfig(stages=1)) for _ in range(3)]
        multiplier = Multiply(MultiplyConfig(stages=1))
        for number, adder in enumerate(adders):
            m.submodules[f"adder_{number}"] = place(adder, platform)
        m.submodules.multiplier = place(multiplier, platform)
        self._inputs: list[Any] = [(adder.a, adder.b) for adder in adders]
        self._factors: Any = (multiplier.a, multiplier.b)
        self.sums = [adder.result.as_value() for adder in adders]
        self.product = multiplier.result.as_value()

    def _sum(self, m: Module, number: int, a: Any, b: Any) -> None:
        """An adder's operands in this cycle; its result is there in the next."""
        m.d.comb += [port.as_value().eq(value) for port, value in zip(self._inputs[number], (a, b), strict=True)]

    def _product(self, m: Module, a: Any, b: Any) -> None:
        """The multiplier's operands in this cycle."""
        m.d.comb += [port.as_value().eq(value) for port, value in zip(self._factors, (a, b), strict=True)]

    @staticmethod
    def _pair(name: str) -> list[Any]:
        """A register for each half."""
        return [Signal(Fp32, name=f"{name}_{half}") for half in ("even", "odd")]

    @staticmethod
    def _keep(m: Module, pair: list[Any], half: Any, value: Any) -> None:
        for number, register in enumerate(pair):
            with m.If(half == number):
                m.d.sync += register.as_value().eq(value)


def _of(pair: list[Any], half: Any) -> Any:
    return Mux(half, pair[1].as_value(), pair[0].as_value())


def _is_nan(word: Any) -> Any:
    return word[FP32.mantissa_bits : -1].all() & word[: FP32.mantissa_bits].any()
