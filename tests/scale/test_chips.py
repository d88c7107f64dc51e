"""The time model of simulated chips: further lines cost what is counted from flits and beats."""

import pytest

from scale.chips import cycles
from verif.system.programs import system_config
from verif.system.system import SQUARE

RING = (0, 1, 3, 2)
WRITE, DONE = 5, 1
"""Flits that a line and its answer take of a chip's port, each way."""
BEATS = 4


@pytest.mark.parametrize(
    ("operation", "line"),
    [
        ("all_gather", 3 * (WRITE + DONE)),
        ("reduce_scatter", 3 * (WRITE + DONE + 2 * BEATS)),
        ("all_reduce", 6 * (WRITE + DONE) + 3 * 2 * BEATS),
    ],
)
def test_a_line_passes_its_port_and_is_then_added(operation: str, line: int) -> None:
    assert cycles(SQUARE, RING, operation, 1, 200) == 200
    assert cycles(SQUARE, RING, operation, 11, 200) == pytest.approx(200 + 10 * line)


def test_blocks_of_an_exchange_follow_each_other_without_waiting() -> None:
    few, many = (cycles(SQUARE, RING, "all_to_all", lines, 200) for lines in (2, 22))
    assert few == pytest.approx(200 + 4 * BEATS)
    assert many == pytest.approx(200 + 21 * BEATS + 3 * (20 * (WRITE + DONE) - BEATS))


def test_where_links_are_wide_the_dma_sets_the_pace() -> None:
    wide = system_config((2, 2), flit_bits=700)
    assert wide.flits("write") == 1
    assert cycles(wide, RING, "all_gather", 11, 200) == 200 + 10 * 3 * BEATS


def test_a_ring_that_jumps_loads_links_twice() -> None:
    config = system_config((8,))
    near, far = tuple(range(8)), (0, 3, 6, 1, 4, 7, 2, 5)
    assert cycles(config, far, "all_gather", 11, 0) > 1.5 * cycles(config, near, "all_gather", 11, 0)
