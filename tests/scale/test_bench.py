from pathlib import Path

import numpy as np
import pytest

from scale.bench import ASSUMED, bench_collectives, bench_two_ranks, bound_seconds, networks
from scale.cluster import Cluster
from scale.collectives import Collectives
from scale.fabric import Fabric, machine_scope
from scale.measured import load
from spec.parameters import ParameterError
from spec.results import write

MIB = 2**20

# The bounds printed beside the reference measurements, in microseconds for 1 GiB: arithmetic done elsewhere.
BOUNDS = {
    ("torus4x4", "all_reduce"): 3662.1,
    ("torus4x4", "all_gather"): 29296.9,
    ("torus4x4", "all_to_all"): 3906.2,
    ("torus4x4x4", "reduce_scatter"): 1538.1,
    ("torus4x4x4", "all_gather"): 98437.5,
    ("torus4x4x4", "all_to_all"): 7812.5,
    ("switch64", "all_reduce"): 12304.7,
    ("switch64", "all_to_all"): 6152.3,
    ("ring64", "all_reduce"): 7690.4,
    ("ring64", "all_to_all"): 62500.0,
}


@pytest.fixture(scope="module")
def made() -> dict[str, Collectives]:
    return networks()


@pytest.mark.parametrize(("name", "operation"), BOUNDS)
def test_the_bound_is_the_published_arithmetic(made: dict[str, Collectives], name: str, operation: str) -> None:
    assert bound_seconds(made[name], operation, 1024 * MIB) * 1e6 == pytest.approx(BOUNDS[name, operation], rel=1e-4)


@pytest.mark.parametrize(("name", "operation"), BOUNDS)
def test_nothing_is_faster_than_the_bound_and_large_sizes_come_near(
    made: dict[str, Collectives], name: str, operation: str
) -> None:
    size = 1024.0 * MIB
    assert 0.8 <= bound_seconds(made[name], operation, size) / made[name].best(operation, size).time(size) <= 1.0


def test_every_row_is_faster_than_the_reference(tmp_path: Path) -> None:
    records = bench_collectives()
    assert write("bench", "scale", records, build=tmp_path).stat().st_size > 10_000
    assert len(records) > 70
    assert all(record.met for record in records)


def test_two_ranks_are_within_a_fifth_of_the_published_curve() -> None:
    records = bench_two_ranks()
    assert len(records) == 7
    assert all(record.met for record in records)


@pytest.fixture(scope="module")
def fabric() -> Fabric:
    machine, scope = machine_scope("trn2-ultraserver")
    return Fabric(machine, scope, load(ASSUMED))


@pytest.mark.parametrize("servers", [2, 3, 8])
def test_one_place_of_each_server_gives_the_time_of_every_port(fabric: Fabric, servers: int) -> None:
    one, every = Cluster(fabric), Cluster(fabric, every_port=True)
    assert one.all_reduce(servers, 64 * MIB).seconds == pytest.approx(every.all_reduce(servers, 64 * MIB).seconds)


def test_more_servers_never_make_an_all_reduce_faster(fabric: Fabric) -> None:
    curve = Cluster(fabric).curve(1024 * MIB)
    assert curve[-1].chips == 99_968
    assert all(np.diff([point.seconds for point in curve]) >= 0)
    floor = 2 * (1024 * MIB / 64) / fabric.efa_rate
    assert curve[-1].between >= floor * 0.99


def test_a_group_of_the_wrong_size_is_refused(fabric: Fabric) -> None:
    with pytest.raises(ParameterError, match="a group has 64 ranks"):
        Collectives(fabric.network, np.arange(64)[None], (4, 4), (1, 1), fabric.timing)
