"""Refusals on the command line: one line that says what was wrong and what is legal, exit code 2, nothing written."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from sdk.cli import main
from spec import results


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in, with an empty build folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(results, "BUILD", tmp_path / "build")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verilog", "--block", "tensor.abacus"], "block 'tensor.abacus': legal is one of"),
        (["verilog", "--preset", "TRN9"], "preset 'TRN9': legal is one of SMALL, TINY, TRN1, TRN2, TRN3"),
        (["sim", "tensor.abacus"], "bench 'tensor.abacus': legal is one of"),
        (["sim", "fifo:00000000"], "bench.fifo = '00000000': legal is one of"),
        (["sim", "--block", "abacus"], "bench 'abacus': legal is one of"),
        (["bench", "--block", "abacus"], "bench 'abacus': legal is one of"),
        (["formal", "--block", "abacus"], "proof 'abacus': legal is one of"),
        (["coverage", "--block", "abacus"], "bench 'abacus': legal is one of"),
        (["status"], "no results below build/"),
    ],
)
def test_a_bad_input_is_refused_in_one_line(elsewhere: Path, arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith(f"systola: {message}")
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.output
    assert not [path for path in elsewhere.rglob("*") if path.is_file()]


@pytest.mark.parametrize("arguments", [["sim", "--seed", "much"], ["regress", "--seeds", "0"], ["abacus"]])
def test_a_bad_option_is_refused_by_name(elsewhere: Path, arguments: list[str]) -> None:
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert arguments[-2 if len(arguments) > 1 else 0].strip("-") in done.stderr


def test_claims_are_written_as_records(elsewhere: Path) -> None:
    assert CliRunner().invoke(main, ["claims"]).exit_code == 0
    rows = results.read(elsewhere / "build")
    assert {row["made_by"] for row in rows} == {"claims"}


def test_status_prints_what_was_measured(elsewhere: Path) -> None:
    results.write("bench", "fifo", [results.Record("fifo", "depth", 3, target=4)])
    done = CliRunner().invoke(main, ["status"])
    assert done.exit_code == 0
    assert "fifo" in done.stdout
    assert "no" in done.stdout


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "JSONDecodeError"),
        ('{"target": "bench", "records": 3}', "TypeError"),
        ('{"target": "bench", "records": [{"block": "fifo"}]}', "KeyError: 'figure'"),
        ('{"records": []}', "KeyError: 'target'"),
    ],
)
def test_a_broken_file_of_results_is_named_and_the_rest_is_untouched(elsewhere: Path, text: str, reason: str) -> None:
    whole = results.write("bench", "fifo", [results.Record("fifo", "depth", 3, target=4)])
    before = whole.read_bytes()
    (whole.parent / "hbm.json").write_text(text)
    done = CliRunner().invoke(main, ["status"])
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert f"hbm.json: not a results file ({reason}" in done.stderr
    assert "run `systola bench` again, or remove it" in done.stderr
    assert whole.read_bytes() == before
