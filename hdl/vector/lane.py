"""One lane of the vector engine: casts, two operations in a row, selection, accumulator, random numbers."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.numerics import Cast, Compare
from hdl.scalar.delay import delay
from hdl.vector.alu import Alu
from hdl.vector.layouts import (
    ACCUMULATOR,
    BY_COUNT,
    BY_INDEX,
    BY_INPUT,
    CHOICE,
    CONSTANT,
    FROM_CONSTANT,
    FROM_FIRST,
    FROM_INDEX,
    FROM_LAST,
    FROM_RESULT,
    FROM_RIGHT,
    INDEX,
    LEFT,
    LEFT_WORD,
    POWER,
    POWER_C0,
    POWER_C1,
    POWER_RIGHT,
    RANDOM,
    RANGE,
    RECIPROCAL,
    SCALE,
    SCALED,
    SEARCH,
    STATISTICS,
    VALUE,
    Finish,
    First,
    Second,
    Third,
)
from hdl.vector.operand import Operand, storage_bits
from hdl.vector.power import Power
from hdl.vector.quantize import MAGNITUDE_BITS, LaneQuantizer, word_of
from hdl.vector.reciprocal import Reciprocal
from hdl.vector.search import Search8
from hdl.vector.statistics import LaneStatistics
from spec.formats import FP32
from spec.numerics import STOCHASTIC_BITS, CastConfig, CompareConfig
from spec.vector import KEEP, NEGATIVE_LIMIT, RECIPROCAL_CYCLES, VectorConfig

MINUS_INFINITY = 0xFF800000


class VectorLane(Block):
    """``left`` and ``right`` in, ``result`` and ``written`` ``config.latency - 1`` cycles later; free-running.

    ``left_format``, ``right_format`` and ``raw`` (left, right) belong to the operands, ``c0`` and ``c1`` to the two
    operations; ``first``, ``second``, ``third`` and ``finish`` come 1, ``1 + operation_stages``,
    ``1 + 2 * operation_stages`` and ``1 + compute_latency`` cycles later. ``arrived`` is set when a token leaves the
    second operation. ``number`` is the lane's position, which makes its random numbers its own; ``leads`` marks the
    first lane of a scale. ``magnitude`` and ``largest``: see :class:`LaneQuantizer`. Accumulator and generator have a
    reset.
    """

    left: In(32)
    right: In(32)
    left_format: In(4)
    right_format: In(4)
    raw: In(2)
    c0: In(32)
    c1: In(32)
    number: In(32)
    leads: In(1)
    largest: In(MAGNITUDE_BITS)
    magnitude: Out(MAGNITUDE_BITS)
    first: In(First)
    second: In(Second)
    third: In(Third)
    arrived: In(1)
    finish: In(Finish)
    result: Out(32)
    written: Out(1)

    config: VectorConfig

    def __init__(self, config: VectorConfig) -> None:
        super().__init__(config)

    def elaborate(self, platform: Any) -> Module:
        """The stages in order; delays keep what a later stage needs."""
        m = Module()
        sides = (("left", self.left, self.left_format), ("right", self.right, self.right_format))
        operands = []
        for number, (name, code, format_) in enumerate(sides):
            operand = Operand(self.config)
            m.submodules[name] = place(operand, platform)
            m.d.comb += [operand.code.eq(code), operand.format.eq(format_), operand.raw.eq(self.raw[number])]
            operands.append(operand.operand)
        x, y = operands
        first, last = self._operate(m, platform, x, y)
        power = self._power(m, platform, y, last)
        self._deliver(m, platform, x, y, first, last, power)
        return m

    def _operate(self, m: Module, platform: Any, x: Any, y: Any) -> tuple[Any, Any]:
        """Results of the first and of the second operation."""
        stages, c0, c1 = self.config.operation_stages, self.c0, self.c1
        one, two = Alu(self.config), Alu(self.config)
        m.submodules.operation_0 = place(one, platform)
        m.submodules.operation_1 = place(two, platform)
        held, last = Signal(32), Signal(32)
        m.d.comb += last.eq(Mux(self.arrived, two.result, held))
        m.d.sync += held.eq(last)

        a, b = Signal(32, name="a_0"), Signal(32, name="b_0")
        with m.Switch(self.first.a):
            for code, value in ((LEFT, x), (CONSTANT, c0), (INDEX, self.first.index)):
                with m.Case(code):
                    m.d.comb += a.eq(value)
        with m.Switch(self.first.b):
            for code, value in ((FROM_CONSTANT, c0), (FROM_RIGHT, y), (FROM_LAST, last)):
                with m.Case(code):
                    m.d.comb += b.eq(value)
        m.d.comb += [
            one.operation.eq(self.first.operation),
            one.a.eq(Mux(self.first.reverse, b, a)),
            one.b.eq(Mux(self.first.reverse, a, b)),
        ]

        a, b = Signal(32, name="a_1"), Signal(32, name="b_1")
        with m.Switch(self.second.a):
            for code, value in ((FROM_FIRST, one.result), (FROM_INDEX, self.second.index), (FROM_RESULT, last)):
                with m.Case(code):
                    m.d.comb += a.eq(value)
        with m.Switch(self.second.b):
            for code, value in ((FROM_CONSTANT, c1), (FROM_RIGHT, delay(m, y, stages, "y")), (FROM_LAST, one.result)):
                with m.Case(code):
                    m.d.comb += b.eq(value)
        m.d.comb += [
            two.operation.eq(self.second.operation),
            two.a.eq(Mux(self.second.reverse, b, a)),
            two.b.eq(Mux(self.second.reverse, a, b)),
        ]
        return one.result, two.result

    def _power(self, m: Module, platform: Any, y: Any, value: Any) -> Any:
        """What stands behind the second operation."""
        stages = self.config.operation_stages
        power = Power(self.config)
        m.submodules.power = place(power, platform)
        late = delay(m, y, 2 * stages, "y_late")
        constants = [delay(m, self.c0, 2 * stages, "c0_late"), delay(m, self.c1, stages, "c1_late")]
        b = Signal(32, name="power_b")
        with m.Switch(self.third.b):
            for code, source in ((POWER_C0, constants[0]), (POWER_C1, constants[1]), (POWER_RIGHT, late)):
                with m.Case(code):
                    m.d.comb += b.eq(source)
        m.d.comb += [
            power.root.eq(self.third.root),
            power.a.as_value().eq(Mux(self.third.reverse, b, value)),
            power.b.as_value().eq(Mux(self.third.reverse, value, b)),
        ]
        return power.result.as_value()

    def _deliver(self, m: Module, platform: Any, x: Any, y: Any, first: Any, second: Any, power: Any) -> None:
        """Select, accumulate, cast."""
        config, finish = self.config, self.finish
        cycles, stages = config.compute_latency, config.operation_stages
        statistics, quantizer = LaneStatistics(config), LaneQuantizer(config)
        m.submodules.statistics = place(statistics, platform)
        m.submodules.quantizer = place(quantizer, platform)
        divider = Reciprocal(config)
        m.submodules.reciprocal = place(divider, platform)
        with m.Switch(self.first.divide):
            divisors = ((BY_INPUT, x), (BY_INDEX, self.first.index), (BY_COUNT, statistics.count.as_value()))
            for code, divisor in divisors:
                with m.Case(code):
                    m.d.comb += divider.a.as_value().eq(divisor)
        quotient = delay(m, divider.result.as_value(), cycles - RECIPROCAL_CYCLES, "quotient")
        first_true = delay(m, first[:-1].any(), cycles - stages, "first_true")
        value = delay(m, second, cycles - 2 * stages, "value")
        left, else_ = delay(m, x, cycles, "left_late"), delay(m, self.c0, cycles, "else")
        chosen = Signal()
        true = delay(m, y[:-1].any(), cycles, "true")
        m.d.comb += chosen.eq(Mux(finish.shuffled, else_ != KEEP, true ^ finish.reverse))
        inside = first_true & value[:-1].any()

        word = self._random(m, else_)
        search = Search8(config)
        m.submodules.search = place(search, platform)
        m.d.comb += [
            search.valid.eq(finish.valid),
            search.control.eq(finish.search),
            search.x.as_value().eq(left),
            search.replacement.eq(else_),
        ]
        m.d.comb += [
            statistics.valid.eq(finish.valid),
            statistics.control.eq(finish.statistics),
            statistics.x.as_value().eq(left),
            statistics.scale.as_value().eq(quotient),
            quantizer.valid.eq(finish.valid & finish.quantize.active),
            quantizer.step.eq(finish.quantize.step),
            quantizer.top.eq(finish.quantize.top),
            quantizer.x.as_value().eq(left),
            quantizer.largest.eq(self.largest),
            self.magnitude.eq(quantizer.magnitude),
        ]
        accumulator = Signal(32, init=MINUS_INFINITY)
        selected = Signal(32)
        sources = {
            VALUE: value ^ Cat(C(0, 31), finish.negate),
            CHOICE: Mux(chosen, left, else_),
            RANGE: Mux(inside, left, NEGATIVE_LIMIT),
            POWER: power,
            RECIPROCAL: quotient,
            LEFT_WORD: left,
            RANDOM: word,
            ACCUMULATOR: accumulator,
            SEARCH: search.result,
            STATISTICS: statistics.result,
            SCALED: quantizer.scaled.as_value(),
            SCALE: quantizer.scale,
        }
        with m.Switch(finish.source):
            for code, source in sources.items():
                with m.Case(code):
                    m.d.comb += selected.eq(source)
        self._accumulate(m, platform, accumulator, selected)

        cast = Cast(CastConfig(sources=("fp32",), targets=config.formats))
        m.submodules.cast_out = place(cast, platform)
        m.d.comb += [
            cast.code.eq(Mux(finish.source == SCALE, quantizer.scaled.as_value(), selected)),
            cast.saturate.eq(finish.saturate),
            cast.stochastic.eq(finish.stochastic),
            cast.random.eq(word[-STOCHASTIC_BITS:]),
        ]
        if len(config.formats) > 1:
            m.d.comb += cast.target.eq(finish.format)
        mask = Signal(32)
        scales = finish.source == SCALE
        with m.Switch(finish.format):
            for index, text in enumerate(config.formats):
                with m.Case(index):
                    m.d.comb += mask.eq((1 << storage_bits(text)) - 1)
        written = Mux(scales, self.leads, ~finish.predicated | chosen)
        late = delay(m, Cat(Mux(scales, selected, selected & mask), finish.raw, written), 1, "late")
        quantize = delay(m, finish.quantize, 1, "quantize")
        assembles = quantize.active & ~late[32]
        word = word_of(m, cast.result, quantize.narrow, delay(m, finish.valid & finish.quantize.active, 1, "assembles"))
        m.d.comb += [
            self.result.eq(Mux(late[32], late[:32], Mux(assembles, word, cast.result))),
            self.written.eq(late[33]),
        ]

    def _random(self, m: Module, seed: Any) -> Any:
        """The word of xorshift32, which is its state; the register holds its difference from the lane's first state."""
        state, difference = Signal(32), Signal(32)
        one, two, following = Signal(32), Signal(32), Signal(32)
        m.d.comb += [
            state.eq(difference ^ self.number),
            one.eq(state ^ (state << 13)[:32]),
            two.eq(one ^ (one >> 17)),
            following.eq(two ^ (two << 5)[:32]),
        ]
        with m.If(self.finish.valid & self.finish.seed):
            m.d.sync += difference.eq(Mux(seed.any(), seed, 1) ^ self.number)
        with m.Elif(self.finish.valid & self.finish.draw):
            m.d.sync += difference.eq(following ^ self.number)
        return state

    def _accumulate(self, m: Module, platform: Any, accumulator: Any, selected: Any) -> None:
        """The maximum so far; NaN wins."""
        finish = self.finish
        start = Mux(finish.reset, MINUS_INFINITY, accumulator)
        compare = Compare(CompareConfig())
        m.submodules.compare = place(compare, platform)
        m.d.comb += [compare.a.as_value().eq(start), compare.b.as_value().eq(selected)]
        larger = Mux(compare.unordered, FP32.nan_pattern, Mux(compare.less, selected, start))
        with m.If(finish.valid & (finish.reset | finish.reduce)):
            m.d.sync += accumulator.eq(Mux(finish.reduce, larger, start))
