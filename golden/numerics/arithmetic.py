"""fp32 operations on float32 arrays: IEEE 754 as numpy computes it, with the one NaN this machine produces."""

import numpy as np
from numpy.typing import NDArray

from spec.formats import FP32

F32 = NDArray[np.float32]

CANONICAL_NAN = np.array(FP32.nan_pattern, np.uint32).view(np.float32)
"""The quiet NaN every operation returns, 0x7FC00000."""


def canonical(values: F32) -> F32:
    """``values`` with every NaN replaced by the canonical one."""
    return np.where(np.isnan(values), CANONICAL_NAN, values)


def add(a: F32, b: F32) -> F32:
    """``float32(a + b)``, rounded to nearest even."""
    with np.errstate(all="ignore"):
        return canonical(np.add(a, b, dtype=np.float32))


def multiply(a: F32, b: F32) -> F32:
    """``float32(a * b)``, rounded to nearest even."""
    with np.errstate(all="ignore"):
        return canonical(np.multiply(a, b, dtype=np.float32))


def less(a: F32, b: F32) -> NDArray[np.bool_]:
    """``a < b``; false if either is NaN, and zeros of both signs are equal."""
    with np.errstate(all="ignore"):
        return np.less(a, b)


def equal(a: F32, b: F32) -> NDArray[np.bool_]:
    """``a == b``; false if either is NaN, and zeros of both signs are equal."""
    return np.equal(a, b)


def unordered(a: F32, b: F32) -> NDArray[np.bool_]:
    """Whether either is NaN."""
    return np.isnan(a) | np.isnan(b)
