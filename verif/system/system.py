"""Bench of a system of chips: programs on all cores at once, every byte of every chip's memory compared."""

from typing import Any

import numpy as np

from golden.system.system import System as Golden
from hdl.system.system import System
from spec.isa import encode
from spec.system import SystemConfig
from verif.harness import counts
from verif.harness.bench import Bench, Trial
from verif.harness.coverage import CoverGroup
from verif.harness.model import Model
from verif.harness.scoreboard import MismatchError, check_array
from verif.system.driver import RtlSystem
from verif.system.programs import load, system_config, transfers

SQUARE = system_config((2, 2), chip_lines=256)
LINE = system_config((3,), cores=2, chip_lines=256, flit_bits=64, max_flits=10, depth=4)
COVER = CoverGroup(
    "system.instance",
    {
        "transfers": ("near", "to another chip", "from another chip", "between two others"),
        "semaphore": ("same chip", "another chip", "nobody"),
        "reset": ("under way",),
    },
)


class Pair:
    """The same system twice."""

    def __init__(self, config: SystemConfig, model: Model) -> None:
        self.config = config
        self.golden, self.rtl = Golden(config), RtlSystem(config, model)

    def write(self, address: int, data: Any) -> None:
        """Whole lines into the memories of both."""
        for machine in (self.golden, self.rtl):
            machine.write(address, data)

    def fill(self, rng: np.random.Generator) -> None:
        """Random numbers everywhere."""
        size = self.config.chips * self.config.chip_bytes
        self.write(0, rng.standard_normal(size // 4).astype(np.float32).view(np.uint8))

    def run(self, programs: Any) -> None:
        """Run sync programs on both and compare how every core ended, and every byte."""
        golden, rtl = (machine.run(load(machine, programs)) for machine in (self.golden, self.rtl))
        assert [report.fault for report in golden] == [report.fault for report in rtl]
        self.compare()

    def compare(self) -> None:
        """Every word of every memory."""
        size = self.config.chips * self.config.chip_bytes
        found, expected = (machine.read(0, size).view(np.uint32) for machine in (self.rtl, self.golden))
        shape = (self.config.chips, -1)
        check_array("memory [chip, word]", found.reshape(shape), expected.reshape(shape), "fp32")


def check(trial: Trial) -> None:
    """Random transfers, semaphores, cores that do not exist, reset."""
    config: SystemConfig = trial.config
    pair = Pair(config, trial.model(**RtlSystem.build(config)))
    pair.fill(trial.rng)
    for number in range(40 if trial.long else 4):
        with trial.test(f"random transfers {number}"):
            found = transfers(config, trial.rng, 12)
            pair.run(found.programs)
            for kind in found.kinds:
                COVER.hit(transfers=kind)
    with trial.test("semaphores of every core, and of one that does not exist"):
        _semaphores(pair)
    with trial.test("reset with packets under way: the next program runs"):
        for cycle in (60, 95, 140):
            found = transfers(config, trial.rng, 12)
            pair.rtl.begin(load(pair.rtl, found.programs))
            pair.rtl.model.run(resets=[(cycle, 3)], limit=cycle + 8)
            pair.fill(trial.rng)
            pair.run(transfers(config, trial.rng, 6).programs)
        COVER.hit(reset="under way")
    with trial.test("one wrong bit of one memory is noticed"):
        pair.compare()
        pair.golden.hbm[int(trial.rng.integers(0, len(pair.golden.hbm)))] ^= 1
        with counts.paused():
            try:
                pair.compare()
            except MismatchError:
                return
        raise AssertionError("a flipped bit went unnoticed")


def _semaphores(pair: Pair) -> None:
    """Every core tells every core, and one that does not exist; each goes on when all have told it."""
    config = pair.config
    everyone = config.chips * config.cores
    programs = {}
    for core in range(everyone):
        tell = {"update": "add", "update_semaphore": 3, "update_value": core + 1}
        words = [encode("nop", tell | {"update_core": other + 1}) for other in range(everyone + 1)]
        total = everyone * (everyone + 1) // 2
        words.append(encode("nop", {"wait": 1, "wait_semaphore": 3, "wait_value": total}))
        line = (core // config.cores) * config.chip_lines + (core % config.cores) * 2 * (everyone + 4)
        programs[core] = (line, [*words, encode("halt", {})])
    pair.run(programs)
    lost = pair.rtl.lost()
    assert sum(lost) == pair.golden.lost == everyone, f"{lost} updates lost, golden has {pair.golden.lost}"
    for kind in ("another chip", "nobody", *(["same chip"] if config.cores > 1 else [])):
        COVER.hit(semaphore=kind)


BENCH = Bench("system.instance", block=System, quick=(SQUARE,), long=(LINE,), check=check, cover=COVER)
