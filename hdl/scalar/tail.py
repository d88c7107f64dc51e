"""The exponential factor: fixed-point argument, table of ``2**f``, polynomial of degree two."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal, signed
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.numerics import Add, Multiply
from hdl.numerics.layouts import Fp32
from hdl.scalar.delay import delay
from hdl.scalar.layouts import TAIL_ARGUMENT_BITS, TailControl
from spec import tables
from spec.functions import (
    TAIL_CONSTANT_FRACTION,
    TAIL_FRACTION_BITS,
    TAIL_INDEX_BITS,
    TAIL_LIMIT,
    TAIL_OPERAND_BITS,
)
from spec.numerics import AddConfig, MultiplyConfig
from spec.scalar import ScalarConfig

VARIABLE_BITS = TAIL_FRACTION_BITS - TAIL_INDEX_BITS
SIGNIFICAND = 24
OVERFLOW_WEIGHT = 8
"""``|x|`` or ``x * x`` of 2**8 and more is beyond every representable result."""
DROP = TAIL_OPERAND_BITS + TAIL_CONSTANT_FRACTION - TAIL_FRACTION_BITS
POWER_BITS = TAIL_ARGUMENT_BITS - TAIL_FRACTION_BITS


class Tail(Block):
    """``factor * 2**power`` is ``scale * exp(-rate * x**2)`` or ``exp(rate * x)`` of the ``x`` of :attr:`latency` ago.

    ``gauss`` belongs to ``x``, ``control`` (constants) comes one cycle later. ``factor`` is in [1, 2), or 0 where the
    result is far below every subnormal. Free-running, no stall, no reset.
    """

    x: In(Fp32)
    gauss: In(1)
    control: In(TailControl)
    factor: Out(Fp32)
    power: Out(signed(POWER_BITS))

    config: ScalarConfig

    def __init__(self, config: ScalarConfig) -> None:
        super().__init__(config)
        self.latency = 3 + 2 * config.multiply_stages + 3 * config.add_stages
        multiply, add = MultiplyConfig(stages=config.multiply_stages), AddConfig(stages=config.add_stages)
        self.products = [Multiply(multiply) for _ in range(2)]
        self.sums = [Add(add) for _ in range(3)]

    def elaborate(self, platform: Any) -> Module:
        """Argument, table row, Horner."""
        m = Module()
        z = self._argument(m)
        power = Signal(signed(POWER_BITS))
        m.d.comb += power.eq(z[TAIL_FRACTION_BITS:].as_signed())
        rows = [sum(word << 32 * index for index, word in enumerate(row)) for row in tables.tail_table().rows]
        table: Any = Memory(shape=128, depth=len(rows), init=rows)
        m.submodules.table = table
        port = table.read_port()
        m.d.comb += port.addr.eq(z[VARIABLE_BITS:TAIL_FRACTION_BITS])
        t = self._variable(m, z)
        high, low, first, second = (port.data.word_select(index, 32) for index in range(4))
        multiply, add = self.config.multiply_stages, self.config.add_stages
        sums, products = self.sums, self.products
        for number, product in enumerate(products):
            m.submodules[f"product_{number}"] = place(product, platform)
        for number, total in enumerate(sums):
            m.submodules[f"sum_{number}"] = place(total, platform)
        m.d.comb += [
            products[0].a.eq(second),
            products[0].b.eq(t),
            sums[0].a.eq(products[0].result),
            sums[0].b.eq(delay(m, first, multiply, "first")),
            products[1].a.eq(sums[0].result),
            products[1].b.eq(delay(m, t, multiply + add, "t")),
            sums[1].a.eq(products[1].result),
            sums[1].b.eq(delay(m, low, 2 * multiply + add, "low")),
            sums[2].a.eq(sums[1].result),
            sums[2].b.eq(delay(m, high, 2 * multiply + 2 * add, "high")),
        ]
        late = delay(m, power, self.latency - 2, "power")
        m.d.comb += self.power.eq(late)
        vanished = late <= -TAIL_LIMIT
        m.d.comb += self.factor.eq(Mux(vanished, 0, sums[2].result.as_value()))
        return m

    def _argument(self, m: Module) -> Signal:
        """Two cycles: operand, then its product with the constant, in fixed point."""
        significand = Cat(self.x.mantissa, C(1, 1))
        square = Signal(2 * SIGNIFICAND)
        exponent = Signal(signed(9))
        m.d.comb += [square.eq(significand * significand), exponent.eq(self.x.exponent - 127)]
        operand = Signal(TAIL_OPERAND_BITS, reset_less=True)
        weight = Signal(signed(10), reset_less=True)
        negative = Signal(reset_less=True)
        plain = Cat(C(0, TAIL_OPERAND_BITS - SIGNIFICAND), significand)
        m.d.sync += [
            operand.eq(Mux(self.gauss, square[-TAIL_OPERAND_BITS:], plain)),
            weight.eq(Mux(self.gauss, 2 * exponent + 2, exponent + 1)),
            negative.eq(self.gauss | self.x.sign),
        ]
        product = Signal(2 * TAIL_OPERAND_BITS)
        places = Signal(11)
        m.d.comb += [product.eq(operand * self.control.multiplier), places.eq(DROP - weight)]
        limit = TAIL_LIMIT << TAIL_FRACTION_BITS
        size = Signal(TAIL_ARGUMENT_BITS - 1)
        m.d.comb += size.eq(Mux(places[7:].any(), 0, product >> places[:7]))
        argument = Signal(signed(TAIL_ARGUMENT_BITS))
        m.d.comb += argument.eq(Mux(negative, -size, size) + self.control.offset)
        z = Signal(signed(TAIL_ARGUMENT_BITS), reset_less=True)
        beyond = (weight > OVERFLOW_WEIGHT) | (size >= limit)
        m.d.sync += z.eq(Mux(beyond, Mux(negative, -limit, limit), argument))
        return z

    def _variable(self, m: Module, z: Signal) -> Signal:
        """The distance from the middle of the table's segment as an exact fp32, one cycle later."""
        offset = Signal(signed(VARIABLE_BITS))
        m.d.comb += offset.eq(Cat(z[: VARIABLE_BITS - 1], ~z[VARIABLE_BITS - 1]).as_signed())
        size = Signal(VARIABLE_BITS)
        m.d.comb += size.eq(Mux(offset < 0, -offset, offset))
        value: Any = size
        amount: list[Signal] = []
        for index in reversed(range(5)):
            shift = Signal(name=f"by_{1 << index}")
            shifted = Signal(VARIABLE_BITS, name=f"to_{1 << index}")
            m.d.comb += shift.eq(~value[VARIABLE_BITS - (1 << index) :].any())
            m.d.comb += shifted.eq(Mux(shift, value << (1 << index), value))
            value = shifted
            amount.insert(0, shift)
        t = Signal(Fp32, name="variable", reset_less=True)
        top = 127 + VARIABLE_BITS - 1 - TAIL_FRACTION_BITS
        m.d.sync += [
            t.sign.eq(offset < 0),
            t.exponent.eq(Mux(size == 0, 0, top - Cat(amount))),
            t.mantissa.eq(value[:23]),
        ]
        return t
