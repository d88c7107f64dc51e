"""The random bits of stochastic rounding."""

import numpy as np
from numpy.typing import NDArray

STOCHASTIC_BITS = 24
"""Random bits added below the last kept place: the 22 that an fp32 number can lose to a normal number of any format,
and two more. They are the top bits of a 32-bit word."""


class Xorshift32:
    """Marsaglia's xorshift32, one independent state per lane.

    ``state`` is a uint32 array, visible and settable; zero is not a legal state. A step is ``x ^= x << 13``,
    ``x ^= x >> 17``, ``x ^= x << 5``; its result is the new state. The period is 2**32 - 1.
    """

    def __init__(self, state: NDArray[np.uint32]) -> None:
        self.state = np.atleast_1d(np.array(state, np.uint32))
        if np.any(self.state == 0):
            raise ValueError("Xorshift32.state = 0: legal is 1 to 4294967295")

    def next(self) -> NDArray[np.uint32]:
        """Advance every lane by one step and return the new states."""
        x = self.state
        x = x ^ (x << np.uint32(13))
        x = x ^ (x >> np.uint32(17))
        self.state = x ^ (x << np.uint32(5))
        return self.state.copy()

    def stream(self, steps: int) -> NDArray[np.uint32]:
        """``[steps, lanes]``: the results of the next steps."""
        return np.stack([self.next() for _ in range(steps)]) if steps else np.empty((0, len(self.state)), np.uint32)
