"""Per-bank refresh: what is owed, and which bank is refreshed next."""

from typing import Any

from amaranth import Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.hbm.layouts import bits
from spec.hbm import SLOT_CK
from spec.hbm_controller import HbmControllerConfig


class HbmRefresh(Block):
    """Counts refreshes owed (one each tREFI / banks) and aims at a bank, slot by slot.

    ``demand``          banks the running batch wants
    ``left``, ``left_bank``    a column command has just used the last line that wanted this bank
    ``issued``            the refresh of the bank aimed at is issued in this slot

    ``aimed``, ``bank``     a refresh is aimed at ``bank``: no ACT for it
    ``must``             ``refresh_urgent`` or more are owed: no column command for the bank aimed at either
    ``owed``             refreshes due and not done; negative: done ahead

    A free aim goes to a bank just left, if no more than ``refresh_ahead`` have been done early; else, when one is due,
    to the first bank without demand, under ``must`` to the first bank at all. Demand takes it back unless ``must``. No
    bank has a second refresh before all have had one. Reset owes nothing.
    """

    def __init__(self, config: HbmControllerConfig) -> None:
        banks = config.geometry.all_banks
        reach = 2 * max(config.refresh_ahead, config.refresh_urgent) + banks + 1
        signature = {
            "demand": In(banks),
            "left": In(1),
            "left_bank": In(bits(banks)),
            "issued": In(1),
            "aimed": Out(1),
            "bank": Out(bits(banks)),
            "must": Out(1),
            "owed": Out(range(-reach, reach)),
        }
        super().__init__(config, signature)

    def elaborate(self, platform: Any) -> Module:
        """Due counter, round, aim."""
        m = Module()
        config: Any = self.config
        banks, interval = config.geometry.all_banks, config.timing.t_refi
        step = SLOT_CK * banks
        self.due = due = Signal(range(interval))
        falls_due = Signal()
        m.d.comb += falls_due.eq(due + step >= interval)
        m.d.sync += [
            due.eq(due + step - Mux(falls_due, interval, 0)),
            self.owed.eq(self.owed + falls_due - self.issued),
        ]
        m.d.comb += self.must.eq(self.owed >= config.refresh_urgent)

        self.done = done = Signal(banks)
        with m.If(self.issued):
            now_done = Signal(banks)
            m.d.comb += now_done.eq(done | (1 << self.bank))
            m.d.sync += done.eq(Mux(now_done.all(), 0, now_done))

        candidates, found = Signal(banks), Signal(bits(banks))
        m.d.comb += candidates.eq(~done & Mux(self.must, ~0, ~self.demand))
        for b in reversed(range(banks)):
            with m.If(candidates[b]):
                m.d.comb += found.eq(b)
        with m.If(self.aimed), m.If(self.issued | (~self.must & self.demand.bit_select(self.bank, 1))):
            m.d.sync += self.aimed.eq(0)
        with m.Elif(self.left & ~done.bit_select(self.left_bank, 1) & (self.owed > -config.refresh_ahead)):
            m.d.sync += [self.aimed.eq(1), self.bank.eq(self.left_bank)]
        with m.Elif(candidates.any() & (self.owed > 0)):
            m.d.sync += [self.aimed.eq(1), self.bank.eq(found)]
        return m
