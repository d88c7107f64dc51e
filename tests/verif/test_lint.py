"""Lint: a planted fault of each kind is caught, waivers are exact, stale ones are faults."""

import re
import shutil
from pathlib import Path

import pytest

from hdl.catalog import block_named
from hdl.emit import SRAM, emit
from spec.presets import machine_named
from verif import tools
from verif.lint import Message, Waiver, black_box, judge, lint, lint_all, pieces, read_waivers
from verif.tools import ToolError

CLEAN = """
module clean(input wire clk, input wire [3:0] a, output reg [3:0] q, output wire [3:0] y);
  initial q = 4'h0;
  always @(posedge clk) q <= a;
  assign y = ~a;
endmodule
"""

FAULTS = {
    "a latch": ("assign y = ~a;", "reg [3:0] y_; always @* if (a[0]) y_ = a; assign y = y_;"),
    "an undriven net": ("assign y = ~a;", "wire [3:0] nothing; assign y = nothing;"),
    "a combinational loop": ("assign y = ~a;", "wire [3:0] loop; assign loop = y & a; assign y = ~loop;"),
    "a width mismatch": ("assign y = ~a;", "wire [4:0] wide = {1'b0, a}; assign y = wide;"),
    "a port of another width": ("endmodule\n", "endmodule\nmodule top(input wire clk, input wire [2:0] a, "
                                "output wire [3:0] q, y); clean c(.clk(clk), .a(a), .q(q), .y(y)); endmodule\n"),
    "two drivers": ("assign y = ~a;", "assign y = ~a; assign y = a;"),
    "a missing module": ("assign y = ~a;", "gone g(.a(a), .y(y));"),
    "an error of syntax": ("assign y = ~a;", "assign y = ~a"),
}  # fmt: skip


def messages_of(text: str, folder: Path) -> list[Message]:
    path = folder / "clean.v"
    path.write_text(text)
    return lint([path], "top" if "module top" in text else "clean")


def test_clean_verilog_gets_no_message(tmp_path: Path) -> None:
    assert messages_of(CLEAN, tmp_path) == []


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_caught(fault: str, tmp_path: Path) -> None:
    found, planted = FAULTS[fault]
    assert found in CLEAN
    unwaived, _ = judge(messages_of(CLEAN.replace(found, planted), tmp_path), read_waivers())
    assert unwaived, f"no front end noticed {fault}"
    print(fault, "caught by", sorted({message.tool for message in unwaived}))


def test_a_message_names_module_place_and_source(tmp_path: Path) -> None:
    messages = messages_of(CLEAN.replace("input wire [3:0] a,", "input wire [3:0] a, input wire spare,"), tmp_path)
    [message] = [message for message in messages if message.tool == "verilator"]
    assert (message.id, message.module, message.where) == ("UNUSEDSIGNAL", "clean", "clean.v:2")
    assert message.text.startswith("Signal is not used: 'spare' | module clean(")


def test_the_memory_model_is_clean_in_every_shape(tmp_path: Path) -> None:
    instances = []
    for number, (depth, address, reads, writes, lanes, asynchronous) in enumerate(
        [(16, 4, 1, 1, 1, 0), (12, 4, 2, 1, 4, 2), (1, 1, 1, 2, 2, 1), (5, 3, 3, 2, 1, 0)]
    ):
        parameters = {
            "WIDTH": 8, "DEPTH": depth, "ADDRESS": address, "READS": reads, "WRITES": writes, "LANES": lanes,
            "ASYNC": asynchronous, "TRANSPARENT": 1, "INIT_ROWS": number,
        }  # fmt: skip
        ports = [
            ("clk", 1), ("read_en", reads), ("read_addr", reads * address), ("write_en", writes * lanes),
            ("write_addr", writes * address), ("write_data", writes * 8),
        ]  # fmt: skip
        header = ", ".join([f"input wire [{width - 1}:0] {name}" for name, width in ports])
        connections = ", ".join(f".{name}({name})" for name in ("read_data", *(name for name, _ in ports)))
        settings = ", ".join(f".{name}({value})" for name, value in parameters.items())
        instances.append(
            (f"shape_{number}", f"{header}, output wire [{reads * 8 - 1}:0] read_data", settings, connections)
        )
    sram = tmp_path / SRAM.name
    sram.write_text(SRAM.read_text())
    for name, header, settings, connections in instances:
        top = tmp_path / f"{name}.v"
        top.write_text(f"module {name}({header});\nsystola_sram #({settings}) rows({connections});\nendmodule\n")
        unwaived, _ = judge(lint([top, sram], name), read_waivers())
        assert unwaived == []


def test_pieces_hold_every_module_in_full_and_a_fault_in_any_is_caught(tmp_path: Path) -> None:
    emission = emit(block_named("tensor.array", machine_named("TINY")))
    modules = {entry["name"] for entry in emission.description["modules"]}
    found = pieces(emission, limit=300)
    assert len(found) > 2
    full = {
        name
        for text in found.values()
        for boxed, name in re.findall(r"(\(\* blackbox \*\)\n)?^module (\w+)", text, re.MULTILINE)
        if not boxed
    }
    assert full == modules
    assert pieces(emission, limit=10**9).keys() == {emission.description["module"]["name"]}

    def unwaived(text: str, top: str) -> list[Message]:
        source = tmp_path / f"{top}.v"
        source.write_text(text)
        beside = [Path(shutil.copy(path, tmp_path)) for path in emission.sources]
        return judge(lint([source, *beside], top), read_waivers())[0]

    for top, text in found.items():
        assert unwaived(text, top) == []
        head, first, rest = text.partition("\n  wire ")
        assert unwaived(f"{head}\n  wire [3:0] nowhere = 3'd0;{first}{rest}", top), f"{top} is not read"


def test_a_black_box_keeps_the_ports_of_a_wrapped_header_and_nothing_else() -> None:
    module = "module wide(a,\nb);\n  input a;\n  wire a;\n  output [1:0] b;\n  assign b = {a, a};\nendmodule"
    assert black_box(module).splitlines() == [
        "(* blackbox *)", "module wide(a,", "b);", "  input a;", "  output [1:0] b;", "endmodule"
    ]  # fmt: skip


def test_a_waiver_covers_only_what_it_names() -> None:
    message = Message(
        "verilator", "UNUSEDSIGNAL", "row_12345678", "Signal is not used: 'spare' | input spare;", "row.v:3"
    )
    assert Waiver("verilator", "UNUSEDSIGNAL", "row_*", "reason", "'spare'").covers(message)
    for waiver in (
        Waiver("slang", "UNUSEDSIGNAL", "row_*", "reason"),
        Waiver("verilator", "UNDRIVEN", "row_*", "reason"),
        Waiver("verilator", "UNUSEDSIGNAL", "array_*", "reason"),
        Waiver("verilator", "UNUSEDSIGNAL", "row_*", "reason", r"\| wire"),
    ):
        assert not waiver.covers(message)
        assert judge([message], [waiver]) == ([message], [waiver]), "unwaived message, unused waiver"


def test_a_waiver_without_a_reason_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "waivers.toml"
    path.write_text('[[waiver]]\ntool = "yosys"\nid = "warning"\nmodule = "*"\nreason = " "\n')
    with pytest.raises(ToolError, match=r"waivers\.toml: waiver of yosys warning in \* gives no reason"):
        read_waivers(path)


@pytest.mark.long  # `make lint` does the same
def test_emitted_blocks_have_no_unwaived_message_and_no_waiver_is_stale() -> None:
    assert lint_all() == []


def test_every_required_tool_of_this_machine_is_usable() -> None:
    broken = [tool for tool in tools.doctor() if not tool.usable and not tool.optional]
    assert broken == []


def test_a_missing_compiler_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    [tool] = [tool for tool in tools.doctor() if tool.name == "c++"]
    assert not tool.usable
    assert tool.why_not == "no C++ compiler: install g++ or clang++, or set CXX"


def test_sby_finds_its_helpers_under_the_names_it_expects(tmp_path: Path) -> None:
    folder = tools.sby_links(tmp_path / "links")
    assert tools.sby_links(tmp_path / "links") == folder
    assert sorted(path.name for path in folder.iterdir()) == ["yosys", "yosys-smtbmc", "yosys-witness"]
    assert all(path.resolve().is_file() for path in folder.iterdir())
