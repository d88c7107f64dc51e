"""Matrix products of any size as a program of the tensor engine, and what that program costs."""

import dataclasses
from collections.abc import Iterator

from golden.tensor.program import Instruction, timing
from golden.tensor.sparsity import ratio
from spec.formats import FP32
from spec.parameters import ParameterError
from spec.tensor import BITS, FP32_HALVES, PAIRS, Operation, TensorConfig, operand_code


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


def rows_of_pass(config: TensorConfig, name: str, pattern: str = "") -> int:
    """K of one pass: twice the rows where operands are pairs, up to four times with a ``pattern`` of sparsity."""
    return config.rows * (ratio(pattern) if pattern else 2 if name in PAIRS else 1)


def passes(stationary: str, moving: str) -> list[tuple[str, tuple[str, ...]]]:
    """Operands of the passes over one tile of K: each stationary, and what moves past it.

    One pass, or for fp32 four: low by low, low by high, high by low, high by high half.
    """
    if FP32.name not in (stationary, moving):
        return [(stationary, (moving,))]
    if stationary != moving:
        raise ParameterError(f"fp32 is multiplied with fp32 only: legal is not {stationary} with {moving}")
    high, low = FP32_HALVES
    return [(low, (low, high)), (high, (low, high))]


def group_steps(
    config: TensorConfig,
    k: int,
    m_tile: range,
    n_group: range,
    bank: int,
    stationary: str,
    moving: str,
    pattern: str = "",
) -> Iterator[Step]:
    """The instructions of one group: each stationary is loaded once and meets every bank of the group.

    ``stationary`` and ``moving`` are the operand formats, ``pattern`` is that of a sparse stationary.
    """
    kinds = passes(stationary, moving)
    for k_tile in tiles(k, rows_of_pass(config, stationary, pattern)):
        for one, others in kinds:
            load = Instruction(
                operation=Operation.LOAD_STATIONARY,
                format=operand_code(one),
                columns=len(m_tile),
                sparse=bool(pattern),
            )
            yield Step(instruction=load, k=k_tile, m=m_tile, n=range(0))
            for other in others:
                first = k_tile.start == 0 and (one, other) == (kinds[0][0], kinds[0][1][0])
                yield from _matmuls(config, k_tile, m_tile, n_group, bank, operand_code(other), first)


def _matmuls(
    config: TensorConfig, k_tile: range, m_tile: range, n_group: range, bank: int, moving: int, first: bool
) -> Iterator[Step]:
    """One pass: a matmul for each bank, overwriting if it is the ``first``."""
    for index, n_tile in enumerate(tiles(len(n_group), config.bank_depth)):
        matmul = Instruction(
            operation=Operation.MATMUL, format=moving, columns=len(n_tile), bank=bank + index, accumulate=not first
        )
        n = range(n_group.start + n_tile.start, n_group.start + n_tile.stop)
        yield Step(instruction=matmul, k=k_tile, m=m_tile, n=n)


def gemm_steps(
    config: TensorConfig, k: int, m: int, n: int, stationary: str, moving: str, pattern: str = ""
) -> Iterator[Step]:
    """The program of ``stationary[K, M].T @ moving[K, N]``, group by group."""
    for m_tile, n_group, bank in groups(config, m, n):
        yield from group_steps(config, k, m_tile, n_group, bank, stationary, moving, pattern)


def transpose_steps(config: TensorConfig, p: int, f: int, width: int) -> Iterator[Step]:
    """The program that transposes ``[P, F]`` elements of 8, 16 or 32 bits, one bank of PSUM for each tile in turn.

    The data are the stationary (``k`` and ``m`` of a step), the identity moves (``n``). 32 bits take two passes.
    """
    names = [name for name, bits in BITS.items() if bits == width]
    index = 0
    for p_tile in tiles(p, min(config.rows, config.bank_depth)):
        for f_tile in tiles(f, config.columns):
            for half, name in enumerate(names):
                code, bank = operand_code(name), index % config.psum_banks
                load = Instruction(operation=Operation.LOAD_STATIONARY, format=code, columns=len(f_tile))
                yield Step(instruction=load, k=p_tile, m=f_tile, n=range(0))
                matmul = Instruction(
                    operation=Operation.MATMUL, format=code, columns=len(p_tile), bank=bank, accumulate=half > 0
                )
                yield Step(instruction=matmul, k=p_tile, m=f_tile, n=p_tile)
            index += 1


def gemm_cycles(config: TensorConfig, k: int, m: int, n: int, name: str = "", pattern: str = "") -> int:
    """Cycles of that program from its first instruction to its last status, loading, fill and drain included.

    ``name`` is the format of both operands (``fp8_e5m2_x2``: FP8 at twice the rate), by default the first that the
    configuration has; ``pattern`` that of a sparse stationary.
    """
    steps = gemm_steps(config, k, m, n, name or config.formats[0], name or config.formats[0], pattern)
    return timing(config, (step.instruction for step in steps))[-1].done + 1


def best_cycles(config: TensorConfig, k: int, m: int, n: int) -> int:
    """The smaller of both ways to compute a product: either operand can be the stationary, the other moves."""
    return min(gemm_cycles(config, k, m, n), gemm_cycles(config, k, n, m))


def utilisation(config: TensorConfig, k: int, m: int, n: int, cycles: int) -> float:
    """Useful products over what all elements could have done in ``cycles``."""
    return k * m * n / (config.rows * config.columns * cycles)
