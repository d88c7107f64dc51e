"""Each proof of the HBM blocks fails when the block is wrong."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from amaranth.hdl import Module

from hdl.hbm.banks import HbmBanks
from hdl.hbm.merge import HbmMerge
from hdl.hbm.refresh import HbmRefresh
from hdl.hbm.scheduler import HbmScheduler
from hdl.hbm.window import HbmWindow
from spec.hbm import SLOT_CK
from spec.hbm_stack import SMALL_STACK
from verif.formal.hbm import (
    NUMBER,
    SOLO,
    TINY,
    MergeProperties,
    OrderProperties,
    RefreshProperties,
    SchedulerProperties,
    WindowProperties,
)
from verif.formal.hbm_banks import CONFIG, SHORT, BankProperties
from verif.harness.formal import Proof, Properties


class Greedy(HbmMerge):
    """Never gives the turn away."""

    def elaborate(self, platform: Any) -> Module:
        m = super().elaborate(platform)
        m.d.sync += self.left.eq(self.streak)
        return m


class Forgetful(HbmWindow):
    """Forgets a line that comes in while another leaves."""

    def elaborate(self, platform: Any) -> Module:
        window: Any = self
        m = super().elaborate(platform)
        with m.If(window.push & window.take & window.column.last):
            m.d.sync += [window.valid.eq(window.valid >> 1), window.count.eq(window.count - 1)]
        return m


class Hasty(HbmScheduler):
    """Takes every bank for ready to read."""

    def elaborate(self, platform: Any) -> Module:
        m = super().elaborate(platform)
        window: Any = self.windows[0]
        m.d.comb += window.column_ready.eq(-1)
        return m


class Repetitive(HbmRefresh):
    """Forgets which banks had their refresh."""

    def elaborate(self, platform: Any) -> Module:
        m = super().elaborate(platform)
        m.d.sync += self.done.eq(0)
        return m


def too_short(field: str) -> BankProperties:
    """Bank machines of a timing set in which one value is a slot less than demanded."""
    timing = SHORT.replace(**{field: getattr(SHORT, field) - SLOT_CK})
    return BankProperties(CONFIG, HbmBanks(CONFIG.replace(timing=timing)))


FAULTS: dict[str, tuple[Callable[[], Properties], int]] = {
    "a streak without end": (lambda: MergeProperties(Greedy(SMALL_STACK, NUMBER, 3, 2)), 10),
    "a line forgotten": (lambda: WindowProperties(window=Forgetful(TINY, TINY.read_lines)), 8),
    "a bank taken for ready": (lambda: SchedulerProperties(scheduler=Hasty(TINY)), 8),
    "a bank refreshed twice": (lambda: RefreshProperties(refresh=Repetitive(TINY.replace(timing=SHORT))), 40),
    "refresh due more often than it is served": (
        lambda: RefreshProperties(TINY.replace(timing=SHORT.replace(t_refi=32))),
        50,
    ),
    "responses as they come": (lambda: OrderProperties(SOLO.replace(ordered=False)), 8),
    **{f"{field} too short": (partial(too_short, field), 14) for field in ("t_faw", "t_rfc_pb", "t_wtr_l")},
}
QUICK = ("a streak without end", "t_wtr_l too short")


def fails(name: str) -> None:
    properties, depth = FAULTS[name]
    verdict = Proof(name, properties, mode="bmc", depth=depth).run()
    assert verdict.result == "fail", (verdict.result, verdict.detail)


@pytest.mark.parametrize("name", QUICK)
def test_a_planted_fault_breaks_its_proof(name: str) -> None:
    fails(name)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in FAULTS if name not in QUICK])
def test_every_other_planted_fault_breaks_its_proof(name: str) -> None:
    fails(name)
