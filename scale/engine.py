"""A discrete-event model: operations, the resources they hold, and what they wait for.

An operation starts when everything it comes ``after`` has finished and every resource it holds is free; it holds them
for its ``seconds``. It may also ``meet`` operations it streams from: it starts without them and does not finish before
them. Operations that want a resource take it in the order of their priority, then of the time they became ready, then
of their number, and nothing is taken away once given. That order is total, so two runs are equal to the last bit, and
two operations cannot each hold what the other one wants.

>>> model = Model()
>>> load = model.add("load", ["hbm"], 2.0)
>>> work = model.add("work", ["array"], 3.0, after=[load])
>>> model.run().seconds
5.0
"""

import dataclasses
import heapq
from collections.abc import Iterable, Mapping, Sequence

from spec.parameters import ParameterError


@dataclasses.dataclass(frozen=True)
class Timeline:
    """What happened: when each operation started and finished, in seconds, by its number."""

    names: Sequence[str]
    resources: Sequence[str]
    held: Sequence[tuple[int, ...]]
    """Resources each operation held, by their position in ``resources``."""
    starts: Sequence[float]
    finishes: Sequence[float]

    @property
    def seconds(self) -> float:
        """When the last operation finished."""
        return max(self.finishes, default=0.0)

    def busy(self) -> Mapping[str, float]:
        """Seconds each resource was held."""
        total = [0.0] * len(self.resources)
        for held, start, finish in zip(self.held, self.starts, self.finishes, strict=True):
            for resource in held:
                total[resource] += finish - start
        return dict(zip(self.resources, total, strict=True))


class Model:
    """Operations and resources; :meth:`run` gives the time line. Resources come into being when first named."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._resources: dict[str, int] = {}
        self._held: list[tuple[int, ...]] = []
        self._seconds: list[float] = []
        self._priorities: list[int] = []
        self._after: list[list[int]] = []  # operations that wait for this one to finish before they start
        self._meets: list[list[int]] = []  # operations that cannot finish before this one
        self._waits: list[int] = []  # how many an operation still waits for before it starts
        self._streams: list[int] = []  # how many it still streams from

    def __len__(self) -> int:
        return len(self._names)

    def add(
        self,
        name: str,
        resources: Iterable[str],
        seconds: float,
        after: Iterable[int] = (),
        *,
        meets: Iterable[int] = (),
        priority: int = 0,
    ) -> int:
        """Add an operation and return its number; lower ``priority`` is served first. Negative times are refused."""
        if not seconds >= 0.0:
            raise ParameterError(f"operation {name!r} takes {seconds!r} s: legal is at least 0")
        number = len(self._names)
        self._names.append(name)
        self._seconds.append(seconds)
        self._priorities.append(priority)
        table = self._resources
        self._held.append(tuple([table.setdefault(resource, len(table)) for resource in resources]))
        self._after.append([])
        self._meets.append([])
        count = 0
        for other in after:
            self._after[other].append(number)
            count += 1
        self._waits.append(count)
        count = 0
        for other in meets:
            self._meets[other].append(number)
            count += 1
        self._streams.append(count)
        return number

    def run(self) -> Timeline:
        """Serve every operation. A circle of dependencies is refused with the name of an operation in it."""
        waits, streams = self._waits.copy(), self._streams.copy()
        queues: list[list[tuple[int, float, int]]] = [[] for _ in self._resources]
        free = [True] * len(self._resources)
        starts, finishes = [-1.0] * len(self), [-1.0] * len(self)
        due = [-1.0] * len(self)  # when an operation that runs has used up its own time
        events: list[tuple[float, int]] = []

        def ready(number: int, now: float) -> None:
            """Queue an operation at each resource it holds."""
            key = (self._priorities[number], now, number)
            for resource in self._held[number]:
                heapq.heappush(queues[resource], key)
            touched.update(self._held[number])
            if not self._held[number]:
                start(number, now)

        def start(number: int, now: float) -> None:
            starts[number] = now
            due[number] = now + self._seconds[number]
            if not streams[number]:
                heapq.heappush(events, (due[number], number))

        def serve(now: float) -> None:
            """Start each operation that heads the queue of every resource it holds, all of them free."""
            while touched:
                queue = queues[touched.pop()]
                if not queue:
                    continue
                number = queue[0][2]
                held = self._held[number]
                if all(free[resource] and queues[resource][0][2] == number for resource in held):
                    for resource in held:
                        free[resource] = False
                        heapq.heappop(queues[resource])
                    touched.update(held)
                    start(number, now)

        touched: set[int] = set()
        for number in range(len(self)):
            if not waits[number]:
                ready(number, 0.0)
        serve(0.0)
        while events:
            now = events[0][0]
            while events and events[0][0] == now:
                _, number = heapq.heappop(events)
                finishes[number] = now
                for resource in self._held[number]:
                    free[resource] = True
                    touched.add(resource)
                for other in self._meets[number]:
                    streams[other] -= 1
                    if not streams[other] and due[other] >= 0.0:
                        heapq.heappush(events, (max(now, due[other]), other))
                for other in self._after[number]:
                    waits[other] -= 1
                    if not waits[other]:
                        ready(other, now)
            serve(now)
        for number, finish in enumerate(finishes):
            if finish < 0.0:
                raise ParameterError(f"operation {self._names[number]!r} never finishes: it waits for itself")
        return Timeline(self._names, list(self._resources), self._held, starts, finishes)
