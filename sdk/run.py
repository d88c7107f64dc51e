"""Run a program on the golden core or on the hardware, and tell what happened."""

import dataclasses
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from golden.core.core import Core, Start
from golden.core.report import Fault, Report
from golden.numerics import codes
from golden.numerics.cast import encode
from sdk.program import Program
from sdk.tensors import DTYPES, View
from spec.core import ENGINES, LINE_BYTES
from spec.parameters import lookup, refuse

Bytes = npt.NDArray[np.uint8]


class ProgramError(RuntimeError):
    """The core stopped with an exception: the fault, and the source line of the instruction."""

    def __init__(self, fault: Fault, line: str) -> None:
        self.fault, self.line = fault, line
        super().__init__(f"{line}: {fault}")


class Host(Protocol):
    """Access to HBM from outside."""

    def write(self, address: int, data: Bytes) -> None:
        """Bytes into HBM."""

    def read(self, address: int, count: int) -> Bytes:
        """Bytes from HBM."""


class Target(Host, Protocol):
    """Something that runs programs: memories that live on from run to run."""

    def run(self, starts: Mapping[str, Start]) -> Report:
        """Run what lies in HBM."""


class GoldenTarget:
    """The golden core."""

    def __init__(self, program: Program) -> None:
        self.core = Core(program.config)

    def write(self, address: int, data: Bytes) -> None:
        """Bytes into HBM."""
        self.core.memories.hbm[address : address + len(data)] = data

    def read(self, address: int, count: int) -> Bytes:
        """Bytes from HBM."""
        return self.core.memories.hbm[address : address + count].copy()

    def run(self, starts: Mapping[str, Start]) -> Report:
        """Run what lies in HBM."""
        return self.core.run(starts)


def _rtl(program: Program) -> Target:
    from verif.core.driver import RtlTarget  # it needs a simulator; golden does not

    return RtlTarget(program.config)


def _pysim(program: Program) -> Target:
    from hdl.core.system import CoreSystem
    from verif.core.driver import RtlTarget
    from verif.harness.pysim import Simulation

    return RtlTarget(program.config, Simulation(CoreSystem(program.config)))


TARGETS: dict[str, Any] = {"golden": GoldenTarget, "rtl": _rtl, "pysim": _pysim}
"""What a program runs on: the golden core, the compiled hardware, the hardware in Amaranth's simulator."""


@dataclasses.dataclass
class Result:
    """Outcome of a run: tensors by name, and the report."""

    program: Program
    target: Host
    report: Report

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """A tensor of HBM as an array of its format's numpy type."""
        view: View = lookup("tensor", self.program.tensors, name)
        raw = self.target.read(view.offset, view.box.high - view.offset)
        return raw.view(DTYPES[view.format]).reshape(view.shape)

    @property
    def cycles(self) -> int:
        """Cycles of the whole program."""
        return self.report.cycles


def as_bytes(view: View, array: npt.NDArray[Any]) -> Bytes:
    """An array as the codes of a tensor, cast to its format where it has another."""
    if array.shape != view.shape:
        raise refuse("run", view.name, array.shape, f"{view.shape}")
    kind = DTYPES[view.format]
    if array.dtype != kind:
        array = encode(view.format, array.astype(np.float32)).astype(codes.code_dtype(view.format))
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def load(program: Program, target: Host, inputs: Mapping[str, npt.NDArray[Any]]) -> dict[str, Start]:
    """Write code and inputs into HBM; where each engine starts."""
    code = program.finish()
    for name, array in inputs.items():
        view = lookup("tensor", program.tensors, name)
        target.write(view.offset, as_bytes(view, array))
    starts = {}
    for engine in ENGINES:
        starts[engine] = Start(code.starts[engine], len(code.words[engine]))
        data = np.frombuffer(code.bytes(engine), np.uint8)
        target.write(code.starts[engine] * LINE_BYTES, data)
    return starts


def run(program: Program, target: str | Target, inputs: Mapping[str, npt.NDArray[Any]]) -> Result:
    """Run on ``golden``, ``rtl``, ``pysim``, or a target that exists; a fault is raised as :class:`ProgramError`."""
    machine: Target = lookup("target", TARGETS, target)(program) if isinstance(target, str) else target
    report = machine.run(load(program, machine, inputs))
    if report.fault is not None:
        lines = program.finish().lines[report.fault.engine]
        counter = report.fault.counter
        raise ProgramError(report.fault, lines[counter] if counter < len(lines) else "outside the program")
    return Result(program, machine, report)
