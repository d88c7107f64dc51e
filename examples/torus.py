"""A real tensor goes round a ring of noisy links, and then from every chip to every other over a 4x4 torus.

    python -m examples.torus

The tensor is the test part of the digits images. The links are RTL, with random bit errors on both wires of each; the
torus is the cycle-exact model of the router, which the bench ``link.router`` holds to RTL.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from golden.link.link import goodput_bound
from golden.link.router import run
from golden.link.traffic import Traffic
from hdl.link.link import LinkPair
from spec.link import LinkConfig, RouterConfig
from spec.topology import Kind, Torus
from verif.harness.model import Model
from verif.harness.packing import to_words
from verif.link.layer import flips

HOPS = 4
LINK = LinkConfig()
TORUS = RouterConfig(torus=Torus(sizes=(4, 4)), flit_bits=32)
SEED = 1


@dataclasses.dataclass(frozen=True)
class Hop:
    """What one link did: cycles, frames it found damaged, times it went back, payloads a cycle."""

    cycles: int
    damaged: int
    replays: int
    goodput: float


def tensor() -> npt.NDArray[np.uint8]:
    """360 images of 8x8 grey values."""
    from sklearn.datasets import load_digits

    return np.asarray(load_digits().images[-360:], np.uint8)


def around(words: list[int], rate: float, hops: int = HOPS) -> tuple[list[int], list[Hop]]:
    """Send ``words`` over ``hops`` links one after the other; what arrives, and what each link did."""
    rng, report = np.random.default_rng(SEED), []
    limit = 4 * len(words) + 1000
    with Model(LinkPair(LINK)) as model:
        for _ in range(hops):
            model.power_on()
            found = model.run(
                {"i__0": to_words(words, LINK.payload_bits)},
                drive={f"flips__{way}": flips(rng, LINK, rate, limit) for way in range(2)},
                expect={"o__0": len(words)},
                sample=["damaged__0", "damaged__1", "replays__0"],
                limit=limit,
            )
            words = found.values("o__0")
            damaged = int(found.sampled("damaged__0")[-1]) + int(found.sampled("damaged__1")[-1])
            cycles = int(found.stamps["o__0"][-1]) + 1
            report.append(Hop(cycles, damaged, int(found.sampled("replays__0")[-1]), len(words) / cycles))
    return words, report


def all_gather(flits: int) -> tuple[int, float]:
    """Every chip multicasts ``flits`` flits to all: cycles until the last has all, and use of the ejection ports."""
    nodes = TORUS.torus.nodes
    packets = -(-flits // TORUS.max_flits)
    source = np.repeat(np.arange(nodes), packets)
    everybody = (1 << TORUS.torus.dimensions) - 1
    traffic = Traffic.of(0, source, everybody, Kind.MULTICAST, TORUS.max_flits)
    delivered = run(TORUS, traffic, 100_000, stop=traffic.created.size * nodes)["delivered"]
    cycles = int(delivered.max()) + 1
    return cycles, packets * TORUS.max_flits * nodes / cycles


def main() -> None:
    """Print what happened."""
    images = tensor()
    words = images.reshape(-1).view("<u4").astype(int).tolist()
    for rate in (0.0, 1e-4, 1e-3):
        received, report = around(words, rate)
        back = np.array(received, "<u4").view(np.uint8).reshape(images.shape)
        same = "every bit as sent" if np.array_equal(back, images) else "NOT as sent"
        print(f"bit error rate {rate:g}: {len(words)} words over {HOPS} links: {same}")
        for number, hop in enumerate(report):
            print(
                f"  link {number}: {hop.cycles} cycles, {hop.damaged} damaged frames, {hop.replays} replays,"
                f" {hop.goodput:.3f} payloads a cycle (go-back-N allows {goodput_bound(LINK, rate):.3f} on average)"
            )
    flits = len(words) // TORUS.torus.nodes
    cycles, used = all_gather(flits)
    print(f"all-gather of it by multicast on a 4x4 torus: {cycles} cycles, {100 * used:.0f} % of the ejection ports")


if __name__ == "__main__":
    main()
