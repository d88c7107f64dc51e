"""Emission: same hardware in both forms, same bytes always, each module once, nothing silent."""

import gc
import os
import random
import re
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import UnusedElaboratable
from amaranth.sim import Simulator

from hdl.block import Block
from hdl.catalog import BLOCKS
from hdl.core.share import Share
from hdl.describe import ports_of
from hdl.emit import SRAM, Emission, emit
from hdl.rtlil import ConversionError
from spec.core import ShareConfig
from spec.parameters import ParameterError
from spec.presets import machine_named
from tests.hdl.emit_blocks import (
    MEMORIES,
    Constant,
    Large,
    Lookup,
    LookupConfig,
    Memories,
    OtherConstant,
    Parent,
    Table,
    TwoClocks,
)
from verif.harness.design import Design, Port
from verif.harness.model import Model
from verif.harness.packing import from_words

ROOT = Path(__file__).parents[2]
CYCLES = 3000


def stimulus(emission: Emission, cycles: int) -> dict[str, list[int]]:
    """Random bits for every input and cycle."""
    generator = random.Random(os.environ.get("SEED", "1"))
    inputs = [
        entry for entry in emission.description["ports"] if entry["kind"] == "data" and entry["direction"] == "input"
    ]
    return {entry["name"]: [generator.getrandbits(entry["width"]) for _ in range(cycles)] for entry in inputs}


def in_amaranth(block: Block, drive: dict[str, list[int]]) -> dict[str, list[int]]:
    """Outputs of each cycle from Amaranth's simulator: real submodules, Amaranth's own memories."""
    outputs: dict[str, list[int]] = {port.name: [] for port in ports_of(block) if port.direction == "output"}
    wires = {port.name: port.value for port in ports_of(block)}

    async def bench(ctx: Any) -> None:
        for cycle in range(len(next(iter(drive.values())))):
            for name, values in drive.items():
                ctx.set(wires[name].as_unsigned(), values[cycle])
            for name, values in outputs.items():
                values.append(ctx.get(wires[name].as_unsigned()))
            await ctx.tick()

    simulator: Any = Simulator(block)
    simulator.add_clock(1e-6)
    simulator.add_testbench(bench)
    simulator.run()
    return outputs


def in_verilator(emission: Emission, drive: dict[str, list[int]], fault: tuple[str, str] = ("", "")) -> dict[str, Any]:
    """Outputs of each cycle from the emitted Verilog: instances, the SRAM model. Every port is a plain one here.

    ``fault`` is a text of the Verilog and what replaces it.
    """
    ports = {
        entry["name"]: Port(entry["name"], entry["width"], False, entry["direction"] == "input")
        for entry in emission.description["ports"]
        if entry["kind"] == "data"
    }
    text = "\n".join([emission.verilog, *(path.read_text() for path in emission.sources)])
    assert fault[0] in text
    text = text.replace(*fault)
    names = tuple(entry["name"] for entry in emission.description["ports"])
    outputs = [name for name, port in ports.items() if not port.into]
    cycles = len(next(iter(drive.values())))
    with Model(Design(emission.description["module"]["name"], text, {}, ports, names)) as model:
        result = model.run(drive=drive, sample=outputs, limit=cycles, tail=cycles)
    return {name: from_words(result.samples[name]) for name in outputs}


@pytest.mark.parametrize("kind", [Lookup, Memories])
def test_instances_in_verilog_behave_like_submodules_in_amaranth(kind: type[Block]) -> None:
    emission = emit(kind(LookupConfig()))
    drive = stimulus(emission, CYCLES)
    expected = in_amaranth(kind(LookupConfig()), drive)
    found = in_verilator(emission, drive)
    assert found == expected
    for name, values in expected.items():
        assert len(set(values)) > 1, f"{name} never moved: the comparison says nothing"


@pytest.mark.parametrize(
    "fault",
    [("TRANSPARENT[r*WRITES+source_]", "TRANSPARENT[source_]"), ("rows_[row_] = INIT[", "rows_[row_] = ~INIT[")],
)
def test_the_comparison_notices_a_wrong_memory_model(fault: tuple[str, str]) -> None:
    emission = emit(Memories(LookupConfig()))
    drive = stimulus(emission, 200)
    assert in_verilator(emission, drive, fault) != in_amaranth(Memories(LookupConfig()), drive)


def test_every_memory_becomes_an_instance_of_the_one_model() -> None:
    emission = emit(Memories(LookupConfig()))
    memories = emission.description["memories"]
    assert [(entry["WIDTH"], entry["DEPTH"]) for entry in memories] == [(m.width, m.depth) for m in MEMORIES]
    assert emission.sources == (SRAM,)
    assert "module systola_sram" not in emission.verilog


def test_a_large_memory_costs_no_line_a_row() -> None:
    assert len(emit(Large(LookupConfig())).verilog) < 2000


def test_each_distinct_module_stands_once() -> None:
    emission = emit(Lookup(LookupConfig(lanes=5)), thorough=True)
    headers = re.findall(r"^module (\S+)\(", emission.verilog, re.MULTILINE)
    assert len(headers) == len(set(headers)) == 4, headers
    counts = {entry["name"]: entry["count"] for entry in emission.description["modules"]}
    assert sorted(counts.values()) == [1, 1, 5, 5], "five tables and five increments, each converted into one module"
    assert sum(entry["count"] for entry in emission.description["memories"]) == 6


def test_size_grows_with_instances_not_with_their_contents() -> None:
    small, large = (len(emit(Lookup(LookupConfig(lanes=lanes))).verilog) for lanes in (8, 16))
    assert large < 2 * small


def test_the_description_tells_a_bench_how_to_pack() -> None:
    description = emit(Lookup(LookupConfig())).description
    ports = {entry["name"]: entry for entry in description["ports"]}
    assert list(ports) == ["clk", "rst", "request__payload", "request__valid", "request__ready", "answers", "pause"]
    assert ports["request__payload"]["fields"] == [
        {"name": "mode", "offset": 0, "width": 2, "signed": False, "values": {"READ": 0, "WRITE": 2}},
        {"name": "address", "offset": 2, "width": 4, "signed": False},
        {"name": "value", "offset": 6, "width": 7, "signed": True},
    ]
    assert ports["answers"]["fields"][2] == {"name": "[2]", "offset": 16, "width": 8, "signed": True}
    assert description["parameters"] == {"depth": 12, "lanes": 3}
    assert ports["clk"]["kind"] == "clock"
    assert ports["rst"]["kind"] == "reset"


def test_constant_members_of_streams_are_no_ports() -> None:
    description = emit(Table(LookupConfig())).description
    assert description["constants"] == {"request__ready": 1, "answer__ready": 1, "spare": 0}
    assert not {entry["name"] for entry in description["ports"]} & set(description["constants"])


def test_listed_signals_are_in_the_verilog() -> None:
    emission = emit(Lookup(LookupConfig()))
    for module in emission.description["modules"]:
        start = emission.verilog.index(f"module {module['name']}(")
        text = emission.verilog[start : emission.verilog.index("endmodule", start)]
        assert module["signals"]
        for name in (*module["signals"], *module["instances"]):
            assert name in text
    tables = next(entry for entry in emission.description["modules"] if entry["name"].startswith("table"))
    assert tables["registers"] == ["answer__valid"]


def test_the_digest_stands_in_the_verilog() -> None:
    config = LookupConfig(depth=9)
    emission = emit(Lookup(config))
    assert f"// parameters {config.digest()}: " in emission.verilog.splitlines()[1]
    assert f'(* parameters = "{config.digest()}" *)\nmodule lookup_{config.digest()}(' in emission.verilog
    assert emission.description["module"]["digest"] == config.digest()


def test_bytes_are_the_same_in_every_process() -> None:
    code = (
        "import json; from tests.hdl.emit_blocks import *; from hdl.emit import emit\n"
        "for kind in (Lookup, Memories, TwoClocks):\n"
        "    emission = emit(kind(LookupConfig())); print(emission.verilog, json.dumps(emission.description))"
    )
    texts = set()
    for seed in ("0", "1", "77"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{ROOT}:{Path(__file__).parent}"}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True, cwd="/"
        )
        texts.add(done.stdout)
    assert len(texts) == 1
    text = texts.pop()
    assert str(ROOT) not in text
    assert "site-packages" not in text
    assert not re.search(r"\b20\d\d-\d\d-\d\d\b|Generated by", text), "neither dates nor tool banners"


def test_domains_become_clock_and_reset_ports_sync_first() -> None:
    names = [entry["name"] for entry in emit(TwoClocks(LookupConfig())).description["ports"]]
    assert names == ["clk", "rst", "fast_clk", "fast_rst", "slow_clk", "slow_rst", "i", "o"]


def refusal(kinds: tuple[type[Constant], ...], values: tuple[Any, ...], *, thorough: bool = False) -> str:
    """How emission refuses a parent of these children; what was elaborated in vain goes before warnings are errors."""
    text = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)
        try:
            emit(parent(kinds, values), thorough=thorough)
        except ConversionError as error:
            text = str(error)
        gc.collect()
    return text


def parent(kinds: tuple[type[Constant], ...], values: tuple[Any, ...]) -> Parent:
    config = LookupConfig()
    return Parent(config, *(kind(config, value) for kind, value in zip(kinds, values, strict=True)))


def test_two_blocks_of_one_name_that_differ_are_refused() -> None:
    name = f"constant_{LookupConfig().digest()}"
    expected = f"two different blocks are called {name}: same parameters, different hardware"
    assert refusal((Constant, Constant), (1, 2)) == expected


def test_a_difference_in_hidden_state_is_found_when_thorough() -> None:
    assert refusal((Constant, Constant), ([1], [2]), thorough=True).endswith("same parameters, different hardware")


def test_two_classes_of_one_name_are_refused() -> None:
    assert re.search(r"class .*\.Constant'> and .*\.OtherConstant'>", refusal((Constant, OtherConstant), (1, 1)))


def test_equal_blocks_of_one_name_are_accepted() -> None:
    emission = emit(parent((Constant, Constant), (1, 1)), thorough=True)
    assert [entry["count"] for entry in emission.description["modules"]] == [1, 2]


COMPOSED = ("core", "system")
"""Rooms whose blocks join blocks of other rooms: converting each instance again would take minutes."""


LANES = ("scalar.engine", "vector.engine")
"""Blocks whose lanes take a minute to convert one by one."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.long] if name in LANES else [])
        for name in sorted(BLOCKS)
        if name.split(".")[0] not in COMPOSED
    ],
)
def test_every_block_of_the_catalog_repeats_no_module_and_hides_no_difference(name: str) -> None:
    check_modules(emit(BLOCKS[name](machine_named("TINY")), thorough=True))


@pytest.mark.long
@pytest.mark.parametrize("name", sorted(name for name in BLOCKS if name.split(".")[0] in COMPOSED))
def test_composed_blocks_repeat_no_module(name: str) -> None:
    check_modules(emit(BLOCKS[name](machine_named("TINY"))))


def check_modules(emission: Emission) -> None:
    """Each module stands in the text once, and in the description."""
    headers = re.findall(r"^module (\S+)\(", emission.verilog, re.MULTILINE)
    assert len(headers) == len(set(headers))
    assert sorted(headers) == sorted(entry["name"] for entry in emission.description["modules"])


def test_more_inputs_than_amaranth_numbers_are_refused_at_once() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnusedElaboratable)
        with pytest.raises(ParameterError, match=r"inputs = 83\d+ bits: legal is at most 65532, Amaranth's limit"):
            emit(Share(ShareConfig(ports=18, request=4621, response=1, depth=16)))
        gc.collect()
