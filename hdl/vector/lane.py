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
    RANDOM,
    RANGE,
    RECIPROCAL,
    SEARCH,
    VALUE,
    Finish,
    First,
    Second,
)
from hdl.vector.reciprocal import Reciprocal
from hdl.vector.search import Search8
from spec.formats import FLOATS, FP32, INTS, FloatFormat
from spec.numerics import STOCHASTIC_BITS, CastConfig, CompareConfig
from spec.vector import KEEP, NEGATIVE_LIMIT, RECIPROCAL_CYCLES, VectorConfig

MINUS_INFINITY = 0xFF800000


class VectorLane(Block):
    """``left`` and ``right`` in, ``result`` and ``written`` ``config.latency - 1`` cycles later; free-running.

    ``left_format``, ``right_format``, ``raw`` (left, right), ``c0`` and ``c1`` belong to the operands; ``first``,
    ``second`` and ``finish`` come 1, ``1 + operation_stages`` and ``1 + compute_latency`` cycles later. ``arrived`` is
    set when a token leaves the second operation. ``number`` is the lane's position, which makes its random numbers its
    own. Accumulator and generator have a reset.
    """

    left: In(32)
    right: In(32)
    left_format: In(4)
    right_format: In(4)
    raw: In(2)
    c0: In(32)
    c1: In(32)
    number: In(32)
    first: In(First)
    second: In(Second)
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
        x = self._operand(m, platform, "left", self.left, self.left_format, self.raw[0])
        y = self._operand(m, platform, "right", self.right, self.right_format, self.raw[1])
        c0 = delay(m, self.c0, 1, "c0")
        first, last = self._operate(m, platform, x, y, c0)
        self._deliver(m, platform, x, y, c0, first, last)
        return m

    def _operand(self, m: Module, platform: Any, name: str, code: Any, format_: Any, raw: Any) -> Signal:
        """Cast to fp32, or the 32-bit word of a raw operation, a cycle later."""
        formats = self.config.formats
        cast = Cast(CastConfig(sources=formats, targets=("fp32",)))
        m.submodules[f"cast_{name}"] = place(cast, platform)
        m.d.comb += [cast.code.eq(code), cast.saturate.eq(0), cast.stochastic.eq(0), cast.random.eq(0)]
        if len(formats) > 1:
            m.d.comb += cast.source.eq(format_)
        word = Signal(32, name=f"{name}_word")
        with m.Switch(format_):
            for index, text in enumerate(formats):
                with m.Case(index):
                    entry = FLOATS[text] if text in FLOATS else INTS[text]
                    width = entry.storage if isinstance(entry, FloatFormat) else entry.width
                    signed = not isinstance(entry, FloatFormat) and entry.signed
                    m.d.comb += word.eq(code[:width].as_signed() if signed else code[:width])
        late = delay(m, Cat(word, raw), 1, f"{name}_late")
        operand = Signal(32, name=f"{name}_operand")
        m.d.comb += operand.eq(Mux(late[-1], late[:-1], cast.result))
        return operand

    def _operate(self, m: Module, platform: Any, x: Any, y: Any, c0: Any) -> tuple[Any, Any]:
        """Results of the first and of the second operation."""
        stages = self.config.operation_stages
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

        c1 = delay(m, self.c1, 1 + stages, "c1")
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

    def _deliver(self, m: Module, platform: Any, x: Any, y: Any, c0: Any, first: Any, second: Any) -> None:
        """Select, accumulate, cast."""
        config, finish = self.config, self.finish
        cycles, stages = config.compute_latency, config.operation_stages
        divider = Reciprocal(config)
        m.submodules.reciprocal = place(divider, platform)
        m.d.comb += divider.a.as_value().eq(x)
        quotient = delay(m, divider.result, cycles - RECIPROCAL_CYCLES, "quotient")
        first_true = delay(m, first[:-1].any(), cycles - stages, "first_true")
        value = delay(m, second, cycles - 2 * stages, "value")
        left, else_ = delay(m, x, cycles, "left_late"), delay(m, c0, cycles, "else")
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
        accumulator = Signal(32, init=MINUS_INFINITY)
        selected = Signal(32)
        sources = {
            VALUE: value ^ Cat(C(0, 31), finish.negate),
            CHOICE: Mux(chosen, left, else_),
            RANGE: Mux(inside, left, NEGATIVE_LIMIT),
            RECIPROCAL: quotient.as_value() if hasattr(quotient, "as_value") else quotient,
            LEFT_WORD: left,
            RANDOM: word,
            ACCUMULATOR: accumulator,
            SEARCH: search.result,
        }
        with m.Switch(finish.source):
            for code, source in sources.items():
                with m.Case(code):
                    m.d.comb += selected.eq(source)
        self._accumulate(m, platform, accumulator, selected)

        cast = Cast(CastConfig(sources=("fp32",), targets=config.formats))
        m.submodules.cast_out = place(cast, platform)
        m.d.comb += [
            cast.code.eq(selected),
            cast.saturate.eq(finish.saturate),
            cast.stochastic.eq(finish.stochastic),
            cast.random.eq(word[-STOCHASTIC_BITS:]),
        ]
        if len(config.formats) > 1:
            m.d.comb += cast.target.eq(finish.format)
        mask = Signal(32)
        with m.Switch(finish.format):
            for index, text in enumerate(config.formats):
                entry = FLOATS[text] if text in FLOATS else INTS[text]
                width = entry.storage if isinstance(entry, FloatFormat) else entry.width
                with m.Case(index):
                    m.d.comb += mask.eq((1 << width) - 1)
        late = delay(m, Cat(selected & mask, finish.raw, ~finish.predicated | chosen), 1, "late")
        m.d.comb += [self.result.eq(Mux(late[32], late[:32], cast.result)), self.written.eq(late[33])]

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
