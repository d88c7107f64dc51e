import dataclasses

import pytest

from spec.link import LinkConfig, RouterConfig, SwitchConfig
from spec.parameters import ParameterError
from spec.topology import LOCAL, TOPOLOGIES, Channel, Kind, SwitchedServers, Torus, find_cycle, opposite

TORI = {name: topology for name, topology in TOPOLOGIES.items() if isinstance(topology, Torus)}

# aws-neuron-driver, v3/neuron_dhal_v3.c: the neighbours of each device of a 16-chip Trn2 instance.
DRIVER_TABLE = {
    0: {12, 1, 3, 4},
    1: {0, 13, 5, 2},
    2: {14, 3, 1, 6},
    3: {2, 15, 7, 0},
    4: {8, 5, 7, 0},
    5: {4, 9, 1, 6},
    6: {10, 7, 5, 2},
    7: {6, 11, 3, 4},
    8: {4, 9, 11, 12},
    9: {8, 5, 13, 10},
    10: {6, 11, 9, 14},
    11: {10, 7, 15, 8},
    12: {0, 13, 15, 8},
    13: {12, 1, 9, 14},
    14: {2, 15, 13, 10},
    15: {14, 3, 11, 12},
}


def test_neighbours_of_the_4x4_torus_are_those_of_the_driver() -> None:
    torus = TOPOLOGIES["torus4x4"]
    assert {node: set(torus.neighbours(node)) for node in range(16)} == DRIVER_TABLE


def test_ultraserver_is_four_instances_joined_at_equal_xy() -> None:
    server = TOPOLOGIES["trn2_ultraserver"]
    for node in range(64):
        inside = {16 * (node // 16) + other for other in DRIVER_TABLE[node % 16]}
        above_and_below = {(node + 16) % 64, (node - 16) % 64}
        assert set(server.neighbours(node)) == inside | above_and_below


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_no_channels_wait_for_each_other_in_a_circle(name: str) -> None:
    topology = TOPOLOGIES[name]
    graph = topology.extended_dependencies() if isinstance(topology, Torus) else topology.dependencies()
    assert graph
    assert find_cycle(graph) is None


@dataclasses.dataclass(frozen=True, kw_only=True)
class WithoutDateline(Torus):
    def levels(self, at: int, came: tuple[int, int] | None, port: int, there: int, kind: Kind) -> set[int]:
        return {0}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClimbingBack(Torus):
    """Routes that do not wrap may change from class 0 to class 1: plausible, and wrong."""

    def levels(self, at: int, came: tuple[int, int] | None, port: int, there: int, kind: Kind) -> set[int]:
        legal = super().levels(at, came, port, there, kind)
        first = self.coordinates(at)[(port - 1) // 2] == 0
        return {0, 1} if legal == {0} and not first else legal


@pytest.mark.parametrize("planted", [WithoutDateline(sizes=(4,)), ClimbingBack(sizes=(4, 4))])
def test_planted_cyclic_routing_is_caught(planted: Torus) -> None:
    circle = find_cycle(planted.dependencies())
    assert circle is not None
    graph = planted.dependencies()
    assert all(after in graph[before] for before, after in zip(circle, circle[1:] + circle[:1], strict=True))


def test_a_switch_route_that_turns_back_is_caught() -> None:
    class TurningBack(SwitchedServers):
        def moves(self, at: int, came: Channel | None, target: int) -> list[Channel]:
            legal = super().moves(at, came, target)
            if at < self.nodes and came is None and self.half_switch(at) == self.half_switch(target):
                return [Channel(self.link_between[at, self.partner(at)], 0)]
            if at < self.nodes and came is not None and self.half_switch(at) != self.half_switch(target):
                return [Channel(self.link_between[at, self.partner(at)], 0)]
            return legal

    assert find_cycle(TurningBack(servers=2, chips=2).dependencies()) is not None


@pytest.mark.parametrize("name", TORI)
def test_routes_of_tori_are_as_short_as_can_be(name: str) -> None:
    torus = TORI[name]
    for target in range(0, torus.nodes, 5):
        reached, border = {target: 0}, [target]
        while border:
            border = [
                other
                for node in border
                for other in torus.neighbours(node)
                if reached.setdefault(other, reached[node] + 1) > reached[node]
            ]
        assert all(torus.hops(node, target) == reached[node] for node in range(torus.nodes))


@pytest.mark.parametrize(
    ("name", "histogram"),
    [("trn3_gen1", {0: 1, 1: 1, 2: 31, 3: 31}), ("trn3_gen2", {0: 1, 1: 1, 2: 3, 3: 3, 4: 68, 5: 68})],
)
def test_hop_counts_of_the_switched_servers(name: str, histogram: dict[int, int]) -> None:
    topology = TOPOLOGIES[name]
    for source in (0, topology.nodes // 2 + 1, topology.nodes - 1):
        hops = [topology.hops(source, target) for target in range(topology.nodes)]
        assert {count: hops.count(count) for count in set(hops)} == histogram


def test_second_generation_joins_servers_18_apart() -> None:
    gen2 = TOPOLOGIES["trn3_gen2"]
    assert gen2.nodes == 144
    assert all(
        (server * 4 + chip + 72) % 144 in gen2.neighbours(server * 4 + chip)
        for server in range(36)
        for chip in range(4)
    )


@pytest.mark.parametrize(
    ("name", "bisection"),
    [
        ("torus4x4", 8),
        ("torus4x4x4", 32),
        ("trn2_ultraserver", 16),
        ("mesh4x4", 4),
        ("ring4", 2),
        ("trn3_gen1", 32),
        ("trn3_gen2", 72),
    ],
)
def test_bisection(name: str, bisection: float) -> None:
    assert TOPOLOGIES[name].bisection == bisection


@pytest.mark.parametrize(("name", "load"), [("torus4x4", 0.5), ("torus4x4x4", 0.5), ("trn2_ultraserver", 1.0)])
def test_uniform_traffic_loads_every_channel_by_half_and_narrow_ones_fully(name: str, load: float) -> None:
    torus = TOPOLOGIES[name]
    loads = torus.channel_loads(lambda source: dict.fromkeys(range(torus.nodes), 1 / torus.nodes))
    assert max(loads) == pytest.approx(load)


@pytest.mark.parametrize("name", TORI)
@pytest.mark.parametrize("all_dimensions", [True, False])
def test_multicast_tree_reaches_each_chip_of_its_dimensions_once(name: str, all_dimensions: bool) -> None:
    torus = TORI[name]
    spans = tuple(all_dimensions or dimension == 0 for dimension in range(torus.dimensions))
    for source in range(0, torus.nodes, 7):
        reached: list[int] = []
        todo = [(source, LOCAL)]
        while todo:
            at, came = todo.pop()
            for port in torus.tree(at, source, came, spans):
                if port == LOCAL:
                    reached.append(at)
                else:
                    todo.append((torus.links[torus.link_of[at, port]].target, opposite(port)))
        place = torus.coordinates(source)
        wanted = [
            node
            for node in range(torus.nodes)
            if all(span or c == s for span, c, s in zip(spans, torus.coordinates(node), place, strict=True))
        ]
        assert sorted(reached) == wanted


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Torus(sizes=(4, 0)), "Torus.sizes"),
        (lambda: Torus(sizes=(4, 4), cycles=(1,)), "Torus.cycles"),
        (lambda: Torus(sizes=(2, 2, 2, 2, 2)), "1 to 4 dimensions"),
        (lambda: SwitchedServers(servers=3), "an even number"),
        (
            lambda: RouterConfig(torus=Torus(sizes=(4, 4)), channels=2),
            "RouterConfig.escape_channels = 4: legal is 1 to channels = 2",
        ),
        (lambda: RouterConfig(torus=Torus(sizes=(4, 4)), channels=1, escape_channels=1), "at least 2"),
        (lambda: RouterConfig(torus=Torus(sizes=(4, 4)), flit_bits=12), "one header"),
        (lambda: LinkConfig(sequence_bits=1), "LinkConfig.sequence_bits"),
        (lambda: SwitchConfig(ports=145), "SwitchConfig.ports = 145 ports: legal is 2 to 144"),
    ],
)
def test_bad_parameters_are_refused_in_one_line(build, message: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ParameterError, match=message) as error:
        build()
    assert "\n" not in str(error.value)
