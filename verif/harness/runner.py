"""Runs a cocotb module on a block: compiled once, seeded, repeatable with one command.

>>> report = run_cocotb(block, "verif.memory.test_fifo")                                       # doctest: +SKIP
>>> report.passed, report.seed, [case.name for case in report.cases]                           # doctest: +SKIP

Environment: ``SEED`` (an integer; 1 otherwise, and printed), ``WAVES=1`` (FST under ``build/waves``),
``COVERAGE=1`` (data under ``build/coverage``), ``SIMULATOR=icarus`` (second opinion, where installed).

cocotb's own runner makes every signal of the design visible to VPI, which costs most of build time and half of the
speed; here only the ports of the top are.
"""

import dataclasses
import hashlib
import os
import random
import shlex
import time
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import cocotb_tools.config
from cocotb_tools import runner as cocotb_runner

from spec.results import BUILD
from verif.harness.compile import Driver, Options, compiled
from verif.harness.counts import Counts, load
from verif.harness.design import Design, design_of
from verif.tools import ToolError, iverilog

DEFAULT_SEED = 1

PERIOD = 2
"""Clock period in steps of the simulator, as ``streams.start`` sets it; no block knows time, only cycles."""

STEPS_PER_NS = 1000


@dataclasses.dataclass(frozen=True)
class Case:
    """One cocotb test. ``message`` is empty when it passed."""

    name: str
    seconds: float
    message: str = ""
    cycles: int = 0

    @property
    def passed(self) -> bool:
        """Whether the test passed."""
        return not self.message


@dataclasses.dataclass(frozen=True)
class Report:
    """All tests of one run. ``repeat`` is the command that runs them again with waves."""

    cases: tuple[Case, ...]
    seed: int
    seconds: float
    log: Path
    junit: Path
    repeat: str
    counts: Counts
    waves: Path | None = None
    coverage: Path | None = None

    @property
    def cycles(self) -> int:
        """Clock cycles of all tests."""
        return sum(case.cycles for case in self.cases)

    @property
    def passed(self) -> bool:
        """Whether there was a test and all passed."""
        return bool(self.cases) and all(case.passed for case in self.cases)

    def check(self) -> None:
        """Raise an AssertionError that names the failures and the command that repeats them."""
        if not self.passed:
            failures = [f"{case.name}: {case.message}" for case in self.cases if not case.passed]
            lines = failures or [f"no test ran; see {self.log}"]
            raise AssertionError("\n".join([*lines, f"log: {self.log}", f"repeat with waves: {self.repeat}"]))


class Verilator(cocotb_runner.Verilator):
    """cocotb's runner on a model of ours: it only starts it."""

    def __init__(self, executable: Path, trace: Path | None, coverage: Path | None) -> None:
        super().__init__()
        self._arguments = [str(executable)]
        if trace is not None:
            self._arguments += ["--trace", "--trace-file", str(trace)]
        if coverage is not None:
            self._arguments += [f"+verilator+coverage+file+{coverage}"]

    def _test_command(self) -> list[list[str]]:
        return [[*self._arguments, *self.test_args, *self.plusargs]]


def chosen_seed(seed: int | None = None) -> int:
    """The seed of this run: the argument, else ``SEED``, else 1: what judges a change must not depend on luck.

    New seeds are for ``make regress``, which draws them with :func:`new_seed`.
    """
    if seed is not None:
        return seed
    text = os.environ.get("SEED", "")
    return int(text, 0) if text else DEFAULT_SEED


def new_seed() -> int:
    """A seed that nobody has chosen."""
    return random.SystemRandom().randrange(1 << 31)


def wanted(variable: str, value: bool | None = None) -> bool:
    """An on/off option: the argument, else the environment variable."""
    return value if value is not None else os.environ.get(variable, "") not in ("", "0")


def repeat_command(seed: int) -> str:
    """The one command that runs the present test again with waves."""
    current = os.environ.get("PYTEST_CURRENT_TEST", "").rsplit(" ", maxsplit=1)[0]
    bench = os.environ.get("SYSTOLA_BENCH", "")
    command = f"systola sim {shlex.quote(bench)}" if bench else f"python -m pytest {shlex.quote(current)}"
    return f"WAVES=1 SEED={seed} {command}"


def run_cocotb(
    block: Any,
    module: str | Sequence[str],
    *,
    tests: str | Sequence[str] | None = None,
    seed: int | None = None,
    waves: bool | None = None,
    coverage: bool | None = None,
    environment: Mapping[str, str] | None = None,
    options: Options | None = None,
    name: str = "",
    build: Path | None = None,
) -> Report:
    """Run the cocotb tests of ``module`` on ``block`` (a component or a :class:`Design`).

    ``tests`` selects some of them by name. ``environment`` reaches the tests as environment variables. ``name`` tells
    two runs of the same block and module apart. Failing tests are in the report; :meth:`Report.check` raises.
    """
    design = block if isinstance(block, Design) else design_of(block)
    seed, build = chosen_seed(seed), (build or BUILD).absolute()
    waves, coverage = wanted("WAVES", waves), wanted("COVERAGE", coverage)
    modules = [module] if isinstance(module, str) else list(module)
    label = "-".join([name or design.top, *(part.rsplit(".", maxsplit=1)[-1] for part in modules)])
    unique = hashlib.sha256(repr((design.top, modules, tests, seed, environment)).encode()).hexdigest()[:8]
    folder = build / "runs" / f"{label}-{unique}-{os.getpid()}"
    folder.mkdir(parents=True, exist_ok=True)
    trace = _file(build / "waves", f"{label}-{seed}.fst") if waves else None
    points = _file(build / "coverage", f"{label}-{unique}.dat") if coverage else None

    started = time.monotonic()
    if os.environ.get("SIMULATOR", "verilator") == "icarus":
        runner, trace = _icarus(design, folder, waves), None
    else:
        runner = _verilator(design, options or Options(), trace, points)
    log, junit, tally = folder / "log.txt", folder / "results.xml", folder / "counts.json"
    extra = {"COCOTB_ANSI_OUTPUT": "0", "SYSTOLA_COUNTS": str(tally), **(environment or {})}
    # cocotb's runner behaves differently below pytest (it exits); this is always the plain behaviour.
    below_pytest = os.environ.pop("PYTEST_CURRENT_TEST", None)
    try:
        runner.test(
            modules,
            design.top,
            hdl_toplevel_lang="verilog",
            testcase=tests,
            seed=seed,
            extra_env=extra,
            build_dir=folder,
            test_dir=folder,
            results_xml=str(junit),
            log_file=log,
            timescale=("1ns", "1ps"),
        )
    except SystemExit:
        pass  # a failed test; the results file says which
    finally:
        if below_pytest is not None:
            os.environ["PYTEST_CURRENT_TEST"] = below_pytest
    seconds = time.monotonic() - started
    return Report(_read(junit), seed, seconds, log, junit, repeat_command(seed), load(tally), trace, points)


def _verilator(design: Design, options: Options, trace: Path | None, coverage: Path | None) -> Verilator:
    options = dataclasses.replace(
        options, waves=trace is not None, coverage=coverage is not None, public=tuple(design.names)
    )
    libraries = cocotb_tools.config.libs_dir
    source = (cocotb_tools.config.share_dir / "lib" / "verilator" / "verilator.cpp").read_text()
    link = (f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-lcocotbvpi_verilator")
    folder = compiled(design.top, design.verilog, options, Driver(source, "simulator", link))
    return Verilator(folder / "simulator", trace, coverage)


def _icarus(design: Design, folder: Path, waves: bool) -> Any:
    if iverilog() is None:
        raise ToolError("SIMULATOR=icarus: iverilog is not installed (Debian: iverilog)")
    (folder / "design.v").write_text(design.verilog)
    runner = cocotb_runner.Icarus()
    runner.build(sources=[folder / "design.v"], hdl_toplevel=design.top, build_dir=folder, waves=waves, always=True)
    return runner


def _file(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def _read(junit: Path) -> tuple[Case, ...]:
    if not junit.exists():
        return ()
    cases = []
    for element in ET.parse(junit).getroot().iter("testcase"):
        bad = next((child for child in element if child.tag in ("failure", "error")), None)
        message = "" if bad is None else (bad.get("message") or bad.get("error_msg") or (bad.text or "failed").strip())
        name = f"{element.get('classname')}.{element.get('name')}"
        notes = {note.get("name"): note.get("value") for note in element.iter("property")}
        span = float(notes.get("sim_time_stop") or 0) - float(notes.get("sim_time_start") or 0)
        cycles = round(span * STEPS_PER_NS / PERIOD)
        cases.append(Case(name, float(element.get("time") or 0), message, cycles))
    return tuple(cases)
