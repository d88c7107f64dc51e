import itertools

import numpy as np
import pytest

from golden.link.router import FIRST, ID_SHIFT, levels, run
from golden.link.traffic import Traffic, bernoulli
from spec.link import RouterConfig
from spec.topology import LOCAL, Kind, Torus, opposite
from verif.link.curves import bound, peers, point
from verif.link.router import in_order, random_traffic

SHAPES = [
    Torus(sizes=(4, 4)),
    Torus(sizes=(3, 5)),
    Torus(sizes=(3, 4), wraps=(False, True)),
    Torus(sizes=(2,)),
]
UNICAST = (Kind.ORDERED, Kind.FREE, Kind.ADAPTIVE)


def config(torus: Torus, **changes: int) -> RouterConfig:
    return RouterConfig(torus=torus, **{"flit_bits": 32, "channels": 4, "escape_channels": 2, **changes})


@pytest.mark.parametrize("torus", SHAPES)
def test_dateline_classes_are_those_of_the_specification(torus: Torus) -> None:
    for kind, at, port, level in itertools.product(Kind, range(torus.nodes), range(1, torus.ports), range(3)):
        dimension, down = divmod(port - 1, 2)
        here, size, ring = torus.coordinates(at)[dimension], torus.sizes[dimension], torus.ring(dimension)
        for there, came in itertools.product(range(size), range(torus.ports)):
            through = came == opposite(port)
            found = levels(here, there, size, ring, bool(down), through, level, kind)
            wanted = torus.levels(at, None if came == LOCAL else (came, level), port, there, kind)
            assert found == sum(1 << bit for bit in wanted)


@pytest.mark.parametrize("torus", [Torus(sizes=(4, 4)), Torus(sizes=(3, 2, 2))])
@pytest.mark.parametrize("flits", [1, 5])
def test_a_hop_takes_two_cycles_when_nothing_is_in_the_way(torus: Torus, flits: int) -> None:
    for source, target in itertools.product(range(0, torus.nodes, 3), range(torus.nodes)):
        delivered = run(config(torus), Traffic.of([10], [source], [target], Kind.FREE, flits), 100)["delivered"]
        assert delivered[0] - 10 == 2 * torus.hops(source, target) + 2 + flits - 1


def test_a_link_of_half_the_width_takes_one_cycle_more_and_passes_every_other() -> None:
    torus = Torus(sizes=(4, 4), cycles=(1, 2))
    for target, hops in ((1, (1, 0)), (4, (0, 1)), (10, (2, 2))):
        delivered = run(config(torus), Traffic.of([0], [0], [target], Kind.FREE, 1), 100)["delivered"]
        assert delivered[0] == 2 * sum(hops) + hops[1] + 2
    stream = Traffic.of(np.zeros(100), np.zeros(100), np.full(100, 4), Kind.ORDERED, 8)
    delivered = run(config(torus), stream, 3000)["delivered"]
    assert np.diff(delivered).tolist() == [16] * 99


@pytest.mark.parametrize("torus", SHAPES)
@pytest.mark.parametrize("changes", [{}, {"max_flits": 20, "depth": 3}, {"classes": 2, "channels": 2}])
def test_everything_arrives_and_ordered_packets_in_order_far_beyond_saturation(torus: Torus, changes: dict) -> None:
    machine = config(torus, **changes)
    for seed, kinds in enumerate([*((kind,) for kind in UNICAST), UNICAST]):
        traffic = random_traffic(machine, kinds, 2.0, 400, np.random.default_rng(seed))
        delivered = run(machine, traffic, 40_000, stop=traffic.created.size)["delivered"]
        assert (delivered >= 0).all(), "the network stopped"
        assert in_order(traffic, delivered)


@pytest.mark.parametrize("torus", SHAPES)
def test_multicast_reaches_every_chip_of_its_dimensions_also_under_load(torus: Torus) -> None:
    machine = config(torus)
    traffic = random_traffic(machine, tuple(Kind), 0.5, 300, np.random.default_rng(9))
    cycles = 12_000
    links = run(machine, traffic, cycles, trace=cycles)["links"]
    firsts = links[:, :, LOCAL][(links[:, :, LOCAL] >= 0) & (links[:, :, LOCAL] & FIRST != 0)]
    data = firsts & ((1 << machine.flit_bits) - 1)
    spans = [np.prod([size for d, size in enumerate(torus.sizes) if target >> d & 1]) for target in traffic.target]
    wanted = sum(int(span) if kind == Kind.MULTICAST else 1 for span, kind in zip(spans, traffic.kind, strict=True))
    assert len(firsts) == wanted
    assert (data & 3 == Kind.MULTICAST).any()
    assert links.max() >> ID_SHIFT < machine.lanes


def test_long_packets_half_way_round_a_ring_do_not_wait_for_each_other() -> None:
    ring = config(Torus(sizes=(4,)), channels=2, max_flits=20, depth=2)
    far = Traffic.of(np.zeros(400), np.arange(400) % 4, (np.arange(400) + 2) % 4, Kind.FREE, 20)
    assert (run(ring, far, 40_000)["delivered"] >= 0).all()


@pytest.mark.parametrize("row", [peer for peer in peers() if peer.dimensions == 2], ids=lambda peer: peer.name)
def test_saturates_later_than_the_peer(row) -> None:  # type: ignore[no-untyped-def]
    machine = row.config()
    limit = bound(machine.torus, row.pattern)
    load = min(row.saturation, 0.94 * limit if row.pattern.startswith("hotspot") else 1.0)
    assert point(machine, row.pattern, load, row.flits, cycles=6_000).latency < 3 * row.zero_load


@pytest.mark.parametrize(("flits", "dimensions", "load"), [(1, 2, 0.8), (8, 2, 0.8), (1, 3, 0.55), (8, 3, 0.55)])
def test_adaptive_packets_pass_the_bound_of_dimension_order_on_transpose(
    flits: int, dimensions: int, load: float
) -> None:
    machine = config(Torus(sizes=(4,) * dimensions))
    zero = point(machine, "transpose", 0.01, flits, kind=Kind.ADAPTIVE, cycles=4_000).latency
    assert load > 1.2 * {2: 0.667, 3: 0.333}[dimensions] - 0.01
    assert point(machine, "transpose", load, flits, kind=Kind.ADAPTIVE, cycles=3_000).latency < 3 * zero


def test_adaptive_packets_keep_to_dimension_order_where_it_is_perfect() -> None:
    found = point(config(Torus(sizes=(4, 4))), "tornado", 1.0, 1, kind=Kind.ADAPTIVE, cycles=2_000)
    assert found.accepted == 1.0
    assert found.latency <= 6.0


def test_traffic_of_a_wrong_size_is_refused() -> None:
    with pytest.raises(ValueError, match="power of four"):
        bernoulli(Torus(sizes=(3, 3)), "transpose", 0.5, 10)
    with pytest.raises(ValueError, match="no permutation pattern"):
        bernoulli(Torus(sizes=(4, 4)), "spiral", 0.5, 10)
    with pytest.raises(ValueError, match="up to 40 bits"):
        run(config(Torus(sizes=(4,)), flit_bits=41), Traffic.of([0], [0], [1]), 10)
