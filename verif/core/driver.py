"""A compiled core that runs programs: the same interface as the golden one."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from golden.core.core import Start
from golden.core.report import Fault, Report, Wait
from hdl.core.core import QUIET
from hdl.core.layouts import PROGRAMS
from hdl.core.system import CoreSystem
from spec.core import ENGINES, LINE_BYTES, CoreConfig
from spec.isa import REASONS
from verif.harness.model import Model
from verif.harness.packing import pack, to_words
from verif.harness.pysim import Simulation
from verif.tensor.driver import SHARED

Bytes = npt.NDArray[np.uint8]
Lines = npt.NDArray[np.uint32]
"""Whole lines, ``[line, word]``."""
WORDS = LINE_BYTES // 4
LARGE = 16
"""Lanes from which on a core is compiled in parts."""
LIMIT = 2_000_000
"""Cycles after which a program that has not ended is given up."""


class LineHost(abc.ABC):
    """Bytes in and out of a memory whose host moves lines."""

    @abc.abstractmethod
    def put(self, first: int, lines: Lines) -> None:
        """Write whole lines, from line ``first`` on."""

    @abc.abstractmethod
    def get(self, first: int, count: int) -> Lines:
        """Read whole lines, from line ``first`` on."""

    def write(self, address: int, data: Bytes) -> None:
        """Bytes into the memory; a line that is not written whole is read first."""
        if not len(data):
            return
        first, last = address // LINE_BYTES, -(-(address + len(data)) // LINE_BYTES)
        lines = np.zeros((last - first) * LINE_BYTES, np.uint8)
        start = address - first * LINE_BYTES
        if start:
            lines[:LINE_BYTES] = self.read(first * LINE_BYTES, LINE_BYTES)
        if (address + len(data)) % LINE_BYTES:
            lines[-LINE_BYTES:] = self.read((last - 1) * LINE_BYTES, LINE_BYTES)
        lines[start : start + len(data)] = data
        self.put(first, lines.view(np.uint32).reshape(-1, WORDS))

    def read(self, address: int, count: int) -> Bytes:
        """Bytes from the memory."""
        first, last = address // LINE_BYTES, -(-(address + count) // LINE_BYTES)
        found = np.ascontiguousarray(self.get(first, last - first)).reshape(-1).view(np.uint8)
        return found[address - first * LINE_BYTES :][:count].copy()


def host_items(numbers: npt.NDArray[np.int64], lines: Lines | None = None) -> Lines:
    """Items of the host's stream: to write ``lines`` to those numbers, or to read them."""
    items = np.zeros((len(numbers), WORDS + 2), np.uint32)
    items[:, WORDS] = numbers
    if lines is not None:
        items[:, :WORDS], items[:, WORDS + 1] = lines, 1
    return items


class RtlTarget(LineHost):
    """A core in hardware and its HBM: compiled, unless ``model`` is one that exists already."""

    def __init__(self, config: CoreConfig, model: Model | Simulation | None = None, **options: Any) -> None:
        self.config = config
        self.corrected = self.conflicts = 0
        """Of the last run: words repaired since reset, cycles that SBUF's ports waited."""
        self.model: Any = Model(CoreSystem(config), **self.build(config), **options) if model is None else model

    @classmethod
    def build(cls, config: CoreConfig) -> dict[str, Any]:
        """How Verilator compiles a core.

        A small one runs fastest in one piece. Of a large one, lanes, rows and banks are blocks of their own, compiled
        once: what is written out 16 times takes an hour to compile and fits no cache.
        """
        if config.partitions < LARGE:
            return {"no_inline": cls.shared(config)}
        once = {"row": config.tensor, "sbuf_bank": config, "vector_lane": config.vector, "scalar_lane": config.scalar}
        return {
            "hierarchy": [f"{name}_{owner.digest()}" for name, owner in once.items()],
            "shared": [*SHARED, "secded_*", "reader_*", "transfer_engine_*", "transfer_lane_*", "spread_*", "pick_*"],
        }

    @staticmethod
    def shared(config: CoreConfig) -> list[str]:
        """Modules of which there are many, of a small core: functions of their own."""
        digests = {
            "vector_lane": config.vector,
            "scalar_lane": config.scalar,
            "processing_element": config.tensor,
            "sbuf_bank": config,
            "reader": config,
            "transfer_engine": config,
            "transfer_lane": config,
            "spread": config,
        }
        return [f"{name}_{owner.digest()}" for name, owner in digests.items()]

    def put(self, first: int, lines: Lines) -> None:
        """Lines into HBM."""
        self.model.run({"host": host_items(np.arange(first, first + len(lines)), lines)}, limit=LIMIT)

    def get(self, first: int, count: int) -> Lines:
        """Lines from HBM."""
        items = host_items(np.arange(first, first + count))
        return self.model.run({"host": items}, expect={"lines": count}, limit=LIMIT).outputs["lines"]

    def run(self, starts: Mapping[str, Start], **settings: Any) -> Report:
        """Run what lies in HBM."""
        settings.setdefault("limit", LIMIT)
        run = self.model.run(
            {"start": self.start_word(starts)}, expect={"report": 1}, idle=settings["limit"], **settings
        )
        if not len(run.stamps["report"]):
            raise TimeoutError(f"the core has not reported after {run.cycles} cycles")
        fields = run.fields("report")
        self.corrected, self.conflicts = int(fields["corrected"][0]), int(fields["conflicts"][0])
        return report_of(fields)

    @staticmethod
    def start_word(starts: Mapping[str, Start]) -> Any:
        """The item of the start stream."""
        programs = [dataclasses.asdict(starts.get(name, Start())) for name in ENGINES]
        return to_words([pack(PROGRAMS, {"programs": programs, "patience": QUIET})], PROGRAMS.size)


def report_of(fields: Any) -> Report:
    """The report of a run from the fields of the stream's one item."""
    report = Report(cycles=int(fields["cycles"][0]))
    states = {name: {key: int(value[0]) for key, value in fields["engines"][index].items()}
              for index, name in enumerate(ENGINES)}  # fmt: skip
    for name, state in states.items():
        report.busy[name], report.issued[name] = state["busy"], state["issued"]
    reason = int(fields["fault"]["reason"][0])
    if reason:
        waits = tuple(
            Wait(name, state["counter"], state["awaited"], state["target"], state["holds"])
            for name, state in states.items()
            if state["waiting"]
        )
        engine = ENGINES[int(fields["fault"]["engine"][0])]
        report.fault = Fault(engine, int(fields["fault"]["counter"][0]), REASONS[reason], waits)
    return report
