"""Chips that share one address space, in numpy: every core's program on one agenda.

Values do not depend on times as long as semaphores order what depends; the time of an update on its way to another chip
is that of its hops without other traffic.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from golden.core.core import Agenda, Core, Run, Start
from golden.core.memory import Bytes
from golden.core.report import Report
from spec.parameters import refuse
from spec.system import SystemConfig

ENDPOINTS = 6
"""Cycles of a message in the two chips at its ends."""
HOP = 2
"""Cycles of a hop, link included."""


class System:
    """``hbm`` are the memories of all chips, one after the other; cores are numbered chip by chip."""

    def __init__(self, config: SystemConfig) -> None:
        self.config = config
        self.hbm: Bytes = np.zeros(config.chips * config.chip_bytes, np.uint8)
        self.cores = [Core(config.core) for _ in range(config.chips * config.cores)]
        for core in self.cores:
            core.memories.hbm = self.hbm
        self.lost = 0
        """Updates for cores that do not exist."""

    def write(self, address: int, data: Bytes) -> None:
        """Bytes into the memories, as the host does."""
        self.hbm[address : address + len(data)] = data

    def read(self, address: int, count: int) -> Bytes:
        """Bytes from the memories."""
        return self.hbm[address : address + count].copy()

    def run(self, starts: Sequence[Mapping[str, Start]]) -> list[Report]:
        """Start all cores at once and run until nothing happens any more; one report each."""
        if len(starts) != len(self.cores):
            raise refuse("System.run", "starts", len(starts), f"{len(self.cores)}, one for each core")
        agenda = Agenda()
        runs: list[Run] = []

        def deliver(source: int, core: int, semaphore: int, kind: str, operand: int, time: int) -> None:
            if core >= len(runs):
                self.lost += 1
                return

            def change(now: int) -> None:
                runs[core].change(semaphore, kind, operand, now)

            agenda.at(time + self._way(source, core), change)

        for number, (core, start) in enumerate(zip(self.cores, starts, strict=True)):

            def sent(other: int, semaphore: int, kind: str, operand: int, time: int, source: int = number) -> None:
                deliver(source, other, semaphore, kind, operand, time)

            runs.append(Run(core, start, agenda, sent))
        agenda.run()
        return [run.finished() for run in runs]

    def _way(self, source: int, target: int) -> int:
        """Cycles of an update from core to core."""
        chips = [core // self.config.cores for core in (source, target)]
        if chips[0] == chips[1]:
            return 1
        return ENDPOINTS + HOP * (1 + self.config.topology.hops(*chips))
