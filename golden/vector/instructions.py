"""Instructions of the vector engine, bit for bit, and their cycles.

Operands and results are codes ``[rows, lanes]`` (``golden.numerics.codes``), constants words ``[lanes]``. Casts in,
fp32 inside, one rounding an operation, cast out; raw operations work on 32 bits, signed integers extended, and keep the
low bits. The engine's state: one accumulator and one xorshift32 generator a lane.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from golden.numerics import codes
from golden.numerics.cast import encode
from golden.numerics.random import Xorshift32
from golden.vector.operations import apply, reciprocal
from golden.vector.search import find_index8, match_replace8, max8
from spec.formats import INTS
from spec.vector import (
    COMPARISONS,
    KEEP,
    LENGTH_MAX,
    NEGATIVE_LIMIT,
    OPCODES,
    OPERATIONS,
    QUADRANT,
    SEARCH_SLOTS,
    SEARCHES,
    VectorConfig,
)

Codes = codes.Codes
U32 = npt.NDArray[np.uint32]
F32 = npt.NDArray[np.float32]

TWO_OPERANDS = (
    "tensor_tensor",
    "scalar_tensor_tensor",
    "tensor_tensor_scan",
    "tensor_copy_predicated",
    "select_reduce",
)
NO_OPERANDS = ("memset", "rng", "set_seed", "read_accumulator")
SEED_STEP = 0x9E3779B9


@dataclasses.dataclass(frozen=True, kw_only=True)
class Instruction:
    """One instruction. ``c0`` and ``c1``: a word (fp32 pattern), or a uint32 array of one per lane."""

    opcode: str
    op0: str = "bypass"
    op1: str = "bypass"
    reverse0: bool = False
    reverse1: bool = False
    left_format: str = "fp32"
    right_format: str = "fp32"
    output_format: str = "fp32"
    length: int
    group: int = 0
    """Elements of one result of ``tensor_reduce``; 0 stands for ``length``."""
    c0: Any = 0
    c1: Any = 0
    reduce: str = "idle"
    negate: bool = False
    saturate: bool = False
    stochastic: bool = False
    start: int = 0

    @property
    def size(self) -> int:
        """Elements of one result."""
        return self.group or self.length

    @property
    def raw(self) -> bool:
        """Whether operations work on bits."""
        known = self.op0 in OPERATIONS and self.opcode in OPERATION_USERS
        return known and (OPERATIONS[self.op0].raw or (self.op1 in OPERATIONS and OPERATIONS[self.op1].raw))


OPERATION_USERS = ("tensor_tensor", "tensor_scalar", "scalar_tensor_tensor", "tensor_tensor_scan", "tensor_reduce")


def error_of(config: VectorConfig, entry: Instruction) -> str:
    """The status an instruction ends with: ``done``, or the first field that is wrong, in the order of ``STATUS``."""
    if entry.opcode not in OPCODES:
        return "bad_opcode"
    if not _operations_fit(entry):
        return "bad_operation"
    formats = [entry.left_format] if entry.opcode not in NO_OPERANDS else []
    formats += [entry.right_format] if entry.opcode in TWO_OPERANDS else []
    if any(name not in config.formats for name in formats):
        return "bad_input_format"
    if entry.opcode != "set_seed" and entry.output_format not in config.formats:
        return "bad_output_format"
    if not 0 < entry.length <= LENGTH_MAX:
        return "bad_length"
    if entry.opcode == "tensor_reduce" and not 0 < entry.size <= entry.length:
        return "bad_group"
    return "done"


def _operations_fit(entry: Instruction) -> bool:
    """Both raw or both not (``bypass`` is either), reductions only with what reduces, ranges only with comparisons."""
    if entry.opcode == "range_select":
        return entry.op0 in COMPARISONS and entry.op1 in COMPARISONS
    if entry.opcode not in OPERATION_USERS:
        return True
    if entry.op0 not in OPERATIONS or entry.op1 not in OPERATIONS:
        return False
    kinds = {OPERATIONS[name].raw for name in (entry.op0, entry.op1) if name != "bypass"}
    if len(kinds) > 1:
        return False
    return entry.opcode != "tensor_reduce" or OPERATIONS[entry.op1].reduces


def raw_words(name: str, rows: Codes) -> U32:
    """Codes as 32-bit words: signed integers extended by their sign, everything else by zeros."""
    width = codes.storage_bits(codes.element_named(name))
    words = np.asarray(rows).astype(np.uint32) & np.uint32((1 << width) - 1)
    if name in INTS and INTS[name].signed and width < 32:
        sign = np.uint32(1 << (width - 1))
        words = (words ^ sign) - sign
    return words


def numbers(name: str, rows: Codes) -> F32:
    """Codes in fp32: one rounding for int32 and uint32, exact for everything else."""
    return codes.decode(name, rows).astype(np.float32)


class VectorEngine:
    """The engine's state and one method that executes an instruction."""

    def __init__(self, config: VectorConfig) -> None:
        self.config = config
        self.accumulators = np.full(config.lanes, -np.inf, np.float32)
        lanes = np.arange(1, config.lanes + 1, dtype=np.uint64)
        self.random = Xorshift32((lanes * SEED_STEP & 0xFFFFFFFF | 1).astype(np.uint32))

    def execute(
        self, entry: Instruction, left: Codes | None = None, right: Codes | None = None
    ) -> tuple[Any, Any, str]:
        """``(results [rows, lanes], written [rows, lanes], status)``."""
        status = error_of(self.config, entry)
        nothing = np.empty((0, self.config.lanes), np.uint32)
        if status != "done" or entry.opcode == "set_seed":
            if status == "done":
                seeds = np.broadcast_to(np.asarray(entry.c0, np.uint32), self.config.lanes)
                self.random = Xorshift32(np.where(seeds == 0, np.uint32(1), seeds))
            return nothing, nothing.astype(bool), status
        result, written, raw = getattr(self, f"_{entry.opcode}", self._operations)(entry, left, right)
        words = self._words(entry, result, raw)
        return words, np.broadcast_to(written, words.shape), status

    def _words(self, entry: Instruction, result: Any, raw: bool) -> U32:
        """Results as codes of the output format."""
        width = codes.storage_bits(codes.element_named(entry.output_format))
        if raw:
            return result & np.uint32((1 << width) - 1)
        bits = self.random.stream(len(result)) if entry.stochastic else None
        return encode(entry.output_format, result, bits=bits, saturate=entry.saturate).astype(np.uint32)

    def _operations(self, entry: Instruction, left: Any, right: Any) -> tuple[Any, Any, bool]:
        """Everything whose result comes from the two operations."""
        raw = entry.raw
        convert: Any = raw_words if raw else numbers
        x = convert(entry.left_format, left)
        y = convert(entry.right_format, right) if entry.opcode in TWO_OPERANDS else x
        c0, c1 = (self._constant(value, raw) for value in (entry.c0, entry.c1))
        if entry.opcode == "tensor_tensor":
            return _ordered(entry.op0, x, y, entry.reverse0), True, raw
        if entry.opcode == "tensor_tensor_scan":
            return self._scan(entry, x, y, c0), True, raw
        first = _ordered(entry.op0, x, c0, entry.reverse0)
        if entry.opcode == "tensor_reduce":
            return self._groups(entry, first, raw), True, raw
        second = y if entry.opcode == "scalar_tensor_tensor" else c1
        return _ordered(entry.op1, first, second, entry.reverse1), True, raw

    def _constant(self, value: Any, raw: bool) -> Any:
        words = np.broadcast_to(np.asarray(value, np.uint32), self.config.lanes)
        return words if raw else np.ascontiguousarray(words).view(np.float32)

    @staticmethod
    def _scan(entry: Instruction, x: Any, y: Any, state: Any) -> Any:
        rows = []
        for one, other in zip(x, y, strict=True):
            state = _ordered(entry.op1, _ordered(entry.op0, one, state, entry.reverse0), other, entry.reverse1)
            rows.append(state)
        return np.stack(rows)

    @staticmethod
    def _groups(entry: Instruction, x: Any, raw: bool) -> Any:
        """One result for each full group, and for what is left."""
        rows = []
        for start in range(0, entry.length, entry.size):
            state = x[start]
            for row in x[start + 1 : start + entry.size]:
                state = apply(entry.op1, state, row)
            rows.append(state)
        result = np.stack(rows)
        return -result if entry.negate and not raw else result

    def _tensor_copy(self, entry: Instruction, left: Any, _right: Any) -> tuple[Any, Any, bool]:
        raw = entry.left_format == entry.output_format
        return (raw_words if raw else numbers)(entry.left_format, left), True, raw

    def _tensor_copy_predicated(self, entry: Instruction, left: Any, right: Any) -> tuple[Any, Any, bool]:
        result, _, raw = self._tensor_copy(entry, left, right)
        return result, self._predicate(entry, right), raw

    @staticmethod
    def _predicate(entry: Instruction, right: Any) -> Any:
        return (numbers(entry.right_format, right) != 0) ^ entry.reverse0

    def _select_reduce(self, entry: Instruction, left: Any, right: Any) -> tuple[Any, Any, bool]:
        chosen = np.where(
            self._predicate(entry, right), numbers(entry.left_format, left), self._constant(entry.c0, raw=False)
        )
        return self._maximum(entry, chosen), True, False

    def _range_select(self, entry: Instruction, left: Any, _right: Any) -> tuple[Any, Any, bool]:
        index = np.arange(entry.start, entry.start + entry.length).astype(np.float32)[:, None]
        inside = _ordered(entry.op0, index, self._constant(entry.c0, raw=False), entry.reverse0) != 0
        inside = inside & (_ordered(entry.op1, index, self._constant(entry.c1, raw=False), entry.reverse1) != 0)
        low = np.uint32(NEGATIVE_LIMIT).view(np.float32)
        return self._maximum(entry, np.where(inside, numbers(entry.left_format, left), low)), True, False

    def _maximum(self, entry: Instruction, rows: F32) -> F32:
        if entry.reduce in ("reset", "reset_reduce"):
            self.accumulators = np.full(self.config.lanes, -np.inf, np.float32)
        if entry.reduce in ("reduce", "reset_reduce"):
            for row in rows:
                self.accumulators = apply("max", self.accumulators, row)
        return rows

    def _memset(self, entry: Instruction, _left: Any, _right: Any) -> tuple[Any, Any, bool]:
        return np.tile(self._constant(entry.c0, raw=False), (entry.length, 1)), True, False

    def _reciprocal(self, entry: Instruction, left: Any, _right: Any) -> tuple[Any, Any, bool]:
        return reciprocal(numbers(entry.left_format, left)), True, False

    def _rng(self, entry: Instruction, _left: Any, _right: Any) -> tuple[Any, Any, bool]:
        return self.random.stream(entry.length), True, True

    def _max8(self, entry: Instruction, left: Any, _right: Any) -> tuple[Any, Any, bool]:
        return max8(numbers(entry.left_format, left)), True, False

    def _nc_find_index8(self, entry: Instruction, left: Any, _right: Any) -> tuple[Any, Any, bool]:
        rows = numbers(entry.left_format, left)
        return find_index8(rows[SEARCH_SLOTS:], rows[:SEARCH_SLOTS]), True, True

    def _nc_match_replace8(self, entry: Instruction, left: Any, _right: Any) -> tuple[Any, Any, bool]:
        rows = numbers(entry.left_format, left)
        replacement = self._constant(entry.c0, raw=False)
        return match_replace8(rows[SEARCH_SLOTS:], rows[:SEARCH_SLOTS], replacement), True, False

    def _nc_stream_shuffle(self, entry: Instruction, left: Any, _right: Any) -> tuple[Any, Any, bool]:
        result, _, raw = self._tensor_copy(entry, left, None)
        mask = np.broadcast_to(np.asarray(entry.c0, np.uint32), self.config.lanes)
        lanes = np.arange(self.config.lanes)
        sources = lanes // QUADRANT * QUADRANT + mask % QUADRANT
        moved = np.where(sources < self.config.lanes, result[:, np.minimum(sources, self.config.lanes - 1)], 0)
        return moved.astype(result.dtype), mask != KEEP, raw

    def _read_accumulator(self, _entry: Instruction, _left: Any, _right: Any) -> tuple[Any, Any, bool]:
        return self.accumulators[None], True, False


def _ordered(name: str, a: Any, b: Any, reverse: bool) -> Any:
    return apply(name, b, a) if reverse else apply(name, a, b)


def takes(entry: Instruction) -> int:
    """Rows of ``left`` the instruction takes, if it takes any; of others, the results it makes."""
    if entry.opcode in ("read_accumulator", "set_seed"):
        return 1
    return entry.length + (SEARCH_SLOTS if entry.opcode in SEARCHES[1:] else 0)


def issues(entry: Instruction) -> tuple[int, list[int]]:
    """How many rows it issues, and which of them give a result."""
    count = takes(entry)
    if entry.opcode == "set_seed":
        return count, []
    if entry.opcode == "tensor_reduce":
        return count, [index for index in range(count) if (index + 1) % entry.size == 0 or index == count - 1]
    if entry.opcode in SEARCHES[:2]:
        return count + SEARCH_SLOTS, list(range(count, count + SEARCH_SLOTS))
    return count, list(range(count - entry.length if entry.opcode in SEARCHES else 0, count))


def interval(config: VectorConfig, entry: Instruction) -> int:
    """Cycles between rows: what feeds back waits for one or for both operations."""
    waits = {"tensor_tensor_scan": 2, "tensor_reduce": 1}.get(entry.opcode, 0)
    return max(1, waits * config.operation_stages)


def constants_of(entry: Instruction) -> list[U32]:
    """Rows of constants that a legal instruction takes."""
    return [np.asarray(value, np.uint32) for value in (entry.c0, entry.c1) if np.ndim(value)]


def cycles(config: VectorConfig, program: Sequence[Instruction]) -> tuple[list[int], list[int]]:
    """``(cycle of each result row, cycle of each status)`` when streams never stall, from the first instruction's.

    An instruction of N rows occupies the engine for N intervals, a refused one for a cycle. Decoding is one cycle, and
    one for each row of constants, hidden behind the instruction before.
    """
    rows, ends, taken, issued = [], [], 0, 0
    for entry in program:
        done = error_of(config, entry) == "done"
        start = max(taken + 1 + (len(constants_of(entry)) if done else 0), issued)
        step = interval(config, entry) if done else 1
        count, emitting = issues(entry) if done else (1, [])
        rows += [start + 1 + index * step + config.latency for index in emitting]
        issued = start + 1 + (count - 1) * step
        taken = max(taken + 1, start)
        ends.append(issued + config.latency + 1)
    return rows, ends
