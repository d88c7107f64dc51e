"""Programs of the vector engine: random, directed, and as the words its streams take."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from golden.vector.instructions import (
    NO_OPERANDS,
    OPERATION_USERS,
    TWO_OPERANDS,
    Instruction,
    VectorEngine,
    constants_of,
    cycles,
    error_of,
    takes,
    takes_right,
)
from spec.vector import (
    COMPARISONS,
    MX_ELEMENTS,
    MX_ROWS,
    OPCODES,
    OPERATIONS,
    PACKABLE,
    REDUCE_COMMANDS,
    STATUS,
    TRIPLE,
    VectorConfig,
)
from verif.numerics.words import Words, codes, fp32_words

UNKNOWN = {"opcode": 31, "operation": 63, "format": 15}


@dataclasses.dataclass(frozen=True)
class Expected:
    """What golden says: rows, lanes written, statuses, and the cycle of each row and status when nothing stalls."""

    rows: Words
    written: npt.NDArray[np.bool_]
    row_cycles: list[int]
    statuses: list[int]
    status_cycles: list[int]


def fields(config: VectorConfig, program: Sequence[Instruction]) -> dict[str, Any]:
    """The instruction stream, by field."""
    operations = list(OPERATIONS)

    def index(names: Sequence[str], name: str, unknown: str) -> int:
        return names.index(name) if name in names else UNKNOWN[unknown]

    columns = {
        "opcode": [index(list(OPCODES), entry.opcode, "opcode") for entry in program],
        "op0": [index(operations, entry.op0, "operation") for entry in program],
        "op1": [index(operations, entry.op1, "operation") for entry in program],
        "left_format": [index(config.formats, entry.left_format, "format") for entry in program],
        "right_format": [index(config.formats, entry.right_format, "format") for entry in program],
        "output_format": [index(config.formats, entry.output_format, "format") for entry in program],
        "group": [entry.size for entry in program],
        "c0_per_lane": [np.ndim(entry.c0) for entry in program],
        "c1_per_lane": [np.ndim(entry.c1) for entry in program],
        "c0": [0 if np.ndim(entry.c0) else int(entry.c0) for entry in program],
        "c1": [0 if np.ndim(entry.c1) else int(entry.c1) for entry in program],
        "reduce": [REDUCE_COMMANDS.index(entry.reduce) for entry in program],
    }
    plain = ("reverse0", "reverse1", "length", "negate", "saturate", "stochastic", "start", "packed")
    columns |= {name: [int(getattr(entry, name)) for entry in program] for name in plain}
    return {name: np.array(values, np.int64) for name, values in columns.items()}


def constants(config: VectorConfig, program: Sequence[Instruction]) -> Words:
    """The constants stream."""
    rows = [row for entry in program if error_of(config, entry) == "done" for row in constants_of(entry)]
    return np.array(rows, np.uint32).reshape(len(rows), config.lanes)


def operands(config: VectorConfig, entry: Instruction, rng: np.random.Generator) -> tuple[Words, Words]:
    """Random codes for both operands: small numbers, the whole range and special values."""
    legal = error_of(config, entry) == "done"
    left = takes(entry) if legal and entry.opcode not in NO_OPERANDS else 0
    right = takes_right(entry) if legal else 0
    second = entry.right_format if entry.opcode in TWO_OPERANDS else entry.left_format
    if legal and entry.packed:
        return _words(config, entry.left_format, left, rng), _words(config, second, right, rng)
    return _codes(config, entry.left_format, left, rng), _codes(config, second, right, rng)


def _words(config: VectorConfig, name: str, rows: int, rng: np.random.Generator) -> Words:
    """Two codes of 16 bits in each word."""
    low, high = (_codes(config, name, rows, rng) & np.uint32(0xFFFF) for _ in range(2))
    return low | high << np.uint32(16)


def _codes(config: VectorConfig, name: str, rows: int, rng: np.random.Generator) -> Words:
    return codes(name, rng, (rows, config.lanes)) if rows else np.zeros((0, config.lanes), np.uint32)


def expected(config: VectorConfig, program: Sequence[Instruction], inputs: Sequence[tuple[Words, Words]]) -> Expected:
    """Run golden from reset."""
    engine = VectorEngine(config)
    rows: list[Any] = [np.zeros((0, config.lanes), np.uint64)]
    written = [np.zeros((0, config.lanes), bool)]
    statuses = []
    for entry, (left, right) in zip(program, inputs, strict=True):
        result, mask, status = engine.execute(entry, left, right)
        rows.append(result)
        written.append(mask)
        statuses.append(STATUS.index(status))
    row_cycles, status_cycles = cycles(config, program)
    return Expected(np.concatenate(rows), np.concatenate(written), row_cycles, statuses, status_cycles)


def random_instruction(
    config: VectorConfig, rng: np.random.Generator, longest: int, opcode: str | None = None
) -> Instruction:
    """Anything legal, and now and then something that is not; of one kind, if it is named."""
    opcode = opcode or str(rng.choice(list(OPCODES)))
    raw = bool(rng.random() < 0.3) and opcode in OPERATION_USERS
    names = [name for name, entry in OPERATIONS.items() if entry.raw == raw or name == "bypass"]
    if opcode not in ("tensor_tensor", "tensor_scalar", "scalar_tensor_tensor"):
        names = [name for name in names if not OPERATIONS[name].last]
    reducing = [name for name in names if OPERATIONS[name].reduces]
    op0, op1 = str(rng.choice(names)), str(rng.choice(reducing if opcode == "tensor_reduce" else names))
    if opcode == "range_select":
        op0, op1 = (str(name) for name in rng.choice(COMPARISONS, 2))
    if OPERATIONS[op0].last and rng.random() < 0.9:
        op1 = "bypass"
    packed = int(rng.integers(0, 3)) if opcode in PACKABLE and rng.random() < 0.4 else 0
    length = int(rng.integers(1, longest + 1))
    whole = {"bn_aggr": TRIPLE, "quantize_mx": MX_ROWS, "nc_transpose": config.block}.get(opcode, 1 << packed)
    if rng.random() < 0.95:
        length = -(-length // whole) * whole

    def constant() -> Any:
        words = rng.normal(0, 4, config.lanes).astype(np.float32).view(np.uint32)
        if raw:
            words = rng.integers(0, 40, config.lanes).astype(np.uint32)
        if rng.random() < 0.3:
            words = fp32_words(rng, words.shape)
        return words if rng.random() < 0.3 else int(words[0])

    def format_() -> str:
        if packed and rng.random() < 0.9:
            return str(rng.choice(["bf16", "fp16", "int16"]))
        return str(rng.choice(["fp32", str(rng.choice(config.formats))]))

    entry = Instruction(
        opcode=opcode,
        op0=op0,
        op1=op1,
        reverse0=bool(rng.random() < 0.3),
        reverse1=bool(rng.random() < 0.3),
        left_format=format_(),
        right_format=format_(),
        output_format=str(rng.choice(MX_ELEMENTS)) if opcode == "quantize_mx" else format_(),
        length=length,
        group=int(rng.integers(0, length + 1)) if opcode == "tensor_reduce" else 0,
        c0=constant(),
        c1=constant(),
        reduce=str(rng.choice(REDUCE_COMMANDS)),
        negate=bool(rng.random() < 0.3),
        saturate=bool(rng.random() < 0.3),
        stochastic=bool(rng.random() < (0.05 if packed else 0.3)),
        start=int(rng.integers(0, 8)),
        packed=packed,
    )
    if rng.random() < 0.1:
        wrong = {"opcode": "?", "op0": "?", "op1": "?", "left_format": "?", "output_format": "?", "length": 0}
        name = str(rng.choice(list(wrong)))
        entry = dataclasses.replace(entry, **{name: wrong[name]})  # type: ignore[arg-type]  # one of several types
    return entry
