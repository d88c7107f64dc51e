"""Collectives between the programs of a system: DMA into each other's memories, signals, sums in the receiver's DMA.

The order of sums is that of the ring, so results are the same in every bit: chunk ``c`` of position ``c`` grows to
``x[c] + x[c + 1] + ...`` around the ring, each sum rounded once. Nothing is waited for but what a step needs, so chunks
follow each other around the ring.
"""

from collections.abc import Callable, Sequence

from sdk.program import Program
from sdk.tensors import View
from spec.parameters import lookup, refuse

REDUCED, GATHERED, EXCHANGED = range(3)
"""Signals: chunks that came to be added, final chunks that came, blocks of an exchange that came."""


class Ring:
    """``programs`` in the order of a ring; ``cores`` are their numbers in the system.

    Each program holds a tensor ``name`` whose rows are divided by the number of positions; ``<name>.inbox`` is added,
    of the same size. A ring carries one collective a program: its signals count from the program's start.
    """

    def __init__(self, programs: Sequence[Program], cores: Sequence[int], name: str) -> None:
        self.programs, self.cores, self.name = list(programs), list(cores), name
        self.count = len(self.programs)
        if self.count < 2 or len(set(self.cores)) != self.count or len(self.cores) != self.count:
            raise refuse("Ring", "cores", self.cores, "a different core for each of at least two programs")
        views = [lookup("tensor", program.tensors, name) for program in self.programs]
        if len({(view.shape, view.format) for view in views}) > 1:
            raise refuse("Ring", name, [view.shape for view in views], "one shape and format")
        rows = views[0].shape[0]
        if rows % self.count:
            raise refuse("Ring", f"{name}.rows", rows, f"a multiple of {self.count} positions")
        self.rows = rows // self.count
        self.boxes = [
            p.hbm(f"{name}.inbox", view.shape, view.format) for p, view in zip(self.programs, views, strict=True)
        ]

    def run(self, operation: str) -> None:
        """``all_reduce``, ``reduce_scatter``, ``all_gather`` or ``all_to_all``.

        Position r starts an all-gather with its chunk r; an all-to-all leaves block r of everyone in the inbox there.
        """
        parts: dict[str, tuple[Callable[[int], None], ...]] = {
            "reduce_scatter": (self._reduce_scatter,),
            "all_gather": (self._all_gather,),
            "all_reduce": (self._reduce_scatter, lambda r: self._all_gather(r, own=1)),
            "all_to_all": (self._all_to_all,),
        }
        for part in lookup("collective", parts, operation):
            for position in range(self.count):
                part(position)

    def owned(self, position: int) -> int:
        """The chunk that is complete at a position after a reduce-scatter."""
        return (position + 1) % self.count

    def _chunk(self, position: int, chunk: int) -> View:
        view = self.programs[position % self.count].tensors[self.name]
        return view[chunk % self.count * self.rows :][: self.rows]

    def _box(self, position: int, slot: int) -> View:
        return self.boxes[position % self.count][slot * self.rows :][: self.rows]

    def _send(self, position: int, target: int, signal: int, into: View, what: View) -> None:
        program = self.programs[position]
        program.dma(into, what, queue=0)
        program.notify(self.cores[target % self.count], signal, into)

    def _reduce_scatter(self, r: int) -> None:
        """Chunks go once around and grow."""
        program = self.programs[r]
        for step in range(self.count - 1):
            self._send(r, r + 1, REDUCED, self._box(r + 1, step), self._chunk(r, r - step))
            program.expect(REDUCED, step + 1, self._box(r, step))
            program.dma(self._chunk(r, r - step - 1), self._box(r, step), accumulate=True, queue=0)

    def _all_gather(self, r: int, own: int = 0) -> None:
        """Chunks go once around as they are; position r starts with chunk r + own."""
        for step in range(self.count - 1):
            place = r + own - step
            self._send(r, r + 1, GATHERED, self._chunk(r + 1, place), self._chunk(r, place))
            self.programs[r].expect(GATHERED, step + 1, self._chunk(r, place - 1))

    def _all_to_all(self, r: int) -> None:
        """Block j goes to slot r of position j; an own block is copied."""
        for step in range(1, self.count + 1):
            self._send(r, r + step, EXCHANGED, self._box(r + step, r), self._chunk(r, r + step))
        self.programs[r].expect(EXCHANGED, self.count, self.boxes[r])
