"""What the streams of the scalar engine carry, and what its control hands to the lanes stage by stage."""

from amaranth.hdl import signed
from amaranth.lib import data

from hdl.numerics.layouts import Fp32
from spec import tables
from spec.functions import TAIL_FRACTION_BITS, TAIL_OPERAND_BITS
from spec.scalar import INSTRUCTION

EXPONENT_BITS = 11
"""Signed exponents that are added up before the final scaling."""
TAIL_ARGUMENT_BITS = TAIL_FRACTION_BITS + 12
"""Signed fixed point of the tail's argument, wide enough for the limit and the offset."""

Instruction = data.StructLayout(dict(INSTRUCTION))
"""One instruction, the fields of ``spec.scalar.INSTRUCTION`` from the lowest bit up."""

Status = data.StructLayout({"code": 3})
"""End of an instruction: position of the code in ``spec.scalar.STATUS``."""

Segment = data.StructLayout(
    {
        **{name: 9 + tables.MANTISSA_BITS[name] for name in tables.COEFFICIENTS},
        "shift": 2,
        "tail": 1,
        "base": 2,
        "origin": 2,
    }
)
"""A row of the second-level table."""

Binade = data.StructLayout({"start": 12, "bits": 4})
"""A row of the first-level table."""

ReduceControl = data.StructLayout(
    {
        "reduction": 3,
        "two_sided": 1,
        "first": data.ArrayLayout(8, 2),
        "last": data.ArrayLayout(8, 2),
        "level": data.ArrayLayout(12, 2),
        "gauss": 1,
        "negative_is_nan": 1,
        "limit": 31,
    }
)
"""For the stage that reduces the argument."""

TailControl = data.StructLayout({"multiplier": TAIL_OPERAND_BITS, "offset": signed(TAIL_FRACTION_BITS + 2)})
"""For the product that gives the tail's argument."""

FinishControl = data.StructLayout(
    {
        "odd": 1,
        "factor": 3,
        "alpha": Fp32,
        "at_infinity": data.ArrayLayout(Fp32, 2),
        "at_zero": data.ArrayLayout(Fp32, 2),
    }
)
"""For the last product."""

OutputControl = data.StructLayout(
    {"valid": 1, "format": 4, "raw": 1, "saturate": 1, "reset": 1, "reduce": 1, "read": 1}
)
"""For accumulators and output cast."""

Token = data.StructLayout(
    {
        "row": 1,
        "last": 1,
        "code": 3,
        "function": 5,
        "alpha": 32,
        "format": 4,
        "raw": 1,
        "saturate": 1,
        "read": 1,
        "reset": 1,
        "reduce": 1,
    }
)
"""What enters the lanes: whether it is a row, whether it ends an instruction and how, and what becomes of it."""
