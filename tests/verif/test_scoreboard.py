"""The scoreboard says exactly what differs, and notices every planted fault."""

import math

import numpy as np
import pytest
from amaranth.lib import data

from spec.formats import FLOATS
from verif.harness import counts
from verif.harness.faults import FAULTS, UnnoticedError, check_notices, check_notices_late, plant
from verif.harness.packing import to_words
from verif.harness.scoreboard import MismatchError, Scoreboard, check_array, number_of
from verif.numerics.references import ML_DTYPES

VECTOR = data.StructLayout({"last": 1, "lanes": data.ArrayLayout(16, 4)})
REFERENCES = [name for name in ML_DTYPES if name in FLOATS and FLOATS[name].width in (8, 16)]


def items(count: int = 8) -> list[int]:
    rng = np.random.default_rng(7)
    return [int.from_bytes(rng.bytes(9)) & (1 << 65) - 1 for _ in range(count)]


@pytest.mark.parametrize("name", REFERENCES)
def test_numbers_in_reports_are_those_of_the_references(name: str) -> None:
    width = FLOATS[name].width
    codes = np.arange(1 << width, dtype=f"u{width // 8}")
    expected = [float(number) for number in codes.view(ML_DTYPES[name])]
    ours = np.array([number_of(name, int(code)) for code in codes])
    assert np.array_equal(ours, np.array(expected), equal_nan=True)


def test_fp4_has_no_special_numbers_and_e8m0_is_a_power() -> None:
    assert [number_of("fp4_e2m1", code) for code in range(8)] == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert number_of("e8m0", 127) == 1
    assert math.isnan(number_of("e8m0", 255))
    assert number_of("int8", 0x80) == -128


def test_a_report_names_item_lane_and_both_values() -> None:
    golden = items()
    wrong = [*golden[:3], golden[3] ^ 1 << 17, *golden[4:]]
    board = Scoreboard("o", VECTOR, number={"lanes": "bf16"})
    board.compare(golden[:2], golden[:2])
    with pytest.raises(MismatchError, match=r"item 3 lane lanes\[1\]: rtl 0x[0-9a-f]{4} = .*, golden 0x[0-9a-f]{4} = "):
        board.compare(wrong[2:], golden[2:])
    assert board.compared == 8


def test_missing_and_surplus_items_are_mismatches() -> None:
    golden = items()
    with pytest.raises(MismatchError, match="2 missing"):
        Scoreboard("o", VECTOR).compare(golden[:-2], golden)
    with pytest.raises(MismatchError, match="1 too many"):
        Scoreboard("o", VECTOR).compare([*golden, 0], golden)


def test_a_late_cycle_is_a_mismatch() -> None:
    with pytest.raises(MismatchError, match="item 1: rtl in cycle 5, golden in cycle 4"):
        Scoreboard("o", VECTOR).compare_cycles([3, 5], [3, 4])
    check_notices_late(lambda late: Scoreboard("o", 8).compare_cycles(late, [3, 4]), [3, 4])


def test_arrays_name_the_index_of_each_difference() -> None:
    golden = np.full((2, 3), 0x3F80)
    wrong = golden.copy()
    wrong[1, 2] += 1
    with pytest.raises(MismatchError, match=r"1 of 6 .*\n.*\[1, 2\]: rtl 0x3f81 = 1.0078125, golden 0x3f80 = 1.0"):
        check_array("psum", wrong, golden, "bf16")
    with pytest.raises(MismatchError, match="shape"):
        check_array("psum", wrong[:1], golden)


@pytest.mark.parametrize("form", [list, lambda golden: to_words(golden, 65)], ids=["integers", "words"])
def test_every_planted_fault_is_noticed(form: type) -> None:
    golden = form(items())
    planted = check_notices(lambda wrong: Scoreboard("o", VECTOR).compare(wrong, golden), golden, VECTOR)
    assert set(planted) == set(FAULTS)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_blind_comparison_is_found_out(fault: str) -> None:
    golden = items()
    blind = plant(golden, VECTOR)[fault]

    def compare(wrong: list[int]) -> None:
        assert wrong in (golden, blind)

    with pytest.raises(UnnoticedError):
        check_notices(compare, golden, VECTOR)


def test_plain_outputs_are_refused_as_poor_stimulus() -> None:
    golden = [0] * 4
    with pytest.raises(UnnoticedError, match="too plain to plant zeros"):
        check_notices(lambda wrong: Scoreboard("o", VECTOR).compare(wrong, golden), golden, VECTOR)


def test_planted_faults_do_not_count_as_mismatches() -> None:
    before = counts.snapshot()
    golden = items()
    check_notices(lambda wrong: Scoreboard("o", VECTOR).compare(wrong, golden), golden, VECTOR)
    assert counts.since(before) == counts.Counts()
