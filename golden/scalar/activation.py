"""Instructions of the scalar engine, bit for bit, and their cycles.

Operands and results are codes, ``[rows, lanes]`` unsigned integers as they lie in memory (``golden.numerics.codes``);
accumulators are ``[lanes]`` float32. Order of operations: cast in, multiply, add, function, accumulate, cast out.
"""

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from golden.numerics import arithmetic, codes
from golden.numerics.cast import encode
from golden.scalar.functions import evaluate
from spec.scalar import LENGTH_MAX, OPCODES, ScalarConfig

Codes = codes.Codes
F32 = npt.NDArray[np.float32]
Constant = float | npt.NDArray[np.float32]

NO_BIAS = -0.0
"""Adding it changes no number, not even -0."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Instruction:
    """One instruction. ``scale`` and ``bias``: one number, or a float32 array of one per lane."""

    opcode: str = "activation"
    function: str = "copy"
    input_format: str = "fp32"
    output_format: str = "fp32"
    length: int
    scale: Constant = 1.0
    bias: Constant = NO_BIAS
    alpha: float = 0.0
    reduce: str = "idle"
    saturate: bool = False


def error_of(config: ScalarConfig, instruction: Instruction) -> str:
    """The status an instruction ends with: ``done``, or the first field that is wrong, in the order of ``STATUS``."""
    if instruction.opcode not in OPCODES:
        return "bad_opcode"
    if instruction.opcode == "activation" and instruction.function not in config.functions:
        return "bad_function"
    if instruction.opcode != "read_accumulator" and instruction.input_format not in config.formats:
        return "bad_input_format"
    if instruction.output_format not in config.formats:
        return "bad_output_format"
    if not 0 < instruction.length <= LENGTH_MAX:
        return "bad_length"
    return "done"


def values(format_name: str, rows: Codes) -> F32:
    """The operand in fp32: one rounding for int32 and uint32, exact for everything else."""
    return codes.decode(format_name, rows).astype(np.float32)


class ScalarEngine:
    """The engine's state, its accumulators, and one method that executes an instruction."""

    def __init__(self, config: ScalarConfig) -> None:
        self.config = config
        self.accumulators = np.zeros(config.lanes, np.float32)

    def execute(self, instruction: Instruction, operand: Codes | None = None) -> tuple[Codes, str]:
        """``(results [rows, lanes], status)``. ``operand``: codes, ``[length, lanes]``."""
        status = error_of(self.config, instruction)
        target = instruction.output_format
        if status != "done":
            return np.empty((0, self.config.lanes), np.uint32), status
        if instruction.opcode == "read_accumulator":
            return self._encode(instruction, self.accumulators[None]), status
        assert operand is not None
        if instruction.opcode == "tensor_copy" and instruction.input_format == target:
            result = np.asarray(operand)
            self._reduce(instruction, values(target, operand))
            return result, status
        if _tabulable(instruction):
            table = _function_of_codes(instruction.function, instruction.input_format, instruction.alpha)
            y = table.take(np.asarray(operand) & (len(table) - 1))  # bits above a 4-bit code are ignored
            self._reduce(instruction, y)
            return self._encode(instruction, y), status
        y = values(instruction.input_format, operand)
        if instruction.opcode != "tensor_copy":
            y = arithmetic.multiply(y, np.asarray(instruction.scale, np.float32))
            y = arithmetic.add(y, np.asarray(instruction.bias, np.float32))
        if instruction.opcode == "activation":
            y = evaluate(instruction.function, y, instruction.alpha)
        y = arithmetic.canonical(y)
        self._reduce(instruction, y)
        return self._encode(instruction, y), status

    def _encode(self, instruction: Instruction, y: F32) -> Codes:
        if instruction.output_format == "fp32" and not instruction.saturate:
            return y.view(np.uint32)  # what encode would say, without the detour through float64
        return encode(instruction.output_format, y, saturate=instruction.saturate)

    def _reduce(self, instruction: Instruction, y: F32) -> None:
        if instruction.reduce in ("reset", "reset_reduce"):
            self.accumulators = np.zeros(self.config.lanes, np.float32)
        if instruction.reduce in ("reduce", "reset_reduce"):
            for row in y:
                self.accumulators = arithmetic.add(self.accumulators, row)


def _tabulable(instruction: Instruction) -> bool:
    """Whether a result depends on nothing but a code of at most 16 bits."""
    plain = np.ndim(instruction.scale) == 0 and np.ndim(instruction.bias) == 0 and instruction.scale == 1
    silent = plain and instruction.bias == 0 and bool(np.signbit(instruction.bias))
    narrow = codes.storage_bits(codes.element_named(instruction.input_format)) <= codes.TABLE_BITS
    return instruction.opcode == "activation" and silent and narrow


@functools.lru_cache(maxsize=64)
def _function_of_codes(function: str, format_name: str, alpha: float) -> F32:
    """The function of every code of a narrow format: the same evaluation, done once."""
    every = np.arange(1 << codes.storage_bits(codes.element_named(format_name)), dtype=np.uint32)
    return arithmetic.canonical(evaluate(function, arithmetic.canonical(values(format_name, every)), alpha))


def rows_of(instruction: Instruction) -> int:
    """Rows of results."""
    return 1 if instruction.opcode == "read_accumulator" else instruction.length


def constants_of(instruction: Instruction) -> int:
    """Rows of constants that a legal instruction takes."""
    computes = instruction.opcode in ("activation", "tensor_scalar")
    return sum(np.ndim(value) > 0 for value in (instruction.scale, instruction.bias)) if computes else 0


def cycles(config: ScalarConfig, program: Sequence[Instruction]) -> list[int]:
    """Cycle of each instruction's status when streams never stall, counted from the one that takes the first.

    Its rows come in the cycles before, one each; a refused instruction has none. Instructions are issued back to back:
    N rows occupy the engine for N cycles, a refused one for one. Decoding is one cycle, and one for each row of
    constants, hidden behind the instruction before.
    """
    ends, taken, issued = [], 0, 0
    for instruction in program:
        done = error_of(config, instruction) == "done"
        start = max(taken + 1 + (constants_of(instruction) if done else 0), issued)
        issued = start + (rows_of(instruction) if done else 1)
        taken = max(taken + 1, start)
        ends.append(issued + config.latency + 1)
    return ends
