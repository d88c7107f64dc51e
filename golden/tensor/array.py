"""What the tensor engine computes, bit for bit.

>>> matmul(w, x, "bf16", "bf16")                       # doctest: +SKIP
"""

import copy
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from golden.numerics import (
    Xorshift32,
    accumulate,
    add,
    canonical,
    decode,
    encode,
    multiply_add,
    to_float32,
)
from golden.tensor.gemm import passes, rows_of_pass, tiles
from golden.tensor.program import Instruction, Judge
from golden.tensor.sparsity import TAG_SHIFT, all_planes, compress, places, planes, ratio
from spec.formats import FLOATS, FP32, SIGNIFICAND_BITS
from spec.tensor import (
    BITS,
    FP32_HALVES,
    OPERAND_CODES,
    PAIRS,
    QUAD_ROWS,
    QUADS,
    SCALE,
    SPARSE_ROWS,
    Kind,
    Operation,
    ResultFormat,
    Status,
    TensorConfig,
    first_state,
    operand_kind,
)

Codes = NDArray[np.unsignedinteger]
Bits = NDArray[np.uint32]
F32 = NDArray[np.float32]

F64 = NDArray[np.float64]

SCALE_SHIFT = 32
"""Where the scale lies in the word that golden and the driver hold for an operand of four numbers."""

FP8_MINUS_ZERO = 0x80
"""In every FP8 format. As a moving operand of a +0 weight, it changes no sum."""

FORMAT_NAMES = {code: name for name, code in OPERAND_CODES.items()}


def operand_values(name: str, codes: Codes) -> F32:
    """Values of operands: ``name`` is a format of at most 12 significant bits, a half of fp32, or a pair.

    ``fp32_high`` is the number cut off after 12 significant bits, ``fp32_low`` what that leaves, with the number's sign
    if it is zero; infinities and NaNs are in the high half alone. Pairs have one more axis, the first.
    """
    if name in QUADS:
        width = FLOATS[QUADS[name]].storage
        numbers = [codes >> index * width & (1 << width) - 1 for index in range(4)]
        return np.stack([to_float32(QUADS[name], number) for number in numbers])
    if name in PAIRS:
        return np.stack([to_float32(PAIRS[name], codes & 0xFF), to_float32(PAIRS[name], codes >> 8)])
    if name not in FP32_HALVES:
        return to_float32(name, codes)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        values = codes.view(np.float32).astype(np.float64)
    finite = np.isfinite(values)
    fraction, exponent = np.frexp(np.where(finite, values, 0.0))
    high = np.ldexp(np.trunc(np.ldexp(fraction, SIGNIFICAND_BITS)), exponent - SIGNIFICAND_BITS)
    low = np.copysign(np.where(finite, values, 0.0) - high, values)
    return np.where(finite, high, values).astype(np.float32) if name == FP32_HALVES[0] else low.astype(np.float32)


def accumulate_pairs(acc: F32, w: F32, x: F32) -> F32:
    """For ``k`` ascending, ``acc = f32(acc + f32(w[0, k] * x[0, k] + w[1, k] * x[1, k]))``, in place; returns ``acc``.

    ``acc`` is ``[M, N]``, ``w`` ``[2, K, M]``, ``x`` ``[2, K, N]``, of formats whose products fp32 holds exactly.
    """
    with np.errstate(all="ignore"):
        for k in range(w.shape[1]):
            first = w[0, k, :, None] * x[0, k]
            acc += first + w[1, k, :, None] * x[1, k]
    acc[...] = canonical(acc)
    return acc


def accumulate_quads(acc: F32, w: F32, x: F32, scales: tuple[F64, F64]) -> F32:
    """For ``k`` ascending, add to ``acc`` the sum of four products times both scales, rounded once; returns ``acc``.

    The sum of four is ``f32(f32(p0 + p1) + f32(p2 + p3))``. ``acc`` is ``[M, N]``, ``w`` ``[4, K, M]``, ``x`` ``[4, K,
    N]``, the scales ``[K, M]`` and ``[K, N]``.
    """
    with np.errstate(all="ignore"):
        for k in range(w.shape[1]):
            products = w[:, k, :, None] * x[:, k, None, :]
            four = (products[0] + products[1]) + (products[2] + products[3])
            acc = multiply_add(acc, four, scales[0][k, :, None] * scales[1][k])
    return acc


def scale_values(words: Codes) -> F64:
    """Scales of edge words."""
    return decode(SCALE.name, words >> SCALE_SHIFT & 0xFF)


def quads(elements: Codes, scales: Codes, name: str) -> Codes:
    """Edge words ``[P, N]`` of four numbers a row, codes ``[4, P, N]``, and one scale for eight rows, ``[P / 8, N]``.

    The bits of the elements are as in memory; the scale stands above them, from bit 32 on.
    """
    width = FLOATS[QUADS[name]].storage
    words = np.repeat(scales, QUAD_ROWS, axis=0).astype(np.uint64) << np.uint64(SCALE_SHIFT)
    for index, part in enumerate(elements):
        words |= part.astype(np.uint64) << np.uint64(index * width)
    return words


def paired(codes: Codes, zero: int) -> Codes:
    """Pairs ``[ceil(K / 2), N]`` of FP8 codes ``[K, N]``: rows ``k`` and ``k + K/2``; ``zero`` fills the last."""
    half = -(-codes.shape[0] // 2)
    second = np.full((half, codes.shape[1]), zero, np.uint16)
    second[: codes.shape[0] - half] = codes[half:]
    return (codes[:half] | second << 8).astype(np.uint16)


def placed(name: str, codes: Codes) -> Bits:
    """The bits of an element that one pass moves, where they lie in a 32-bit word."""
    mask = {"bits32_low": 0xFFFF, "bits32_high": 0xFFFF0000}.get(name, (1 << BITS[name]) - 1)
    return codes.astype(np.uint32) & np.uint32(mask)


def move(stationary: Bits, moving: Codes) -> Bits:
    """``[M, N]``: the or, over ``k``, of ``stationary[k, m]`` where ``moving[k, n]`` has a bit set."""
    result = np.zeros((stationary.shape[1], moving.shape[1]), np.uint32)
    for bits, chosen in zip(stationary, moving != 0, strict=True):
        result |= np.where(chosen, bits[:, None], np.uint32(0))
    return result


def narrowed(sums: Bits, random: Bits | None = None) -> Bits:
    """fp32 bits rounded to bf16, which stands in the upper half of each word; with random words, stochastically."""
    codes = encode("bf16", sums.view(np.float32), bits=random)
    return codes.astype(np.uint32) << np.uint32(16)


def matmul(
    stationary: Codes, moving: Codes, stationary_format: str, moving_format: str, psum: Bits | None = None
) -> Bits:
    """fp32 bits ``[M, N]`` of one pass, ``stationary.T @ moving`` for codes ``[K, M]`` and ``[K, N]``.

    Each result starts at +0; the products are added in the order of K, each exact before the add, with one rounding per
    add. Pairs and quads (both operands are, or none) add up their products first; see above. With ``psum``
    (fp32 bits, ``[M, N]``) the finished sum is then added to what it holds, with one more rounding. Bits are moved
    instead, and joined with ``psum`` by or: with the identity as moving operand the result is the transpose.
    """
    if stationary_format in BITS:
        moved = move(placed(stationary_format, stationary), moving)
        return moved if psum is None else moved | psum
    acc = np.zeros((stationary.shape[1], moving.shape[1]), np.float32)
    w, x = operand_values(stationary_format, stationary), operand_values(moving_format, moving)
    if stationary_format in QUADS:
        acc = accumulate_quads(acc, w, x, (scale_values(stationary), scale_values(moving)))
    else:
        acc = (accumulate_pairs if stationary_format in PAIRS else accumulate)(acc, w, x)
    if psum is not None:
        acc = add(acc, psum.view(np.float32))
    return acc.view(np.uint32)


def gemm(
    config: TensorConfig,
    stationary: Codes,
    moving: Codes,
    stationary_format: str,
    moving_format: str,
    pattern: str = "",
) -> Bits:
    """fp32 bits ``[M, N]`` of a product of any size: passes of ``rows`` of K each, accumulated in PSUM one by one.

    An fp32 product makes four passes over each tile of K: low by low, low by high, high by low, high by high half. With
    the operands of pairs (``fp8_e4m3_x2``) the codes are those of single numbers; they are paired pass by pass. A
    ``pattern`` of sparsity leaves products with a +0 or -0 of the stationary out, see :mod:`golden.tensor.sparsity`.
    """
    result: Bits | None = None
    for k_tile in tiles(stationary.shape[0], rows_of_pass(config, stationary_format, pattern)):
        w, x = stationary[k_tile.start : k_tile.stop], moving[k_tile.start : k_tile.stop]
        if stationary_format in PAIRS:
            w, x = paired(w, 0), paired(x, FP8_MINUS_ZERO)
        for one, others in passes(stationary_format, moving_format):
            for other in others:
                if pattern:
                    result = sparse_matmul(config, w, x, one, other, pattern, result)
                else:
                    result = matmul(w, x, one, other, result)
    if result is None:
        raise ValueError("K = 0: legal is at least 1")
    return result


def sparse_matmul(
    config: TensorConfig, w: Codes, x: Codes, one: str, other: str, pattern: str, psum: Bits | None = None
) -> Bits:
    """:func:`matmul` for a stationary of structured sparsity, codes as if dense."""
    words = sparse_operands(pattern, one, w)
    moving = operand_values(other, planes(pattern, filled(pattern, x, minus_zero(other))))
    sums = sparse_sums(operand_values(one, untagged(words)), moving, places(words >> TAG_SHIFT))
    return (sums if psum is None else add(sums, psum.view(np.float32))).view(np.uint32)


def sparse_sums(weights: F32, moving: F32, chosen: NDArray[np.int64]) -> F32:
    """Sums ``[M, N]`` of weights ``[K, M]`` times the rows of ``moving`` that ``chosen``, of the same shape, names."""
    sums = np.zeros((weights.shape[1], moving.shape[1]), np.float32)
    for column, total in enumerate(sums):
        accumulate(total[None], weights[:, column, None], moving[chosen[:, column]])
    return sums


def untagged(words: Codes) -> Codes:
    """The operands of words that hold tags too."""
    return (words & (1 << SCALE_SHIFT) - 1).astype(np.uint32)


def sparse_operands(pattern: str, name: str, codes: Codes) -> Codes:
    """The operand words of a sparse stationary ``[K, M]``, K filled up to whole groups of rows."""
    whole = filled(pattern, codes, 0)
    return compress(pattern, operand_values(name, whole) == 0, whole)


def filled(pattern: str, codes: Codes, zero: int) -> Codes:
    """Codes ``[K, N]`` with as many rows of zeros as make whole groups of the array's rows."""
    missing = -codes.shape[0] % (SPARSE_ROWS * ratio(pattern))
    return np.pad(codes, ((0, missing), (0, 0)), constant_values=zero)


def minus_zero(name: str) -> int:
    """-0 of a format: as moving operand of a +0 weight it changes no sum."""
    return 1 << (FP32 if name in FP32_HALVES else FLOATS[name]).storage - 1


class Weights:
    """The weights of all elements: a number or two, or bits, whatever a load of each column left there."""

    def __init__(self, config: TensorConfig) -> None:
        self.numbers = np.zeros((4, config.rows, config.columns), np.float32)
        self.scales = np.zeros((config.rows, config.columns), np.float64)
        self.bits = np.zeros((config.rows, config.columns), np.uint32)
        self.kinds = np.full(config.columns, Kind.NUMBER)
        self.config = config
        self.tagged = np.zeros(config.columns, np.bool_)
        """Columns whose weights are multiplied with what their tags say."""
        self.tags = np.zeros((config.rows, config.columns), np.uint8)

    def copy(self) -> "Weights":
        """The same weights, which later loads do not change."""
        other = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                setattr(other, name, value.copy())
        return other

    def load(self, name: str, codes: Codes, columns: slice, *, sparse: bool = False) -> None:
        """Fill ``columns`` with the codes, with zeros where there are fewer."""
        self.numbers[..., columns], self.bits[:, columns], self.kinds[columns] = 0, 0, operand_kind(name)
        self.scales[:, columns] = 2.0**-SCALE.bias
        given = slice(columns.start, columns.start + codes.shape[1])
        self.tagged[columns], self.tags[:, columns] = sparse, 0
        if sparse:
            self.tags[:, given] = codes >> TAG_SHIFT
            codes = untagged(codes)
        if name in BITS:
            self.bits[:, given] = placed(name, codes)
        elif name in PAIRS:
            self.numbers[:2, :, given] = operand_values(name, codes)
        elif name in QUADS:
            self.numbers[..., given] = operand_values(name, codes)
            self.scales[:, given] = scale_values(codes)
        else:
            self.numbers[0][:, given] = operand_values(name, codes)

    def multiply(self, name: str, codes: Codes, rows: slice) -> F32:
        """Column sums ``[columns, N]`` of a tile of rows, of moving operands ``[planes * rows, N]``.

        A column loaded with another kind counts the first of several numbers alone.
        """
        config = self.config
        values = operand_values(name, codes)
        first = values[0] if name in PAIRS or name in QUADS else values
        own = values[..., : config.rows, :][..., rows, :]
        sums = np.zeros((config.columns, codes.shape[1]), np.float32)
        dense = ~self.tagged
        sums[dense] = accumulate(sums[dense], self.numbers[0][rows][:, dense], first[: config.rows][rows])
        sparse, chosen = self.tagged, places(self.tags)[rows]
        sums[sparse] = sparse_sums(self.numbers[0][rows][:, sparse], first, chosen[:, sparse])
        packed = self.kinds == operand_kind(name)
        zeros = np.zeros_like(sums[packed])
        if name in PAIRS:
            sums[packed] = accumulate_pairs(zeros, self.numbers[:2, rows][..., packed], own)
        elif name in QUADS:
            scales = self.scales[rows][:, packed], scale_values(codes[: config.rows][rows])
            sums[packed] = accumulate_quads(zeros, self.numbers[:, rows][..., packed], own, scales)
        return sums


class Engine:
    """The state a program sees: weights and PSUM. Executes instruction by instruction, in no time.

    >>> engine = Engine(TensorConfig(rows=2, columns=2, load_columns=1))
    >>> engine.written.any()
    np.False_
    """

    def __init__(self, config: TensorConfig) -> None:
        self.config = config
        self.judge = Judge(config)
        self.shadow = Weights(config)
        self.weights = self.shadow.copy()
        lanes = np.arange(config.tiles * config.columns).reshape(config.tiles, config.columns)
        self.first_states = np.vectorize(first_state, otypes=[np.uint32])(lanes)
        self.random = [Xorshift32(states) for states in self.first_states]
        """The generators of stochastic rounding: for each tile of rows, one a column."""
        self.psum = np.zeros((config.columns, config.psum_depth), np.uint32)
        """fp32 bits by column of the array and address; where nothing was written the hardware may hold anything."""

    @property
    def written(self) -> NDArray[np.bool_]:
        """By tile of columns and address: whether a matmul has written there since reset."""
        return self.judge.written

    def execute(self, instruction: Instruction, operands: Codes) -> Status:
        """Run one instruction on its operands, ``[rows, columns]`` codes. A refused one changes no result.

        A load of fewer columns than the array has leaves the others with what was loaded into them before; but it fills
        whole groups of ``load_columns``, the columns that its operands leave open with zeros.
        """
        fresh = self.judge.fresh
        status = self.judge.status(instruction)
        if status != Status.OK:
            return status
        name = FORMAT_NAMES[instruction.format]
        if instruction.operation == Operation.LOAD_STATIONARY:
            taken = -(-instruction.columns // self.config.load_columns) * self.config.load_columns
            columns = slice(instruction.offset, instruction.offset + taken)
            self.shadow.load(name, operands, columns, sparse=instruction.sparse)
            return status
        if fresh:
            self.weights = self.shadow.copy()
        moving = all_planes(self.config, operands)
        step = self.config.rows >> instruction.split
        for tile, place in enumerate(self.judge.places(instruction)):
            rows = slice(tile * step, (tile + 1) * step)
            self._write(instruction, tile, place, self._sums(instruction, name, moving, rows, place))
        return status

    def _sums(self, instruction: Instruction, name: str, moving: Codes, rows: slice, place: slice) -> Bits:
        """What a tile of rows gives for its places in PSUM."""
        old = self.psum[:, place]
        if name in BITS:
            moved = move(self.weights.bits[rows], moving[: self.config.rows][rows])
            return moved | old if instruction.accumulate else moved
        sums = self.weights.multiply(name, moving, rows)
        return (add(sums, old.view(np.float32)) if instruction.accumulate else sums).view(np.uint32)

    def _write(self, instruction: Instruction, tile: int, place: slice, sums: Bits) -> None:
        """Round and write, but for the masked tiles of columns; every column draws its random bits, masked or not."""
        if instruction.result == ResultFormat.BF16:
            sums = narrowed(sums)
        elif instruction.result == ResultFormat.BF16_STOCHASTIC:
            sums = narrowed(sums, self.random[tile].stream(sums.shape[1]).T)
        step = self.config.columns // self.config.tiles
        for part in self.judge.unmasked(instruction):
            self.psum[part * step : (part + 1) * step, place] = sums[part * step : (part + 1) * step]

    def reseed(self, seed: int) -> None:
        """Restart the generators, each from the exclusive or of the seed and its first state."""
        mixed = self.first_states ^ np.uint32(seed)
        self.random = [Xorshift32(states) for states in np.where(mixed == 0, self.first_states, mixed)]


def run(config: TensorConfig, program: Iterable[tuple[Instruction, Codes]]) -> tuple[Engine, list[Status]]:
    """A whole program on an engine fresh from reset."""
    engine = Engine(config)
    return engine, [engine.execute(instruction, operands) for instruction, operands in program]
