"""The core in Amaranth's own simulator: the same bytes, time and exceptions as on golden, run after run."""

import numpy as np
import pytest

from examples.kernels import matmul
from sdk.program import Program
from sdk.run import TARGETS, ProgramError, run
from verif.core.bench import LITTLE


def test_a_fault_and_the_program_after_it_are_those_of_golden() -> None:
    with Program(LITTLE) as outside:
        a, b = outside.input("a", (4, 4), "fp32"), outside.output("b", (2, 4), "fp32")
        order = outside.input("order", (2,), "int32")
        outside.dma(b, a, gather=order)
    index = {"order": np.array([0, -3], np.int32)}
    kernel = matmul(LITTLE, 4, 4, 4, result="bf16")
    machine = TARGETS["pysim"](kernel.program)
    with pytest.raises(ProgramError) as expected:
        run(outside, "golden", index)
    with pytest.raises(ProgramError) as found:
        run(outside, machine, index)
    assert str(found.value) == str(expected.value)
    golden, simulated = run(kernel.program, "golden", kernel.inputs), run(kernel.program, machine, kernel.inputs)
    assert golden["c"].tobytes() == simulated["c"].tobytes()
    assert golden.cycles == pytest.approx(simulated.cycles, rel=0.02)


def test_engines_that_share_ports_of_sbuf_fill_the_port_of_hbm() -> None:
    config = LITTLE.replace(dma_engines=6, sbuf_banks=16)
    inputs = {f"a{queue}": np.full((4, 32), queue, np.float32) for queue in range(config.dma_engines)}
    with Program(config) as p:
        for queue, (name, array) in enumerate(inputs.items()):
            p.dma(p.sbuf(array.shape, "fp32"), p.input(name, array.shape, "fp32"), queue=queue)
    golden, simulated = run(p, "golden", inputs), run(p, "pysim", inputs)
    # Golden knows a line a cycle and the banks, not who of two engines goes first: up to a beat for each.
    assert abs(simulated.cycles - golden.cycles) <= 2 * config.dma_engines, (golden.cycles, simulated.cycles)
