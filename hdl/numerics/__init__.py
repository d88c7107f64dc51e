"""Arithmetic shared by every engine: formats into one internal form, exact products, fp32 with one rounding, casts.

Every component is a free-running pipeline of fixed latency without stall and without reset: each cycle it takes one set
of inputs and, its latency later, gives one result. Valid bits, and what to do when the taker is not ready, are left to
the user.
"""

from hdl.numerics.accumulate import Accumulate
from hdl.numerics.add import Add
from hdl.numerics.cast import Cast
from hdl.numerics.compare import Compare
from hdl.numerics.decode import Decode
from hdl.numerics.layouts import Fp32, Operand, Product
from hdl.numerics.multiply import Multiply
from hdl.numerics.multiply_add import MultiplyAdd
from hdl.numerics.product import ExactProduct
from hdl.numerics.xorshift import Xorshift32

__all__ = [
    "Accumulate",
    "Add",
    "Cast",
    "Compare",
    "Decode",
    "ExactProduct",
    "Fp32",
    "Multiply",
    "MultiplyAdd",
    "Operand",
    "Product",
    "Xorshift32",
]
