"""Two cores as one logical core: barriers, swapped tiles, shared memory; golden, and a compiled chip of two cores."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sdk.lnc import LogicalCore
from sdk.run import ProgramError
from spec.parameters import ParameterError
from spec.scalar import ScalarConfig
from spec.tensor import TensorConfig
from spec.vector import VectorConfig
from verif.core.bench import LITTLE
from verif.system.driver import RtlSystem
from verif.system.programs import system_config

ONE = ("fp32",)
SMALLEST = LITTLE.replace(
    tensor=TensorConfig(rows=4, columns=4, psum_banks=1, psum_bank_bytes=64, formats=ONE),
    vector=VectorConfig(lanes=4, formats=ONE),
    scalar=ScalarConfig(lanes=4, formats=ONE, functions=("copy",)),
    sbuf_bytes=1024,
    dma_engines=1,
)
"""A core of one format, compiled soon."""
CONFIG = system_config((1,), cores=2, chip_lines=1024, core=SMALLEST)
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


def operands() -> tuple[Any, Any]:
    w, x = (RNG.integers(-4, 5, shape).astype(np.float32) for shape in ((8, 4), (8, 8)))
    return [{"w": w[4 * n : 4 * n + 4], "x": x[4 * n : 4 * n + 4]} for n in range(2)], w.T @ x


def test_a_product_divided_over_two_cores_is_the_product() -> None:
    inputs, product = operands()
    results = halves().system.run("golden", inputs)
    assert np.array_equal(np.hstack([result["y"] for result in results]), product)


def handed_over(barrier: bool = True) -> LogicalCore:
    """The first core writes, late; the second reads after the barrier."""
    pair = LogicalCore(CONFIG)
    first, second = pair.programs
    shared = first.hbm("shared", (4, 16), "fp32")
    late = first.sbuf((4, 16), "fp32")
    source = first.input("a", (4, 16), "fp32")
    first.dma(late, source)
    for _ in range(20):
        first.scalar.tensor_scalar(late, late, scale=1.0)  # so that the other core is there first
    first.dma(shared, late)
    if barrier:
        pair.barrier()
    second.dma(second.output("b", (4, 16), "fp32"), shared)
    pair.barrier()
    return pair


def test_what_one_core_wrote_before_a_barrier_the_other_reads_after_it() -> None:
    value = RNG.normal(size=(4, 16)).astype(np.float32)
    assert np.array_equal(handed_over().system.run("golden", [{"a": value}, {}])[1]["b"], value)
    assert not np.array_equal(handed_over(barrier=False).system.run("golden", [{"a": value}, {}])[1]["b"], value)


def told() -> LogicalCore:
    """A word goes from memory through a register of each core."""
    pair = LogicalCore(CONFIG)
    first, second = pair.programs
    word, shared = first.input("word", (1,), "int32"), first.hbm("shared", (1,), "int32")
    first.load(1, word)
    first.store(shared, 1)
    pair.barrier()
    second.load(2, shared)
    second.store(second.output("found", (1,), "int32"), 2)
    return pair


def test_a_word_that_one_core_stores_the_other_loads() -> None:
    assert told().system.run("golden", [{"word": np.array([-7], np.int32)}, {}])[1]["found"].tolist() == [-7]


def forgotten() -> LogicalCore:
    pair = LogicalCore(CONFIG)
    pair.programs[0].expect(0, 1)
    return pair


def test_a_core_that_waits_for_a_tile_that_never_comes_is_a_deadlock() -> None:
    with pytest.raises(ProgramError, match="deadlock"):
        forgotten().system.run("golden", [{}, {}])


@pytest.fixture(scope="module")
def chip() -> Iterator[RtlSystem]:
    system = RtlSystem(CONFIG, patience=4096)
    yield system
    system.model.close()


@pytest.mark.long
def test_a_compiled_chip_of_two_cores_gives_golden_bytes(chip: RtlSystem) -> None:
    value = RNG.normal(size=(4, 16)).astype(np.float32)
    runs: list[tuple[LogicalCore, Any]] = [(halves(), operands()[0]), (handed_over(), [{"a": value}, {}])]
    runs += [(told(), [{"word": np.array([-7], np.int32)}, {}]), (halves(), operands()[0])]
    for pair, inputs in runs:
        golden, rtl = (pair.system.run(machine, inputs) for machine in ("golden", chip))
        for program, expected, found in zip(pair.programs, golden, rtl, strict=True):
            for name in program.tensors:
                assert expected[name].tobytes() == found[name].tobytes(), name
    with pytest.raises(ProgramError, match=r"core 0.*deadlock"):
        forgotten().system.run(chip, [{}, {}])


def test_one_core_is_no_pair() -> None:
    with pytest.raises(ParameterError, match="2 or more"):
        LogicalCore(system_config((1,), chip_lines=1024))


def test_tiles_of_two_shapes_are_not_swapped() -> None:
    pair = LogicalCore(CONFIG)
    a, b = (p.sbuf((4, 4 + 4 * n), "fp32") for n, p in enumerate(pair.programs))
    with pytest.raises(ParameterError, match="one shape"):
        pair.swap([a, b], [a, b])
