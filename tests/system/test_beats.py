"""Payloads in beats and back."""

import numpy as np
import pytest

from hdl.system.beats import Gather, Scatter
from spec.system import BeatsConfig
from verif.harness.pysim import simulate
from verif.harness.stalls import STALLS


@pytest.mark.parametrize(("width", "beat"), [(265, 32), (64, 32), (7, 32), (33, 1), (100, 100)])
def test_payloads_come_out_as_they_went_in(width: int, beat: int) -> None:
    config = BeatsConfig(width=width, beat=beat)
    rng = np.random.default_rng(1)
    sent = [int.from_bytes(rng.bytes(60)) & ((1 << width) - 1) for _ in range(5)]
    stalls = {"o": STALLS["half"]}
    beats = simulate(Scatter(config), {"i": sent}, expect={"o": 5 * config.beats}, stalls=stalls).values("o")
    assert simulate(Gather(config), {"i": beats}, expect={"o": 5}, stalls=stalls).values("o") == sent


def test_nothing_comes_before_the_last_beat() -> None:
    run = simulate(Gather(BeatsConfig(width=64, beat=32)), {"i": [1, 2, 3]}, limit=30)
    assert run.values("o") == [2 << 32 | 1]
