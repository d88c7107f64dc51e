"""Programs that several chips run together, on golden or hardware: loading, running, and random transfers."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from golden.core.core import Start
from golden.system.system import System
from spec.core import LINE_BYTES, CoreConfig
from spec.hbm_stack import SMALL_STACK
from spec.isa import INSTRUCTION_BYTES, encode
from spec.link import LinkConfig
from spec.scalar import ScalarConfig
from spec.system import SystemConfig, router_of
from spec.tensor import TensorConfig
from spec.topology import SwitchedServers, Torus
from spec.vector import ELEMENT_FORMATS, VectorConfig
from verif.core.bench import LITTLE
from verif.system.driver import RtlSystem

TWO = ELEMENT_FORMATS[:2]
MOVER = dataclasses.replace(
    LITTLE,
    tensor=TensorConfig(rows=4, columns=4, psum_banks=1, psum_bank_bytes=64, formats=("bf16",)),
    vector=VectorConfig(lanes=4, formats=TWO),
    scalar=ScalarConfig(lanes=4, formats=TWO, functions=("copy",)),
    dma_engines=1,
)
"""A core that is all DMA and semaphores: for what happens between chips, compiled sooner."""


def system_config(
    sizes: tuple[int, ...], cores: int = 1, chip_lines: int = 128, core: CoreConfig = LITTLE, **router: Any
) -> SystemConfig:
    """A torus of the benches' small core."""
    torus = Torus(sizes=sizes)
    return SystemConfig(
        core=dataclasses.replace(core, hbm_lines=chip_lines * torus.nodes),
        router=dataclasses.replace(router_of(torus, cores), **router),
        cores=cores,
        chip_lines=chip_lines,
    )


def hbm_config(
    cores: int = 1,
    stacks: int = 1,
    stack_lines: int = 0,
    sizes: tuple[int, ...] = (1,),
    core: CoreConfig = LITTLE,
    channels: int = SMALL_STACK.channels,
) -> SystemConfig:
    """The same with small stacks of HBM behind each chip, whole unless ``stack_lines`` says less."""
    stack = SMALL_STACK.replace(requesters=cores + 2, channels=channels)
    space = stack.stack_bytes // LINE_BYTES
    plain = system_config(sizes, cores, chip_lines=space * stacks, core=core)
    return dataclasses.replace(plain, stack=stack, stacks=stacks, stack_lines=stack_lines or space)


LINK = LinkConfig()
CABLED = dataclasses.replace(hbm_config(sizes=(3,), core=MOVER), cable=LINK, patience=1024)
"""Three chips with HBM on cables: everything that can go wrong."""


SIXTEEN = system_config((4, 4), chip_lines=1024, core=MOVER)
"""A 4x4 torus of movers."""


def switched_config(servers: int, chips: int, levels: int, chip_lines: int = 128) -> SystemConfig:
    """Small chips on switches."""
    switches = SwitchedServers(servers=servers, chips=chips, levels=levels)
    core = dataclasses.replace(MOVER, hbm_lines=chip_lines * switches.nodes)
    return SystemConfig(core=core, switches=switches, cores=1, chip_lines=chip_lines)


KINDS = {
    (True, True): "near",
    (True, False): "to another chip",
    (False, True): "from another chip",
    (False, False): "between two others",
}
"""By whether source and target are on the core's own chip."""


def load(machine: System | RtlSystem, programs: Mapping[int, tuple[int, Sequence[int]]]) -> list[dict[str, Start]]:
    """Write the sync programs ``core -> (line, words)`` into the memories; where each core starts."""
    starts: list[dict[str, Start]] = [{} for _ in range(machine.config.chips * machine.config.cores)]
    for core, (line, words) in programs.items():
        code = b"".join(word.to_bytes(INSTRUCTION_BYTES, "little") for word in words)
        machine.write(line * LINE_BYTES, np.frombuffer(code, np.uint8))
        starts[core] = {"sync": Start(line, len(words))}
    return starts


@dataclasses.dataclass(frozen=True)
class Transfers:
    """``programs`` as :func:`load` takes them; ``kinds`` says between whom data moves."""

    programs: dict[int, tuple[int, list[int]]]
    kinds: set[str]


def transfers(config: SystemConfig, rng: np.random.Generator, count: int) -> Transfers:
    """Random copies by every core, from anywhere into parts of the system that no one else touches.

    The lower half of each chip's memory is only read. Of the upper half each core writes the lines whose number, modulo
    the number of cores, is its own, on every chip. The last lines of a chip hold its cores' programs.
    """
    everyone = config.chips * config.cores
    half = config.chip_lines // 2
    room = (count + 1) * INSTRUCTION_BYTES // LINE_BYTES
    programs, kinds = {}, set()
    for core in range(everyone):
        chip = core // config.cores
        words = []
        for _ in range(count):
            source, target = (int(number) for number in rng.integers(0, config.chips, 2))
            slots = np.arange(half + core, config.chip_lines - room * config.cores, everyone)
            first = int(rng.choice(slots)) * LINE_BYTES + 4 * int(rng.integers(0, 9))
            fields: dict[str, Any] = {"num0": int(rng.integers(1, 8)), "num1": 1, "num2": 1, "num3": 1}
            places = (
                ("source", source, 4 * int(rng.integers(0, half * LINE_BYTES // 4 - 8))),
                ("target", target, first),
            )
            for side, base, address in places:
                fields |= {
                    f"{side}_space": "hbm",
                    f"{side}_address": base * config.chip_bytes + address,
                    f"{side}_format": "fp32",
                    f"{side}_step0": 4,
                }
            words.append(encode("dma", fields))
            kinds.add(KINDS[source == chip, target == chip])
        line = (chip + 1) * config.chip_lines - room * (core % config.cores + 1)
        programs[core] = (line, [*words, encode("halt", {})])
    return Transfers(programs, kinds)
