"""The proofs themselves run with all others (tests/verif/test_formal.py); here they are shown to notice faults."""

from typing import Any

import pytest
from amaranth.hdl import Module

from hdl.link.lane import Lane
from hdl.link.link import LinkEnd
from hdl.link.output import Output
from verif.formal.link import LINK, CreditProperties, ReplayProperties, TurnProperties
from verif.harness.formal import Proof


def test_a_credit_that_comes_back_twice_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    elaborate = Lane.elaborate

    def generous(lane: Any, platform: Any) -> Module:
        m = elaborate(lane, platform)
        with m.If(lane.won & lane.flit.last):
            m.d.sync += lane.credit.eq(1)
        return m

    monkeypatch.setattr(Lane, "elaborate", generous)
    assert Proof("planted", CreditProperties, mode="bmc", depth=8).run().result == "fail"


def test_an_arbiter_whose_turn_never_passes_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    elaborate = Output.elaborate

    def stubborn(output: Any, platform: Any) -> Module:
        m = elaborate(output, platform)
        m.d.sync += output.behind.eq(-1)
        return m

    monkeypatch.setattr(Output, "elaborate", stubborn)
    assert Proof("planted", TurnProperties, mode="bmc", depth=6).run().result == "fail"


def test_a_receiver_that_takes_any_sequence_number_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    elaborate = LinkEnd.elaborate

    def careless(end: Any, platform: Any) -> Module:
        m = elaborate(end, platform)
        with m.If(end.receive.data):
            m.d.sync += [end.o.valid.eq(1), end.o.payload.eq(end.receive.payload)]
        return m

    monkeypatch.setattr(LinkEnd, "elaborate", careless)
    proof = Proof("planted", lambda: ReplayProperties(LINK), mode="bmc", depth=10)
    assert proof.run().result == "fail"
