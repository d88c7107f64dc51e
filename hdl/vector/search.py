"""Eight slots of one lane: the largest elements, or values to look for."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.numerics import Compare
from hdl.numerics.layouts import Fp32
from hdl.vector.layouts import FIND, INSERT, REPLACE, Search
from spec.numerics import CompareConfig
from spec.vector import SEARCH_SLOTS, VectorConfig

MINUS_INFINITY = 0xFF800000


class Search8(Block):
    """Takes an element, fills a slot or reads one each cycle with ``valid``; ``result`` belongs to the same cycle.

    Inserting keeps the eight largest in descending order, equal ones in the order they came. Finding notes the index of
    the element in the first free slot that equals it; replacing gives ``replacement`` instead of an element that equals
    a free slot, the last of them. A slot that matched is free no more. ``begin`` marks the first token of a search.
    """

    valid: In(1)
    control: In(Search)
    x: In(Fp32)
    replacement: In(32)
    result: Out(32)

    config: VectorConfig

    def __init__(self, config: VectorConfig) -> None:
        super().__init__(config)

    def elaborate(self, platform: Any) -> Module:
        """Eight comparators."""
        m = Module()
        control, count = self.control, SEARCH_SLOTS
        slots = [Signal(32, name=f"slot_{index}") for index in range(count)]
        places = [Signal(32, name=f"place_{index}") for index in range(count)]
        used = Signal(count)
        index = Signal(32)
        less, equal, values = [], [], []
        for number, slot in enumerate(slots):
            compare = Compare(CompareConfig())
            m.submodules[f"compare_{number}"] = place(compare, platform)
            value = Mux(control.begin, MINUS_INFINITY, slot)
            m.d.comb += [compare.a.as_value().eq(value), compare.b.eq(self.x)]
            values.append(value)
            less.append(compare.less)
            equal.append(compare.equal & ~used[number])
        first = Cat(equal[n] & ~Cat(equal[:n]).any() for n in range(count))
        last = Cat(equal[n] & ~Cat(equal[n + 1 :]).any() for n in range(count))
        hit = Mux(control.mode == REPLACE, last, first)
        searches = self.valid & ~control.load & ~control.drain
        with m.If(self.valid & control.load):
            m.d.sync += [used.eq(0), index.eq(0)]
            with m.Switch(control.slot):
                for number in range(count):
                    with m.Case(number):
                        m.d.sync += [slots[number].eq(self.x), places[number].eq(-1)]
        with m.Elif(searches & (control.mode == INSERT)):
            for number in range(count):
                above = Mux(less[number - 1], values[number - 1], self.x) if number else self.x
                m.d.sync += slots[number].eq(Mux(less[number], above, values[number]))
        with m.Elif(searches & (control.mode != 0)):
            m.d.sync += [used.eq(used | hit), index.eq(index + 1)]
            for number in range(count):
                with m.If(hit[number]):
                    m.d.sync += places[number].eq(index)
        m.d.comb += self.result.eq(Mux(equal_any(equal), self.replacement, self.x))
        with m.If(control.mode == INSERT):
            m.d.comb += self.result.eq(Array(slots)[control.slot])
        with m.Elif(control.mode == FIND):
            m.d.comb += self.result.eq(Array(places)[control.slot])
        return m


def equal_any(matches: list[Any]) -> Any:
    """Whether any slot matches."""
    return Cat(matches).any()
