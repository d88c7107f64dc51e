"""HBM bank machines: whatever is sent in whatever order, no command is called ready before its time."""

from typing import Any, cast

from amaranth.hdl import Array, Assert, Assume, Cover, Module, Mux, Signal

from hdl.hbm.banks import FOUR, HbmBanks
from hdl.hbm.layouts import RowKind
from spec.hbm import HbmGeometry, HbmTiming
from spec.hbm_controller import HbmControllerConfig
from verif.harness.formal import Properties

SHORT = HbmTiming(
    t_rcd_rd=5, t_rcd_wr=3, t_rp=5, t_ras=7, t_rc=14, t_cl=4, t_cwl=2, t_ccd_l=4, t_ccd_r=3, t_rrd_s=4, t_rrd_l=6,
    t_faw=20, t_wtr_s=3, t_wtr_l=5, t_rtw=6, t_wr=4, t_rtp=3, t_rfc=20, t_rfc_pb=18, t_refi=400, t_rrefd=8,
)  # fmt: skip
"""Every constraint in a few slots, all different in effect, so that a bounded proof meets each of them many times."""

CLOCK_BITS = 4
"""Enough for the longest of these constraints in slots."""

CONFIG = HbmControllerConfig(timing=SHORT, geometry=HbmGeometry(sids=2, groups=2, banks=2, rows=2, columns=8))


class BankProperties(Properties):
    """The solver sends any command the block calls ready. Clocks of our own count the slots since each command that
    concerns one bank, chosen freely: what is shown for one holds for all.

    That the scheduler sends no others is what ``SchedulerProperties`` shows.

    ``config`` is what the constraints are taken from; ``block`` may be built from another (a planted fault).
    """

    def __init__(self, config: HbmControllerConfig = CONFIG, block: HbmBanks | None = None) -> None:
        self.config = config
        self.banks = cast(Any, block or HbmBanks(config))
        self.bank = Signal(range(config.geometry.all_banks))
        b = self.banks
        self.inputs = (b.column.as_value(), b.row.as_value(), b.probe.as_value(), self.bank)

    def elaborate(self, platform: Any) -> Module:
        """The block, the clocks, one assertion for each constraint of each bank."""
        m = Module()
        dut, g, t = self.banks, self.config.geometry, self.config.slots
        m.submodules.banks = platform.place(dut)
        row, column = dut.row, dut.column
        act, pre, ref = (row.kind == kind for kind in (RowKind.ACT, RowKind.PRE, RowKind.REF))
        read, write = column.enable & ~column.write, column.enable & column.write

        def ready(mask: Any, bank: Any) -> Any:
            return mask.bit_select(bank, 1)

        m.d.comb += [
            Assume(~act | (ready(dut.activate_ready, row.bank) & dut.activate_any), "ACT when ready"),
            Assume(~pre | ready(dut.precharge_ready, row.bank), "PRE when ready"),
            Assume(~ref | (ready(dut.refresh_ready, row.bank) & dut.refresh_any), "REFpb when ready"),
            Assume(~read | ready(dut.read_ready, column.bank), "RD when ready"),
            Assume(~write | ready(dut.write_ready, column.bank), "WR when ready"),
            Assume(~(pre & column.enable & (row.bank == column.bank)), "no bank is closed while it is used"),
        ]

        def since(name: str, happens: Any) -> Any:
            """Slots since it last happened; starts as long ago as any constraint reaches."""
            clock = Signal(CLOCK_BITS, name=f"since_{name}", init=-1)
            m.d.sync += clock.eq(Mux(happens, 1, Mux(clock.all(), clock, clock + 1)))
            return clock

        def holds(may: Any, clock: Any, slots: int, text: str, counter: Any) -> None:
            """The property, and what makes it inductive: while it is too early the counter has not run out."""
            m.d.comb += [
                Assert(~may | (clock >= slots), text),
                Assert((clock >= slots) | (counter + clock >= slots), f"counter of {text}"),
            ]

        bank, chosen, fixed = self.bank, Signal.like(self.bank), Signal()
        m.d.sync += [chosen.eq(bank), fixed.eq(1)]
        m.d.comb += Assume(~fixed | (bank == chosen), "the choice stays")
        group, sid = bank // g.banks, bank // (g.banks * g.groups)

        def timer(name: str, index: Any, count: int) -> Any:
            return Array(dut.timers[f"{name}_{k}"] for k in range(count))[index]

        of_bank = {name: timer(name, bank, g.all_banks) for name in ("act", "pre", "read", "write")}
        of_group = {name: timer(f"{name}_group", group, g.all_groups) for name in ("act", "read", "write")}
        of_sid = timer("sid", sid, g.sids)
        in_bank, col_bank = row.bank == bank, column.bank == bank
        in_group, col_group = row.bank // g.banks == group, column.bank // g.banks == group
        col_sid = column.bank // (g.banks * g.groups) == sid
        can_act = ready(dut.activate_ready, bank) & dut.activate_any
        can_ref = ready(dut.refresh_ready, bank) & dut.refresh_any
        can_pre, can_read, can_write = (
            ready(mask, bank) for mask in (dut.precharge_ready, dut.read_ready, dut.write_ready)
        )
        any_act, any_ref, any_read, any_write = (
            since(name, event) for name, event in (("act", act), ("ref", ref), ("read", read), ("write", write))
        )
        acted, closed = since("own_act", act & in_bank), since("own_pre", pre & in_bank)
        refreshed, used = since("own_ref", ref & in_bank), since("own_read", read & col_bank)
        near_read, near_write = since("near_read", read & col_group), since("near_write", write & col_group)
        far = since("far", column.enable & ~col_sid)
        all_timers = dut.timers
        for may, kind in ((can_act, "ACT"), (can_ref, "REFpb")):
            holds(may, acted, t.rc, f"tRC to {kind}", of_bank["act"])
            holds(may, closed, t.rp, f"tRP to {kind}", of_bank["act"])
            holds(may, refreshed, t.rfc_pb, f"tRFCpb to {kind}", of_bank["act"])
        for may, kind in ((can_act, "activate_all"), (can_ref, "refresh_all")):
            holds(may, any_act, t.rrd_s, f"tRRD_S, {kind}", all_timers[kind])
            holds(may, any_ref, t.rrefd, f"tRREFD, {kind}", all_timers[kind])
        holds(can_act, since("near_act", act & in_group), t.rrd_l, "tRRD_L", of_group["act"])
        m.d.comb += Assert(~can_act | (self._last_four(m, act)[-1] >= t.faw), "tFAW")
        holds(can_pre, acted, t.ras, "tRAS", of_bank["pre"])
        holds(can_pre, used, t.rtp, "tRTP", of_bank["pre"])
        holds(can_pre, since("own_write", write & col_bank), t.wr_pre, "tWR", of_bank["pre"])
        holds(can_read, acted, t.rcd_rd, "tRCD of a read", of_bank["read"])
        holds(can_write, acted, t.rcd_wr, "tRCD of a write", of_bank["write"])
        holds(can_read, near_read, t.ccd_l, "tCCD_L", of_group["read"])
        holds(can_write, near_write, t.ccd_l, "tCCD_L of writes", of_group["write"])
        holds(can_read, near_write, t.wtr_l, "tWTR_L", of_group["read"])
        holds(can_read | can_write, far, t.ccd_r, "tCCD_R", of_sid)
        holds(can_read, any_write, t.wtr_s, "tWTR_S", all_timers["read_all"])
        holds(can_write, any_read, t.rtw, "tRTW", all_timers["write_all"])
        is_open = Signal()
        with m.If(in_bank & (act | pre)):
            m.d.sync += is_open.eq(act)
        m.d.comb += [
            Assert(ready(dut.open, bank) == is_open, "open is what ACT and PRE say"),
            Assert(~(can_act | can_ref) | ~is_open, "ACT and REFpb find the bank closed"),
            Assert(~(can_read | can_write | can_pre) | is_open, "others find it open"),
            Cover(read & (any_write < 12), "a read soon after a write"),
        ]
        return m

    def _last_four(self, m: Module, act: Any) -> list[Any]:
        """Slots since the last four ACT, latest first, each with the counter that took its turn."""
        faw, turn = self.config.slots.faw, self.banks.timers["turn"]
        counters = Array([self.banks.timers[f"faw_{k}"] for k in range(FOUR)])
        clocks: list[Any] = [Signal(CLOCK_BITS, name=f"latest_{k}", init=-1) for k in range(FOUR)]
        for k, clock in enumerate(clocks):
            before = clocks[k - 1] if k else None
            own, other = (0 if c is None else Mux(c.all(), c, c + 1) for c in (clock, before))
            m.d.sync += clock.eq(Mux(act, other if k else 1, own))
            counter = counters[(turn - 1 - k)[:2]]
            m.d.comb += Assert((clock >= faw) | (counter + clock >= faw), "counter of tFAW")
        return clocks
