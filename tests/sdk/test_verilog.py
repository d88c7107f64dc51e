"""``systola verilog``: files appear whole or not at all, refusals are one line."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Module
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, Signature

import sdk.verilog
from hdl.block import Block
from hdl.emit import SRAM
from sdk.verilog import write_verilog
from spec.machine import MachineConfig
from spec.parameters import ParameterError


class Store(Block):
    """A memory of as many rows as the array has."""

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        store: Any = self
        rows: Any = Memory(shape=8, depth=4, init=[])
        m.submodules.rows = rows
        read, write = rows.read_port(), rows.write_port()
        m.d.comb += [read.addr.eq(store.i), write.addr.eq(store.i), write.en.eq(1), store.o.eq(read.data)]
        return m


def store(machine: MachineConfig) -> Block:
    return Store(machine.tensor, Signature({"i": In(2), "o": Out(8)}))


def broken(machine: MachineConfig) -> Block:
    raise ParameterError("TensorConfig.rows = 3: legal is nothing here")


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[MachineConfig], Block]]:
    table: dict[str, Callable[[MachineConfig], Block]] = {"test.store": store, "test.shelf": store}
    monkeypatch.setattr(sdk.verilog, "BLOCKS", table)
    return table


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.usefixtures("blocks")
def test_all_blocks_share_one_memory_model(tmp_path: Path) -> None:
    paths = write_verilog("all", "TINY", tmp_path)
    assert sorted(path.name for path in paths) == [
        "sram.v",
        "test_shelf.json",
        "test_shelf.v",
        "test_store.json",
        "test_store.v",
    ]
    assert sorted(contents(tmp_path)) == sorted(path.name for path in paths)
    description = json.loads((tmp_path / "test_store.json").read_text())
    assert description["sources"] == ["test_store.v", "sram.v"]
    assert (description["block"], description["preset"]) == ("test.store", "TINY")
    assert (tmp_path / "sram.v").read_text() == SRAM.read_text()


@pytest.mark.usefixtures("blocks")
def test_writing_twice_gives_identical_bytes(tmp_path: Path) -> None:
    write_verilog("all", "TINY", tmp_path / "one")
    write_verilog("all", "TINY", tmp_path / "other")
    assert contents(tmp_path / "one") == contents(tmp_path / "other")


def test_a_refusal_leaves_the_folder_as_it_was(tmp_path: Path, blocks: dict[str, Any]) -> None:
    write_verilog("test.store", "TINY", tmp_path)
    before = contents(tmp_path)
    blocks["test.zebra"] = broken  # refused after the others were converted
    with pytest.raises(ParameterError):
        write_verilog("all", "SMALL", tmp_path)
    assert contents(tmp_path) == before


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_a_failing_write_leaves_no_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    write_text = Path.write_text

    def fails_at_json(self: Path, text: str) -> int:
        if self.suffix == ".json":
            raise error
        return write_text(self, text)

    monkeypatch.setattr(Path, "write_text", fails_at_json)
    with pytest.raises(error):
        write_verilog("test.store", "TINY", tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("blocks")
def test_a_folder_that_cannot_be_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ParameterError, match=r"^out = .*/file: legal is a folder that can be written"):
        write_verilog("test.store", "TINY", tmp_path / "file")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--block", "tensor.nonsense"], "systola: block 'tensor.nonsense': legal is one of "),
        (["--preset", "HUGE"], "systola: preset 'HUGE': legal is one of SMALL, TINY, TRN1, TRN2, TRN3"),
    ],
)
def test_unknown_names_are_one_line_and_nothing_is_written(tmp_path: Path, arguments: list[str], message: str) -> None:
    out = tmp_path / "out"
    command = [sys.executable, "-c", "from sdk.cli import main; main()", "verilog", "--out", str(out), *arguments]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith(message)
    assert not out.exists()


def test_a_room_may_be_left_out_where_one_block_has_the_name(blocks: Any, tmp_path: Path) -> None:
    assert "test_shelf.v" in {path.name for path in write_verilog("shelf", "TINY", tmp_path)}
    blocks["other.shelf"] = store
    with pytest.raises(ParameterError, match=r"block .shelf.: legal is one of other\.shelf, test\.shelf"):
        write_verilog("shelf", "TINY", tmp_path)
