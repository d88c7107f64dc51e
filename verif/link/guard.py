"""What the guards do with bad packets: bit by bit alone, and in a fabric that must go on whatever chips send."""

from collections import Counter

import numpy as np

from golden.link.guard import Flit, Guard
from hdl.link.guard import Guard as GuardBlock
from spec.link import RouterConfig, Status
from verif.harness import counts
from verif.harness.model import Model
from verif.link.chips import Chips, mixed
from verif.link.cover import COVER


def noise(config: RouterConfig, cycles: int, rng: np.random.Generator) -> list[Flit | None]:
    """Flits of good and bad packets, and now and then one that is nothing but random bits, mixed over the lanes."""
    packets, _ = mixed(config, cycles // 2, rng)
    queues: list[list[Flit]] = [[] for _ in range(config.lanes)]
    for one in packets:
        if one.node == 0:
            queues[one.lane] += [Flit(one.lane, *flit) for flit in _flits(one.data, one.marks)]
    found: list[Flit | None] = []
    for _ in range(cycles):
        lane = int(rng.integers(1 << max(1, (config.lanes - 1).bit_length())))
        if rng.random() < 0.03:
            first, last = rng.random(2) < 0.5
            found.append(Flit(lane, int(rng.integers(1 << config.flit_bits)), bool(first), bool(last)))
        else:
            found.append(queues[lane].pop(0) if lane < config.lanes and queues[lane] else None)
    return found


def _flits(data: tuple[int, ...], marks: tuple[tuple[bool, bool], ...]) -> list[tuple[int, bool, bool]]:
    return [(word, *mark) for word, mark in zip(data, marks, strict=True)]


def compare(model: Model, config: RouterConfig, flits: list[Flit | None], rng: np.random.Generator) -> int:
    """Wires of the guard of chip 0 that differ from golden's, over all cycles."""
    golden, wrong = Guard(config, 0), 0
    router = rng.integers(0, 1 << config.lanes, len(flits)) & rng.integers(0, 1 << config.lanes, len(flits))
    wanted = []
    for flit, credit in zip(flits, router, strict=True):
        counted = (golden.bad, golden.broken)
        given = golden.credits(int(credit))
        wanted.append((None if flit is None else golden.step(flit), given, counted))
    bits = config.flit_bits
    model.power_on()
    found = model.run(
        drive={
            "i__valid": [flit is not None for flit in flits],
            "i__lane": [flit.lane if flit else 0 for flit in flits],
            "i__flit": [flit.data | (flit.first | flit.last << 1) << bits if flit else 0 for flit in flits],
            "o__credit": router,
        },
        hold={"position": 0},
        sample=["o__valid", "o__lane", "o__flit", "i__credit", "bad", "broken"],
        limit=len(flits),
    )
    seen = {name: found.sampled(name) for name in found.samples}
    for cycle, (flit, given, counted) in enumerate(wanted):
        same = bool(seen["o__valid"][cycle]) == (flit is not None) and seen["i__credit"][cycle] == given
        same &= (seen["bad"][cycle], seen["broken"][cycle]) == counted
        if flit is not None:
            word = flit.data | (flit.first | flit.last << 1) << bits
            same &= (int(seen["o__flit"][cycle]), int(seen["o__lane"][cycle])) == (word, flit.lane)
        wrong += not same
    counts.add(len(flits), wrong)
    return wrong


def guard_model(config: RouterConfig) -> Model:
    """The guard alone."""
    return Model(GuardBlock(config))


def storm(model: Model, config: RouterConfig, count: int, rng: np.random.Generator) -> Counter[str]:
    """Good and bad packets through a fabric; good ones arrive whole, bad ones are answered, every credit comes home."""
    model.power_on()
    chips = Chips(model, config, rng, stall=0.9)
    packets, fates = mixed(config, count, rng)
    chips.put(packets)
    if not chips.run(200 * count):
        raise AssertionError("the fabric did not come to rest: a flit or a credit is stuck")
    if chips.fullest == config.depth:
        COVER.hit(exhausted="out of the network")
    torus = config.torus
    arrived = Counter((one.node, one.data) for one in chips.received if not one.broken and not one.header["status"])
    answered = Counter(
        (one.node, one.lane // config.channels, one.header["tag"], one.header["status"])
        for one in chips.received
        if one.header["status"]
    )
    broken = sum(one.broken for one in chips.received)
    bad = [int(model.run(sample=[f"bad__{n}"], limit=1).sampled(f"bad__{n}")[0]) for n in range(torus.nodes)]
    wanted, answers = Counter[tuple[int, tuple[int, ...]]](), Counter[tuple[int, int, int, int]]()
    for one, fate in zip(packets, fates, strict=True):
        header = one.data[0]
        if fate == "good":
            target = [header >> config.field_offsets[f"target_{d}"][0] for d in range(torus.dimensions)]
            bits = [config.field_offsets[f"target_{d}"][1] for d in range(torus.dimensions)]
            where = torus.node(at & ((1 << width) - 1) for at, width in zip(target, bits, strict=True))
            wanted[where, one.data] += 1
        elif fate != "broken":
            offset, width = config.field_offsets["tag"]
            status = Status[fate.upper()]
            answers[one.node, one.lane // config.channels, header >> offset & ((1 << width) - 1), status] += 1
    if arrived != wanted:
        raise AssertionError(f"{sum((wanted - arrived).values())} good packets lost, others came instead")
    if answered != answers:
        raise AssertionError(f"answers missing: {answers - answered}, surplus: {answered - answers}")
    if broken != fates.count("broken") or sum(bad) != sum(answers.values()):
        raise AssertionError(f"{broken} packets broken off of {fates.count('broken')}, {sum(bad)} counted as bad")
    counts.add(count, 0)
    return Counter(fates)
