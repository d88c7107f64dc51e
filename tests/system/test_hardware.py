"""Compiled chips on a 2x2 torus: collectives and layers as on golden, in every bit and nearly every cycle."""

from collections.abc import Iterator

import numpy as np
import pytest

from examples.parallel import LAYERS, RING, outputs, torus
from sdk.run import Result
from sdk.system_bench import WITHIN, deviations
from tests.system.collective import check_collective
from verif.system.driver import RtlSystem

TOLERANCE = 0.02
"""Of the time: the model leaves out conflicts of ports."""


@pytest.fixture(scope="module")
def chips() -> Iterator[RtlSystem]:
    system = RtlSystem(torus())
    yield system
    system.model.close()


def check_time(golden: list[Result], rtl: list[Result]) -> None:
    cycles = [max(result.cycles for result in results) for results in (golden, rtl)]
    assert abs(cycles[0] / cycles[1] - 1) < TOLERANCE


@pytest.mark.parametrize("operation", ["reduce_scatter", "all_gather", "all_reduce", "all_to_all"])
def test_collectives_leave_what_golden_leaves_in_every_memory(operation: str, chips: RtlSystem) -> None:
    rng = np.random.default_rng(7)
    check_time(*check_collective(chips, operation, rng.permutation(chips.config.chips).tolist(), rng)[1:])


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_the_same_bits_as_golden(name: str, chips: RtlSystem) -> None:
    system, inputs, _ = LAYERS[name](torus(), np.random.default_rng(3))
    golden, rtl = system.run("golden", inputs), system.run(chips, inputs)
    np.testing.assert_array_equal(outputs(rtl).view(np.uint32), outputs(golden).view(np.uint32))
    check_time(golden, rtl)


def test_the_time_model_of_collectives_is_within_a_twentieth_of_hardware(chips: RtlSystem) -> None:
    for operation, lines, model, measured in deviations(chips, RING, (2, 8, 16)):
        assert abs(model / measured - 1) < WITHIN, f"{operation} with {lines} lines: {model:.0f} for {measured} cycles"
