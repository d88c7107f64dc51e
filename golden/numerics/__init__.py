"""Arithmetic as numpy computes it: bit patterns of every format, casts, fp32 with one rounding, exact accumulation."""

from golden.numerics.accumulate import accumulate, multiply_add
from golden.numerics.arithmetic import CANONICAL_NAN, add, canonical, equal, less, multiply, unordered
from golden.numerics.cast import cast, encode
from golden.numerics.codes import code_dtype, decode, to_float32
from golden.numerics.random import Xorshift32

__all__ = [
    "CANONICAL_NAN",
    "Xorshift32",
    "accumulate",
    "add",
    "canonical",
    "cast",
    "code_dtype",
    "decode",
    "encode",
    "equal",
    "less",
    "multiply",
    "multiply_add",
    "to_float32",
    "unordered",
]
