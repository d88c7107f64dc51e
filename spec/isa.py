"""The instruction set: one table from which encoder, decoder, assembler, disassembler, hardware decode and docs derive.

An instruction is a word of 128 bytes, little endian, fields from the lowest bit up. All instructions of one *form*
share a layout; every form starts with the header. A *pattern* names up to four free dimensions of elements in SBUF or
PSUM, innermost first: element ``i`` of a row stream lies at ``offset + size * sum(index[d] * step[d])``; after the
last element the pattern starts again, so one that is shorter than the instruction repeats.
"""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from spec import scalar, tensor, vector
from spec.core import ENGINES, CoreConfig
from spec.parameters import ParameterError, lookup, refuse
from spec.vector import ELEMENT_FORMATS

INSTRUCTION_BYTES = 128
DIMENSIONS = 4
ADDRESS_BITS = 48
"""Of a byte address in HBM: the memories of all chips of a system."""


@dataclasses.dataclass(frozen=True)
class Field:
    """One field. ``names`` makes it an enumeration; otherwise ``low`` to ``high`` is legal, by default all its bits."""

    name: str
    width: int
    doc: str = ""
    signed: bool = False
    names: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None

    @property
    def low(self) -> int:
        """Smallest legal value."""
        return self.least if self.least is not None else -(1 << (self.width - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        """Largest legal value."""
        if self.names:
            return len(self.names) - 1
        return self.most if self.most is not None else (1 << (self.width - int(self.signed))) - 1

    def code(self, value: Any) -> int:
        """The number for ``value``, a name or a number; anything else is refused with what is legal."""
        legal = "one of " + ", ".join(self.names) if self.names else f"{self.low} to {self.high}"
        if isinstance(value, str):
            if value not in self.names:
                raise refuse("instruction", self.name, value, legal)
            return self.names.index(value)
        if isinstance(value, float) or not self.low <= value <= self.high:
            raise refuse("instruction", self.name, value, legal)
        return int(value)


UPDATES: tuple[str, ...] = ("none", "increment", "decrement", "add", "subtract", "set")
"""What an instruction does to a semaphore; values are 32-bit two's complement and wrap."""
MOMENTS: tuple[str, ...] = ("complete", "read")
"""When: after its last result is written, or after its last operand is read."""
MEMORIES: tuple[str, ...] = ("sbuf", "psum")
SPACES: tuple[str, ...] = ("hbm", "sbuf", "psum")
"""What DMA moves between. SBUF and PSUM are linear there: ``partition * pitch + offset``."""
ALU: tuple[str, ...] = ("move", "add", "subtract", "multiply", "and", "or", "xor", "shift_left", "shift_right")
COMPARE: tuple[str, ...] = ("always", "equal", "not_equal", "less", "greater_equal")
"""Of two signed registers, or a register and an immediate."""
INDEXED: tuple[str, ...] = ("none", "gather", "scatter")


def _update(prefix: str, moment: bool) -> tuple[Field, ...]:
    fields = (
        Field(f"{prefix}", 3, "what happens to the semaphore", names=UPDATES),
        Field(f"{prefix}_semaphore", 8, "semaphore"),
        Field(f"{prefix}_value", 32, "operand of add, subtract and set", signed=True),
        Field(f"{prefix}_core", 16, "0: this core; n: core n - 1 of the system, through NeuronLink"),
    )
    return (*fields, Field(f"{prefix}_at", 1, "when", names=MOMENTS)) if moment else fields


HEADER: tuple[Field, ...] = (
    Field("opcode", 8),
    Field("wait", 1, "wait before issue until the semaphore is at least the value"),
    Field("wait_semaphore", 8, "semaphore"),
    Field("wait_value", 32, "value", signed=True),
    *_update("update", moment=True),
)

PATTERN: tuple[Field, ...] = (
    Field("memory", 1, "SBUF or PSUM", names=MEMORIES),
    Field("base", 7, "0, or the number of a register plus one, whose value is added to the offset", most=64),
    Field("start", 9, "first partition, a multiple of a quarter of the partitions"),
    Field("partitions", 10, "partitions; other lanes read as zero and are not written"),
    Field("offset", 24, "byte of the first element within its partition"),
    *(Field(f"step{dimension}", 16, "distance in elements", signed=True) for dimension in range(DIMENSIONS)),
    *(Field(f"num{dimension}", 16, "elements") for dimension in range(DIMENSIONS)),
)


def _place(name: str) -> tuple[Field, ...]:
    """One side of a DMA transfer."""
    return (
        Field(f"{name}_space", 2, "memory", names=SPACES),
        Field(f"{name}_base", 7, "0, or the number of a register plus one, whose value is added", most=64),
        Field(f"{name}_address", ADDRESS_BITS, "byte address of the first element"),
        Field(f"{name}_format", 4, "element format", names=ELEMENT_FORMATS),
        *(Field(f"{name}_step{d}", 32, "distance in bytes", signed=True) for d in range(DIMENSIONS)),
    )


DMA: tuple[Field, ...] = (
    Field("queue", 4, "queue; transfers of one queue run in order"),
    Field("priority", 2, "class, 0 first"),
    *_place("source"),
    *_place("target"),
    *(Field(f"num{dimension}", 20, "elements") for dimension in range(DIMENSIONS)),
    Field("accumulate", 1, "target becomes target + source, in fp32, element by element"),
    Field("indexed", 2, "outermost index from a list: of the source, or of the target", names=INDEXED),
    Field("list_address", ADDRESS_BITS, "HBM byte address of the int32 indices, a multiple of 4"),
    *_update("done", moment=False),
)

CONTROL: tuple[Field, ...] = (
    Field("operation", 4, "of alu", names=ALU),
    Field("compare", 3, "of branch", names=COMPARE),
    Field("target", 6, "register that changes"),
    Field("left", 6, "register"),
    Field("right", 6, "register"),
    Field("immediate", 1, "the value in place of the right register"),
    Field("value", 32, "immediate", signed=True),
    Field("destination", 24, "instruction to go to"),
    Field(
        "address",
        ADDRESS_BITS,
        "byte in HBM: of a ring, the first of a line; of a word, a multiple of 4 with what is added",
    ),
    Field("size", 5, "logarithm of the descriptors that the ring holds", most=20),
    Field("count", 16, "descriptors to process"),
)

TENSOR: tuple[Field, ...] = (
    Field("format", tensor.OPERAND_CODE_BITS, "operand format", names=tuple(tensor.OPERAND_CODES)),
    Field("columns", 17, "columns to load or to move"),
    Field("location", 24, "PSUM: bank * depth + offset of the first result, in fp32 values"),
    Field("location_base", 7, "0, or the number of a register plus one, whose value is added", most=64),
    Field("accumulate", 1, "add to PSUM"),
    Field("first", 10, "first column of the array that a load fills"),
    Field("split", 2, "logarithm of the tiles that the rows are divided into"),
    Field("masked", tensor.MOST_TILES, "a bit for each tile of columns that is not written"),
    Field(
        "sparse", 1, "a load has a tag for each operand; a matmul moves planes, the outermost dimension of its source"
    ),
    Field("result", 2, "how results are rounded", names=tuple(entry.name.lower() for entry in tensor.ResultFormat)),
)


def _engine(table: tuple[tuple[str, int], ...], names: Mapping[str, tuple[str, ...]]) -> tuple[Field, ...]:
    """Fields of an engine's own instruction table; its opcode is part of ours."""
    return tuple(Field(name, width, names=names.get(name, ())) for name, width in table if name != "opcode")


VECTOR = _engine(
    vector.INSTRUCTION,
    {
        "op0": tuple(vector.OPERATIONS),
        "op1": tuple(vector.OPERATIONS),
        "left_format": ELEMENT_FORMATS,
        "right_format": ELEMENT_FORMATS,
        "output_format": ELEMENT_FORMATS,
        "reduce": vector.REDUCE_COMMANDS,
    },
)
SCALAR = _engine(
    scalar.INSTRUCTION,
    {
        "input_format": ELEMENT_FORMATS,
        "output_format": ELEMENT_FORMATS,
        "reduce": tuple(scalar.REDUCE_COMMANDS),
    },
)

FORMS: dict[str, tuple[tuple[Field, ...], tuple[str, ...]]] = {
    "control": (CONTROL, ()),
    "dma": (DMA, ()),
    "tensor": (TENSOR, ("source", "beside")),
    "vector": (VECTOR, ("left", "right", "output")),
    "scalar": (SCALAR, ("input", "output")),
}
"""Form -> its own fields and its patterns, in the order in which they follow the header."""

BESIDE_BYTES = 1
"""An element of ``beside``, of which each column of operands has a row: the scale of eight rows of microscaled
operands, in the lane of the first of them, or the tag of each operand of a sparse stationary, in its low bits."""

CONSTANT_OFFSET_BITS = 24
"""A constant of which there is one per lane is a word of SBUF: byte offset, and above it the start partition."""


@dataclasses.dataclass(frozen=True)
class Operation:
    """One instruction: opcode, name, form, engines that have it, and the fields (or patterns) it uses."""

    opcode: int
    name: str
    form: str
    engines: tuple[str, ...]
    semantics: str
    uses: tuple[str, ...]


def _operations() -> dict[str, Operation]:
    every = tuple(ENGINES)
    compared = ("compare", "left", "right", "immediate", "value", "destination")
    control = (
        ("halt", "the program of this engine ends", ()),
        ("nop", "nothing; waits and updates as every instruction does", ()),
        ("alu", "target = left operation right", ("operation", "target", "left", "right", "immediate", "value")),
        ("branch", "go to destination if left compares so with right", compared),
        (
            "ring",
            "process descriptors, which are dma instructions, of a ring in memory, from number left on; left moves on",
            ("left", "address", "size", "count"),
        ),
        ("load", "target = the word of HBM at address + right", ("target", "right", "immediate", "value", "address")),
        ("store", "the word of HBM at address + right = left", ("left", "right", "immediate", "value", "address")),
    )
    # Code 0 is no instruction, so that empty memory is none.
    numbered = enumerate(control, start=1)
    found = [Operation(code, name, "control", every, text, uses) for code, (name, text, uses) in numbered]
    names = tuple(field.name for field in DMA)
    found.append(Operation(0x10, "dma", "dma", every, "put a transfer into a queue; it runs beside the engines", names))
    texts = ("fill the shadow weights", "psum (+)= stationary.T @ moving")
    shared = ("format", "columns", "source", "beside", "sparse")
    uses = ((*shared, "first"), (*shared, "location", "location_base", "accumulate", "split", "masked", "result"))
    for code, (name, text, fields) in enumerate(zip(("load_stationary", "matmul"), texts, uses, strict=True)):
        found.append(Operation(0x20 + code, name, "tensor", ("tensor",), text, fields))
    for room, base, engine in ((vector, 0x40, "vector"), (scalar, 0x60, "scalar")):
        own, patterns = FORMS[engine]
        fields = (*(field.name for field in own), *patterns)
        for code, (name, text) in enumerate(room.OPCODES.items()):
            found.append(Operation(base + code, f"{engine}.{name}", engine, (engine,), text, fields))
    return {entry.name: entry for entry in found}


OPERATIONS: dict[str, Operation] = _operations()
BY_OPCODE: dict[int, Operation] = {entry.opcode: entry for entry in OPERATIONS.values()}
VECTOR_BASE, SCALAR_BASE, TENSOR_BASE = 0x40, 0x60, 0x20

REASONS: tuple[str, ...] = (
    "none",
    "bad_opcode",
    "bad_program",
    "bad_partitions",
    "bad_pattern",
    "bad_address",
    "bad_memory",
    "bad_format",
    "bad_queue",
    "bad_semaphore",
    "bad_overlap",
    "deadlock",
    "memory_lost",
    "unreachable",
    *(f"tensor_{status.name.lower()}" for status in tensor.Status if status != tensor.Status.OK),
    *(f"vector_{name}" for name in vector.STATUS[1:]),
    *(f"scalar_{name}" for name in list(scalar.STATUS)[1:]),
)
"""Why a program stopped. Of several wrong things in one instruction the first of this list is reported; what an engine
refuses comes last."""
IMPRECISE = ("memory_lost", "unreachable")
"""Reasons that come from memories: they name no instruction."""
REASON: dict[str, int] = {name: code for code, name in enumerate(REASONS)}
FIRST_OF_ENGINE: dict[str, int] = {
    engine: next(code for code, name in enumerate(REASONS) if name.startswith(f"{engine}_")) - 1
    for engine in ("tensor", "vector", "scalar")
}
"""A refusal's reason is this plus the engine's status code."""


def fields_of(form: str) -> dict[str, Field]:
    """Every field of a form by its dotted name, in the order of its bits."""
    own, patterns = FORMS[form]
    inner = {f"{name}.{field.name}": field for name in patterns for field in PATTERN}
    return {field.name: field for field in (*HEADER, *own)} | inner


def names_used(operation: Operation) -> list[str]:
    """Dotted names of the fields an instruction uses, the header's included."""
    header = {field.name for field in HEADER}
    return [name for name in fields_of(operation.form) if name in header or name.split(".")[0] in operation.uses]


def encode(name: str, values: Mapping[str, Any]) -> int:
    """The word of instruction ``name``. Fields that are not named are zero; a wrong name or value is refused."""
    operation: Operation = lookup("instruction", OPERATIONS, name)
    layout = fields_of(operation.form)
    used = set(names_used(operation)) - {"opcode"}
    for key, value in values.items():
        if key not in used:
            raise refuse(name, key, value, "a field among " + ", ".join(sorted(used)))
    word = shift = 0
    for key, field in layout.items():
        value = operation.opcode if key == "opcode" else field.code(values[key]) if key in values else 0
        word |= (value & ((1 << field.width) - 1)) << shift
        shift += field.width
    return word


def decode(word: int) -> tuple[str, dict[str, int]]:
    """``(name, every field it uses)`` of a word; numbers, not names. An unknown opcode is refused."""
    operation = BY_OPCODE.get(word & 0xFF)
    if operation is None:
        raise refuse("instruction", "opcode", word & 0xFF, "one of " + ", ".join(map(str, sorted(BY_OPCODE))))
    used = set(names_used(operation))
    values, shift = {}, 0
    for key, field in fields_of(operation.form).items():
        value = word >> shift & ((1 << field.width) - 1)
        if field.signed and value >> (field.width - 1):
            value -= 1 << field.width
        if key in used and key != "opcode":
            values[key] = value
        shift += field.width
    return operation.name, values


def disassemble(word: int) -> str:
    """The word as the assembler takes it: name, then the fields that are not zero."""
    name, values = decode(word)
    layout = fields_of(OPERATIONS[name].form)
    texts = [name]
    for key, value in values.items():
        if value:
            names = layout[key].names
            texts.append(f"{key}={names[value] if 0 <= value < len(names) else value}")
    return " ".join(texts)


def assemble(line: str) -> int:
    """The inverse of :func:`disassemble`."""
    name, *parts = line.split()
    values: dict[str, Any] = {}
    for part in parts:
        key, equals, text = part.partition("=")
        if not equals:
            raise ParameterError(f"{part!r} in {line!r}: legal is field=value")
        values[key] = int(text, 0) if text.lstrip("-")[:1].isdigit() else text
    return encode(name, values)


def version(config: CoreConfig) -> str:
    """Digest of table and parameters: a program image of another version is refused."""
    table = {form: [(name, field.width) for name, field in fields_of(form).items()] for form in FORMS}
    codes = {name: entry.opcode for name, entry in OPERATIONS.items()}
    text = json.dumps([table, codes, config.digest()])
    return hashlib.sha256(text.encode()).hexdigest()[:8]
