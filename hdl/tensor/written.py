"""Which locations of PSUM hold a result."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block
from hdl.tensor.layouts import address_layout, read_layout
from spec.tensor import TensorConfig

WORD_BITS = 128
"""Bits that are masked together."""


class WrittenMap(Block):
    """One bit for each PSUM location, cleared by reset: memories keep their contents over it, these bits do not.

    ``all_written`` tells, in the same cycle, whether every location of the range ``start``, ``columns`` is marked;
    ``mark`` marks the range. With ``split`` there are two or four such ranges, each a bank behind the one before.
    ``one_written`` tells it of ``location`` alone, 0 where there is no such location; ``fill`` marks ``filled`` alone.
    """

    config: TensorConfig

    def __init__(self, config: TensorConfig) -> None:
        ports = {
            "start": In(address_layout(config)),
            "columns": In(range(config.moving_columns + 1)),
            "mark": In(1),
            "all_written": Out(1),
            "location": In(read_layout(config)),
            "one_written": Out(1),
            "filled": In(address_layout(config)),
            "fill": In(1),
        }
        if config.tiles > 1:
            ports["split"] = In(range(config.splits))
        super().__init__(config, Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """Words of bits: of a range, the first and the last word are cut, those between are whole."""
        m = Module()
        config = self.config
        size = min(WORD_BITS, config.bank_depth)
        low = (size - 1).bit_length()
        offset_bits = (config.bank_depth - 1).bit_length()
        start, end = Signal(range(config.psum_depth)), Signal(range(2 * config.psum_depth))
        from_start, before_end = Signal(size), Signal(size)
        ones = Const(-1, size)
        m.d.comb += [
            start.eq(Cat(self.start.offset[:offset_bits], self.start.bank)),
            end.eq(start + self.columns),
            from_start.eq(ones << start[:low]),
            before_end.eq(~(ones << end[:low])),
        ]
        filled = Signal(range(config.psum_depth))
        m.d.comb += filled.eq(Cat(self.filled.offset[:offset_bits], self.filled.bank))
        words, missing = [], []
        ranges: list[Signal] = []
        for index in range(config.psum_depth // size):
            word, mask = Signal(size, name=f"written_{index}"), Signal(size, name=f"mask_{index}")
            begun = Mux(start[low:] == index, from_start, (start[low:] < index).replicate(size))
            ended = Mux(end[low:] == index, before_end, (end[low:] > index).replicate(size))
            ranges.append(Signal(size, name=f"range_{index}"))
            m.d.comb += [ranges[index].eq(begun & ended), mask.eq(self._joined(ranges, config.bank_depth // size))]
            one = self.fill & (filled[low:] == index)
            m.d.sync += word.eq(word | Mux(self.mark, mask, 0) | Mux(one, 1 << filled[:low], 0))
            missing.append((mask & ~word).any())
            words.append(word)
        m.d.comb += self.all_written.eq(~Cat(missing).any())

        location = self.location
        legal = (location.bank < config.psum_banks) & (location.offset < config.bank_depth)
        address = Cat(location.offset[:offset_bits], location.bank)
        m.d.comb += self.one_written.eq(legal & Array(words)[address[low:]].bit_select(address[:low], 1))
        return m

    def _joined(self, ranges: list[Signal], bank: int) -> Any:
        """The last word of the range, joined with those of the ranges that follow it by one or more banks."""
        mask: Any = ranges[-1]
        for way in range(1, self.config.tiles):
            if way * bank < len(ranges):
                chosen = self.split >= way.bit_length()
                mask = mask | (ranges[-1 - way * bank] & chosen.replicate(len(mask)))
        return mask
