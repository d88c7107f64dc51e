"""Two cores of a chip as one: memory they share, barriers, and tiles they swap.

::

    pair = LogicalCore(config)                     # a chip of two cores
    left, right = pair.programs
    ...                                            # each computes its half into a tile
    pair.swap((mine, yours), (theirs, others))     # each gets the other's tile
    pair.barrier()                                 # both have come this far

Both programs must contain the same barriers and swaps in the same order, which these methods see to.
"""

from collections.abc import Sequence

from sdk.program import Program
from sdk.system import SystemProgram
from sdk.tensors import View, contiguous
from spec.core import WORD_BYTES
from spec.parameters import refuse
from spec.system import SystemConfig

BARRIER, ARRIVED = 0, 1
"""Signals of the other core: it has come to a barrier; its tile has come."""


class LogicalCore:
    """The first two cores of a system: those of its first chip, where that has two."""

    def __init__(self, config: SystemConfig) -> None:
        if config.chips * config.cores == 1:
            raise refuse("LogicalCore", "cores", 1, "2 or more")
        self.system = SystemProgram(config)
        self.programs = self.system.programs[:2]
        self._count = {BARRIER: 0, ARRIVED: 0}

    def barrier(self) -> None:
        """Neither core goes on before both have done everything written so far."""
        self._count[BARRIER] += 1
        for number, program in enumerate(self.programs):
            everything = _memories(program)
            program.add("sync", "nop", {}, [], everything)
            program.notify(1 - number, BARRIER)
            program.expect(BARRIER, self._count[BARRIER], *everything)

    def swap(self, sent: Sequence[View], received: Sequence[View]) -> None:
        """Core ``n`` sends its tile ``sent[n]`` and gets the other's into ``received[n]``, through memory."""
        shapes = {view.shape for view in (*sent, *received)}
        if len(shapes) != 1:
            raise refuse("swap", "shapes", sorted(shapes), "one shape")
        self._count[ARRIVED] += 1
        count = self._count[ARRIVED]
        shared = [
            program.hbm(f"swap {count} from {number}", view.shape, view.format)
            for number, (program, view) in enumerate(zip(self.programs, sent, strict=True))
        ]
        for number, program in enumerate(self.programs):
            program.dma(shared[number], sent[number])
            program.notify(1 - number, ARRIVED, shared[number])
        for number, program in enumerate(self.programs):
            program.expect(ARRIVED, count, shared[1 - number])
            program.dma(received[number], shared[1 - number])


def _memories(program: Program) -> list[View]:
    """All that instructions of a program may touch."""
    config, lanes = program.config, program.config.partitions
    return [
        contiguous("hbm", "fp32", (config.hbm_bytes // WORD_BYTES,), 0),
        contiguous("sbuf", "fp32", (lanes, config.sbuf_bytes // WORD_BYTES), 0),
        contiguous("psum", "fp32", (lanes, config.psum_bytes // WORD_BYTES), 0),
    ]
