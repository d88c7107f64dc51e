"""Traffic for networks: packets as arrays, and the patterns that networks are compared by."""

import dataclasses
from typing import Self

import numpy as np
from numpy.typing import NDArray

from spec.topology import Kind, Torus

PATTERNS = ("uniform", "tornado", "transpose", "bitcomp", "neighbor", "hotspot25", "hotspot100")


@dataclasses.dataclass(frozen=True)
class Traffic:
    """Packets in the order (source, message class, time created); one entry of each array a packet.

    ``target`` of a multicast packet has bit d set when dimension d is spanned.
    """

    created: NDArray[np.int64]
    source: NDArray[np.int64]
    target: NDArray[np.int64]
    kind: NDArray[np.int64]
    flits: NDArray[np.int64]
    group: NDArray[np.int64]
    tag: NDArray[np.int64]

    @classmethod
    def of(cls, created, source, target, kind=Kind.FREE, flits=1, group=0, tag=0) -> Self:  # type: ignore[no-untyped-def]
        """Sort and widen: each argument is an array or one value for all packets."""
        arrays = np.broadcast_arrays(
            *(np.asarray(a, np.int64) for a in (created, source, target, kind, flits, group, tag))
        )
        order = np.lexsort((arrays[0], arrays[5], arrays[1]))
        return cls(*(np.ascontiguousarray(array[order]) for array in arrays))

    def starts(self, nodes: int, classes: int) -> NDArray[np.int64]:
        """Index of the first packet of each queue ``node * classes + class``, and the end."""
        return np.searchsorted(self.source * classes + self.group, np.arange(nodes * classes + 1))


def destination(torus: Torus, pattern: str) -> NDArray[np.int64]:
    """Where each chip sends under a permutation pattern, numbered as BookSim 2 does.

    ``transpose`` swaps the upper and lower half of the chip number's bits; ``tornado`` shifts by ``ceil(k / 2) - 1``,
    ``neighbor`` by one, in every dimension; ``bitcomp`` mirrors every coordinate.
    """
    targets = []
    for node in range(torus.nodes):
        position = torus.coordinates(node)
        if pattern == "transpose":
            half = (torus.nodes - 1).bit_length() // 2
            if torus.nodes != 1 << 2 * half:
                raise ValueError(f"transpose needs a number of chips that is a power of four, not {torus.nodes}")
            targets.append(node >> half | (node & ((1 << half) - 1)) << half)
        elif pattern == "tornado":
            targets.append(torus.node(c + -(-k // 2) - 1 for c, k in zip(position, torus.sizes, strict=True)))
        elif pattern == "neighbor":
            targets.append(torus.node(c + 1 for c in position))
        elif pattern == "bitcomp":
            targets.append(torus.node(k - 1 - c for c, k in zip(position, torus.sizes, strict=True)))
        else:
            raise ValueError(f"no permutation pattern {pattern!r}")
    return np.array(targets, np.int64)


def transfers(
    torus: Torus, pattern: str, packets: int, *, flits: int = 8, kind: Kind = Kind.FREE, seed: int = 1
) -> Traffic:
    """A set of transfers: each chip has ``packets`` packets to send, all of them at once."""
    random = np.random.default_rng(seed)
    source = np.repeat(np.arange(torus.nodes), packets)
    return Traffic.of(0, source, _targets(torus, pattern, source, random), kind, flits)


def _targets(torus: Torus, pattern: str, source: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    if pattern == "uniform":
        return random.integers(0, torus.nodes, source.size)
    if pattern.startswith("hotspot"):
        hot = random.random(source.size) < int(pattern.removeprefix("hotspot")) / 100
        return np.where(hot, 0, random.integers(0, torus.nodes, source.size))
    return destination(torus, pattern)[source]


def bernoulli(
    torus: Torus, pattern: str, load: float, cycles: int, *, flits: int = 1, kind: Kind = Kind.FREE, seed: int = 1
) -> Traffic:
    """Each chip creates a packet with probability ``load / flits`` in each cycle."""
    random = np.random.default_rng(seed)
    created, source = np.nonzero(random.random((cycles, torus.nodes)) < load / flits)
    return Traffic.of(created, source, _targets(torus, pattern, source, random), kind, flits)
