"""Kernels on the golden core against numpy, at several sizes of core."""

import numpy as np
import pytest

from examples.kernels import digits, kernels, matmul
from sdk.run import run
from spec.core import CoreConfig, core_of
from spec.presets import SMALL, TINY
from verif.core.bench import LITTLE

TRANSPOSED = core_of(SMALL.machine).replace(sbuf_bytes=4096, dma_engines=1, dma_queues=3)


@pytest.mark.parametrize("config", [LITTLE, TRANSPOSED], ids=["little", "small"])
@pytest.mark.parametrize(
    "name", ["matmul", "softmax", "layer norm", "RMS norm", "MLP", "attention", "convolution", "digits"]
)
def test_kernel_computes_what_numpy_does(name: str, config: CoreConfig) -> None:
    kernel = kernels(config)[name]
    found = run(kernel.program, "golden", kernel.inputs)
    for key, expected in kernel.expected.items():
        error = np.abs(found[key].astype(float) - expected).max()
        assert error <= kernel.tolerance, f"{key} is off by {error}"


def test_fp32_product_takes_four_passes_and_is_as_exact_as_fp32() -> None:
    config = LITTLE
    kernel = matmul(config, 8, 8, 16, "fp32")
    found = run(kernel.program, "golden", kernel.inputs)
    assert np.abs(found["c"] - kernel.expected["c"]).max() < 1e-5


def test_digits_are_told_as_the_labels_say() -> None:
    kernel = digits(LITTLE, 24)
    found = run(kernel.program, "golden", kernel.inputs)
    from examples.train_digits import TRAIN, images

    labels = images()[1][TRAIN : TRAIN + 24]
    assert (found["y"] == labels).mean() > 0.9


def test_a_kernel_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="bytes a partition, as many are free"):
        digits(core_of(TINY.machine), 4)
