import numpy as np
import pytest

from golden.link import flow
from golden.link.router import run
from golden.link.traffic import PATTERNS, Traffic, transfers
from spec.link import RouterConfig
from spec.topology import Kind, Torus

CONFIG = RouterConfig(torus=Torus(sizes=(4, 4)), flit_bits=24)


@pytest.mark.parametrize("channels", [4, 8])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_set_of_transfers_takes_as_long_as_in_the_cycle_exact_model(pattern: str, channels: int) -> None:
    config = CONFIG.replace(channels=channels, escape_channels=channels)
    traffic = transfers(CONFIG.torus, pattern, 128)
    exact = run(config, traffic, 100_000, stop=traffic.created.size)["delivered"]
    found = flow.run(config, traffic, 100_000)["delivered"]
    assert found.min() >= 0
    assert found.max() == pytest.approx(exact.max(), rel=0.02)
    assert found.mean() == pytest.approx(exact.mean(), rel=0.01)


@pytest.mark.parametrize("kind", [Kind.ORDERED, Kind.FREE, Kind.ADAPTIVE])
@pytest.mark.parametrize("torus", [Torus(sizes=(5, 3), cycles=(1, 2)), Torus(sizes=(3, 4), wraps=(False, True))])
def test_everything_arrives_and_a_packet_alone_takes_the_exact_time(torus: Torus, kind: Kind) -> None:
    config = RouterConfig(torus=torus, flit_bits=24, escape_channels=2)
    traffic = transfers(torus, "uniform", 30, flits=5, kind=kind)
    assert flow.run(config, traffic, 100_000)["delivered"].min() >= 0
    for target in range(1, torus.nodes):
        alone = Traffic.of(3, 0, [target], kind, 1)
        assert flow.run(config, alone, 1000)["delivered"] == run(config, alone, 1000)["delivered"]


def test_a_link_of_half_the_width_halves_the_rate() -> None:
    config = CONFIG.replace(torus=Torus(sizes=(4, 4), cycles=(1, 2)))
    stream = Traffic.of(0, np.zeros(100), 4, Kind.FREE, 8)
    found = flow.run(config, stream, 10_000)["delivered"]
    assert np.diff(np.sort(found))[10:].mean() == pytest.approx(16, rel=0.02)


def test_multicast_is_refused() -> None:
    with pytest.raises(ValueError, match="no multicast"):
        flow.run(CONFIG, Traffic.of(0, 0, [3], Kind.MULTICAST), 10)
