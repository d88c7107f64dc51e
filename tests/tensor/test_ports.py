"""The tensor engine's cocotb bench, on the one small configuration that it is written for."""

from hdl.tensor import TensorEngine
from verif.harness.runner import run_cocotb
from verif.tensor.test_engine import CONFIG


def test_engine_through_its_ports() -> None:
    report = run_cocotb(TensorEngine(CONFIG), "verif.tensor.test_engine")
    report.check()
    assert len(report.cases) == 4
    assert report.counts.vectors > 100
