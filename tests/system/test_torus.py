"""Sixteen compiled chips on a 4x4 torus: collectives over all of them as on golden, in every bit."""

from collections.abc import Iterator

import numpy as np
import pytest

from sdk.system_bench import WITHIN, around, deviations
from tests.system.collective import check_collective
from verif.system.driver import RtlSystem
from verif.system.programs import SIXTEEN

pytestmark = pytest.mark.long

CONFIG = SIXTEEN
RING = around((4, 4))


@pytest.fixture(scope="module")
def chips() -> Iterator[RtlSystem]:
    system = RtlSystem(CONFIG)
    yield system
    system.model.close()


@pytest.mark.parametrize("operation", ["reduce_scatter", "all_gather", "all_reduce", "all_to_all"])
def test_collectives_of_sixteen_chips_leave_what_golden_leaves(operation: str, chips: RtlSystem) -> None:
    check_collective(chips, operation, RING, np.random.default_rng(7))


def test_the_time_model_of_collectives_is_within_a_twentieth_of_hardware(chips: RtlSystem) -> None:
    for operation, lines, model, measured in deviations(chips, RING, (2, 16)):
        assert abs(model / measured - 1) < WITHIN, f"{operation} with {lines} lines: {model:.0f} for {measured} cycles"
