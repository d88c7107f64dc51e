"""A compiled system of chips with the interface of the golden one."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from golden.core.core import Start
from golden.core.memory import Bytes
from golden.core.report import Report
from hdl.core.layouts import PROGRAMS
from hdl.system.system import System
from spec.core import ENGINES, LINE_BYTES
from spec.system import SystemConfig
from verif.core.driver import LIMIT, WORDS, RtlTarget, report_of
from verif.harness.model import Model
from verif.harness.packing import pack, to_words


class RtlSystem:
    """``write`` and ``read`` are the host's; addresses are those of the whole system, from a line's first byte on."""

    def __init__(self, config: SystemConfig, model: Model | None = None, **options: Any) -> None:
        self.config = config
        if model is None:
            names = [f"core_{config.core.digest()}", f"router_{config.router.digest()}"]
            model = Model(System(config), hierarchy=names, no_inline=RtlTarget.shared(config.core), **options)
        self.model = model
        self.cycles = 0
        """Of the last run, from start to the last report."""

    def write(self, address: int, data: Bytes) -> None:
        """Whole lines into the memories."""
        lines = data.reshape(-1, LINE_BYTES)
        numbers = address // LINE_BYTES + np.arange(len(lines))
        items = np.zeros((len(lines), WORDS + 2), np.uint32)
        items[:, :WORDS] = np.ascontiguousarray(lines).view(np.uint32)
        items[:, WORDS] = numbers % self.config.chip_lines
        items[:, WORDS + 1] = 1
        chips = numbers // self.config.chip_lines
        self.model.run({f"host_{chip}": items[chips == chip] for chip in np.unique(chips)}, limit=LIMIT)

    def read(self, address: int, count: int) -> Bytes:
        """Whole lines from the memories."""
        numbers = address // LINE_BYTES + np.arange(count // LINE_BYTES)
        items = np.zeros((len(numbers), WORDS + 2), np.uint32)
        items[:, WORDS] = numbers % self.config.chip_lines
        chips = numbers // self.config.chip_lines
        wanted = {int(chip): items[chips == chip] for chip in np.unique(chips)}
        run = self.model.run(
            {f"host_{chip}": part for chip, part in wanted.items()},
            expect={f"lines_{chip}": len(part) for chip, part in wanted.items()},
            limit=LIMIT,
        )
        found = [np.ascontiguousarray(run.outputs[f"lines_{chip}"]) for chip in sorted(wanted)]
        return np.concatenate(found).reshape(-1).view(np.uint8).copy()

    def run(self, starts: Sequence[Mapping[str, Start]], **settings: Any) -> list[Report]:
        """Start all cores in the same cycle and wait for all of them."""
        inputs, expect = {}, {}
        for number, start in enumerate(starts):
            chip, core = divmod(number, self.config.cores)
            programs = [dataclasses.asdict(start.get(name, Start())) for name in ENGINES]
            inputs[f"start_{core}_{chip}"] = to_words(
                [pack(PROGRAMS, {"programs": programs, "alone": 0})], PROGRAMS.size
            )
            expect[f"report_{core}_{chip}"] = 1
        settings.setdefault("limit", LIMIT)
        run = self.model.run(inputs, expect=expect, **settings)
        late = [name for name in expect if not len(run.stamps[name])]
        if late:
            raise TimeoutError(f"{', '.join(late)} silent after {run.cycles} cycles")
        self.cycles = max(int(run.stamps[name][0]) for name in expect)
        return [
            report_of(run.fields(f"report_{n % self.config.cores}_{n // self.config.cores}"))
            for n in range(len(starts))
        ]
