"""A ring of RTL nodes on noisy cables: errors, dead cables, a node that is restarted while packets are under way."""

from collections.abc import Iterator

import numpy as np
import pytest

from verif.harness.model import Model
from verif.link.cables import SMALL, Drive, cabled_model, fates, requests, send, target_of, whole
from verif.link.chips import Chips

TORUS = SMALL.router.torus
BETWEEN_0_AND_1 = (1 << TORUS.link_of[0, 1]) | (1 << TORUS.link_of[1, 2])


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    with cabled_model() as found:
        yield found


def cut_from(begin: int, cables: int) -> Drive:
    """Cables that are cut from a cycle on."""
    return lambda cycle: {"cut": cables if cycle >= begin else 0}


@pytest.mark.parametrize("rate", [0.0, 1e-4, 1e-3])
def test_end_to_end_nothing_is_lost_doubled_or_changed(model: Model, rate: float) -> None:
    whole(model, SMALL, rate, 300, np.random.default_rng(1))


def test_a_damaged_payload_that_passed_the_check_would_be_noticed(model: Model) -> None:
    rng = np.random.default_rng(2)
    packets = requests(SMALL, 50, rng)
    chips = send(model, SMALL, packets, lambda _: {}, rng)
    chips.received[3] = chips.received[3].__class__(**{**vars(chips.received[3]), "data": (1, 2)})
    assert len(fates(SMALL, chips, packets)["lost"]) == 1


@pytest.mark.parametrize("cut", [BETWEEN_0_AND_1, 1 << TORUS.link_of[0, 1]], ids=["both ways", "one way"])
def test_a_dead_cable_is_reported_and_what_needs_it_is_answered(model: Model, cut: int) -> None:
    rng, at = np.random.default_rng(3), 60
    packets = requests(SMALL, 400, rng)
    chips = send(model, SMALL, packets, cut_from(at, cut), rng)
    found = fates(SMALL, chips, packets)
    # What was on the cable or waited for it: at most a window of frames and the few flits of the ports, each way.
    assert len(found["lost"]) + len(found["broken"]) <= 2 * (SMALL.layer.window + 8)
    assert len(found["arrived"]) > 100
    assert found["answered"]
    dead = [int(model.run(sample=[f"dead__{n}"], limit=1).sampled(f"dead__{n}")[0]) for n in range(TORUS.nodes)]
    assert dead == [0b01, 0b10, 0, 0]

    before, later = len(chips.received), requests(SMALL, 300, rng)
    chips.put(later)
    assert chips.run(20_000, drive=lambda _: {"cut": cut})
    chips.received = chips.received[before:]
    found = fates(SMALL, chips, later)
    assert not found["lost"]
    assert not found["broken"]
    shorter = {(1, 2), (2, 1), (2, 3), (3, 2), (3, 0), (0, 3)}
    assert not shorter & {(one.node, target_of(SMALL, one)) for one in found["answered"]}


def test_a_packet_whose_rest_is_behind_a_dead_cable_is_broken_off_at_its_target(model: Model) -> None:
    for at in range(40, 60):
        rng = np.random.default_rng(at)
        packets = requests(SMALL, 200, rng)
        chips = send(model, SMALL, packets, cut_from(at, BETWEEN_0_AND_1), rng)
        if fates(SMALL, chips, packets)["broken"]:
            return
    pytest.fail("no packet was caught half-way in 20 runs")


def test_one_node_is_restarted_and_the_others_go_on(model: Model) -> None:
    rng, gone = np.random.default_rng(4), 2
    packets = requests(SMALL, 600, rng, spread=1)
    model.power_on()
    chips = Chips(model, SMALL.router, rng)
    chips.put(packets)
    chips.run(150)
    chips.switch_off(gone)
    chips.run(SMALL.layer.silence + 20, drive=lambda _: {"restart": 1 << gone})
    assert chips.run(20_000), "the others did not come to rest"
    found = fates(SMALL, chips, [one for one in packets if one.node != gone])
    late = [one for one in found["lost"] if one.cycle > 150 + 2 * SMALL.layer.silence]
    assert not late, "a packet sent after the neighbours had noticed got no answer"
    assert {target_of(SMALL, one) for one in found["answered"]} >= {gone}
    assert all(target_of(SMALL, one) != gone or one.cycle < 200 for one in found["arrived"])


def test_after_a_reset_of_all_a_dead_cable_that_was_mended_carries_again(model: Model) -> None:
    rng = np.random.default_rng(7)
    packets = requests(SMALL, 100, rng)
    send(model, SMALL, packets, cut_from(0, BETWEEN_0_AND_1), rng)
    model.run(limit=1, resets=[(0, 1)])
    chips = Chips(model, SMALL.router, rng)
    chips.put(packets)
    assert chips.run(20_000)
    assert len(fates(SMALL, chips, packets)["arrived"]) == len(packets)
