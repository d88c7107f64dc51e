"""Chips on noisy cables, compiled: errors, a cut cable, a chip that is reset. Everybody reports, nothing is wrong."""

from typing import Any

import numpy as np
import pytest

from golden.core.report import Report
from golden.system.system import System
from sdk.collectives import Ring
from sdk.run import load as load_program
from sdk.system import SystemProgram
from spec.isa import REASONS
from spec.link import ERROR_RATE
from verif.link.layer import flips
from verif.system.driver import RtlSystem
from verif.system.programs import CABLED, LINK, load, transfers

pytestmark = pytest.mark.long

CONFIG = CABLED
TORUS = CONFIG.torus_router.torus
NOISE = 3000
"""Cycles of noise, over and over."""
WHEN = 1500
"""The cycle in which something is cut or reset: everybody is at work."""


def noise(rate: float, cycles: int, rng: np.random.Generator) -> dict[str, Any]:
    """Bit errors on every cable."""
    assert CONFIG.cables is not None
    layer = CONFIG.cables.layer
    masks = [flips(rng, layer, rate, NOISE) for _ in TORUS.links]
    return {f"flips__{link}": [*(row[cycle % NOISE] for cycle in range(cycles)), 0] for link, row in enumerate(masks)}


def between(*pairs: tuple[int, int]) -> int:
    """The cables from chip to chip, as bits of ``cut``."""
    return sum(1 << number for number, link in enumerate(TORUS.links) if (link.source, link.target) in pairs)


def reasons(reports: list[Report]) -> list[str]:
    return [report.fault.reason if report.fault else "none" for report in reports]


def copies(count: int, ways: dict[int, int]) -> tuple[SystemProgram, list[dict[str, Any]]]:
    """Core ``n`` copies ``count`` times to chip ``ways[n]``, which waits for the last one if it has nothing to do."""
    system = SystemProgram(CONFIG)
    rng = np.random.default_rng(5)
    for p in system.programs:
        p.input("x", (4, 32), "fp32")
        p.output("y", (4, 32), "fp32")
    for core, other in ways.items():
        p, target = system.programs[core], system.programs[other]
        for _ in range(count):
            p.dma(target.tensors["y"], p.tensors["x"], queue=0)
        p.notify(other, 0, target.tensors["y"])
    inputs = [{"x": rng.standard_normal((4, 32)).astype(np.float32)} for _ in system.programs]
    return system, inputs


def start(chips: RtlSystem, system: SystemProgram, inputs: list[dict[str, Any]]) -> Any:
    """Load the programs; where they start."""
    return [load_program(p, chips, own) for p, own in zip(system.programs, inputs, strict=True)]


def tensor(chips: RtlSystem, system: SystemProgram, core: int, name: str) -> Any:
    view = system.programs[core].tensors[name]
    return chips.read(view.offset, view.box.high - view.offset).view(np.float32).reshape(view.shape)


@pytest.mark.parametrize("rate", [1e-4, ERROR_RATE])
def test_errors_on_every_cable_change_nothing_but_the_time(rate: float, cabled: RtlSystem) -> None:
    rng = np.random.default_rng(1)
    golden = System(CONFIG)
    size = CONFIG.chips * CONFIG.chip_bytes
    data = rng.standard_normal(size // 4).astype(np.float32).view(np.uint8)
    for machine in (golden, cabled):
        machine.write(0, data)
    for _ in range(10):
        programs = transfers(CONFIG, rng, 12).programs
        golden.run(load(golden, programs))
        reports = cabled.run(load(cabled, programs), drive=noise(rate, 2 * NOISE, rng))
        assert reasons(reports) == ["none"] * 3
    np.testing.assert_array_equal(cabled.read(0, size), golden.read(0, size))
    golden.hbm[77] ^= 1
    assert not np.array_equal(cabled.read(0, size), golden.read(0, size))


def test_an_all_reduce_over_noisy_cables_is_golden_in_every_bit(cabled: RtlSystem) -> None:
    rng = np.random.default_rng(2)
    program = SystemProgram(CONFIG)
    for p in program.programs:
        p.hbm("x", (3, 16), "fp32")
    Ring(program.programs, range(3), "x").run("all_reduce")
    inputs = [{"x": rng.standard_normal((3, 16)).astype(np.float32)} for _ in program.programs]
    golden = program.run("golden", inputs)
    reports = cabled.run(start(cabled, program, inputs), drive=noise(ERROR_RATE, 2 * NOISE, rng))
    assert reasons(reports) == ["none"] * 3
    for core in range(3):
        np.testing.assert_array_equal(tensor(cabled, program, core, "x"), golden[core]["x"])


@pytest.mark.parametrize("one_way", [False, True])
def test_a_cut_cable_ends_the_programs_that_need_it_and_no_other(one_way: bool, cabled: RtlSystem) -> None:
    cut = between((0, 1)) if one_way else between((0, 1), (1, 0))
    system, inputs = copies(40, {0: 1, 2: 0})
    for p in system.programs[1:2]:
        p.expect(0, 1, p.tensors["y"])
        p.dma(p.tensors["x"], p.tensors["y"])
    starts = start(cabled, system, inputs)
    reports = cabled.run(starts, drive={"cut": [0] * WHEN + [cut]})
    assert reasons(reports) == ["unreachable", "deadlock", "none"]
    np.testing.assert_array_equal(tensor(cabled, system, 0, "y"), inputs[2]["x"])
    dead = [f"dead__{number}" for number in range(3)]
    run = cabled.model.run(sample=dead, limit=1)
    assert [int(run.sampled(name)[0]).bit_count() for name in dead] == [1, 1, 0]

    # Whoever asks for it now is told so; the cables that are left serve everybody else.
    system, inputs = copies(2, {0: 1, 1: 2, 2: 1})
    assert reasons(cabled.run(start(cabled, system, inputs))) == ["unreachable", "none", "none"]
    np.testing.assert_array_equal(tensor(cabled, system, 2, "y"), inputs[1]["x"])


def test_what_a_chip_reads_behind_a_cut_cable_is_an_error_not_a_number(cabled: RtlSystem) -> None:
    cut = between((0, 1), (1, 0))
    cabled.model.run(hold={"cut": cut}, limit=4 * LINK.silence)
    system = SystemProgram(CONFIG)
    for p in system.programs:
        p.input("x", (1, 16), "fp32")
    p = system.programs[0]
    p.dma(p.tensors["x"], system.programs[1].tensors["x"])
    inputs = [{"x": np.ones((1, 16), np.float32)} for _ in system.programs]
    reports = cabled.run(start(cabled, system, inputs), hold={"cut": cut})
    assert reasons(reports) == ["unreachable", "none", "none"]


def test_a_chip_is_reset_with_traffic_under_way_and_the_others_carry_on(cabled: RtlSystem) -> None:
    system, inputs = copies(40, {0: 1, 1: 2})
    starts = start(cabled, system, inputs)
    names = ["report_0_0", "report_0_1"]
    reset = [0] * WHEN + [1 << 2] * (2 * LINK.silence) + [0]
    run = cabled.begin(starts, expect=dict.fromkeys(names, 1), limit=100_000, drive={"restart": reset})
    assert len(run.stamps["report_0_0"]) == 1
    assert len(run.stamps["report_0_1"]) == 1
    found = [int(run.fields(name)["fault"]["reason"][0]) for name in names]
    assert [REASONS[code] for code in found] == ["none", "unreachable"]
    np.testing.assert_array_equal(tensor(cabled, system, 1, "y"), inputs[0]["x"])

    # The chip that was reset runs programs of its own, and is told that the others are out of reach.
    system, inputs = copies(2, {0: 1})
    p = system.programs[2]
    p.dma(p.tensors["y"], p.tensors["x"])
    reports = cabled.run(start(cabled, system, inputs))
    assert reasons(reports) == ["none", "none", "none"]
    np.testing.assert_array_equal(tensor(cabled, system, 2, "y"), inputs[2]["x"])
    system, inputs = copies(2, {2: 0})
    assert reasons(cabled.run(start(cabled, system, inputs))) == ["none", "none", "unreachable"]


def test_who_waits_for_a_signal_that_never_comes_says_so(cabled: RtlSystem) -> None:
    system, inputs = copies(1, {0: 1})
    p = system.programs[2]
    p.expect(3, 1, p.tensors["x"])
    reports = cabled.run(start(cabled, system, inputs))
    assert reasons(reports) == ["none", "none", "deadlock"]
