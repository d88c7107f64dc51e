"""Compiled models: cached by content, safe against interruption and against two processes at once."""

import concurrent.futures
import multiprocessing
from pathlib import Path

import pytest

from verif.harness import compile as compiling
from verif.harness.compile import Driver, Options, compiled
from verif.tools import ToolError

TOP = "module tiny(input clk, input a, output reg b);\n  always @(posedge clk) b <= {};\nendmodule\n"
DRIVER = Driver('#include "Vtop.h"\nextern "C" int answer() { return 42; }\n', "tiny.so", ("-shared",))


def build(store: str) -> tuple[str, int]:
    setattr(compiling, "BUILD", Path(store))  # noqa: B010  # a name the module imports, not its own
    folder = compiled("tiny", TOP.format("~a"), Options(), DRIVER)
    return str(folder), (folder / "tiny.so").stat().st_ino


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A cache of its own that shares the compiled runtime with everybody."""
    (tmp_path / "models").mkdir()
    for part in Options().runtime:
        folder = compiling.runtime(part).parent
        (tmp_path / "models" / folder.name).symlink_to(folder)
    monkeypatch.setattr(compiling, "BUILD", tmp_path)
    return tmp_path


def test_two_processes_build_one_model_and_the_second_takes_it(store: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as pool:
        first, second = pool.map(build, [str(store)] * 2)
    assert first == second
    assert len(list((store / "models").glob("tiny-*"))) == 1


def test_other_content_or_options_are_another_model(store: Path) -> None:
    folder = compiled("tiny", TOP.format("~a"), Options(), DRIVER)
    before = (folder / "tiny.so").stat().st_mtime_ns
    assert compiled("tiny", TOP.format("~a"), Options(), DRIVER) == folder
    assert (folder / "tiny.so").stat().st_mtime_ns == before
    assert compiled("tiny", TOP.format("a"), Options(), DRIVER) != folder
    assert compiled("tiny", TOP.format("~a"), Options(optimise="-O0"), DRIVER) != folder


def test_checkouts_at_different_places_share_models(
    store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = compiled("tiny", TOP.format("~a"), Options(), DRIVER)
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    assert compiled("tiny", TOP.format("~a"), Options(), DRIVER) == folder


def test_a_failed_build_says_why_in_one_line_and_leaves_nothing(store: Path) -> None:
    with pytest.raises(ToolError, match=r"verilator failed: %Error.*design\.v") as caught:
        compiled("tiny", TOP.format("~c;;;("), Options(), DRIVER)
    assert "\n" not in str(caught.value)
    assert not [path for path in (store / "models").iterdir() if "tiny" in path.name and path.is_dir()]


def test_an_interrupted_build_leaves_nothing_and_is_built_the_next_time(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(compiling, "_run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            compiled("tiny", TOP.format("~a"), Options(), DRIVER)
    assert not [path for path in (store / "models").iterdir() if "tiny" in path.name and path.is_dir()]
    assert (compiled("tiny", TOP.format("~a"), Options(), DRIVER) / "tiny.so").exists()


def test_only_ports_are_visible_to_vpi() -> None:
    options = Options(public=("clk", "a"), hierarchy=("row",), no_inline=("element",), shared=("add_*",))
    verilog = "module add_1(clk, a, \\input );\nendmodule\nmodule other(clk, a);\nendmodule\n"
    text = options.control_file("tiny", verilog)
    assert text.splitlines() == [
        "`verilator_config",
        'public_flat_rw -module "tiny" -var "clk"',
        'public_flat_rw -module "tiny" -var "a"',
        'hier_block -module "row"',
        'no_inline -module "element"',
        'no_inline -module "add_*"',
        'public_flat_rd -module "add_1" -port "a"',
        'public_flat_rd -module "add_1" -port "input"',
    ]


def test_coverage_leaves_out_the_arm_that_no_run_can_take() -> None:
    verilog = "    case (s)\n      2'b01:\n        y = b;\n      default:\n        y = 1'bx;\n    endcase\n"
    assert 'coverage_off -file "*design.v" -lines 4-5' in Options(coverage=True).control_file("top", verilog)
    assert "coverage_off" not in Options().control_file("top", verilog)
