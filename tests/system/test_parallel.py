"""Layers over four chips."""

from collections.abc import Iterator

import numpy as np
import pytest

from examples.parallel import LAYERS, outputs, torus
from verif.system.driver import RtlSystem


@pytest.mark.parametrize("name", LAYERS)
def test_every_chip_holds_the_same_bits_near_numpy(name: str) -> None:
    system, inputs, expected = LAYERS[name](torus(), np.random.default_rng(2))
    found = outputs(system.run("golden", inputs))
    assert len({row.tobytes() for row in found}) == 1
    # Operands are bf16, so products are exact in fp32; what is left is one rounding a sum, of 16 terms at most.
    bound = 16 * np.finfo(np.float32).eps * np.abs(expected).max()
    assert np.abs(found[0] - expected).max() <= bound


@pytest.fixture(scope="module")
def chips() -> Iterator[RtlSystem]:
    system = RtlSystem(torus())
    yield system
    system.model.close()


@pytest.mark.parametrize("name", LAYERS)
def test_hardware_computes_the_same_bits_as_golden(name: str, chips: RtlSystem) -> None:
    system, inputs, _ = LAYERS[name](torus(), np.random.default_rng(3))
    golden, rtl = system.run("golden", inputs), system.run(chips, inputs)
    np.testing.assert_array_equal(outputs(rtl).view(np.uint32), outputs(golden).view(np.uint32))
    cycles = [max(result.cycles for result in results) for results in (golden, rtl)]
    assert abs(cycles[0] / cycles[1] - 1) < 0.02  # the time model leaves out conflicts of ports
