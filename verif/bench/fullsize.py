"""The full-size engine, 128x128, as a compiled model: it builds, it is bit-exact, and how fast it runs."""

import resource
import time

import numpy as np

from golden.tensor.array import gemm
from spec.results import Record
from spec.tensor import PAIRS, QUADS, TensorConfig
from verif.tensor.driver import TensorDriver
from verif.tensor.stimulus import operands

CONFIG = TensorConfig(formats=("bf16", "fp8_e4m3", "fp8_e4m3fn"), double_row=True, microscaling=True)
OPERANDS = ("bf16", "fp8_e4m3_x2", "mx_e4m3fn_x4")
COLUMNS = 512
THREADS = 2
SPEED, BUILD_SECONDS, GIBIBYTES = 300, 300, 8
SPIKE = "naive spike: 148 cycles/s, 85 s"


def bench_fullsize() -> list[Record]:
    """Build with rows as blocks of their own, run a product of each mode, compare every bit with golden."""
    before = time.perf_counter()
    driver = TensorDriver(CONFIG, large=True, threads=THREADS)
    built = time.perf_counter() - before
    block = "tensor.engine 128x128"
    records = [Record(block, "build, or 0 if cached", round(built, 1), "s", BUILD_SECONDS, SPIKE, "lower")]
    rng = np.random.default_rng(1)
    for name in OPERANDS:
        k = CONFIG.rows * (2 if name in PAIRS else 1)
        shapes = ((k, CONFIG.columns), (k, COLUMNS))
        stationary, moving = (operands(rng, PAIRS.get(name, name), shape, "moderate") for shape in shapes)
        before = time.perf_counter()
        product = driver.matmul(stationary, moving, name, name)
        elapsed = time.perf_counter() - before
        golden = gemm(CONFIG, stationary, moving, name, name)
        different = int((product.bits != golden).sum())
        speed = (product.cycles + product.read_cycles) / elapsed
        sizes = k * (4 if name in QUADS else 1), CONFIG.columns, COLUMNS
        figure = f"{'x'.join(map(str, sizes))} {name}"
        records += [
            Record(block, f"{figure}: results that differ from golden", different, "results", 0, None, "lower"),
            Record(block, f"{figure}: cycles", product.cycles, "cycles"),
            Record(block, f"{figure}: simulation speed", round(speed), "cycles/s", SPEED, SPIKE),
        ]
    own, children = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    memory = max(own, children) / 2**20
    return [*records, Record(block, "memory", round(memory, 2), "GiB", GIBIBYTES, None, "lower")]
