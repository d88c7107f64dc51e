"""Parameters of a system of chips: cores around one memory, chips around one fabric.

The memories of all chips are one address space: chip ``n`` holds the lines from ``n * chip_lines`` on, and the cores of
the system are numbered chip by chip. A core reads, writes and signals everywhere with the instructions it has.
"""

import dataclasses
import math

from spec.core import LINE_BYTES, CoreConfig, core_of
from spec.hbm_stack import HbmStackConfig, stack_of
from spec.link import CableConfig, LinkConfig, RouterConfig, bits_for
from spec.machine import ChipConfig, MachineConfig
from spec.parameters import Parameters, parameter, refuse
from spec.topology import SwitchedServers, Torus

OPERATIONS: tuple[str, ...] = ("write", "read", "update", "answer", "done")
"""What a packet between chips is, by its tag: asks for bytes of a line to be written, for a line, for a change of a
semaphore; gives the line, or says that a write or a change is done."""
REQUESTS, ANSWERS = range(2)
"""Message classes: an answer never waits for a request."""
ASKS = OPERATIONS[:3]
"""Those of the first class."""
ERRORS: tuple[str, ...] = ("none", "memory_lost", "unreachable", "bad_address")
"""What may be wrong with an answer, by its code, in the words of ``spec.isa.REASONS``."""
STACK_LINES = 64
"""Consecutive lines in one stack of a chip: a line for each pseudo channel, at least."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SystemConfig(Parameters):
    """Chips of ``cores`` cores and a memory of ``chip_lines`` lines, on the torus of ``router`` or on ``switches``.

    ``stack`` is one of a chip's ``stacks`` of HBM, of which the first ``stack_lines`` lines exist; without it, a plain
    memory stands for all of them. ``cable`` is the link layer of noisy cables between the chips; without it, wires are
    short and clean.
    """

    core: CoreConfig
    router: RouterConfig | None = None
    switches: SwitchedServers | None = None
    stack: HbmStackConfig | None = None
    cable: LinkConfig | None = None
    cores: int = parameter(2, unit="cores/chip", low=1, high=64, power_of_two=True, doc="cores that share a memory")
    chip_lines: int = parameter(
        256, unit="lines of 64 B", low=16, high=1 << 32, power_of_two=True, doc="addresses of one chip's memory"
    )
    stacks: int = parameter(1, unit="stacks", low=1, high=16, power_of_two=True, doc="HBM stacks of a chip")
    stack_lines: int = parameter(0, unit="lines of 64 B", low=0, high=1 << 32, doc="lines of one stack")
    sockets: bool = parameter(
        False, choices=(False, True), doc="a chip holds empty sockets for its HBM devices; otherwise they are ports"
    )
    served: int = parameter(4, unit="requests", low=1, high=64, doc="of other chips, that a chip has under way")
    patience: int = parameter(
        1 << 14, unit="cycles", low=64, high=1 << 24, doc="without an answer, until a core's way out is closed"
    )
    cells: int = parameter(4, unit="cells", low=2, high=4096, doc="messages one queue of a switch holds")
    rounds: int = parameter(4, unit="rounds", low=1, high=8, doc="of matching in a switch, each a cycle of its slot")
    wires: int = parameter(128, unit="bits", low=1, high=1024, doc="of a link to or from a switch")
    beat: int = parameter(
        0, unit="bits", low=0, high=1024, doc="the host's streams come in beats of so many wires; 0: whole"
    )

    def check(self) -> None:
        """Refuse parts that do not fit each other."""
        name, router = type(self).__name__, self.router
        if (router is None) == (self.switches is None):
            raise refuse(name, "switches", self.switches, "switches, or a router")
        if router is not None:
            if router.classes != 2:
                raise refuse(name, "router.classes", router.classes, "2: requests and answers")
            if router.tag_bits < self.tag_bits:
                raise refuse(name, "router.tag_bits", router.tag_bits, f"at least {self.tag_bits}")
            if router.max_flits < self.packet_flits:
                raise refuse(name, "router.max_flits", router.max_flits, f"at least {self.packet_flits}")
        elif self.cable is not None:
            raise refuse(name, "cable", self.cable, "none between switches")
        if self.cables is not None and self.patience < 2 * self.cables.layer.silence:
            least = 2 * self.cables.layer.silence
            raise refuse(
                name, "patience", self.patience, f"at least {least}: twice what a cable needs to die", "cycles"
            )
        lines = self.chip_lines * self.chips
        if self.core.hbm_lines != lines:
            raise refuse(name, "core.hbm_lines", self.core.hbm_lines, f"{lines}, the lines of all chips")
        if self.sockets and self.stack is None:
            raise refuse(name, "sockets", self.sockets, "False without a stack")
        if self.stack is not None:
            space = self.stack.stack_bytes // LINE_BYTES
            if space * self.stacks != self.chip_lines or space < STACK_LINES:
                raise refuse(name, "chip_lines", self.chip_lines, f"{space} for each stack, {STACK_LINES} at least")
            if not 0 < self.stack_lines <= space:
                raise refuse(name, "stack_lines", self.stack_lines, f"1 to {space}, what a stack's addresses reach")
            if self.stack.requesters != self.askers or not self.stack.ordered:
                raise refuse(name, "stack.requesters", self.stack.requesters, f"{self.askers}, in order")

    @property
    def chips(self) -> int:
        """Chips of the system."""
        return self.topology.nodes

    @property
    def topology(self) -> Torus | SwitchedServers:
        """How the chips are joined."""
        if self.switches is not None:
            return self.switches
        assert self.router is not None
        return self.router.torus

    @property
    def torus_router(self) -> RouterConfig:
        """The router of a system that is a torus."""
        assert self.router is not None
        return self.router

    @property
    def cables(self) -> CableConfig | None:
        """The cables between the chips."""
        return None if self.cable is None else CableConfig(router=self.torus_router, link=self.cable)

    @property
    def askers(self) -> int:
        """Who asks a chip's memory: its cores, other chips, the host."""
        return self.cores + 2

    @property
    def chip_bytes(self) -> int:
        """Addresses of a chip's memory."""
        return self.chip_lines * LINE_BYTES

    @property
    def own(self) -> CoreConfig:
        """The core as a chip's memory sees it: with the lines of one chip."""
        return dataclasses.replace(self.core, hbm_lines=self.chip_lines)

    @property
    def tag_bits(self) -> int:
        """A packet's tag: its operation, then the number of the core, within its chip, that asks or has asked."""
        return bits_for(len(OPERATIONS) - 1) + bits_for(self.cores - 1)

    @property
    def bodies(self) -> dict[str, tuple[tuple[str, int], ...]]:
        """Name and width of the fields that follow the header in each kind of packet; ``core`` is whom it is for."""
        line, error = bits_for(self.chip_lines - 1), bits_for(len(ERRORS) - 1)
        return {
            "write": (("line", line), ("mask", LINE_BYTES), ("data", 8 * LINE_BYTES)),
            "read": (("line", line),),
            "update": (("kind", 3), ("semaphore", 8), ("value", 32), ("core", bits_for(self.cores - 1))),
            "answer": (("error", error), ("data", 8 * LINE_BYTES)),
            "done": (("error", error),),
        }

    def flits(self, operation: str) -> int:
        """Flits of a packet: header and body, cut into pieces."""
        router = self.torus_router
        bits = router.header_bits + sum(width for _, width in self.bodies[operation])
        return -(-bits // router.flit_bits)

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
"""Wires of a host's stream to a chip of a preset: hundreds of cores have thousands of them."""


def router_of(torus: Torus, cores: int = 1, flit_bits: int = 128) -> RouterConfig:
    """A router for what chips ask of each other: two message classes, packets of a header and a line with its mask."""
    body = 9 * LINE_BYTES + 64
    return RouterConfig(
        torus=torus,
        flit_bits=flit_bits,
        classes=2,
        channels=2,
        escape_channels=2,
        max_flits=max(8, 1 + -(-body // flit_bits)),
        tag_bits=bits_for(len(OPERATIONS) - 1) + bits_for(cores - 1),
    )


def memory_of(chip: ChipConfig) -> HbmStackConfig:
    """A stack of a chip whose addresses, a power of two, reach its capacity; a port for each of the chip's askers."""
    stack = stack_of(chip)
    controller = stack.controller
    needed = -(-int(chip.hbm_stack_gib * (1 << 30)) // stack.stack_bytes)
    rows = controller.geometry.rows << (needed - 1).bit_length()
    stack = stack.replace(
        controller=controller.replace(geometry=controller.geometry.replace(rows=rows)),
        requesters=chip.cores + 2,
        address_bits=56,
    )
    return stack.replace(address_bits=stack.stack_bits + 1)


def system_of(machine: MachineConfig, topology: Torus | SwitchedServers) -> SystemConfig:
    """Chips of a preset's machine, joined; the devices of one alone are ports, those of many lie in the chips."""
    chip = machine.chip
    stack = memory_of(chip)
    space = stack.stack_bytes // LINE_BYTES * chip.hbm_stacks
    return SystemConfig(
        core=dataclasses.replace(core_of(machine), hbm_lines=space * topology.nodes),
        router=router_of(topology, chip.cores) if isinstance(topology, Torus) else None,
        switches=None if isinstance(topology, Torus) else topology,
        stack=stack,
        cores=chip.cores,
        chip_lines=space,
        stacks=chip.hbm_stacks,
        stack_lines=int(chip.hbm_stack_gib * (1 << 30)) // LINE_BYTES,
        sockets=topology.nodes > 1,
        beat=HOST_BEAT,
    )


def chip_of(machine: MachineConfig) -> SystemConfig:
    """One chip alone: its fabric has one node."""
    return system_of(machine, Torus(sizes=(1,)))


def instance_of(machine: MachineConfig) -> SystemConfig:
    """One instance: its chips on the torus nearest to a square."""
    if machine.fabric != "torus":
        raise refuse("instance", "fabric", machine.fabric, "torus: switches join the chips of a whole UltraServer")
    return system_of(machine, Torus(sizes=_square(machine)))


def ultraserver_of(machine: MachineConfig) -> SystemConfig:
    """Instances joined by rings of the chips at equal places, whose links are half as wide; or chips on switches.

    A machine of switches with more servers than chips in each has a switch in each server too.
    """
    count = machine.ultraserver_instances
    if machine.fabric == "switch":
        chips = machine.instance_chips
        return system_of(machine, SwitchedServers(servers=count, chips=chips, levels=1 + (count > chips)))
    square = _square(machine)
    cycles = (*(1 for _ in square), 2) if count > 1 else ()
    return system_of(machine, Torus(sizes=(*square, count) if count > 1 else square, cycles=cycles))


def _square(machine: MachineConfig) -> tuple[int, ...]:
    chips = machine.instance_chips
    short = max(size for size in range(1, math.isqrt(chips) + 1) if chips % size == 0)
    return (chips // short, short) if short > 1 else (chips,)
