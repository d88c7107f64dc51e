"""Cores of the presets: the ones that are simulated run compiled, all of them become Verilog."""

import pytest

from examples.kernels import matmul
from hdl.core.core import Core
from hdl.emit import emit
from sdk.run import run
from spec.core import core_of
from spec.presets import machine_named
from verif.core.driver import RtlTarget

pytestmark = pytest.mark.long


def test_a_tiled_product_on_the_compiled_core_of_small() -> None:
    config = core_of(machine_named("SMALL"))
    kernel = matmul(config, 64, 64, 128, result="bf16")
    golden, rtl = run(kernel.program, "golden", kernel.inputs), run(kernel.program, RtlTarget(config), kernel.inputs)
    assert golden["c"].tobytes() == rtl["c"].tobytes()
    assert rtl.report.fault is None


@pytest.mark.parametrize("name", ["TINY", "SMALL", "TRN2", "TRN3"])
def test_the_core_of_a_preset_becomes_verilog(name: str) -> None:
    config = core_of(machine_named(name))
    emission = emit(Core(config))
    counts = {entry["name"]: entry["count"] for entry in emission.description["modules"]}
    assert counts[f"vector_lane_{config.vector.digest()}"] == config.partitions
    assert counts[f"scalar_lane_{config.scalar.digest()}"] == config.partitions
    assert counts[f"processing_element_{config.tensor.digest()}"] == config.tensor.rows * config.tensor.columns
    assert counts[f"transfer_engine_{config.digest()}"] == config.dma_engines
    assert counts[f"sbuf_bank_{config.digest()}"] == config.sbuf_banks
