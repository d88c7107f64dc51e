"""Results rounded to bf16."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block
from spec.formats import FLOATS, FP32
from spec.tensor import TensorConfig

KEPT = FLOATS["bf16"].width
DROPPED = FP32.width - KEPT


class Narrow(Block):
    """``results`` are ``sums`` one cycle later, with ``narrow`` rounded to bf16, each in the upper half of its word.

    To nearest even; with ``stochastic``, the upper half of a random word is added to the lower half of the number, and
    what is then below the upper half cut off. NaNs must be canonical.

    Each column has an xorshift32 generator, which steps where ``valid`` and ``stochastic`` are 1. Its first state is
    its part of the constant ``first``; ``reseed`` makes the next state the exclusive or of that with ``seed``, or
    ``first`` should that be 0.
    """

    config: TensorConfig

    def __init__(self, config: TensorConfig) -> None:
        width = config.columns * FP32.width
        ports = {
            "sums": In(width),
            "valid": In(1),
            "narrow": In(1),
            "stochastic": In(1),
            "first": In(width),
            "reseed": In(1),
            "seed": In(FP32.width),
            "results": Out(width),
        }
        super().__init__(config, Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """Round column by column."""
        m = Module()
        late = Signal(len(self.results), reset_less=True)
        m.d.sync += late.eq(Cat(self._round(m, column) for column in range(self.config.columns)))
        m.d.comb += self.results.eq(late)
        return m

    def _round(self, m: Module, column: int) -> Signal:
        """A carry out of the fraction counts into the exponent, up to infinity; infinity and NaN have none to carry."""
        word = self.sums.word_select(column, FP32.width)
        random = self._random(m, column)
        nearest = (1 << DROPPED - 1) - 1 + word[DROPPED]
        rounded, result = Signal(FP32.width, name=f"rounded_{column}"), Signal(FP32.width, name=f"result_{column}")
        m.d.comb += [
            rounded.eq(word + Mux(self.stochastic, random[DROPPED:], nearest)),
            result.eq(Mux(self.narrow, rounded[DROPPED:] << DROPPED, word)),
        ]
        return result

    def _random(self, m: Module, column: int) -> Signal:
        """The column's state. The register holds its difference from the first one, which is no constant in here."""
        first = self.first.word_select(column, FP32.width)
        state, one, two = (Signal(FP32.width, name=f"{name}_{column}") for name in ("state", "one", "two"))
        difference = Signal(FP32.width, name=f"difference_{column}")
        m.d.comb += [state.eq(difference ^ first), one.eq(state ^ (state << 13)), two.eq(one ^ (one >> 17))]
        with m.If(self.reseed):
            m.d.sync += difference.eq(Mux(self.seed == first, 0, self.seed))
        with m.Elif(self.valid & self.stochastic):
            m.d.sync += difference.eq(two ^ (two << 5) ^ first)
        return state
