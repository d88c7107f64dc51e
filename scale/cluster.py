"""UltraClusters: collectives over thousands of servers on the non-blocking EFA network.

A collective over all chips is made of three: reduce-scatter inside each server, all-reduce between the chips at the
same place of all servers (each chip through its own share of EFA), all-gather inside. The network is taken as the
public record describes it, non-blocking: only the ports are counted.
"""

import dataclasses
from collections.abc import Iterable

import numpy as np

from scale.collectives import Collectives
from scale.fabric import Fabric
from scale.network import Indices, PortNetwork

CURVE = (1, 2, 4, 16, 64, 256, 1024, 1562)
"""Servers of the scaling curve; with 64 chips each, the last is the most that stay below 100,000 chips."""


@dataclasses.dataclass(frozen=True)
class ClusterTime:
    """An all-reduce over a cluster; seconds of its three parts, and how the servers exchanged."""

    servers: int
    chips: int
    scatter: float
    between: float
    gather: float
    algorithm: str

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.scatter + self.between + self.gather


class Cluster:
    """Servers of one machine on EFA. ``every_port`` models each port of each chip instead of one place of each server.

    Both give the same time, because the network does not block and all places do the same; the first shows what the
    model itself costs at that size.
    """

    def __init__(self, fabric: Fabric, *, every_port: bool = False) -> None:
        self.fabric, self.every_port = fabric, every_port
        self.inside = fabric.collectives(np.arange(fabric.chips)[None])

    def between(self, servers: int) -> Collectives:
        """Collectives between servers."""
        if not self.every_port:
            return self.fabric.between(servers)
        chips = self.fabric.chips * servers
        latency = self.fabric.values["efa_us"].value * 1e-6
        network = PortNetwork(chips, port_bytes=self.fabric.efa_rate, latency=latency)
        groups: Indices = np.arange(chips).reshape(servers, self.fabric.chips).T
        return Collectives(network, groups, (servers,), (1.0,), self.fabric.efa_timing)

    def all_reduce(self, servers: int, size: float) -> ClusterTime:
        """An all-reduce of ``size`` bytes of each chip."""
        chips = self.fabric.chips
        share = size / chips
        scatter = self.inside.best("reduce_scatter", size).time(size)
        gather = self.inside.best("all_gather", share).time(share)
        if servers == 1:
            return ClusterTime(1, chips, scatter, 0.0, gather, "")
        best = self.between(servers).best("all_reduce", share)
        return ClusterTime(
            servers, servers * chips, scatter, best.time(share), gather, best.schedule.algorithm
        )  # fmt: skip

    def curve(self, size: float, servers: Iterable[int] = CURVE) -> list[ClusterTime]:
        """The same all-reduce on more and more servers."""
        return [self.all_reduce(count, size) for count in servers]
