"""The random bits of stochastic rounding."""

import numpy as np
from numpy.typing import NDArray


class Xorshift32:
    """Marsaglia's xorshift32, one independent state per lane.

    ``state`` is a uint32 array, visible and settable; zero is not a legal state. The word drawn is the state, which
    then steps: ``x ^= x << 13``, ``x ^= x >> 17``, ``x ^= x << 5``. The period is 2**32 - 1.
    """

    def __init__(self, state: NDArray[np.uint32]) -> None:
        self.state = np.atleast_1d(np.array(state, np.uint32))
        if np.any(self.state == 0):
            raise ValueError("Xorshift32.state = 0: legal is 1 to 4294967295")

    def next(self) -> NDArray[np.uint32]:
        """The next word of every lane."""
        drawn = self.state
        x = drawn ^ (drawn << np.uint32(13))
        x = x ^ (x >> np.uint32(17))
        self.state = x ^ (x << np.uint32(5))
        return drawn

    def stream(self, steps: int) -> NDArray[np.uint32]:
        """``[steps, lanes]``: the next words of every lane."""
        return np.stack([self.next() for _ in range(steps)]) if steps else np.empty((0, len(self.state)), np.uint32)
