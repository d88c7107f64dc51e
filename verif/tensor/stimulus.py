"""Programs for the tensor engine: random ones, operands of every class, and instructions that are refused."""

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from golden.tensor.array import quads
from golden.tensor.program import Instruction, Judge
from golden.tensor.sparsity import TAG_SHIFT
from spec.formats import FLOATS, FP32, FloatFormat
from spec.tensor import (
    BITS,
    FP32_HALVES,
    MOST_TILES,
    OPERAND_CODE_BITS,
    OPERAND_CODES,
    PAIRS,
    QUAD_ROWS,
    QUADS,
    SCALE,
    TAG_BITS,
    Kind,
    Operation,
    ResultFormat,
    Status,
    TensorConfig,
    operand_code,
    operand_kind,
)

Codes = NDArray[np.unsignedinteger]
Program = list[tuple[Instruction, Codes]]

CLASSES = ("any", "moderate", "subnormal", "extreme", "special", "close", "spread")
"""Any pattern; numbers near 1; mostly subnormals; largest and smallest exponents; infinities, NaNs, zeros mixed in;
just above and below powers of two, whose sums cancel; few bits far apart, of which one decides how a sum is rounded."""


def operands(rng: np.random.Generator, name: str, shape: tuple[int, int], kind: str) -> Codes:
    """Codes of a format, of one of :data:`CLASSES`."""
    if name in PAIRS:
        first, second = (operands(rng, PAIRS[name], shape, kind).astype(np.uint16) for _ in range(2))
        return (first | second << 8).astype(np.uint16)
    if name in QUADS:
        elements = np.stack([operands(rng, QUADS[name], shape, kind) for _ in range(4)])
        low, high = (0, 256) if kind in ("any", "special") else (SCALE.bias - 4, SCALE.bias + 4)
        scales = rng.integers(low, high, (shape[0] // QUAD_ROWS, shape[1]))
        return quads(elements, scales.astype(np.uint8), name)
    if name in BITS:
        codes = rng.integers(0, 1 << BITS[name], shape)
        dtype = {8: np.uint8, 16: np.uint16, 32: np.uint32}[BITS[name]]
        return np.where(rng.random(shape) < 0.5, 0, codes).astype(dtype)
    entry = FP32 if name in FP32_HALVES else FLOATS[name]
    codes = rng.integers(0, 1 << entry.width, shape)
    field_mask = (1 << entry.exponent_bits) - 1 << entry.mantissa_bits
    if kind == "moderate":
        codes = _with_field(entry, codes, entry.bias + rng.integers(-2, 3, shape))
    elif kind == "subnormal":
        codes = np.where(rng.random(shape) < 0.7, codes & ~field_mask, codes)
    elif kind == "extreme":
        top = (1 << entry.exponent_bits) - 1 - int(entry.infinity)
        codes = _with_field(entry, codes, np.where(rng.random(shape) < 0.5, 1, top))
    elif kind == "special":
        codes = _with_field(entry, codes, entry.bias + rng.integers(-2, 3, shape))
        sign = codes & 1 << (entry.width - 1)
        values = [0, entry.infinity_pattern or 0, entry.nan_pattern or 0, entry.max_finite]
        codes = np.where(rng.random(shape) < 0.2, sign | rng.choice(values, shape), codes)
    elif kind == "close":
        ones, few = (1 << entry.mantissa_bits) - 1, rng.integers(0, 4, shape)
        near = np.where(rng.random(shape) < 0.5, few, ones - few) & ones
        codes = _with_field(entry, codes & ~ones | near, entry.bias + rng.integers(-1, 2, shape))
    elif kind == "spread":
        ones = (1 << entry.mantissa_bits) - 1
        bit = np.left_shift(1, rng.integers(0, entry.mantissa_bits + 1, shape)) & ones
        codes = _with_field(entry, codes & ~ones | bit, entry.bias + rng.integers(-14, 15, shape))
    dtype = np.uint8 if entry.storage <= 8 else np.uint16 if entry.storage <= 16 else np.uint32
    return (codes << (entry.storage - entry.width)).astype(dtype)


def _with_field(entry: FloatFormat, codes: NDArray[np.int64], field: NDArray[np.int64]) -> NDArray[np.int64]:
    """The codes with another exponent field."""
    mask = (1 << entry.exponent_bits) - 1 << entry.mantissa_bits
    limited = np.clip(field, 0, (1 << entry.exponent_bits) - 1 - int(entry.infinity))
    return codes & ~mask | limited << entry.mantissa_bits


def sparsified(codes: Codes, kept: int, block: int) -> Codes:
    """Codes ``[K, M]`` of which every ``block`` rows of a column have at most ``kept`` that are not zero.

    Which these are moves on from block to block and from column to column, through all positions.
    """
    rows, columns = np.indices(codes.shape)
    position = (rows + rows // block + 3 * columns) % block
    return np.where(position * kept // block != (position - 1) * kept // block, codes, 0).astype(codes.dtype)


class Writer:
    """Writes programs for one configuration; every choice comes from ``rng``."""

    def __init__(self, config: TensorConfig, rng: np.random.Generator) -> None:
        self.config, self.rng = config, rng
        self.kind = Kind.NUMBER

    def load(
        self,
        columns: int | None = None,
        kind: str = "any",
        name: str | None = None,
        *,
        offset: int = 0,
        sparse: bool = False,
    ) -> tuple[Instruction, Codes]:
        """A load with random operands; a sparse one has random tags, for which any moving operand is the right one."""
        name = str(self.rng.choice(self.config.operands)) if name is None else name
        self.kind = operand_kind(name)
        columns = self.config.columns - offset if columns is None else columns
        instruction = Instruction(
            operation=Operation.LOAD_STATIONARY,
            format=operand_code(name),
            columns=columns,
            offset=offset,
            sparse=sparse,
        )
        codes = operands(self.rng, name, (self.config.rows, columns), kind)
        if sparse:
            tags = self.rng.integers(0, 1 << TAG_BITS, codes.shape, dtype=np.uint64)
            codes = codes.astype(np.uint64) | tags << np.uint64(TAG_SHIFT)
        return instruction, codes

    def matmul(
        self,
        columns: int,
        address: int,
        *,
        accumulate: bool = False,
        kind: str = "any",
        name: str | None = None,
        split: int = 0,
        masked: int = 0,
        result: int = ResultFormat.FP32,
    ) -> tuple[Instruction, Codes]:
        """A matmul with random operands, of the last load's kind."""
        if name is None:
            name = str(self.rng.choice([one for one in self.config.operands if operand_kind(one) == self.kind]))
        bank, offset = divmod(address, self.config.bank_depth)
        instruction = Instruction(
            operation=Operation.MATMUL,
            format=operand_code(name),
            columns=columns,
            bank=bank,
            offset=offset,
            accumulate=accumulate,
            split=split,
            masked=masked,
            result=result,
        )
        return instruction, operands(self.rng, name, (self.config.planes * self.config.rows, columns), kind)

    def random(self, length: int, errors: float = 0.0) -> Program:
        """``length`` instructions, legal ones but for a share of ``errors``; accumulation wherever that is legal."""
        judge = Judge(self.config)
        program: Program = []
        while len(program) < length:
            instruction, codes = self._refused() if self.rng.random() < errors else self._legal(judge)
            if judge.status(instruction) == Status.OK or errors:
                program.append((instruction, codes))
        return program

    def steady(self, pairs: int, columns: int, kind: str = "moderate") -> Program:
        """Loads and matmuls in turn, as in a large product: overwrite, then accumulate, over all banks."""
        banks = self.config.psum_banks
        program: Program = []
        for index in range(pairs):
            address = index % banks * self.config.bank_depth
            load = self.load(kind=kind)
            program += [load, self.matmul(columns, address, accumulate=index >= banks, kind=kind)]
        return program

    def _legal(self, judge: Judge) -> tuple[Instruction, Codes]:
        rng = self.rng
        kind = str(rng.choice(CLASSES))
        if not judge.loaded or rng.random() < 0.4:
            return self._legal_load(kind)
        return self._legal_matmul(judge, kind)

    def _legal_load(self, kind: str) -> tuple[Instruction, Codes]:
        config, rng = self.config, self.rng
        name = str(rng.choice(config.operands))
        sparse = bool(config.sparsity and operand_kind(name) == Kind.NUMBER and rng.random() < 0.6)
        if rng.random() < 0.5:
            return self.load(None, kind, name, sparse=sparse)
        offset = int(rng.integers(config.load_cycles)) * config.load_columns
        columns = int(rng.integers(1, config.columns - offset + 1))
        return self.load(columns, kind, name, offset=offset, sparse=sparse)

    def _legal_matmul(self, judge: Judge, kind: str) -> tuple[Instruction, Codes]:
        config, rng = self.config, self.rng
        split = int(rng.integers(config.splits))
        most = config.bank_depth if split else config.moving_columns
        columns = int(rng.integers(1, min(most, 4 if rng.random() < 0.5 else most) + 1))
        if config.whole_psum and not split:
            address = int(rng.integers(config.psum_depth - columns + 1))
        else:
            bank = int(rng.integers(config.psum_banks - (1 << split) + 1))
            address = bank * config.bank_depth + int(rng.integers(config.bank_depth - columns + 1))
        masked = int(rng.integers(1 << config.tiles)) if config.tiles > 1 and rng.random() < 0.5 else 0
        narrow = config.bf16_results and self.kind != Kind.BITS
        result = int(rng.integers(len(ResultFormat))) if narrow else ResultFormat.FP32
        instruction, codes = self.matmul(columns, address, kind=kind, split=split, masked=masked, result=result)
        again = dataclasses.replace(instruction, accumulate=True)
        accumulate = judge.verdict(again) == Status.OK and rng.random() < 0.8
        return again if accumulate else instruction, codes

    def _refused(self) -> tuple[Instruction, Codes]:
        """An instruction with one illegal field, or an accumulation that may be illegal."""
        config, rng = self.config, self.rng
        loading = rng.random() < 0.3
        instruction, codes = self.load() if loading else self.matmul(1, int(rng.integers(config.psum_depth)))
        most = config.columns if loading else config.moving_columns
        beyond = (1 << config.columns_bits) - 1
        unknown = sorted({*range(1 << OPERAND_CODE_BITS)} - {OPERAND_CODES[name] for name in config.operands})
        others = [name for name in config.operands if operand_kind(name) != self.kind]
        packed = [name for name in config.operands if operand_kind(name) != Kind.NUMBER]
        changes: list[dict[str, Any]] = [
            {"format": int(rng.choice(unknown))} if unknown else {"columns": 0},
            {"columns": 0},
            {"columns": int(rng.integers(most + 1, min(beyond, 2 * most) + 1))},
        ]
        if loading:
            changes += [
                {"columns": 1, "offset": config.columns},
                {"columns": 1, "offset": 1} if config.load_columns > 1 else {"columns": config.columns, "offset": 1},
            ]
            if packed or not config.sparsity:
                changes.append({"sparse": True} | ({"format": operand_code(packed[0])} if packed else {}))
        else:
            changes += [
                {"columns": 2, "offset": config.bank_depth - 1, "bank": config.psum_banks - 1},
                {"offset": config.bank_depth},
                {"bank": (1 << config.psum_banks.bit_length()) - 1},
                {"accumulate": True},
                {"format": operand_code(str(rng.choice(others)))} if others else {"columns": 0},
                {"split": config.splits},
                {"split": config.splits - 1, "bank": config.psum_banks - 1, "columns": 2, "offset": 0},
                {"masked": 1 << config.tiles if 1 < config.tiles < MOST_TILES else 1 << MOST_TILES - 1},
                {"result": len(ResultFormat) if config.bf16_results else 1},
            ]
        change = changes[int(rng.integers(len(changes)))]
        refused = dataclasses.replace(instruction, **change)
        return refused, codes[:, np.arange(refused.columns) % codes.shape[1]]


def single_accumulations(writer: Writer, count: int) -> Program:
    """One column accumulated onto one location again and again: each waits for the one before."""
    first: Program = [writer.load(kind="moderate"), writer.matmul(1, 0, kind="moderate")]
    return first + [writer.matmul(1, 0, accumulate=True, kind="moderate") for _ in range(count)]


def overlapping(writer: Writer, count: int) -> Program:
    """Matmuls that accumulate onto ranges which overlap the one before by all but one column, in both directions."""
    width = max(1, min(6, writer.config.bank_depth - 2))
    program: Program = [writer.load(kind="moderate"), writer.matmul(writer.config.bank_depth, 0, kind="moderate")]
    for index in range(count):
        program.append(writer.matmul(width, (0, 1, 2, 1)[index % 4], accumulate=True, kind="moderate"))
    return program
