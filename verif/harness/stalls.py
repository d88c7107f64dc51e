"""When a stream pauses: the same patterns for cocotb, for compiled models and for Amaranth's simulator."""

import dataclasses
import random
from collections.abc import Callable, Iterator

DRAWS = 1 << 32
MASK64 = (1 << 64) - 1


@dataclasses.dataclass(frozen=True)
class Stall:
    """A pause pattern. Either a ``probability`` per cycle, or an explicit ``mask`` (1 is a pause) that repeats.

    A source never withdraws an item it has offered: a pause only delays the next offer. A sink's pause lowers
    ``ready``.
    """

    probability: float = 0.0
    mask: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.probability < 1:
            raise ValueError(f"Stall.probability = {self.probability}: legal is 0 to less than 1")
        if self.mask is not None and not self.mask:
            raise ValueError("Stall.mask = (): legal is at least one cycle")

    def pattern(self, seed: int, stream: int) -> Iterator[bool]:
        """Endless decisions, one a cycle: bit for bit those of the compiled model's driver."""
        state, threshold, cycle = start_state(seed, stream), self.threshold, 0
        while True:
            if self.mask:
                yield bool(self.mask[cycle % len(self.mask)])
            elif not threshold:
                yield False
            else:
                state ^= state >> 12
                state = (state ^ state << 25) & MASK64
                state ^= state >> 27
                yield (state * 0x2545F4914F6CDD1D & MASK64) >> 32 < threshold
            cycle += 1

    @property
    def threshold(self) -> int:
        """The probability in units of 2^-32, as compiled models take it."""
        return min(DRAWS - 1, round(self.probability * DRAWS))


def start_state(seed: int, stream: int) -> int:
    """State of the random generator (xorshift64*) of a design's stream number ``stream``, for a run's ``seed``."""
    return (seed * 0x9E3779B97F4A7C15 + (stream + 1) * 0xBF58476D1CE4E5B9) & MASK64 or 1


NEVER = Stall()
"""Full speed: an item every cycle."""

ALWAYS = Stall(mask=(1,))
"""Nothing moves."""


def random_stall(probability: float) -> Stall:
    """A pause in each cycle with the given probability."""
    return Stall(probability)


def bursts(on: int, off: int) -> Stall:
    """``on`` cycles of activity, then ``off`` cycles of pause."""
    return Stall(mask=(0,) * on + (1,) * off)


def one_in(period: int) -> Stall:
    """A single cycle of activity in each ``period``: almost always paused."""
    return Stall(mask=(1,) * (period - 1) + (0,))


STALLS: dict[str, Stall] = {
    "never": NEVER,
    "rare": random_stall(0.1),
    "half": random_stall(0.5),
    "often": random_stall(0.9),
    "bursts": bursts(3, 5),
    "trickle": one_in(7),
}
"""Every kind of backpressure a bench should meet; parametrise over it."""

Chooser = Callable[[str], Stall]


def mixed(rng: random.Random) -> Chooser:
    """Assigns each stream a pattern of its own at random."""
    names = sorted(STALLS)
    return lambda _stream: STALLS[rng.choice(names)]
