"""HBM controller and stack: nothing lost or doubled, refresh in time, turns for everybody, responses in order."""

from typing import Any, cast

from amaranth.hdl import Array, Assert, Assume, Cover, Module, Mux, Signal
from amaranth.lib import data

from hdl.hbm.layouts import RowKind
from hdl.hbm.merge import HbmMerge
from hdl.hbm.port import HbmPort
from hdl.hbm.refresh import HbmRefresh
from hdl.hbm.scheduler import HbmScheduler
from hdl.hbm.window import HbmWindow
from spec.hbm import LINE_BYTES, HbmGeometry
from spec.hbm_controller import HbmControllerConfig
from spec.hbm_stack import SMALL_STACK, HbmStackConfig
from verif.formal.hbm_banks import SHORT
from verif.formal.link import ones
from verif.formal.stream import offer_stands
from verif.harness.formal import Properties

TINY = HbmControllerConfig(
    timing=SHORT,
    geometry=HbmGeometry(sids=1, groups=2, banks=2, rows=2, columns=8),
    read_lines=3, write_lines=3, high_water=3, low_water=1, prepare=1, age_limit=16, idle_slots=2, tag_bits=2,
    refresh_ahead=2, refresh_urgent=3,
)  # fmt: skip
"""Four banks and three lines a window."""


NUMBER = data.StructLayout({"number": 2})
"""What the merge carries in its proof."""

SOLO = HbmStackConfig(
    controller=TINY.replace(geometry=HbmGeometry(sids=1, groups=2, banks=2, rows=2, columns=8, pseudo_channels=1)),
    channels=1, requesters=1, interleave=64, port_lines=3, return_lines=2, tag_bits=4, address_bits=12,
)  # fmt: skip
"""One requester before one pseudo channel, with three responses under way."""


class WindowProperties(Properties):
    """Follows one line, chosen freely: it stays at its place in the order, is sent twice and leaves once.

    ``picked`` and ``take`` are the only ways out; as the choice is free, what is shown for one line holds for all.
    """

    def __init__(self, config: HbmControllerConfig = TINY, window: HbmWindow | None = None) -> None:
        self.window = cast(Any, window or HbmWindow(config, config.read_lines))
        self.mark = Signal()
        w = self.window
        plain = ("column_ready", "activate_ready", "precharge_ready", "first_ready", "only_first", "only_first_row")
        self.inputs = (*(getattr(w, name) for name in plain), w.take, w.push, w.push_hit, w.tag, self.mark,
                       w.place.as_value(), w.row.as_value())  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        """The window and the follower."""
        m = Module()
        w = self.window
        m.submodules.window = platform.place(w)
        lines = w.lines
        m.d.comb += [
            Assume(~w.take | w.column.enable, "takes what there is"),
            Assume(~w.push | (w.count != lines), "puts where there is room"),
        ]
        inside, sent, tag, place = Signal(), Signal(), Signal.like(w.tag), Signal(w.place.shape().size)
        at = Signal(range(lines))
        fields = [(entry.tag, entry.place.as_value(), entry.sent) for entry in w.entries]
        tags, places, marks = (Array(part) for part in zip(*fields, strict=True))
        picked = (w.picked >> at)[0]
        pops = w.take & w.column.last
        with m.If(~inside & w.push & self.mark):
            m.d.sync += [inside.eq(1), sent.eq(0), tag.eq(w.tag), place.eq(w.place.as_value()), at.eq(w.count - pops)]
        with m.If(inside):
            m.d.comb += [
                Assert(at < w.count, "it is inside"),
                Assert((tags[at] == tag) & (places[at] == place) & (marks[at] == sent), "unchanged"),
            ]
            with m.If(w.take & picked):
                m.d.comb += Assert((w.column.tag == tag) & (w.column.last == sent), "sent as itself, then again")
                m.d.sync += [sent.eq(1), inside.eq(~sent)]
            with m.Elif(pops & (w.picked < (1 << at))):
                m.d.sync += at.eq(at - 1)
        m.d.comb += [
            Assert(ones(w.valid) == w.count, "the count is the number of lines"),
            Assert((w.valid & (w.valid + 1)) == 0, "without gaps"),
            Assert(ones(w.picked) == w.column.enable, "one line at most is sent"),
            Cover(w.count == lines, "it fills"),
            Cover(sent & ~inside, "the line leaves"),
        ]
        return m


class SchedulerProperties(Properties):
    """Every command is one the bank machines call ready, on its own edge, and old reads go first.

    With the proof of the bank machines this is every timing constraint for whatever requests come.
    """

    def __init__(self, config: HbmControllerConfig = TINY, scheduler: HbmScheduler | None = None) -> None:
        self.scheduler = cast(Any, scheduler or HbmScheduler(config))
        s = self.scheduler
        self.inputs = (s.request.valid, s.request.payload.as_value(), s.even, s.partner)

    def elaborate(self, platform: Any) -> Module:
        """Only relations within one slot: they hold in every state, reached or not."""
        m = Module()
        s = self.scheduler
        m.submodules.scheduler = platform.place(s)
        banks, row, column = s.banks, s.row, s.column

        def ready(mask: Any, bank: Any) -> Any:
            return mask.bit_select(bank, 1)

        act, pre, ref = (row.kind == kind for kind in (RowKind.ACT, RowKind.PRE, RowKind.REF))
        oldest = s.windows[0].oldest
        m.d.comb += [
            Assert(~act | (ready(banks.activate_ready, row.bank) & banks.activate_any & s.even), "ACT when ready"),
            Assert(~pre | (ready(banks.precharge_ready, row.bank) & ~s.even), "PRE when ready"),
            Assert(~ref | (ready(banks.refresh_ready, row.bank) & banks.refresh_any & s.even), "REFpb when ready"),
            Assert(~column.enable | column.write | ready(banks.read_ready, column.bank), "RD when ready"),
            Assert(~(column.enable & column.write) | ready(banks.write_ready, column.bank), "WR when ready"),
            Assert(~(pre & column.enable & (row.bank == column.bank)), "no bank is closed while it is used"),
            Assert(~(s.urgent & column.enable & ~column.write) | oldest, "an old read is passed by no other"),
            Cover(pre & column.enable, "both buses at once"),
        ]
        return m


SERVICE = 5
"""Slots within which the scheduler issues a refresh that is urgent, in the proof; two of the interval are left."""


class RefreshProperties(Properties):
    """If an urgent refresh is issued within ``SERVICE`` slots, no more are ever owed than ``refresh_urgent``.

    And no bank is refreshed twice before all were once, so none waits longer than two rounds and what is owed.
    """

    def __init__(self, config: HbmControllerConfig | None = None, refresh: HbmRefresh | None = None) -> None:
        timing = SHORT.replace(t_refi=64)
        self.config = config or TINY.replace(timing=timing)
        self.refresh = cast(Any, refresh or HbmRefresh(self.config))
        r = self.refresh
        self.inputs = (r.demand, r.left, r.left_bank, r.issued)

    def elaborate(self, platform: Any) -> Module:
        """Clocks for the wait of an urgent refresh and for the time since one fell due."""
        m = Module()
        r, banks = self.refresh, self.config.geometry.all_banks
        m.submodules.refresh = platform.place(r)
        wait, rounds = Signal(range(SERVICE + 2)), Signal(banks)
        urgent = r.aimed & r.must
        m.d.sync += wait.eq(Mux(urgent & ~r.issued, wait + 1, 0))
        m.d.comb += [
            Assume(~r.issued | r.aimed, "issues what is aimed at"),
            Assume(wait < SERVICE, "an urgent refresh is issued in time"),
            Assert(r.owed <= self.config.refresh_urgent, "never later than that"),
            Assert(r.owed >= -self.config.refresh_ahead, "never earlier than that"),
            Cover(r.owed == self.config.refresh_urgent, "it gets late"),
        ]
        with m.If(r.issued):
            m.d.comb += Assert(~rounds.bit_select(r.bank, 1), "no bank twice in a round")
            after = rounds | (1 << r.bank)[:banks]
            m.d.sync += rounds.eq(Mux(after.all(), 0, after))
        m.d.comb += [
            Assert(rounds == r.done, "the round is the block's own"),
            Assert(~rounds.all(), "a round that is complete begins anew"),
            Assert(r.due < self.config.timing.t_refi, "the interval is the timing's"),
            Assert(~r.aimed | ~rounds.bit_select(r.bank, 1), "aims at a bank that had none"),
        ]
        return m


class MergeProperties(Properties):
    """Who offers is passed over by at most ``(inputs - 1) * streak`` items of others, and an offer stands.

    ``credit`` is what may still come before a freely chosen input; with what has come it never exceeds the bound.
    """

    def __init__(self, merge: HbmMerge | None = None, inputs: int = 3, streak: int = 2) -> None:
        self.merge = cast(Any, merge or HbmMerge(SMALL_STACK, NUMBER, inputs, streak))
        self.marked = Signal(range(inputs))
        streams = self.merge.i
        self.inputs = (*(one.valid for one in streams), *(one.payload.as_value() for one in streams),
                       self.merge.o.ready, self.marked)  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        """Offers of the inputs stand; those of the output are shown to."""
        m = Module()
        merge, count, streak = self.merge, self.merge.inputs, self.merge.streak
        m.submodules.merge = platform.place(merge)
        marked, started = Signal.like(self.marked), Signal()
        m.d.sync += [marked.eq(self.marked), started.eq(1)]
        m.d.comb += [
            Assume(self.marked < count, "one of the inputs"),
            Assume(~started | (self.marked == marked), "the choice stays"),
        ]
        for one in merge.i:
            offer_stands(m, one, assume=True)
        offer_stands(m, merge.o)
        mine = Array(merge.i)[self.marked]
        passed = Signal(range(count * streak + 1))
        taken = merge.o.valid & merge.o.ready
        m.d.sync += passed.eq(Mux(mine.valid & ~mine.ready, passed + taken, 0))
        pointer = Signal(range(count + 1))
        m.d.comb += pointer.eq(count - ones(merge.behind))
        distance = Mux(self.marked >= pointer, self.marked - pointer, self.marked + count - pointer)
        holds = (merge.holder >> self.marked)[0]
        credit = Mux(holds, 0, merge.left) + distance * streak
        bound = (count - 1) * streak
        m.d.comb += [
            Assert(~(mine.valid & ~holds) | (passed + credit <= bound), "what came and what may come"),
            Assert(~mine.valid | (passed <= bound), "nobody waits longer"),
            Assert(merge.left <= streak, "no longer streak"),
            Assert(ones(merge.holder) <= 1, "one holder"),
            Assert((merge.behind & (~merge.behind >> 1)) == 0, "the pointer is one place"),
            Assert(
                (merge.holder == 0) | (merge.behind == ~(merge.holder | (merge.holder - 1)[:count])[:count]),
                "the pointer is behind the holder",
            ),
            Assert((merge.holder != 0) | (merge.left == 0), "a streak is somebody's"),
            Cover(passed == bound, "the bound is met"),
        ]
        return m


class OrderProperties(Properties):
    """A port's responses come in order of requests and addresses, whatever order its lines come back in.

    Requests are numbered in their tags. A line comes back once, and only if it was asked for.
    """

    def __init__(self, config: HbmStackConfig = SOLO) -> None:
        self.config = config
        self.port = cast(Any, HbmPort(config))
        p = self.port
        self.request = cast(Any, Signal(self.port.request.payload.shape()))
        self.slot = Signal(2)
        self.inputs = (p.request.valid, self.request.as_value(), p.written.valid, p.lines.ready, p.response.ready,
                       p.returned[0].valid, self.slot)  # fmt: skip

    def elaborate(self, platform: Any) -> Module:
        """Number requests, keep account of lines under way."""
        m = Module()
        port = self.port
        m.submodules.port = platform.place(port)
        asked, due, place = Signal(self.config.tag_bits), Signal(self.config.tag_bits), Signal(self.config.address_bits)
        first, away = Signal(init=1), Signal(self.config.port_lines)
        request, response, back, lines = port.request, port.response, port.returned[0], port.lines
        m.d.comb += [
            *(request.payload[name].eq(self.request[name]) for name in ("operation", "address", "length")),
            request.payload.tag.eq(asked),
            back.payload.slot.eq(self.slot),
            Assume(
                ~back.valid | (away.bit_select(back.payload.slot, 1) & (back.payload.slot < self.config.port_lines)),
                "only what was asked for",
            ),
        ]
        m.d.sync += [
            asked.eq(asked + (request.valid & request.ready)),
            away.eq(
                (away | Mux(lines.valid & lines.ready & ~lines.payload.write, 1 << lines.payload.slot, 0))
                & ~Mux(back.valid & back.ready, 1 << back.payload.slot, 0)
            ),
        ]
        with m.If(response.valid & response.ready):
            m.d.comb += [
                Assert(response.payload.tag == due, "requests in order, none left out, none twice"),
                Assert(first | (response.payload.address == place), "lines in order of addresses"),
            ]
            m.d.sync += [
                due.eq(due + response.payload.last),
                first.eq(response.payload.last),
                place.eq(response.payload.address + LINE_BYTES),
            ]
        m.d.comb += Cover((due == 3) & (lines.payload.write | away.any()), "it goes on")
        return m
