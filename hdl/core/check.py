"""What is wrong with an instruction, found before it is issued; a dimension of its patterns a cycle."""

import dataclasses
from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal

from hdl.core.layouts import COUNT_BITS, EXTENT, REASON_BITS
from hdl.vector.layouts import CODE, Instruction
from spec import scalar
from spec.core import CoreConfig
from spec.formats import FLOATS, INTS, FloatFormat
from spec.isa import (
    BESIDE_BYTES,
    CONSTANT_OFFSET_BITS,
    DIMENSIONS,
    FIRST_OF_ENGINE,
    REASON,
    SPACES,
    TENSOR_BASE,
    VECTOR_BASE,
)
from spec.tensor import BITS, OPERAND_CODES, PAIRS, QUADS, SPARSE_PLANES, Kind, Status, operand_kind
from spec.vector import ELEMENT_FORMATS, INSTRUCTION

READ_ACCUMULATOR = list(scalar.OPCODES).index("read_accumulator")
BESIDE_SIZE = BESIDE_BYTES.bit_length() - 1
"""Log2 of the bytes of an element beside tensor operands."""
CONSTANT_USERS = tuple(list(scalar.OPCODES).index(name) for name in ("activation", "tensor_scalar"))


def size_of(name: str) -> int:
    """Log2 of the bytes of an element."""
    entry = FLOATS[name] if name in FLOATS else INTS[name]
    width = entry.storage if isinstance(entry, FloatFormat) else entry.width
    return {8: 0, 16: 1, 32: 2}[max(8, width)]


def operand_size(name: str) -> int:
    """The same of a tensor operand."""
    if name in BITS:
        return {8: 0, 16: 1, 32: 2}[BITS[name]]
    if name in PAIRS or name in QUADS:
        return 1 if name in PAIRS else size_of(QUADS[name]) + 2 - ("e2m1" in name)
    return 2 if name.startswith("fp32") else size_of(name)


def format_size(m: Module, config: CoreConfig, code: Any, name: str) -> Signal:
    """Log2 of the bytes of a format code's element; of an unknown one's, a word."""
    size = Signal(2, init=2, name=f"{name}_size")
    m.d.comb += size.eq(2)
    with m.Switch(code):
        for index, entry in enumerate(ELEMENT_FORMATS[: len(config.vector.formats)]):
            with m.Case(index):
                m.d.comb += size.eq(size_of(entry))
    return size


def tensor_size(m: Module, code: Any) -> tuple[Signal, Signal]:
    """Log2 of the bytes of a tensor operand, and the neutral moving element of its format."""
    size, fill = Signal(2, name="operand_size"), Signal(32)
    m.d.comb += size.eq(2)
    with m.Switch(code):
        for name, index in OPERAND_CODES.items():
            with m.Case(index):
                width, count = 8 << operand_size(name), 2 if name in PAIRS else 4 if name in QUADS else 1
                sign = sum(1 << width // count * (number + 1) - 1 for number in range(count if name not in BITS else 0))
                m.d.comb += [size.eq(operand_size(name)), fill.eq(sign)]
    return size, fill


@dataclasses.dataclass
class Operand:
    """One pattern under check: whether it counts, its effective offset, its size, and what memory holds."""

    used: Any
    first: Any
    size: Any
    capacity: Any
    steps: list[Any]
    nums: list[Any]
    aligned: Any = 1
    """Further conditions on its alignment."""


class Check:
    """Registers and logic of the check, part of the sequencer.

    ``run`` in the state that steps ``dimension`` from 0 to 3; after the last step ``reason`` is valid.
    """

    def __init__(self, m: Module, count: int) -> None:
        self.m = m
        self.dimension = Signal(range(DIMENSIONS))
        self.lows = [Signal(EXTENT, name=f"low_{index}") for index in range(count)]
        self.highs = [Signal(EXTENT, name=f"high_{index}") for index in range(count)]
        self.empty = Signal(count)
        self.elements = Signal(COUNT_BITS + 1)
        """Of the last pattern, as many as an instruction can name at most."""
        self.returns = Signal()
        """It may come to an element twice: an outer step lies within the inner ones."""

    def begin(self) -> None:
        """In the current context, start."""
        self.m.d.sync += [self.dimension.eq(0), self.empty.eq(0), self.elements.eq(1), self.returns.eq(0)]
        self.m.d.sync += [signal.eq(0) for signal in (*self.lows, *self.highs)]

    def step(self, operands: list[Operand], last: Any = 0, repeating: int | None = None) -> None:
        """In the current context, take in one dimension; of the last one only that it is not empty, where ``last``.

        Of pattern ``repeating`` also whether it comes to an element twice.
        """
        m = self.m
        for index, operand in enumerate(operands):
            num, step = (Signal.like(values[0]) for values in (operand.nums, operand.steps))
            with m.Switch(self.dimension):
                for dimension in range(DIMENSIONS):
                    with m.Case(dimension):
                        m.d.comb += [num.eq(operand.nums[dimension]), step.eq(operand.steps[dimension])]
            skip = last[index] & (self.dimension == DIMENSIONS - 1) if last else C(0)
            end = Signal(EXTENT, name=f"end_{index}")
            m.d.comb += end.eq(Mux(skip, 0, (Cat(num, C(0, 1)).as_signed() - 1) * step))
            with m.If(end < 0):
                m.d.sync += self.lows[index].eq(self.lows[index] + end)
            with m.Elif(num != 0):
                m.d.sync += self.highs[index].eq(self.highs[index] + end)
            with m.If((num == 0) & operand.used):
                m.d.sync += self.empty[index].eq(1)
            if index == repeating:
                most = 1 << COUNT_BITS
                many = self.elements * num
                m.d.sync += self.elements.eq(Mux(many > most, most, many))
                with m.If((num > 1) & (abs(step) <= self.highs[index] - self.lows[index])):
                    m.d.sync += self.returns.eq(1)
        m.d.sync += self.dimension.eq(self.dimension + 1)

    def bounds(self, index: int, operand: Operand) -> tuple[Any, Any]:
        """The first byte of a pattern and that behind its last; extents are in elements."""
        low, high = self.lows[index] << operand.size, self.highs[index] << operand.size
        return operand.first + low, operand.first + high + (1 << operand.size)

    def outside(self, index: int, operand: Operand) -> Any:
        """Whether a pattern leaves its memory or is not aligned."""
        low, high = self.bounds(index, operand)
        mask = (1 << operand.size) - 1
        wrong = ((operand.first & mask) != 0) | (low < 0) | (high > operand.capacity)
        return operand.used & (wrong | ~operand.aligned)

    def disturbed(self, index: int, output: int, operands: list[Operand], patterns: list[Any], rows: Any) -> Any:
        """Whether results may change what the instruction has yet to read of ``rows`` rows of operand ``index``.

        They do not where the two have no byte in common, or are one pattern that comes to each element once.
        """
        mine, other = patterns[index], patterns[output]
        bounds = [self.bounds(number, operands[number]) for number in (index, output)]
        meets = (mine.memory == other.memory) & (bounds[0][0] < bounds[1][1]) & (bounds[1][0] < bounds[0][1])
        meets &= mine.start < other.start + other.partitions
        meets &= other.start < mine.start + mine.partitions
        same = (mine.start == other.start) & (mine.partitions == other.partitions)
        same &= operands[index].first == operands[output].first
        same &= operands[index].size == operands[output].size
        for d in range(DIMENSIONS):
            num, step = getattr(mine, f"num{d}"), getattr(mine, f"step{d}")
            same &= (num == getattr(other, f"num{d}")) & ((num == 1) | (step == getattr(other, f"step{d}")))
        used = operands[index].used & operands[output].used
        return used & meets & (~same | self.returns | (rows > self.elements))


def worst(m: Module, found: dict[str, Any], name: str) -> Signal:
    """The first reason of the list that applies."""
    reason = Signal(REASON_BITS, name=name)
    for text in sorted(found, key=lambda text: -REASON[text]):
        with m.If(found[text]):
            m.d.comb += reason.eq(REASON[text])
    return reason


def partitions_wrong(config: CoreConfig, pattern: Any) -> Any:
    """The rule of start partitions; quarters and counts of the machine are powers of two or not."""
    quarter = config.quarter
    starts = [pattern.start == index * quarter for index in range(4)]
    few = pattern.partitions <= quarter
    half = pattern.partitions <= 2 * quarter
    legal = starts[0] | (starts[2] & half) | ((starts[1] | starts[3]) & few)
    return ~legal | (pattern.partitions == 0) | (pattern.partitions > config.partitions)


def constant_wrong(config: CoreConfig, word: Any) -> tuple[Any, Any]:
    """Whether the address of a row of constants has a wrong partition, a wrong offset."""
    start, offset = word[CONSTANT_OFFSET_BITS:], word[:CONSTANT_OFFSET_BITS]
    starts = Cat(start == index * config.quarter for index in range(4) if index * config.quarter < config.partitions)
    return ~starts.any(), (offset[:2] != 0) | (offset + 4 > config.sbuf_bytes)


def vector_entry(m: Module, word: Any, name: str = "check") -> Signal:
    """An instruction of ours as the vector engine takes it; its opcode is the low bits of ours."""
    entry = Signal(Instruction, name=f"{name}_entry")
    for field, _ in INSTRUCTION:
        m.d.comb += getattr(entry, field).eq(getattr(word, field))
    return entry


def vector_size(m: Module, config: CoreConfig, word: Any, name: str) -> Any:
    """Log2 of the bytes of an operand's elements: words in packed instructions, and where ``quantize_mx`` packs."""
    whole = word.packed != 0
    if name == "output":
        whole |= word.opcode == VECTOR_BASE + CODE["quantize_mx"]
    return Mux(whole, 2, format_size(m, config, getattr(word, f"{name}_format"), name))


def codes_of(config: CoreConfig, kind: Kind) -> list[int]:
    """Codes of the tensor operands of a kind."""
    return [OPERAND_CODES[name] for name in config.tensor.operands if operand_kind(name) == kind]


def marks(config: CoreConfig, word: Any) -> tuple[Any, Any]:
    """Whether a tensor instruction's operands have scales beside them, and whether they have tags."""
    scaled = word.format.matches(*codes_of(config, Kind.QUAD)) if config.tensor.microscaling else C(0)
    return scaled, (word.sparse & (word.opcode == TENSOR_BASE)) if config.tensor.sparsity else C(0)


def tensor_reasons(config: CoreConfig, word: Any, location: Any) -> dict[str, Any]:
    """What the tensor engine would refuse whatever was before."""
    tensor = config.tensor
    known = word.format.matches(*(OPERAND_CODES[name] for name in tensor.operands))
    single = word.format.matches(*codes_of(config, Kind.NUMBER)) if tensor.sparsity else C(0)
    loads = word.opcode == TENSOR_BASE
    most = Mux(loads, tensor.columns, tensor.moving_columns)
    end = location + word.columns
    inside = (location >= 0) & (location < tensor.psum_depth)
    if tensor.whole_psum:
        inside &= end <= tensor.psum_depth
    else:
        place = location[: (tensor.bank_depth - 1).bit_length()]
        inside &= place + word.columns <= tensor.bank_depth
    base = FIRST_OF_ENGINE["tensor"]
    assert REASON["tensor_address"] == base + Status.ADDRESS
    return {
        "bad_pattern": word.sparse & ~loads & (word.source.num3 > SPARSE_PLANES) if tensor.sparsity else C(0),
        "tensor_format": ~known | (word.sparse & ~single),
        "tensor_columns": (word.columns == 0) | (word.columns > most),
        "tensor_address": ~loads & ~inside,
    }


def transfer_reasons(config: CoreConfig, word: Any) -> dict[str, Any]:
    """What is wrong with a transfer, addresses left out."""
    formats = len(config.vector.formats)
    end = word.list_address + (word.num3 << 2)
    return {
        "bad_queue": word.queue >= config.dma_queues,
        "bad_memory": (word.source_space >= len(SPACES)) | (word.target_space >= len(SPACES)),
        "bad_format": (word.source_format >= formats) | (word.target_format >= formats),
        "bad_pattern": word.indexed == 3,
        "bad_address": word.indexed.any() & ((word.list_address[:2] != 0) | (end > config.hbm_bytes)),
    }
