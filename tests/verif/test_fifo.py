"""The stream FIFO outside its bench."""

import gc

import pytest
from amaranth.lib import data

from hdl.fifo import Fifo
from spec.fifo import FifoConfig
from spec.parameters import ParameterError
from verif.harness.pysim import simulate
from verif.harness.stalls import STALLS

PAIR = data.StructLayout({"number": 7, "last": 1})


@pytest.mark.filterwarnings("ignore::amaranth.hdl.UnusedElaboratable")
def test_a_payload_of_another_width_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"FifoConfig\.width = 9: legal is 8, as its payload has"):
        Fifo(FifoConfig(width=9), PAIR)
    gc.collect()  # so that the unused component is met here


@pytest.mark.parametrize("field", [{"depth": 0}, {"depth": -1}, {"width": 0}])
def test_illegal_parameters_are_refused(field: dict[str, int]) -> None:
    with pytest.raises(ParameterError, match=r"FifoConfig\.\w+ = -?\d \w+: legal is 1 to"):
        FifoConfig(**field)


@pytest.mark.parametrize("depth", [1, 2, 3, 7])
def test_the_shape_of_the_payload_is_kept(depth: int) -> None:
    items = {"number": list(range(20)), "last": [0, 1] * 10}
    fifo = Fifo(FifoConfig(width=8, depth=depth), PAIR)
    run = simulate(fifo, {"i": items}, expect={"o": 20}, stalls={"i": STALLS["half"], "o": STALLS["bursts"]})
    assert run.fields("o")["number"].tolist() == items["number"]
    assert run.fields("o")["last"].tolist() == items["last"]
