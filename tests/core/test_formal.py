"""The proof of the semaphores fails on semaphores with the fault that it is there to exclude."""

from typing import Any

import pytest
from amaranth.lib.memory import Memory

from verif.formal.core import SemaphoreProperties
from verif.harness.formal import Proof


def test_an_update_on_an_old_value_makes_the_proof_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    plain: Any = Memory.read_port
    monkeypatch.setattr(Memory, "read_port", lambda memory, **_: plain(memory))
    verdict = Proof("planted semaphores", SemaphoreProperties, mode="bmc", depth=10).run()
    assert verdict.result == "fail", verdict
