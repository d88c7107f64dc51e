"""Programs that several chips run together, on golden or hardware: loading, running, and random transfers."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from golden.core.core import Start
from golden.core.memory import Bytes
from golden.core.report import Report
from golden.system.system import System
from spec.core import LINE_BYTES
from spec.isa import INSTRUCTION_BYTES, encode
from spec.link import RouterConfig
from spec.system import OPERATIONS, SystemConfig
from spec.topology import Torus
from verif.core.bench import LITTLE


def system_config(sizes: tuple[int, ...], cores: int = 1, chip_lines: int = 128, **router: Any) -> SystemConfig:
    """A torus of the benches' small core."""
    settings: dict[str, Any] = {
        "flit_bits": 128,
        "classes": 2,
        "channels": 2,
        "escape_channels": 2,
        "max_flits": 8,
        "tag_bits": (len(OPERATIONS) - 1).bit_length(),
    }
    torus = Torus(sizes=sizes)
    return SystemConfig(
        core=dataclasses.replace(LITTLE, hbm_lines=chip_lines * torus.nodes),
        router=RouterConfig(torus=torus, **(settings | router)),
        cores=cores,
        chip_lines=chip_lines,
    )


class Machine(Protocol):
    """A system that runs programs: golden, or compiled hardware."""

    config: SystemConfig

    def write(self, address: int, data: Bytes) -> None:
        """Whole lines into the memories."""

    def read(self, address: int, count: int) -> Bytes:
        """Whole lines from the memories."""

    def run(self, starts: Sequence[Mapping[str, Start]]) -> list[Report]:
        """Run what lies in the memories."""


def load(machine: Machine, programs: Mapping[int, tuple[int, Sequence[int]]]) -> list[dict[str, Start]]:
    """Write the sync programs ``core -> (line, words)`` into the memories; where each core starts."""
    starts: list[dict[str, Start]] = [{} for _ in range(machine.config.chips * machine.config.cores)]
    for core, (line, words) in programs.items():
        code = b"".join(word.to_bytes(INSTRUCTION_BYTES, "little") for word in words)
        machine.write(line * LINE_BYTES, np.frombuffer(code, np.uint8))
        starts[core] = {"sync": Start(line, len(words))}
    return starts


class GoldenSystem(System):
    """The golden system with the host's interface."""

    def write(self, address: int, data: Bytes) -> None:
        """Bytes into the memories."""
        self.hbm[address : address + len(data)] = data

    def read(self, address: int, count: int) -> Bytes:
        """Bytes from the memories."""
        return self.hbm[address : address + count].copy()


def transfers(config: SystemConfig, rng: npt.NDArray[Any] | np.random.Generator, count: int) -> dict[int, Any]:
    """Random copies by every core, each from anywhere into a part of the system that no one else touches.

    The lower half of each chip's memory is only read. Of the upper half each core writes the lines whose number, modulo
    the number of cores, is its own, on every chip. The last lines of a chip hold its cores' programs.
    """
    generator = np.random.default_rng(rng) if not isinstance(rng, np.random.Generator) else rng
    everyone = config.chips * config.cores
    half = config.chip_lines // 2
    room = (count + 1) * INSTRUCTION_BYTES // LINE_BYTES
    programs = {}
    for core in range(everyone):
        words = []
        for _ in range(count):
            chip, other = (int(number) for number in generator.integers(0, config.chips, 2))
            slots = np.arange(half + core, config.chip_lines - room * config.cores, everyone)
            target = int(generator.choice(slots)) * LINE_BYTES + 4 * int(generator.integers(0, 9))
            source = int(generator.integers(0, half)) * LINE_BYTES - 4 * int(generator.integers(0, 9)) % LINE_BYTES
            fields: dict[str, Any] = {
                "queue": int(generator.integers(0, config.core.dma_queues)) if chip == other else 0,
                "num0": int(generator.integers(1, 8)),
                "num1": 1,
                "num2": 1,
                "num3": 1,
            }
            for side, base, address in (("source", other, max(source, 0)), ("target", chip, target)):
                fields |= {
                    f"{side}_space": "hbm",
                    f"{side}_address": base * config.chip_bytes + address,
                    f"{side}_format": "fp32",
                    f"{side}_step0": 4,
                }
            words.append(encode("dma", fields))
        line = (core // config.cores + 1) * config.chip_lines - room * (core % config.cores + 1)
        programs[core] = (line, [*words, encode("halt", {})])
    return programs
