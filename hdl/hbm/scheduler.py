"""The scheduler of one pseudo channel: requests in, commands out."""

from typing import Any

from amaranth import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.hbm.banks import HbmBanks
from hdl.hbm.layouts import Layouts, RowKind
from hdl.hbm.refresh import HbmRefresh
from hdl.hbm.window import HbmWindow
from spec.hbm_controller import HbmControllerConfig


class HbmScheduler(Block):
    """Reorders lines (64 B) so that the data bus stays busy; one cycle is one slot of two CK.

    ``request``    lines; one a slot while there is room. A line waits in a register before its window, at the head of
    all
                 behind it, while its window is full or while a line at the same place is pending (unless both are
                 reads): so no access ever overtakes another one to the same place.
    ``even``     1 in the slots in which this pseudo channel owns the row bus' ACT edge, 0 in those with its PRE edge
    ``writing``    a write batch owns the column bus; ``partner``: one does in the other pseudo channel (0 if there is
    none)
    ``column``    column command of this slot
    ``row``      row command of this slot
    ``owed``     refreshes due and not done
    ``reads``, ``writes``   lines in the windows; ``waiting``: a line is in the register

    Commands are combinational on registers only: the first access of a line that finds its row open leaves two slots
    after its request was taken. The policy is stated in ``golden.hbm.controller``, which issues the same command in
    the same slot. Reset forgets all lines and closes all banks.
    """

    def __init__(self, config: HbmControllerConfig) -> None:
        self.layouts = Layouts(config)
        self.refresh = HbmRefresh(config)
        self.banks = HbmBanks(config)
        self.windows = HbmWindow(config, config.read_lines), HbmWindow(config, config.write_lines)
        signature = {
            "request": In(stream.Signature(self.layouts.request)),
            "even": In(1),
            "partner": In(1),
            "writing": Out(1),
            "column": Out(self.layouts.column),
            "row": Out(self.layouts.row),
            "owed": Out(self.refresh.owed.shape()),
            "reads": Out(self.windows[0].count.shape()),
            "writes": Out(self.windows[1].count.shape()),
            "waiting": Out(1),
        }
        super().__init__(config, signature)

    def elaborate(self, platform: Any) -> Module:
        """Choose, then move."""
        m = Module()
        config: Any = self.config
        reads, writes = self.windows
        banks, refresh = self.banks, self.refresh
        m.submodules.reads = place(reads, platform)
        m.submodules.writes = place(writes, platform)
        m.submodules.banks = place(banks, platform)
        m.submodules.refresh = place(refresh, platform)

        writing = self.writing
        age = Signal(range(config.age_limit + 1))
        idle = Signal(range(config.idle_slots + 1))
        self.urgent = urgent = Signal()
        m.d.comb += urgent.eq((reads.count != 0) & (age == config.age_limit))

        self._choose_column(m, writing, urgent)
        self._choose_row(m, writing, urgent)
        flush = self._take_in(m)
        m.d.comb += [
            *(banks.column[name].eq(self.column[name]) for name in ("enable", "write", "bank")),
            banks.row.eq(self.row),
            refresh.demand.eq(reads.wants | Mux(writing, writes.wants, 0)),
            refresh.left.eq(
                self.column.enable
                & self.column.last
                & Mux(writing, writes.lonely & ~reads.wants.bit_select(self.column.bank, 1), reads.lonely)
            ),
            refresh.left_bank.eq(self.column.bank),
            refresh.issued.eq(self.row.kind == RowKind.REF),
            self.owed.eq(refresh.owed),
            self.reads.eq(reads.count),
            self.writes.eq(writes.count),
        ]

        oldest_leaves = reads.take & reads.oldest & reads.column.last
        m.d.sync += [
            age.eq(Mux(oldest_leaves | (reads.count == 0), 0, Mux(age == config.age_limit, age, age + 1))),
            idle.eq(Mux(reads.count != 0, 0, Mux(idle == config.idle_slots, idle, idle + 1))),
        ]
        worthwhile = (~reads.hits.any() | self.partner) & (writes.count * 2 >= config.write_lines)
        enough = flush | (writes.count >= config.high_water) | worthwhile | (idle == config.idle_slots)
        ended = (reads.count != 0) & ~flush & (writes.count <= config.low_water)
        with m.If(writing):
            m.d.sync += writing.eq(~(urgent | (writes.count == 0) | ended))
        with m.Else():
            m.d.sync += writing.eq(~urgent & (writes.count != 0) & enough)
        return m

    def _choose_column(self, m: Module, writing: Signal, urgent: Signal) -> None:
        config: Any = self.config
        reads, writes = self.windows
        kept = Mux(self.refresh.aimed & self.refresh.must, 1 << self.refresh.bank, 0)
        only_first = 1 if config.in_order else urgent
        m.d.comb += [
            reads.column_ready.eq(self.banks.read_ready & ~kept),
            writes.column_ready.eq(self.banks.write_ready & ~kept),
            reads.only_first.eq(only_first),
            writes.only_first.eq(only_first),
            self.column.eq(Mux(writing, writes.column.as_value(), reads.column.as_value())),
            self.column.write.eq(writing),
            reads.take.eq(self.column.enable & ~writing),
            writes.take.eq(self.column.enable & writing),
        ]

    def _choose_row(self, m: Module, writing: Signal, urgent: Signal) -> None:
        config: Any = self.config
        reads, writes = self.windows
        banks, refresh = self.banks, self.refresh
        ending = Signal()  # the batch is about to end: rows of the other direction may be opened
        m.d.comb += ending.eq(
            Mux(
                writing,
                (writes.count <= config.low_water + config.prepare) & (reads.count != 0),
                writes.count + config.prepare >= config.high_water,
            )
        )
        aim = Signal(config.geometry.all_banks)
        m.d.comb += aim.eq(Mux(refresh.aimed, 1 << refresh.bank, 0))
        wanted = Signal(config.geometry.all_banks)  # by the batch: not to be touched for the other direction
        m.d.comb += wanted.eq(Mux(writing, writes.wants, reads.wants))
        activate = banks.activate_ready & ~aim
        for window, other in ((reads, writing), (writes, ~writing)):
            free = ~Mux(other, wanted, 0)
            force = urgent if window is reads else 0
            m.d.comb += [
                window.activate_ready.eq(activate & free),
                window.precharge_ready.eq(banks.precharge_ready & ~window.hits & free),
                window.first_ready.eq(banks.precharge_ready & Mux(force, ~0, ~window.hits) & free),
                window.only_first_row.eq(1 if config.in_order else force),
            ]

        def choice(answer: str) -> tuple[Any, Any, Any]:
            """The batch's answer, else the other direction's when the batch is about to end."""
            read, write = getattr(reads, answer), getattr(writes, answer)
            mine = Mux(writing, write.as_value(), read.as_value())
            other = Mux(writing, read.as_value(), write.as_value())
            found = Mux(writing, write.kind, read.kind) != RowKind.NONE
            found_other = Mux(writing, read.kind, write.kind) != RowKind.NONE
            return found | (ending & found_other), Mux(found, mine, other), found

        can_act, act, _ = choice("activate")
        can_pre, pre, _ = choice("precharge")
        refresh_ready = (aim & banks.refresh_ready).any() & banks.refresh_any
        kept_hits = Mux(writing, writes.hits, reads.hits) & Mux(refresh.must, 0, ~0)
        close_aim = (aim & banks.precharge_ready & ~kept_hits).any()
        unwanted = Signal(config.geometry.all_banks)
        m.d.comb += unwanted.eq(banks.precharge_ready & ~reads.wants & ~writes.wants)
        first_unwanted = Signal.like(self.row.bank)
        for b in reversed(range(config.geometry.all_banks)):
            with m.If(unwanted[b]):
                m.d.comb += first_unwanted.eq(b)
        with m.If(self.even):
            with m.If(can_act & banks.activate_any & ~(refresh_ready & refresh.must)):
                m.d.comb += self.row.eq(act)
            with m.Elif(refresh_ready):
                m.d.comb += [self.row.kind.eq(RowKind.REF), self.row.bank.eq(refresh.bank)]
        with m.Else():
            with m.If(can_pre):
                m.d.comb += self.row.eq(pre)
            with m.Elif(close_aim):
                m.d.comb += [self.row.kind.eq(RowKind.PRE), self.row.bank.eq(refresh.bank)]
            with m.Elif(unwanted.any()):
                m.d.comb += [self.row.kind.eq(RowKind.PRE), self.row.bank.eq(first_unwanted)]
        m.d.comb += [reads.row.eq(self.row), writes.row.eq(self.row)]

    def _take_in(self, m: Module) -> Signal:
        """Register before the windows; returns whether the line in it waits for pending writes."""
        config: Any = self.config
        reads, writes = self.windows
        line = Signal(self.layouts.request)
        enters, turn, flush = Signal(), Signal(), Signal()
        if config.in_order:
            m.d.comb += turn.eq(Mux(line.write, reads.count != 0, writes.count != 0))
        room = Mux(line.write, writes.count != config.write_lines, reads.count != config.read_lines)
        m.d.comb += [
            reads.probe.eq(line.place),
            writes.probe.eq(line.place),
            *(self.banks.probe[name].eq(line.place[name]) for name in ("bank", "row")),
            flush.eq(self.waiting & (writes.same | (turn & ~line.write))),
            enters.eq(self.waiting & room & ~turn & ~writes.same & ~(line.write & reads.same)),
            reads.push.eq(enters & ~line.write),
            writes.push.eq(enters & line.write),
            self.request.ready.eq(~self.waiting | enters),
        ]
        for window in self.windows:
            m.d.comb += [window.place.eq(line.place), window.tag.eq(line.tag), window.push_hit.eq(self.banks.probe_hit)]
        with m.If(self.request.ready):
            m.d.sync += [self.waiting.eq(self.request.valid), line.eq(self.request.payload)]
        return flush
