"""Schedules that are not rings: everyone to everyone, pairs at doubling distances, trees, and plain permutations."""

from collections.abc import Sequence
from functools import partial

import numpy as np

from scale.network import Indices
from scale.schedules import Moves, Schedule, Step
from spec.parameters import ParameterError


def direct(operation: str, ranks: int) -> Schedule:
    """Everyone sends everyone its share in one step (two for all-reduce): the mesh algorithm, and the switch's own."""
    source, target = np.divmod(np.arange(ranks * ranks), ranks)
    apart = source != target
    source, target = source[apart], target[apart]
    share = 1.0 if operation == "all_gather" else 1 / ranks
    moves = Moves(source, target, np.full(len(source), share))
    owner = np.arange(ranks)
    if operation == "all_to_all":  # slot source * ranks + target
        steps = [Step(moves, False, partial(_columns, source * ranks + target))]
        return Schedule(operation, "direct", ranks, tuple(steps), np.full(ranks**2, share), np.tile(owner, ranks))
    steps = []
    if operation != "all_gather":
        steps.append(Step(moves, True, partial(_columns, target)))
    if operation != "reduce_scatter":
        steps.append(Step(moves, False, partial(_columns, source)))
    return Schedule(operation, "direct", ranks, tuple(steps), np.full(ranks, share), owner)


def pairwise(ranks: int) -> Schedule:
    """All-to-all one distance after the other: in step ``k`` every rank sends its block to the ``k``-th after it."""
    source = np.arange(ranks)
    steps = []
    for distance in range(1, ranks):
        target = (source + distance) % ranks
        moves = Moves(source, target, np.full(ranks, 1 / ranks))
        steps.append(Step(moves, False, partial(_columns, source * ranks + target)))
    sizes, owner = np.full(ranks**2, 1 / ranks), np.tile(source, ranks)
    return Schedule("all_to_all", "pairwise", ranks, tuple(steps), sizes, owner)


def _columns(slots: Indices) -> list[Indices]:
    return list(slots[:, None])


def recursive(operation: str, ranks: int) -> Schedule:
    """Halving and doubling: ranks whose numbers differ in one bit, the lowest first, exchange half of what is left.

    Reduce-scatter halves, all-gather doubles back; on a torus the first and largest exchanges are between neighbours.
    """
    if ranks & (ranks - 1):
        raise ParameterError(f"recursive over {ranks} ranks: legal is a power of two")
    whole = ranks if operation == "all_gather" else 1
    everyone, bits = np.arange(ranks), range(ranks.bit_length() - 1)
    moves = [Moves(everyone, everyone ^ (1 << bit), np.full(ranks, whole / (2 << bit))) for bit in bits]
    steps: list[Step] = []
    if operation != "all_gather":
        steps += [Step(moves[bit], True, partial(_halves, ranks, bit, True)) for bit in bits]
    if operation != "reduce_scatter":
        steps += [Step(moves[bit], False, partial(_halves, ranks, bit, False)) for bit in reversed(bits)]
    return Schedule(operation, "recursive", ranks, tuple(steps), np.full(ranks, whole / ranks), everyone)


def _halves(ranks: int, bit: int, theirs: bool) -> list[Indices]:
    """Slots that agree with a rank in the bits below ``bit``, and in that bit with its partner or with itself."""
    rest = np.arange(ranks >> bit + 1) << bit + 1
    flip = 1 << bit if theirs else 0
    return [((rank ^ flip) & (2 << bit) - 1) + rest for rank in range(ranks)]


def bruck(operation: str, ranks: int) -> Schedule:
    """Doubling for any number of ranks: rank ``r`` passes the slots from ``r`` on to the rank ``2^k`` before it.

    Reduce-scatter is the same backwards: partial sums return the way the slots would have come.
    """
    whole = ranks if operation == "all_gather" else 1
    everyone = np.arange(ranks)
    distances = [1 << bit for bit in range((ranks - 1).bit_length())]
    steps: list[Step] = []
    for adds in (True, False):
        if operation == ("all_gather" if adds else "reduce_scatter"):
            continue
        for distance in reversed(distances) if adds else distances:
            count = min(distance, ranks - distance)
            ends = (everyone, (everyone - distance) % ranks)
            source, target = reversed(ends) if adds else ends
            moves = Moves(source, target, np.full(ranks, whole * count / ranks))
            steps.append(Step(moves, adds, partial(_following, ranks, count)))
    return Schedule(operation, "bruck", ranks, tuple(steps), np.full(ranks, whole / ranks), everyone)


def _following(ranks: int, count: int) -> list[Indices]:
    """The slots from each rank on, in the order of the transfers of :func:`bruck`: those of rank ``r`` are the r-th."""
    return [(rank + np.arange(count)) % ranks for rank in range(ranks)]


def tree(ranks: int) -> Schedule:
    """Broadcast from rank 0: ranks that have the data double each step."""
    steps = []
    have = 1
    while have < ranks:
        source = np.arange(min(have, ranks - have))
        moves = Moves(source, source + have, np.ones(len(source)))
        steps.append(Step(moves, False, partial(_columns, np.zeros(len(source), dtype=np.int64))))
        have *= 2
    return Schedule("broadcast", "tree", ranks, tuple(steps), np.ones(1), np.zeros(1, dtype=np.int64))


def scattered(gather: Schedule) -> Schedule:
    """Broadcast from rank 0 for large data: rank 0 sends every rank its slots, then an all-gather spreads them."""
    ranks, sizes = gather.ranks, gather.sizes / gather.ranks
    others = np.arange(1, ranks)
    slots = [np.flatnonzero(gather.owner == rank) for rank in range(ranks)]
    first = Moves(np.zeros(ranks - 1, dtype=np.int64), others, np.array([sizes[slots[rank]].sum() for rank in others]))
    scaled = {
        id(step.moves): Moves(step.moves.source, step.moves.target, step.moves.share / ranks) for step in gather.steps
    }
    steps = [Step(first, False, lambda: slots[1:])]
    steps += [Step(scaled[id(step.moves)], False, step.slots) for step in gather.steps]
    owner = np.zeros(len(sizes), dtype=np.int64)
    return Schedule("broadcast", f"scatter+{gather.algorithm}", ranks, tuple(steps), sizes, owner)


def permute(targets: Sequence[int]) -> Schedule:
    """Rank ``i`` sends all it has to ``targets[i]``; each target at most once, -1 sends nothing."""
    ranks = len(targets)
    source = np.array([rank for rank, target in enumerate(targets) if target >= 0], dtype=np.int64)
    target = np.array([target for target in targets if target >= 0], dtype=np.int64)
    if len(set(target.tolist())) < len(target) or any(target >= ranks):
        raise ParameterError(f"permute to {list(targets)}: legal is each rank below {ranks} at most once")
    moves = Moves(source, target, np.ones(len(source)))
    return Schedule(
        "permute", "direct", ranks, (Step(moves, False, partial(_columns, source)),), np.ones(ranks), np.arange(ranks)
    )
