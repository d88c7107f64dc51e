"""Reorder window: lines in order of arrival, and the oldest that could use each command."""

from typing import Any

from amaranth import Module, Mux, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.hbm.layouts import Layouts, RowKind
from hdl.hbm.onehot import any_of, first_of, select
from spec.hbm_controller import HbmControllerConfig


class HbmWindow(Block):
    """Content-addressed queue of ``lines`` lines; position is age, 0 the oldest. A line that leaves closes its gap.

    Questions, answered combinationally on the state at the start of the slot; masks have one bit a bank:

    ``column_ready`` → ``column``     oldest line whose row is open and whose bank may take a column command
    ``activate_ready`` → ``activate``   oldest line whose bank may be activated
    ``precharge_ready`` → ``precharge``   oldest line that needs another row in an open bank that may be precharged
    ``probe`` → ``same``           whether a line is at this place

    ``only_first`` restricts ``column`` to the oldest line, ``only_first_row`` the other two. ``first_ready`` replaces
    ``precharge_ready`` for the oldest line. ``wants`` and ``hits``: banks of all lines, of lines whose row is open.
    ``lonely``: no other line wants the bank of ``column``. ``column.enable`` says that an answer exists.

    Effects at the end of the slot: ``take`` sends the access of ``column``, with its second one the line leaves;
    ``push`` appends the line of ``place`` and ``tag`` (never when ``count`` is ``lines``), whose row is open if
    ``push_hit``; ``row`` is the row command issued, and changes which rows are open. Reset empties the window.
    """

    def __init__(self, config: HbmControllerConfig, lines: int) -> None:
        self.lines = lines
        self.layouts = Layouts(config)
        banks = config.geometry.all_banks
        signature = {
            "column_ready": In(banks),
            "activate_ready": In(banks),
            "precharge_ready": In(banks),
            "first_ready": In(banks),
            "only_first": In(1),
            "only_first_row": In(1),
            "probe": In(self.layouts.place),
            "take": In(1),
            "push": In(1),
            "push_hit": In(1),
            "place": In(self.layouts.place),
            "tag": In(self.layouts.tag_bits),
            "row": In(self.layouts.row),
            "column": Out(self.layouts.column),
            "activate": Out(self.layouts.row),
            "precharge": Out(self.layouts.row),
            "same": Out(1),
            "lonely": Out(1),
            "oldest": Out(1),
            "wants": Out(banks),
            "hits": Out(banks),
            "count": Out(range(lines + 1)),
        }
        super().__init__(config, signature)

    @property
    def module_name(self) -> str:
        """Two depths of one configuration are two modules."""
        return f"{super().module_name}_{self.lines}"

    def elaborate(self, platform: Any) -> Module:
        """Entries, questions, movement."""
        m = Module()
        place = self.layouts.place
        entry = data.StructLayout({"place": place, "tag": self.layouts.tag_bits, "sent": 1, "hit": 1})
        self.entries = entries = [Signal(entry, name=f"entry_{i}", reset_less=True) for i in range(self.lines)]
        self.valid = valid = Signal(self.lines)
        first = Signal(self.lines)
        m.d.comb += first.eq(1)

        def of_bank(mask: Any, e: Any) -> Any:
            return mask.bit_select(e.place.bank, 1)

        column, activate, precharge = Signal(self.lines), Signal(self.lines), Signal(self.lines)
        for i, e in enumerate(entries):
            may_close = Mux(first[i], of_bank(self.first_ready, e), of_bank(self.precharge_ready, e))
            m.d.comb += [
                column[i].eq(valid[i] & e.hit & of_bank(self.column_ready, e)),
                activate[i].eq(valid[i] & of_bank(self.activate_ready, e)),
                precharge[i].eq(valid[i] & ~e.hit & may_close),
            ]
        self.picked = picked = self._oldest(m, "picked", Mux(self.only_first, column & first, column))
        opened = self._oldest(m, "opened", Mux(self.only_first_row, activate & first, activate))
        closed = self._oldest(m, "closed", Mux(self.only_first_row, precharge & first, precharge))

        chosen = Signal(entry)
        m.d.comb += [
            chosen.eq(select(picked, entries)),
            self.column.enable.eq(picked.any()),
            self.column.bank.eq(chosen.place.bank),
            self.column.row.eq(chosen.place.row),
            self.column.column.eq(chosen.place.column | chosen.sent),
            self.column.tag.eq(chosen.tag),
            self.column.last.eq(chosen.sent),
            self.activate.kind.eq(Mux(opened.any(), RowKind.ACT, RowKind.NONE)),
            self.activate.bank.eq(select(opened, [e.place.bank for e in entries])),
            self.activate.row.eq(select(opened, [e.place.row for e in entries])),
            self.precharge.kind.eq(Mux(closed.any(), RowKind.PRE, RowKind.NONE)),
            self.precharge.bank.eq(select(closed, [e.place.bank for e in entries])),
            self.oldest.eq(picked[0]),
            self.same.eq(any_of(valid[i] & (e.place == self.probe) for i, e in enumerate(entries))),
            self.lonely.eq(
                ~any_of(valid[i] & ~picked[i] & (e.place.bank == chosen.place.bank) for i, e in enumerate(entries))
            ),
            self.wants.eq(any_of(valid[i] << e.place.bank for i, e in enumerate(entries))),
            self.hits.eq(any_of((valid[i] & e.hit) << e.place.bank for i, e in enumerate(entries))),
        ]
        self._move(m, entries, valid, picked)
        return m

    def _oldest(self, m: Module, name: str, candidates: Any) -> Signal:
        """One-hot: the lowest set bit."""
        onehot = Signal(self.lines, name=name)
        m.d.comb += onehot.eq(first_of(candidates))
        return onehot

    def _move(self, m: Module, entries: list[Any], valid: Signal, picked: Signal) -> None:
        pop = Signal()
        m.d.comb += pop.eq(self.take & self.column.last)
        gone = Signal(self.lines)  # positions at or behind the line that leaves
        m.d.comb += gone.eq(Mux(pop, picked | ~(picked - 1), 0))
        push_at = Signal(self.lines)
        m.d.comb += push_at.eq(Mux(pop, valid & ~(valid >> 1), ~valid & (valid << 1 | 1)))
        after_pop = Mux(pop, valid >> 1, valid)
        m.d.sync += [
            valid.eq(Mux(self.push, after_pop << 1 | 1, after_pop)),
            self.count.eq(self.count + self.push - pop),
        ]
        updated = []
        for i, e in enumerate(entries):
            u = Signal.like(e, name=f"updated_{i}")
            touched = e.place.bank == self.row.bank
            with_row = touched & (e.place.row == self.row.row)
            m.d.comb += [
                u.eq(e),
                u.sent.eq(e.sent | (self.take & picked[i])),
                u.hit.eq(
                    (e.hit | ((self.row.kind == RowKind.ACT) & with_row)) & ~((self.row.kind == RowKind.PRE) & touched)
                ),
            ]
            updated.append(u)
        new = Signal.like(entries[0], name="new")
        m.d.comb += [new.place.eq(self.place), new.tag.eq(self.tag), new.hit.eq(self.push_hit)]
        for i, e in enumerate(entries):
            behind = updated[min(i + 1, self.lines - 1)]
            m.d.sync += e.eq(Mux(self.push & push_at[i], new, Mux(gone[i], behind, updated[i])))
