"""A collective over all chips, on golden and on compiled chips."""

from collections.abc import Sequence

import numpy as np

from golden.system.system import System
from sdk.collectives import Ring
from sdk.run import Result
from sdk.system import SystemProgram
from verif.system.driver import RtlSystem


def check_collective(
    chips: RtlSystem, operation: str, ring: Sequence[int], rng: np.random.Generator
) -> tuple[System, list[Result], list[Result]]:
    """``operation`` around ``ring`` leaves the same bytes in every memory; golden, its results, those of ``chips``."""
    config = chips.config
    program, golden = SystemProgram(config), System(config)
    blank = np.zeros(config.chips * config.chip_bytes, np.uint8)
    for machine in (golden, chips):
        machine.write(0, blank)
    for core in program.programs:
        core.hbm("x", (config.chips, 16), "fp32")
    Ring([program.programs[core] for core in ring], ring, "x").run(operation)
    inputs = [{"x": rng.standard_normal((config.chips, 16)).astype(np.float32)} for _ in program.programs]
    results = program.run(golden, inputs), program.run(chips, inputs)
    np.testing.assert_array_equal(chips.read(0, len(blank)), golden.read(0, len(blank)))
    return golden, *results
