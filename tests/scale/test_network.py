import numpy as np
import pytest

from scale.network import PortNetwork, RoutedNetwork
from spec.topology import SwitchedServers, Topology, Torus


def _all_pairs(chips: int) -> tuple[np.ndarray, np.ndarray]:
    source, target = np.divmod(np.arange(chips * chips), chips)
    return source, target


TOPOLOGIES = [Torus(sizes=(4, 4)), Torus(sizes=(3, 5)), Torus(sizes=(4, 4, 4), cycles=(1, 1, 2)), SwitchedServers()]


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda topology: f"{type(topology).__name__}{topology.nodes}")
def test_routes_carry_each_transfer_from_its_source_to_its_target(topology: Topology) -> None:
    """At every vertex, what arrives of a transfer leaves again, but for its ends."""
    network = RoutedNetwork(topology, unit_bytes=1.0, hop_seconds=1.0)
    source, target = _all_pairs(topology.nodes)
    routes = network.routes(source, target)
    vertices = 1 + max(max(link.source, link.target) for link in topology.links)
    balance = np.zeros((len(source), vertices))
    ends = np.array([(link.source, link.target) for link in topology.links])[routes.link]
    np.add.at(balance, (routes.transfer, ends[:, 0]), -routes.share)
    np.add.at(balance, (routes.transfer, ends[:, 1]), routes.share)
    expected = np.zeros_like(balance)
    np.add.at(expected, (np.arange(len(source)), source), -1.0)
    np.add.at(expected, (np.arange(len(source)), target), 1.0)
    np.testing.assert_allclose(balance, expected, atol=1e-12)


def test_latency_is_the_hop_count() -> None:
    torus = Torus(sizes=(4, 4))
    network = RoutedNetwork(torus, unit_bytes=1.0, hop_seconds=3.0)
    source, target = _all_pairs(16)
    hops = [torus.hops(int(a), int(b)) for a, b in zip(source, target, strict=True)]
    assert network.routes(source, target).latency.tolist() == [3.0 * count for count in hops]


def test_a_link_of_half_width_carries_half() -> None:
    network = RoutedNetwork(Torus(sizes=(4, 4), cycles=(1, 2)), unit_bytes=8.0, hop_seconds=0.0)
    assert sorted(set(network.widths.tolist())) == [4.0, 8.0]


def test_both_ways_round_share_a_transfer_half_way_round() -> None:
    routes = RoutedNetwork(Torus(sizes=(4,)), unit_bytes=1.0, hop_seconds=0.0).routes(np.array([0]), np.array([2]))
    assert routes.share.tolist() == [0.5] * 4


def test_ports_carry_what_leaves_and_what_arrives_and_nothing_else() -> None:
    routes = PortNetwork(4, port_bytes=2.0, latency=5.0).routes(np.array([0, 1, 3]), np.array([2, 1, 2]))
    assert sorted(zip(routes.transfer.tolist(), routes.link.tolist(), strict=True)) == [(0, 0), (0, 6), (2, 3), (2, 6)]
    assert routes.latency.tolist() == [5.0, 0.0, 5.0]
