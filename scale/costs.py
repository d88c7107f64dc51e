"""What one chip takes for its share of the work: the golden cost functions, spread over its cores.

Matrix products cost the cycles of ``golden.tensor.gemm`` on the cores of the chip, in the better of two orientations
and of two ways to cut them over cores. Element-wise passes cost one row of partitions a cycle, as the vector and scalar
engines are specified. Nothing is fitted.
"""

import dataclasses
import functools
import math

from golden.tensor.gemm import gemm_cycles, rows_of_pass
from spec.formats import FP32
from spec.machine import ChipConfig
from spec.parameters import ParameterError
from spec.tensor import PAIRS, TensorConfig

STEADY_TILES = 3
"""Tiles of each loop that are run through the golden model; from there on each further tile costs the same (a test)."""


@dataclasses.dataclass(frozen=True)
class Operands:
    """How the array takes values of a width."""

    name: str
    """Operand format of both sides."""
    rate: float
    """Products an element makes a cycle."""
    fold: int = 1
    """Places of K a pass takes beyond those of the golden array: MX makes four products where golden has pairs."""


def operands(chip: ChipConfig, width: int) -> Operands:
    """The operands of values of ``width`` bytes; a width the array has no format for is refused."""
    core, formats = chip.core, chip.core.tensor.formats
    if width == 4 and FP32.name in formats:
        return Operands(FP32.name, 1 / core.fp32_passes)
    if width == 1 and any(name.startswith("fp8") for name in formats):
        pairs = [name for name in core.tensor.operands if name in PAIRS]
        name = next(iter(pairs), next(name for name in formats if name.startswith("fp8")))
        return Operands(name, core.fp8_rate, max(1, core.fp8_rate // (2 if pairs else 1)))
    if width == 2 and "bf16" in formats:
        return Operands("bf16", 1.0)
    raise ParameterError(f"values of {width} bytes: legal is a width of one of {', '.join(formats)}")


@functools.cache
def product_cycles(config: TensorConfig, k: int, m: int, n: int, name: str = "bf16") -> int:
    """Cycles of ``stationary[K, M].T @ moving[K, N]`` on one core: ``golden.tensor.gemm.gemm_cycles`` for any size.

    Its loops repeat, so sizes above :data:`STEADY_TILES` tiles are continued from two smaller ones, exactly.
    """
    steps = {
        "k": rows_of_pass(config, name),
        "m": 2 * config.columns,
        "n": max(2, config.psum_banks // 2 * 2) * config.bank_depth,
    }
    sizes = {"k": k, "m": m, "n": n}
    for loop, step in steps.items():
        beyond = -(-sizes[loop] // step) - STEADY_TILES
        if beyond > 0:
            near = product_cycles(config, **sizes | {loop: sizes[loop] - beyond * step}, name=name)
            before = product_cycles(config, **sizes | {loop: sizes[loop] - (beyond + 1) * step}, name=name)
            return near + beyond * (near - before)
    return gemm_cycles(config, k, m, n, name)


def product_seconds(chip: ChipConfig, tokens: int, k: int, features: int, width: int = 2) -> float:
    """Seconds a chip takes for ``[tokens, K] @ [K, features]`` of values of ``width`` bytes.

    Its cores cut the results; no sum crosses cores.
    """
    config, cores, kind = chip.core.tensor, chip.cores, operands(chip, width)
    k, name = -(-k // kind.fold), kind.name
    cuts = [(-(-tokens // cores), features), (tokens, -(-features // cores))]
    cycles = min(min(product_cycles(config, k, a, b, name), product_cycles(config, k, b, a, name)) for a, b in cuts)
    return cycles / (chip.core.tensor_clock_ghz * 1e9)


def attention_seconds(
    chip: ChipConfig, units: int, queries: int, context: int, head: int, width: int = 2, products: int = 2
) -> float:
    """Seconds for ``units`` independent (sequence, key head) pairs of ``queries`` rows against ``context`` keys.

    ``products`` counts products of the two kinds together (forward 2: scores and values; backward 5). Units are dealt
    to cores; where there are fewer units than cores, cores share a unit by its keys.
    """
    config, cores, kind = chip.core.tensor, chip.cores, operands(chip, width)
    share = max(1, cores // units)
    keys = -(-context // share)
    scores = product_cycles(config, -(-head // kind.fold), keys, queries, kind.name)
    deep = -(-keys // kind.fold)
    values = min(
        product_cycles(config, deep, head, queries, kind.name), product_cycles(config, deep, queries, head, kind.name)
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
