"""One lane of the scalar engine: an element a cycle through scale, bias, function, accumulator and output cast."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.numerics import Add, Cast, Multiply
from hdl.numerics.layouts import Fp32
from hdl.scalar.delay import delay
from hdl.scalar.exponent import scale_exponent
from hdl.scalar.layouts import EXPONENT_BITS, FinishControl, OutputControl, ReduceControl, TailControl
from hdl.scalar.lookup import Lookup
from hdl.scalar.reduce import SPECIALS, Reduce
from hdl.scalar.tail import Tail
from spec import tables
from spec.formats import FP32
from spec.functions import BASES, TAILS
from spec.numerics import AddConfig, CastConfig, MultiplyConfig
from spec.scalar import ScalarConfig

ONE = 0x3F800000
LOOKUP_CYCLES = 2
STEPS = 3
"""Multiplications of Horner's rule: the degree of the polynomials."""


class ScalarLane(Block):
    """``element`` in, ``result`` out ``config.latency - 1`` cycles later; free-running, no stall.

    The controls come from the engine, each in step with the element's way through the lane: ``format``, ``scale`` and
    ``bias`` with the element (the lane delays the latter two), ``reduce`` after the sum, ``tail`` one cycle and
    ``root`` two cycles later, ``finish`` with the last product, ``outgoing`` after the final scaling. Only the
    accumulator, which is visible state, has a reset.
    """

    element: In(32)
    format: In(4)
    scale: In(Fp32)
    bias: In(Fp32)
    reduce: In(ReduceControl)
    tail: In(TailControl)
    root: In(Fp32)
    finish: In(FinishControl)
    outgoing: In(OutputControl)
    result: Out(32)

    config: ScalarConfig

    def __init__(self, config: ScalarConfig) -> None:
        super().__init__(config)
        self.multiply = MultiplyConfig(stages=config.multiply_stages)
        self.add = AddConfig(stages=config.add_stages)

    def elaborate(self, platform: Any) -> Module:
        """The stages in order; delays keep what a later stage needs."""
        m = Module()
        x = self._prepare(m, platform)
        reduction = Reduce(self.config)
        m.submodules.reduction = place(reduction, platform)
        m.d.comb += [reduction.x.eq(x), reduction.control.eq(self.reduce)]
        sum_, v, segment = self._polynomial(m, platform, reduction)
        scaled = self._finish(m, platform, x, reduction, sum_, v, segment)
        self._deliver(m, platform, scaled)
        return m

    def _product(self, m: Module, platform: Any, name: str, a: Any, b: Any) -> Any:
        block = Multiply(self.multiply)
        m.submodules[name] = place(block, platform)
        m.d.comb += [block.a.eq(a), block.b.eq(b)]
        return block.result

    def _sum(self, m: Module, platform: Any, name: str, a: Any, b: Any) -> Any:
        block = Add(self.add)
        m.submodules[name] = place(block, platform)
        m.d.comb += [block.a.eq(a), block.b.eq(b)]
        return block.result

    def _prepare(self, m: Module, platform: Any) -> Any:
        """Cast in, times scale, plus bias."""
        cast = Cast(CastConfig(sources=self.config.formats, targets=("fp32",)))
        m.submodules.cast_in = place(cast, platform)
        m.d.comb += [cast.code.eq(self.element), cast.saturate.eq(0), cast.stochastic.eq(0), cast.random.eq(0)]
        if len(self.config.formats) > 1:
            m.d.comb += cast.source.eq(self.format)
        number = _view(cast.result)
        scale = delay(m, self.scale, 1, "scale")
        bias = delay(m, self.bias, 1 + self.config.multiply_stages, "bias")
        scaled = self._product(m, platform, "times_scale", number, scale)
        return self._sum(m, platform, "plus_bias", scaled, bias)

    def _polynomial(self, m: Module, platform: Any, reduction: Reduce) -> tuple[Any, Any, Any]:
        """``base + (((c3 * t + c2) * t + c1) * t + small)``, with the segment and ``v`` in step with it."""
        lookup = Lookup(self.config)
        m.submodules.lookup = place(lookup, platform)
        m.d.comb += [
            lookup.v.eq(reduction.v),
            lookup.level.eq(reduction.level),
            lookup.log.eq(reduction.log),
            lookup.root.eq(self.root),
        ]
        step = self.config.multiply_stages + self.config.add_stages
        origin = Signal(Fp32, name="minus_origin")
        m.d.comb += origin.as_value().eq(lookup.origin.as_value() ^ (1 << 31))
        t = self._sum(m, platform, "distance", lookup.later, origin)
        segment = delay(m, lookup.segment, self.config.add_stages, "segment")
        v = delay(m, lookup.later, self.config.add_stages, "v")
        logarithm = delay(m, lookup.logarithm, self.config.add_stages, "logarithm")
        hi = _expand(segment.hi, "hi")
        logs = segment.base == BASES.index("log")
        base = Signal(Fp32, name="base")
        small = Signal(Fp32, name="small")
        m.d.comb += small.eq(Mux(logs, hi, _expand(segment.lo, "lo")))
        with m.Switch(segment.base):
            for name, term in (("hi", hi), ("v", _flip(v, hi.sign)), ("t", _flip(t, hi.sign)), ("log", logarithm)):
                with m.Case(BASES.index(name)):
                    m.d.comb += base.eq(term)
        addends = [_expand(segment.c2, "c2"), _expand(segment.c1, "c1"), small]
        value: Any = _expand(segment.c3, "c3")
        for number, addend in enumerate(addends):
            variable = delay(m, t, number * step, f"t_{number}")
            value = self._product(m, platform, f"horner_product_{number}", value, variable)
            wait = number * step + self.config.multiply_stages
            value = self._sum(m, platform, f"horner_sum_{number}", value, delay(m, addend, wait, f"addend_{number}"))
        base = delay(m, base, STEPS * step, "base")
        result = self._sum(m, platform, "plus_base", value, base)
        late = STEPS * step + self.config.add_stages
        flags = delay(m, Cat(segment.shift, segment.tail), late, "flags")
        return result, delay(m, v, late, "v_late"), flags

    def _finish(self, m: Module, platform: Any, x: Any, reduction: Reduce, total: Any, v: Any, flags: Any) -> Any:
        """Sign, special values, the second factor, the power of two; one register behind them."""
        late = self.config.polynomial_latency
        special = delay(m, reduction.special, late, "special")
        sign = delay(m, x.sign, late, "sign")
        power = delay(m, reduction.power, late, "power")
        shift, has_tail = flags[:2], flags[2]
        tail = Tail(self.config)
        m.submodules.tail = place(tail, platform)
        m.d.comb += [tail.x.eq(x), tail.gauss.eq(self.reduce.gauss), tail.control.eq(self.tail)]
        factor = delay(m, tail.factor, late - tail.latency, "tail_factor")
        tail_power = delay(m, tail.power, late - tail.latency, "tail_power")
        kinds = {name: has_tail & (self.finish.factor == index) for index, name in enumerate(TAILS)}
        exponential = kinds["exp"] | kinds["gauss"]
        regular = special == SPECIALS.index("none")
        left, right = Signal(Fp32, name="left"), Signal(Fp32, name="right")
        exponent = Signal(signed(EXPONENT_BITS))
        m.d.comb += left.eq(_flip(total, self.finish.odd & sign))
        with m.Switch(special):
            for name, value in (
                ("nan", FP32.nan_pattern),
                ("positive_infinity", self.finish.at_infinity[0]),
                ("negative_infinity", self.finish.at_infinity[1]),
                ("positive_zero", self.finish.at_zero[0]),
                ("negative_zero", self.finish.at_zero[1]),
            ):
                with m.Case(SPECIALS.index(name)):
                    m.d.comb += left.eq(value)
        m.d.comb += right.eq(ONE)
        with m.If(kinds["slope"] & sign & (special != SPECIALS.index("negative_zero"))):
            m.d.comb += right.eq(self.finish.alpha)
        with m.Elif(regular & exponential):
            m.d.comb += right.eq(factor)
        with m.Elif(regular & kinds["argument"]):
            m.d.comb += right.eq(v)
        with m.If(regular):
            m.d.comb += exponent.eq(power - shift + Mux(exponential, tail_power, 0))
        product = self._product(m, platform, "last_product", left, right)
        exponent = delay(m, exponent, self.config.multiply_stages, "exponent")
        return delay(m, scale_exponent(m, product, exponent), 1, "value")

    def _deliver(self, m: Module, platform: Any, value: Any) -> None:
        """Accumulate in one cycle, cast out, register."""
        control = self.outgoing
        adder = Add(AddConfig(stages=1))
        m.submodules.accumulate = place(adder, platform)
        held, accumulator, start = Signal(Fp32), Signal(Fp32), Signal(Fp32)
        added = Signal()
        m.d.comb += [
            accumulator.eq(Mux(added, adder.result, held)),
            start.eq(Mux(control.valid & control.reset, 0, accumulator.as_value())),
            adder.a.eq(start),
            adder.b.eq(value),
        ]
        m.d.sync += [added.eq(control.valid & control.reduce), held.eq(start)]
        cast = Cast(CastConfig(sources=("fp32",), targets=self.config.formats))
        m.submodules.cast_out = place(cast, platform)
        m.d.comb += [
            cast.code.eq(Mux(control.read, accumulator, value)),
            cast.saturate.eq(control.saturate),
            cast.stochastic.eq(0),
            cast.random.eq(0),
        ]
        if len(self.config.formats) > 1:
            m.d.comb += cast.target.eq(control.format)
        raw = delay(m, self.element, self.config.latency - 1, "raw")
        m.d.comb += self.result.eq(Mux(delay(m, control.raw, 1, "raw_late"), raw, cast.result))


def _flip(number: Any, sign: Any) -> Any:
    """``number`` with its sign inverted where ``sign``."""
    return _view(Cat(number.mantissa, number.exponent, number.sign ^ sign))


def _expand(stored: Any, name: str) -> Any:
    """A stored coefficient as fp32: the mantissa bits it lacks are zero."""
    missing = 23 - tables.MANTISSA_BITS[name]
    return _view(Cat(C(0, missing), stored))


def _view(bits: Any) -> Any:
    struct: Any = Fp32
    return struct(bits)
