"""The random bits of stochastic rounding."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from spec.numerics import XorshiftConfig


class Xorshift32(Block):
    """Marsaglia's xorshift32: ``word`` is the state, which steps in each cycle with ``advance``.

    A step is ``x ^= x << 13``, ``x ^= x >> 17``, ``x ^= x << 5``; the period is 2**32 - 1. ``load`` makes ``seed`` the
    next state instead. Zero is no state: loading it loads ``config.seed``, which is also the state after reset.
    """

    advance: In(1)
    load: In(1)
    seed: In(32)
    word: Out(32)

    config: XorshiftConfig

    def __init__(self, config: XorshiftConfig) -> None:
        super().__init__(config)

    def elaborate(self, platform: Any) -> Module:
        """One register and three exclusive ors."""
        m = Module()
        state = Signal(32, init=self.config.seed)
        left, right = Signal(32), Signal(32)
        m.d.comb += [
            left.eq(state ^ (state << 13)),
            right.eq(left ^ (left >> 17)),
            self.word.eq(state),
        ]
        with m.If(self.load):
            m.d.sync += state.eq(Mux(self.seed.any(), self.seed, self.config.seed))
        with m.Elif(self.advance):
            m.d.sync += state.eq(right ^ (right << 5))
        return m
