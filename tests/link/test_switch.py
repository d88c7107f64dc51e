from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from golden.link.switch import run
from hdl.link.switch import Switch
from spec.link import SwitchConfig
from verif.harness.model import Model
from verif.link.switch import arrivals, compare, wait

CONFIG = SwitchConfig(ports=5, depth=3, iterations=2, cell_bits=16)
Out = NDArray[np.int64]


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(Switch(CONFIG))


def somewhere(out: Out) -> tuple[int, ...]:
    return tuple(int(index) for index in np.argwhere(out >= 0)[20])


def dropped(out: Out) -> Out:
    out[somewhere(out)] = -1
    return out


def exchanged(out: Out) -> Out:
    out[somewhere(out)] += 1
    return out


def late(out: Out) -> Out:
    return np.roll(out, 1, axis=0)


@pytest.mark.parametrize("fault", [dropped, exchanged, late])
def test_planted_fault_is_noticed(model: Model, fault: Callable[[Out], Out]) -> None:
    cells = arrivals(CONFIG, 0.7, 40, np.random.default_rng(1))
    assert not compare(model, CONFIG, cells, 200)["wrong"]
    assert compare(model, CONFIG, cells, 200, fault)["wrong"]


def test_full_load_passes_and_a_hot_output_is_shared_evenly() -> None:
    config, slots = SwitchConfig(ports=16, depth=64), 4000
    cells = arrivals(config, 1.0, slots, np.random.default_rng(2), hot=1.0)
    out = run(config, cells.created, cells.source, cells.targets, slots * config.slot_cycles)["out"]
    sources = cells.source[out[len(out) // 4 :, 0][out[len(out) // 4 :, 0] >= 0]]
    share = np.bincount(sources, minlength=16) / len(sources) * 16
    assert len(sources) > 0.99 * 0.75 * slots
    assert abs(share - 1).max() < 0.02
    cells = arrivals(config, 1.0, slots, np.random.default_rng(3))
    out = run(config, cells.created, cells.source, cells.targets, slots * config.slot_cycles)["out"]
    assert (out[len(out) // 2 :] >= 0).sum() / (slots / 2) / 16 > 0.95


def test_four_iterations_wait_less_than_one() -> None:
    waits = [wait(SwitchConfig(ports=16, depth=64, iterations=count), 0.8, 2000)[0] for count in (1, 4)]
    assert waits[1] < 6 < 20 < waits[0]
