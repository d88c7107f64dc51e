"""Parameters of a system of chips: cores around one memory, chips around one fabric.

The memories of all chips are one address space: chip ``n`` holds the lines from ``n * chip_lines`` on, and the cores of
the system are numbered chip by chip. A core reads, writes and signals everywhere with the instructions it has.
"""

import dataclasses
import math

from spec.core import LINE_BYTES, CoreConfig, core_of
from spec.link import RouterConfig, bits_for
from spec.machine import MachineConfig
from spec.parameters import Parameters, parameter, refuse
from spec.topology import Torus

OPERATIONS: tuple[str, ...] = ("write", "read", "update", "answer")
"""What a packet between chips asks for, by its tag: bytes of a line, a line, a change of a semaphore; or the line."""
REQUESTS, ANSWERS = range(2)
"""Message classes: an answer never waits for a request."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SystemConfig(Parameters):
    """Chips of ``cores`` cores and a memory of ``chip_lines`` lines, joined by the torus of ``router``."""

    core: CoreConfig
    router: RouterConfig
    cores: int = parameter(2, unit="cores/chip", low=1, high=64, power_of_two=True, doc="cores that share a memory")
    chip_lines: int = parameter(
        256, unit="lines of 64 B", low=16, high=1 << 32, power_of_two=True, doc="memory of one chip"
    )
    reads: int = parameter(4, unit="reads", low=1, high=64, doc="reads from other chips a chip answers at a time")
    beat: int = parameter(
        0, unit="bits", low=0, high=1024, doc="the host's streams come in beats of so many wires; 0: whole"
    )
    memory: str = parameter(
        "model", choices=("model", "port"), doc="behind each chip: a plain memory inside, or a port for a controller"
    )

    def check(self) -> None:
        """Refuse parts that do not fit each other."""
        if self.router.classes != 2:
            raise refuse("SystemConfig", "router.classes", self.router.classes, "2: requests and answers")
        if self.router.tag_bits < bits_for(len(OPERATIONS) - 1):
            raise refuse(
                "SystemConfig", "router.tag_bits", self.router.tag_bits, f"at least {bits_for(len(OPERATIONS) - 1)}"
            )
        if self.router.max_flits < self.packet_flits:
            raise refuse("SystemConfig", "router.max_flits", self.router.max_flits, f"at least {self.packet_flits}")
        lines = self.chip_lines * self.chips
        if self.core.hbm_lines != lines:
            raise refuse("SystemConfig", "core.hbm_lines", self.core.hbm_lines, f"{lines}, the lines of all chips")

    @property
    def chips(self) -> int:
        """Chips of the system."""
        return self.router.torus.nodes

    @property
    def chip_bytes(self) -> int:
        """Bytes of a chip's memory."""
        return self.chip_lines * LINE_BYTES

    @property
    def own(self) -> CoreConfig:
        """The core as a chip's memory sees it: with the lines of one chip."""
        return dataclasses.replace(self.core, hbm_lines=self.chip_lines)

    @property
    def bodies(self) -> dict[str, tuple[tuple[str, int], ...]]:
        """Name and width of the fields that follow the header in each kind of packet."""
        line, core = bits_for(self.chip_lines - 1), bits_for(self.cores - 1)
        return {
            "write": (("line", line), ("mask", LINE_BYTES), ("data", 8 * LINE_BYTES)),
            "read": (("line", line), ("core", core)),
            "update": (("kind", 3), ("semaphore", 8), ("value", 32), ("core", core)),
            "answer": (("core", core), ("data", 8 * LINE_BYTES)),
        }

    def flits(self, operation: str) -> int:
        """Flits of a packet: header and body, cut into pieces."""
        bits = self.router.header_bits + sum(width for _, width in self.bodies[operation])
        return -(-bits // self.router.flit_bits)

    @property
    def packet_flits(self) -> int:
        """Flits of the longest packet."""
        return max(self.flits(operation) for operation in OPERATIONS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BeatsConfig(Parameters):
    """Payloads of ``width`` bits in beats."""

    width: int = parameter(unit="bits", low=1, high=1 << 16, doc="of a payload")
    beat: int = parameter(32, unit="bits", low=1, high=1024, doc="of a beat")

    @property
    def beats(self) -> int:
        """Beats of a payload."""
        return -(-self.width // self.beat)


HOST_BEAT = 32
"""Wires of a host's stream to a chip whose memory is outside: hundreds of cores have thousands of them."""
MODEL_LINES = 1 << 16
"""A memory of more lines than this stays outside of the chip: 4 MiB are simulated as they are."""


def router_of(torus: Torus, flit_bits: int = 128) -> RouterConfig:
    """A router for what chips ask of each other: two message classes, packets of a header and a line with its mask."""
    body = 9 * LINE_BYTES + 64
    return RouterConfig(
        torus=torus,
        flit_bits=flit_bits,
        classes=2,
        channels=2,
        escape_channels=2,
        max_flits=max(8, 1 + -(-body // flit_bits)),
        tag_bits=bits_for(len(OPERATIONS) - 1),
    )


def system_of(machine: MachineConfig, torus: Torus) -> SystemConfig:
    """Chips of a preset's machine on a torus. Memories begin at multiples of a power of two, not below their size."""
    chip = machine.chip
    lines = int(chip.hbm_stack_gib * chip.hbm_stacks * (1 << 30)) // LINE_BYTES
    pitch = 1 << (lines - 1).bit_length()
    return SystemConfig(
        core=dataclasses.replace(core_of(machine), hbm_lines=pitch * torus.nodes),
        router=router_of(torus),
        cores=chip.cores,
        chip_lines=pitch,
        beat=0 if pitch <= MODEL_LINES else HOST_BEAT,
        memory="model" if pitch <= MODEL_LINES else "port",
    )


def chip_of(machine: MachineConfig) -> SystemConfig:
    """One chip alone: its fabric has one node."""
    return system_of(machine, Torus(sizes=(1,)))


def instance_of(machine: MachineConfig) -> SystemConfig:
    """One instance: its chips on the torus nearest to a square."""
    return system_of(machine, Torus(sizes=_square(machine)))


def ultraserver_of(machine: MachineConfig) -> SystemConfig:
    """Instances joined by rings of the chips at equal places, whose links are half as wide."""
    square = _square(machine)
    count = machine.ultraserver_instances
    cycles = (*(1 for _ in square), 2) if count > 1 else ()
    return system_of(machine, Torus(sizes=(*square, count) if count > 1 else square, cycles=cycles))


def _square(machine: MachineConfig) -> tuple[int, ...]:
    if machine.fabric != "torus":
        raise refuse("system", "fabric", machine.fabric, "torus: chips behind switches are not joined yet")
    chips = machine.instance_chips
    short = max(size for size in range(1, math.isqrt(chips) + 1) if chips % size == 0)
    return (chips // short, short) if short > 1 else (chips,)
