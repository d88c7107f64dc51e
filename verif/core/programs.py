"""Random programs of a core: legal ones without races, and illegal ones; shrunk when they fail."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from golden.core.core import Start
from golden.core.order import Box, Entry, encoded, ordered
from golden.core.pattern import Pattern, element_bytes, operand_bytes
from golden.scalar import activation
from golden.vector import instructions as vector
from spec.core import ENGINES, LINE_BYTES, WORD_BYTES, CoreConfig
from spec.isa import (
    BESIDE_BYTES,
    CONSTANT_OFFSET_BITS,
    DIMENSIONS,
    INSTRUCTION_BYTES,
    PATTERN,
    decode,
    encode,
    fields_of,
)
from spec.tensor import OPERAND_CODES, SPARSE_PLANES, Kind, operand_kind
from verif.scalar import programs as scalar_programs
from verif.vector import programs as vector_programs

Bytes = npt.NDArray[np.uint8]
DATA_LINES = 64
"""Lines of HBM that programs read and write; code follows."""
REGIONS = 8
"""Parts of each partition of SBUF; results of an instruction go to another part than its operands come from."""
LONGEST = 24
IN_PLACE = 0.8
"""Of the instructions whose results may lie where an operand was, how many do."""


@dataclasses.dataclass
class Case:
    """A program: entries in the order in which they should seem to happen, and what HBM holds before."""

    config: CoreConfig
    entries: list[Entry]
    data: Bytes

    def code(self) -> tuple[dict[str, Start], dict[str, Bytes]]:
        """Where each engine starts, and its instructions."""
        found: dict[str, list[Entry]] = {engine: [] for engine in ENGINES}
        raws: dict[tuple[str, int], int] = {}
        for entry in ordered(self.entries, self.config):
            fields = dict(entry.fields)
            raws[entry.engine, len(found[entry.engine])] = fields.pop("raw", 0)
            found[entry.engine].append(dataclasses.replace(entry, fields=fields))
        line, starts, code = DATA_LINES, {}, {}
        for engine, entries in found.items():
            words = encoded(entries, line * LINE_BYTES)
            words = [word | raws.get((engine, number), 0) for number, word in enumerate(words)]
            data = b"".join(word.to_bytes(INSTRUCTION_BYTES, "little") for word in words)
            code[engine] = np.frombuffer(data, np.uint8)
            starts[engine] = Start(line, len(words))
            line += len(data) // LINE_BYTES
        return starts, code


class Generator:
    """Draws instructions for one core."""

    def __init__(self, config: CoreConfig, rng: np.random.Generator) -> None:
        self.config, self.rng = config, rng
        self.loaded: Kind | None = None
        self.rings = 0
        self.written = np.zeros(config.tensor.psum_depth, np.bool_)

    def case(self, count: int) -> Case:
        """A legal program: SBUF is filled first, then ``count`` random instructions."""
        self.loaded, self.rings = None, 0
        data = self.data()
        entries = [self.fill(region) for region in range(REGIONS)]
        draws = {
            self.vector: 0.27,
            self.scalar: 0.2,
            self.tensor: 0.23,
            self.dma: 0.15,
            self.ring: 0.05,
            self.control: 0.06,
            self.word: 0.04,
        }
        for kind in self.rng.choice(len(draws), count, p=list(draws.values())):
            entries.append(list(draws)[kind]())
        return Case(self.config, entries, data)

    def data(self) -> Bytes:
        """Small numbers and anything."""
        count = DATA_LINES * LINE_BYTES // 4
        small = self.rng.normal(0, 3, count).astype(np.float32).view(np.uint32)
        whole = self.rng.integers(0, 1 << 32, count, dtype=np.uint32)
        words = np.where(self.rng.random(count) < 0.7, small, whole)
        return np.ascontiguousarray(words).view(np.uint8)

    def fill(self, region: int) -> Entry:
        """Random data into one region of every partition."""
        config = self.config
        size = config.sbuf_bytes // REGIONS
        words = size // 4
        fields: dict[str, Any] = {
            "queue": region % config.dma_queues,
            "source_address": 4 * int(self.rng.integers(0, DATA_LINES * LINE_BYTES // 8)),
            "target_space": "sbuf",
            "target_address": region * size,
            "source_step0": 4,
            "target_step0": 4,
            "source_step1": 4 * int(self.rng.integers(0, 2)),
            "target_step1": config.sbuf_pitch,
            "num0": words,
            "num1": config.partitions,
            "num2": 1,
            "num3": 1,
        }
        read = Box("hbm", range(1), 0, DATA_LINES * LINE_BYTES)
        write = Box("sbuf", range(config.partitions), region * size, (region + 1) * size)
        while fields["source_address"] + 4 * words + fields["source_step1"] * config.partitions > read.high:
            fields["source_address"] //= 2
        return Entry(f"queue {fields['queue']}", "sync", "dma", fields, (read,), (write,), "")

    def partitions(self) -> tuple[int, int]:
        """A legal start and count."""
        quarter = self.config.quarter
        count = int(self.rng.integers(1, self.config.partitions + 1))
        starts = (
            [0] if count > 2 * quarter else [0, 2 * quarter] if count > quarter else [i * quarter for i in range(4)]
        )
        return int(self.rng.choice(starts)), count

    def pattern(self, name: str, memory: str, low: int, high: int, size: int) -> tuple[dict[str, Any], Box]:
        """A random pattern inside bytes ``low`` to ``high``."""
        rng, slots = self.rng, (high - low) // size
        start, count = self.partitions()
        nums, steps, span = [1] * DIMENSIONS, [0] * DIMENSIONS, 1
        for dimension in range(int(rng.integers(1, DIMENSIONS + 1))):
            num = int(rng.integers(1, 7))
            step = int(rng.choice([1, span, int(rng.integers(0, 4))]))
            if span + (num - 1) * step <= slots:
                nums[dimension], steps[dimension] = num, step
                span += (num - 1) * step
        first = int(rng.integers(0, slots - span + 1))
        if rng.random() < 0.2:
            first += span - 1
            steps = [-step for step in steps]
            box = Box(memory, range(start, start + count), low + (first - span + 1) * size, low + (first + 1) * size)
        else:
            box = Box(memory, range(start, start + count), low + first * size, low + (first + span) * size)
        fields: dict[str, Any] = {f"{name}.memory": memory, f"{name}.start": start, f"{name}.partitions": count}
        fields[f"{name}.offset"] = low + first * size
        for dimension in range(DIMENSIONS):
            fields |= {f"{name}.num{dimension}": nums[dimension], f"{name}.step{dimension}": steps[dimension]}
        return fields, box

    def region(self, number: int) -> tuple[int, int]:
        """Bytes of a region."""
        size = self.config.sbuf_bytes // REGIONS
        return number * size, (number + 1) * size

    def constants(self, fields: dict[str, Any], names: tuple[str, str], number: int) -> list[Box]:
        """Addresses for the constants of which there is one per lane."""
        boxes = []
        low, high = self.region(number)
        for name in names:
            if fields.get(f"{name}_per_lane"):
                start = int(self.rng.integers(0, 4)) * self.config.quarter
                offset = low + 4 * int(self.rng.integers(0, (high - low) // 4))
                fields[name] = start << CONSTANT_OFFSET_BITS | offset
                boxes.append(Box("sbuf", range(start, self.config.partitions), offset, offset + 4))
        return boxes

    def operand(self, name: str, format_name: str, number: int, psum: bool) -> tuple[dict[str, Any], Box]:
        """A source: in a region of SBUF, or now and then in the lower half of PSUM."""
        size = element_bytes(format_name)
        if psum and self.rng.random() < 0.3:
            return self.pattern(name, "psum", 0, self.config.psum_bytes // 2, size)
        return self.pattern(name, "sbuf", *self.region(number), size)

    def result(self, number: int, size: int) -> tuple[dict[str, Any], Box]:
        """An output: in a region of SBUF, or now and then in the upper half of PSUM."""
        if self.rng.random() < 0.25:
            return self.pattern("output", "psum", self.config.psum_bytes // 2, self.config.psum_bytes, size)
        return self.pattern("output", "sbuf", *self.region(number), size)

    def vector(self) -> Entry:
        """A vector instruction."""
        config = self.config
        while True:
            entry = vector_programs.random_instruction(config.vector, self.rng, LONGEST)
            if vector.error_of(config.vector, entry) == "done" and not entry.packed:
                break
        fields = known("vector", vector_programs.fields(config.vector, [entry]))
        numbers = [int(n) for n in self.rng.permutation(REGIONS)[:4]]
        reads = self.constants(fields, ("c0", "c1"), numbers[3])
        psum = True
        if entry.opcode not in vector.NO_OPERANDS:
            found, box = self.operand("left", entry.left_format, numbers[0], psum)
            fields |= found
            reads.append(box)
            psum = box.memory != "psum"
        if entry.opcode in vector.TWO_OPERANDS:
            found, box = self.operand("right", entry.right_format, numbers[1], psum)
            fields |= found
            reads.append(box)
        if entry.opcode == "set_seed":
            return self.entry("vector", "vector.set_seed", fields, reads, [])
        size = WORD_BYTES if entry.opcode == "quantize_mx" else element_bytes(entry.output_format)
        found, box = self.result(numbers[2], size)
        made = self.entry("vector", f"vector.{entry.opcode}", fields | found, reads, [box])
        if entry.opcode in vector.NO_OPERANDS:
            return made
        sizes = element_bytes(entry.left_format), size
        left = made.reads[-1 - (entry.opcode in vector.TWO_OPERANDS)]
        return self.in_place(made, "left", left, sizes, vector.takes(entry))

    def scalar(self) -> Entry:
        """A scalar instruction."""
        config = self.config
        while True:
            entry = scalar_programs.random_instruction(config.scalar, self.rng, LONGEST)
            if activation.error_of(config.scalar, entry) == "done":
                break
        fields = known("scalar", scalar_programs.fields(config.scalar, [entry]))
        numbers = [int(n) for n in self.rng.permutation(REGIONS)[:3]]
        reads = self.constants(fields, ("scale", "bias"), numbers[2])
        if entry.opcode != "read_accumulator":
            found, box = self.operand("input", entry.input_format, numbers[0], psum=True)
            fields |= found
            reads.append(box)
        size = element_bytes(entry.output_format)
        found, box = self.result(numbers[1], size)
        made = self.entry("scalar", f"scalar.{entry.opcode}", fields | found, reads, [box])
        if entry.opcode == "read_accumulator":
            return made
        return self.in_place(made, "input", made.reads[-1], (element_bytes(entry.input_format), size), entry.length)

    def in_place(self, entry: Entry, side: str, box: Box, sizes: tuple[int, int], rows: int) -> Entry:
        """Now and then the same with its results where an operand of ``rows`` rows was, if that is legal."""
        fields = entry.fields | {f"output.{part.name}": entry.fields.get(f"{side}.{part.name}", 0) for part in PATTERN}
        _, codes = decode(encode(entry.name, fields))
        registers = np.zeros(self.config.registers, np.int32)
        names = zip((side, "output"), sizes, strict=True)
        source, target = (Pattern(self.config, codes, name, size, registers) for name, size in names)
        if self.rng.random() > IN_PLACE or target.disturbs(source, rows):
            return entry
        return dataclasses.replace(entry, fields=fields, writes=(box,))

    def tensor(self) -> Entry:
        """A load, or a matmul with what is loaded."""
        config, rng = self.config.tensor, self.rng
        kinds = [Kind.NUMBER, Kind.QUAD] if config.microscaling else [Kind.NUMBER]
        loads = self.loaded is None or rng.random() < 0.3
        if loads:
            self.loaded = kinds[int(rng.integers(0, len(kinds)))]
        name = str(rng.choice([name for name in config.operands if operand_kind(name) == self.loaded]))
        sparse = config.sparsity and self.loaded == Kind.NUMBER and rng.random() < 0.5
        number = int(rng.integers(0, REGIONS))
        size = operand_bytes(OPERAND_CODES[name])
        fields, box = self.pattern("source", "sbuf", *self.region(number), size)
        while sparse and fields["source.num3"] > SPARSE_PLANES:
            fields, box = self.pattern("source", "sbuf", *self.region(number), size)
        fields |= {"format": name, "sparse": int(sparse)}
        reads = [box]
        if self.loaded == Kind.QUAD or (sparse and loads):
            found, box = self.pattern("beside", "sbuf", *self.region(int(rng.integers(0, REGIONS))), BESIDE_BYTES)
            fields |= found
            reads.append(box)
        if loads:
            fields["columns"] = int(rng.integers(config.columns - config.load_columns + 1, config.columns + 1))
            return self.entry("tensor", "load_stationary", fields, reads, [])
        columns = int(rng.integers(1, config.bank_depth + 1))
        location = int(rng.integers(0, config.psum_banks)) * config.bank_depth
        location += int(rng.integers(0, config.bank_depth - columns + 1))
        held = self.written[location : location + columns]
        fields |= {"columns": columns, "location": location}
        fields["accumulate"] = int(bool(held.all()) and rng.random() < 0.5)
        held[:] = True
        result = Box("psum", range(self.config.partitions), 4 * location, 4 * (location + columns))
        return self.entry("tensor", "matmul", fields, [*reads, result], [result])

    def dma(self) -> Entry:
        """A transfer between any two memories, from the lower into the upper half where they are the same."""
        rng, config = self.rng, self.config
        accumulate = rng.random() < 0.25
        formats = [str(rng.choice(config.vector.formats)) for _ in range(2)]
        if rng.random() < 0.5:
            formats[1] = formats[0]
        nums = [int(rng.integers(1, 5)) for _ in range(DIMENSIONS)]
        numbers = rng.permutation(REGIONS)[:2]
        fields: dict[str, Any] = {f"num{d}": nums[d] for d in range(DIMENSIONS)}
        boxes = []
        for side, format_name, number in zip(("source", "target"), formats, numbers, strict=True):
            size = element_bytes(format_name)
            space = str(rng.choice(["hbm", "sbuf", "psum"]))
            pitches = 1 if space == "hbm" else config.partitions
            if space == "sbuf":
                low, high = self.region(int(number))
            else:
                half = (DATA_LINES * LINE_BYTES if space == "hbm" else config.psum_bytes) // 2
                low, high = (0, half) if side == "source" else (half, 2 * half - LINE_BYTES * (space == "hbm"))
            start, steps, span, rows = 0, [0] * DIMENSIONS, size, 1
            for dimension in range(DIMENSIONS):
                step = size * int(rng.integers(0, 4))
                if space != "hbm" and rng.random() < 0.4 and rows * nums[dimension] <= pitches:
                    steps[dimension] = rows * (config.sbuf_pitch if space == "sbuf" else config.psum_pitch)
                    rows *= nums[dimension]
                elif span + (nums[dimension] - 1) * step <= high - low:
                    steps[dimension] = step
                    span += (nums[dimension] - 1) * step
            start = int(rng.integers(0, pitches - rows + 1))
            offset = low + size * int(rng.integers(0, (high - low - span) // size + 1))
            pitch = {"hbm": 0, "sbuf": config.sbuf_pitch, "psum": config.psum_pitch}[space]
            fields |= {f"{side}_space": space, f"{side}_format": format_name}
            fields[f"{side}_address"] = start * pitch + offset
            fields |= {f"{side}_step{d}": steps[d] for d in range(DIMENSIONS)}
            boxes.append(Box(space, range(start, start + rows), offset, offset + span))
        queue = int(rng.integers(0, config.dma_queues))
        fields |= {"queue": queue, "priority": int(rng.integers(0, 4)), "accumulate": int(accumulate)}
        reads = [boxes[0], boxes[1]] if accumulate else [boxes[0]]
        return Entry(f"queue {queue}", "sync", "dma", fields, tuple(reads), (boxes[1],), "")

    def ring(self) -> Entry:
        """Transfers of one queue, processed from a ring, whose register nothing has written before."""
        entries = [self.dma() for _ in range(int(self.rng.integers(1, 4)))]
        queue = entries[0].fields["queue"]
        descriptors = [entry.fields | {"queue": queue} for entry in entries]
        reads, writes = (tuple(box for e in entries for box in getattr(e, side)) for side in ("reads", "writes"))
        self.rings += 1
        fields = {"left": self.config.registers - self.rings, "descriptors": descriptors}
        return Entry(f"queue {queue}", "sync", "ring", fields, reads, writes, "")

    def control(self) -> Entry:
        """Arithmetic on registers that nothing depends on, or a branch to the next instruction that is not taken."""
        engine = str(self.rng.choice(ENGINES))
        if self.rng.random() < 0.3:
            return self.entry(engine, "nop", {}, [], [])
        fields = {
            "operation": int(self.rng.integers(0, 9)),
            "target": int(self.rng.integers(0, 4)),
            "left": int(self.rng.integers(0, 4)),
            "right": int(self.rng.integers(0, 4)),
            "immediate": int(self.rng.integers(0, 2)),
            "value": int(self.rng.integers(-(1 << 31), 1 << 31)),
        }
        return self.entry(engine, "alu", fields, [], [])

    def word(self) -> Entry:
        """A register takes a word that nothing writes or one of its engine's own, in the last line, or is put there."""
        number, engine = divmod(int(self.rng.integers(0, 4 * len(ENGINES))), len(ENGINES))
        own = (DATA_LINES - 1) * LINE_BYTES + WORD_BYTES * (4 * engine + number)
        stores = self.rng.random() < 0.5
        address = own if stores or self.rng.random() < 0.5 else WORD_BYTES * int(self.rng.integers(0, DATA_LINES * 8))
        distance = WORD_BYTES * int(self.rng.integers(-8, 8))
        fields = {"address": address + 64, "value": -64, "immediate": 1}
        fields |= {"address": address - distance, "value": distance} if address >= 64 else {}
        fields["left" if stores else "target"] = int(self.rng.integers(0, 4))
        box = (Box("hbm", range(1), address, address + WORD_BYTES),)
        name = "store" if stores else "load"
        return self.entry(ENGINES[engine], name, fields, () if stores else box, box if stores else ())

    @staticmethod
    def entry(engine: str, name: str, fields: Mapping[str, Any], reads: Sequence[Box], writes: Sequence[Box]) -> Entry:
        """An instruction of an engine."""
        return Entry(engine, engine, name, dict(fields), tuple(reads), tuple(writes), "")


def known(form: str, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of one legal instruction; names that do not exist are in fields it does not use."""
    layout = fields_of(form)
    fields = {name: int(values[0]) for name, values in columns.items() if name != "opcode"}
    return {name: value if value <= layout[name].high else 0 for name, value in fields.items()}


def shrink(case: Case, fails: Callable[[Case], bool]) -> Case:
    """The shortest program found that still fails: parts are left out, halves first, then one by one."""
    size = max(1, len(case.entries) // 2)
    while True:
        start, smaller = 0, False
        while start < len(case.entries):
            attempt = Case(case.config, case.entries[:start] + case.entries[start + size :], case.data)
            if attempt.entries and fails(attempt):
                case, smaller = attempt, True
            else:
                start += size
        if size == 1 and not smaller:
            return case
        size = max(1, size // 2)
