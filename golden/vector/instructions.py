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
from golden.vector.movement import stream_shuffle, transpose
from golden.vector.operations import apply, reciprocal
from golden.vector.quantize import quantize_mx, rows_of_blocks
from golden.vector.search import find_index8, match_replace8, max8
from golden.vector.statistics import bn_aggr, bn_stats
from spec.formats import FLOATS, INTS
from spec.vector import (
    COMPARISONS,
    LENGTH_MAX,
    MX_ELEMENTS,
    MX_ROWS,
    NEGATIVE_LIMIT,
    OPCODES,
    OPERATIONS,
    PACKABLE,
    PACKED_BITS,
    SEARCH_SLOTS,
    SEARCHES,
    STATS_MAX,
    STATS_ROWS,
    TRIPLE,
    VectorConfig,
    steps_behind,
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
    packed: int = 0

    @property
    def ways(self) -> int:
        """Elements of a lane in one row."""
        return 1 << self.packed

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
LAST_OPERATION = {"tensor_tensor": "op0", "tensor_scalar": "op1", "scalar_tensor_tensor": "op1"}
"""Where an operation that is legal as the last one only may stand; also as ``op0`` before ``bypass``."""


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
    legal = config.formats
    if entry.opcode == "quantize_mx":
        legal = tuple(name for name in config.formats if name in MX_ELEMENTS)
    if entry.opcode != "set_seed" and entry.output_format not in legal:
        return "bad_output_format"
    if not _length_fits(config, entry):
        return "bad_length"
    if entry.opcode == "tensor_reduce" and not 0 < entry.size <= entry.length:
        return "bad_group"
    return "done" if entry.packed == 0 or _packing_fits(config, entry) else "bad_packing"


def _length_fits(config: VectorConfig, entry: Instruction) -> bool:
    most = {"bn_stats": STATS_MAX}.get(entry.opcode, LENGTH_MAX)
    whole = {"bn_aggr": TRIPLE, "quantize_mx": MX_ROWS, "nc_transpose": config.block}.get(entry.opcode, 1)
    return 0 < entry.length <= most and entry.length % whole == 0


def _packing_fits(config: VectorConfig, entry: Instruction) -> bool:
    formats = {entry.left_format, entry.output_format}
    formats |= {entry.right_format} if entry.opcode in TWO_OPERANDS else set()
    narrow = all(codes.storage_bits(codes.element_named(name)) == PACKED_BITS for name in formats)
    slow = entry.opcode in OPERATION_USERS and any(OPERATIONS[name].last for name in (entry.op0, entry.op1))
    fits = entry.ways <= min(config.ways, PACKABLE.get(entry.opcode, 1)) and entry.length % entry.ways == 0
    return narrow and fits and not slow and not entry.stochastic


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
    alone = entry.op1 == "bypass" and not entry.reverse1 and entry.opcode in LAST_OPERATION
    if OPERATIONS[entry.op0].last and not alone:
        return False
    if OPERATIONS[entry.op1].last and LAST_OPERATION.get(entry.opcode) != "op1":
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
        """``(results [rows, lanes], written [rows, lanes], status)``.

        Rows of a packed instruction are words of its elements, those of ``left`` below those of ``right``.
        """
        status = error_of(self.config, entry)
        nothing = np.empty((0, self.config.lanes), np.uint32)
        if status != "done" or entry.opcode == "set_seed":
            if status == "done":
                seeds = np.broadcast_to(np.asarray(entry.c0, np.uint32), self.config.lanes)
                self.random = Xorshift32(np.where(seeds == 0, np.uint32(1), seeds))
            return nothing, nothing.astype(bool), status
        if entry.packed:
            left, right = _unpack(entry, left, right)
        result, written, raw = getattr(self, f"_{entry.opcode}", self._operations)(entry, left, right)
        words = _pack(entry, self._words(entry, result, raw))
        return words, np.broadcast_to(written, words.shape), status

    def _words(self, entry: Instruction, result: Any, raw: bool) -> U32:
        """Results as codes of the output format."""
        if entry.opcode == "quantize_mx":
            return result
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
        moved, written = stream_shuffle(result, np.broadcast_to(np.asarray(entry.c0, np.uint32), self.config.lanes))
        return moved, written, raw

    def _nc_transpose(self, entry: Instruction, left: Any, _right: Any) -> tuple[Any, Any, bool]:
        return self._tensor_copy(entry, transpose(left, self.config.block), None)

    def _bn_stats(self, entry: Instruction, left: Any, _right: Any) -> tuple[Any, Any, bool]:
        return bn_stats(numbers(entry.left_format, left)), True, False

    def _bn_aggr(self, entry: Instruction, left: Any, _right: Any) -> tuple[Any, Any, bool]:
        return bn_aggr(numbers(entry.left_format, left)), True, False

    def _quantize_mx(self, entry: Instruction, left: Any, _right: Any) -> tuple[Any, Any, bool]:
        lanes = self.config.scale_lanes
        found, scales = quantize_mx(numbers(entry.left_format, left), entry.output_format, lanes)
        rows = rows_of_blocks(found, scales, FLOATS[entry.output_format].width, lanes)
        first = np.arange(self.config.lanes) % lanes == 0
        return rows, (np.arange(len(rows))[:, None] % 2 == 1) | first, True

    def _read_accumulator(self, _entry: Instruction, _left: Any, _right: Any) -> tuple[Any, Any, bool]:
        return self.accumulators[None], True, False


def _ordered(name: str, a: Any, b: Any, reverse: bool) -> Any:
    return apply(name, b, a) if reverse else apply(name, a, b)


def _unpack(entry: Instruction, left: Any, right: Any) -> tuple[Any, Any]:
    """Elements ``[length, lanes]`` of rows of words."""

    def elements(rows: Any, count: int) -> Any:
        parts = [rows.astype(np.uint64) >> np.uint64(PACKED_BITS * index) & np.uint64(0xFFFF) for index in range(count)]
        return np.stack(parts, axis=1).reshape(-1, rows.shape[1]).astype(np.uint32)

    if entry.opcode in TWO_OPERANDS:
        return elements(left, entry.ways), elements(right, entry.ways)
    if entry.ways == 2:
        return elements(left, 2), None
    return elements(left.astype(np.uint64) | right.astype(np.uint64) << np.uint64(32), 4), None


def _pack(entry: Instruction, words: Any) -> Any:
    """Rows of words of the elements of a packed instruction; others as they are."""
    if not entry.packed:
        return words
    parts = words.reshape(-1, entry.ways, words.shape[1]).astype(np.uint64)
    packed = sum(parts[:, index] << np.uint64(PACKED_BITS * index) for index in range(entry.ways))
    return packed if entry.ways * PACKED_BITS > 32 else np.asarray(packed).astype(np.uint32)


def takes(entry: Instruction) -> int:
    """Rows of ``left`` the instruction takes, if it takes any; of others, the results it makes."""
    if entry.opcode in ("read_accumulator", "set_seed"):
        return 1
    return entry.length // entry.ways + (SEARCH_SLOTS if entry.opcode in SEARCHES[1:] else 0)


def takes_right(entry: Instruction) -> int:
    """Rows of ``right`` a legal instruction takes."""
    return entry.length // entry.ways if entry.opcode in TWO_OPERANDS or entry.ways == 4 else 0


def issues(config: VectorConfig, entry: Instruction) -> tuple[int, list[int]]:
    """How many rows it issues, and which of them give a result."""
    taken = takes(entry)
    count = taken + steps_behind(config, entry.opcode)
    if entry.opcode == "set_seed":
        return count, []
    if entry.opcode == "tensor_reduce":
        return count, [index for index in range(count) if (index + 1) % entry.size == 0 or index == count - 1]
    if entry.opcode == "bn_stats":
        return count, [taken + step for step in STATS_ROWS]
    if entry.opcode == "bn_aggr":
        return count, [count - 2, count - 1]
    if entry.opcode == "quantize_mx":
        return count, [index for index in range(MX_ROWS, count) if index % MX_ROWS in (0, MX_ROWS - 1)]
    if entry.opcode in (*SEARCHES[:2], "nc_transpose"):
        return count, list(range(count - (entry.length if entry.opcode == "nc_transpose" else SEARCH_SLOTS), count))
    return count, list(range(SEARCH_SLOTS if entry.opcode in SEARCHES else 0, count))


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
        count, emitting = issues(config, entry) if done else (1, [])
        rows += [start + 1 + index * step + config.latency for index in emitting]
        issued = start + 1 + (count - 1) * step
        taken = max(taken + 1, start)
        ends.append(issued + config.latency + 1)
    return rows, ends
