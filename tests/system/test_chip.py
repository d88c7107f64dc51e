"""A compiled chip of a core, a stack of HBM and its devices: one program from end to end, errors of memory.

The chip is one of three on cables; the others do nothing.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from golden.system.system import System
from sdk.run import ProgramError
from sdk.system import SystemProgram
from spec.core import LINE_BYTES
from verif.core.driver import host_items
from verif.system.driver import LineError, RtlSystem
from verif.system.programs import CABLED

pytestmark = pytest.mark.long

CONFIG = CABLED
NOTHING: list[dict[str, Any]] = [{}, {}]
WORD = 3
"""Codeword of a line that is damaged."""


def program() -> SystemProgram:
    """Rows that are no whole lines, a gather, an activation, sums on what is in memory."""
    system = SystemProgram(CONFIG)
    p = system.programs[0]
    x, rows = p.input("x", (8, 21), "fp32"), p.input("rows", (4,), "int32")
    y, z = p.output("y", (4, 21), "fp32"), p.input("z", (4, 21), "fp32")
    tile = p.sbuf((4, 21), "fp32")
    p.dma(y, x, gather=rows)
    p.dma(tile, y)
    p.scalar.activation(tile, tile, "copy")
    p.dma(z, tile, accumulate=True)
    return system


def inputs(rng: np.random.Generator) -> dict[str, npt.NDArray[Any]]:
    return {
        "x": rng.standard_normal((8, 21)).astype(np.float32),
        "rows": np.array([0, 5, 2, 7], np.int32),
        "z": rng.standard_normal((4, 21)).astype(np.float32),
    }


def repaired(cabled: RtlSystem) -> int:
    return int(cabled.model.run(limit=1, sample=["corrected_0"]).sampled("corrected_0")[0])


def damage(cabled: RtlSystem, system: SystemProgram, name: str, bits: int, line: int = 0) -> None:
    """Write a line of a tensor again, with ``bits`` of a codeword inverted in the device."""
    first = system.programs[0].tensors[name].offset // LINE_BYTES + line
    lines = cabled.get(first, 1)
    items = host_items(np.array([first]), lines)
    cabled.model.run({"host_0": items}, hold={"damage_0": bits << 3 | WORD}, limit=2000)


def test_a_program_leaves_in_hbm_what_golden_leaves(cabled: RtlSystem) -> None:
    golden, system, given = System(CONFIG), program(), inputs(np.random.default_rng(1))
    for machine in (golden, cabled):
        machine.write(0, np.zeros(CONFIG.chip_bytes, np.uint8))
        system.run(machine, [given, *NOTHING])
    found = cabled.read(0, CONFIG.chip_bytes)
    np.testing.assert_array_equal(found, golden.read(0, CONFIG.chip_bytes))
    golden.hbm[100] ^= 1
    assert not np.array_equal(found, golden.read(0, CONFIG.chip_bytes))


def test_one_wrong_bit_is_repaired_and_two_end_the_program_with_an_exception(cabled: RtlSystem) -> None:
    system, given = program(), inputs(np.random.default_rng(2))
    expected, *_ = system.run("golden", [given, *NOTHING])
    system.run(cabled, [given, *NOTHING])
    before = repaired(cabled)
    damage(cabled, system, "x", 1)
    result, *_ = system.run(cabled, [{"z": given["z"]}, *NOTHING])
    assert repaired(cabled) > before
    for name in ("y", "z"):
        np.testing.assert_array_equal(result[name], expected[name])
    damage(cabled, system, "x", 0b11)
    with pytest.raises(ProgramError, match=r"core 0: .*memory_lost"):
        system.run(cabled, [{"z": given["z"]}, *NOTHING])
    with pytest.raises(LineError, match="memory_lost"):
        cabled.read(system.programs[0].tensors["x"].offset, LINE_BYTES)
    result, *_ = system.run(cabled, [given, *NOTHING])
    np.testing.assert_array_equal(result["y"], expected["y"])


def test_parts_of_a_lost_line_cannot_be_written_and_that_is_an_exception(cabled: RtlSystem) -> None:
    system, given = program(), inputs(np.random.default_rng(3))
    system.run(cabled, [given, *NOTHING])
    damage(cabled, system, "y", 0b11, line=4 * 21 * 4 // LINE_BYTES)
    with pytest.raises(ProgramError, match=r"core 0: .*memory_lost"):
        system.run(cabled, [given | {"rows": given["rows"][::-1].copy()}, *NOTHING])
