"""The operations of the vector engine on whole arrays.

``apply(name, a, b)``: float32 arrays for arithmetic operations, uint32 arrays for raw ones; shapes broadcast.
Arithmetic rounds once, to nearest even; NaN results are the canonical NaN. Operations of one operand
ignore ``b``.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from golden.numerics.arithmetic import CANONICAL_NAN, add, canonical, multiply
from golden.vector.power import power, rsqrt
from spec.parameters import lookup

F32 = npt.NDArray[np.float32]
U32 = npt.NDArray[np.uint32]
WORD = 32


def _max(a: F32, b: F32) -> F32:
    return np.where(np.isnan(a) | np.isnan(b), CANONICAL_NAN, np.where(a < b, b, a))


def _min(a: F32, b: F32) -> F32:
    return np.where(np.isnan(a) | np.isnan(b), CANONICAL_NAN, np.where(b < a, b, a))


def _truth(condition: npt.NDArray[np.bool_]) -> F32:
    return condition.astype(np.float32)


def _relu(a: F32, _b: F32) -> F32:
    return np.where(np.isnan(a), CANONICAL_NAN, np.where(a > 0, a, np.float32(0)))


def _shift(a: U32, b: U32, right: bool) -> U32:
    places = np.minimum(b, WORD - 1)
    shifted = a >> places if right else a << places
    return np.where(b < WORD, shifted, np.uint32(0))


ARITHMETIC: dict[str, Callable[[F32, F32], F32]] = {
    "bypass": lambda a, b: canonical(a) if np.asarray(a).dtype.kind == "f" else a,
    "add": add,
    "subtract": lambda a, b: add(a, -b),
    "multiply": multiply,
    "max": _max,
    "min": _min,
    "is_equal": lambda a, b: _truth(a == b),
    "not_equal": lambda a, b: _truth(~(a == b)),
    "is_ge": lambda a, b: _truth(a >= b),
    "is_gt": lambda a, b: _truth(a > b),
    "is_le": lambda a, b: _truth(a <= b),
    "is_lt": lambda a, b: _truth(a < b),
    "logical_and": lambda a, b: _truth((a != 0) & (b != 0)),
    "logical_or": lambda a, b: _truth((a != 0) | (b != 0)),
    "logical_xor": lambda a, b: _truth((a != 0) ^ (b != 0)),
    "abs": lambda a, b: canonical(np.abs(a)),
    "square": lambda a, b: multiply(a, a),
    "relu": _relu,
    "abs_max": lambda a, b: _max(np.abs(a), np.abs(b)),
    "abs_min": lambda a, b: _min(np.abs(a), np.abs(b)),
    "power": power,
    "rsqrt": lambda a, b: rsqrt(a),
}

RAW: dict[str, Callable[[U32, U32], U32]] = {
    "bitwise_not": lambda a, b: ~a,
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "shift_left": lambda a, b: _shift(a, b, right=False),
    "logical_shift_right": lambda a, b: _shift(a, b, right=True),
    "arithmetic_shift_right": lambda a, b: (a.view(np.int32) >> np.minimum(b, WORD - 1).astype(np.int32)).view(
        np.uint32
    ),
    "int_add": lambda a, b: a + b,
    "int_subtract": lambda a, b: a - b,
    "int_multiply": lambda a, b: a * b,
}


def apply(name: str, a: Any, b: Any) -> Any:
    """The operation called ``name``, element by element."""
    operation: Callable[[Any, Any], Any] = lookup("operation", {**ARITHMETIC, **RAW}, name)
    with np.errstate(all="ignore"):
        result = operation(a, b)
    return np.broadcast_to(result, np.broadcast_shapes(np.shape(a), np.shape(b)))


def reciprocal(a: F32) -> F32:
    """``1 / a``, correctly rounded; numpy's division is."""
    with np.errstate(all="ignore"):
        return canonical(np.divide(np.float32(1), a, dtype=np.float32))
