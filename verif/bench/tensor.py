"""Figures of the tensor engine: utilisation, cycles of products and layers, time to compute either."""

import time

import numpy as np

from golden.numerics import accumulate
from golden.tensor.gemm import best_cycles, gemm_cycles, rows_of_pass, utilisation
from golden.tensor.program import Instruction, timing
from golden.tensor.workloads import GPT2_BLOCK, Layer, resnet50
from spec.results import Record
from spec.tensor import PAIRS, PATTERNS, QUADS, Operation, TensorConfig, operand_code
from verif.tensor.driver import TensorDriver
from verif.tensor.engine import EVERY_RATE
from verif.tensor.stimulus import operands, sparsified

CONFIG = TensorConfig()
"""The published size: 128x128."""

BUSY = {512: 99, 128: 97, 64: 94}
"""Moving columns of each matmul -> percent of the array's capacity to reach when each has a new stationary."""

MATMULS = 400
"""Length of the program that this is measured on: long enough for fill and drain to be small, as in a real product."""

PACKED = TensorConfig(formats=("bf16", "fp32", "fp8_e4m3", "fp8_e4m3fn"), double_row=True, microscaling=True)
RATES = {"bf16": (1, 1), "fp32": (1, 0.25), "fp8_e4m3_x2": (2, 2), "mx_e4m3fn_x4": (4, 4)}
"""Operand -> numbers in it, and products an element is to make a cycle."""

RTL = EVERY_RATE
"""A small engine; its model is that of ``make sim``, compiled once."""

RTL_MODES = {
    "dense": ("fp8_e4m3fn", "", 1),
    "double row": ("fp8_e4m3fn_x2", "", 2),
    "MX": ("mx_e4m3fn_x4", "", 4),
    "sparse 4:16": ("fp8_e4m3fn", "4:16", 4),
}
"""Mode -> operands, pattern of sparsity, products an element is worth in a cycle."""

CUBES = {512: 8_800, 1024: 89_983, 4096: 4_585_472}
"""Side of the product -> cycles to stay below: the goal for 512, elsewhere SCALE-Sim 3."""

SCALE_SIM_SECONDS = {"512^3": 6.0, "GPT-2 block": 1340.0}
"""User CPU time of SCALE-Sim 3.0.0 on a machine like ours, for the same array."""

SCALE_SIM_CYCLES = {
    Layer("512^3", 512, 512, 512): 14_303,
    Layer("1024^3", 1024, 1024, 1024): 89_983,
    **dict(zip(GPT2_BLOCK, (11_247, 11_247, 694_563, 237_613, 438_671, 438_671), strict=True)),
}
"""What SCALE-Sim 3.0.0 itself reports (total compute cycles, 128x128, weight stationary, 8 MiB of SRAM each)."""

SPEEDUP = 1_000
GOLDEN_SECONDS = 60


def scale_sim(layer: Layer, config: TensorConfig = CONFIG) -> int:
    """Cycles of SCALE-Sim 3, weight stationary, same array: what it reports for every layer it was run on.

    Each fold loads its weights (rows cycles), then moves its inputs through the array; folds do not overlap.
    """
    folds = -(-layer.k // config.rows) * -(-layer.m // config.columns)
    return folds * (2 * config.rows + config.columns + layer.n - 2) - 1


def bench_tensor() -> list[Record]:
    """Rates of the modes on RTL, and all figures of the cycle function, which the engine's bench proves on RTL."""
    return [*_busy(), *_rates(), *_rtl_rates(), *_cubes(), *_layers(), *_reference(), *_golden()]


def _busy() -> list[Record]:
    records = []
    code = operand_code("bf16")
    load = Instruction(operation=Operation.LOAD_STATIONARY, format=code, columns=CONFIG.columns)
    for columns, target in BUSY.items():
        program = []
        for index in range(MATMULS):
            bank = index % CONFIG.psum_banks
            matmul = Instruction(operation=Operation.MATMUL, format=code, columns=columns, bank=bank)
            program += [load, matmul]
        cycles = timing(CONFIG, program)[-1].done + 1
        busy = 100 * MATMULS * columns / cycles
        figure = f"array busy, {MATMULS} matmuls of {columns} columns, new stationary each"
        records.append(Record("tensor.engine", figure, round(busy, 2), "%", target, "RedMulE 98.8 %, O-POPE 99.97 %"))
    return records


def _rates() -> list[Record]:
    """Products an element and cycle of each mode, from what a product of twice the K costs more: no fill, no drain."""
    records = []
    m, n = PACKED.columns, PACKED.bank_depth
    for name, (numbers, target) in RATES.items():
        k = 16 * rows_of_pass(PACKED, name)
        more = gemm_cycles(PACKED, 2 * k, m, n, name) - gemm_cycles(PACKED, k, m, n, name)
        products = 16 * PACKED.rows * numbers * m * n
        rate = products / (more * PACKED.rows * PACKED.columns)
        records.append(Record("tensor.engine", f"products an element and cycle, {name}", rate, "", target))
    return records


def _rtl_rates() -> list[Record]:
    """Products an element and cycle of each mode on RTL, from what 16 passes more cost: 1 : 2 : 4 : 4."""
    driver, rng = TensorDriver(RTL), np.random.default_rng(1)
    records = []
    m, n = RTL.columns, RTL.bank_depth
    for mode, (name, pattern, target) in RTL_MODES.items():
        passes = rows_of_pass(RTL, name, pattern)
        cycles = []
        for count in (16, 32):
            w, x = (operands(rng, PAIRS.get(name, name), (count * passes, size), "moderate") for size in (m, n))
            w = sparsified(w, *PATTERNS[pattern]) if pattern else w
            cycles.append(driver.matmul(w, x, name, name, pattern).cycles)
        # Zeros that are not stored count: they are products that a dense engine would have made.
        places = 16 * passes * (4 if name in QUADS else 1)
        rate = places * m * n / ((cycles[1] - cycles[0]) * RTL.rows * RTL.columns)
        records.append(
            Record("tensor.engine", f"RTL, products an element and cycle, {mode}", round(rate, 4), "", target)
        )
    return records


def _cubes() -> list[Record]:
    records = []
    for side, target in CUBES.items():
        started = time.process_time()
        cycles = gemm_cycles(CONFIG, side, side, side)
        elapsed = time.process_time() - started
        reference = f"SCALE-Sim 3: {scale_sim(Layer('', side, side, side)):,}"
        name = f"GEMM {side}^3"
        used = 100 * utilisation(CONFIG, side, side, side, cycles)
        records += [
            Record("tensor.engine", name, cycles, "cycles", target, reference, "lower"),
            Record("tensor.engine", f"{name}, utilisation", round(used, 2), "%"),
        ]
        if side == 512:
            speedup = SCALE_SIM_SECONDS["512^3"] / elapsed
            records.append(
                Record("tensor.engine", f"{name}, time to know", round(speedup), "x", SPEEDUP, "SCALE-Sim 3")
            )
    return records


def _layers() -> list[Record]:
    """Whole networks, and how many of their layers take longer than in SCALE-Sim: none should."""
    records = []
    for name, layers in (("GPT-2 block", GPT2_BLOCK), ("ResNet-50", tuple(resnet50()))):
        started = time.process_time()
        cycles = [best_cycles(CONFIG, layer.k, layer.m, layer.n) for layer in layers]
        elapsed = time.process_time() - started
        theirs = [scale_sim(layer) for layer in layers]
        slower = sum(ours >= other for ours, other in zip(cycles, theirs, strict=True))
        reference = f"SCALE-Sim 3: {sum(theirs):,}"
        records += [
            Record(
                "tensor.engine", f"{name}, {len(layers)} layers", sum(cycles), "cycles", sum(theirs), reference, "lower"
            ),
            Record("tensor.engine", f"{name}, layers not below SCALE-Sim 3", slower, "layers", 0, None, "lower"),
            Record("tensor.engine", f"{name}, time to compute its cycles", round(elapsed, 4), "s"),
        ]
        if name in SCALE_SIM_SECONDS:
            speedup = SCALE_SIM_SECONDS[name] / elapsed
            records.append(
                Record("tensor.engine", f"{name}, time to know", round(speedup), "x", SPEEDUP, "SCALE-Sim 3")
            )
    return records


def _reference() -> list[Record]:
    """The formula stands for SCALE-Sim: it gives the cycles of every layer that the tool was run on."""
    wrong = sum(scale_sim(layer) != cycles for layer, cycles in SCALE_SIM_CYCLES.items())
    figure = f"SCALE-Sim 3, reports that its formula misses, of {len(SCALE_SIM_CYCLES)}"
    return [Record("tensor.engine", figure, wrong, "layers", 0, "SCALE-Sim 3.0.0", "lower")]


def _golden() -> list[Record]:
    side = 2048
    rng = np.random.default_rng(0)
    w, x = ((rng.integers(-128, 128, (side, side)) / 64).astype(np.float32) for _ in range(2))
    started = time.process_time()
    accumulate(np.zeros((side, side), np.float32), w, x)
    elapsed = time.process_time() - started
    name = f"golden matmul, {side}^3 bf16 in the exact order, one core"
    return [Record("tensor.engine", name, round(elapsed, 1), "s", GOLDEN_SECONDS, "numpy", "lower")]
