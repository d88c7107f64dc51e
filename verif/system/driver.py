"""A compiled system of chips with the interface of the golden one."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from golden.core.core import Start
from golden.core.report import Report
from hdl.block import Block
from hdl.core.layouts import PROGRAMS
from hdl.system.system import System
from spec.core import ENGINES
from spec.system import ERRORS, SystemConfig
from verif.core.driver import LIMIT, WORDS, LineHost, Lines, RtlTarget, host_items, report_of
from verif.harness.model import Model, Result
from verif.harness.packing import pack, to_words
from verif.system.rig import DeviceRig, repeated

FEW = 4
"""Chips that Verilator may take apart."""
PATIENCE = 1 << 16
"""Cycles without anything under way after which a core that waits gives up."""


class LineError(RuntimeError):
    """The host has read a line that memory could not give."""


class RtlSystem(LineHost):
    """A system and its hosts; addresses are those of the whole system. ``patience`` is that of its cores."""

    def __init__(
        self, config: SystemConfig, model: Model | None = None, patience: int = PATIENCE, **options: Any
    ) -> None:
        self.config, self.patience = config, patience
        self.model = Model(self.block(config), **self.build(config), **options) if model is None else model
        self.cycles = 0
        """Of the last run, from start to the last report."""

    @staticmethod
    def block(config: SystemConfig) -> Block:
        """The hardware: a system, with devices where it has stacks of HBM."""
        system = System(config)
        return system if config.stack is None else DeviceRig(system, config)

    @staticmethod
    def build(config: SystemConfig) -> dict[str, Any]:
        """How Verilator compiles a system: core and router once each, and where there are many chips, these too."""
        names = [f"core_{config.core.digest()}"]
        names += [f"chip_{config.digest()}"] if config.chips > FEW else []
        names += [] if config.router is None else [f"router_{config.router.digest()}"]
        return {"hierarchy": names, "no_inline": RtlTarget.shared(config.core) + repeated(config)}

    def put(self, first: int, lines: Lines) -> None:
        """Lines into the memories."""
        chips, numbers = np.divmod(np.arange(first, first + len(lines)), self.config.chip_lines)
        self.model.run(
            {f"host_{chip}": host_items(numbers[chips == chip], lines[chips == chip]) for chip in np.unique(chips)},
            limit=LIMIT,
        )

    def get(self, first: int, count: int) -> Lines:
        """Lines from the memories; one that is lost is an error."""
        if not count:
            return np.zeros((0, WORDS), np.uint32)
        chips, numbers = np.divmod(np.arange(first, first + count), self.config.chip_lines)
        wanted = {int(chip): host_items(numbers[chips == chip]) for chip in np.unique(chips)}
        run = self.model.run(
            {f"host_{chip}": part for chip, part in wanted.items()},
            expect={f"lines_{chip}": len(part) for chip, part in wanted.items()},
            limit=LIMIT,
        )
        found = np.concatenate([run.outputs[f"lines_{chip}"] for chip in sorted(wanted)])
        wrong = np.flatnonzero(found[:, WORDS])
        if len(wrong):
            raise LineError(f"line {first + wrong[0]}: {ERRORS[found[wrong[0], WORDS]]}")
        return np.ascontiguousarray(found[:, :WORDS])

    def begin(self, starts: Sequence[Mapping[str, Start]], **settings: Any) -> Result:
        """Start all cores in the same cycle; ``settings`` are those of :meth:`.Model.run`."""
        inputs = {}
        for number, start in enumerate(starts):
            chip, core = divmod(number, self.config.cores)
            programs = [dataclasses.asdict(start.get(name, Start())) for name in ENGINES]
            word = pack(PROGRAMS, {"programs": programs, "patience": self.patience})
            inputs[f"start_{core}_{chip}"] = to_words([word], PROGRAMS.size)
        return self.model.run(inputs, **settings)

    def run(self, starts: Sequence[Mapping[str, Start]], **settings: Any) -> list[Report]:
        """Start all cores and wait for all of them; ``settings`` are those of :meth:`.Model.run`."""
        names = [f"report_{n % self.config.cores}_{n // self.config.cores}" for n in range(len(starts))]
        run = self.begin(starts, expect=dict.fromkeys(names, 1), limit=LIMIT, idle=LIMIT, **settings)
        late = [name for name in names if not len(run.stamps[name])]
        if late:
            raise TimeoutError(f"{', '.join(late)} silent after {run.cycles} cycles")
        self.cycles = max(int(run.stamps[name][0]) for name in names)
        return [report_of(run.fields(name)) for name in names]

    def lost(self) -> list[int]:
        """What each chip has dropped since reset."""
        names = [f"lost_{chip}" for chip in range(self.config.chips)]
        run = self.model.run(limit=1, sample=names)
        return [int(run.sampled(name)[0]) for name in names]
