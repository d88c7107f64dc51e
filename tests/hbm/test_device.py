from typing import Any

import pytest

from golden.hbm.device import Command, Device, DeviceError
from spec.hbm import HBM3_6400, HbmGeometry

ACT, PRE, RD, WR, REFPB, REFAB = (Command[name] for name in ("ACT", "PRE", "RD", "WR", "REFPB", "REFAB"))
GEOMETRY = HbmGeometry()

# Banks 0 and 1 share a group, 4, 8 and 12 lie in the others of stack id 0, 16 in stack id 1.
OPEN_0_1, OPEN_0_4, OPEN_0_16 = (((0, ACT, 0), (5, ACT, other)) for other in (1, 4, 16))
FOUR_OPEN = ((0, ACT, 0), (4, ACT, 4), (8, ACT, 8), (12, ACT, 12))

SPACINGS = {
    "tRCD of a read": ("tRCD", ((0, ACT, 0),), RD, 0, 31),
    "tRCD of a write": ("tRCD", ((0, ACT, 0),), WR, 0, 15),
    "tRC": ("tRC", ((0, ACT, 0), (45, PRE, 0)), ACT, 0, 72),
    "tRC to a refresh": ("tRC", ((0, ACT, 0), (45, PRE, 0)), REFPB, 0, 72),
    "tRP": ("tRP", ((0, ACT, 0), (50, PRE, 0)), ACT, 0, 76),
    "tRP to a refresh": ("tRP", ((0, ACT, 0), (50, PRE, 0)), REFPB, 0, 76),
    "tRP to a refresh of all": ("tRP", ((0, ACT, 0), (50, PRE, 0)), REFAB, 0, 76),
    "tRAS": ("tRAS", ((0, ACT, 0),), PRE, 0, 45),
    "tRTP": ("tRTP", ((0, ACT, 0), (40, RD, 0)), PRE, 0, 49),
    "tWR": ("tWR", ((0, ACT, 0), (20, WR, 0)), PRE, 0, 65),
    "tRRD_S": ("tRRD_S", ((0, ACT, 0),), ACT, 4, 4),
    "tRRD_S to a refresh": ("tRRD_S", ((0, ACT, 0),), REFPB, 4, 4),
    "tRRD_L": ("tRRD_L", ((0, ACT, 0),), ACT, 1, 5),
    "tFAW": ("tFAW", FOUR_OPEN, ACT, 16, 24),
    "tCCD_S": ("tCCD_S", (*OPEN_0_4, (40, RD, 0)), RD, 4, 42),
    "tCCD_L": ("tCCD_L", (*OPEN_0_1, (40, RD, 0)), RD, 1, 44),
    "tCCD_L of writes": ("tCCD_L", (*OPEN_0_1, (40, WR, 0)), WR, 1, 44),
    "tCCD_R": ("tCCD_R", (*OPEN_0_16, (40, RD, 0)), RD, 16, 43),
    "tWTR_S": ("tWTR_S", (*OPEN_0_4, (40, WR, 0)), RD, 4, 59),
    "tWTR_L": ("tWTR_L", (*OPEN_0_1, (40, WR, 0)), RD, 1, 62),
    "tRTW": ("tRTW", (*OPEN_0_4, (40, RD, 0)), WR, 4, 60),
    "tPPD": ("tPPD", (*OPEN_0_4, (60, PRE, 0)), PRE, 4, 62),
    "tRFCpb": ("tRFCpb", ((0, REFPB, 0),), ACT, 0, 320),
    "tRFCpb to a refresh of all": ("tRFCpb", ((0, REFPB, 0),), REFAB, 0, 320),
    "tRREFD": ("tRREFD", ((0, REFPB, 0),), ACT, 4, 8),
    "tRREFD to a refresh": ("tRREFD", ((0, REFPB, 0),), REFPB, 4, 8),
    "tRFC": ("tRFC", ((0, REFAB, 0),), ACT, 0, 560),
    "tRFC to a refresh": ("tRFC", ((0, REFAB, 0),), REFPB, 0, 560),
    "tRFC to a refresh of all": ("tRFC", ((0, REFAB, 0),), REFAB, 0, 560),
}


def device_after(commands: Any) -> Device:
    device = Device(HBM3_6400, GEOMETRY)
    for clock, kind, bank in commands:
        device.command(clock * 2, 0, kind, bank)
    return device


@pytest.mark.parametrize("name", SPACINGS)
def test_a_command_is_taken_at_its_spacing_and_refused_one_clock_before(name: str) -> None:
    constraint, before, kind, bank, legal = SPACINGS[name]
    device_after(before).command(legal * 2, 0, kind, bank)
    with pytest.raises(DeviceError) as caught:
        device_after(before).command((legal - 1) * 2, 0, kind, bank)
    assert caught.value.constraint == constraint


STATES = {
    "ACT of an open bank": ("open", ((0, ACT, 0),), 200, ACT, 0),
    "RD of a closed bank": ("closed", (), 200, RD, 0),
    "WR after PRE": ("closed", ((0, ACT, 0), (60, PRE, 0)), 200, WR, 0),
    "REFpb of an open bank": ("open", ((0, ACT, 0),), 200, REFPB, 0),
    "REFab with an open bank": ("open", ((0, ACT, 7),), 200, REFAB, 0),
    "REFpb twice in a round": ("round", ((0, REFPB, 0),), 400, REFPB, 0),
    "a bank too long without refresh": ("tREFI", (), 9 * 6240 + 1, ACT, 0),
    "time runs backwards": ("order", ((100, ACT, 0),), 90, ACT, 4),
    "row bus still busy": ("bus", ((100, ACT, 0),), 101, REFPB, 4),
}


@pytest.mark.parametrize("name", STATES)
def test_a_command_in_the_wrong_state_is_refused(name: str) -> None:
    constraint, before, clock, kind, bank = STATES[name]
    with pytest.raises(DeviceError) as caught:
        device_after(before).command(clock * 2, 0, kind, bank)
    assert caught.value.constraint == constraint


def test_the_other_pseudo_channel_shares_the_buses_and_nothing_else() -> None:
    device = device_after(((0, ACT, 0),))
    with pytest.raises(DeviceError, match="bus"):
        device.command(2, 1, ACT, 0)
    device.command(4, 1, ACT, 0)


def test_only_a_precharge_may_use_a_falling_edge() -> None:
    device_after(((0, ACT, 0),)).command(2 * 60 + 1, 0, PRE, 0)
    with pytest.raises(DeviceError, match="falling edge"):
        device_after(()).command(1, 0, ACT, 0)


def test_a_round_of_refreshes_may_be_in_any_order_and_then_begins_again() -> None:
    device = Device(HBM3_6400, GEOMETRY)
    for turn, bank in enumerate([*reversed(range(32)), 31]):
        device.command(turn * 20, 0, REFPB, bank)
    assert device.refreshes(0) == [1] * 31 + [2]


def test_a_missed_refresh_is_noticed_at_the_end() -> None:
    device = device_after(((10, REFPB, 0),))
    with pytest.raises(DeviceError, match="bank 1 not refreshed"):
        device.finish(2 * (9 * 6240 + 1))


def test_data_comes_back_from_its_row_and_only_after_it_was_written() -> None:
    device = device_after(((0, ACT, 0),))
    with pytest.raises(DeviceError, match="never written"):
        device.read(2 * 40, 0, 0, 3)
    device.command(2 * 60, 0, WR, 0, 3, b"x" * 32)
    assert device.read(2 * 100, 0, 0, 3) == b"x" * 32
    with pytest.raises(DeviceError, match="never written"):
        device.read(2 * 104, 0, 0, 4)
