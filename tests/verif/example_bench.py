"""The example of docs/verification.md: a block that adds a constant, and its bench."""

from amaranth.hdl import Module
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from spec.parameters import Parameters
from verif.harness.bench import Bench, Trial
from verif.harness.stalls import STALLS


class AddOne(Block):
    """Adds one to each item, modulo 256, in the same cycle."""

    i: In(stream.Signature(8))
    o: Out(stream.Signature(8))

    def elaborate(self, platform: object) -> Module:
        m = Module()
        m.d.comb += [
            self.o.payload.eq(self.i.payload + 1),
            self.o.valid.eq(self.i.valid),
            self.i.ready.eq(self.o.ready),
        ]
        return m


def check(trial: Trial) -> None:
    items = [int(item) for item in trial.rng.integers(0, 256, 1000)]
    golden = [(item + 1) % 256 for item in items]
    model, board = trial.model(), trial.scoreboard("o", 8, number="uint8")
    trial.notices("o", 8, golden)  # the comparison can fail
    for name, stall in STALLS.items():
        with trial.test(name):
            run = model.run({"i": items}, expect={"o": len(items)}, stalls={"i": stall, "o": stall}, seed=trial.seed)
            board.compare(run.outputs["o"], golden)


BENCH = Bench("example.add_one", block=AddOne, quick=(Parameters(),), check=check)
