"""What the streams of the tensor engine carry, and what its blocks pass to each other."""

from amaranth.lib import data

from hdl.numerics import Fp32
from spec.tensor import OPERAND_CODE_BITS, SCALE, Operation, Status, TensorConfig


def request_layout(config: TensorConfig) -> data.StructLayout:
    """One instruction. ``bank``, ``offset`` and ``accumulate`` belong to a matmul.

    Every field is wide enough to say illegal values; they are refused with a status, not truncated.
    """
    return data.StructLayout(
        {
            "operation": Operation,
            "format": OPERAND_CODE_BITS,
            "columns": config.columns_bits,
            "bank": config.psum_banks.bit_length(),
            "offset": config.bank_depth.bit_length(),
            "accumulate": 1,
        }
    )


STATUS = data.StructLayout({"operation": Operation, "status": Status})
"""Outcome of one instruction."""

COUNTERS = data.StructLayout({"columns": 32, "starved": 32, "held": 32})
"""Cycles since reset in which a matmul moved a column, lacked a column, or had to wait for a stationary or for PSUM."""


def column_layout(config: TensorConfig) -> data.StructLayout:
    """Elements of one column as they lie in memory, row 0 first, then its scales, that of rows 0 to 7 first."""
    members = {"elements": data.ArrayLayout(config.operand_bits, config.rows)}
    if config.microscaling:
        members["scales"] = data.ArrayLayout(SCALE.width, config.scales)
    return data.StructLayout(members)


def group_layout(config: TensorConfig) -> data.ArrayLayout:
    """The ``load_columns`` columns of the stationary that are loaded in one cycle."""
    return data.ArrayLayout(column_layout(config), config.load_columns)


def sums_layout(config: TensorConfig) -> data.ArrayLayout:
    """One fp32 value for each column of the array."""
    return data.ArrayLayout(Fp32, config.columns)


def address_layout(config: TensorConfig) -> data.StructLayout:
    """Where a result lies in PSUM. With a depth that is a power of two the whole is ``bank * depth + offset``."""
    return data.StructLayout({"offset": range(config.bank_depth), "bank": max(1, (config.psum_banks - 1).bit_length())})


def read_layout(config: TensorConfig) -> data.StructLayout:
    """A request to read one location of PSUM; every field can say illegal values."""
    return data.StructLayout({"offset": config.bank_depth.bit_length(), "bank": config.psum_banks.bit_length()})


def result_layout(config: TensorConfig) -> data.StructLayout:
    """One location of PSUM, and whether a matmul has overwritten it since reset."""
    return data.StructLayout({"values": sums_layout(config), "written": 1})


def column_token(config: TensorConfig) -> data.StructLayout:
    """What accompanies a moving column to PSUM. ``last`` ends its matmul; ``moved``: bits, no sums."""
    return data.StructLayout({"valid": 1, "accumulate": 1, "last": 1, "moved": 1, "address": address_layout(config)})


def row_control(config: TensorConfig) -> data.StructLayout:
    """What accompanies operands down the rows, ``add_stages`` cycles a row.

    ``swap`` comes with the first column of a matmul that uses a new stationary. The selectors are positions in
    ``config.operands``.
    """
    select = range(max(2, len(config.operands)))
    return data.StructLayout(
        {
            "column": column_token(config),
            "swap": 1,
            "select": select,
            "load": 1,
            "load_group": range(max(2, config.load_cycles)),
            "load_select": select,
        }
    )
