"""Proofs hold, and fail when the block is wrong."""

from pathlib import Path
from typing import Any

import pytest
from amaranth.hdl import Assert, Module, Mux, Signal
from amaranth.lib.memory import Memory

from hdl.fifo import Fifo
from spec.fifo import FifoConfig
from spec.parameters import ParameterError
from verif.formal.catalog import PROOFS
from verif.formal.fifo import FifoProperties
from verif.harness.formal import Proof, Properties

CONFIG = FifoConfig(width=2, depth=3)


class LeakyFifo(Fifo):
    """Forgets what comes in the cycle in which the last free row is taken."""

    def elaborate(self, platform: Any) -> Module:
        fifo: Any = self
        m = super().elaborate(platform)
        with m.If(fifo.i.valid & (fifo.level == fifo.config.depth - 1)):
            m.d.sync += fifo.level.eq(fifo.level)
        return m


class Counter(Properties):
    def __init__(self, limit: int) -> None:
        self.limit = limit

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        count = Signal(8)
        with m.If(count != 5):
            m.d.sync += count.eq(count + 1)
        m.d.comb += Assert(count <= self.limit, "stays below its limit")
        return m


class ReadDuringWrite(Properties):
    """A read sees, part by part, what is written to its row in the same cycle, if its port is transparent."""

    def __init__(self, *, transparent: bool) -> None:
        self.rows: Any = Memory(shape=4, depth=2, init=[])
        self.write = self.rows.write_port(granularity=2)
        self.read = self.rows.read_port(transparent_for=[self.write] if transparent else [])
        self.inputs = (self.write.en, self.write.addr, self.write.data, self.read.en, self.read.addr)

    def elaborate(self, platform: Any) -> Module:
        m = Module()
        m.submodules.rows = platform.place(self.rows)
        met, written = Signal(2), Signal(4)
        same = self.read.en & (self.write.addr == self.read.addr)
        m.d.sync += [met.eq(Mux(same, self.write.en, 0)), written.eq(self.write.data)]
        for part in range(2):
            bits = slice(2 * part, 2 * part + 2)
            m.d.comb += Assert(~met[part] | (self.read.data[bits] == written[bits]), f"part {part} is the new one")
        return m


@pytest.mark.parametrize("name", ["fifo of 3: nothing lost, nothing twice", "fifo of 3: fills and drains"])
def test_a_proof_of_the_registry_holds(name: str) -> None:
    next(proof for proof in PROOFS if proof.name == name).run().check()


@pytest.mark.long
@pytest.mark.parametrize("proof", PROOFS, ids=lambda proof: proof.name)
def test_every_proof_holds(proof: Proof) -> None:
    proof.run().check()


def test_a_fifo_that_loses_an_item_is_caught_with_a_trace(tmp_path: Path) -> None:
    proof = Proof("leaky", lambda: FifoProperties(CONFIG, LeakyFifo(CONFIG)), mode="bmc", depth=8)
    verdict = proof.run(tmp_path)
    assert verdict.result == "fail"
    assert verdict.trace is not None
    assert verdict.trace.read_text().startswith("$")
    with pytest.raises(AssertionError, match="leaky"):
        verdict.check()


def test_a_property_that_is_true_but_not_inductive_is_not_called_proven() -> None:
    assert Proof("not inductive", lambda: Counter(100), depth=2).run().result == "unknown"
    assert Proof("inductive", lambda: Counter(5), depth=2).run().result == "pass"


@pytest.mark.parametrize(("transparent", "result"), [(True, "pass"), (False, "fail")])
def test_memories_in_proofs_know_transparent_ports(transparent: bool, result: str) -> None:
    proof = Proof("read during write", lambda: ReadDuringWrite(transparent=transparent), "bmc", 4)
    assert proof.run().result == result


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ParameterError, match="mode of a proof 'live': legal is one of bmc, cover, prove"):
        Proof("x", lambda: Counter(1), mode="live")
