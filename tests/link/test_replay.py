from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from spec.topology import Kind
from verif.harness.model import Model
from verif.link.replay import fabric_model, replay
from verif.link.router import SMALL, random_traffic

CONFIG = SMALL
Links = NDArray[np.int64]


@pytest.fixture(scope="module")
def model() -> Model:
    return fabric_model(CONFIG)


def somewhere(links: Links) -> tuple[int, ...]:
    return tuple(int(index) for index in np.argwhere(links[:, :, :-1] >= 0)[50])


def dropped(links: Links) -> Links:
    links[somewhere(links)] = -1
    return links


def flipped(links: Links) -> Links:
    links[somewhere(links)] ^= 1 << 7
    return links


def without_last(links: Links) -> Links:
    links[somewhere(links)] ^= 2 << 40
    return links


def late(links: Links) -> Links:
    return np.roll(links, 1, axis=0)


def swapped(links: Links) -> Links:
    return links[:, ::-1]


def nothing(links: Links) -> Links:
    return np.full_like(links, -1)


@pytest.mark.parametrize("fault", [dropped, flipped, without_last, late, swapped, nothing])
def test_planted_fault_is_noticed(model: Model, fault: Callable[[Links], Links]) -> None:
    traffic = random_traffic(CONFIG, (Kind.FREE,), 0.5, 200, np.random.default_rng(3))
    assert not replay(model, CONFIG, traffic, 250).mismatches
    found = replay(model, CONFIG, traffic, 250, fault=fault)
    assert found.mismatches
    assert found.first.startswith("cycle ")
