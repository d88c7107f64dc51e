"""What one instruction of a compute engine does to the memories, and what is wrong with it."""

import dataclasses
from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

from golden.core.memory import DTYPES, Memories
from golden.core.pattern import Pattern, Values, constant_faults, format_bytes, operand_bytes
from golden.scalar import activation
from golden.tensor.array import SCALE_SHIFT
from golden.tensor.array import Engine as TensorEngine
from golden.tensor.program import Instruction as TensorInstruction
from golden.tensor.sparsity import TAG_SHIFT
from golden.vector import instructions as vector
from spec import scalar as scalar_spec
from spec.core import WORD_BYTES, CoreConfig
from spec.formats import FLOATS
from spec.isa import BESIDE_BYTES, PATTERN, REASONS
from spec.tensor import (
    BITS,
    OPERAND_CODES,
    PAIRS,
    QUAD_ROWS,
    QUADS,
    SCALE,
    SPARSE_PLANES,
    TAG_BITS,
    Kind,
    Operation,
    Status,
    operand_kind,
)
from spec.vector import OPERATIONS, REDUCE_COMMANDS

Registers = npt.NDArray[np.int32]
STEP_BITS = next(field.width for field in PATTERN if field.name == "step0")
OPERAND_NAMES = {code: name for name, code in OPERAND_CODES.items()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Work:
    """What an instruction occupied: rows read from each memory by each port, rows written, constants, and its fault."""

    reason: str = "none"
    reads: tuple[tuple[str, int], ...] = ()
    """``(memory, rows)`` of each operand."""
    writes: int = 0
    constants: int = 0
    groups: tuple[int, int] = (0, 0)
    """Of a load whose columns come in groups: how many times a group asks a bank, and whether it always does; of a
    matmul, how many times a column does."""
    instruction: Any = None
    """As the engine's own golden model takes it, for its time."""

    @property
    def rows(self) -> int:
        """Rows of SBUF that it reads; those that it writes are not known to go there."""
        return self.constants + sum(count for memory, count in self.reads if memory == "sbuf")


def worst(found: set[str]) -> str:
    """The fault that is reported: the first of the list."""
    return min(found, key=REASONS.index) if found else "none"


def neutral(name: str) -> int:
    """The moving operand of a row that a product does not need: its product with +0 changes no sum."""
    if name in BITS:
        return 0
    if name in PAIRS or name in QUADS:
        count, width = (2, 8) if name in PAIRS else (4, FLOATS[QUADS[name]].storage)
        return sum(1 << width * (number + 1) - 1 for number in range(count))
    return 1 << 31 if name.startswith("fp32") else 1 << (FLOATS[name].storage - 1)


class Units:
    """The three engines on the memories of one core."""

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        self.tensor = TensorEngine(config.tensor)
        self.vector = vector.VectorEngine(config.vector)
        self.scalar = activation.ScalarEngine(config.scalar)
        self.memories = Memories(config, self.tensor.psum, self.tensor.written)

    def execute(self, name: str, values: Values, registers: Registers) -> Work:
        """Run one instruction, named as in the instruction set, in no time."""
        if name.startswith("vector."):
            return self._vector(name.partition(".")[2], values, registers)
        if name.startswith("scalar."):
            return self._scalar(name.partition(".")[2], values, registers)
        return self._tensor(name, values, registers)

    def _tensor(self, name: str, values: Values, registers: Registers) -> Work:
        config = self.config.tensor
        loads = name == "load_stationary"
        format_name = OPERAND_NAMES.get(values["format"], "")
        source = Pattern(self.config, values, "source", operand_bytes(values["format"]), registers)
        beside = Pattern(self.config, values, "beside", BESIDE_BYTES, registers)
        columns, sparse, kind = values["columns"], bool(values["sparse"]), operand_kind(format_name)
        known = format_name in config.operands
        scaled, tagged = known and kind == Kind.QUAD, config.sparsity and sparse and loads
        found = source.faults() | (beside.faults() if scaled or tagged else set())
        if "psum" in (source.memory, beside.memory if scaled or tagged else ""):
            found.add("bad_memory")
        if config.sparsity and sparse and not loads and source.nums[-1] > SPARSE_PLANES:
            found.add("bad_pattern")
        if not known or (sparse and not (config.sparsity and kind == Kind.NUMBER)):
            found.add("tensor_format")
        if not 1 <= columns <= (config.columns if loads else config.moving_columns):
            found.add("tensor_columns")
        location = 0
        if not loads:
            base = values["location_base"]
            location = values["location"] + (int(registers[base - 1]) if base else 0)
            end = location + columns
            room = config.psum_depth if config.whole_psum else (location // config.bank_depth + 1) * config.bank_depth
            if not 0 <= location < config.psum_depth or end > min(room, config.psum_depth):
                found.add("tensor_address")
        if found:
            return Work(reason=worst(found))
        bank, offset = (0, values["first"]) if loads else divmod(location, config.bank_depth)
        entry = TensorInstruction(
            operation=Operation.LOAD_STATIONARY if loads else Operation.MATMUL,
            format=values["format"],
            columns=columns,
            bank=bank,
            offset=offset,
            accumulate=bool(values.get("accumulate", 0)),
            sparse=tagged,
            split=values.get("split", 0),
            masked=values.get("masked", 0),
            result=values.get("result", 0),
        )
        parts = source.planes() if sparse and not loads else [source]
        fill = 0 if loads else neutral(format_name)
        operands: Any = np.vstack([self.memories.read(part, columns, fill).T for part in parts]).astype(
            DTYPES[source.size]
        )
        if scaled:
            scales = self.memories.read(beside, columns, SCALE.bias).T[::QUAD_ROWS].repeat(QUAD_ROWS, axis=0)
            operands = operands | scales.astype(np.uint64) << np.uint64(SCALE_SHIFT)
        elif tagged:
            tags = self.memories.read(beside, columns).T & (1 << TAG_BITS) - 1
            operands = operands | tags.astype(np.uint64) << np.uint64(TAG_SHIFT)
        status = self.tensor.execute(entry, operands)
        reason = "none" if status == Status.OK else f"tensor_{status.name.lower()}"
        groups = (
            (self._meetings(parts, columns), 0)
            if not loads
            else (0, 0)
            if scaled or tagged
            else self._groups(source, columns)
        )
        reads = (("sbuf", columns),) * (len(parts) + int(scaled or tagged))
        return Work(reason=reason, reads=reads, groups=groups, instruction=entry)

    def _meetings(self, planes: list[Pattern], columns: int) -> int:
        """How many planes ask one bank in each column: none that walk, which meet once and then follow each other."""
        banks = [plane.rows(columns) // WORD_BYTES % self.config.sbuf_banks for plane in planes]
        return int(np.bincount([bank[0] for bank in banks]).max()) if np.ptp(banks[0]) == 0 else 1

    def _groups(self, source: Pattern, columns: int) -> tuple[int, int]:
        """See :attr:`Work.groups`; 0 where the rows of the pattern are not whole groups, or steps are too wide."""
        load, step = self.config.tensor.load_columns, source.steps[0]
        limit = (1 << STEP_BITS - 1) * source.size
        if columns % load or source.nums[0] % load or not -limit <= load * step < limit:
            return 0, 0
        banks = self.config.sbuf_banks
        asked = (source.offset + step * np.arange(load)) // WORD_BYTES % banks
        most = int(np.bincount(asked).max())
        return most, int(source.nums[0] > load and step * load % (WORD_BYTES * banks) == 0)

    def _vector(self, name: str, values: Values, registers: Registers) -> Work:
        config = self.config
        operations, formats = list(OPERATIONS), config.vector.formats
        entry = vector.Instruction(
            opcode=name,
            op0=_named(operations, values["op0"]),
            op1=_named(operations, values["op1"]),
            reverse0=bool(values["reverse0"]),
            reverse1=bool(values["reverse1"]),
            left_format=_named(formats, values["left_format"]),
            right_format=_named(formats, values["right_format"]),
            output_format=_named(formats, values["output_format"]),
            length=values["length"],
            group=values["group"],
            c0=values["c0"],
            c1=values["c1"],
            reduce=REDUCE_COMMANDS[values["reduce"]],
            negate=bool(values["negate"]),
            saturate=bool(values["saturate"]),
            stochastic=bool(values["stochastic"]),
            start=values["start"],
            packed=values["packed"],
        )
        used = {}
        if name not in vector.NO_OPERANDS:
            used["left"] = values["left_format"]
        if name in vector.TWO_OPERANDS or entry.packed == 2:
            used["right"] = values["right_format"]
        if name != "set_seed":
            used["output"] = values["output_format"]
        words = set(used) if entry.packed else {"output"} if name == "quantize_mx" else set()
        patterns, found = self._patterns(values, used, registers, words)
        if all(side in used and patterns[side].memory == "psum" for side in ("left", "right")):
            found.add("bad_memory")
        constants = {key: values[key] for key in ("c0", "c1") if values[f"{key}_per_lane"]}
        for word in constants.values():
            found |= constant_faults(config, word)
        inputs = [patterns[side] for side in used if side != "output"]
        if not found and "output" in used and any(patterns["output"].disturbs(p, vector.takes(entry)) for p in inputs):
            found.add("bad_overlap")
        if found:
            return Work(reason=worst(found))
        status = vector.error_of(config.vector, entry)
        if status != "done":
            return Work(reason=f"vector_{status}", instruction=entry)
        rows = {key: self.memories.constants(word) for key, word in constants.items()}
        entry = dataclasses.replace(entry, **rows)  # type: ignore[arg-type]  # a word or a row of words
        counts = {"left": vector.takes(entry), "right": vector.takes_right(entry)}
        operands = {side: self.memories.read(patterns[side], counts[side]) for side in used if side != "output"}
        results, written, status = self.vector.execute(entry, operands.get("left"), operands.get("right"))
        if "output" in used:
            self.memories.write(patterns["output"], np.asarray(results, np.uint32), np.asarray(written))
        reads = tuple((patterns[side].memory, counts[side]) for side in operands)
        return Work(reads=reads, writes=len(results), constants=len(rows), instruction=entry)

    def _scalar(self, name: str, values: Values, registers: Registers) -> Work:
        config = self.config
        formats = config.scalar.formats
        used = {"output": values["output_format"]}
        if name != "read_accumulator":
            used["input"] = values["input_format"]
        patterns, found = self._patterns(values, used, registers)
        takes = name in ("activation", "tensor_scalar")
        constants = {key: values[key] for key in ("scale", "bias") if values[f"{key}_per_lane"] and takes}
        for word in constants.values():
            found |= constant_faults(config, word)
        if not found and "input" in used and patterns["output"].disturbs(patterns["input"], values["length"]):
            found.add("bad_overlap")
        if found:
            return Work(reason=worst(found))
        entry = activation.Instruction(
            opcode=name,
            function=_named(config.scalar.functions, values["function"]),
            input_format=_named(formats, values["input_format"]),
            output_format=_named(formats, values["output_format"]),
            length=values["length"],
            scale=_float(values["scale"]),
            bias=_float(values["bias"]),
            alpha=_float(values["alpha"]),
            reduce=list(scalar_spec.REDUCE_COMMANDS)[values["reduce"]],
            saturate=bool(values["saturate"]),
        )
        status = activation.error_of(config.scalar, entry)
        if status != "done":
            return Work(reason=f"scalar_{status}", instruction=entry)
        rows = {key: self.memories.constants(word).view(np.float32) for key, word in constants.items()}
        entry = dataclasses.replace(entry, **rows)  # type: ignore[arg-type]  # a number or a row of numbers
        operand = self.memories.read(patterns["input"], entry.length) if "input" in used else None
        results, _ = self.scalar.execute(entry, operand)
        results = np.asarray(results, np.uint32)
        self.memories.write(patterns["output"], results, np.ones(results.shape, np.bool_))
        reads = ((patterns["input"].memory, entry.length),) if "input" in used else ()
        return Work(reads=reads, writes=len(results), constants=len(rows), instruction=entry)

    def _patterns(
        self, values: Values, used: dict[str, int], registers: Registers, words: Collection[str] = ()
    ) -> tuple[dict[str, Pattern], set[str]]:
        """Patterns by operand, those of ``words`` of whole words, and their faults."""
        sizes = {side: WORD_BYTES if side in words else format_bytes(self.config, code) for side, code in used.items()}
        patterns = {side: Pattern(self.config, values, side, size, registers) for side, size in sizes.items()}
        found = {reason for pattern in patterns.values() for reason in pattern.faults()}
        return patterns, found


def _named(names: Any, code: int) -> str:
    names = list(names)
    return names[code] if code < len(names) else "?"


def _float(word: int) -> Any:
    return np.uint32(word).view(np.float32)
