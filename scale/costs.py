"""What one chip takes for its share of the work: the golden cost functions, spread over its cores.

Matrix products cost the cycles of ``golden.tensor.gemm`` on the cores of the chip, in the better of two orientations
and of two ways to cut them over cores. Element-wise passes cost one row of partitions a cycle, as the vector and scalar
engines are specified. Nothing is fitted.
"""

import functools
import math

from golden.tensor.gemm import gemm_cycles
from spec.machine import ChipConfig
from spec.tensor import TensorConfig

STEADY_TILES = 3
"""Tiles of each loop that are run through the golden model; from there on each further tile costs the same (a test)."""


@functools.cache
def product_cycles(config: TensorConfig, k: int, m: int, n: int) -> int:
    """Cycles of ``stationary[K, M].T @ moving[K, N]`` on one core: ``golden.tensor.gemm.gemm_cycles`` for any size.

    Its loops repeat, so sizes above :data:`STEADY_TILES` tiles are continued from two smaller ones, exactly.
    """
    steps = {"k": config.rows, "m": 2 * config.columns, "n": max(2, config.psum_banks // 2 * 2) * config.bank_depth}
    sizes = {"k": k, "m": m, "n": n}
    for name, step in steps.items():
        beyond = -(-sizes[name] // step) - STEADY_TILES
        if beyond > 0:
            near = product_cycles(config, **sizes | {name: sizes[name] - beyond * step})
            before = product_cycles(config, **sizes | {name: sizes[name] - (beyond + 1) * step})
            return near + beyond * (near - before)
    return gemm_cycles(config, k, m, n)


def product_seconds(chip: ChipConfig, tokens: int, k: int, features: int, rate: int = 1) -> float:
    """Seconds a chip takes for ``[tokens, K] @ [K, features]``: its cores cut the results, no sum crosses cores.

    ``rate`` is products an element and cycle (FP8): each element then takes so many places of K at once.
    """
    config, cores = chip.core.tensor, chip.cores
    k = -(-k // rate)
    cuts = [(-(-tokens // cores), features), (tokens, -(-features // cores))]
    cycles = min(min(product_cycles(config, k, a, b), product_cycles(config, k, b, a)) for a, b in cuts)
    return cycles / (chip.core.tensor_clock_ghz * 1e9)


def attention_seconds(
    chip: ChipConfig, units: int, queries: int, context: int, head: int, rate: int = 1, products: int = 2
) -> float:
    """Seconds for ``units`` independent (sequence, key head) pairs of ``queries`` rows against ``context`` keys.

    ``products`` counts products of the two kinds together (forward 2: scores and values; backward 5). Units are dealt
    to cores; where there are fewer units than cores, cores share a unit by its keys.
    """
    config, cores = chip.core.tensor, chip.cores
    share = max(1, cores // units)
    keys = -(-context // share)
    scores = product_cycles(config, -(-head // rate), keys, queries)
    values = min(
        product_cycles(config, -(-keys // rate), head, queries), product_cycles(config, -(-keys // rate), queries, head)
    )
    turns = -(-units * share // cores)
    return turns * (scores + values) * products / 2 / (chip.core.tensor_clock_ghz * 1e9)


def pass_seconds(chip: ChipConfig, elements: float, clock_ghz: float, passes: float = 1) -> float:
    """Seconds of ``passes`` element-wise passes: one element a partition and cycle on each core."""
    rows = math.ceil(elements / (chip.core.tensor.rows * chip.cores))
    return passes * rows / (clock_ghz * 1e9)


def product_bytes(weights: float, inputs: float, outputs: float, sbuf: float) -> tuple[float, float]:
    """``(weight, activation)`` bytes a product moves between HBM and the SBUF of a chip.

    Activations that fit in a quarter of SBUF stay there. Otherwise whatever is cheaper is read again for each part of
    the other that half of SBUF holds.
    """
    kept = inputs <= sbuf / 4
    written = outputs if outputs > sbuf / 4 else 0.0
    if kept:
        return weights, written
    again_weights = math.ceil(inputs / (sbuf / 2)) * weights + inputs
    again_inputs = weights + math.ceil(weights / (sbuf / 2)) * inputs
    if again_inputs <= again_weights:
        return weights, again_inputs - weights + written
    return again_weights - inputs, inputs + written
