"""Kernels of pipeline stages as operations of the discrete-event model.

Each chip runs its kernels in order. A kernel's engines work at once and stream from memory; weights are read ahead
while the kernel before works, up to a quarter of SBUF. A collective holds the dimensions of the network its bytes
cross, so two collectives run side by side only where they use different links.

All chips of a stage run the same kernels at the same times, because their groups lie alike: one chip a stage stands for
all, exactly. ``every_chip`` simulates each chip and each group alone; a test holds both against each other.
"""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from scale import exchanges
from scale.collectives import Collectives, Plan, plan
from scale.engine import Model
from scale.fabric import Fabric
from scale.kernels import Builder, Kernel
from scale.network import RoutedNetwork


@dataclasses.dataclass
class Chip:
    """Where a chip stands: the operations its next kernel waits for, and those the kernel before waited for."""

    name: str
    last: list[int] = dataclasses.field(default_factory=list)
    before: list[int] = dataclasses.field(default_factory=list)


class Stages:
    """Turns kernels into operations, and counts what they use."""

    def __init__(self, fabric: Fabric, builder: Builder, *, every_chip: bool = False) -> None:
        self.fabric, self.builder = fabric, builder
        self.parallel = builder.parallel.replace(dp=builder.parallel.dp // builder.servers)
        self.chips_each = fabric.chips // self.parallel.pp
        self.every_chip = every_chip
        self.model = Model()
        present = range(self.chips_each if every_chip else 1)
        self.chips = [[Chip(f"stage {s} chip {c}") for c in present] for s in range(self.parallel.pp)]
        self.flops = self.hbm_bytes = self.efa_bytes = 0.0
        """Of one chip of each stage, all stages together."""
        self.link_bytes = np.zeros(len(fabric.network.widths))
        self.used: dict[tuple[str, str, str], float] = {}
        """Seconds of each ``(operation, axis, algorithm)``, all stages together."""
        network = fabric.network
        source = (
            np.array([link.source for link in network.topology.links])
            if isinstance(network, RoutedNetwork)
            else np.arange(2 * fabric.chips)
        )
        self._stage_of_link = source % fabric.chips // self.chips_each
        self._collectives: dict[str, Collectives] = {}
        self._planned: dict[tuple[str, str, float], tuple[Plan, float]] = {}
        self._lanes: dict[tuple[int, int], tuple[str, ...]] = {}
        self._groups: dict[tuple[int, str], list[list[int]]] = {}

    def fork(self, stage: int) -> list[Chip]:
        """The chips of a stage as they stand, to run kernels beside their own order."""
        return [Chip(chip.name, list(chip.last), list(chip.last)) for chip in self.chips[stage]]

    def run(
        self, stage: int, kernels: Iterable[Kernel], chips: Sequence[Chip] | None = None, priority: int = 0
    ) -> None:
        """Run kernels on the chips of a stage, or on a fork of them."""
        chips = self.chips[stage] if chips is None else chips
        for kernel in kernels:
            self.flops += kernel.flops
            self.hbm_bytes += kernel.ahead_bytes + kernel.bytes
            if kernel.collective is not None:
                self._exchange(stage, kernel.name, *kernel.collective, chips=chips, priority=priority)
                continue
            for chip in chips:
                self._kernel(kernel, chip, priority)

    def _kernel(self, kernel: Kernel, chip: Chip, priority: int) -> None:
        """Reads ahead, streams and engines of one kernel on one chip."""
        rate, add = self.fabric.hbm_rate, self.model.add
        ahead = min(kernel.ahead_bytes, self.builder.sbuf / 4)
        stream = kernel.bytes + kernel.ahead_bytes - ahead
        memory = [f"{chip.name} hbm"]
        sources = []
        if ahead:
            sources.append(add(f"{kernel.name} weights", memory, ahead / rate, chip.before, priority=priority))
        if stream:
            sources.append(add(f"{kernel.name} stream", memory, stream / rate, chip.last, priority=priority))
        last = [
            add(kernel.name, [f"{chip.name} {engine}"], seconds, chip.last, meets=sources, priority=priority)
            for engine, seconds in kernel.engines.items()
        ]
        chip.before, chip.last = chip.last, last

    def _exchange(
        self,
        stage: int,
        name: str,
        operation: str,
        axis: str,
        amount: float,
        *,
        chips: Sequence[Chip],
        priority: int,
    ) -> None:
        """A collective of every group along an axis of one stage."""
        best, seconds = self._plan(operation, axis, amount)
        key = (operation, axis, best.schedule.algorithm)
        self.used[key] = self.used.get(key, 0.0) + seconds
        if axis == "efa":
            self.efa_bytes += float(best.link_bytes[: self.builder.servers].max()) * amount
            lanes: tuple[str, ...] = ("efa",)
        else:
            mine = self._stage_of_link == stage
            self.link_bytes[mine] += best.link_bytes[mine] * amount
            lanes = self._lanes_of(best, stage)
        for members in self._members(stage, axis):
            group = [chips[member] for member in members]
            after = group[0].last if len(group) == 1 else [number for chip in group for number in chip.last]
            held = [f"{chip.name} {lane}" for chip in group for lane in lanes]
            number = self.model.add(name, held, seconds, after, priority=priority)
            for chip in group:
                chip.before, chip.last = chip.last, [number]

    def _members(self, stage: int, axis: str) -> list[list[int]]:
        """The groups of a stage, as positions in its list of chips."""
        if not self.every_chip or axis == "efa":
            return [[member] for member in range(len(self.chips[stage]))]
        key = (stage, axis)
        if key not in self._groups:
            groups = self.fabric.groups(self.parallel, axis)
            first = stage * self.chips_each
            here = groups[(groups[:, 0] >= first) & (groups[:, 0] < first + self.chips_each)]
            self._groups[key] = (here - first).tolist()
        return self._groups[key]

    def _plan(self, operation: str, axis: str, amount: float) -> tuple[Plan, float]:
        """The fastest algorithm and its time."""
        key = (operation, axis, amount)
        if key not in self._planned:
            if axis not in self._collectives:
                self._collectives[axis] = (
                    self.fabric.between(self.builder.servers)
                    if axis == "efa"
                    else self.fabric.collectives(self.fabric.groups(self.parallel, axis))
                )
            best = self._collectives[axis].best(operation, amount)
            self._planned[key] = best, best.time(amount)
        return self._planned[key]

    def _lanes_of(self, used: Plan, stage: int) -> tuple[str, ...]:
        """Dimensions in which a plan moves bytes of a stage's chips."""
        key = (id(used), stage)
        if key not in self._lanes:
            links = np.flatnonzero((used.link_bytes > 0) & (self._stage_of_link == stage))
            self._lanes[key] = tuple(f"link {lane}" for lane in self.fabric.lanes(links.tolist()))
        return self._lanes[key]

    def send(self, stage: int, following: int, amount: float) -> list[list[int]]:
        """Pass a microbatch's result to the next stage while the sender works on; what each receiver waits for."""
        key = ("permute", f"{stage}>{following}", amount)
        if key not in self._planned:
            targets = [following if other == stage else -1 for other in range(self.parallel.pp)]
            groups = self.fabric.groups(self.parallel, "pp")
            one = plan(exchanges.permute(targets), self.fabric.network, groups, self.fabric.timing)
            self._planned[key] = one, one.time(amount)
        used, seconds = self._planned[key]
        self.link_bytes += used.link_bytes * amount
        self.used["permute", "pp", "direct"] = self.used.get(("permute", "pp", "direct"), 0.0) + seconds
        sends = []
        for sender, receiver in zip(self.chips[stage], self.chips[following], strict=True):
            held = [f"{chip.name} {lane}" for chip, at in ((sender, stage), (receiver, following))
                    for lane in self._lanes_of(used, at)]  # fmt: skip
            sends.append([self.model.add("send", held, seconds, sender.last)])
        return sends
