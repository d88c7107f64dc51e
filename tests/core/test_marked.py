"""Operands with something beside them: microscaled ones with scales, sparse stationaries with tags."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from examples.kernels import scaled_matmul
from golden.core import units
from golden.core.core import Core, Start
from golden.numerics import to_float32
from golden.tensor.array import SCALE_SHIFT, sparse_operands
from golden.tensor.sparsity import TAG_SHIFT, planes
from sdk.program import Program
from sdk.run import run
from sdk.tensors import DTYPES, Sparse
from spec.core import LINE_BYTES
from spec.isa import INSTRUCTION_BYTES, encode
from spec.parameters import ParameterError
from spec.tensor import PATTERNS
from tests.core.test_hardware import TARGET
from verif.core.bench import LITTLE, MARKED
from verif.core.driver import RtlTarget

LANES = MARKED.partitions


def sparse_product(pattern: str, columns: int = 8) -> tuple[Program, dict[str, Any], Any]:
    """A product of a stationary that follows a pattern with moving planes; its inputs and its result."""
    kept, block = PATTERNS[pattern]
    k = LANES * block // kept
    rng = np.random.default_rng(block)
    weights = rng.integers(-4, 5, (k // block, block, LANES)).astype(np.float32)
    order = np.argsort(rng.random(weights.shape), axis=1)
    np.put_along_axis(weights, order[:, kept:], 0.0, axis=1)
    w = weights.reshape(k, LANES)
    x = rng.integers(-4, 5, (k, columns)).astype(np.float32)
    words = sparse_operands(pattern, "bf16", w.astype(DTYPES["bf16"]).view(np.uint16))
    spread = planes(pattern, x.astype(DTYPES["bf16"]).view(np.uint16)).reshape(4, LANES, columns)[: block // kept]
    with Program(MARKED) as p:
        numbers, tags = p.input("numbers", (LANES, LANES), "bf16"), p.input("tags", (LANES, LANES), "uint8")
        moving = p.input("moving", spread.shape, "bf16")
        y = p.output("y", (LANES, columns), "fp32")
        stationary = Sparse(p.sbuf((LANES, LANES), "bf16"), p.sbuf((LANES, LANES), "uint8"))
        planes_ = p.sbuf((LANES, spread.shape[0], columns), "bf16")
        p.dma(stationary.elements, numbers)
        p.dma(stationary.tags.cast("fp8_e4m3"), tags.cast("fp8_e4m3"))
        p.dma(planes_, moving.permute(1, 0, 2))
        result = p.psum(columns)
        p.tensor.matmul(result, stationary, planes_)
        p.dma(y, result)
    inputs = {
        "numbers": to_float32("bf16", (words & 0xFFFF).astype(np.uint16)),
        "tags": (words >> TAG_SHIFT).astype(np.uint8),
        "moving": to_float32("bf16", spread),
    }
    return p, inputs, w.T @ x


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_sparse_stationary_multiplies_what_its_tags_say(pattern: str) -> None:
    program, inputs, expected = sparse_product(pattern)
    assert np.array_equal(run(program, "golden", inputs)["y"], expected)


def test_a_microscaled_product_is_that_of_the_rounded_numbers() -> None:
    kernel = scaled_matmul(MARKED, 2, LANES, 12)
    found = run(kernel.program, "golden", kernel.inputs)["c"]
    assert np.abs(found - kernel.expected["c"]).max() <= kernel.tolerance


def test_every_eighth_lane_has_a_scale() -> None:
    config = MARKED.replace(
        tensor=MARKED.tensor.replace(rows=16, columns=16),
        vector=MARKED.vector.replace(lanes=16),
        scalar=MARKED.scalar.replace(lanes=16),
    )
    kernel = scaled_matmul(config, 1, 16, 12)
    found = run(kernel.program, "golden", kernel.inputs)["c"]
    assert np.abs(found - kernel.expected["c"]).max() <= kernel.tolerance


def test_wrong_scales_and_tags_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(units, "SCALE_SHIFT", SCALE_SHIFT - 1)
    monkeypatch.setattr(units, "TAG_SHIFT", TAG_SHIFT - 1)
    with pytest.raises(AssertionError):
        test_a_microscaled_product_is_that_of_the_rounded_numbers()
    with pytest.raises(AssertionError):
        test_a_sparse_stationary_multiplies_what_its_tags_say("2:8")


SOURCE = {"partitions": LANES, "num0": 4, "num1": 1, "num2": 1, "num3": 1, "step0": 1}
MX = {"format": "mx_e4m3fn_x4", "columns": 4, **{f"beside.{key}": value for key, value in SOURCE.items()}}
FAULTS: dict[str, tuple[str, dict[str, Any], str]] = {
    "no scales": ("load_stationary", MX | {"beside.num0": 0}, "bad_pattern"),
    "scales in PSUM": ("load_stationary", MX | {"beside.memory": "psum"}, "bad_memory"),
    "scales outside": ("load_stationary", MX | {"beside.offset": MARKED.sbuf_bytes - 3}, "bad_address"),
    "scales of wrong partitions": ("load_stationary", MX | {"beside.start": 4}, "bad_partitions"),
    "sparse and microscaled": ("load_stationary", MX | {"sparse": 1}, "tensor_format"),
    "no tags": ("load_stationary", {"format": "bf16", "columns": 4, "sparse": 1}, "bad_partitions"),
    "five planes": ("matmul", {"format": "bf16", "columns": 4, "sparse": 1, "source.num3": 5}, "bad_pattern"),
    "microscaled planes": ("matmul", MX | {"sparse": 1}, "tensor_format"),
    "no stationary": ("matmul", MX, "tensor_stationary"),
}


def fault_of(target: Any, name: str, fields: dict[str, Any]) -> Any:
    entry = {f"source.{key}": value for key, value in SOURCE.items()} | fields
    words = [encode(name, entry), encode("halt", {})]
    data = np.frombuffer(b"".join(word.to_bytes(INSTRUCTION_BYTES, "little") for word in words), np.uint8)
    if isinstance(target, Core):
        target.memories.hbm[4096 : 4096 + len(data)] = data
    else:
        target.write(4096, data)
    return target.run({"tensor": Start(4096 // LINE_BYTES, len(words))}).fault


@pytest.mark.parametrize("name", FAULTS)
def test_operands_that_cannot_be_are_refused(name: str) -> None:
    opcode, fields, reason = FAULTS[name]
    assert fault_of(Core(MARKED), opcode, fields).reason == reason


def test_a_core_without_them_refuses_scales_and_tags() -> None:
    for fields in (MX, {"format": "bf16", "columns": 4, "sparse": 1}):
        entry = fields | {"source.partitions": 4} | ({"beside.partitions": 4} if "beside.num0" in fields else {})
        assert fault_of(Core(LITTLE), "load_stationary", entry).reason == "tensor_format"


def test_planes_leave_three_dimensions_for_columns() -> None:
    p = Program(MARKED)
    tile = p.sbuf((LANES, 2, 2, 2, 2, 1), "bf16")
    with pytest.raises(ParameterError, match="planes and up to 3 dimensions"):
        p.tensor.move(p.psum(8), tile, planes=True)


@pytest.fixture(scope="module")
def hardware() -> Iterator[RtlTarget]:
    target = RtlTarget(MARKED)
    yield target
    target.model.close()


@pytest.mark.long
def test_scales_and_tags_give_golden_bytes_in_golden_time_on_the_hardware(hardware: RtlTarget) -> None:
    kernel = scaled_matmul(MARKED, 2, LANES, 12)
    programs = {"MX": (kernel.program, kernel.inputs, "c")}
    programs |= {pattern: (*sparse_product(pattern)[:2], "y") for pattern in PATTERNS}
    for name, (program, inputs, key) in programs.items():
        golden, rtl = (run(program, target, inputs) for target in ("golden", hardware))
        assert golden[key].tobytes() == rtl[key].tobytes(), name
        assert abs(golden.cycles / rtl.cycles - 1) < TARGET, f"{name}: {golden.cycles} against {rtl.cycles}"


@pytest.mark.long
def test_the_hardware_refuses_the_same_operands(hardware: RtlTarget) -> None:
    hardware.model.power_on()
    for name, (opcode, fields, _) in FAULTS.items():
        assert fault_of(hardware, opcode, fields) == fault_of(Core(MARKED), opcode, fields), name
