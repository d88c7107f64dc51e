"""When things happen in a core, in cycles: the model of time of sequencers, engines, semaphores and DMA.

Every constant is a number of pipeline registers of the hardware, named by where they are; nothing is fitted.
"""

import dataclasses

from golden.core.dma import Transfer
from golden.core.units import Work
from golden.scalar import activation
from golden.vector import instructions as vector
from spec.core import CoreConfig

CHECK = 5
"""Cycles from an instruction of an engine to its hand-over: one for each dimension of its patterns, and one."""


@dataclasses.dataclass(frozen=True)
class Times:
    """Of one engine instruction: when it starts, has read and is complete, and when the sequencer goes on."""

    start: int
    read: int
    done: int
    next: int


class Costs:
    """Times of one core; remembers when each engine is free."""

    first = 4
    end = 2
    wait = 3
    wake = 1
    update = 2
    jump = 20
    trigger = 6

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        self.free = {"tensor": 0, "vector": 0, "scalar": 0}

    def control(self, _name: str) -> int:
        """Of an instruction that only the sequencer executes."""
        return 2

    def engine(self, engine: str, name: str, work: Work, time: int) -> Times:
        """Of an instruction of a compute engine that may be issued at ``time``."""
        start = max(time + CHECK, self.free[engine])
        rows = max((count for _, count in work.reads), default=0)
        if engine == "tensor":
            length = -(-rows // self.config.tensor.load_columns) if name == "load_stationary" else rows
            self.free[engine] = start + (0 if name == "load_stationary" else length)
            done = start + length + self.config.tensor.latency
            return Times(start, start + length, done, start)
        entry = work.instruction
        sbuf = sum(count for memory, count in work.reads if memory == "sbuf")
        length = max(sbuf, rows, 1)
        if work.reason != "none":
            length, latency = 1, 8
        elif engine == "vector":
            length = max(length, vector.interval(self.config.vector, entry) * rows)
            latency = self.config.vector.latency + 6
        else:
            assert isinstance(entry, activation.Instruction)
            latency = self.config.scalar.latency + 6
        done = start + length + latency + work.constants
        self.free[engine] = done
        return Times(start, start + length, done, start)

    def transfer(self, transfer: Transfer, time: int) -> int:
        """End of a transfer that starts at ``time``."""
        return time + transfer.count + self.config.hbm_latency + 12
