"""Programs of the runtime on the compiled core: the same bytes as golden, in the same time."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from examples.kernels import kernels
from golden.core.core import Core, Start
from hdl.core.transfer import TransferEngine
from hdl.emit import emit
from sdk.program import Program
from sdk.run import run
from sdk.tensors import View
from spec.core import LINE_BYTES
from spec.isa import INSTRUCTION_BYTES, assemble
from spec.scalar import ScalarConfig
from spec.vector import VectorConfig
from tests.core.test_program import biased, counted, ring_of_four
from verif.core.bench import LITTLE
from verif.core.driver import RtlTarget

TARGET = 0.02
"""Largest error of golden's time."""


@pytest.fixture(scope="module")
def hardware() -> Iterator[RtlTarget]:
    target = RtlTarget(LITTLE)
    yield target
    target.model.close()


def test_kernels_give_golden_bytes_in_golden_time(hardware: RtlTarget) -> None:
    for name, kernel in kernels(LITTLE).items():
        golden, rtl = (run(kernel.program, target, kernel.inputs) for target in ("golden", hardware))
        for key in kernel.program.tensors:
            assert golden[key].tobytes() == rtl[key].tobytes(), f"{name}: {key} differs"
        error = abs(golden.cycles / rtl.cycles - 1)
        assert error < TARGET, f"{name}: {golden.cycles} against {rtl.cycles}"


def moved(shape: tuple[int, ...], source: str, target: str, **options: Any) -> Program:
    """A program of one transfer; ``source`` and ``target``: a memory, or ``transposed``, which is a view of HBM."""
    with Program(LITTLE) as p:
        made: dict[str, Callable[[], View]] = {
            "hbm": lambda: p.hbm(f"t{len(p.tensors)}", shape, options.get("format_", "fp32")),
            "transposed": lambda: p.hbm(f"t{len(p.tensors)}", shape[::-1], "fp32").T,
            "sbuf": lambda: p.sbuf(shape, "fp32"),
            "psum": lambda: p.psum(shape[-1], 0),
            "once": lambda: p.hbm("once", (1,), "fp32").repeat(0, shape[0])[:, 0],
        }
        p.dma(made[target](), made[source](), accumulate=options.get("accumulate", False))
    return p


TRANSFERS = {
    "rows into partitions": moved((4, 64), "hbm", "sbuf"),
    "one element": moved((1, 1), "hbm", "sbuf"),
    "rows that end within a beat": moved((4, 3), "hbm", "sbuf"),
    "a transposition": moved((4, 16), "transposed", "sbuf"),
    "lines": moved((64,), "hbm", "hbm"),
    "out of partitions": moved((4, 16), "sbuf", "hbm"),
    "out of PSUM": moved((4, 8), "psum", "hbm"),
    "into PSUM": moved((4, 8), "hbm", "psum"),
    "accumulation": moved((64,), "hbm", "hbm", accumulate=True),
    "accumulation onto one element": moved((8,), "hbm", "once", accumulate=True),
}


def test_transfers_take_the_time_golden_says(hardware: RtlTarget) -> None:
    for name, program in TRANSFERS.items():
        golden, rtl = run(program, "golden", {}), run(program, hardware, {})
        assert abs(golden.cycles - rtl.cycles) <= 1, f"{name}: {golden.cycles} against {rtl.cycles}"


def test_every_engine_writes_psum(hardware: RtlTarget) -> None:
    rng = np.random.default_rng(4)
    inputs = {name: rng.normal(size=shape).astype(np.float32) for name, shape in (("w", (4, 4)), ("x", (4, 8)))}
    inputs["bias"] = rng.normal(size=(4, 8)).astype(np.float32)
    golden, rtl = (run(biased(), target, inputs) for target in ("golden", hardware))
    assert golden["y"].tobytes() == rtl["y"].tobytes()


def test_a_ring_goes_round_on_the_hardware(hardware: RtlTarget) -> None:
    core, starts, _ = ring_of_four()
    hardware.write(0, core.memories.hbm[:32768].copy())
    golden, rtl = core.run(starts), hardware.run(starts)
    assert golden.fault is rtl.fault is None
    assert golden.issued == rtl.issued
    assert np.array_equal(hardware.read(0, 32768), core.memories.hbm[:32768])


def test_a_bad_descriptor_stops_the_program(hardware: RtlTarget) -> None:
    core, starts, _ = ring_of_four()
    core.memories.hbm[16384 + INSTRUCTION_BYTES] = 2  # a nop, where a transfer should be
    hardware.write(0, core.memories.hbm[:32768].copy())
    golden, rtl = core.run(starts), hardware.run(starts)
    assert golden.fault == rtl.fault
    assert golden.fault is not None
    assert (golden.fault.counter, golden.fault.reason) == (1, "bad_opcode")


def test_words_of_memory_lead_a_program_on_the_hardware(hardware: RtlTarget) -> None:
    core, starts = counted()
    hardware.write(0, core.memories.hbm[:65536].copy())
    golden, rtl = core.run(starts), hardware.run(starts)
    assert golden.fault is rtl.fault is None
    assert golden.issued == rtl.issued
    assert np.array_equal(hardware.read(0, 65536), core.memories.hbm[:65536])


LOAD, STORE = "load target=1 address=64 immediate=1", "store left=1 address=128 immediate=1"
STEP, BACK = "alu operation=add target=3 left=3 immediate=1 value=4", "branch compare=less left=3 immediate=1 value=40"


@pytest.mark.parametrize(
    "lines",
    [
        [LOAD],
        [LOAD] * 8,
        [STORE] * 8,
        ["nop"] * 8 + [LOAD],
        [LOAD] + ["nop"] * 8,
        [LOAD, STEP, BACK],
        [STEP, LOAD, LOAD, STEP, BACK],
    ],
)
def test_words_take_the_time_golden_says(hardware: RtlTarget, lines: list[str]) -> None:
    words = [assemble(text).to_bytes(INSTRUCTION_BYTES, "little") for text in (*lines, "halt")]
    data, starts = np.frombuffer(b"".join(words), np.uint8), {"scalar": Start(128, len(words))}
    core = Core(LITTLE)
    core.memories.hbm[8192 : 8192 + len(data)] = data
    hardware.write(8192, data)
    assert core.run(starts).cycles == hardware.run(starts).cycles


def test_words_outside_memory_are_faults_on_the_hardware(hardware: RtlTarget) -> None:
    size = LITTLE.hbm_bytes
    for line in ("load address=2", f"store address={size}", "load address=64 immediate=1 value=-68", "store address=1"):
        data = np.frombuffer(assemble(line).to_bytes(INSTRUCTION_BYTES, "little"), np.uint8)
        core, starts = Core(LITTLE), {"scalar": Start(0, 1)}
        core.memories.hbm[: len(data)] = data
        hardware.write(0, data)
        fault = core.run(starts).fault
        assert fault is not None
        assert fault.reason == "bad_address"
        assert hardware.run(starts).fault == fault


ROW = {"start": 0, "partitions": 4, "offset": 64, "num0": 4, "step0": 1, "num1": 2, "step1": 4, "num2": 1, "num3": 1}
OVERLAPS: dict[str, tuple[dict[str, Any], bool]] = {
    "one pattern": ({}, True),
    "steps that are never taken": ({"step2": 9, "step3": -1}, True),
    "an element later": ({"offset": 68}, False),
    "an element earlier": ({"offset": 60}, False),
    "right behind": ({"offset": 96}, True),
    "right before": ({"offset": 32}, True),
    "between its elements": ({"offset": 92, "step0": 2, "step1": 8}, False),
    "other partitions": ({"start": 2, "partitions": 2, "offset": 64}, False),
    "the other memory": ({"memory": "psum"}, True),
    "another order": ({"step0": 4, "num0": 2, "step1": 1, "num1": 4}, False),
    "narrower elements": ({"format": "bf16", "offset": 64}, False),
}
REPEATED: dict[str, tuple[dict[str, Any], int, bool]] = {
    "one element again and again": ({"step0": 0}, 8, False),
    "rows that overlap": ({"step1": 3}, 8, False),
    "rows back to back, backwards": ({"step1": -4, "offset": 80}, 8, True),
    "a pattern that starts again": ({}, 9, False),
    "half a pattern": ({}, 4, True),
}


def disturbed(left: dict[str, Any], output: dict[str, Any], length: int) -> str:
    fields = ROW | left, ROW | left | output
    parts = [
        f"{side}{'_' if key == 'format' else '.'}{key}={value}"
        for side, found in zip(("left", "output"), fields, strict=True)
        for key, value in found.items()
    ]
    return f"vector.tensor_copy length={length} " + " ".join(parts)


def test_results_that_would_disturb_operands_are_refused(hardware: RtlTarget) -> None:
    lines = {name: (disturbed({}, change, 8), legal) for name, (change, legal) in OVERLAPS.items()}
    lines |= {name: (disturbed(row, {}, length), legal) for name, (row, length, legal) in REPEATED.items()}
    scalar = lines["an element later"][0].replace("left", "input").replace("vector.", "scalar.")
    lines["the scalar engine"] = scalar, False
    for name, (line, legal) in lines.items():
        engine = line.partition(".")[0]
        words = [assemble(text).to_bytes(INSTRUCTION_BYTES, "little") for text in (line, "halt")]
        data, starts = np.frombuffer(b"".join(words), np.uint8), {engine: Start(0, 2)}
        core = Core(LITTLE)
        core.memories.hbm[: len(data)] = data
        hardware.write(0, data)
        faults = [target.run(starts).fault for target in (core, hardware)]
        assert faults[0] == faults[1], name
        assert (faults[0] is None) if legal else (faults[0] is not None and faults[0].reason == "bad_overlap"), name


def test_a_core_of_one_format_casts_nothing() -> None:
    one = ("fp32",)
    engines = {"vector": VectorConfig(lanes=4, formats=one), "scalar": ScalarConfig(lanes=4, formats=one)}
    config = LITTLE.replace(**engines, dma_lanes=1)
    text = emit(TransferEngine(config)).verilog
    assert "module transfer_lane_" in text
    assert "target" not in text.partition("module transfer_lane_")[2].partition(";")[0]


def test_loops_and_indices_on_the_hardware(hardware: RtlTarget) -> None:
    with Program(LITTLE) as p:
        a, order = p.input("a", (4, 12), "fp32"), p.input("order", (4,), "int32")
        picked, spread = p.output("picked", (4, 12), "fp32"), p.output("spread", (4, 12), "fp32")
        p.dma(picked, a, gather=order)
        p.dma(spread, a, scatter=order)
    value = np.random.default_rng(3).normal(size=(4, 12)).astype(np.float32)
    found = run(p, hardware, {"a": value, "order": np.array([2, 0, 3, 1], np.int32)})
    assert np.array_equal(found["picked"], value[[2, 0, 3, 1]])
    assert np.array_equal(found["spread"][[2, 0, 3, 1]], value)

    lines = [
        "alu operation=move target=3 immediate=1 value=0",
        "dma num0=4 num1=1 num2=1 num3=1 source_step0=4 target_step0=4 target_base=4 target_address=4096",
        "alu operation=add target=3 left=3 immediate=1 value=64",
        "branch compare=less left=3 immediate=1 value=256 destination=1",
        "halt",
    ]
    data = np.frombuffer(b"".join(assemble(line).to_bytes(INSTRUCTION_BYTES, "little") for line in lines), np.uint8)
    starts = {"sync": Start(128, len(lines))}
    golden = Core(LITTLE)
    golden.memories.hbm[:LINE_BYTES] = np.arange(LINE_BYTES)
    golden.memories.hbm[128 * LINE_BYTES :][: len(data)] = data
    hardware.write(0, golden.memories.hbm[:8192].copy())
    hardware.write(128 * LINE_BYTES, data)
    expected, found_report = golden.run(starts), hardware.run(starts)
    assert expected.fault is found_report.fault is None
    assert expected.issued == found_report.issued
    assert np.array_equal(hardware.read(4096, 256), golden.memories.hbm[4096:4352])
