"""Convolution by matmuls over access patterns, against JAX on integers, where every order of the sum is exact."""

import jax
import ml_dtypes
import numpy as np
import pytest

from golden.tensor.convolution import Convolution, Pattern, convolution_cycles, convolve
from spec.parameters import ParameterError
from spec.tensor import TensorConfig

CONFIG = TensorConfig(rows=8, columns=6, load_columns=2, psum_banks=2, psum_bank_bytes=128)

LAYERS = {
    "1x1": Convolution(channels=11, outputs=7, height=5, width=6, kernel=1),
    "3x3 stride 2": Convolution(channels=3, outputs=9, height=9, width=8, stride=2, padding=1),
    "7x7": Convolution(channels=2, outputs=3, height=12, width=11, kernel=7, stride=2, padding=3),
    "dilated": Convolution(channels=2, outputs=2, height=9, width=9, dilation=2, padding=2),
    "depthwise": Convolution(channels=10, outputs=10, height=6, width=5, padding=1, groups=10),
    "grouped": Convolution(channels=6, outputs=4, height=4, width=4, groups=2),
    "wider than a bank": Convolution(channels=1, outputs=1, height=2, width=50, kernel=1),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_agree_with_jax(name: str) -> None:
    layer = LAYERS[name]
    rng = np.random.default_rng(1)
    weights = rng.integers(-4, 5, (layer.outputs, layer.channels // layer.groups, layer.kernel, layer.kernel))
    image = rng.integers(-8, 9, (layer.channels, layer.height, layer.width))
    reference = jax.lax.conv_general_dilated(
        jax.numpy.asarray(image[None].astype(np.float32)),
        jax.numpy.asarray(weights.astype(np.float32)),
        (layer.stride, layer.stride),
        [(layer.padding, layer.padding)] * 2,
        rhs_dilation=(layer.dilation, layer.dilation),
        feature_group_count=layer.groups,
    )
    codes = [part.astype(ml_dtypes.bfloat16).view(np.uint16) for part in (weights, image)]
    ours = convolve(CONFIG, layer, codes[0], codes[1]).view(np.float32)
    assert np.array_equal(ours, np.asarray(reference)[0])


def test_a_pattern_is_a_view_of_memory() -> None:
    memory = np.arange(40, dtype=np.uint16).reshape(2, 20)
    assert Pattern(1, 1, 3, ((6, 2), (2, 3))).of(memory).tolist() == [[23, 25, 27, 29, 31, 33]]
    assert np.shares_memory(Pattern(0, 2, 0, ((1, 20),)).of(memory), memory)


def test_a_layer_costs_one_pass_for_each_tap_and_part_of_the_channels() -> None:
    config = TensorConfig(rows=64, columns=64)
    layer = Convolution(channels=128, outputs=64, height=16, width=32, padding=1)
    passes = 9 * 2 * 512
    assert passes < convolution_cycles(config, layer) < passes + config.load_cycles + config.latency + 4


@pytest.mark.parametrize(("field", "value"), [("groups", 4), ("kernel", 7), ("stride", 0)])
def test_an_impossible_layer_is_refused(field: str, value: int) -> None:
    fields = {"channels": 6, "outputs": 4, "height": 4, "width": 4, field: value}
    with pytest.raises(ParameterError, match=f"Convolution.{field} = {value}"):
        Convolution(**fields)
