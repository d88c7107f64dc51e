"""What the tensor engine computes, bit for bit.

>>> matmul(w, x, "bf16", "bf16")                       # doctest: +SKIP
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from golden.numerics import accumulate, add, to_float32
from golden.tensor.gemm import passes
from golden.tensor.program import Instruction, Judge
from spec.formats import SIGNIFICAND_BITS
from spec.tensor import FP32_HALVES, OPERAND_CODES, Operation, Status, TensorConfig

Codes = NDArray[np.unsignedinteger]
Bits = NDArray[np.uint32]

FORMAT_NAMES = {code: name for name, code in OPERAND_CODES.items()}


def operand_values(name: str, codes: Codes) -> NDArray[np.float32]:
    """Values of operands: ``name`` is a format of at most 12 significant bits, or a half of fp32.

    ``fp32_high`` is the number cut off after 12 significant bits, ``fp32_low`` what that leaves, with the
    number's sign if it is zero. Infinities and NaNs are in the high half alone.
    """
    if name not in FP32_HALVES:
        return to_float32(name, codes)
    with np.errstate(invalid="ignore"):  # signalling NaNs
        values = codes.view(np.float32).astype(np.float64)
    finite = np.isfinite(values)
    fraction, exponent = np.frexp(np.where(finite, values, 0.0))
    high = np.ldexp(np.trunc(np.ldexp(fraction, SIGNIFICAND_BITS)), exponent - SIGNIFICAND_BITS)
    low = np.copysign(np.where(finite, values, 0.0) - high, values)
    return np.where(finite, high, values).astype(np.float32) if name == FP32_HALVES[0] else low.astype(np.float32)


def matmul(
    stationary: Codes, moving: Codes, stationary_format: str, moving_format: str, psum: Bits | None = None
) -> Bits:
    """fp32 bits ``[M, N]`` of one pass, ``stationary.T @ moving`` for codes ``[K, M]`` and ``[K, N]``.

    Each result starts at +0; the products are added in the order of K, each exact before the add, with one rounding per
    add. With ``psum`` (fp32 bits, ``[M, N]``) the finished sum is then added to what it holds, with one more rounding.
    """
    acc = np.zeros((stationary.shape[1], moving.shape[1]), np.float32)
    accumulate(acc, operand_values(stationary_format, stationary), operand_values(moving_format, moving))
    if psum is not None:
        acc = add(acc, psum.view(np.float32))
    return acc.view(np.uint32)


def gemm(config: TensorConfig, stationary: Codes, moving: Codes, stationary_format: str, moving_format: str) -> Bits:
    """fp32 bits ``[M, N]`` of a product of any size: passes of ``rows`` of K each, accumulated in PSUM one by one.

    An fp32 product makes four passes over each tile of K: low by low, low by high, high by low, high by high half.
    """
    result: Bits | None = None
    for start in range(0, stationary.shape[0], config.rows):
        part = slice(start, start + config.rows)
        for one, others in passes(stationary_format, moving_format):
            for other in others:
                result = matmul(stationary[part], moving[part], one, other, result)
    if result is None:
        raise ValueError("K = 0: legal is at least 1")
    return result


class Engine:
    """The state a program sees: weights and PSUM. Executes instruction by instruction, in no time.

    >>> engine = Engine(TensorConfig(rows=2, columns=2, load_columns=1))
    >>> engine.written.any()
    np.False_
    """

    def __init__(self, config: TensorConfig) -> None:
        self.config = config
        self.judge = Judge(config)
        self.shadow = np.zeros((config.rows, config.columns), np.float32)
        self.weights = np.zeros((config.rows, config.columns), np.float32)
        self.psum = np.zeros((config.columns, config.psum_depth), np.uint32)
        """fp32 bits by column of the array and address; where nothing was written the hardware may hold anything."""

    @property
    def written(self) -> NDArray[np.bool_]:
        """By address: whether a matmul has written there since reset."""
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
        values = operand_values(FORMAT_NAMES[instruction.format], operands)
        if instruction.operation == Operation.LOAD_STATIONARY:
            taken = min(
                self.config.columns, -(-instruction.columns // self.config.load_columns) * self.config.load_columns
            )
            self.shadow[:, :taken] = 0
            self.shadow[:, : instruction.columns] = values
            return status
        if fresh:
            self.weights = self.shadow.copy()
        sums = accumulate(np.zeros((self.config.columns, instruction.columns), np.float32), self.weights, values)
        start = self.judge.address(instruction)
        target = self.psum[:, start : start + instruction.columns]
        target[...] = (add(sums, target.view(np.float32)) if instruction.accumulate else sums).view(np.uint32)
        return status


def run(config: TensorConfig, program: Iterable[tuple[Instruction, Codes]]) -> tuple[Engine, list[Status]]:
    """A whole program on an engine fresh from reset."""
    engine = Engine(config)
    return engine, [engine.execute(instruction, operands) for instruction, operands in program]
