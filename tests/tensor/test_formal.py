"""The proofs of the sequencer hold, and each fails on a sequencer with the fault that it is there to exclude."""

from typing import Any

import pytest
from amaranth.hdl import Const, Module, Signal

from hdl.tensor.sequencer import Sequencer
from verif.formal.tensor import SMALL, ColumnProperties, HandOverProperties, SwapProperties
from verif.harness.formal import Proof


class LoadsTooEarly(Sequencer):
    """Takes a load although a matmul has yet to begin with the stationary before."""

    def _blocked(self) -> Any:
        return Const(0)


class ForgetsWhatIsInFlight(Sequencer):
    """Accumulates without looking for the result before."""

    def _in_flight(self, m: Module, issued: Signal, address: Signal, split: Any) -> Any:
        return Const(0)


class CutsMatmulsShort(Sequencer):
    """Takes a matmul at any time, and loses the columns that are left of the one before."""

    def _multiply(self, m: Module, fresh: Signal, load_active: Signal) -> Any:
        super()._multiply(m, fresh, load_active)
        return Const(1)


@pytest.mark.parametrize(
    ("properties", "fault"),
    [
        (ColumnProperties, CutsMatmulsShort),
        (SwapProperties, LoadsTooEarly),
        (HandOverProperties, ForgetsWhatIsInFlight),
    ],
)
def test_a_planted_fault_makes_the_proof_fail(properties: Any, fault: type[Sequencer]) -> None:
    verdict = Proof("planted tensor", lambda: properties(SMALL, fault), mode="bmc", depth=8).run()
    assert verdict.result == "fail", verdict
