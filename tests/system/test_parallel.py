"""Layers over four chips."""

import numpy as np
import pytest

from examples.parallel import LAYERS, outputs, torus


@pytest.mark.parametrize("name", LAYERS)
def test_every_chip_holds_the_same_bits_near_numpy(name: str) -> None:
    system, inputs, expected = LAYERS[name](torus(), np.random.default_rng(2))
    found = outputs(system.run("golden", inputs))
    assert len({row.tobytes() for row in found}) == 1
    # Operands are bf16, so products are exact in fp32; what is left is one rounding a sum, of 16 terms at most.
    bound = 16 * np.finfo(np.float32).eps * np.abs(expected).max()
    assert np.abs(found[0] - expected).max() <= bound
