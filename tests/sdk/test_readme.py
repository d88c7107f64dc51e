import json
from pathlib import Path

import pytest

from sdk import readme
from spec.parameters import ParameterError
from spec.results import Record, write


def test_status_adds_up_the_configurations_of_a_block(tmp_path: Path) -> None:
    records = [
        Record(f"fifo {digest}", figure, value)
        for digest, scale in (("aaaaaaaa", 1), ("bbbbbbbb", 10))
        for figure, value in (("tests", 2 * scale), ("vectors", 500 * scale), ("mismatches", 0))
    ]
    write("sim", "fifo", records, build=tmp_path)
    (row,) = readme.status_rows(tmp_path)
    assert (row["configurations"], row["tests"], row["vectors"], row["mismatches"]) == (2, 22, 5500, 0)
    assert "| `fifo` | 2 | 22 | 5,500 | 0 |" in readme.status_table([row])


def test_a_part_is_replaced_and_the_rest_kept() -> None:
    text = "before\n<!-- status -->\nold\n<!-- /status -->\nafter\n"
    assert readme.replaced(text, "status", "new") == "before\n<!-- status -->\nnew\n<!-- /status -->\nafter\n"


def test_a_missing_part_is_refused() -> None:
    with pytest.raises(ParameterError, match="part 'status' found 0 times: legal is once"):
        readme.replaced("nothing here", "status", "new")


def test_the_readme_has_every_generated_part() -> None:
    text = readme.README.read_text()
    for name in ("status", "transcript"):
        assert readme.replaced(text, name, "x") != text


def test_the_readme_names_only_blocks_that_have_a_bench() -> None:
    from verif.catalog import BENCHES

    text = readme.README.read_text().split("<!-- status -->")[1].split("<!-- /status -->")[0]
    named = {line.split("`")[1] for line in text.splitlines() if line.startswith("| `")}
    assert named == {bench.name for bench in BENCHES}


def test_results_of_another_shape_are_no_figures(tmp_path: Path) -> None:
    (tmp_path / "verilog").mkdir()
    (tmp_path / "verilog" / "fifo.json").write_text(json.dumps({"ports": []}))
    from spec import results

    assert results.read(tmp_path) == []
