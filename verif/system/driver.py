"""A compiled system of chips with the interface of the golden one."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from golden.core.core import Start
from golden.core.report import Report
from hdl.core.layouts import PROGRAMS
from hdl.system.system import System
from spec.core import ENGINES
from spec.system import SystemConfig
from verif.core.driver import LIMIT, LineHost, Lines, RtlTarget, host_items, report_of
from verif.harness.model import Model, Result
from verif.harness.packing import pack, to_words

PATIENCE = 1 << 16
"""Cycles without anything under way after which a core that waits gives up."""


class RtlSystem(LineHost):
    """A system and its hosts; addresses are those of the whole system."""

    def __init__(self, config: SystemConfig, model: Model | None = None, **options: Any) -> None:
        self.config = config
        if model is None:
            model = Model(System(config), **self.build(config), **options)
        self.model = model
        self.cycles = 0
        """Of the last run, from start to the last report."""

    @staticmethod
    def build(config: SystemConfig) -> dict[str, Any]:
        """How Verilator compiles a system: core and router once each."""
        names = [f"core_{config.core.digest()}", f"router_{config.router.digest()}"]
        return {"hierarchy": names, "no_inline": RtlTarget.shared(config.core)}

    def put(self, first: int, lines: Lines) -> None:
        """Lines into the memories."""
        chips, numbers = np.divmod(np.arange(first, first + len(lines)), self.config.chip_lines)
        self.model.run(
            {f"host_{chip}": host_items(numbers[chips == chip], lines[chips == chip]) for chip in np.unique(chips)},
            limit=LIMIT,
        )

    def get(self, first: int, count: int) -> Lines:
        """Lines from the memories."""
        chips, numbers = np.divmod(np.arange(first, first + count), self.config.chip_lines)
        wanted = {int(chip): host_items(numbers[chips == chip]) for chip in np.unique(chips)}
        run = self.model.run(
            {f"host_{chip}": part for chip, part in wanted.items()},
            expect={f"lines_{chip}": len(part) for chip, part in wanted.items()},
            limit=LIMIT,
        )
        return np.concatenate([run.outputs[f"lines_{chip}"] for chip in sorted(wanted)])

    def begin(self, starts: Sequence[Mapping[str, Start]], **settings: Any) -> Result:
        """Start all cores in the same cycle; ``settings`` are those of :meth:`.Model.run`."""
        inputs = {}
        for number, start in enumerate(starts):
            chip, core = divmod(number, self.config.cores)
            programs = [dataclasses.asdict(start.get(name, Start())) for name in ENGINES]
            word = pack(PROGRAMS, {"programs": programs, "patience": PATIENCE})
            inputs[f"start_{core}_{chip}"] = to_words([word], PROGRAMS.size)
        return self.model.run(inputs, **settings)

    def run(self, starts: Sequence[Mapping[str, Start]]) -> list[Report]:
        """Start all cores and wait for all of them."""
        names = [f"report_{n % self.config.cores}_{n // self.config.cores}" for n in range(len(starts))]
        run = self.begin(starts, expect=dict.fromkeys(names, 1), limit=LIMIT, idle=LIMIT)
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
