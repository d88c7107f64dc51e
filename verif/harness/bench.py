"""A bench: a block, the configurations to try, and what checks it. ``verif/catalog.py`` lists them all.

The check is a cocotb module, a function that drives a compiled model, or both. A function gets a :class:`Trial`::

    def check(trial: Trial) -> None:
        model = trial.model()
        for name, stall in STALLS.items():
            with trial.test(name):
                run = model.run({"i": items}, expect={"o": len(items)}, stalls={"i": stall, "o": stall})
                trial.scoreboard("o", shape).compare(run.outputs["o"], golden(items))
"""

import contextlib
import dataclasses
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hdl.block import Block
from spec.parameters import Parameters
from spec.results import BUILD
from verif.harness import counts
from verif.harness.coverage import CoverGroup
from verif.harness.faults import check_notices
from verif.harness.model import Model
from verif.harness.runner import run_cocotb
from verif.harness.scoreboard import Scoreboard


@dataclasses.dataclass
class Row:
    """What a bench found for one configuration: one line of the table of ``make sim``."""

    block: str
    parameters: str
    """Digest of the configuration."""
    summary: str = ""
    """The configuration in words."""
    tests: int = 0
    vectors: int = 0
    mismatches: int = 0
    cycles: int = 0
    seconds: float = 0.0
    utilisation: float | None = None
    seed: int = 0
    failures: list[str] = dataclasses.field(default_factory=list)
    repeat: str = ""
    figures: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Anything else worth a record: ``{"accuracy [%]": 97.2}``."""
    hits: Counter[str] = dataclasses.field(default_factory=Counter)
    """Hits of the bench's cover bins."""

    @property
    def speed(self) -> float:
        """Simulated cycles a second, builds left out."""
        return self.cycles / self.seconds if self.seconds else 0.0

    @property
    def verdict(self) -> str:
        """``pass`` only if tests ran, compared something and nothing differed."""
        return "pass" if self.tests and self.vectors and not self.mismatches and not self.failures else "FAIL"


class Trial:
    """One run of a bench function on one configuration; it counts tests, vectors, mismatches, cycles and time."""

    def __init__(
        self,
        block: Any,
        config: Any,
        *,
        seed: int,
        row: Row,
        waves: bool = False,
        coverage: bool = False,
        long: bool = False,
    ) -> None:
        self.block, self.config, self.seed, self.long = block, config, seed, long
        self.rng = np.random.default_rng(seed)
        self.row = row
        self._waves, self._coverage = waves, coverage
        self._models: list[Model] = []

    def model(self, block: Any = None, **options: Any) -> Model:
        """A compiled model of the block (or of another one), with the waves and coverage that were asked for."""
        label = f"{self.row.block}-{self.row.parameters}-{self.seed}-{len(self._models)}"
        if self._waves:
            options["waves"] = _below(BUILD / "waves", f"{label}.fst")
        if self._coverage:
            options["coverage"] = _below(BUILD / "coverage", f"{label}.dat")
        model = Model(self.block if block is None else block, seed=self.seed, **options)
        self._models.append(model)
        return model

    def scoreboard(self, name: str, shape: Any, number: str | Mapping[str, str] | None = None) -> Scoreboard:
        """A scoreboard for one stream."""
        return Scoreboard(name, shape, number)

    def notices(self, name: str, shape: Any, golden: Any, **options: Any) -> None:
        """Show that a scoreboard on these golden outputs notices every planted fault; see :func:`.check_notices`."""
        check_notices(lambda items: self.scoreboard(name, shape).compare(items, golden), golden, shape, **options)

    @contextlib.contextmanager
    def test(self, name: str) -> Iterator[None]:
        """One named test; a failed assertion is noted and the next test runs."""
        self.row.tests += 1
        try:
            yield
        except AssertionError as error:
            self.row.failures.append(f"{name}: {error}")

    def close(self) -> None:
        """Add up what the models did and free them."""
        for model in self._models:
            self.row.cycles += model.cycles
            self.row.seconds += model.seconds
            model.close()
        self._models.clear()


Check = Callable[[Trial], None]


@dataclasses.dataclass(frozen=True)
class Bench:
    """``name`` is the block's in ``hdl/catalog.py``. ``block`` builds it from a configuration.

    ``quick`` configurations run in ``make sim`` and ``make test``, ``long`` ones in ``make regress`` as well. A bench
    without a block is a plain function (an application that uses several). ``cover`` lists what its stimulus must meet.
    """

    name: str
    quick: tuple[Parameters, ...]
    block: Callable[[Any], Block] | None = None
    long: tuple[Parameters, ...] = ()
    cocotb: str = ""
    check: Check | None = None
    cover: CoverGroup | None = None

    def __post_init__(self) -> None:
        if not self.quick or not (self.cocotb or self.check) or (self.cocotb and self.block is None):
            raise ValueError(f"bench {self.name}: legal is a configuration, and a cocotb module of a block or a check")

    def configurations(self, *, long: bool = False) -> tuple[Parameters, ...]:
        """Every configuration of the quick or of the long set."""
        return (*self.quick, *self.long) if long else self.quick

    def run(
        self, config: Parameters, *, seed: int, waves: bool = False, coverage: bool = False, long: bool = False
    ) -> Row:
        """Run everything on one configuration. Failures are in the row, not raised."""
        label = f"{self.name}:{config.digest()}"
        repeat = f"WAVES=1 SEED={seed} systola sim {label}"
        row = Row(self.name, config.digest(), config.summary(), seed=seed, repeat=repeat)
        block = self.block(config) if self.block is not None else None
        if self.check is not None:
            before = counts.snapshot()
            trial = Trial(block, config, seed=seed, row=row, waves=waves, coverage=coverage, long=long)
            started = time.monotonic()
            try:
                self.check(trial)
            except AssertionError as error:
                row.failures.append(str(error))
            finally:
                trial.close()
            row.seconds = row.seconds or time.monotonic() - started
            _add(row, counts.since(before))
        if self.cocotb:
            settings = {"SYSTOLA_LONG": "1"} if long else {}
            report = run_cocotb(
                block, self.cocotb, seed=seed, waves=waves, coverage=coverage, name=self.name, environment=settings
            )
            row.tests += len(report.cases)
            row.cycles += report.cycles
            row.seconds += sum(case.seconds for case in report.cases)
            row.failures += [f"{case.name}: {case.message}" for case in report.cases if not case.passed]
            row.failures += [] if report.cases else [f"no test of {self.cocotb} ran; see {report.log}"]
            _add(row, report.counts)
        return row


def _add(row: Row, found: counts.Counts) -> None:
    row.vectors += found.vectors
    row.mismatches += found.mismatches
    row.hits.update(found.hits)


def _below(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder.absolute() / name
