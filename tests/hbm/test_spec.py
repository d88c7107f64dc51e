from typing import Any

import pytest

from spec.hbm import HBM3_6400, TIMINGS, HbmGeometry, HbmTiming, timing
from spec.hbm_controller import HbmControllerConfig, HbmMap
from spec.parameters import ParameterError

GEOMETRIES = [
    HbmGeometry(),
    HbmGeometry(sids=1, groups=2, banks=2, rows=4, columns=8),
    HbmGeometry(sids=4, groups=8, banks=8, rows=4, columns=8, pseudo_channels=1),
    HbmGeometry(sids=1, groups=1, banks=4, rows=2),
]


@pytest.mark.parametrize("hashed", [False, True])
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_the_map_is_one_to_one(geometry: HbmGeometry, hashed: bool) -> None:
    basis: list[int] = []
    for mask in (mask for masks in HbmMap(geometry, hashed).masks.values() for mask in masks):
        for pivot in basis:
            mask = min(mask, mask ^ pivot)
        assert mask, "an output bit follows from the others"
        basis.append(mask)
    assert len(basis) == geometry.address_bits - 5


@pytest.mark.parametrize("bit", range(12, 24))
def test_every_power_of_two_stride_visits_all_banks_of_both_pseudo_channels(bit: int) -> None:
    hbm = HbmMap(HbmGeometry(), True)
    places = [hbm.locate(index << bit) for index in range(64)]
    assert len({(place.pseudo_channel, place.bank) for place in places}) == 64


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"t_rc": 70}, r"HbmTiming.t_rc = 70 CK: legal is at least t_ras \+ t_rp = 71"),
        ({"t_ccd_s": 5}, "t_ccd_l = 4 CK: legal is at least t_ccd_s = 5"),
        ({"t_rrd_s": 6}, "t_rrd_l = 5 CK"),
        ({"t_faw": 3}, "t_faw = 3 CK"),
        ({"t_wtr_s": 11}, "t_wtr_l = 10 CK"),
        ({"t_rcd_rd": 46}, "t_ras = 45 CK"),
        ({"t_rtw": 11}, "t_rtw = 11 CK"),
        ({"t_refi": 500}, "t_refi = 500 CK"),
        ({"t_rfc_pb": 600}, "t_rfc = 560 CK"),
        ({"t_rp": 0}, "t_rp = 0 CK: legal is 1 to 65536"),
    ],
)
def test_inconsistent_timings_are_refused_in_one_line(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        HBM3_6400.replace(**change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"high_water": 129}, "high_water = 129 lines: legal is at most write_lines = 128"),
        ({"low_water": 124}, "low_water = 124 lines: legal is less than high_water"),
        ({"geometry": HbmGeometry(sids=1, groups=1, banks=2)}, "four or more banks"),
        ({"timing": HBM3_6400.replace(t_ppd=5)}, "t_ppd"),
        ({"timing": HBM3_6400.replace(t_ccd_s=3, t_ccd_r=4)}, "t_ccd_s"),
    ],
)
def test_a_controller_outside_its_limits_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        HbmControllerConfig().replace(**change)


@pytest.mark.parametrize("address", [-64, 1 << 30, 32])
def test_addresses_outside_the_channel_or_off_the_line_grid_are_refused(address: int) -> None:
    with pytest.raises(ParameterError, match=r"HbmMap\.address"):
        HbmMap(HbmGeometry(), True).locate(address)


def test_an_unknown_timing_set_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ParameterError, match="HBM timing set 'hbm5': legal is one of hbm2, hbm2e"):
        timing("hbm5")


def test_four_stacks_have_the_bandwidth_of_the_chips() -> None:
    per_chip = {name: t.pseudo_channel_gbytes * 32 * 4 / 1000 for name, t in TIMINGS.items()}
    assert per_chip["hbm3"] == pytest.approx(2.9, rel=0.02)
    assert per_chip["hbm3e"] == pytest.approx(4.9, rel=0.01)
    assert isinstance(timing("hbm2e"), HbmTiming)
