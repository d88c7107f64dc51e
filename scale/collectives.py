"""How long a collective takes on a network, and which algorithm is the fastest for a size.

A step of a schedule lasts as long as its busiest link (the bytes routed over it by its width), plus the travel of the
first byte, plus ``step_seconds`` to start it and to signal its end. Every group that does the same collective at the
same time is routed together, so groups that share links slow each other down. Nor does a step last less than its
busiest memory (a transfer is read at its source and written at its target, where adding reads once more) or the busiest
local port of a chip.

The time is then ``seconds + size * seconds_per_byte`` with both numbers counted from links: nothing is fitted.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from scale import exchanges, schedules
from scale.network import Indices, Network, Reals
from scale.schedules import OPERATIONS, Moves, Schedule
from spec.parameters import ParameterError

ALGORITHMS = ("ring", "two_ring", "bucket", "direct", "recursive", "bruck", "tree")

DIRECT_RANKS = 256
"""Ranks above which ``direct`` is not offered: its transfers, and the model's cost, grow with their square."""


@dataclasses.dataclass(frozen=True)
class Timing:
    """What surrounds a transfer: seconds to start and signal a step, and what a chip can move (0: endless)."""

    step_seconds: float = 0.0
    memory_bytes: float = 0.0
    """Bytes a second of its memory."""
    local_bytes: float = 0.0
    """Bytes a second it can feed into the network, and as many out of it: the local port of its router."""


@dataclasses.dataclass(frozen=True, eq=False)
class Plan:
    """A schedule on a network: its time is affine in the size."""

    schedule: Schedule
    seconds: float
    seconds_per_byte: float
    link_bytes: Reals
    """Bytes over each link for each byte of size."""

    def time(self, size: float) -> float:
        """Seconds for ``size`` bytes put in by each rank."""
        return self.seconds + self.seconds_per_byte * size


def plan(schedule: Schedule, network: Network, groups: Indices, timing: Timing) -> Plan:
    """Time of ``schedule`` when all ``groups`` (a row of chips each) run it at once."""
    if groups.shape[1] != schedule.ranks:
        raise ParameterError(f"{schedule.operation} over {schedule.ranks} ranks: a group has {groups.shape[1]}")
    known: dict[tuple[int, bool], tuple[float, float, Reals]] = {}
    seconds = per_byte = 0.0
    total = np.zeros(len(network.widths))
    for step in schedule.steps:
        key = (id(step.moves), step.adds)
        if key not in known:
            known[key] = _step(step.moves, step.adds, network, groups, timing)
        fixed, rate, loads = known[key]
        seconds += fixed
        per_byte += rate
        total += loads
    return Plan(schedule, seconds, per_byte, total)


def _step(moves: Moves, adds: bool, network: Network, groups: Indices, timing: Timing) -> tuple[float, float, Reals]:
    """``(fixed seconds, seconds a byte of size, bytes a link and byte of size)`` of one step."""
    source, target = groups[:, moves.source].ravel(), groups[:, moves.target].ravel()
    share = np.tile(moves.share, len(groups))
    routes = network.routes(source, target)
    loads = _sums(routes.link, share[routes.transfer] * routes.share, len(network.widths))
    rate = float((loads / network.widths).max(initial=0.0))
    sent, received = _sums(source, share, network.chips), _sums(target, share, network.chips)
    if timing.memory_bytes:
        rate = max(rate, float((sent + (2 if adds else 1) * received).max()) / timing.memory_bytes)
    if timing.local_bytes:
        rate = max(rate, float(max(sent.max(), received.max())) / timing.local_bytes)
    return timing.step_seconds + float(routes.latency.max(initial=0.0)), rate, loads


def _sums(index: Indices, amount: Reals, count: int) -> Reals:
    """Sum of the amounts of each index."""
    return np.bincount(index, amount, minlength=count).astype(np.float64)


def candidates(
    operation: str, shape: Sequence[int], widths: Sequence[float], only: str | None = None
) -> Iterable[Schedule]:
    """Every schedule that can do ``operation`` over ranks in a grid of ``shape`` with dimensions of ``widths``.

    ``only`` restricts to one algorithm; where that one cannot, it is refused with its reason.
    """
    if operation not in OPERATIONS or operation == "permute":
        legal = ", ".join(name for name in OPERATIONS if name != "permute")
        raise ParameterError(f"collective {operation!r}: legal is one of {legal}")
    if only is not None and only not in ALGORITHMS:
        raise ParameterError(f"algorithm {only!r}: legal is one of {', '.join(ALGORITHMS)}")
    shape = tuple(shape)
    ranks = int(np.prod(shape))
    if operation == "all_to_all":
        if only not in (None, "direct"):
            raise ParameterError(f"all_to_all by {only}: legal is direct")
        yield exchanges.direct(operation, ranks)
        return
    inner = "all_gather" if operation == "broadcast" else operation
    makers: dict[str, Callable[[], Schedule]] = {
        "ring": lambda: schedules.rings(inner, [schedules.hamiltonian(shape)]),
        "two_ring": lambda: schedules.two_ring(inner, shape),
        "bucket": lambda: schedules.bucket(inner, shape, widths),
        "direct": lambda: exchanges.direct(inner, ranks),
        "recursive": lambda: exchanges.recursive(inner, ranks),
        "bruck": lambda: exchanges.bruck(inner, ranks),
    }
    if ranks > DIRECT_RANKS and only is None:
        del makers["direct"]
    if operation == "broadcast" and only in (None, "tree"):
        yield exchanges.tree(ranks)
    elif only == "tree":
        raise ParameterError(f"{operation} by tree: legal is broadcast only")
    for name, maker in makers.items():
        if only not in (None, name):
            continue
        try:
            schedule = maker()
        except ParameterError:
            if only is not None:
                raise
            continue
        yield exchanges.scattered(schedule) if operation == "broadcast" else schedule


class Collectives:
    """Collectives of groups of chips that lie in a grid; plans are made once and kept.

    ``shape`` is the grid of one group's ranks, first dimension fastest, ``widths`` the relative widths of its
    dimensions.
    """

    def __init__(
        self, network: Network, groups: Indices, shape: Sequence[int], widths: Sequence[float], timing: Timing
    ) -> None:
        self.network, self.groups, self.timing = network, groups, timing
        self.shape, self.widths = tuple(shape), tuple(widths)
        self.ranks = groups.shape[1]
        if int(np.prod(self.shape)) != self.ranks or len(self.shape) != len(self.widths):
            raise ParameterError(f"a grid of {self.shape} with widths {self.widths}: a group has {self.ranks} ranks")
        self._plans: dict[tuple[str, str | None], list[Plan]] = {}

    def plans(self, operation: str, algorithm: str | None = None) -> list[Plan]:
        """Each algorithm's plan."""
        key = (operation, algorithm)
        if key not in self._plans:
            found = candidates(operation, self.shape, self.widths, algorithm)
            self._plans[key] = [plan(schedule, self.network, self.groups, self.timing) for schedule in found]
        return self._plans[key]

    def best(self, operation: str, size: float, algorithm: str | None = None) -> Plan:
        """The plan that is fastest for ``size`` bytes."""
        return min(self.plans(operation, algorithm), key=lambda one: one.time(size))


def execute(schedule: Schedule, values: np.ndarray) -> np.ndarray:
    """Run a schedule on numbers: ``values[rank, slot, ...]`` before, and after. Sums are in the dtype of ``values``."""
    state = values.copy()
    for step in schedule.steps:
        before = state.copy()
        moves = step.moves
        for source, target, slots in zip(moves.source, moves.target, step.slots(), strict=True):
            arriving = before[source, slots]
            state[target, slots] = arriving + state[target, slots] if step.adds else arriving
    return state
