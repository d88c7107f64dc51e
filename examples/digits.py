"""Handwritten digits through the systolic array, layer by layer.

    python -m examples.digits             # compiles an 8x8 array the first time, then takes a second

The 540 test images of ``train_digits.py`` go through a network of two layers. Every multiplication and every addition
of both matrix products happens in the RTL of the tensor engine, tile by tile: the weights of a tile stay in the array,
images stream through it, and PSUM accumulates over tiles. Between the layers, ReLU and the cast to bf16 are numpy's.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.train_digits import TRAIN, WEIGHTS, images
from golden.numerics import encode
from golden.tensor.array import gemm
from spec.tensor import TensorConfig
from verif.tensor.driver import TensorDriver

CONFIG = TensorConfig(rows=8, columns=8)

Codes = NDArray[np.unsignedinteger]
Product = Callable[[Codes, Codes], NDArray[np.uint32]]
"""A matrix product: bf16 codes ``[K, M]`` and ``[K, N]`` to the fp32 bits ``[M, N]`` of ``left.T @ right``."""


def layer(product: Product, weights: Codes, inputs: NDArray[Any]) -> NDArray[np.float32]:
    """``weights.T @ inputs + bias`` in fp32; the bias is the last row of ``weights`` and meets an input of 1."""
    with_one = np.vstack([inputs, np.ones((1, inputs.shape[1]), inputs.dtype)])
    return product(weights, encode("bf16", with_one)).view(np.float32)


def logits(product: Product, pixels: NDArray[np.float32]) -> NDArray[np.float32]:
    """Ten scores for each image, ``[10, images]``, from pixels ``[64, images]``."""
    with np.load(WEIGHTS) as weights:
        hidden = np.maximum(layer(product, weights["first"], pixels), 0)
        return layer(product, weights["second"], hidden)


class Rtl:
    """The product on the array's RTL, compiled; adds up what it takes."""

    def __init__(self, driver: TensorDriver) -> None:
        self.driver = driver
        self.cycles = 0
        self.useful = 0

    def __call__(self, left: Codes, right: Codes) -> NDArray[np.uint32]:
        """One product, tile by tile."""
        product = self.driver.matmul(left, right)
        self.cycles += product.cycles
        self.useful += left.shape[0] * left.shape[1] * right.shape[1]
        return product.bits

    @property
    def utilisation(self) -> float:
        """Useful products over what all elements could have done, loading included."""
        return self.useful / (self.driver.config.rows * self.driver.config.columns * self.cycles)


def golden(left: Codes, right: Codes) -> NDArray[np.uint32]:
    """The same product in numpy, every rounding in the same place."""
    return gemm(CONFIG, left, right, "bf16", "bf16")


@dataclasses.dataclass(frozen=True)
class Outcome:
    """Logits ``[10, images]`` of the RTL and of golden, the share of digits told right, and what it took."""

    logits: NDArray[np.float32]
    golden: NDArray[np.float32]
    accuracy: float
    reference: float
    """Accuracy of scikit-learn's own network, float64 weights and arithmetic, on the same images."""
    cycles: int
    utilisation: float


def classify(driver: TensorDriver) -> Outcome:
    """Classify the test images on the array's RTL and in numpy."""
    pixels, target = images()
    pixels, target = pixels[TRAIN:].T, target[TRAIN:]
    rtl = Rtl(driver)
    ours, expected = logits(rtl, pixels), logits(golden, pixels)
    with np.load(WEIGHTS) as weights:
        reference = float(weights["reference"])
    return Outcome(
        ours, expected, float((ours.argmax(axis=0) == target).mean()), reference, rtl.cycles, rtl.utilisation
    )


def main() -> None:
    """Classify, compare with golden bit by bit, and with scikit-learn's float64."""
    found = classify(TensorDriver(CONFIG))
    different = int((found.logits.view(np.uint32) != found.golden.view(np.uint32)).sum())
    print(f"images      {found.logits.shape[1]}")
    print(f"accuracy    {found.accuracy:.2%}   (scikit-learn, float64: {found.reference:.2%})")
    print(f"logits      {found.logits.size} compared with golden, {different} differ")
    print(f"array       {CONFIG.rows}x{CONFIG.columns}, {found.cycles} cycles, {found.utilisation:.1%} utilisation")


if __name__ == "__main__":
    main()
