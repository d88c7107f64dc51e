"""Control of the tensor engine: no column lost or doubled, stationaries change hands whole, no sum read too early."""

from collections.abc import Callable
from typing import Any, cast

from amaranth.hdl import Assert, Assume, Cover, Module, Signal

from hdl.tensor.sequencer import Sequencer
from spec.tensor import Operation, Status, TensorConfig
from verif.harness.formal import Properties

SMALL = TensorConfig(
    rows=2, columns=2, load_columns=1, formats=("bf16",), psum_banks=1, psum_bank_bytes=16, add_stages=1, queue_depth=2
)
"""Loads of one or two columns, matmuls of one to four, accumulation two cycles deep."""

TILED = SMALL.replace(rows=4, tiles=2, psum_banks=2)
"""The same with rows that split in two and a bank for each half."""


class SequencerProperties(Properties):
    """What is common: a sequencer whose every input is free, but that no more matmuls are done than were begun."""

    def __init__(self, config: TensorConfig, build: Callable[[TensorConfig], Sequencer] = Sequencer) -> None:
        self.config = config
        self.block = cast(Any, build(config))
        block = self.block
        self.mark = Signal()
        self.inputs = (
            block.requests.valid,
            block.requests.payload.as_value(),
            block.status.ready,
            block.stationary_valid,
            block.moving_valid,
            block.done,
            block.all_written,
            self.mark,
        )

    def elaborate(self, platform: Any) -> Module:
        """Place the block, name its events, state what a subclass wants."""
        m = Module()
        block = self.block
        m.submodules.sequencer = platform.place(block)
        self.state: dict[str, Any] = block.state
        taken = block.requests.valid & block.requests.ready
        loading = block.requests.payload.operation == Operation.LOAD_STATIONARY
        good = block.verdict == Status.OK
        self.load, self.matmul = taken & loading, taken & ~loading
        self.good_load, self.good_matmul = self.load & good, self.matmul & good
        self.column = block.control.column
        flying = Signal(range(self.config.queue_depth + 1))
        begun = self.column.valid & self.column.last
        m.d.sync += flying.eq(flying + begun - block.done)
        m.d.comb += Assume(~block.done | (flying != 0), "only what was begun is done")
        self.state_what_holds(m)
        return m

    def state_what_holds(self, m: Module) -> None:
        """Assertions."""
        raise NotImplementedError


class ColumnProperties(SequencerProperties):
    """Each matmul taken moves exactly its columns, each load exactly its groups, refused ones too.

    Of an accepted matmul the columns go to consecutive addresses from the one it names, and exactly the last one says
    so. As many statuses as instructions are given.
    """

    def state_what_holds(self, m: Module) -> None:
        """What is owed, counted apart from the block, and how its registers relate to that."""
        block, config, state, column = self.block, self.config, self.state, self.column
        request = block.requests.payload
        bits = config.columns_bits
        owed, groups = Signal(bits), Signal(bits)
        wanted, accepted = Signal(range(config.psum_depth)), Signal()
        moved = block.moving_valid & block.moving_ready
        loaded = block.stationary_valid & block.stationary_ready
        with m.If(moved):
            m.d.sync += [owed.eq(owed - 1), wanted.eq(wanted + 1)]
        with m.If(loaded):
            m.d.sync += groups.eq(groups - 1)
        with m.If(self.matmul):
            m.d.sync += [owed.eq(request.columns), accepted.eq(self.good_matmul)]
            m.d.sync += wanted.eq(request.bank * config.bank_depth + request.offset)
        step = config.load_columns
        with m.If(self.load):
            m.d.sync += groups.eq((request.columns + (step - 1)) // step)
        given = block.status.valid & block.status.ready
        statuses = Signal(range(config.queue_depth + 1))
        m.d.sync += statuses.eq(statuses + (self.load | self.matmul) - given)
        m.d.comb += [
            Assert(~moved | (owed != 0), "no more operands than the matmul has columns"),
            Assert(~self.matmul | (owed == moved), "a matmul follows when the one before has all its columns"),
            Assert(~loaded | (groups != 0), "no more operands than the load has groups"),
            Assert(~self.load | (groups == loaded), "a load follows when the one before has all its groups"),
            Assert(column.valid == (moved & accepted), "a column is issued for each operand of an accepted matmul"),
            Assert(~column.valid | (column.address.as_value() == wanted), "to the next address"),
            Assert(~column.valid | (column.last == (owed == 1)), "the last one says so"),
            Assert(statuses == state["count"], "a status for each instruction"),
            Assert(~given | (statuses != 0), "and none without"),
            Cover(column.valid & column.last & (column.address.offset == 3), "a matmul of a whole bank"),
            # Relations that make the above inductive.
            Assert(state["active"] == (owed != 0), "at work while operands are owed"),
            Assert(~state["active"] | (state["left"] == owed), "and counts them"),
            Assert(~state["active"] | (state["drop"] == ~accepted), "drops what was refused"),
            Assert(~state["active"] | ~accepted | (state["address"] == wanted), "the address goes along"),
            Assert(state["load_active"] == (groups != 0), "loads while groups are owed"),
            Assert(~state["load_active"] | ((state["load_left"] + (step - 1)) // step == groups), "and counts them"),
        ]


class SwapProperties(SequencerProperties):
    """A matmul multiplies with the stationary that was loaded last before it, whole, and with no part of the next one.

    Follows one load, chosen freely. The first matmul taken after it swaps it in with its first column, not before its
    last operand is loaded; no other load touches it until then; later matmuls do not swap again.
    """

    def state_what_holds(self, m: Module) -> None:
        """The life of the load that is followed: loaded last, awaited by a matmul, in use."""
        block, state, column = self.block, self.state, self.column
        last, awaited, used, arriving = Signal(), Signal(), Signal(), Signal()
        free = ~last & ~awaited & ~used
        issued, swap, writes = column.valid, block.control.swap, block.control.load
        with m.If(self.load | (writes & (state["load_left"] <= self.config.load_columns))):
            m.d.sync += arriving.eq(0)
        with m.If(free & self.good_load & self.mark):
            m.d.sync += [last.eq(1), arriving.eq(1)]
        with m.If(last & self.load):
            m.d.sync += last.eq(0)
        with m.If(last & self.good_matmul):
            m.d.sync += [last.eq(0), awaited.eq(1)]
        with m.If(awaited & issued):
            m.d.sync += [awaited.eq(0), used.eq(~self.load)]
        with m.If(used & self.load):
            m.d.sync += used.eq(0)
        m.d.comb += [
            Assert(~(awaited & issued) | swap, "the first column brings the stationary in"),
            Assert(~(awaited & issued) | ~arriving, "when all of it is there"),
            Assert(~((last | awaited) & writes) | arriving, "nothing else is loaded over it"),
            Assert(~(awaited & self.load) | (issued & swap), "the next load waits for that"),
            Assert(~(used & issued) | ~swap, "it comes in once"),
            Cover(used & issued, "a second matmul with the same stationary"),
            # Relations that make the above inductive.
            Assert(last + awaited + used <= 1, "one state at a time"),
            Assert(~last | (state["exists"] & state["fresh"]), "a stationary, not yet used"),
            Assert(~awaited | (state["active"] & ~state["drop"] & state["swap"] & ~state["fresh"]), "awaited"),
            Assert(~used | (~state["fresh"] & ~(state["active"] & state["swap"])), "in use"),
            Assert(~(last | awaited) | (arriving == (state["load_active"] & ~state["load_drop"])), "its operands"),
            Assert(~arriving | last | awaited, "and of no other load"),
            Assert(~last | ~(state["active"] & state["swap"]), "no matmul awaits the one before"),
            Assert(~(state["active"] & state["drop"]) | ~state["swap"], "what is refused swaps nothing"),
        ]


class HandOverProperties(SequencerProperties):
    """A column that accumulates onto a location comes no sooner than the result written before can be read.

    Follows one location, chosen freely; a column of split rows has one in each bank that its parts write.
    """

    def state_what_holds(self, m: Module) -> None:
        """How long ago the location was last sent a result."""
        config, column = self.config, self.column
        where, chosen = Signal(range(config.psum_depth)), Signal()
        with m.If(~chosen):
            m.d.sync += [where.eq(column.address.as_value()), chosen.eq(self.mark)]
        distance = config.accumulate_distance
        age = Signal(range(distance + 1), init=distance)
        depth = config.bank_depth
        first = column.address.as_value() == where
        split = column.split != 0 if config.tiles > 1 else 0
        touches = column.valid & (first | (split & (column.address.as_value() + depth == where)))
        with m.If(touches & chosen):
            m.d.sync += age.eq(1)
        with m.Elif(age != distance):
            m.d.sync += age.eq(age + 1)
        m.d.comb += [
            Assert(~(touches & chosen & column.accumulate) | (age == distance), "it can be read"),
            Assert(chosen | (age == distance), "nothing is followed yet"),
            Cover(touches & chosen & column.accumulate & (age == distance), "accumulation as soon as possible"),
        ]
