"""Two cores as one logical core: barriers, swapped tiles, shared memory."""

import numpy as np
import pytest

from sdk.lnc import LogicalCore
from sdk.run import ProgramError
from spec.parameters import ParameterError
from verif.system.programs import system_config

CONFIG = system_config((2,), cores=2, chip_lines=1024)
RNG = np.random.default_rng(5)


def halves() -> LogicalCore:
    """A product whose depth is divided: each core multiplies half, swaps the sums of half the columns, and adds."""
    pair = LogicalCore(CONFIG)
    parts = []
    for number, p in enumerate(pair.programs):
        w, x = p.input("w", (4, 4), "fp32"), p.input("x", (4, 8), "fp32")
        left, right = p.sbuf((4, 4), "fp32"), p.sbuf((4, 8), "fp32")
        p.dma(left, w)
        p.dma(right, x)
        sums, own, theirs = p.psum(8, 0), p.sbuf((4, 8), "fp32"), p.sbuf((4, 4), "fp32")
        p.tensor.matmul(sums, left, right)
        p.vector.tensor_copy(own, sums)
        kept = slice(4 * number, 4 * number + 4)
        given = slice(4 - 4 * number, 8 - 4 * number)
        parts.append((p, own[:, kept], own[:, given], theirs))
    pair.swap([part[2] for part in parts], [part[3] for part in parts])
    for p, own, _, theirs in parts:
        p.vector.tensor_tensor(own, own, theirs, "add")
        p.dma(p.output("y", (4, 4), "fp32"), own)
    return pair


def test_a_product_divided_over_two_cores_is_the_product() -> None:
    w, x = (RNG.integers(-4, 5, shape).astype(np.float32) for shape in ((8, 4), (8, 8)))
    pair = halves()
    inputs = [{"w": w[4 * n : 4 * n + 4], "x": x[4 * n : 4 * n + 4]} for n in range(2)]
    results = pair.system.run("golden", [*inputs, {}, {}])
    assert np.array_equal(np.hstack([result["y"] for result in results[:2]]), w.T @ x)


def test_what_one_core_wrote_before_a_barrier_the_other_reads_after_it() -> None:
    pair = LogicalCore(CONFIG)
    first, second = pair.programs
    shared = first.hbm("shared", (4, 16), "fp32")
    late = first.sbuf((4, 16), "fp32")
    source = first.input("a", (4, 16), "fp32")
    first.dma(late, source)
    for _ in range(20):
        first.scalar.tensor_scalar(late, late, scale=1.0)  # so that the other core is there first
    first.dma(shared, late)
    pair.barrier()
    second.dma(second.output("b", (4, 16), "fp32"), shared)
    pair.barrier()
    value = RNG.normal(size=(4, 16)).astype(np.float32)
    results = pair.system.run("golden", [{"a": value}, {}, {}, {}])
    assert np.array_equal(results[1]["b"], value)


def test_a_core_that_waits_for_a_tile_that_never_comes_is_a_deadlock() -> None:
    pair = LogicalCore(CONFIG)
    pair.programs[0].expect(0, 1)
    with pytest.raises(ProgramError, match="deadlock"):
        pair.system.run("golden", [{}, {}, {}, {}])


def test_one_core_is_no_pair() -> None:
    with pytest.raises(ParameterError, match="2 or more"):
        LogicalCore(system_config((1,), chip_lines=1024))


def test_tiles_of_two_shapes_are_not_swapped() -> None:
    pair = LogicalCore(CONFIG)
    a, b = (p.sbuf((4, 4 + 4 * n), "fp32") for n, p in enumerate(pair.programs))
    with pytest.raises(ParameterError, match="one shape"):
        pair.swap([a, b], [a, b])
