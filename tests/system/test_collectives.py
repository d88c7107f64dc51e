"""Collectives on golden systems: sums in the stated order, on rings of any shape, and what is refused."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from golden.numerics import add
from sdk.collectives import Ring
from sdk.system import SystemProgram
from spec.parameters import ParameterError
from verif.system.programs import system_config

F32 = npt.NDArray[np.float32]


def outcome(sizes: tuple[int, ...], cores: int, ring: tuple[int, ...], operation: str, inputs: F32) -> tuple[F32, F32]:
    """``(data, inbox)`` of each position after the run."""
    system = SystemProgram(system_config(sizes, cores, chip_lines=256))
    for program in system.programs:
        program.hbm("x", inputs.shape[1:], "fp32")
    Ring([system.programs[core] for core in ring], ring, "x").run(operation)
    values: list[Any] = [{} for _ in system.programs]
    for core, row in zip(ring, inputs, strict=True):
        values[core] = {"x": row}
    results = system.run("golden", values)
    return (
        np.stack([results[core]["x"] for core in ring]),
        np.stack([results[core]["x.inbox"] for core in ring]),
    )


def chained(inputs: F32) -> F32:
    """The sums in the published order: chunk c is x[c] + x[c + 1] + ... around the ring, rounded each time."""
    count = len(inputs)
    chunks = inputs.reshape(count, count, -1)
    result = []
    for chunk in range(count):
        total: Any = chunks[chunk, chunk]
        for step in range(1, count):
            total = add(chunks[(chunk + step) % count, chunk], total)
        result.append(total)
    return np.concatenate(result).reshape(inputs.shape[1:])


CASES = [((2, 2), 1, (0, 1, 3, 2)), ((3,), 1, (0, 1, 2)), ((4, 2), 2, (5, 1, 12, 7)), ((2,), 1, (1, 0))]


@pytest.mark.parametrize(("sizes", "cores", "ring"), CASES)
def test_an_all_reduce_gives_everyone_the_sums_in_the_order_of_the_ring(
    sizes: tuple[int, ...], cores: int, ring: tuple[int, ...]
) -> None:
    count = len(ring)
    inputs = np.random.default_rng(3).standard_normal((count, 2 * count, 9)).astype(np.float32)
    data, _ = outcome(sizes, cores, ring, "all_reduce", inputs)
    expected = chained(inputs)
    assert count == 2 or not np.array_equal(expected, inputs.sum(0))  # the order matters for these numbers
    for row in data:
        np.testing.assert_array_equal(row, expected)


def test_a_reduce_scatter_leaves_each_position_its_chunk() -> None:
    ring = (0, 1, 2, 3)
    inputs = np.random.default_rng(4).standard_normal((4, 4, 16)).astype(np.float32)
    data, _ = outcome((4,), 1, ring, "reduce_scatter", inputs)
    expected = chained(inputs)
    for position, row in enumerate(data):
        chunk = (position + 1) % 4
        np.testing.assert_array_equal(row[chunk], expected[chunk])


def test_an_all_gather_gives_everyone_the_chunk_of_each() -> None:
    inputs = np.arange(4 * 64, dtype=np.float32).reshape(4, 4, 16)
    data, _ = outcome((4,), 1, (0, 1, 2, 3), "all_gather", inputs)
    for row in data:
        np.testing.assert_array_equal(row, [inputs[position, position] for position in range(4)])


def test_an_all_to_all_transposes_blocks() -> None:
    inputs = np.arange(4 * 64, dtype=np.float32).reshape(4, 4, 16)
    _, inbox = outcome((4,), 1, (0, 1, 2, 3), "all_to_all", inputs)
    np.testing.assert_array_equal(inbox, inputs.transpose(1, 0, 2))


def programs(rows: int = 8) -> list[Any]:
    system = SystemProgram(system_config((4,)))
    for program in system.programs:
        program.hbm("x", (rows, 4), "fp32")
    return system.programs


def test_rows_that_cannot_be_divided_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"x\.rows = 6: legal is a multiple of 4 positions"):
        Ring(programs(6), range(4), "x")


@pytest.mark.parametrize("cores", [(0, 0, 1, 2), (0, 1), ()])
def test_a_ring_needs_a_core_for_each_program(cores: tuple[int, ...]) -> None:
    with pytest.raises(ParameterError, match="legal is a different core for each"):
        Ring(programs(), cores, "x")


def test_an_unknown_collective_and_an_unknown_tensor_are_refused() -> None:
    with pytest.raises(ParameterError, match="collective 'bogus': legal is one of all_gather"):
        Ring(programs(), range(4), "x").run("bogus")
    with pytest.raises(ParameterError, match="tensor 'y'"):
        Ring(programs(), range(4), "y")


def test_a_tensor_that_does_not_fit_its_chip_is_refused() -> None:
    with pytest.raises(ParameterError, match="what fits into HBM up to byte 8192"):
        programs(1024)
