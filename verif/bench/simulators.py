"""How fast the tensor engine runs in each simulator: cycles a second at 8x8 and 16x16, the build left out."""

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from golden.tensor.gemm import group_steps, groups
from hdl.tensor import TensorEngine
from spec.results import Record
from spec.tensor import TensorConfig
from verif.harness.compile import Options
from verif.harness.design import design_of
from verif.harness.model import Model, as_words
from verif.harness.pysim import simulate
from verif.harness.runner import run_cocotb
from verif.tensor.driver import TensorDriver, stream_items, tile_operands

SIZES = (8, 16)
PROGRAM = "SYSTOLA_PROGRAM"
"""File from which the cocotb side takes the same stimulus."""


def bench_simulators() -> list[Record]:
    """The same program in Amaranth's simulator, in cocotb and in a compiled model; first word to last status."""
    records = []
    for size in SIZES:
        config = TensorConfig(rows=size, columns=size)
        inputs, count = _stimulus(config)
        label = f"tensor engine {size}x{size}"
        started = time.perf_counter()
        with Model(TensorEngine(config), **TensorDriver.build(config)) as model:
            records.append(Record(label, "build of the compiled model", round(time.perf_counter() - started, 1), "s"))
            run = model.run(inputs, expect={"status": count})
            records.append(Record(label, "compiled batch model", round(run.cycles / model.seconds), "cycles/s"))
        records.append(Record(label, "cocotb", round(_cocotb(config, inputs, count)), "cycles/s"))
        started = time.perf_counter()
        cycles = simulate(TensorEngine(config), inputs, expect={"status": count}, limit=_few(size)).cycles
        speed = cycles / (time.perf_counter() - started)
        records.append(Record(label, "Amaranth's simulator, construction included", round(speed), "cycles/s"))
    return records


def _few(size: int) -> int:
    """Cycles for the slowest simulator: about half a minute of it."""
    return 4096 // size


def _stimulus(config: TensorConfig) -> tuple[dict[str, Any], int]:
    """Words of each input stream of one matrix product of random bf16 operands, and its number of instructions."""
    rng = np.random.default_rng(1)
    k, m, n = config.rows, config.columns, 64 * config.columns
    stationary, moving = (rng.integers(0x3F00, 0x4000, (k, width), dtype=np.uint16) for width in (m, n))
    program = []
    for m_tile, n_group, bank in groups(config, m, n):
        for step in group_steps(config, k, m_tile, n_group, bank, "bf16", "bf16"):
            program.append((step.instruction, tile_operands(config, step, stationary, moving, (0, 1 << 15))))
    return stream_items(config, program), len(program)


def _cocotb(config: TensorConfig, inputs: dict[str, Any], count: int) -> float:
    with tempfile.TemporaryDirectory(prefix="systola-") as folder:
        path = Path(folder) / "program.npz"
        block = TensorEngine(config)
        design = design_of(block)
        words = {
            name: as_words(design.streams[name].shape, design.streams[name].width, items)
            for name, items in inputs.items()
        }
        np.savez(path, allow_pickle=False, expected=np.array(count), **words)
        build = TensorDriver.build(config)
        options = Options(hierarchy=tuple(build["hierarchy"]), no_inline=tuple(build["no_inline"]))
        environment = {PROGRAM: str(path)}
        report = run_cocotb(block, "verif.bench.cocotb_program", environment=environment, options=options, seed=1)
        report.check()
        return report.cycles / sum(case.seconds for case in report.cases)
