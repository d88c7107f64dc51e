"""Sixteen compiled chips on a 4x4 torus: collectives over all of them as on golden, in every bit."""

from collections.abc import Iterator

import numpy as np
import pytest

from golden.system.system import System
from sdk.collectives import Ring
from sdk.system import SystemProgram
from verif.system.driver import RtlSystem
from verif.system.programs import MOVER, system_config

pytestmark = pytest.mark.long

CONFIG = system_config((4, 4), chip_lines=1024, core=MOVER)
RING = [4 * row + (column if row % 2 == 0 else 3 - column) for row in range(4) for column in range(4)]
"""Around the torus, neighbour by neighbour."""


@pytest.fixture(scope="module")
def chips() -> Iterator[RtlSystem]:
    system = RtlSystem(CONFIG)
    yield system
    system.model.close()


@pytest.mark.parametrize("operation", ["reduce_scatter", "all_gather", "all_reduce", "all_to_all"])
def test_collectives_of_sixteen_chips_leave_what_golden_leaves(operation: str, chips: RtlSystem) -> None:
    rng = np.random.default_rng(7)
    program, golden = SystemProgram(CONFIG), System(CONFIG)
    blank = np.zeros(CONFIG.chips * CONFIG.chip_bytes, np.uint8)
    for machine in (golden, chips):
        machine.write(0, blank)
    for p in program.programs:
        p.hbm("x", (CONFIG.chips, 16), "fp32")
    Ring([program.programs[core] for core in RING], RING, "x").run(operation)
    inputs = [{"x": rng.standard_normal((CONFIG.chips, 16)).astype(np.float32)} for _ in program.programs]
    for machine in (golden, chips):
        program.run(machine, inputs)
    np.testing.assert_array_equal(chips.read(0, len(blank)), golden.read(0, len(blank)))
