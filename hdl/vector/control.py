"""Instructions of the vector engine: check, fetch constants ahead, issue rows while there is credit."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block
from hdl.vector.decode import check, drains_of, needs_of
from hdl.vector.describe import Step, describe_finish, describe_operations
from hdl.vector.layouts import CODE, ERROR, Instruction, Token
from spec.vector import INSTRUCTION, SEARCH_SLOTS, TRIPLE, VectorConfig

FIELDS = dict(INSTRUCTION)


class Control(Block):
    """Two instructions deep: one decoded, with its constants, behind the one whose rows are being issued.

    ``take_left`` and ``take_right``: the row on that operand stream is taken in this cycle. ``token`` describes what
    enters the lanes in this cycle; ``formats``, ``raw`` and the constants belong to it. ``returned``: an item left the
    output queue. ``index`` is the integer that becomes the token's index; ``shuffle`` says that lanes
    take the elements of the lanes that ``c0`` names, ``transpose`` that they take those of the transposed block.
    """

    config: VectorConfig

    def __init__(self, config: VectorConfig) -> None:
        row = data.ArrayLayout(32, config.lanes)
        ports = {
            "instructions": In(stream.Signature(Instruction)),
            "constants": In(stream.Signature(row)),
            "left_valid": In(1),
            "right_valid": In(1),
            "returned": In(1),
            "take_left": Out(1),
            "take_right": Out(1),
            "token": Out(Token),
            "left_format": Out(4),
            "right_format": Out(4),
            "raw": Out(2),
            "index": Out(32),
            "shuffle": Out(1),
            "transpose": Out(1),
            "c0": Out(row),
            "c1": Out(row),
        }
        super().__init__(config, Signature(ports))
        self.places = Signal(range(config.latency + 2), init=config.latency + 1)

    def elaborate(self, platform: Any) -> Module:
        """Decoder, issue, credit, pace."""
        m = Module()
        config = self.config
        held, ready, c0, c1, move = self._decode(m)
        current = Signal(Instruction)
        active, error = Signal(), Signal(3)
        remaining, position = Signal(FIELDS["length"] + 1), Signal(FIELDS["group"])
        number = Signal(FIELDS["length"] + 1)  # of rows issued
        pause = Signal(range(2 * config.operation_stages))
        needs = needs_of(current)
        drains = drains_of(m, config, current.opcode, "current")
        refused = error != ERROR["done"]
        loading = needs.loads & (number < SEARCH_SLOTS)
        draining = remaining <= drains
        slot = Mux(draining, drains - remaining, 0)[: len(drains)]
        left, right = needs.left & ~refused & ~draining, needs.right & ~refused & ~draining
        go, step, final, row = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            go.eq(active & (self.places != 0) & (pause == 0)),
            step.eq(go & (self.left_valid | ~left) & (self.right_valid | ~right)),
            self.take_left.eq(step & left),
            self.take_right.eq(step & right),
            final.eq(remaining == 1),
            move.eq(ready & (~active | (step & final))),
        ]
        m.d.sync += self.places.eq(self.places + self.returned - step)
        with m.If(pause != 0):
            m.d.sync += pause.eq(pause - 1)
        scans, reduces = current.opcode == CODE["tensor_tensor_scan"], current.opcode == CODE["tensor_reduce"]
        group = Mux(current.opcode == CODE["bn_aggr"], TRIPLE, current.group)
        ends = final | (position == group - 1)
        with m.If(step):
            waits = Mux(scans, 2 * config.operation_stages - 1, Mux(reduces, config.operation_stages - 1, 0))
            m.d.sync += [
                remaining.eq(remaining - 1),
                number.eq(number + 1),
                position.eq(Mux(ends, 0, position + 1)),
                pause.eq(Mux(final, 0, waits)),
            ]
            with m.If(final):
                m.d.sync += active.eq(0)
        with m.If(move):
            code = check(m, config, held, "held")
            next_ = needs_of(held)
            single = (code != ERROR["done"]) | next_.single
            extra = next_.loads * SEARCH_SLOTS + drains_of(m, config, held.opcode, "held")
            m.d.sync += [
                current.eq(held),
                active.eq(1),
                error.eq(code),
                remaining.eq(Mux(single, 1, (held.length >> held.packed) + extra)),
                number.eq(0),
                position.eq(0),
                pause.eq(0),
                self.c0.eq(c0),
                self.c1.eq(c1),
            ]
        where = Step(current, needs.raw, number, position, loading, draining, slot, ends)
        gives = Signal()
        where.gives_row(m, config, gives)
        half = (current.length + ~where.odd) >> 1
        m.d.comb += [
            row.eq(gives & ~refused),
            self.token.issued.eq(step),
            self.token.row.eq(step & row),
            self.token.last.eq(step & final),
            self.token.code.eq(error),
            self.token.packed.eq(current.packed),
            self.token.finish.valid.eq(step & ~refused),
            self.left_format.eq(current.left_format),
            self.right_format.eq(current.right_format),
            self.raw.eq(Mux(where.keeps, 0b01, needs.raw.replicate(2))),
            self.index.eq(Mux(where.code("bn_stats"), half, current.start + number)),
            self.shuffle.eq(where.code("nc_stream_shuffle")),
            self.transpose.eq(step & ~refused & where.code("nc_transpose")),
        ]
        describe_operations(m, where, self.token)
        describe_finish(m, config, where, row, self.token.finish)
        return m

    def _decode(self, m: Module) -> tuple[Any, ...]:
        """The instruction that comes next, and its rows of constants."""
        held = Signal(Instruction)
        full, want_c0, want_c1, move = Signal(), Signal(), Signal(), Signal()
        c0, c1 = Signal(self.c0.shape()), Signal(self.c1.shape())
        m.d.comb += [
            self.instructions.ready.eq(~full | move),
            self.constants.ready.eq(full & (want_c0 | want_c1)),
        ]
        with m.If(self.constants.valid & self.constants.ready):
            with m.If(want_c0):
                m.d.sync += [c0.eq(self.constants.payload), want_c0.eq(0)]
            with m.Else():
                m.d.sync += [c1.eq(self.constants.payload), want_c1.eq(0)]
        with m.If(move):
            m.d.sync += full.eq(0)
        with m.If(self.instructions.valid & self.instructions.ready):
            new = self.instructions.payload
            legal = check(m, self.config, new, "offered") == ERROR["done"]
            m.d.sync += [
                held.eq(new),
                full.eq(1),
                want_c0.eq(new.c0_per_lane & legal),
                want_c1.eq(new.c1_per_lane & legal),
                c0.as_value().eq(new.c0.replicate(self.config.lanes)),
                c1.as_value().eq(new.c1.replicate(self.config.lanes)),
            ]
        return held, full & ~want_c0 & ~want_c1, c0, c1, move
