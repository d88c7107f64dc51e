"""Networks as the time model sees them: directed links with a width and a latency, and how a transfer crosses them.

:class:`RoutedNetwork` takes links and routes from a topology of ``spec.topology``; :class:`PortNetwork` never blocks
inside (a switch, EFA): only each chip's own port can be full. Both answer the same two questions: which share of a
transfer lies on which link, and how long a byte travels.
"""

import dataclasses
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from spec.parameters import ParameterError
from spec.topology import Channel, Topology

Indices = NDArray[np.int64]
Reals = NDArray[np.float64]


@dataclasses.dataclass(frozen=True)
class Routes:
    """Links of a set of transfers, one row a (transfer, link): ``share`` of that transfer's bytes cross that link."""

    transfer: Indices
    link: Indices
    share: Reals
    latency: Reals
    """Seconds the first byte of each transfer travels; one a transfer, not a row."""


class Network(Protocol):
    """What collectives need to know."""

    @property
    def chips(self) -> int:
        """Chips, numbered from zero."""

    @property
    def widths(self) -> Reals:
        """Bytes a second of each directed link."""

    def routes(self, source: Indices, target: Indices) -> Routes:
        """How the transfers ``source[i]`` to ``target[i]`` cross the links; a transfer to itself crosses none."""


class PortNetwork:
    """Chips on a network that never blocks inside: link ``i`` leaves chip ``i``, link ``chips + i`` arrives there."""

    def __init__(self, chips: int, *, port_bytes: float, latency: float) -> None:
        self.chips = chips
        self.latency = latency
        self._port_bytes = port_bytes

    @property
    def widths(self) -> Reals:
        """Bytes a second of each port, each way."""
        return np.full(2 * self.chips, self._port_bytes)

    def routes(self, source: Indices, target: Indices) -> Routes:
        """Each transfer lies on the port it leaves by and on the port it arrives by."""
        moved = np.flatnonzero(source != target)
        transfer = np.concatenate([moved, moved])
        link = np.concatenate([source[moved], self.chips + target[moved]])
        return Routes(transfer, link, np.ones(len(link)), np.where(source != target, self.latency, 0.0))


class RoutedNetwork:
    """Links and routes of a topology. ``unit_bytes`` is the width of a link on which a flit takes one cycle.

    A transfer with several shortest first dimensions is split evenly where the routing function allows both ways round,
    as its packets are. ``hop_seconds`` is what one link and the router behind it add to a byte's travel.
    """

    def __init__(self, topology: Topology, *, unit_bytes: float, hop_seconds: float) -> None:
        self.topology = topology
        self.chips = topology.nodes
        self.hop_seconds = hop_seconds
        self.widths: Reals = np.array([unit_bytes / link.cycles for link in topology.links])
        self._pairs: dict[tuple[int, int], tuple[Indices, Reals, int]] = {}

    def _pair(self, source: int, target: int) -> tuple[Indices, Reals, int]:
        """Links, shares and longest hop count from one chip to another."""
        known = self._pairs.get((source, target))
        if known is None:
            known = self._pairs[source, target] = self._walk(source, target)
        return known

    def _walk(self, source: int, target: int) -> tuple[Indices, Reals, int]:
        links = self.topology.links
        shares: dict[int, float] = {}
        flow: dict[tuple[int, Channel | None], float] = {(source, None): 1.0}
        hops = 0
        while any(at != target for at, _ in flow):
            if hops > len(links):
                raise ParameterError(f"network: routing from chip {source} to chip {target} never arrives")
            hops += 1
            after: dict[tuple[int, Channel | None], float] = {}
            for (at, came), amount in flow.items():
                if at == target:
                    continue
                ways: dict[int, Channel] = {}
                for channel in self.topology.moves(at, came, target):
                    ways.setdefault(channel.link, channel)
                for link, channel in ways.items():
                    part = amount / len(ways)
                    shares[link] = shares.get(link, 0.0) + part
                    state = (links[link].target, channel)
                    after[state] = after.get(state, 0.0) + part
            flow = after
        return np.array(list(shares), dtype=np.int64), np.array(list(shares.values())), hops

    def routes(self, source: Indices, target: Indices) -> Routes:
        """Links of each transfer by the routing function of the topology."""
        pairs = [self._pair(int(a), int(b)) for a, b in zip(source, target, strict=True)]
        counts = [len(links) for links, _, _ in pairs]
        empty = np.zeros(0, dtype=np.int64)
        return Routes(
            np.repeat(np.arange(len(pairs)), counts),
            np.concatenate([links for links, _, _ in pairs] or [empty]),
            np.concatenate([shares for _, shares, _ in pairs] or [np.zeros(0)]),
            np.array([hops * self.hop_seconds for _, _, hops in pairs]),
        )
