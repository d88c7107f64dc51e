"""Softmax, norms and GELU of the digits' hidden layer: RTL equals golden, golden is close to float64 and to JAX."""

from typing import Any

import jax
import numpy as np
import pytest

from examples.activations import EPSILON, PROGRAMS, hidden, reference, run, tolerance
from verif.vector.driver import Golden

IMAGES = 16
F32_UNIT = 2.0**-24


@pytest.fixture(scope="module")
def tensor() -> np.ndarray:
    return hidden(IMAGES)


def test_the_tensor_is_a_real_one(tensor: np.ndarray) -> None:
    assert tensor.shape == (32, IMAGES)
    assert (tensor < 0).any()
    assert len(np.unique(tensor)) > 400


def layers(name: str, x: np.ndarray) -> Any:
    if name == "softmax":
        return jax.nn.softmax(x, axis=0)
    if name == "GELU":
        return jax.nn.gelu(x, approximate=False)
    return jax.nn.standardize(x, axis=0, epsilon=EPSILON) if name == "layer norm" else None


@pytest.mark.parametrize("name", PROGRAMS)
def test_golden_is_close_to_float64(name: str, tensor: np.ndarray) -> None:
    found = PROGRAMS[name](Golden(IMAGES), tensor)
    assert np.abs(found - reference(name, tensor)).max() <= tolerance(name, len(tensor), tensor)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "RMS norm"])
def test_golden_is_close_to_jax(name: str, tensor: np.ndarray) -> None:
    """JAX rounds in fp32 too, in an order of its own: the tolerance is that of golden, twice."""
    found = PROGRAMS[name](Golden(IMAGES), tensor)
    assert np.abs(found - np.asarray(layers(name, tensor))).max() <= 2 * tolerance(name, len(tensor), tensor)


def test_softmax_sums_to_one(tensor: np.ndarray) -> None:
    total = PROGRAMS["softmax"](Golden(IMAGES), tensor).astype(np.float64).sum(axis=0)
    assert np.abs(total - 1).max() <= 64 * F32_UNIT


def test_a_wrong_scale_is_noticed(tensor: np.ndarray) -> None:
    wrong = PROGRAMS["RMS norm"](Golden(IMAGES), tensor) * np.float32(1.0001)
    assert np.abs(wrong - reference("RMS norm", tensor)).max() > tolerance("RMS norm", len(tensor), tensor)


def test_rtl_equals_golden_in_every_bit() -> None:
    for outcome in run(count=2):
        assert outcome.equal, outcome
        assert outcome.error <= outcome.allowed, outcome
