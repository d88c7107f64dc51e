"""Programs of the scalar engine: random, directed, and as the words its streams take."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from golden.numerics.codes import code_dtype
from golden.scalar.activation import Instruction, ScalarEngine, cycles, error_of, rows_of
from spec.scalar import OPCODES, REDUCE_COMMANDS, STATUS, ScalarConfig
from spec.tables import pattern
from spec.vector import ELEMENT_FORMATS
from verif.numerics.words import Words, codes, fp32_words

UNKNOWN_FORMAT = len(ELEMENT_FORMATS)


@dataclasses.dataclass(frozen=True)
class Expected:
    """What golden says: result rows, statuses, and the cycle of each when no stream stalls."""

    rows: Words
    row_cycles: list[int]
    statuses: list[int]
    status_cycles: list[int]


def fields(config: ScalarConfig, program: Sequence[Instruction]) -> dict[str, Any]:
    """The instruction stream, by field."""

    def constant(value: Any) -> int:
        return 0 if np.ndim(value) else pattern(float(value))

    columns: dict[str, list[int]] = {
        "opcode": [_index(list(OPCODES), entry.opcode) for entry in program],
        "function": [_index(config.functions, entry.function, 31) for entry in program],
        "input_format": [_index(config.formats, entry.input_format, UNKNOWN_FORMAT) for entry in program],
        "output_format": [_index(config.formats, entry.output_format, UNKNOWN_FORMAT) for entry in program],
        "length": [entry.length for entry in program],
        "scale_per_lane": [int(np.ndim(entry.scale) > 0) for entry in program],
        "bias_per_lane": [int(np.ndim(entry.bias) > 0) for entry in program],
        "reduce": [_index(list(REDUCE_COMMANDS), entry.reduce) for entry in program],
        "saturate": [int(entry.saturate) for entry in program],
        "scale": [constant(entry.scale) for entry in program],
        "bias": [constant(entry.bias) for entry in program],
        "alpha": [pattern(entry.alpha) for entry in program],
    }
    return {name: np.array(values, np.int64) for name, values in columns.items()}


def _index(names: Sequence[str], name: str, unknown: int = 7) -> int:
    return names.index(name) if name in names else unknown


def constants(config: ScalarConfig, program: Sequence[Instruction]) -> Words:
    """The constants stream: per-lane scale, then bias, of each legal instruction that uses them."""
    rows = [
        np.asarray(value, np.float32).view(np.uint32)
        for entry in program
        if error_of(config, entry) == "done" and entry.opcode in ("activation", "tensor_scalar")
        for value in (entry.scale, entry.bias)
        if np.ndim(value)
    ]
    return np.array(rows, np.uint32).reshape(len(rows), config.lanes)


def takes_operand(config: ScalarConfig, entry: Instruction) -> bool:
    """Whether the instruction consumes rows."""
    return error_of(config, entry) == "done" and entry.opcode != "read_accumulator"


def operands_of(config: ScalarConfig, entry: Instruction, rng: np.random.Generator) -> Words:
    """Random codes."""
    count = (entry.length, config.lanes) if takes_operand(config, entry) else (0, config.lanes)
    return (
        codes(entry.input_format, rng, count) if entry.input_format in ELEMENT_FORMATS else np.zeros(count, np.uint32)
    )


def expected(
    config: ScalarConfig, program: Sequence[Instruction], operands: Sequence[Words], engine: ScalarEngine | None = None
) -> Expected:
    """Run golden."""
    engine = engine or ScalarEngine(config)
    rows: list[Words] = []
    row_cycles: list[int] = []
    statuses: list[int] = []
    ends = cycles(config, program)
    for entry, operand, end in zip(program, operands, ends, strict=True):
        width = code_dtype(entry.input_format) if entry.input_format in ELEMENT_FORMATS else np.uint32
        result, status = engine.execute(entry, operand.astype(width))
        rows.append(result.astype(np.uint32))
        statuses.append(list(STATUS).index(status))
        if status == "done":
            count = rows_of(entry)
            row_cycles += range(end - count, end)
    return Expected(np.concatenate(rows), row_cycles, statuses, ends)


def random_instruction(config: ScalarConfig, rng: np.random.Generator, longest: int) -> Instruction:
    """Anything legal, and now and then something that is not."""

    def constant() -> Any:
        values = rng.normal(0, 2, config.lanes).astype(np.float32)
        if rng.random() < 0.3:
            values = fp32_words(rng, values.shape).view(np.float32)
        return values if rng.random() < 0.3 else values[0]

    entry = Instruction(
        opcode=str(rng.choice(list(OPCODES), p=[0.7, 0.12, 0.1, 0.08])),
        function=str(rng.choice(config.functions)),
        input_format=str(rng.choice(["fp32", str(rng.choice(config.formats))])),
        output_format=str(rng.choice(["fp32", str(rng.choice(config.formats))])),
        length=int(rng.integers(1, longest + 1)),
        scale=constant() if rng.random() < 0.5 else 1.0,
        bias=constant() if rng.random() < 0.5 else -0.0,
        alpha=float(np.float32(rng.normal())),
        reduce=str(rng.choice(list(REDUCE_COMMANDS))),
        saturate=bool(rng.random() < 0.3),
    )
    if rng.random() < 0.1:
        wrong: dict[str, Any] = {"opcode": "?", "function": "?", "input_format": "?", "output_format": "?", "length": 0}
        name = str(rng.choice(list(wrong)))
        entry = dataclasses.replace(entry, **{name: wrong[name]})
    return entry
