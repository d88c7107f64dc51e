"""Small blocks the tests of the harness share; few, because each is compiled."""

import dataclasses
from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import data, enum, stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from spec.parameters import Parameters, parameter


class Fault(enum.Enum, shape=2):
    NONE = 0
    WITHDRAW = 1
    CHANGE = 2
    LOSE = 3


class Item(data.Struct):
    tag: 3
    value: data.ArrayLayout(16, 2)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RelayConfig(Parameters):
    mark: int = parameter(1, low=0, high=7, doc="added to each tag")


class Relay(Block):
    """A register between two streams that breaks the rules on request, while ``trigger`` is high."""

    def __init__(self, config: RelayConfig) -> None:
        item = stream.Signature(Item)
        ports = {"i": In(item), "o": Out(item), "fault": In(Fault), "trigger": In(1), "taken": Out(16)}
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        full, item = Signal(), Signal(Item)
        fault = Signal(Fault)
        with m.If(self.trigger):
            m.d.comb += fault.eq(self.fault)
        m.d.comb += [
            self.o.valid.eq(full & (fault != Fault.WITHDRAW)),
            self.o.payload.eq(item),
            self.i.ready.eq(~full | self.o.ready),
        ]
        with m.If(fault == Fault.CHANGE):
            m.d.comb += self.o.payload.tag.eq(~item.tag)
        with m.If(self.i.ready):
            m.d.sync += full.eq(self.i.valid & (fault != Fault.LOSE))
            with m.If(self.i.valid):
                m.d.sync += [
                    item.eq(self.i.payload),
                    item.tag.eq(self.i.payload.tag + self.config.mark),
                    self.taken.eq(self.taken + 1),
                ]
        return m


@dataclasses.dataclass(frozen=True, kw_only=True)
class WideConfig(Parameters):
    lanes: int = parameter(9, low=1, high=64, doc="lanes of 64 bits")


class Adder(Block):
    """Combinational: adds two vectors lane by lane; no clock, no stream."""

    def __init__(self, config: WideConfig) -> None:
        vector = data.ArrayLayout(64, config.lanes)
        super().__init__(config, {"a": In(vector), "b": In(vector), "sum": Out(vector)})

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        for lane in range(self.config.lanes):
            m.d.comb += self.sum[lane].eq(self.a[lane] + self.b[lane])
        return m
