"""Softmax, layer norm, RMS norm and GELU of a real activation tensor on the RTL of vector and scalar engine.

    python -m examples.activations

The tensor is the hidden layer of the digits network before its ReLU: a lane holds an image, rows are features. Every
arithmetic operation happens in RTL; the same program on golden gives the same bits, and both are compared with float64.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from examples.digits import golden, layer
from examples.train_digits import TRAIN, WEIGHTS, images
from golden.scalar.activation import Instruction as Scalar
from golden.vector.instructions import Instruction as Vector
from spec.scalar import ScalarConfig
from spec.tables import pattern
from spec.vector import VectorConfig
from verif.vector.driver import Engines, Golden, Rtl, bits

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]
EPSILON = 1e-5
VECTOR = VectorConfig(lanes=1, formats=("bf16", "fp32", "int32"), operation_stages=2)
SCALAR = ScalarConfig(
    lanes=1, functions=("copy", "exp", "rsqrt", "gelu"), formats=("fp32", "bf16"), multiply_stages=2, add_stages=2
)
"""Small enough to compile in a minute; the benches use the same."""
UNIT = 2.0**-24
"""Largest relative error of one fp32 rounding."""


def softmax(engines: Engines, x: F32) -> F32:
    """``exp(x - max) / sum`` of each lane."""
    rows = len(x)
    lowest = engines.vector(Vector(opcode="tensor_reduce", op1="max", negate=True, length=rows), x)[0]
    powers = engines.scalar(Scalar(function="exp", bias=lowest, reduce="reset_reduce", length=rows), x)
    total = engines.scalar(Scalar(opcode="read_accumulator", length=1))
    share = engines.vector(Vector(opcode="reciprocal", length=1), total)[0]
    return engines.vector(Vector(opcode="tensor_scalar", op0="multiply", c0=bits(share), length=rows), powers)


def layer_norm(engines: Engines, x: F32) -> F32:
    """``(x - mean) / sqrt(variance + epsilon)`` of each lane."""
    rows = len(x)
    total = engines.vector(Vector(opcode="tensor_reduce", op1="add", length=rows), x)
    mean = engines.vector(Vector(opcode="tensor_scalar", op0="multiply", c0=pattern(1 / rows), length=1), total)[0]
    centred = engines.vector(Vector(opcode="tensor_scalar", op0="subtract", c0=bits(mean), length=rows), x)
    return rms_norm(engines, centred)


def rms_norm(engines: Engines, x: F32) -> F32:
    """``x / sqrt(mean(x * x) + epsilon)`` of each lane."""
    rows = len(x)
    total = engines.vector(Vector(opcode="tensor_reduce", op0="square", op1="add", length=rows), x)
    scale = engines.scalar(Scalar(function="rsqrt", scale=1 / rows, bias=EPSILON, length=1), total)[0]
    return engines.vector(Vector(opcode="tensor_scalar", op0="multiply", c0=bits(scale), length=rows), x)


def gelu(engines: Engines, x: F32) -> F32:
    """``x * Phi(x)``."""
    return engines.scalar(Scalar(function="gelu", length=len(x)), x)


PROGRAMS: dict[str, Callable[[Engines, F32], F32]] = {
    "softmax": softmax,
    "layer norm": layer_norm,
    "RMS norm": rms_norm,
    "GELU": gelu,
}


def reference(name: str, x: F32) -> F64:
    """The same in float64."""
    from scipy.special import erfc

    wide = x.astype(np.float64)
    if name == "softmax":
        powers = np.exp(wide - wide.max(axis=0))
        return powers / powers.sum(axis=0)
    if name == "GELU":
        return wide * erfc(-wide / np.sqrt(2)) / 2
    centred = wide - wide.mean(axis=0) if name == "layer norm" else wide
    return centred / np.sqrt((centred**2).mean(axis=0) + EPSILON)


def tolerance(name: str, rows: int, x: F32) -> float:
    """Bound of the absolute error: each rounding adds a unit relative to the largest term it meets."""
    largest = float(np.abs(reference(name, x)).max())
    spread = float(np.abs(x).max() / (x.astype(np.float64) - x.mean(axis=0)).std(axis=0).min())
    return (rows + 10) * UNIT * max(largest, 1.0) * (1 + spread)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """One program: whether RTL and golden agree in every bit, its error against float64 and what is allowed."""

    name: str
    equal: bool
    error: float
    allowed: float
    cycles: int


def hidden(count: int) -> F32:
    """The hidden layer of the first test images, ``[features, images]``, before its ReLU."""
    pixels, _ = images()
    with np.load(WEIGHTS) as weights:
        return np.ascontiguousarray(layer(golden, weights["first"], pixels[TRAIN : TRAIN + count].T))


def run(count: int = 8) -> list[Outcome]:
    """All programs on ``count`` images, ``VECTOR.lanes`` at a time."""
    x = hidden(count)
    rtl = Rtl(VECTOR, SCALAR)
    outcomes = []
    for name, program in PROGRAMS.items():
        before, lanes = rtl.cycles, VECTOR.lanes
        parts = [np.ascontiguousarray(x[:, start : start + lanes]) for start in range(0, count, lanes)]
        found = np.concatenate([program(rtl, part) for part in parts], axis=1)
        expected = np.concatenate([program(Golden(lanes), part) for part in parts], axis=1)
        error = float(np.abs(found - reference(name, x)).max())
        equal = np.array_equal(bits(found), bits(expected))
        outcomes.append(Outcome(name, equal, error, tolerance(name, len(x), x), rtl.cycles - before))
    rtl.close()
    return outcomes


if __name__ == "__main__":
    for outcome in run():
        verdict = "equal to golden in every bit" if outcome.equal else "DIFFERS from golden"
        print(
            f"{outcome.name:10}  {verdict}, error {outcome.error:.1e} of {outcome.allowed:.1e}, {outcome.cycles} cycles"
        )
