"""Bench of the torus: every flit on every link in every cycle as the cycle-exact model says."""

import numpy as np

from golden.link.traffic import Traffic
from hdl.link.fabric import Fabric
from hdl.link.guard import Guard
from spec.link import RouterConfig
from spec.topology import Kind, Torus
from verif.harness.bench import Bench, Trial
from verif.link import guard
from verif.link.cover import COVER, meet
from verif.link.replay import Replay, replay

UNICAST = (Kind.ORDERED, Kind.FREE, Kind.ADAPTIVE)


def random_traffic(
    config: RouterConfig, kinds: tuple[Kind, ...], load: float, cycles: int, rng: np.random.Generator
) -> Traffic:
    """Packets of every length to every chip, in every message class; about ``load`` flits a chip and cycle."""
    nodes = config.torus.nodes
    count = int(load * cycles * nodes / ((1 + config.max_flits) / 2))
    kind = rng.choice([int(kind) for kind in kinds], count)
    target = rng.integers(0, nodes, count)
    target = np.where(kind == Kind.MULTICAST, rng.integers(0, 1 << config.torus.dimensions, count), target)
    return Traffic.of(
        rng.integers(0, cycles, count),
        rng.integers(0, nodes, count),
        target,
        kind,
        rng.integers(1, config.max_flits + 1, count),
        rng.integers(0, config.classes, count),
        rng.integers(0, 1 << config.tag_bits, count),
    )


def all_pairs(config: RouterConfig, kind: Kind) -> Traffic:
    """One packet from each chip to each chip, one after the other at every source."""
    nodes = config.torus.nodes
    source, target = (axis.ravel() for axis in np.indices((nodes, nodes)))
    return Traffic.of(target * 3, source, target, kind, 1 + (source + target) % config.max_flits)


def in_order(traffic: Traffic, delivered: np.ndarray) -> bool:
    """Whether ordered packets from one chip to one chip in one message class arrived in the order they were made."""
    flows: dict[tuple[int, int, int], int] = {}
    for source, target, group, kind, arrival in zip(
        traffic.source, traffic.target, traffic.group, traffic.kind, delivered, strict=True
    ):
        if kind == Kind.ORDERED:
            flow = (int(source), int(target), int(group))
            if arrival <= flows.get(flow, -1):
                return False
            flows[flow] = int(arrival)
    return True


def check(trial: Trial) -> None:
    """Each kind alone and all together, light load and far beyond saturation; all pairs; reset; bad packets."""
    config: RouterConfig = trial.config
    model = trial.model(hierarchy=(trial.block.nodes[0].module_name,))
    cycles = 4000 if trial.long else 800
    found: list[Replay] = []

    def compare(traffic: Traffic, drain: int = 0, fresh: bool = True) -> Replay:
        result = replay(model, config, traffic, cycles + drain, fresh=fresh)
        found.append(result)
        assert not result.mismatches, f"{result.mismatches} wires differ, first: {result.first}"
        meet(config, result.links, result.returns)
        return result

    sets: dict[str, tuple[Kind, ...]] = {kind.name.lower(): (kind,) for kind in UNICAST} | {
        "unicast of all kinds": UNICAST
    }
    if config.multicast:
        sets |= {"multicast": (Kind.MULTICAST,), "everything": tuple(Kind)}
    for name, kinds in sets.items():
        for load in (0.1, 1.5):
            with trial.test(f"{name}, load {load}"):
                traffic = random_traffic(config, kinds, load, cycles, trial.rng)
                drain = cycles * (8 if load > 1 else 1)
                result = compare(traffic, drain)
                assert (result.delivered >= 0).all(), f"{(result.delivered < 0).sum()} packets never arrived"
                assert in_order(traffic, result.delivered), "ordered packets overtook each other"
    for kind in UNICAST:
        with trial.test(f"every chip to every chip, {kind.name.lower()}"):
            assert (compare(all_pairs(config, kind), cycles).delivered >= 0).all()
    with trial.test("reset with packets under way leaves nothing behind"):
        traffic = random_traffic(config, UNICAST, 1.0, cycles, trial.rng)
        assert (replay(model, config, traffic, cycles // 2, reset_after=True).delivered < 0).any()
        compare(all_pairs(config, Kind.FREE), cycles, fresh=False)
    with trial.test("guard: good and bad packets and random bits, every wire as golden"):
        wrong = guard.compare(trial.model(Guard(config)), config, guard.noise(config, 2 * cycles, trial.rng), trial.rng)
        assert not wrong, f"{wrong} cycles differ"
    with trial.test("bad packets among good ones: answered, broken off, and every credit comes home"):
        guard.storm(model, config, cycles // 2, trial.rng)
    trial.row.figures["flits that arrived"] = sum(result.flits for result in found)


SMALL = RouterConfig(
    torus=Torus(sizes=(5, 2), cycles=(1, 2)), flit_bits=20, channels=3, escape_channels=2, depth=5, max_flits=5
)
"""Odd sizes, one dimension of half the width, adaptive lanes; also what planted faults are tried on."""

BENCH = Bench(
    "link.router",
    block=Fabric,
    quick=(SMALL,),
    long=(
        RouterConfig(
            torus=Torus(sizes=(4,)), flit_bits=16, classes=2, channels=2, escape_channels=2, max_flits=4, depth=4
        ),
        RouterConfig(torus=Torus(sizes=(4, 4)), flit_bits=24),
        RouterConfig(torus=Torus(sizes=(4, 4)), flit_bits=24, channels=4, escape_channels=2, max_flits=20),
        RouterConfig(
            torus=Torus(sizes=(3, 3), wraps=(False, False)),
            flit_bits=24,
            channels=2,
            escape_channels=1,
            depth=3,
            max_flits=9,
        ),
        RouterConfig(torus=Torus(sizes=(2, 3, 2), cycles=(1, 1, 2)), flit_bits=28, channels=3, escape_channels=3),
    ),
    check=check,
    cover=COVER,
)
