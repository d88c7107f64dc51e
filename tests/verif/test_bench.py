"""A bench passes on a good block, fails on a bad one, and an empty one is no pass."""

from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Module

from spec.parameters import ParameterError, Parameters
from tests.verif.example_bench import BENCH, AddOne, check
from verif.fifo import BENCH as FIFO
from verif.harness.bench import Bench, Row, Trial
from verif.simulate import run_benches, table

ROOT = Path(__file__).parents[2]


class AddTwo(AddOne):
    def elaborate(self, platform: Any) -> Module:
        ports: Any = self
        m = super().elaborate(platform)
        m.d.comb += ports.o.payload.eq(ports.i.payload + 2)
        return m


def test_the_example_of_the_docs_passes() -> None:
    row = BENCH.run(Parameters(), seed=5)
    assert row.failures == []
    assert row.verdict == "pass"
    assert (row.tests, row.vectors, row.mismatches) == (6, 6000, 0)
    assert row.cycles > 6000
    assert "tests/verif/example_bench.py" in (ROOT / "docs" / "verification.md").read_text()


def test_the_example_fails_on_a_wrong_block() -> None:
    row = Bench("example.add_two", block=AddTwo, quick=(Parameters(),), check=check).run(Parameters(), seed=5)
    assert row.verdict == "FAIL"
    assert row.mismatches == 6000
    assert "item 0 payload: rtl 0x" in row.failures[0]
    assert row.repeat == f"WAVES=1 SEED=5 systola sim example.add_two:{Parameters().digest()}"


def test_a_bench_that_compares_nothing_does_not_pass() -> None:
    def empty(trial: Trial) -> None:
        with trial.test("nothing"):
            pass

    assert Bench("empty", (Parameters(),), check=empty).run(Parameters(), seed=1).verdict == "FAIL"
    assert Row("x", "y").verdict == "FAIL"


def test_waves_and_coverage_are_written_on_request(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("verif.harness.bench.BUILD", tmp_path)
    BENCH.run(Parameters(), seed=5, waves=True, coverage=True)
    assert [path.suffix for path in sorted(tmp_path.rglob("*.*"))] == [".dat", ".fst"]


def test_a_bench_without_a_check_is_refused() -> None:
    with pytest.raises(ValueError, match="bench x: legal is"):
        Bench("x", (Parameters(),))


def test_one_configuration_can_be_named() -> None:
    config = FIFO.quick[0]
    (row,) = run_benches([f"fifo:{config.digest()}"], seed=3, jobs=1)
    assert (row.parameters, row.verdict, row.seed) == (config.digest(), "pass", 3)
    assert table([row]).row_count == 1


@pytest.mark.parametrize("name", ["nothing", "fifo:00000000"])
def test_unknown_benches_are_refused_in_one_line(name: str) -> None:
    with pytest.raises(ParameterError, match="legal is one of"):
        run_benches([name])
