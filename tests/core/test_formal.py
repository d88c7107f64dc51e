"""Proofs of the core's parts fail on parts with the fault that each is there to exclude."""

from functools import partial
from typing import Any

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib.memory import Memory

from hdl.core import share
from spec.core import ShareConfig
from verif.formal.core import SemaphoreProperties, ShareProperties
from verif.harness.formal import Proof

SHARED = ShareConfig(ports=3, request=2, response=1, depth=2)


def test_an_update_on_an_old_value_makes_the_proof_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    plain: Any = Memory.read_port
    monkeypatch.setattr(Memory, "read_port", lambda memory, **_: plain(memory))
    verdict = Proof("planted semaphores", SemaphoreProperties, mode="bmc", depth=10).run()
    assert verdict.result == "fail", verdict


def test_a_turn_that_does_not_go_around_makes_the_proof_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    def last_one(m: Module, _last: Signal, wants: Signal, count: int, name: str) -> Signal:
        chosen = Signal(range(count), name=name)
        for index in range(count):
            with m.If(wants[index]):
                m.d.comb += chosen.eq(index)
        return chosen

    monkeypatch.setattr(share, "first_after", last_one)
    verdict = Proof("planted share", partial(ShareProperties, SHARED), mode="bmc", depth=10).run()
    assert verdict.result == "fail", verdict
