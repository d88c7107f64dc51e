"""Instructions of the vector engine: check, fetch constants ahead, issue rows while there is credit."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block
from hdl.vector.decode import BYPASS, check, needs_of
from hdl.vector.layouts import (
    ACCUMULATOR,
    CHOICE,
    CODE,
    COMMAND,
    CONSTANT,
    ERROR,
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
    RANDOM,
    RANGE,
    RECIPROCAL,
    REPLACE,
    SEARCH,
    VALUE,
    Instruction,
    Token,
)
from spec.vector import INSTRUCTION, SEARCH_SLOTS, SEARCHES, VectorConfig

FIELDS = dict(INSTRUCTION)
SOURCES = {
    "tensor_copy": LEFT_WORD,
    "tensor_copy_predicated": LEFT_WORD,
    "select_reduce": CHOICE,
    "range_select": RANGE,
    "reciprocal": RECIPROCAL,
    "rng": RANDOM,
    "read_accumulator": ACCUMULATOR,
    "nc_stream_shuffle": LEFT_WORD,
    **dict.fromkeys(SEARCHES, SEARCH),
}
"""What becomes the result; of the instructions not named it is the second operation's value."""


COPIES = tuple(CODE[name] for name in ("tensor_copy", "tensor_copy_predicated", "nc_stream_shuffle"))


class Control(Block):
    """Two instructions deep: one decoded, with its constants, behind the one whose rows are being issued.

    ``take_left`` and ``take_right``: the row on that operand stream is taken in this cycle. ``token`` describes what
    enters the lanes in this cycle; ``formats``, ``raw`` and the constants belong to it. ``returned``: an item left the
    output queue. ``index`` is the integer that becomes the token's index; ``shuffle`` says that lanes
    take the elements of the lanes that ``c0`` names.
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
        active, first, error = Signal(), Signal(), Signal(3)
        remaining, position = Signal(FIELDS["length"] + 1), Signal(FIELDS["group"])
        count = Signal(range(SEARCH_SLOTS + 1))  # of rows issued, up to the slots
        pause = Signal(range(2 * config.operation_stages))
        places = self.places
        needs = needs_of(current)
        refused = error != ERROR["done"]
        loading = needs.loads & (count != SEARCH_SLOTS)
        draining = needs.drains & (remaining <= SEARCH_SLOTS)
        left, right = needs.left & ~refused & ~draining, needs.right & ~refused
        go, step, final = Signal(), Signal(), Signal()
        m.d.comb += [
            go.eq(active & (places != 0) & (pause == 0)),
            step.eq(go & (self.left_valid | ~left) & (self.right_valid | ~right)),
            self.take_left.eq(step & left),
            self.take_right.eq(step & right),
            final.eq(remaining == 1),
            move.eq(ready & (~active | (step & final))),
        ]
        m.d.sync += places.eq(places + self.returned - step)
        with m.If(pause != 0):
            m.d.sync += pause.eq(pause - 1)
        scans, reduces = current.opcode == CODE["tensor_tensor_scan"], current.opcode == CODE["tensor_reduce"]
        ends = final | (position == current.group - 1)
        with m.If(step):
            waits = Mux(scans, 2 * config.operation_stages - 1, Mux(reduces, config.operation_stages - 1, 0))
            m.d.sync += [
                remaining.eq(remaining - 1),
                first.eq(0),
                position.eq(Mux(ends, 0, position + 1)),
                count.eq(Mux(count == SEARCH_SLOTS, count, count + 1)),
                self.index.eq(self.index + 1),
                pause.eq(Mux(final, 0, waits)),
            ]
            with m.If(final):
                m.d.sync += active.eq(0)
        with m.If(move):
            code = check(m, config, held, "held")
            next_ = needs_of(held)
            single = (code != ERROR["done"]) | next_.single
            extra = (next_.loads + next_.drains) * SEARCH_SLOTS
            m.d.sync += [
                current.eq(held),
                active.eq(1),
                first.eq(1),
                error.eq(code),
                remaining.eq(Mux(single, 1, held.length + extra)),
                count.eq(0),
                position.eq(0),
                pause.eq(0),
                self.index.eq(held.start),
                self.c0.eq(c0),
                self.c1.eq(c1),
            ]
        begins = Mux(reduces, position == 0, first)
        searches = needs.loads | needs.drains
        row = (
            ~refused & (current.opcode != CODE["set_seed"]) & (ends | ~reduces) & ~loading & (draining | ~needs.drains)
        )
        m.d.comb += [
            self.token.issued.eq(step),
            self.token.row.eq(step & row),
            self.token.last.eq(step & final),
            self.token.code.eq(error),
            self.left_format.eq(current.left_format),
            self.right_format.eq(current.right_format),
        ]
        self._describe(m, current, needs.raw, begins)
        valid = step & ~refused & (row | searches | (current.opcode == CODE["set_seed"]))
        self._finish(m, current, needs.raw, first, row, valid)
        search = self.token.finish.search
        modes = {"max8": INSERT, "nc_find_index8": FIND, "nc_match_replace8": REPLACE}
        with m.Switch(current.opcode):
            for name, mode in modes.items():
                with m.Case(CODE[name]):
                    m.d.comb += search.mode.eq(mode)
        m.d.comb += [
            search.begin.eq(first),
            search.load.eq(loading),
            search.drain.eq(draining),
            search.slot.eq(Mux(loading, count, SEARCH_SLOTS - remaining)),
            self.shuffle.eq(current.opcode == CODE["nc_stream_shuffle"]),
        ]
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

    def _describe(self, m: Module, current: Any, raw: Any, begins: Any) -> None:
        """Operands of both operations. What is not assigned is: left and constant, first result and constant."""
        first, second = self.token.first, self.token.second
        copies = current.opcode.matches(*COPIES)
        keeps = copies & (current.left_format == current.output_format)
        m.d.comb += [
            self.raw.eq(Mux(keeps, 0b01, raw.replicate(2))),
            first.operation.eq(current.op0),
            first.reverse.eq(current.reverse0),
            first.a.eq(LEFT),
            first.b.eq(FROM_CONSTANT),
            second.operation.eq(current.op1),
            second.reverse.eq(current.reverse1),
            second.a.eq(FROM_FIRST),
            second.b.eq(FROM_CONSTANT),
        ]
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
            with m.Case(CODE["memset"]):
                m.d.comb += [
                    first.operation.eq(BYPASS),
                    first.reverse.eq(0),
                    first.a.eq(CONSTANT),
                    second.operation.eq(BYPASS),
                    second.reverse.eq(0),
                ]

    def _finish(self, m: Module, current: Any, raw: Any, first: Any, row: Any, valid: Any) -> None:
        """Selection, accumulator, output cast."""
        finish = self.token.finish
        draws = current.opcode == CODE["rng"]
        copies = current.opcode.matches(*COPIES)
        shuffles = current.opcode == CODE["nc_stream_shuffle"]
        bits = (
            raw
            | draws
            | (current.opcode == CODE["nc_find_index8"])
            | (copies & (current.left_format == current.output_format))
        )
        accumulates = current.opcode.matches(CODE["select_reduce"], CODE["range_select"])
        resets = (current.reduce == COMMAND["reset"]) | (current.reduce == COMMAND["reset_reduce"])
        adds = (current.reduce == COMMAND["reduce"]) | (current.reduce == COMMAND["reset_reduce"])
        m.d.comb += [
            finish.valid.eq(valid),
            finish.source.eq(VALUE),
            finish.format.eq(current.output_format),
            finish.raw.eq(bits),
            finish.negate.eq(current.negate & (current.opcode == CODE["tensor_reduce"]) & ~raw),
            finish.reverse.eq(current.reverse0),
            finish.predicated.eq((current.opcode == CODE["tensor_copy_predicated"]) | shuffles),
            finish.shuffled.eq(shuffles),
            finish.saturate.eq(current.saturate),
            finish.stochastic.eq(current.stochastic),
            finish.draw.eq(row & (draws | (current.stochastic & ~bits))),
            finish.seed.eq(current.opcode == CODE["set_seed"]),
            finish.reset.eq(accumulates & first & resets),
            finish.reduce.eq(accumulates & adds),
        ]
        with m.Switch(current.opcode):
            for name, source in SOURCES.items():
                with m.Case(CODE[name]):
                    m.d.comb += finish.source.eq(source)
