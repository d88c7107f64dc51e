"""Random codes as engines meet them: numbers of every size, those near each other, and those arithmetic gets wrong."""

import numpy as np
import numpy.typing as npt

from golden.numerics.codes import code_dtype, element_named
from spec.formats import IntFormat

Words = npt.NDArray[np.uint32]

SPECIAL = np.array(
    [0, 1 << 31, 1, 0x7FFFFF, 0x800000, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x3F800000],
    np.uint32,
)
"""fp32 patterns that arithmetic gets wrong first; their high halves are those of bf16."""

SHARES = (0.3, 0.25, 0.2, 0.15, 0.03)
"""Of any bits, about 3, whole numbers that cancel, 2**-12 to 2**8, subnormal; the rest is special."""


def fp32_words(rng: np.random.Generator, shape: tuple[int, ...]) -> Words:
    """Codes of fp32."""
    bits = rng.integers(0, 1 << 32, shape, dtype=np.uint32)
    sizes = np.exp2(rng.uniform(-12, 8, shape)) * rng.choice([-1, 1], shape)
    numbers = (rng.normal(0, 3, shape), rng.integers(-3, 4, shape), sizes)
    subnormal = (bits & 0x7FFFFF) >> rng.integers(0, 23, shape, dtype=np.uint32) | bits & 1 << 31
    kinds = [bits, *(each.astype(np.float32).view(np.uint32) for each in numbers), subnormal]
    kind = np.searchsorted(np.cumsum(SHARES), rng.random(shape), "right")
    return np.choose(kind, [*kinds, rng.choice(SPECIAL, shape)])


def codes(name: str, rng: np.random.Generator, shape: tuple[int, ...]) -> Words:
    """Codes of any format; integers of every size, and of narrow floats all codes alike."""
    if name in ("fp32", "tf32"):
        return fp32_words(rng, shape)
    if name == "bf16":
        return fp32_words(rng, shape) >> np.uint32(16)
    bits = rng.integers(0, 1 << 32, shape, dtype=np.uint32)
    entry = element_named(name)
    if isinstance(entry, IntFormat):
        bits = (bits.view(np.int32) >> rng.integers(0, 32, shape, dtype=np.int32)).view(np.uint32)
        bits = np.where(rng.random(shape) < 0.3, bits & np.uint32(3), bits)
    return bits.astype(code_dtype(name)).astype(np.uint32)
