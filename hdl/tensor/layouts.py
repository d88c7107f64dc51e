"""What the streams of the tensor engine carry, and what its blocks pass to each other."""

from typing import Any

from amaranth.lib import data

from hdl.numerics import Fp32
from spec.formats import FP32
from spec.tensor import MOST_TILES, OPERAND_CODE_BITS, SCALE, TAG_BITS, Operation, Status, TensorConfig


def request_layout(config: TensorConfig) -> data.StructLayout:
    """One instruction. ``sparse`` belongs to a load, ``bank``, ``accumulate`` and what follows it to a matmul.

    ``offset`` is a matmul's first location in its bank, a load's first column. ``split`` is the logarithm of the tiles
    that the rows are divided into, ``masked`` has a bit for each tile of columns that is not written, ``result`` is a
    :class:`spec.tensor.ResultFormat`. Every field is wide enough to say illegal values; they are refused with a
    status, not truncated.
    """
    return data.StructLayout(
        {
            "operation": Operation,
            "format": OPERAND_CODE_BITS,
            "columns": config.columns_bits,
            "bank": config.psum_banks.bit_length(),
            "offset": max(config.bank_depth, config.columns).bit_length(),
            "sparse": 1,
            "accumulate": 1,
            "split": 2,
            "masked": MOST_TILES,
            "result": 2,
        }
    )


STATUS = data.StructLayout({"operation": Operation, "status": Status})
"""Outcome of one instruction."""

COUNTERS = data.StructLayout({"columns": 32, "starved": 32, "held": 32})
"""Cycles since reset in which a matmul moved a column, lacked a column, or had to wait for a stationary or for PSUM."""


def column_layout(config: TensorConfig) -> data.StructLayout:
    """Elements of one moving column as they lie in memory, row 0 first, then its scales, that of rows 0 to 7 first.

    With sparsity, three more planes of all rows follow the first elements; only sparse stationaries look at them.
    """
    members = {"elements": data.ArrayLayout(config.operand_bits, config.planes * config.rows)}
    if config.microscaling:
        members["scales"] = data.ArrayLayout(SCALE.width, config.scales)
    return data.StructLayout(members)


def stationary_layout(config: TensorConfig) -> data.StructLayout:
    """One column of the stationary: elements, scales and, with sparsity, the tag of each element.

    Tag ``4 * plane + index`` stands for the element of that plane in row ``index`` of the element's four rows.
    """
    members = {"elements": data.ArrayLayout(config.operand_bits, config.rows)}
    if config.microscaling:
        members["scales"] = data.ArrayLayout(SCALE.width, config.scales)
    if config.sparsity:
        members["tags"] = data.ArrayLayout(TAG_BITS, config.rows)
    return data.StructLayout(members)


def group_layout(config: TensorConfig) -> data.ArrayLayout:
    """The ``load_columns`` columns of the stationary that are loaded in one cycle."""
    return data.ArrayLayout(stationary_layout(config), config.load_columns)


def sums_layout(config: TensorConfig) -> data.ArrayLayout:
    """One fp32 value for each column of the array."""
    return data.ArrayLayout(Fp32, config.columns)


def address_layout(config: TensorConfig) -> data.StructLayout:
    """Where a result lies in PSUM. With a depth that is a power of two the whole is ``bank * depth + offset``."""
    return data.StructLayout({"offset": range(config.bank_depth), "bank": max(1, (config.psum_banks - 1).bit_length())})


def read_layout(config: TensorConfig) -> data.StructLayout:
    """A request to read one location of PSUM; every field can say illegal values."""
    return data.StructLayout({"offset": config.bank_depth.bit_length(), "bank": config.psum_banks.bit_length()})


def write_layout(config: TensorConfig) -> data.StructLayout:
    """A write of those bytes of one location of PSUM that ``mask`` names."""
    width = config.columns * FP32.width
    return data.StructLayout({"address": address_layout(config), "data": width, "mask": width // 8})


def result_layout(config: TensorConfig) -> data.StructLayout:
    """One location of PSUM, and for each tile of columns whether a matmul has overwritten it since reset."""
    return data.StructLayout({"values": sums_layout(config), "written": config.tiles})


def column_token(config: TensorConfig) -> data.StructLayout:
    """What accompanies a moving column to PSUM. ``last`` ends its matmul; ``moved``: bits, no sums.

    ``split`` and ``masked`` are those of the instruction; ``narrow`` rounds to bf16, ``stochastic`` by random bits.
    """
    members: dict[str, Any] = {"valid": 1, "accumulate": 1, "last": 1, "moved": 1, "address": address_layout(config)}
    if config.tiles > 1:
        members |= {"split": range(config.splits), "masked": config.tiles}
    if config.bf16_results:
        members |= {"narrow": 1, "stochastic": 1}
    return data.StructLayout(members)


def row_control(config: TensorConfig) -> data.StructLayout:
    """What accompanies operands down the rows, ``add_stages`` cycles a row.

    ``swap`` comes with the first column of a matmul that uses a new stationary. The selectors are positions in
    ``config.operands``.
    """
    select = range(max(2, len(config.operands)))
    members: dict[str, Any] = {
        "column": column_token(config),
        "swap": 1,
        "select": select,
        "load": 1,
        "load_group": range(max(2, config.load_cycles)),
        "load_select": select,
    }
    if config.sparsity:
        members["load_sparse"] = 1
    return data.StructLayout(members)
