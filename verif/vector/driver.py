"""Vector and scalar engine behind one interface, compiled RTL or golden: an instruction and arrays in, rows out."""

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from golden.scalar import activation
from golden.vector import instructions
from hdl.scalar.engine import ScalarEngine
from hdl.vector.engine import VectorEngine
from spec.scalar import STATUS as SCALAR_STATUS
from spec.scalar import ScalarConfig
from spec.vector import STATUS as VECTOR_STATUS
from spec.vector import VectorConfig
from verif.harness.model import Model
from verif.scalar import programs as scalar_programs
from verif.vector import programs as vector_programs

F32 = npt.NDArray[np.float32]
QUIET = 200


class Engines(Protocol):
    """What a program needs: both engines on fp32 rows ``[rows, lanes]``."""

    def vector(self, entry: instructions.Instruction, left: F32 | None = None, right: F32 | None = None) -> F32:
        """Execute one vector instruction."""

    def scalar(self, entry: activation.Instruction, operand: F32 | None = None) -> F32:
        """Execute one scalar instruction."""


class Golden:
    """Both engines in numpy."""

    def __init__(self, lanes: int) -> None:
        self._vector = instructions.VectorEngine(VectorConfig(lanes=lanes))
        self._scalar = activation.ScalarEngine(ScalarConfig(lanes=lanes))

    def vector(self, entry: instructions.Instruction, left: F32 | None = None, right: F32 | None = None) -> F32:
        """Execute one vector instruction."""
        rows, _, status = self._vector.execute(entry, *(None if side is None else bits(side) for side in (left, right)))
        _accept(status)
        return rows.view(np.float32)

    def scalar(self, entry: activation.Instruction, operand: F32 | None = None) -> F32:
        """Execute one scalar instruction."""
        rows, status = self._scalar.execute(entry, None if operand is None else bits(operand))
        _accept(status)
        return rows.astype(np.uint32).view(np.float32)


class Rtl:
    """Both engines compiled from their Verilog; adds up the cycles they take."""

    def __init__(self, vector: VectorConfig, scalar: ScalarConfig) -> None:
        self.configs = vector, scalar
        self._vector, self._scalar = Model(VectorEngine(vector)), Model(ScalarEngine(scalar))
        self.cycles = 0

    def vector(self, entry: instructions.Instruction, left: F32 | None = None, right: F32 | None = None) -> F32:
        """Execute one vector instruction."""
        config = self.configs[0]
        streams = {
            "instructions": vector_programs.fields(config, [entry]),
            "constants": vector_programs.constants(config, [entry]),
            **{name: bits(side) for name, side in (("left", left), ("right", right)) if side is not None},
        }
        run = self._run(self._vector, streams, VECTOR_STATUS)
        return run.fields("results")["row"].astype(np.uint32).view(np.float32)

    def scalar(self, entry: activation.Instruction, operand: F32 | None = None) -> F32:
        """Execute one scalar instruction."""
        config = self.configs[1]
        streams = {
            "instructions": scalar_programs.fields(config, [entry]),
            "constants": scalar_programs.constants(config, [entry]),
            **({} if operand is None else {"operands": bits(operand)}),
        }
        return np.ascontiguousarray(self._run(self._scalar, streams, SCALAR_STATUS).outputs["results"]).view(np.float32)

    def _run(self, model: Model, streams: dict[str, Any], statuses: Any) -> Any:
        run = model.run(streams, expect={"status": 1}, idle=QUIET)
        _accept(list(statuses)[int(run.fields("status")["code"][0])])
        self.cycles += int(run.stamps["status"][0]) + 1
        return run

    def close(self) -> None:
        """Free both models."""
        self._vector.close()
        self._scalar.close()


def bits(rows: F32) -> npt.NDArray[np.uint32]:
    """Rows of fp32 as codes."""
    return np.ascontiguousarray(rows, np.float32).view(np.uint32)


def _accept(status: str) -> None:
    if status != "done":
        raise RuntimeError(f"the engine refused the instruction: {status}")
