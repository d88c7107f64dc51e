"""Matrix products of any size as a program of the tensor engine, and what that program costs."""

import dataclasses
from collections.abc import Iterator

from golden.tensor.program import Instruction, timing
from spec.tensor import Operation, TensorConfig, operand_code


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    """One instruction and the part of the operands it works on, as half-open ranges of K, M and N."""

    instruction: Instruction
    k: range
    m: range
    n: range


def tiles(length: int, size: int) -> Iterator[range]:
    """``range(length)`` cut into ranges of ``size``, the last one shorter where it must be."""
    return (range(start, min(start + size, length)) for start in range(0, length, size))


def groups(config: TensorConfig, m: int, n: int) -> Iterator[tuple[range, range, int]]:
    """The outer loops of a product: ``(M range, N range, first bank)`` of each group of results.

    A group fills up to half of PSUM, so that its results can leave while the next group fills the other half.
    """
    half = max(1, config.psum_banks // 2)
    count = 0
    for m_tile in tiles(m, config.columns):
        for n_group in tiles(n, half * config.bank_depth):
            yield m_tile, n_group, count % (config.psum_banks // half) * half
            count += 1


def group_steps(
    config: TensorConfig, k: int, m_tile: range, n_group: range, bank: int, stationary: int, moving: int
) -> Iterator[Step]:
    """The instructions of one group: each stationary is loaded once and meets every bank of the group.

    ``stationary`` and ``moving`` are the codes of the operand formats.
    """
    for k_tile in tiles(k, config.rows):
        load = Instruction(operation=Operation.LOAD_STATIONARY, format=stationary, columns=len(m_tile))
        yield Step(instruction=load, k=k_tile, m=m_tile, n=range(0))
        for index, n_tile in enumerate(tiles(len(n_group), config.bank_depth)):
            matmul = Instruction(
                operation=Operation.MATMUL,
                format=moving,
                columns=len(n_tile),
                bank=bank + index,
                accumulate=k_tile.start > 0,
            )
            n = range(n_group.start + n_tile.start, n_group.start + n_tile.stop)
            yield Step(instruction=matmul, k=k_tile, m=m_tile, n=n)


def gemm_steps(config: TensorConfig, k: int, m: int, n: int, stationary: int = 0, moving: int = 0) -> Iterator[Step]:
    """The program of ``stationary[K, M].T @ moving[K, N]``, group by group."""
    for m_tile, n_group, bank in groups(config, m, n):
        yield from group_steps(config, k, m_tile, n_group, bank, stationary, moving)


def gemm_cycles(config: TensorConfig, k: int, m: int, n: int) -> int:
    """Cycles of that program from its first instruction to its last status, loading, fill and drain included."""
    code = operand_code(config.formats[0])
    steps = gemm_steps(config, k, m, n, code, code)
    return timing(config, (step.instruction for step in steps))[-1].done + 1


def utilisation(config: TensorConfig, k: int, m: int, n: int, cycles: int) -> float:
    """Useful products over what all elements could have done in ``cycles``."""
    return k * m * n / (config.rows * config.columns * cycles)
