"""Mutants of a small block: noticed by its bench, not by a blind one, and equivalence is proven only where true."""

import pytest

from hdl.fifo import Fifo
from spec.fifo import FifoConfig
from verif.fifo import BENCH
from verif.harness.bench import Bench, Trial
from verif.harness.mutation import mutate

CONFIG = FifoConfig(width=4, depth=2)
COUNT = 24


def blind(trial: Trial) -> None:
    """Looks only at how many items come."""
    with trial.test("count"):
        run = trial.model().run({"i": list(range(16))}, expect={"o": 16}, limit=500)
        assert len(run.outputs["o"]) == 16


def test_the_bench_of_the_fifo_kills_every_mutant_that_can_be_noticed() -> None:
    report = mutate(BENCH, CONFIG, count=COUNT)
    assert len(report.mutants.commands) == COUNT
    assert report.survivors == ()
    assert len(report.killed) + len(report.equivalent) == COUNT
    assert len(report.killed) > COUNT // 2


def test_a_blind_bench_lets_mutants_live_and_they_are_not_called_equivalent() -> None:
    report = mutate(Bench("blind", (CONFIG,), block=Fifo, check=blind), count=12)
    assert report.survivors
    assert report.score < 0.8


def test_mutants_are_the_same_for_the_same_seed() -> None:
    few = Bench("few", (CONFIG,), block=Fifo, check=blind)
    reports = [mutate(few, count=COUNT, equivalence=False, seed=seed) for seed in (1, 1)]
    assert reports[0].mutants.commands == reports[1].mutants.commands


def test_a_bench_without_a_block_cannot_be_mutated() -> None:
    with pytest.raises(ValueError, match="legal for mutation is a bench with a block and a check"):
        mutate(Bench("plain", (CONFIG,), check=blind))
