"""What the torus bench must have met: every turn, every wrapping link, every kind of lane without a credit left."""

import itertools
from collections import defaultdict, deque

import numpy as np
from numpy.typing import NDArray

from golden.link.router import FIRST, ID_SHIFT
from spec.link import RouterConfig
from spec.topology import LOCAL, Kind, opposite
from verif.harness.coverage import CoverGroup

WAYS = ("local", "x_up", "x_down", "y_up", "y_down")
"""How a packet came to a router, or leaves it, by port: along which dimension and which way."""

TURNS = tuple(
    f"{came} {goes}"
    for came, goes in itertools.product(WAYS, WAYS)
    if "local" in (came, goes) or came[0] != goes[0] or (came == goes and came[0] == "x")
)
"""All but going back; straight on along y is left out, as its ring holds two chips in the quick configuration."""

COVER = CoverGroup(
    "link.router",
    {
        "turn": TURNS,
        "wrap": WAYS[1:],
        "kind": [kind.name.lower() for kind in Kind],
        "exhausted": ("link", "into the network", "out of the network"),
    },
)


def meet(config: RouterConfig, links: NDArray[np.int64], returns: NDArray[np.int64]) -> None:
    """Hit the bins that a trace of :func:`golden.link.router.run` shows; of tori of two dimensions only."""
    torus = config.torus
    if torus.dimensions != 2:
        return
    waiting: dict[tuple[int, int], deque[str]] = defaultdict(deque)
    kinds, turns, wraps = set(), set(), set()
    for cycle, node, port in np.argwhere((links >= 0) & (links & FIRST != 0)):
        data = int(links[cycle, node, port]) & ((1 << config.flit_bits) - 1)
        if port == config.ports:  # a chip offers a packet
            kinds.add(Kind(data & 3).name.lower())
            waiting[node, data].append("local")
            continue
        queue = waiting[node, data]
        if queue and (data & 3) != Kind.MULTICAST:
            # Equal headers are told apart by nothing; of several, no turn is claimed.
            came = queue.popleft()
            if not queue and f"{came} {WAYS[port]}" in TURNS:
                turns.add(f"{came} {WAYS[port]}")
        if port == LOCAL:
            continue
        other = torus.neighbour(int(node), int(port))
        assert other is not None
        if (data & 3) != Kind.MULTICAST:
            waiting[other, data].append(WAYS[port])
        dimension, down = divmod(int(port) - 1, 2)
        if torus.coordinates(int(node))[dimension] == (0 if down else torus.sizes[dimension] - 1):
            wraps.add(WAYS[port])
    for kind in kinds:
        COVER.hit(kind=kind)
    for turn in turns:
        COVER.hit(turn=turn)
    for wrap in wraps:
        COVER.hit(wrap=wrap)
    _credits(config, links, returns)


def _credits(config: RouterConfig, links: NDArray[np.int64], returns: NDArray[np.int64]) -> None:
    """A lane is exhausted when as many flits were sent on it as it holds, less the credits that came back."""
    torus = config.torus
    for node, port, lane in itertools.product(range(torus.nodes), range(config.ports + 1), range(config.lanes)):
        if port == config.ports:
            kind, back = "into the network", returns[:, node, LOCAL]
        elif port == LOCAL:
            kind, back = "out of the network", returns[:, node, config.ports]
        else:
            other = torus.neighbour(node, port)
            if other is None:
                continue
            kind, back = "link", returns[:, other, opposite(port)]
        sent = (links[:, node, port] >= 0) & (links[:, node, port] >> ID_SHIFT == lane)
        if (np.cumsum(sent) - np.cumsum(back >> lane & 1)).max() >= config.depth:
            COVER.hit(exhausted=kind)
