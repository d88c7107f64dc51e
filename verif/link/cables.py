"""A fabric on noisy cables: nothing is lost, doubled or changed; dead cables and restarted nodes stop nobody."""

from collections import Counter
from collections.abc import Callable, Iterable

import numpy as np

from golden.link.guard import unpack
from hdl.link.cabled import CabledFabric
from spec.link import CableConfig, LinkConfig, RouterConfig, Status
from spec.topology import Torus
from verif.harness import counts
from verif.harness.model import Model
from verif.link.chips import Chips, Packet, packet
from verif.link.layer import flips

SMALL = CableConfig(
    router=RouterConfig(
        torus=Torus(sizes=(4,)),
        flit_bits=20,
        classes=2,
        channels=2,
        escape_channels=2,
        depth=4,
        max_flits=4,
        tag_bits=6,
    ),
    link=LinkConfig(timeout=16, retries=8),
)
"""A ring; requests and answers; a cable that is declared dead as soon as it may be."""

Drive = Callable[[int], dict[str, int]]


def cabled_model(config: CableConfig = SMALL) -> Model:
    """A compiled model, the node compiled once."""
    fabric = CabledFabric(config)
    return Model(fabric, hierarchy=(fabric.nodes[0].module_name,))


def requests(
    config: CableConfig, count: int, rng: np.random.Generator, *, spread: int = 0, classes: int = 1
) -> list[Packet]:
    """Good packets of random length, kind and target in the first ``classes`` message classes, no two alike."""
    router = config.router
    packets = []
    for number in range(count):
        node, target = (int(n) for n in rng.integers(0, router.torus.nodes, 2))
        lane = int(rng.integers(classes * router.channels))
        body = [number, *(int(n) for n in rng.integers(0, 1 << router.flit_bits, router.max_flits - 2))]
        fields = {"tag": number % (1 << router.tag_bits), "kind": int(rng.integers(3)), "cycle": number * spread}
        packets.append(packet(router, node, target, lane, body[: rng.integers(1, router.max_flits)], **fields))
    return packets


def noise(config: CableConfig, rate: float, cycles: int, rng: np.random.Generator) -> Drive:
    """Bit errors on every cable at this rate."""
    masks = [flips(rng, config.layer, rate, cycles) for _ in config.router.torus.links]
    return lambda cycle: {f"flips__{link}": row[cycle % cycles] for link, row in enumerate(masks)}


def target_of(config: CableConfig, one: Packet) -> int:
    """The chip a packet is for."""
    header = unpack(config.router, one.data[0])
    return config.router.torus.node(header[f"target_{d}"] for d in range(config.router.torus.dimensions))


def send(
    model: Model,
    config: CableConfig,
    packets: list[Packet],
    drive: Drive,
    rng: np.random.Generator,
    limit: int = 20_000,
) -> Chips:
    """From power-on until everything has come to rest."""
    model.power_on()
    chips = Chips(model, config.router, rng)
    chips.put(packets)
    if not chips.run(limit, drive=drive):
        raise AssertionError("the fabric did not come to rest: a flit or a credit is stuck")
    counts.add(len(packets), 0)
    return chips


def whole(model: Model, config: CableConfig, rate: float, count: int, rng: np.random.Generator) -> int:
    """Send ``count`` packets at a bit error rate; all must arrive once and unchanged. Returns the cycles it took."""
    packets = requests(config, count, rng, classes=config.router.classes)
    chips = send(model, config, packets, noise(config, rate, 4000, rng), rng)
    arrived = Counter((one.node, one.data) for one in chips.received if not one.broken)
    if arrived != Counter((target_of(config, one), one.data) for one in packets):
        raise AssertionError(f"{count} packets sent, {len(chips.received)} came, and they are not the same")
    return chips.cycle


def fates(config: CableConfig, chips: Chips, packets: Iterable[Packet]) -> dict[str, list[Packet]]:
    """What became of each packet: ``arrived``, ``broken`` at its target, ``answered`` as unreachable, or ``lost``."""
    arrived = {one.data for one in chips.received if not one.broken and not one.header["status"]}
    broken = {one.data[0] for one in chips.received if one.broken}
    answers = Counter(
        (one.node, one.header["tag"]) for one in chips.received if one.header["status"] == Status.UNREACHABLE
    )
    found: dict[str, list[Packet]] = {"arrived": [], "answered": [], "broken": [], "lost": []}
    for one in packets:
        key = (one.node, unpack(config.router, one.data[0])["tag"])
        if one.data in arrived:
            found["arrived"].append(one)
        elif answers[key]:
            answers[key] -= 1
            found["answered"].append(one)
        else:
            found["broken" if one.data[0] in broken else "lost"].append(one)
    if +answers:
        raise AssertionError(f"answers to nobody: {+answers}")
    return found
