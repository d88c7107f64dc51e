"""Collectives on golden systems: sums in the stated order, on rings of any shape, and what is refused."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from golden.numerics import add
from sdk.collectives import Collective
from spec.core import LINE_BYTES
from spec.parameters import ParameterError
from verif.system.programs import GoldenSystem, load, system_config

F32 = npt.NDArray[np.float32]


def outcome(collective: Collective, operation: str, inputs: F32) -> tuple[F32, F32]:
    """``(data, inbox)`` of each position after the run."""
    system = GoldenSystem(collective.config)
    places = collective.run(operation)
    programs = {}
    for place, row in zip(places, inputs, strict=True):
        start = collective.start(place)["sync"]
        programs[place.chip * collective.config.cores] = (start.line, place.words)
        system.write(place.chip * collective.config.chip_bytes, row.view(np.uint8))
    reports = system.run(load(system, programs))
    assert [report.fault for report in reports] == [None] * len(reports)
    found = [system.read(place.chip * collective.config.chip_bytes, 2 * collective.inbox) for place in places]
    both = np.stack([row.view(np.float32) for row in found])
    return both[:, : collective.elements], both[:, collective.elements :]


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
    return np.concatenate(result)


CASES = [((2, 2), 1, (0, 1, 3, 2)), ((3,), 1, ()), ((4, 2), 2, (5, 1, 2, 7)), ((2,), 1, (1, 0))]


@pytest.mark.parametrize(("sizes", "cores", "ring"), CASES)
def test_an_all_reduce_gives_everyone_the_sums_in_the_order_of_the_ring(
    sizes: tuple[int, ...], cores: int, ring: tuple[int, ...]
) -> None:
    config = system_config(sizes, cores)
    count = len(ring) or config.chips
    collective = Collective(config, 32 * count, ring)
    inputs = np.random.default_rng(3).standard_normal((count, collective.elements)).astype(np.float32)
    data, _ = outcome(collective, "all_reduce", inputs)
    expected = chained(inputs)
    assert count == 2 or not np.array_equal(expected, inputs.sum(0))  # the order matters for these numbers
    for row in data:
        np.testing.assert_array_equal(row, expected)


def test_a_reduce_scatter_leaves_each_position_its_chunk() -> None:
    collective = Collective(system_config((4,)), 64)
    inputs = np.random.default_rng(4).standard_normal((4, 64)).astype(np.float32)
    data, _ = outcome(collective, "reduce_scatter", inputs)
    expected = chained(inputs).reshape(4, 16)
    for position, row in enumerate(data.reshape(4, 4, 16)):
        chunk = collective.owned(position)
        np.testing.assert_array_equal(row[chunk], expected[chunk])


def test_an_all_gather_gives_everyone_the_chunk_of_each() -> None:
    inputs = np.arange(4 * 64, dtype=np.float32).reshape(4, 64)
    data, _ = outcome(Collective(system_config((4,)), 64), "all_gather", inputs)
    expected = np.concatenate([row.reshape(4, 16)[position] for position, row in enumerate(inputs)])
    for row in data:
        np.testing.assert_array_equal(row, expected)


def test_an_all_to_all_transposes_blocks() -> None:
    inputs = np.arange(4 * 64, dtype=np.float32).reshape(4, 64)
    _, inbox = outcome(Collective(system_config((4,)), 64), "all_to_all", inputs)
    np.testing.assert_array_equal(inbox.reshape(4, 4, 16), inputs.reshape(4, 4, 16).transpose(1, 0, 2))


@pytest.mark.parametrize(
    ("elements", "ring", "message"),
    [
        (60, (), "elements = 60: legal is a multiple of 64"),
        (64, (0, 0, 1), "ring .* legal is different chips of 0 to 3"),
        (64, (0, 4), "ring .* legal is different chips of 0 to 3"),
        (1024 * 4, (), "elements = 4096: legal is what fits twice"),
    ],
)
def test_what_does_not_fit_is_refused(elements: int, ring: tuple[int, ...], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Collective(system_config((4,)), elements, ring)


def test_a_chunk_is_a_whole_number_of_lines() -> None:
    collective = Collective(system_config((3,)), 96, format="bf16")
    assert collective.chunk % LINE_BYTES == 0
