"""A machine as the time model runs it: how many chips, on which network, and which chips form a group.

Ranks are laid over the chips in order: tensor-parallel ranks are neighbours, then context-, data- and pipeline-parallel
ones. On a torus a group is then a box of it, so its collectives run along its dimensions.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from scale.collectives import Collectives, Timing
from scale.measured import Value
from scale.network import Indices, Network, PortNetwork, RoutedNetwork
from spec.machine import MachineConfig
from spec.parallelism import ParallelConfig
from spec.parameters import ParameterError
from spec.presets import PRESETS, machine_named
from spec.topology import Torus

SCOPES = ("chip", "instance", "ultraserver")
"""What of a machine a name like ``trn2-instance`` takes."""

GIGA = 1e9


def machine_scope(name: str) -> tuple[MachineConfig, str]:
    """``trn2-ultraserver`` as a machine and its scope; an unknown name is refused with all known ones."""
    preset, _, scope = name.upper().partition("-")
    scope = scope.lower() or "ultraserver"
    if preset not in PRESETS or scope not in SCOPES:
        known = ", ".join(f"{each.lower()}-{part}" for each in PRESETS for part in SCOPES)
        raise ParameterError(f"preset {name!r}: legal is one of {known}")
    return machine_named(preset), scope


@dataclasses.dataclass(frozen=True)
class Fabric:
    """Chips and links of one server of a machine, with the efficiencies they run at.

    Trainium-1 and -2 chips lie in a torus of 4 columns, UltraServers joining instances by Z rings of half the width.
    Trainium-3 UltraServers are a switch: the chips' own ports are counted, the inside is taken as non-blocking.
    """

    machine: MachineConfig
    scope: str
    values: Mapping[str, Value]

    @property
    def chips(self) -> int:
        """Chips of the server."""
        machine = self.machine
        return {"chip": 1, "instance": machine.instance_chips}.get(self.scope, machine.ultraserver_chips)

    @property
    def hbm_bytes(self) -> int:
        """Capacity of one chip."""
        return int(self.machine.chip.hbm_stacks * self.machine.chip.hbm_stack_gib * 2**30)

    @property
    def hbm_rate(self) -> float:
        """Bytes a second one chip's memory really moves."""
        return self.machine.chip.hbm_tbytes * 1e12 * self.values["hbm"].value

    @property
    def efa_rate(self) -> float:
        """Bytes a second of one chip's share of EFA, each way."""
        return self.machine.efa_gbits * GIGA / 8 * self.values["efa"].value

    @property
    def timing(self) -> Timing:
        """What surrounds a step of a collective inside the server."""
        local = self.values["local_links"].value * self.link_bytes
        seconds = self.values["step_ns"].value * 1e-9
        return Timing(step_seconds=seconds, memory_bytes=self.hbm_rate, local_bytes=local)

    @property
    def link_bytes(self) -> float:
        """Bytes a second, each way, of a link of full width; a chip's published figure counts both ways of all."""
        full = 4 if self.machine.ultraserver_instances == 1 else 5  # a Z ring has two links of half the width
        return self.machine.chip.link_gbytes * GIGA / 2 / full * self.values["link"].value

    @property
    def efa_timing(self) -> Timing:
        """What surrounds a step between servers: the published latency holds all of it."""
        return Timing(memory_bytes=self.hbm_rate)

    @cached_property
    def torus(self) -> Torus | None:
        """The torus of the chips; None where they are joined by a switch."""
        side = math.isqrt(self.machine.instance_chips)
        if self.machine.chip.link_gbytes == 0 or side < 2 or side * side != self.machine.instance_chips:
            return None
        if self.machine.ultraserver_instances > 8:
            return None
        if self.scope == "chip":
            return Torus(sizes=(1,))
        if self.scope == "instance" or self.machine.ultraserver_instances == 1:
            return Torus(sizes=(side, side))
        return Torus(sizes=(side, side, self.machine.ultraserver_instances), cycles=(1, 1, 2))

    @cached_property
    def network(self) -> Network:
        """Links at the width they really reach."""
        hop = self.values["hop_cycles"].value / (self.values["fabric_ghz"].value * GIGA)
        if self.torus is None:
            away = self.machine.chip.link_gbytes * GIGA / 2 * self.values["link"].value
            return PortNetwork(self.chips, port_bytes=away, latency=2 * hop)
        return RoutedNetwork(self.torus, unit_bytes=self.link_bytes, hop_seconds=hop)

    def lanes(self, links: Sequence[int]) -> tuple[str, ...]:
        """Names of the dimensions some links belong to: what a collective occupies."""
        if self.torus is None:
            return ("port",) if len(links) else ()
        return tuple(sorted({"xyzw"[(self.torus.links[link].source_port - 1) // 2] for link in links}))

    def groups(self, parallel: ParallelConfig, axis: str) -> Indices:
        """A row of chips for each group along ``axis`` of :attr:`scale.kernels.Builder.ranks`, or ``pp``."""
        grid = np.arange(self.chips).reshape(parallel.pp, -1, parallel.ep, parallel.cp, parallel.tp)
        places = {"pp": (0,), "rp": (1, 2, 3), "xp": (1, 3), "ep": (2,), "cp": (3,), "tp": (4,)}[axis]
        moved = np.moveaxis(grid, places, range(-len(places), 0))
        return moved.reshape(-1, math.prod(moved.shape[-len(places) :]))

    def collectives(self, groups: Indices) -> Collectives:
        """Collectives of groups that lie alike; the grid of a group is read from its first. Made once, then kept."""
        key = (groups.shape[1], groups.tobytes())
        if key not in self._made:
            shape, widths = self._grid(groups[0])
            self._made[key] = Collectives(self.network, groups, shape, widths, self.timing)
        return self._made[key]

    @cached_property
    def _made(self) -> dict[tuple[int, bytes], Collectives]:
        return {}

    def _grid(self, group: Indices) -> tuple[tuple[int, ...], tuple[float, ...]]:
        """Extent of a group along each dimension it spans, and their widths; one line where it is not a box."""
        if self.torus is not None and len(group) > 1:
            places = np.array([self.torus.coordinates(int(chip)) for chip in group])
            spans = [np.unique(column) for column in places.T]
            shape = tuple(len(span) for span in spans)
            box = np.array([[span[index] for span, index in zip(spans, at, strict=True)] for at in _places(shape)])
            if math.prod(shape) == len(group) and (box == places).all():
                used = [dimension for dimension, extent in enumerate(shape) if extent > 1]
                narrow = [self._width(dimension, shape[dimension]) for dimension in used]
                return tuple(shape[dimension] for dimension in used), tuple(narrow)
        return (len(group),), (1.0,)

    def _width(self, dimension: int, extent: int) -> float:
        """Relative width of both neighbours' links together; a pair cut out of a longer ring has one link, not two."""
        assert self.torus is not None
        paired = extent == 2 and self.torus.sizes[dimension] > 2
        return (0.5 if paired else 1.0) / self.torus.flit_cycles(1 + 2 * dimension)

    def between(self, servers: int) -> Collectives:
        """Collectives of chips at one position of all servers; each has its own EFA port, so all are alike."""
        network = PortNetwork(servers, port_bytes=self.efa_rate, latency=self.values["efa_us"].value * 1e-6)
        return Collectives(network, np.arange(servers)[None], (servers,), (1.0,), self.efa_timing)


def _places(shape: Sequence[int]) -> list[tuple[int, ...]]:
    """Positions in a box, the first dimension fastest."""
    return [tuple(reversed(place)) for place in np.ndindex(*reversed(shape))]
