"""What an instruction of the vector engine needs, and what is wrong with it."""

import dataclasses
from typing import Any

from amaranth.hdl import C, Module, Mux, Signal

from hdl.vector.layouts import CODE, ERROR
from hdl.vector.operand import storage_bits
from spec.vector import (
    COMPARISONS,
    LENGTH_MAX,
    MX_ELEMENTS,
    MX_ROWS,
    OPCODES,
    OPERATIONS,
    PACKABLE,
    PACKED_BITS,
    STATS_MAX,
    TRIPLE,
    VectorConfig,
    steps_behind,
)

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
LAST = tuple(index for index, entry in enumerate(OPERATIONS.values()) if entry.last)
"""Operations legal as an instruction's last one only."""
LAST_IS_SECOND = (CODE["tensor_scalar"], CODE["scalar_tensor_tensor"])
WITH_POWER = (CODE["tensor_tensor"], *LAST_IS_SECOND)
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


def needs_of(entry: Any) -> Needs:
    """Operands an instruction takes, whether its operations are raw, whether it is issued once.

    ``loads``: its first rows fill the eight slots.
    """
    users = entry.opcode.matches(*OPERATION_USERS)
    return Needs(
        left=~entry.opcode.matches(*NO_OPERANDS),
        right=entry.opcode.matches(*TWO_OPERANDS) | (entry.packed == 2),
        raw=users & (entry.op0.matches(*RAW) | entry.op1.matches(*RAW)),
        single=entry.opcode.matches(CODE["set_seed"], CODE["read_accumulator"]),
        loads=entry.opcode.matches(CODE["nc_find_index8"], CODE["nc_match_replace8"]),
    )


def drains_of(m: Module, config: VectorConfig, opcode: Any, name: str) -> Signal:
    """Steps behind the elements."""
    steps = Signal(6, name=f"{name}_drains")
    with m.Switch(opcode):
        for text, code in CODE.items():
            if steps_behind(config, text):
                with m.Case(code):
                    m.d.comb += steps.eq(steps_behind(config, text))
    return steps


def check(m: Module, config: VectorConfig, entry: Any, name: str) -> Signal:
    """Code of the first thing wrong with an instruction, in the order of ``spec.vector.STATUS``."""
    code = Signal(3, name=f"{name}_error")
    needs = needs_of(entry)
    known = len(config.formats)
    reduces = entry.opcode == CODE["tensor_reduce"]
    right = entry.opcode.matches(*TWO_OPERANDS)
    mx = tuple(index for index, text in enumerate(config.formats) if text in MX_ELEMENTS)
    quantizes = entry.opcode == CODE["quantize_mx"]
    wrong_target = (entry.output_format >= known) | (quantizes & ~entry.output_format.matches(*mx))
    with m.If(entry.opcode >= len(OPCODES)):
        m.d.comb += code.eq(ERROR["bad_opcode"])
    with m.Elif(_misfit(entry, needs)):
        m.d.comb += code.eq(ERROR["bad_operation"])
    with m.Elif((needs.left & (entry.left_format >= known)) | (right & (entry.right_format >= known))):
        m.d.comb += code.eq(ERROR["bad_input_format"])
    with m.Elif((entry.opcode != CODE["set_seed"]) & wrong_target):
        m.d.comb += code.eq(ERROR["bad_output_format"])
    with m.Elif(_wrong_length(config, entry)):
        m.d.comb += code.eq(ERROR["bad_length"])
    with m.Elif(reduces & (entry.group > entry.length)):
        m.d.comb += code.eq(ERROR["bad_group"])
    with m.Elif((entry.packed != 0) & ~_packs(config, entry, right)):
        m.d.comb += code.eq(ERROR["bad_packing"])
    return code


def _misfit(entry: Any, needs: Needs) -> Any:
    """Operations that are unknown, mixed, or not legal where they stand."""
    users = entry.opcode.matches(*OPERATION_USERS)
    unknown = (entry.op0 >= len(OPERATIONS)) | (entry.op1 >= len(OPERATIONS))
    plain = [~operation.matches(*RAW) & (operation != BYPASS) for operation in (entry.op0, entry.op1)]
    mixed = needs.raw & (plain[0] | plain[1])
    early = entry.op0.matches(*LAST) & ((entry.op1 != BYPASS) | entry.reverse1 | ~entry.opcode.matches(*WITH_POWER))
    early |= entry.op1.matches(*LAST) & ~entry.opcode.matches(*LAST_IS_SECOND)
    misfit = users & (unknown | mixed | early)
    misfit |= (entry.opcode == CODE["tensor_reduce"]) & ~entry.op1.matches(*REDUCING)
    comparing = entry.op0.matches(*COMPARING) & entry.op1.matches(*COMPARING)
    return misfit | ((entry.opcode == CODE["range_select"]) & ~comparing)


def _wrong_length(config: VectorConfig, entry: Any) -> Any:
    """Zero, too many, or not a multiple of what the instruction works on."""
    stats = entry.opcode == CODE["bn_stats"]
    # 3 divides a number if it divides the sum of its digits to the base of 4.
    digits: Any = sum((entry.length[at : at + 2] for at in range(2, len(entry.length), 2)), start=entry.length[:2])
    triples = digits.matches(*range(0, 3 * (len(entry.length) + 1) // 2 + 1, TRIPLE))
    partial = (entry.opcode == CODE["bn_aggr"]) & ~triples
    for text, whole in (("quantize_mx", MX_ROWS), ("nc_transpose", config.block)):
        partial |= (entry.opcode == CODE[text]) & (entry.length & (whole - 1) != 0)
    return (entry.length == 0) | (entry.length > Mux(stats, C(STATS_MAX, 17), LENGTH_MAX)) | partial


def _packs(config: VectorConfig, entry: Any, right: Any) -> Any:
    """Whether a packed instruction can be one."""
    narrow = tuple(index for index, text in enumerate(config.formats) if storage_bits(text) == PACKED_BITS)
    fits = entry.left_format.matches(*narrow) & entry.output_format.matches(*narrow)
    fits &= ~right | entry.right_format.matches(*narrow)
    users = entry.opcode.matches(*OPERATION_USERS)
    slow = users & (entry.op0.matches(*LAST) | entry.op1.matches(*LAST))
    ways: Any = C(0, 1)
    for packed in (1, 2):
        if 1 << packed <= config.ways:
            opcodes = [CODE[text] for text, most in PACKABLE.items() if most >= 1 << packed]
            whole = ~entry.length[:packed].any()
            ways |= (entry.packed == packed) & entry.opcode.matches(*opcodes) & whole
    return ways & fits & ~slow & ~entry.stochastic
