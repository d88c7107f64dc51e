"""NeuronCore: a semaphore counts every update once, in the order in which they were taken; shared ports are fair."""

from typing import Any, cast

from amaranth.hdl import Array, Assert, Cover, Module, Signal, Value, signed

from hdl.core.layouts import UPDATE, bits
from hdl.core.semaphores import KIND, Semaphores
from hdl.core.share import Share
from spec.core import CoreConfig, ShareConfig
from spec.scalar import ScalarConfig
from spec.tensor import TensorConfig
from spec.vector import VectorConfig
from verif.formal.stream import offer_stands
from verif.harness.formal import Properties

ASKERS = 3
FOUR = CoreConfig(
    tensor=TensorConfig(rows=4, columns=4), vector=VectorConfig(lanes=4), scalar=ScalarConfig(lanes=4), semaphores=4
)
"""Few semaphores, so that updates of one follow each other."""


class SemaphoreProperties(Properties):
    """Follows one semaphore, chosen freely, beside a number that is what its updates say.

    Everything else is free: updates of every asker in every cycle, clearing, reset, whether updates for other cores go
    out. The semaphore's row, or the change that is about to be written there, equals that number; as this is inductive,
    no update is lost, doubled or applied to an old value, for any number of cycles. What everyone hears is the number.
    """

    def __init__(self, config: CoreConfig = FOUR, block: Semaphores | None = None) -> None:
        self.config = config
        self.block = cast(Any, block or Semaphores(config, ASKERS))
        self.choice = Signal(range(config.semaphores))
        self.ports = [getattr(self.block, f"update_{index}") for index in range(ASKERS)]
        offers = [signal for port in self.ports for signal in (port.valid, Value.cast(port.payload))]
        self.inputs = (self.block.clear, self.block.sent.ready, self.choice, *offers)

    def elaborate(self, platform: Any) -> Module:
        """The block, the number, the properties."""
        m = Module()
        block, count = self.block, self.config.semaphores
        m.submodules.block = platform.place(block)
        _, rows = platform.memories[-1]
        chosen, followed = Signal(), Signal(range(count))
        with m.If(~chosen):
            m.d.sync += [chosen.eq(1), followed.eq(self.choice)]

        taken, due = Signal(), Signal()
        update: Any = Signal(UPDATE)
        for port in self.ports:
            with m.If(port.valid & port.ready):
                m.d.comb += [taken.eq(1), update.eq(port.payload)]
        own = update.core == 0
        m.d.sync += due.eq(taken & own)
        number, after = Signal(signed(32)), Signal(signed(32))
        results = {"increment": number + 1, "decrement": number - 1, "set": update.value}
        results |= {"add": number + update.value, "subtract": number - update.value}
        m.d.comb += after.eq(number)
        for kind, result in results.items():
            with m.If(update.kind == KIND[kind]):
                m.d.comb += after.eq(result)
        with m.If(taken & own & (update.semaphore[: bits(count)] == followed)):
            m.d.sync += number.eq(after)
        with m.If(block.clear):
            m.d.sync += number.eq(0)

        row, change = Array(rows)[followed].as_signed(), block.change
        m.d.comb += [
            Assert(sum(port.valid & port.ready for port in self.ports) <= 1, "one at a time"),
            Assert(change.valid == due, "every update of an own semaphore is heard, once"),
            Assert(block.sent.valid == (taken & ~own), "the others go out"),
            Assert(~block.sent.valid | (Value.cast(block.sent.payload) == Value.cast(update)), "as they came"),
            Assert(chosen | (block.clearing & (block.sweep == 0)), "clears after reset"),
            Cover(chosen & ~block.clearing & change.valid & (number == 2), "it counts"),
        ]
        with m.If(block.clearing):
            m.d.comb += [
                Assert(~taken, "nothing is taken while clearing"),
                Assert(number == 0, "what was before is forgotten"),
                Assert((block.sweep <= followed) | (row == 0), "rows behind the sweep are clear"),
                Assert((block.sweep == 0) | ~change.valid, "nothing is under way but at the beginning"),
            ]
        with m.Elif(chosen & change.valid & (change.semaphore[: bits(count)] == followed)):
            m.d.comb += Assert(change.value == number, "what is heard is the number")
        with m.Elif(chosen):
            m.d.comb += Assert(row == number, "its row holds the number")
        return m


class ShareProperties(Properties):
    """Counts whose requests a shared port takes before that of asker 0, for as long as it asks.

    Askers keep what they offer until it is taken, as streams do; the port takes it when it likes, however long it has
    held it back. Turns go around, and what the others had since asker 0 began to wait is at most ``burst`` for each
    whose turn has come: inductive, so nobody is passed over, for any number of cycles.
    """

    def __init__(self, config: ShareConfig, block: Share | None = None) -> None:
        self.config = config
        self.block = cast(Any, block or Share(config))
        self.asked = [getattr(self.block, f"asked_{index}") for index in range(config.ports)]
        offers = [signal for port in self.asked for signal in (port.valid, Value.cast(port.payload))]
        self.inputs = (self.block.request.ready, Value.cast(self.block.answer), *offers)

    def elaborate(self, platform: Any) -> Module:
        """The block, the count, the properties."""
        m = Module()
        block, burst, most = self.block, self.config.burst, self.config.burst * (self.config.ports - 1)
        m.submodules.block = platform.place(block)
        for port in self.asked:
            offer_stands(m, port, assume=True)
        offer_stands(m, block.request)
        first = self.asked[0]
        others = Signal(range(most + 2))
        taken = sum(port.valid & port.ready for port in self.asked)
        with m.If(~first.valid | first.ready):
            m.d.sync += others.eq(0)
        with m.Elif(block.request.valid & block.request.ready):
            m.d.sync += others.eq(others + 1)
        m.d.comb += [
            Assert(taken == (block.request.valid & block.request.ready), "what the port takes is taken from one asker"),
            Assert(block.kept < self.config.ports, "the turn is somebody's"),
            Assert(block.left <= burst, "a turn ends"),
            Assert(block.owners.level <= self.config.depth, "who waits for an answer is known"),
            Assert(others <= most, "nobody waits for more than a turn of each other one"),
            Assert((block.kept != 0) | (block.left == burst) | (others == 0), "nor after a turn of its own"),
            Assert((block.kept != 0) | (block.left != burst) | first.valid, "a turn that is held back is taken"),
            Assert((block.kept == 0) | (others <= burst * block.kept - block.left), "turns go around"),
            Cover(others == most, "the bound is met"),
        ]
        return m
