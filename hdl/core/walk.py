"""Access patterns: the offset of one element after the other."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal

from spec.isa import DIMENSIONS


class Walk:
    """Registers and next-state logic of a pattern in up to four dimensions, innermost first, part of its parent.

    ``offset`` is that of the current element; ``advance`` moves on, after the last to the first again, ``left`` says
    how many elements its row, the innermost dimension, still has. ``load`` takes a new pattern, whose first element is
    there in the next cycle.
    """

    def __init__(self, m: Module, name: str, offset: Any, step: Any, num: Any) -> None:
        self.m = m
        self.bases = [Signal(offset, name=f"{name}_base_{d}") for d in range(DIMENSIONS + 1)]
        self.indices = [Signal(num, name=f"{name}_index_{d}") for d in range(DIMENSIONS)]
        self.steps = [Signal(step, name=f"{name}_step_{d}") for d in range(DIMENSIONS)]
        self.nums = [Signal(num, name=f"{name}_num_{d}") for d in range(DIMENSIONS)]
        self.offset = self.bases[0]
        self.left = Signal(num, name=f"{name}_left")
        m.d.comb += self.left.eq(self.nums[0] - self.indices[0])

    def ends(self, count: Any = 1) -> Any:
        """Whether the next ``count`` elements, of one row, are the pattern's last."""
        outer = [index + 1 >= num for index, num in zip(self.indices[1:], self.nums[1:], strict=True)]
        return Cat(self.indices[0] + count >= self.nums[0], *outer).all()

    def load(self, first: Any, steps: Any, nums: Any) -> None:
        """In the current context, start a pattern; steps are in the unit of the offset."""
        for base in self.bases:
            self.m.d.sync += base.eq(first)
        for dimension in range(DIMENSIONS):
            self.m.d.sync += [
                self.steps[dimension].eq(steps[dimension]),
                self.nums[dimension].eq(nums[dimension]),
                self.indices[dimension].eq(0),
            ]

    def advance(self, count: Any = 1, distance: Any = None) -> None:
        """In the current context, move on by ``count`` elements of the row, ``distance`` in all, by default a step.

        Where the row ends, the lowest dimension that has one more moves.
        """
        m = self.m
        carry: Any = 1
        for dimension in range(DIMENSIONS):
            moved = count if dimension == 0 else 1
            ends = self.indices[dimension] + moved >= self.nums[dimension]
            moves = Signal()
            m.d.comb += moves.eq(carry & ~ends)
            with m.If(carry):
                m.d.sync += self.indices[dimension].eq(Mux(ends, 0, self.indices[dimension] + moved))
            with m.If(moves):
                way = self.steps[dimension] if dimension or distance is None else distance
                following = self.bases[dimension] + way
                for lower in range(dimension + 1):
                    m.d.sync += self.bases[lower].eq(following)
            carry = carry & ends
        with m.If(carry):
            for base in self.bases[:-1]:
                m.d.sync += base.eq(self.bases[-1])
