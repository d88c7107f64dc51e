"""All operations of the vector engine on one pair of operands."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.numerics import Add, Compare, Multiply
from hdl.numerics.layouts import Fp32
from hdl.scalar.delay import delay
from spec.formats import FP32
from spec.numerics import AddConfig, CompareConfig, MultiplyConfig
from spec.vector import OPERATIONS, VectorConfig

CODE = {name: index for index, name in enumerate(OPERATIONS)}
ONE = 0x3F800000
SIGN = 1 << 31


class Alu(Block):
    """``result`` is ``operation`` of ``a`` and ``b`` of ``config.operation_stages`` cycles ago; free-running.

    Operands and result are 32 bits: fp32 for arithmetic operations, words for raw ones. ``power`` and ``rsqrt`` are not
    here, they have a block of their own.
    """

    operation: In(6)
    a: In(32)
    b: In(32)
    result: Out(32)

    config: VectorConfig

    def __init__(self, config: VectorConfig) -> None:
        super().__init__(config)

    def elaborate(self, platform: Any) -> Module:
        """Adder and multiplier are pipelines; everything else is computed at once and delayed."""
        m = Module()
        stages = self.config.operation_stages
        adder, multiplier = Add(AddConfig(stages=stages)), Multiply(MultiplyConfig(stages=stages))
        m.submodules.adder = place(adder, platform)
        m.submodules.multiplier = place(multiplier, platform)
        subtracts = self.operation == CODE["subtract"]
        squares = self.operation == CODE["square"]
        m.d.comb += [
            adder.a.as_value().eq(self.a),
            adder.b.as_value().eq(self.b ^ Mux(subtracts, SIGN, 0)),
            multiplier.a.as_value().eq(self.a),
            multiplier.b.as_value().eq(Mux(squares, self.a, self.b)),
        ]
        simple = Signal(32)
        self._compare(m, platform, simple)
        self._raw(m, simple)
        operation = delay(m, self.operation, stages, "chosen")
        m.d.comb += self.result.eq(delay(m, simple, stages, "simple"))
        with m.Switch(operation):
            with m.Case(CODE["add"], CODE["subtract"]):
                m.d.comb += self.result.eq(adder.result)
            with m.Case(CODE["multiply"], CODE["square"]):
                m.d.comb += self.result.eq(multiplier.result)
        return m

    def _compare(self, m: Module, platform: Any, simple: Any) -> None:
        """Comparisons, selections by comparison, logic."""
        magnitudes = self.operation.matches(CODE["abs_max"], CODE["abs_min"])
        a, b = Signal(32), Signal(32)
        m.d.comb += [a.eq(self.a & ~Mux(magnitudes, SIGN, 0)), b.eq(self.b & ~Mux(magnitudes, SIGN, 0))]
        compare = Compare(CompareConfig())
        m.submodules.compare = place(compare, platform)
        m.d.comb += [compare.a.as_value().eq(a), compare.b.as_value().eq(b)]
        less, equal, unordered = compare.less, compare.equal, compare.unordered
        greater = ~less & ~equal & ~unordered
        true_a, true_b = self.a[:-1].any(), self.b[:-1].any()
        conditions = {
            "is_equal": equal,
            "not_equal": ~equal,
            "is_ge": greater | equal,
            "is_gt": greater,
            "is_le": less | equal,
            "is_lt": less,
            "logical_and": true_a & true_b,
            "logical_or": true_a | true_b,
            "logical_xor": true_a ^ true_b,
        }
        nan = self.a[FP32.mantissa_bits : -1].all() & self.a[: FP32.mantissa_bits].any()
        with m.Switch(self.operation):
            for name, condition in conditions.items():
                with m.Case(CODE[name]):
                    m.d.comb += simple.eq(Mux(condition, ONE, 0))
            with m.Case(CODE["bypass"]):
                m.d.comb += simple.eq(self.a)
            with m.Case(CODE["abs"]):
                m.d.comb += simple.eq(self.a[:-1])
            with m.Case(CODE["relu"]):
                m.d.comb += simple.eq(Mux(self.a[-1] & ~nan, 0, self.a))
            with m.Case(CODE["max"], CODE["abs_max"]):
                m.d.comb += simple.eq(Mux(unordered, FP32.nan_pattern, Mux(less, b, a)))
            with m.Case(CODE["min"], CODE["abs_min"]):
                m.d.comb += simple.eq(Mux(unordered, FP32.nan_pattern, Mux(greater, b, a)))

    def _raw(self, m: Module, simple: Any) -> None:
        """Bits and integers, exact in 32 bits."""
        a, b = self.a, self.b
        places, far = b[:5], b[5:].any()
        results = {
            "bitwise_not": ~a,
            "bitwise_and": a & b,
            "bitwise_or": a | b,
            "bitwise_xor": a ^ b,
            "shift_left": Mux(far, 0, (a << places)[:32]),
            "logical_shift_right": Mux(far, 0, a >> places),
            "arithmetic_shift_right": a.as_signed() >> Mux(far, C(31, 5), places),
            "int_add": a + b,
            "int_subtract": a - b,
            "int_multiply": a * b,
        }
        with m.Switch(self.operation):
            for name, result in results.items():
                with m.Case(CODE[name]):
                    m.d.comb += simple.eq(result)


def fp32_view(bits: Any) -> Any:
    """Thirty-two bits as the fields of an fp32 number."""
    struct: Any = Fp32
    return struct(Cat(bits))
