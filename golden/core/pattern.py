"""Access patterns: which bytes an operand names, and what is wrong with it."""

import copy
import math
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from golden.numerics.codes import element_named, storage_bits
from spec.core import QUARTERS, WORD_BYTES, CoreConfig
from spec.isa import CONSTANT_OFFSET_BITS, DIMENSIONS, MEMORIES
from spec.tensor import BITS, OPERAND_CODES, PAIRS, QUADS
from spec.vector import ELEMENT_FORMATS

Values = Mapping[str, int]


def element_bytes(name: str) -> int:
    """Bytes of an element in memory."""
    return max(8, storage_bits(element_named(name))) // 8


def operand_bytes(code: int) -> int:
    """Bytes of a tensor operand; of an unknown one, a word."""
    name = {code: name for name, code in OPERAND_CODES.items()}.get(code, "fp32_high")
    if name in BITS:
        return BITS[name] // 8
    if name in PAIRS or name in QUADS:
        return 2 if name in PAIRS else 4 * element_bytes(QUADS[name]) // (2 if "e2m1" in name else 1)
    return WORD_BYTES if name.startswith("fp32") else element_bytes(name)


def format_bytes(config: CoreConfig, code: int) -> int:
    """Bytes of an element of a format code; of one the core does not have, a word."""
    return element_bytes(ELEMENT_FORMATS[code]) if code < len(config.vector.formats) else WORD_BYTES


def based(offset: int, base: int, registers: npt.NDArray[np.int32]) -> int:
    """An offset with its register added."""
    return offset + int(registers[base - 1]) if base else offset


def extent(steps: list[int], nums: list[int]) -> tuple[int, int]:
    """Smallest and largest distance from the first element."""
    ends = [(num - 1) * step for num, step in zip(nums, steps, strict=True)]
    return sum(min(0, end) for end in ends), sum(max(0, end) for end in ends)


def offsets(first: int, steps: list[int], nums: list[int], count: int) -> npt.NDArray[np.int64]:
    """``count`` elements in order, innermost dimension first; a pattern that ends begins again."""
    grid = np.zeros(1, np.int64)
    for step, num in zip(steps, nums, strict=True):
        grid = (np.arange(num, dtype=np.int64)[:, None] * step + grid).reshape(-1)
        if len(grid) >= count:
            break
    return first + grid[np.arange(count) % len(grid)] if len(grid) != count else first + grid


class Pattern:
    """One operand of an engine: its rows and its faults."""

    def __init__(
        self, config: CoreConfig, values: Values, name: str, size: int, registers: npt.NDArray[np.int32]
    ) -> None:
        self.config, self.size = config, size
        self.memory = MEMORIES[values[f"{name}.memory"]]
        self.start, self.partitions = values[f"{name}.start"], values[f"{name}.partitions"]
        self.offset = based(values[f"{name}.offset"], values[f"{name}.base"], registers)
        self.steps = [values[f"{name}.step{d}"] * size for d in range(DIMENSIONS)]
        self.nums = [values[f"{name}.num{d}"] for d in range(DIMENSIONS)]

    def faults(self) -> set[str]:
        """Reasons for which a core refuses it."""
        found = set()
        if not partitions_fit(self.config, self.start, self.partitions):
            found.add("bad_partitions")
        if 0 in self.nums:
            found.add("bad_pattern")
            return found
        low, high = extent(self.steps, self.nums)
        capacity = self.config.sbuf_bytes if self.memory == "sbuf" else self.config.psum_bytes
        if self.offset % self.size or self.offset + low < 0 or self.offset + high + self.size > capacity:
            found.add("bad_address")
        return found

    @property
    def _dimensions(self) -> list[tuple[int, int]]:
        """Elements and step of each dimension; a step that is never taken counts as none."""
        return [(num, step if num > 1 else 0) for num, step in zip(self.nums, self.steps, strict=True)]

    def planes(self) -> list["Pattern"]:
        """The outermost dimension as so many patterns."""
        found = []
        for plane in range(self.nums[-1]):
            one = copy.copy(self)
            one.offset, one.nums = self.offset + plane * self.steps[-1], [*self.nums[:-1], 1]
            found.append(one)
        return found

    def disturbs(self, operand: "Pattern", rows: int) -> bool:
        """Whether results that go here may change what the instruction has yet to read of ``rows`` rows of an operand.

        They do not where the two have no byte in common, or are one pattern that comes to each element once.
        """
        low, high = extent(self.steps, self.nums)
        other_low, other_high = extent(operand.steps, operand.nums)
        apart = (
            self.memory != operand.memory
            or self.start >= operand.start + operand.partitions
            or operand.start >= self.start + self.partitions
            or self.offset + low >= operand.offset + other_high + operand.size
            or operand.offset + other_low >= self.offset + high + self.size
        )
        if apart:
            return False
        same = (self.start, self.partitions, self.offset, self.size) == (
            operand.start,
            operand.partitions,
            operand.offset,
            operand.size,
        )
        return not same or self._dimensions != operand._dimensions or self._returns(rows)

    def _returns(self, rows: int) -> bool:
        """Whether one of ``rows`` rows may be an element that was one before: an outer step lies within inner ones."""
        inner = 0
        for num, step in zip(self.nums, self.steps, strict=True):
            if num > 1 and abs(step) <= inner:
                return True
            inner += (num - 1) * abs(step)
        return rows > math.prod(self.nums)

    def rows(self, count: int) -> npt.NDArray[np.int64]:
        """Byte offset of each row."""
        return offsets(self.offset, self.steps, self.nums, count)


def partitions_fit(config: CoreConfig, start: int, partitions: int) -> bool:
    """The published rule, scaled: all partitions from 0, up to a half from halves, up to a quarter from quarters."""
    quarter = config.quarter
    if not 1 <= partitions <= config.partitions or start >= config.partitions or start % quarter:
        return False
    if partitions > QUARTERS // 2 * quarter:
        return start == 0
    return partitions <= quarter or start % (2 * quarter) == 0


def constant_faults(config: CoreConfig, word: int) -> set[str]:
    """Reasons for which the address of a row of constants is refused."""
    start, offset = word >> CONSTANT_OFFSET_BITS, word & (1 << CONSTANT_OFFSET_BITS) - 1
    found = set()
    if start >= config.partitions or start % config.quarter:
        found.add("bad_partitions")
    if offset % WORD_BYTES or offset + WORD_BYTES > config.sbuf_bytes:
        found.add("bad_address")
    return found
