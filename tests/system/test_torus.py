"""Sixteen compiled chips on a 4x4 torus: collectives over all of them as on golden, in every bit."""

from collections.abc import Iterator

import numpy as np
import pytest

from tests.system.collective import check_collective
from verif.system.driver import RtlSystem
from verif.system.programs import MOVER, system_config

pytestmark = pytest.mark.long

CONFIG = system_config((4, 4), chip_lines=1024, core=MOVER)
RING = [4 * row + (column if row % 2 == 0 else 3 - column) for row in range(4) for column in range(4)]
"""Around the torus, neighbour by neighbour."""


@pytest.fixture(scope="module")
def chips() -> Iterator[RtlSystem]:
    system = RtlSystem(CONFIG)
    yield system
    system.model.close()


@pytest.mark.parametrize("operation", ["reduce_scatter", "all_gather", "all_reduce", "all_to_all"])
def test_collectives_of_sixteen_chips_leave_what_golden_leaves(operation: str, chips: RtlSystem) -> None:
    check_collective(chips, operation, RING, np.random.default_rng(7))
