"""Collectives as schedules: which rank sends which slots to whom, step by step, and whether the receiver adds.

The data of a collective is cut into *slots*. In a step, all transfers read what their source held before the step; a
receiver then stores the slots, or adds them to its own as ``arriving + own``, transfers in their order. That fixes the
order of every sum, so a result is the same bits each time and on every rank. ``size`` is what each rank puts in.

Order of sums of slot ``s``, owned by rank ``r``: *ring*: the next rank of the ring begins, each rank on the way round
adds its own, ``r`` is last; *bucket*: the same along the first dimension of the slot's part, then partial sums along
the next; *recursive*: pairs at distance 1, then pairs of pairs; *bruck*: as the tree of its steps; *direct*: ``r``
begins, the others follow in rising order.
"""

import dataclasses
import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from scale.network import Indices, Reals
from spec.parameters import ParameterError

OPERATIONS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all", "broadcast", "permute")


@dataclasses.dataclass(frozen=True, eq=False)
class Moves:
    """Transfers of one step: ``share[i]`` of the collective's size goes from rank ``source[i]`` to ``target[i]``."""

    source: Indices
    target: Indices
    share: Reals


@dataclasses.dataclass(frozen=True, eq=False)
class Step:
    """Transfers that happen at once. Steps that move alike share one :class:`Moves`, so they are timed once."""

    moves: Moves
    adds: bool
    slots: Callable[[], Sequence[Indices]]
    """The slots of each transfer; made when asked, because timing does not need them."""


@dataclasses.dataclass(frozen=True, eq=False)
class Schedule:
    """One collective over ``ranks`` ranks. ``owner[s]`` is the rank slot ``s`` belongs to (ends at, or comes from)."""

    operation: str
    algorithm: str
    ranks: int
    steps: tuple[Step, ...]
    sizes: Reals
    """Share of the collective's size in each slot."""
    owner: Indices


@dataclasses.dataclass(frozen=True)
class _Part:
    """A share of the data that is reduced along ``order`` of the dimensions, each ring turned by ``turn``."""

    order: tuple[int, ...]
    turn: int
    share: float


def rings(
    operation: str, cycles: Sequence[Sequence[int]], name: str = "ring", turns: Sequence[int] = (1, -1)
) -> Schedule:
    """Rings along the given orders of all ranks, each in both directions (``turns``), with equal shares of the data."""
    ranks = len(cycles[0])
    parts = [(np.array(cycle), turn) for cycle in cycles for turn in (turns if ranks > 2 else turns[:1])]
    share = 1 / len(parts) / (1 if operation == "all_gather" else ranks)
    source = np.concatenate([cycle for cycle, _ in parts])
    target = np.concatenate([np.roll(cycle, -turn) for cycle, turn in parts])
    moves = Moves(source, target, np.full(len(source), share))

    def slots(behind: int) -> list[Indices]:
        """The slot each rank sends: that of the rank ``behind`` places behind it on its ring."""
        found = [np.roll(cycle, turn * behind) + number * ranks for number, (cycle, turn) in enumerate(parts)]
        return list(np.concatenate(found)[:, None])

    steps: list[Step] = []
    if operation != "all_gather":
        steps += [Step(moves, True, partial(slots, step + 1)) for step in range(ranks - 1)]
    if operation != "reduce_scatter":
        steps += [Step(moves, False, partial(slots, step)) for step in range(ranks - 1)]
    owner = np.tile(np.arange(ranks), len(parts))
    return Schedule(operation, name, ranks, tuple(steps), np.full(len(owner), share), owner)


def hamiltonian(shape: Sequence[int]) -> list[int]:
    """An order of the ranks of a torus in which neighbours follow each other, the last next to the first.

    Where the sizes allow none of this form (each a divisor of the product of those before it, largest first), the
    natural order.
    """
    strides = [math.prod(shape[:dimension]) for dimension in range(len(shape))]
    dimensions = sorted(range(len(shape)), key=lambda dimension: -shape[dimension])
    cycle = [step * strides[dimensions[0]] for step in range(shape[dimensions[0]])]
    for dimension in dimensions[1:]:
        size = shape[dimension]
        if len(cycle) % size:
            return list(range(math.prod(shape)))
        cycle = [
            base + (step - row) % size * strides[dimension] for row, base in enumerate(cycle) for step in range(size)
        ]
    return cycle


def two_ring(operation: str, shape: Sequence[int]) -> Schedule:
    """Two Hamiltonian cycles of a square torus that share no link: every link carries a quarter of each rank's data."""
    if len(shape) != 2 or shape[0] != shape[1] or shape[0] < 3:
        raise ParameterError(f"two_ring on {'x'.join(map(str, shape))}: legal is a square torus of at least 3x3")
    first = hamiltonian(shape)
    second = [rank // shape[0] + rank % shape[0] * shape[0] for rank in first]
    return rings(operation, [first, second], "two_ring")


def _split(shape: Sequence[int], widths: Sequence[float]) -> dict[tuple[int, ...], float]:
    """Share of the data for each order of the dimensions, so that wide and narrow links finish together.

    All parts pass their first dimension at once, then their second, and so on; a pass lasts as long as its busiest
    dimension. Of all splits in twentieths, the fastest.
    """
    orders = list(itertools.permutations(range(len(shape))))
    grain = 20 if len(orders) > 1 else 1
    cuts = np.array(list(itertools.combinations(range(grain + len(orders) - 1), len(orders) - 1)), dtype=np.int64)
    cuts = cuts.reshape(len(cuts), len(orders) - 1)
    edge = np.full((len(cuts), 1), grain + len(orders) - 1)
    counts = np.diff(np.hstack([np.full((len(cuts), 1), -1), cuts, edge]), axis=1) - 1
    seconds = np.zeros(len(counts))
    for passed in range(len(shape)):
        loads = np.zeros((len(counts), len(shape)))
        for number, order in enumerate(orders):
            dimension = order[passed]
            moved = (shape[dimension] - 1) / math.prod(shape[other] for other in order[: passed + 1])
            loads[:, dimension] += counts[:, number] * moved / widths[dimension]
        seconds += loads.max(axis=1)
    best = counts[int(np.argmin(seconds))]
    return {order: count / grain for order, count in zip(orders, best.tolist(), strict=True) if count}


def bucket(operation: str, shape: Sequence[int], widths: Sequence[float]) -> Schedule:
    """Rings along one dimension after the other, parts of the data taking the dimensions in different orders.

    ``widths`` are relative widths of the links of each dimension: wide dimensions get more of the data first. All parts
    pass their first dimension at once, then their second, and so on. Where sizes differ, the fewer and larger steps of
    a short ring are cut into *pieces* so that every pass has as many steps in each dimension.
    """
    ranks = math.prod(shape)
    whole = ranks if operation == "all_gather" else 1
    parts = [_Part(order, turn, share / 2) for order, share in _split(shape, widths).items() for turn in (1, -1)]
    rings = [size - 1 for size in shape if size > 1]
    steps_of_a_pass = math.lcm(*rings)
    grid = _Grid(tuple(shape), steps_of_a_pass, math.lcm(*(steps_of_a_pass // ring for ring in rings)))
    steps: list[Step] = []
    for adds in (True, False):
        if operation == ("all_gather" if adds else "reduce_scatter"):
            continue
        for passed in range(len(shape)) if adds else reversed(range(len(shape))):
            steps += _pass(grid, parts, passed, whole, adds)
    slots = ranks * grid.pieces
    sizes = np.repeat([part.share * whole / slots for part in parts], slots)
    return Schedule(
        operation, "bucket", ranks, tuple(steps), sizes, np.tile(np.arange(ranks), len(parts) * grid.pieces)
    )


@dataclasses.dataclass(frozen=True)
class _Grid:
    """Ranks in a box; slot ``(part * pieces + piece) * ranks + rank`` belongs to ``rank``."""

    shape: tuple[int, ...]
    steps: int
    """Steps of each pass."""
    pieces: int
    """Pieces each part's slots are cut into, so that a step of a short ring can be spread over several."""

    def along(self, dimension: int) -> tuple[Indices, Indices, int]:
        """All ranks, their coordinate in a dimension, and its stride."""
        ranks, stride = np.arange(math.prod(self.shape)), math.prod(self.shape[:dimension])
        return ranks, ranks // stride % self.shape[dimension], stride


def _pass(grid: _Grid, parts: Sequence[_Part], passed: int, whole: int, adds: bool) -> list[Step]:
    """All parts along the dimension each of them passes now: every rank to the next, block by block."""
    moves = []
    for part in parts:
        dimension = part.order[passed]
        ranks, here, stride = grid.along(dimension)
        size = grid.shape[dimension]
        if size == 1:
            continue
        target = ranks + ((here + part.turn) % size - here) * stride
        left = math.prod(grid.shape[other] for other in part.order[: passed + 1])
        share = part.share * whole / left * (size - 1) / grid.steps
        moves.append(Moves(ranks, target, np.full(len(ranks), share)))
    if not moves:
        return []
    joined = Moves(
        np.concatenate([each.source for each in moves]),
        np.concatenate([each.target for each in moves]),
        np.concatenate([each.share for each in moves]),
    )
    return [Step(joined, adds, partial(_blocks, grid, parts, passed, step, adds)) for step in range(grid.steps)]


def _blocks(grid: _Grid, parts: Sequence[_Part], passed: int, step: int, adds: bool) -> list[Indices]:
    """Slots each rank sends: its own place in dimensions already passed, one behind it in this one, any in the rest."""
    found: list[Indices] = []
    for number, part in enumerate(parts):
        size = grid.shape[part.order[passed]]
        if size == 1:
            continue
        ring_step, turn = divmod(step, grid.steps // (size - 1))
        each = grid.pieces * (size - 1) // grid.steps
        ranks = math.prod(grid.shape)
        first = np.full(ranks, number * grid.pieces * ranks)
        rest = np.arange(turn * each, (turn + 1) * each) * ranks
        for place, dimension in enumerate(part.order):
            _, here, stride = grid.along(dimension)
            if place < passed:
                first += here * stride
            elif place == passed:
                first += (here - part.turn * (ring_step + adds)) % size * stride
            else:
                rest = (rest[:, None] + np.arange(grid.shape[dimension]) * stride).ravel()
        found += list(first[:, None] + rest)
    return found
