"""What an instruction makes of each of its rows: the parts of the token that enters the lanes."""

import dataclasses
from typing import Any

from amaranth.hdl import Module, Mux

from hdl.vector.decode import BYPASS, LAST, OPERATION_USERS
from hdl.vector.layouts import (
    ACCUMULATOR,
    AGGREGATE,
    BY_COUNT,
    BY_INDEX,
    CHOICE,
    CODE,
    COMMAND,
    CONSTANT,
    COUNT,
    ELEMENT,
    FIND,
    FROM_CONSTANT,
    FROM_FIRST,
    FROM_INDEX,
    FROM_LAST,
    FROM_RESULT,
    FROM_RIGHT,
    INDEX,
    INSERT,
    LEFT,
    LEFT_WORD,
    MEAN,
    POWER,
    POWER_C0,
    POWER_C1,
    POWER_RIGHT,
    RANDOM,
    RANGE,
    RECIPROCAL,
    REPLACE,
    SCALE,
    SCALED,
    SEARCH,
    SOLVE,
    SPREAD,
    STATISTICS,
    VALUE,
)
from spec.formats import FLOATS
from spec.vector import (
    AGGR_STEPS,
    MX_ELEMENTS,
    MX_ROWS,
    OPERATIONS,
    SEARCH_SLOTS,
    SEARCHES,
    STATS_ROWS,
    STATS_SOLVE,
    TRIPLE,
    VectorConfig,
)

SOURCES = {
    "tensor_copy_predicated": LEFT_WORD,
    "select_reduce": CHOICE,
    "range_select": RANGE,
    "reciprocal": RECIPROCAL,
    "rng": RANDOM,
    "read_accumulator": ACCUMULATOR,
    "nc_stream_shuffle": LEFT_WORD,
    "nc_transpose": LEFT_WORD,
    "bn_stats": STATISTICS,
    "bn_aggr": STATISTICS,
    "quantize_mx": SCALED,
    **dict.fromkeys(SEARCHES, SEARCH),
}
"""What becomes the result; of the instructions not named it is the second operation's value, or the power's."""

COPIES = tuple(CODE[name] for name in ("tensor_copy", "tensor_copy_predicated", "nc_stream_shuffle", "nc_transpose"))
SEARCH_MODES = {"max8": INSERT, "nc_find_index8": FIND, "nc_match_replace8": REPLACE}
RSQRT = list(OPERATIONS).index("rsqrt")


@dataclasses.dataclass(frozen=True)
class Step:
    """Where in its instruction a row is. ``slot`` counts the steps behind the elements, which ``draining`` marks."""

    current: Any
    raw: Any
    number: Any
    position: Any
    loading: Any
    draining: Any
    slot: Any
    ends: Any

    def code(self, name: str) -> Any:
        """Whether the instruction is the one called ``name``."""
        return self.current.opcode == CODE[name]

    @property
    def first(self) -> Any:
        """Whether it is the instruction's first row."""
        return self.number == 0

    @property
    def odd(self) -> Any:
        """The half of ``bn_stats`` that an element or a step behind them is about."""
        late = (self.slot == STATS_SOLVE[1]) | (self.slot >= STATS_ROWS[TRIPLE])
        return Mux(self.draining, late, self.number[0])

    @property
    def keeps(self) -> Any:
        """Whether bits stay as they are: copies between equal formats."""
        return self.current.opcode.matches(*COPIES) & (self.current.left_format == self.current.output_format)

    @property
    def powers(self) -> Any:
        """Whether the power behind the second operation gives the result."""
        return self.current.opcode.matches(*OPERATION_USERS) & (
            self.current.op0.matches(*LAST) | self.current.op1.matches(*LAST)
        )

    def gives_row(self, m: Module, config: VectorConfig, row: Any) -> None:
        """Whether a result comes of it, into ``row``."""
        m.d.comb += row.eq(1)
        with m.Switch(self.current.opcode):
            with m.Case(CODE["set_seed"]):
                m.d.comb += row.eq(0)
            with m.Case(CODE["tensor_reduce"]):
                m.d.comb += row.eq(self.ends)
            with m.Case(CODE["max8"], CODE["nc_find_index8"]):
                m.d.comb += row.eq(self.draining)
            with m.Case(CODE["nc_match_replace8"]):
                m.d.comb += row.eq(~self.loading)
            with m.Case(CODE["nc_transpose"]):
                m.d.comb += row.eq(self.number >= config.block)
            with m.Case(CODE["bn_stats"]):
                m.d.comb += row.eq(self.draining & self.slot.matches(*STATS_ROWS))
            with m.Case(CODE["bn_aggr"]):
                m.d.comb += row.eq(self.draining & (self.slot >= config.compute_latency + AGGR_STEPS - 2))
            with m.Case(CODE["quantize_mx"]):
                m.d.comb += row.eq((self.number >= MX_ROWS) & self.number[:2].matches(0, MX_ROWS - 1))


def describe_operations(m: Module, step: Step, token: Any) -> None:
    """Operands of both operations and of the power. Not assigned is: left and constant, first result and constant."""
    first, second, third, current = token.first, token.second, token.third, step.current
    m.d.comb += [
        first.operation.eq(current.op0),
        first.reverse.eq(current.reverse0),
        first.a.eq(LEFT),
        first.b.eq(FROM_CONSTANT),
        second.operation.eq(current.op1),
        second.reverse.eq(current.reverse1),
        second.a.eq(FROM_FIRST),
        second.b.eq(FROM_CONSTANT),
    ]
    passes = [
        part.eq(value) for side in (first, second) for part, value in ((side.operation, BYPASS), (side.reverse, 0))
    ]
    begins = Mux(step.code("tensor_reduce"), step.position == 0, step.first)
    with m.Switch(current.opcode):
        with m.Case(CODE["tensor_tensor"]):
            m.d.comb += [first.b.eq(FROM_RIGHT), second.operation.eq(BYPASS), second.reverse.eq(0)]
        with m.Case(CODE["scalar_tensor_tensor"]):
            m.d.comb += second.b.eq(FROM_RIGHT)
        with m.Case(CODE["tensor_tensor_scan"]):
            m.d.comb += [first.b.eq(Mux(begins, FROM_CONSTANT, FROM_LAST)), second.b.eq(FROM_RIGHT)]
        with m.Case(CODE["tensor_reduce"]):
            m.d.comb += second.reverse.eq(0)
            with m.If(begins):
                m.d.comb += second.operation.eq(BYPASS)
            with m.Else():
                m.d.comb += [second.a.eq(FROM_RESULT), second.b.eq(FROM_LAST)]
        with m.Case(CODE["range_select"]):
            m.d.comb += [first.a.eq(INDEX), second.a.eq(FROM_INDEX)]
        with m.Case(CODE["tensor_copy"]):
            m.d.comb += passes
        with m.Case(CODE["memset"]):
            m.d.comb += [*passes, first.a.eq(CONSTANT)]
        with m.Case(CODE["bn_stats"]):
            m.d.comb += [*passes, first.a.eq(INDEX), first.divide.eq(BY_INDEX)]
        with m.Case(CODE["bn_aggr"]):
            m.d.comb += first.divide.eq(BY_COUNT)
    _describe_power(m, step, first, second, third)


def _describe_power(m: Module, step: Step, first: Any, second: Any, third: Any) -> None:
    """The operation that a power takes the place of passes its operand on."""
    current = step.current
    with m.If(step.powers & current.op0.matches(*LAST)):
        m.d.comb += [
            first.operation.eq(BYPASS),
            first.reverse.eq(0),
            third.root.eq(current.op0 == RSQRT),
            third.reverse.eq(current.reverse0),
            third.b.eq(Mux(step.code("tensor_tensor"), POWER_RIGHT, POWER_C0)),
        ]
    with m.Elif(step.powers):
        m.d.comb += [
            second.operation.eq(BYPASS),
            second.reverse.eq(0),
            third.root.eq(current.op1 == RSQRT),
            third.reverse.eq(current.reverse1),
            third.b.eq(Mux(step.code("scalar_tensor_tensor"), POWER_RIGHT, POWER_C1)),
        ]


def describe_finish(m: Module, config: VectorConfig, step: Step, row: Any, finish: Any) -> None:
    """Selection, accumulator, output cast, and the families that have hardware of their own."""
    current = step.current
    draws, quantizes = step.code("rng"), step.code("quantize_mx")
    shuffles = step.code("nc_stream_shuffle")
    scales = quantizes & (step.number[:2] == 0)
    bits = step.raw | draws | step.code("nc_find_index8") | step.keeps | scales
    accumulates = current.opcode.matches(CODE["select_reduce"], CODE["range_select"])
    resets = current.reduce.matches(COMMAND["reset"], COMMAND["reset_reduce"])
    adds = current.reduce.matches(COMMAND["reduce"], COMMAND["reset_reduce"])
    stochastic = current.stochastic & ~quantizes
    m.d.comb += [
        finish.source.eq(Mux(step.powers, POWER, VALUE)),
        finish.format.eq(current.output_format),
        finish.raw.eq(bits),
        finish.negate.eq(current.negate & step.code("tensor_reduce") & ~step.raw),
        finish.reverse.eq(current.reverse0),
        finish.predicated.eq(step.code("tensor_copy_predicated") | shuffles),
        finish.shuffled.eq(shuffles),
        finish.saturate.eq(current.saturate | quantizes),
        finish.stochastic.eq(stochastic),
        finish.draw.eq(row & (draws | (stochastic & ~bits))),
        finish.seed.eq(step.code("set_seed")),
        finish.reset.eq(accumulates & step.first & resets),
        finish.reduce.eq(accumulates & adds),
    ]
    with m.Switch(current.opcode):
        for name, source in SOURCES.items():
            with m.Case(CODE[name]):
                m.d.comb += finish.source.eq(source)
    with m.If(scales):
        m.d.comb += finish.source.eq(SCALE)
    with m.If(step.code("bn_stats") & step.slot.matches(*STATS_ROWS[::TRIPLE])):
        m.d.comb += finish.source.eq(VALUE)
    _describe_search(m, step, finish.search)
    _describe_statistics(m, config, step, finish.statistics)
    m.d.comb += [
        finish.quantize.active.eq(quantizes),
        finish.quantize.step.eq(step.number),
        finish.quantize.narrow.eq(0),
    ]
    with m.Switch(current.output_format):
        for position, name in enumerate(config.formats):
            if name in MX_ELEMENTS:
                with m.Case(position):
                    m.d.comb += finish.quantize.top.eq(FLOATS[name].exponent_max)
                    m.d.comb += finish.quantize.narrow.eq(FLOATS[name].width == 4)


def _describe_search(m: Module, step: Step, search: Any) -> None:
    with m.Switch(step.current.opcode):
        for name, mode in SEARCH_MODES.items():
            with m.Case(CODE[name]):
                m.d.comb += search.mode.eq(mode)
    m.d.comb += [
        search.begin.eq(step.first),
        search.load.eq(step.loading),
        search.drain.eq(step.draining),
        search.slot.eq(Mux(step.loading, step.number, step.slot)[: range(SEARCH_SLOTS).stop.bit_length() - 1]),
    ]


def _describe_statistics(m: Module, config: VectorConfig, step: Step, statistics: Any) -> None:
    m.d.comb += statistics.first.eq(step.first & step.current.opcode.matches(CODE["bn_stats"], CODE["bn_aggr"]))
    with m.If(step.code("bn_stats")):
        m.d.comb += [
            statistics.half.eq(step.odd),
            statistics.starts.eq(step.number < 2),
            statistics.empty.eq(step.odd & (step.current.length == 1)),
            statistics.spread.eq(step.slot.matches(*STATS_ROWS[TRIPLE - 1 :: TRIPLE])),
            statistics.phase.eq(ELEMENT),
        ]
        with m.If(step.draining):
            m.d.comb += statistics.phase.eq(Mux(step.slot.matches(*STATS_SOLVE), SOLVE, 0))
    with m.If(step.code("bn_aggr")):
        last = config.compute_latency + AGGR_STEPS - 1
        m.d.comb += [statistics.starts.eq(step.number == 1), statistics.spread.eq(step.slot == last)]
        with m.If(step.draining):
            m.d.comb += statistics.phase.eq(Mux(step.slot == config.compute_latency - 1, AGGREGATE, 0))
        with m.Else(), m.Switch(step.position):
            for position, phase in enumerate((COUNT, MEAN, SPREAD)):
                with m.Case(position):
                    m.d.comb += statistics.phase.eq(phase)
