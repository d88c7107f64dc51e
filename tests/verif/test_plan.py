"""Every planned feature is verified by something that exists."""

from pathlib import Path

import pytest

from verif.catalog import BENCHES
from verif.harness.plan import problems, read_plan, read_plans, unplanned

ROOT = Path(__file__).parents[2]
FEATURES = read_plans(ROOT)


def plan(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    return path


def test_every_feature_has_tests_and_cover_bins_that_exist() -> None:
    assert FEATURES
    assert problems(FEATURES, BENCHES, ROOT) == []


def test_every_block_with_a_bench_has_a_plan() -> None:
    assert unplanned(FEATURES, BENCHES) == []


def test_a_missing_test_and_an_undeclared_bin_are_found(tmp_path: Path) -> None:
    text = 'block = "fifo"\n[[feature]]\nname = "x"\ntext = "y"\n'
    tests = 'tests = ["verif/fifo.py::nothing", "verif/none.py::check", "verif/fifo.py"]\ncover = ["level: half"]\n'
    found = problems(read_plan(plan(tmp_path, text + tests)), BENCHES, ROOT)
    assert found == [
        "fifo, x: verif/fifo.py::nothing does not exist",
        "fifo, x: verif/none.py::check does not exist",
        "fifo, x: verif/fifo.py does not exist",
        "fifo, x: cover bin 'level: half' is not declared",
    ]


def test_a_feature_without_tests_is_found_and_an_unknown_key_refused(tmp_path: Path) -> None:
    head = 'block = "fifo"\n[[feature]]\nname = "x"\ntext = "y"\n'
    assert problems(read_plan(plan(tmp_path, head + "tests = []\n")), BENCHES, ROOT) == ["fifo, x: no test"]
    with pytest.raises(ValueError, match="feature x"):
        read_plan(plan(tmp_path, head + 'tests = []\nowner = "z"\n'))
    with pytest.raises(ValueError, match="tests"):
        read_plan(plan(tmp_path, head))
