"""SECDED encoder and decoder for one word; combinational."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from spec.ecc import SecdedConfig


class SecdedEncoder(Block):
    """``codeword`` is ``data`` with its check bits above it. No latency, no state."""

    def __init__(self, config: SecdedConfig) -> None:
        super().__init__(config, {"data": In(config.data), "codeword": Out(config.width)})

    def elaborate(self, platform: Any) -> Module:
        """One parity tree a check bit."""
        m = Module()
        config: Any = self.config
        every = (1 << config.data) - 1
        m.d.comb += self.codeword.eq(Cat(self.data, *((self.data & (mask & every)).xor() for mask in config.masks)))
        return m


class SecdedDecoder(Block):
    """``data`` of ``codeword``, repaired. No latency, no state.

    ``corrected``: one bit was wrong (of the data or of the check bits) and ``data`` is right. ``lost``: two bits were
    wrong; ``data`` is then as it came. More than two wrong bits are beyond the code.
    """

    def __init__(self, config: SecdedConfig) -> None:
        signature = {"codeword": In(config.width), "data": Out(config.data), "corrected": Out(1), "lost": Out(1)}
        super().__init__(config, signature)

    def elaborate(self, platform: Any) -> Module:
        """Syndrome, and a comparator for each data bit."""
        m = Module()
        config: Any = self.config
        syndrome = Signal(config.check_bits)
        hits = Signal(config.width)
        m.d.comb += [
            syndrome.eq(Cat((self.codeword & mask).xor() for mask in config.masks)),
            hits.eq(Cat(syndrome == column for column in config.columns)),
            self.data.eq(self.codeword[: config.data] ^ hits[: config.data]),
            self.corrected.eq(hits.any()),
            self.lost.eq((syndrome != 0) & ~hits.any()),
        ]
        return m
