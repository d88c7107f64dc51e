"""Programs of a system of chips: one for each core, with each other's tensors in reach.

A copy to another chip, and the signal that it has come::

    system = SystemProgram(config)
    for p in system.programs:
        p.output("x", (8,), "fp32")
    first, second = system.programs[:2]
    first.dma(second.tensors["x"], first.tensors["x"])
    first.notify(1, 0, second.tensors["x"])
    second.expect(0, 1, second.tensors["x"])

Addresses are those of the whole system, so a tensor of another chip is used as an own one. What two cores do with the
same bytes is ordered by signals, :meth:`~sdk.program.Program.notify` and :meth:`~sdk.program.Program.expect`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy.typing as npt

from golden.core.core import Start
from golden.core.report import Report
from golden.system.system import System
from sdk.program import Program
from sdk.run import Host, ProgramError, Result, load
from spec.core import LINE_BYTES
from spec.isa import IMPRECISE
from spec.parameters import lookup, refuse
from spec.system import SystemConfig

Inputs = Mapping[str, npt.NDArray[Any]]


class Machine(Host, Protocol):
    """Something that runs the programs of a system; memories live on from run to run."""

    def run(self, starts: Sequence[Mapping[str, Start]]) -> list[Report]:
        """Run what lies in the memories."""


def _rtl(config: SystemConfig) -> Machine:
    from verif.system.driver import RtlSystem  # it needs a simulator; golden does not

    return RtlSystem(config)


MACHINES: dict[str, Any] = {"golden": System, "rtl": _rtl}


class SystemProgram:
    """``programs[n]`` is that of core ``n``; each has an equal part of its chip's memory for tensors and code."""

    def __init__(self, config: SystemConfig) -> None:
        self.config = config
        share = config.chip_lines // config.cores * LINE_BYTES
        everyone = range(config.chips * config.cores)
        self.programs = [Program(config.core, hbm=range(core * share, (core + 1) * share)) for core in everyone]

    def run(self, machine: str | Machine, inputs: Sequence[Inputs]) -> list[Result]:
        """Run on ``golden``, ``rtl`` or a machine that exists; inputs and results one by one as the programs are.

        The first core that stopped with a fault is raised as :class:`~sdk.run.ProgramError`.
        """
        if len(inputs) != len(self.programs):
            raise refuse("SystemProgram.run", "inputs", len(inputs), f"{len(self.programs)}, one for each core")
        found: Machine = lookup("machine", MACHINES, machine)(self.config) if isinstance(machine, str) else machine
        starts = [load(p, found, own) for p, own in zip(self.programs, inputs, strict=True)]
        reports = found.run(starts)
        for core, (program, report) in enumerate(zip(self.programs, reports, strict=True)):
            if report.fault is not None:
                lines = program.finish().lines[report.fault.engine]
                counter = report.fault.counter
                where = f", {lines[counter] if counter < len(lines) else 'its end'}"
                raise ProgramError(report.fault, f"core {core}{'' if report.fault.reason in IMPRECISE else where}")
        return [Result(p, found, report) for p, report in zip(self.programs, reports, strict=True)]
