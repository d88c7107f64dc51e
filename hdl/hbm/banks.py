"""Open rows and timers of one pseudo channel: which command each bank may take in this slot."""

from typing import Any

from amaranth import Array, Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.hbm.layouts import Layouts, RowKind
from spec.hbm_controller import HbmControllerConfig

FOUR = 4
"""Activations that tFAW counts."""


class HbmBanks(Block):
    """Bank machines. Outputs say what is legal in this slot; ``column`` and ``row`` are the commands issued in it.

    A constraint of n slots is a counter that is loaded with n - 1 by the first command, counts down to 0 and then lets
    the second pass; where several first commands load one counter, the larger value wins.

    ``open``               rows that are open, one bit a bank
    ``read_ready``, ``write_ready``   row open and every column timer run out
    ``activate_ready``       closed, timers of bank and bank group run out (``activate_any``: those of the pseudo
    channel)
    ``precharge_ready``     open, timers run out
    ``refresh_ready``       closed, timers of the bank run out (``refresh_any``: those of the pseudo channel)
    ``probe`` → ``probe_hit``   whether this row is the one that is open *after* this slot's row command

    Reset closes all banks and clears all timers.
    """

    def __init__(self, config: HbmControllerConfig) -> None:
        layouts, banks = Layouts(config), config.geometry.all_banks
        masks = ("open", "read_ready", "write_ready", "activate_ready", "precharge_ready", "refresh_ready")
        signature = {name: Out(banks) for name in masks} | {
            "activate_any": Out(1),
            "refresh_any": Out(1),
            "column": In(layouts.used),
            "row": In(layouts.row),
            "probe": In(layouts.target),
            "probe_hit": Out(1),
        }
        super().__init__(config, signature)
        self.timers: dict[str, Signal] = {}
        """Each counter by name, once elaborated: what a proof relates to clocks of its own."""

    def elaborate(self, platform: Any) -> Module:
        """One counter for each constraint of each bank, bank group, stack id and the pseudo channel."""
        m = Module()
        config: Any = self.config
        g, t = config.geometry, config.slots
        act, pre, ref = (Signal(name=name) for name in ("act", "pre", "ref"))
        read, write = Signal(), Signal()
        m.d.comb += [
            act.eq(self.row.kind == RowKind.ACT),
            pre.eq(self.row.kind == RowKind.PRE),
            ref.eq(self.row.kind == RowKind.REF),
            read.eq(self.column.enable & ~self.column.write),
            write.eq(self.column.enable & self.column.write),
        ]
        in_bank = [self.column.bank == b for b in range(g.all_banks)]
        row_bank = [self.row.bank == b for b in range(g.all_banks)]
        in_group = [self.column.bank // g.banks == k for k in range(g.all_groups)]
        row_group = [self.row.bank // g.banks == k for k in range(g.all_groups)]
        in_sid = [self.column.bank // (g.banks * g.groups) == k for k in range(g.sids)]

        def timer(name: str, *loads: tuple[Any, int]) -> Signal:
            self.timers[name] = _timer(m, name, loads)
            return self.timers[name]

        rows = [Signal(self.row.shape()["row"].shape, name=f"row_{b}") for b in range(g.all_banks)]
        this_bank = Signal(g.all_banks)
        m.d.comb += this_bank.eq(1 << self.row.bank)
        m.d.sync += self.open.eq(self.open & ~Mux(pre, this_bank, 0) | Mux(act, this_bank, 0))
        for b in range(g.all_banks):
            with m.If(act & row_bank[b]):
                m.d.sync += rows[b].eq(self.row.row)
        activate_all = timer("activate_all", (act, t.rrd_s), (ref, t.rrefd))
        refresh_all = timer("refresh_all", (act, t.rrd_s), (ref, t.rrefd))
        self.timers["turn"] = turn = Signal(range(FOUR))
        with m.If(act):
            m.d.sync += turn.eq(turn + 1)
        window = [timer(f"faw_{k}", (act & (turn == k), t.faw)) for k in range(FOUR)]
        read_all = timer("read_all", (write, t.wtr_s))
        write_all = timer("write_all", (read, t.rtw))
        sid = [timer(f"sid_{k}", ((read | write) & ~in_sid[k], t.ccd_r)) for k in range(g.sids)]
        read_group = [
            timer(f"read_group_{k}", (read & in_group[k], t.ccd_l), (write & in_group[k], t.wtr_l))
            for k in range(g.all_groups)
        ]
        write_group = [timer(f"write_group_{k}", (write & in_group[k], t.ccd_l)) for k in range(g.all_groups)]
        act_group = [timer(f"act_group_{k}", (act & row_group[k], t.rrd_l)) for k in range(g.all_groups)]
        m.d.comb += [
            self.activate_any.eq((activate_all == 0) & (Array(window)[turn] == 0)),
            self.refresh_any.eq(refresh_all == 0),
        ]
        ready: dict[str, list[Any]] = {name: [] for name in ("read", "write", "activate", "precharge", "refresh")}
        for b in range(g.all_banks):
            k = b // g.banks
            s = k // g.groups
            activated = act & row_bank[b]
            act_bank = timer(f"act_{b}", (activated, t.rc), (pre & row_bank[b], t.rp), (ref & row_bank[b], t.rfc_pb))
            read_bank = timer(f"read_{b}", (activated, t.rcd_rd))
            write_bank = timer(f"write_{b}", (activated, t.rcd_wr))
            pre_bank = timer(f"pre_{b}", (activated, t.ras), (read & in_bank[b], t.rtp), (write & in_bank[b], t.wr_pre))
            column = self.open[b] & (sid[s] == 0)
            ready["read"].append(column & (read_bank == 0) & (read_group[k] == 0) & (read_all == 0))
            ready["write"].append(column & (write_bank == 0) & (write_group[k] == 0) & (write_all == 0))
            ready["activate"].append(~self.open[b] & (act_bank == 0) & (act_group[k] == 0))
            ready["precharge"].append(self.open[b] & (pre_bank == 0))
            ready["refresh"].append(~self.open[b] & (act_bank == 0))
        m.d.comb += [getattr(self, f"{name}_ready").eq(Cat(bits)) for name, bits in ready.items()]
        same_bank = self.row.bank == self.probe.bank
        was_hit = self.open.bit_select(self.probe.bank, 1) & (Array(rows)[self.probe.bank] == self.probe.row)
        m.d.comb += self.probe_hit.eq(
            Mux(act & same_bank, self.row.row == self.probe.row, was_hit & ~(pre & same_bank))
        )
        return m


def _timer(m: Module, name: str, loads: tuple[tuple[Any, int], ...]) -> Signal:
    """A down counter; each ``(condition, slots)`` keeps it from 0 for that many slots after the condition."""
    counter = Signal(range(max(slots for _, slots in loads) + 1), name=name)
    value: Any = Mux(counter == 0, 0, counter - 1)
    for condition, slots in loads:
        loaded = max(slots - 1, 0)
        value = Mux(condition & (value < loaded), loaded, value)
    m.d.sync += counter.eq(value)
    return counter
