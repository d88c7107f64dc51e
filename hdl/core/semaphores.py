"""Semaphores of a core: one change a cycle, heard by all."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal, signed
from amaranth.lib import data, stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.core.layouts import CHANGE, UPDATE, bits
from hdl.core.share import round_robin
from spec.core import CoreConfig
from spec.isa import UPDATES

KIND = {name: index for index, name in enumerate(UPDATES)}


class Semaphores(Block):
    """``askers`` streams of updates, taken in turn, one a cycle.

    A cycle after an update is taken, ``change`` tells the semaphore and its new value; kind ``none`` changes nothing
    and so asks for the value. An update with a ``core`` goes to ``sent`` instead. ``clear`` sets all semaphores to 0,
    one a cycle: ``busy`` until then, and while an update is under way.
    """

    config: CoreConfig

    def __init__(self, config: CoreConfig, askers: int) -> None:
        self.askers = askers
        signature: dict[str, Any] = {
            "clear": In(1),
            "busy": Out(1),
            "change": Out(CHANGE),
            "sent": Out(stream.Signature(UPDATE)),
        }
        for index in range(askers):
            signature[f"update_{index}"] = In(stream.Signature(UPDATE))
        super().__init__(config, signature)

    @property
    def module_name(self) -> str:
        """The number of askers is part of what it is."""
        return f"{super().module_name}_{self.askers}"

    def elaborate(self, platform: Any) -> Module:
        """Choose, read, change, write."""
        m = Module()
        count = self.config.semaphores
        asked = [getattr(self, f"update_{index}") for index in range(self.askers)]
        valid = Signal(self.askers)
        for index, port in enumerate(asked):
            m.d.comb += valid[index].eq(port.valid & ((port.payload.core == 0) | self.sent.ready))
        sweep, clearing = Signal(range(count)), Signal(init=1)
        self.sweep, self.clearing = sweep, clearing
        taken = Signal()
        m.d.comb += taken.eq(valid.any() & ~clearing)
        chosen = round_robin(m, valid, self.askers, taken, "turn")
        update = Signal(UPDATE)
        with m.Switch(chosen):
            for index, port in enumerate(asked):
                with m.Case(index):
                    m.d.comb += [update.eq(port.payload), port.ready.eq(taken & valid[index])]

        memory: Memory = Memory(shape=32, depth=count, init=[])
        m.submodules.memory = memory
        write = memory.write_port()
        read = memory.read_port(transparent_for=(write,))
        held, old, new = Signal(data.StructLayout(UPDATE.members)), Signal(signed(32)), Signal(signed(32))
        valid_held = Signal()
        own = update.core == 0
        m.d.comb += [
            read.addr.eq(update.semaphore[: bits(count)]),
            read.en.eq(taken),
            old.eq(read.data),
            self.sent.valid.eq(taken & ~own),
            self.sent.payload.eq(update),
            self.change.valid.eq(valid_held),
            self.change.semaphore.eq(held.semaphore),
            self.change.value.eq(new),
            write.addr.eq(Mux(clearing, sweep, held.semaphore[: bits(count)])),
            write.data.eq(Mux(clearing, 0, new)),
            write.en.eq(clearing | valid_held),
            self.busy.eq(clearing | valid.any() | valid_held),
        ]
        m.d.sync += [valid_held.eq(taken & own), held.eq(update)]
        with m.Switch(held.kind):
            with m.Case(KIND["increment"]):
                m.d.comb += new.eq(old + 1)
            with m.Case(KIND["decrement"]):
                m.d.comb += new.eq(old - 1)
            with m.Case(KIND["add"]):
                m.d.comb += new.eq(old + held.value)
            with m.Case(KIND["subtract"]):
                m.d.comb += new.eq(old - held.value)
            with m.Case(KIND["set"]):
                m.d.comb += new.eq(held.value)
            with m.Default():
                m.d.comb += new.eq(old)
        with m.If(clearing):
            m.d.sync += [sweep.eq(sweep + 1), clearing.eq(sweep != count - 1)]
        with m.If(self.clear):
            m.d.sync += [sweep.eq(0), clearing.eq(1)]
        return m
