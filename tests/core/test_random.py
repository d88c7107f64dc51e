"""Random programs: legal ones end, wrong ones fault, failures shrink."""

import numpy as np

from golden.core.core import Core
from golden.core.report import Report
from spec.core import LINE_BYTES
from verif.core.bench import LITTLE, spoiled
from verif.core.programs import Case, Generator, shrink


def outcome(case: Case) -> Report:
    core = Core(case.config)
    starts, code = case.code()
    core.memories.hbm[: len(case.data)] = case.data
    for engine, data in code.items():
        core.memories.hbm[starts[engine].line * LINE_BYTES :][: len(data)] = data
    return core.run(starts)


def test_legal_programs_end_and_wrong_ones_fault() -> None:
    rng = np.random.default_rng(1)
    for _ in range(6):
        draw = Generator(LITTLE, rng)
        case = draw.case(12)
        assert outcome(case).fault is None
        assert outcome(spoiled(case, rng)).fault is not None


def test_a_failure_shrinks_to_the_instruction_that_causes_it() -> None:
    case = Generator(LITTLE, np.random.default_rng(2)).case(40)
    guilty = next(entry for entry in case.entries if entry.name.startswith("scalar."))
    small = shrink(case, lambda one: any(entry is guilty for entry in one.entries))
    assert small.entries == [guilty]


def test_every_instruction_is_drawn() -> None:
    draw = Generator(LITTLE, np.random.default_rng(3))
    names = {entry.name for _ in range(12) for entry in draw.case(60).entries}
    assert {"dma", "alu", "nop", "matmul", "load_stationary", "scalar.activation"} <= names
    assert len([name for name in names if name.startswith("vector.")]) > 15
