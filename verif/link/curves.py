"""Load-latency curves of the torus, measured as the peers' were: Bernoulli packets, latency from creation to last flit.

A chip has one port of one flit a cycle each way. Two bounds follow that no network passes: the load at which a link
or an ejection port is always busy, and the wait in the source queue, ``load (flits - 1) / (2 (1 - load))`` cycles for
packets of ``flits`` flits (Geo/D/1), which is part of every latency.
"""

import csv
import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from golden.link.router import run
from golden.link.traffic import bernoulli, destination
from spec.link import RouterConfig
from spec.topology import Kind, Torus

PEERS = Path(__file__).with_name("peers.csv")
"""BookSim 2 (commit 28f43299): dim_order on a k = 4 torus, iSLIP allocators, 4-stage router, link of 2 cycles."""

STABLE = 500
"""Mean latency above which the peer's runs count as unstable, in cycles."""


@dataclasses.dataclass(frozen=True)
class Peer:
    """One row of the reference: a configuration and what was measured there."""

    dimensions: int
    channels: int
    flits: int
    depth: int
    pattern: str
    zero_load: float
    saturation: float
    accepted: float

    @property
    def name(self) -> str:
        """The row as figures are named."""
        shape = "x".join(["4"] * self.dimensions)
        return f"{shape} {self.pattern}, {self.channels} channels, {self.flits}-flit packets"

    def config(self, escape_channels: int | None = None) -> RouterConfig:
        """Our router with the peer's channels and buffers; flits as narrow as a header allows."""
        return RouterConfig(
            torus=Torus(sizes=(4,) * self.dimensions),
            flit_bits=24,
            channels=self.channels,
            escape_channels=escape_channels or self.channels,
            depth=self.depth,
            max_flits=8,
        )


@dataclasses.dataclass(frozen=True)
class Point:
    """One run: mean latency of the packets created after warm-up [cycles], accepted load [flits/chip/cycle]."""

    load: float
    latency: float
    accepted: float


def peers() -> list[Peer]:
    """Every row of the reference."""
    with PEERS.open() as file:
        rows = list(csv.DictReader(file))
    return [
        Peer(
            int(row["dimensions"]),
            int(row["vcs"]),
            int(row["packet_flits"]),
            int(row["buffer_flits"]),
            row["pattern"],
            float(row["zero_load_latency"]),
            float(row["saturation_3x"]),
            float(row["accepted_at_1.0"]),
        )
        for row in rows
    ]


def point(
    config: RouterConfig,
    pattern: str,
    load: float,
    flits: int,
    *,
    kind: Kind = Kind.FREE,
    cycles: int = 10_000,
    seed: int = 1,
) -> Point:
    """Run ``cycles`` cycles, a fifth of it warm-up. Packets still under way at the end count with their age."""
    warm = cycles // 5
    traffic = bernoulli(config.torus, pattern, load, cycles, flits=flits, kind=kind, seed=seed)
    delivered = run(config, traffic, cycles)["delivered"]
    arrival = np.where(delivered < 0, cycles, delivered)
    measured = traffic.created >= warm
    within = (delivered >= warm) & (delivered < cycles)
    accepted = traffic.flits[within].sum() / (cycles - warm) / config.torus.nodes
    latency = (arrival - traffic.created)[measured].mean() if measured.any() else 0.0
    return Point(load, float(latency), float(accepted))


def saturation(measure: Callable[[float], Point], threshold: float, *, high: float = 1.0, steps: int = 8) -> float:
    """Highest load, within ``high / 2**steps``, at which the mean latency stays below ``threshold``."""
    if measure(high).latency < threshold:
        return high
    low = 0.0
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if measure(middle).latency < threshold else (low, middle)
    return low


def shares(torus: Torus, pattern: str) -> Callable[[int], Mapping[int, float]]:
    """Where each chip sends, as shares of its load."""
    everybody = dict.fromkeys(range(torus.nodes), 1 / torus.nodes)
    if pattern == "uniform":
        return lambda source: everybody
    if pattern.startswith("hotspot"):
        hot = int(pattern.removeprefix("hotspot")) / 100
        mixed = {node: (1 - hot) * share + hot * (node == 0) for node, share in everybody.items()}
        return lambda source: mixed
    targets = destination(torus, pattern)
    return lambda source: {int(targets[source]): 1.0}


def port_bound(torus: Torus, pattern: str) -> float:
    """Load at which the busiest ejection port is always busy, at most 1: no routing gets past it."""
    pick = shares(torus, pattern)
    ejected = [sum(pick(source).get(node, 0.0) for source in range(torus.nodes)) for node in range(torus.nodes)]
    return min(1.0, 1 / max(ejected))


def bound(torus: Torus, pattern: str) -> float:
    """Load at which the busiest link is always busy under dimension order with ties split evenly, or a port is."""
    return min(port_bound(torus, pattern), 1 / max(torus.channel_loads(shares(torus, pattern))))
