import dataclasses
import itertools
import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from scale import exchanges, schedules
from scale.collectives import ALGORITHMS, Collectives, Timing, candidates, execute, plan
from scale.network import Network, PortNetwork, RoutedNetwork
from scale.schedules import Schedule
from spec.parameters import ParameterError
from spec.topology import Torus

OPERATIONS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast")
SHAPES = ((2,), (3,), (8,), (2, 2), (4, 4), (4, 2), (3, 5), (2, 3, 2), (4, 4, 4))
SCHEDULES = [
    schedule
    for operation in OPERATIONS
    for shape in SHAPES
    for schedule in candidates(operation, shape, [2.0, 2.0, 1.0][: len(shape)])
]
SCHEDULES += [exchanges.pairwise(ranks) for ranks in (2, 4, 15)]
SCHEDULES += [
    schedules.rings(operation, [range(4)], "one way", turns=(1,)) for operation in ("all_reduce", "all_gather")
]


def _name(schedule: Schedule) -> str:
    return f"{schedule.operation}-{schedule.algorithm}-{schedule.ranks}"


def _inputs(schedule: Schedule, draw: Callable[[tuple[int, ...]], np.ndarray]) -> np.ndarray:
    """What the ranks hold before: everything, or only their own slots, the rest being not-a-number."""
    ranks, slots = schedule.ranks, len(schedule.sizes)
    values = draw((ranks, slots, 2))
    if schedule.operation in ("all_gather", "broadcast"):
        values[np.arange(ranks)[:, None] != schedule.owner] = np.nan
    if schedule.operation == "all_to_all":  # slot source * ranks + target
        values[np.arange(ranks)[:, None] != np.arange(slots) // ranks] = np.nan
    return values


def _is_right(schedule: Schedule, before: np.ndarray, after: np.ndarray) -> bool:
    """Whether ``after`` is what the operation promises, exactly; for integers held as floats."""
    owner, slots = schedule.owner, np.arange(len(schedule.owner))
    if schedule.operation == "all_reduce":
        return bool((after == before.sum(axis=0)).all())
    if schedule.operation == "reduce_scatter":
        return bool((after[owner, slots] == before.sum(axis=0)).all())
    if schedule.operation == "all_to_all":
        return bool((after[slots % schedule.ranks, slots] == before[slots // schedule.ranks, slots]).all())
    return bool((after == before[owner, slots]).all())


def _integers(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(1).integers(-1000, 1000, shape).astype(np.float64)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=_name)
def test_a_schedule_computes_its_collective(schedule: Schedule) -> None:
    before = _inputs(schedule, _integers)
    assert _is_right(schedule, before, execute(schedule, before))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=_name)
def test_bytes_timed_are_bytes_of_the_slots_moved(schedule: Schedule) -> None:
    for step in schedule.steps:
        carried = np.array([schedule.sizes[slots].sum() for slots in step.slots()])
        np.testing.assert_allclose(step.moves.share, carried, rtol=1e-12)


@pytest.mark.parametrize("schedule", [s for s in SCHEDULES if s.ranks in (4, 15, 16)], ids=_name)
def test_a_dropped_transfer_is_caught(schedule: Schedule) -> None:
    before = _inputs(schedule, _integers)
    for position in {0, len(schedule.steps) // 2, len(schedule.steps) - 1}:
        step = schedule.steps[position]
        moves = schedules.Moves(step.moves.source[:-1], step.moves.target[:-1], step.moves.share[:-1])
        broken = dataclasses.replace(step, moves=moves, slots=partial(list, step.slots()[:-1]))
        steps = (*schedule.steps[:position], broken, *schedule.steps[position + 1 :])
        after = execute(dataclasses.replace(schedule, steps=steps), before)
        assert not _is_right(schedule, before, after)


@pytest.mark.parametrize("schedule", [s for s in SCHEDULES if s.ranks == 16 and s.operation == "all_reduce"], ids=_name)
def test_swapped_targets_and_a_store_instead_of_a_sum_are_caught(schedule: Schedule) -> None:
    before = _inputs(schedule, _integers)
    step = schedule.steps[0]
    turned = schedules.Moves(step.moves.source, np.roll(step.moves.target, 1), step.moves.share)
    for fault in (dataclasses.replace(step, moves=turned), dataclasses.replace(step, adds=not step.adds)):
        after = execute(dataclasses.replace(schedule, steps=(fault, *schedule.steps[1:])), before)
        assert not _is_right(schedule, before, after)


def _floats(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(2).standard_normal(shape).astype(np.float32) * np.float32(1e3)


@pytest.mark.parametrize("schedule", [s for s in SCHEDULES if s.operation == "all_reduce"], ids=_name)
def test_all_ranks_end_with_the_same_bits(schedule: Schedule) -> None:
    after = execute(schedule, _inputs(schedule, _floats))
    assert (after.view(np.uint32) == after[0].view(np.uint32)).all()


def _round_the_ring(values: np.ndarray, order: list[int]) -> np.ndarray:
    """``arriving + own`` along an order of ranks."""
    total = values[order[0]]
    for rank in order[1:]:
        total = total + values[rank]
    return total


def test_a_ring_adds_in_the_stated_order() -> None:
    ranks = 5
    schedule = schedules.rings("reduce_scatter", [range(ranks)])
    before = _inputs(schedule, _floats)
    after = execute(schedule, before)
    for slot, owner in enumerate(schedule.owner):
        turn = 1 if slot < ranks else -1
        order = [(owner + turn * (1 + step)) % ranks for step in range(ranks)]
        assert (after[owner, slot] == _round_the_ring(before[:, slot], order)).all()


def test_recursive_adds_in_the_stated_order() -> None:
    schedule = exchanges.recursive("reduce_scatter", 8)
    before = _inputs(schedule, _floats)
    after = execute(schedule, before)
    for slot in range(8):
        level = before[:, slot]
        for _ in range(3):
            level = level[0::2] + level[1::2]
        assert (after[slot, slot] == level[0]).all()


def test_direct_adds_in_the_stated_order() -> None:
    schedule = exchanges.direct("reduce_scatter", 6)
    before = _inputs(schedule, _floats)
    after = execute(schedule, before)
    for slot in range(6):
        order = [slot, *(rank for rank in range(6) if rank != slot)]
        assert (after[slot, slot] == _round_the_ring(before[:, slot], order)).all()


def test_bucket_adds_in_the_stated_order() -> None:
    shape = (3, 4)
    schedule = schedules.bucket("reduce_scatter", shape, (1, 1))
    before = _inputs(schedule, _floats)
    after = execute(schedule, before)
    grid = before.reshape(4, 3, len(schedule.sizes), 2)  # y, x, slot, element
    orders = [order for order in schedules._split(shape, (1, 1)) for _ in range(2)]
    slots_of_a_part = len(schedule.sizes) // len(orders)
    for slot, owner in enumerate(schedule.owner):
        part = slot // slots_of_a_part
        turn = 1 if part % 2 == 0 else -1
        level = grid[:, :, slot]
        for dimension in orders[part]:
            axis, size = 1 - dimension, shape[dimension]
            here = owner % 3 if dimension == 0 else owner // 3
            order = [(here + turn * (1 + step)) % size for step in range(size)]
            kept = np.expand_dims(_round_the_ring(np.moveaxis(level, axis, 0), order), axis)
            level = np.repeat(kept, size, axis)
        assert (after[owner, slot] == level[0, 0]).all()


@pytest.mark.parametrize("size", [3, 4, 5, 8])
def test_two_ring_cycles_visit_all_and_share_no_link(size: int) -> None:
    torus = Torus(sizes=(size, size))
    moves = schedules.two_ring("all_gather", (size, size)).steps[0].moves
    used = list(zip(moves.source.tolist(), moves.target.tolist(), strict=True))
    assert len(set(used)) == len(used) == len(torus.links)
    assert all(target in torus.neighbours(source) for source, target in used)


@pytest.mark.parametrize("shape", [(4,), (4, 4), (4, 4, 4), (2, 4), (16, 4)])
def test_a_hamiltonian_cycle_steps_to_neighbours(shape: tuple[int, ...]) -> None:
    torus, cycle = Torus(sizes=shape), schedules.hamiltonian(shape)
    assert sorted(cycle) == list(range(math.prod(shape)))
    assert all(b in torus.neighbours(a) for a, b in itertools.pairwise([*cycle, cycle[0]]))


NETWORKS: dict[str, tuple[Network, tuple[int, ...], tuple[float, ...]]] = {
    "torus4x4": (RoutedNetwork(Torus(sizes=(4, 4)), unit_bytes=128e9, hop_seconds=1e-6), (4, 4), (1, 1)),
    "torus4x4x4": (
        RoutedNetwork(Torus(sizes=(4, 4, 4), cycles=(1, 1, 2)), unit_bytes=128e9, hop_seconds=1e-6),
        (4, 4, 4),
        (2, 2, 1),
    ),
    "switch64": (PortNetwork(64, port_bytes=160e9, latency=1e-6), (64,), (1,)),
}


def _bound(network: Network, operation: str, size: float) -> float:
    """Seconds below which no algorithm can be: bytes that must leave each chip over all its links, no latency."""
    links = len(network.widths) if isinstance(network, RoutedNetwork) else network.chips
    away = float(network.widths[:links].sum()) / network.chips
    passes = {"all_reduce": 2 / network.chips, "all_gather": 1.0}.get(operation, 1 / network.chips)
    return (network.chips - 1) * passes * size / away


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("operation", ["all_reduce", "reduce_scatter", "all_gather"])
def test_large_collectives_reach_four_fifths_of_the_link_bound_and_never_pass_it(name: str, operation: str) -> None:
    network, shape, widths = NETWORKS[name]
    collectives = Collectives(network, np.arange(network.chips)[None], shape, widths, Timing())
    for one in collectives.plans(operation):
        assert one.seconds_per_byte >= _bound(network, operation, 1.0) * (1 - 1e-9)
    size = 2.0**30
    assert _bound(network, operation, size) / collectives.best(operation, size).time(size) >= 0.8


def test_small_and_large_sizes_choose_different_algorithms() -> None:
    network, shape, widths = NETWORKS["torus4x4"]
    collectives = Collectives(network, np.arange(16)[None], shape, widths, Timing())
    small, large = collectives.best("all_reduce", 1024), collectives.best("all_reduce", 2**30)
    assert small.schedule.algorithm == "direct"
    assert large.schedule.algorithm in ("bucket", "two_ring")


def test_groups_that_share_links_slow_each_other() -> None:
    network = RoutedNetwork(Torus(sizes=(4, 4)), unit_bytes=1e9, hop_seconds=0.0)
    schedule = exchanges.permute([1, 0])
    alone = plan(schedule, network, np.array([[0, 2]]), Timing())
    shared = plan(schedule, network, np.array([[0, 2], [1, 3]]), Timing())
    assert shared.seconds_per_byte == pytest.approx(2 * alone.seconds_per_byte)


def test_a_port_counts_everything_that_passes_it() -> None:
    network = PortNetwork(64, port_bytes=160e9, latency=0.0)
    all_to_all = plan(exchanges.direct("all_to_all", 64), network, np.arange(64)[None], Timing())
    assert all_to_all.seconds_per_byte == pytest.approx(63 / 64 / 160e9)


def test_memory_bounds_a_step() -> None:
    network = PortNetwork(2, port_bytes=1e9, latency=0.0)
    schedule = exchanges.direct("reduce_scatter", 2)
    slow = plan(schedule, network, np.arange(2)[None], Timing(memory_bytes=0.5e9))
    assert slow.seconds_per_byte == pytest.approx(1.5 / 0.5e9)  # half read and sent, half read and written


def test_the_local_port_bounds_a_step() -> None:
    """A router that takes one flit a cycle from its chip feeds one link of four, however many leave it."""
    network, shape, widths = NETWORKS["torus4x4"]
    groups = np.arange(16)[None]
    free = Collectives(network, groups, shape, widths, Timing()).best("all_reduce", 2**30)
    narrow = Collectives(network, groups, shape, widths, Timing(local_bytes=128e9)).best("all_reduce", 2**30)
    assert narrow.seconds_per_byte == pytest.approx(4 * free.seconds_per_byte)


def test_broadcast_and_permute_move_what_they_say() -> None:
    before = np.arange(6.0).reshape(3, 2)[:, :, None].repeat(3, axis=1).reshape(3, 6)[:, :3]
    after = execute(exchanges.permute([1, 2, -1]), before)
    assert (after[1, 0], after[2, 1]) == (before[0, 0], before[1, 1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: schedules.two_ring("all_reduce", (4, 2)), "two_ring on 4x2: legal is a square torus"),
        (lambda: exchanges.recursive("all_reduce", 6), "recursive over 6 ranks: legal is a power of two"),
        (lambda: exchanges.permute([1, 1]), "legal is each rank below 2 at most once"),
        (lambda: list(candidates("all_sum", (4,), (1,))), "collective 'all_sum': legal is one of"),
        (lambda: list(candidates("all_reduce", (4,), (1,), "magic")), "algorithm 'magic': legal is one of"),
        (lambda: list(candidates("all_to_all", (4,), (1,), "ring")), "all_to_all by ring: legal is direct"),
        (lambda: list(candidates("all_reduce", (6,), (1,), "recursive")), "power of two"),
    ],
)
def test_what_cannot_be_scheduled_is_refused(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        make()


def test_every_algorithm_is_among_the_tested() -> None:
    tested = {name for schedule in SCHEDULES for name in schedule.algorithm.split("+")}
    assert set(ALGORITHMS) <= tested
