"""What an instruction of the vector engine needs, and what is wrong with it."""

import dataclasses
from typing import Any

from amaranth.hdl import Module, Signal

from hdl.vector.layouts import CODE, ERROR
from spec.vector import COMPARISONS, LENGTH_MAX, OPCODES, OPERATIONS, VectorConfig

NO_OPERANDS = tuple(CODE[name] for name in ("memset", "rng", "set_seed", "read_accumulator"))
TWO_OPERANDS = tuple(
    CODE[name]
    for name in (
        "tensor_tensor",
        "scalar_tensor_tensor",
        "tensor_tensor_scan",
        "tensor_copy_predicated",
        "select_reduce",
    )
)
OPERATION_USERS = tuple(
    CODE[name]
    for name in ("tensor_tensor", "tensor_scalar", "scalar_tensor_tensor", "tensor_tensor_scan", "tensor_reduce")
)
RAW = tuple(index for index, entry in enumerate(OPERATIONS.values()) if entry.raw)
REDUCING = tuple(index for index, entry in enumerate(OPERATIONS.values()) if entry.reduces)
COMPARING = tuple(list(OPERATIONS).index(name) for name in COMPARISONS)
BYPASS = list(OPERATIONS).index("bypass")


@dataclasses.dataclass(frozen=True)
class Needs:
    """Conditions on an instruction as one-bit values."""

    left: Any
    right: Any
    raw: Any
    single: Any
    loads: Any
    drains: Any


def needs_of(entry: Any) -> Needs:
    """Operands an instruction takes, whether its operations are raw, whether it is issued once, and its eight slots."""
    users = entry.opcode.matches(*OPERATION_USERS)
    return Needs(
        left=~entry.opcode.matches(*NO_OPERANDS),
        right=entry.opcode.matches(*TWO_OPERANDS),
        raw=users & (entry.op0.matches(*RAW) | entry.op1.matches(*RAW)),
        single=entry.opcode.matches(CODE["set_seed"], CODE["read_accumulator"]),
        loads=entry.opcode.matches(CODE["nc_find_index8"], CODE["nc_match_replace8"]),
        drains=entry.opcode.matches(CODE["max8"], CODE["nc_find_index8"]),
    )


def check(m: Module, config: VectorConfig, entry: Any, name: str) -> Signal:
    """Code of the first thing wrong with an instruction, in the order of ``spec.vector.STATUS``."""
    code = Signal(3, name=f"{name}_error")
    known = len(config.formats)
    needs = needs_of(entry)
    users = entry.opcode.matches(*OPERATION_USERS)
    reduces = entry.opcode == CODE["tensor_reduce"]
    ranges = entry.opcode == CODE["range_select"]
    unknown = (entry.op0 >= len(OPERATIONS)) | (entry.op1 >= len(OPERATIONS))
    plain = [~operation.matches(*RAW) & (operation != BYPASS) for operation in (entry.op0, entry.op1)]
    mixed = needs.raw & (plain[0] | plain[1])
    misfit = (users & (unknown | mixed)) | (reduces & ~entry.op1.matches(*REDUCING))
    misfit |= ranges & ~(entry.op0.matches(*COMPARING) & entry.op1.matches(*COMPARING))
    size = entry.group
    with m.If(entry.opcode >= len(OPCODES)):
        m.d.comb += code.eq(ERROR["bad_opcode"])
    with m.Elif(misfit):
        m.d.comb += code.eq(ERROR["bad_operation"])
    with m.Elif((needs.left & (entry.left_format >= known)) | (needs.right & (entry.right_format >= known))):
        m.d.comb += code.eq(ERROR["bad_input_format"])
    with m.Elif((entry.opcode != CODE["set_seed"]) & (entry.output_format >= known)):
        m.d.comb += code.eq(ERROR["bad_output_format"])
    with m.Elif((entry.length == 0) | (entry.length > LENGTH_MAX)):
        m.d.comb += code.eq(ERROR["bad_length"])
    with m.Elif(reduces & (size > entry.length)):
        m.d.comb += code.eq(ERROR["bad_group"])
    return code
