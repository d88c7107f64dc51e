"""Parameters of a system of chips: cores around one memory, chips around one fabric.

The memories of all chips are one address space: chip ``n`` holds the lines from ``n * chip_lines`` on, and the cores of
the system are numbered chip by chip. A core reads, writes and signals everywhere with the instructions it has.
"""

import dataclasses
from typing import Any

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
        256, unit="lines of 64 B", low=16, high=1 << 31, power_of_two=True, doc="memory of one chip"
    )
    reads: int = parameter(4, unit="reads", low=1, high=64, doc="reads from other chips a chip answers at a time")
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


def system_of(machine: MachineConfig, sizes: tuple[int, ...], **changes: Any) -> SystemConfig:
    """Chips of a preset's machine on a torus of ``sizes``; ``changes`` are other fields of :class:`SystemConfig`."""
    torus = Torus(sizes=sizes)
    flit_bits = 128
    router = RouterConfig(
        torus=torus, flit_bits=flit_bits, classes=2, channels=2, escape_channels=2, depth=8, max_flits=8, tag_bits=2
    )
    core = core_of(machine)
    lines = changes.pop("chip_lines", core.hbm_lines * machine.chip.cores)
    core = dataclasses.replace(core, hbm_lines=lines * torus.nodes)
    return SystemConfig(core=core, router=router, cores=machine.chip.cores, chip_lines=lines, **changes)
