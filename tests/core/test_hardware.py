"""Programs of the runtime on the compiled core: the same bytes as golden, in the same time."""

from collections.abc import Iterator

import numpy as np
import pytest

from examples.kernels import kernels
from golden.core.core import Core, Start
from sdk.program import Program
from sdk.run import run
from spec.core import LINE_BYTES
from spec.isa import INSTRUCTION_BYTES, assemble
from verif.core.bench import LITTLE
from verif.core.driver import RtlTarget

LARGEST_ERROR = {"digits": 0.035}
"""Of golden's time where it misses the target, which holds for all others: many transfers of few strided elements."""
TARGET = 0.02


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
        assert error < LARGEST_ERROR.get(name, TARGET), f"{name}: {golden.cycles} against {rtl.cycles}"


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
