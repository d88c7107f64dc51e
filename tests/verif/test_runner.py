"""cocotb runs: what they report, that they repeat, and that agents notice broken streams."""

import re
from pathlib import Path

import pytest

from tests.verif.harness_blocks import Relay, RelayConfig
from verif.harness.runner import Report, chosen_seed, new_seed, run_cocotb


@pytest.fixture(scope="module")
def report() -> Report:
    return run_cocotb(Relay(RelayConfig()), "tests.verif.cocotb_relay", seed=21)


def messages(report: Report, name: str) -> list[str]:
    return [case.message for case in report.cases if f".{name}" in case.name]


def test_good_tests_pass_under_every_stall(report: Report) -> None:
    assert messages(report, "passes") == [""] * 6


def test_a_wrong_golden_is_reported_with_both_values(report: Report) -> None:
    (message,) = messages(report, "finds_a_wrong_golden")
    assert "item 0 tag: rtl 0x6, golden 0x5" in message


def test_agents_notice_a_withdrawn_and_a_changed_offer(report: Report) -> None:
    withdrawn, changed = messages(report, "finds_a_broken_offer")
    assert "o: valid fell before ready" in withdrawn
    assert "o: payload changed from 0x6 to 0x1 before ready" in changed


def test_a_lost_item_is_a_failure_not_a_hang(report: Report) -> None:
    (message,) = messages(report, "finds_a_lost_item")
    assert "o: 0 of 1 items came in 50 cycles" in message


def test_a_failure_prints_the_one_command_that_repeats_it(report: Report) -> None:
    with pytest.raises(AssertionError, match=r"WAVES=1 SEED=21 python -m pytest '?tests/verif/test_runner.py::"):
        report.check()


def test_counts_cycles_and_junit_come_back(report: Report) -> None:
    assert report.counts.vectors == 602 - 1
    assert report.counts.mismatches == 1
    assert 1000 < report.cycles < 20_000
    assert report.junit.read_text().count("<testcase") == len(report.cases) == 11


def test_the_same_seed_draws_the_same_and_writes_waves(tmp_path: Path) -> None:
    block = Relay(RelayConfig())
    runs = [run_cocotb(block, "tests.verif.cocotb_relay", tests="seeded", seed=seed, waves=True) for seed in (4, 4, 5)]
    drawn = [re.search(r"drew (\d+)", run.log.read_text()) for run in runs]
    first, second, third = (found[1] for found in drawn if found)
    assert first == second != third
    assert runs[0].waves is not None
    assert runs[0].waves.stat().st_size > 100
    assert runs[0].passed


def test_a_module_without_tests_is_not_a_pass() -> None:
    report = run_cocotb(Relay(RelayConfig()), "tests.verif.cocotb_relay", tests="nothing", seed=1)
    assert not report.passed
    with pytest.raises(AssertionError, match="no test ran"):
        report.check()


def test_the_seed_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEED", "0x10")
    assert chosen_seed() == 16
    assert chosen_seed(3) == 3
    monkeypatch.setenv("SEED", "")
    assert chosen_seed() == chosen_seed()
    assert new_seed() != new_seed()
