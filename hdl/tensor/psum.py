"""PSUM: banks of fp32 results that accumulate where they lie."""

from typing import Any

from amaranth.hdl import Array, Const, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block, place
from hdl.numerics import Add
from hdl.tensor.later import later
from hdl.tensor.layouts import address_layout, column_token
from spec.formats import FP32
from spec.numerics import AddConfig
from spec.tensor import TensorConfig

NEUTRAL = 1 << (FP32.width - 1)
"""-0: the fp32 number whose sum with any other is that other."""


class Psum(Block):
    """``psum_banks`` banks, each one read and one write port, and an fp32 adder for each column of the array.

    ``token`` announces ``sums``, which follow one cycle later. They are written to the token's address, or added to
    what lies there (moved bits: joined with it by or), one location each cycle; the result can be read, and accumulated
    onto, ``accumulate_distance`` cycles after its token. Closer accumulation would lose a sum: the sequencer keeps that
    distance. ``done`` is 1 in the cycle before the last column of a matmul can be read.

    ``reads`` takes one address a cycle; its values are offered at ``data`` in order, the first time one cycle later. A
    bank that is being accumulated onto is not read: ``reads`` waits, accumulation never does. Contents survive reset,
    what is in flight does not.
    """

    config: TensorConfig

    def __init__(self, config: TensorConfig) -> None:
        ports = {
            "token": In(column_token(config)),
            "sums": In(config.columns * FP32.width),
            "done": Out(1),
            "reads": In(stream.Signature(address_layout(config))),
            "data": Out(stream.Signature(config.columns * FP32.width)),
        }
        super().__init__(config, Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """Read, add, write."""
        m = Module()
        config, token = self.config, self.token
        width = config.columns * FP32.width
        banks, read_data = [], []
        for index in range(config.psum_banks):
            memory: Memory = Memory(shape=width, depth=config.bank_depth, init=[])
            m.submodules[f"bank_{index}"] = memory
            banks.append((memory.write_port(), memory.read_port()))
            read_data.append(banks[-1][1].data)

        adding = token.valid & token.accumulate
        reading = Signal()
        m.d.comb += reading.eq(self.reads.valid & self.reads.ready)
        for index, (_, port) in enumerate(banks):
            mine = Signal(name=f"adding_{index}")
            m.d.comb += [
                mine.eq(adding & (token.address.bank == index)),
                port.addr.eq(Mux(mine, token.address.offset, self.reads.payload.offset)),
                port.en.eq(mine | (reading & (self.reads.payload.bank == index))),
            ]

        # One cycle later: the old values and the sums meet; add_stages after that the results are written.
        stages = [token]
        for stage in range(1 + config.add_stages):
            following = Signal(column_token(config), name=f"token_{stage}")
            m.d.sync += following.eq(stages[-1])
            stages.append(following)
        old = Array(read_data)[stages[1].address.bank]
        results: Any = self._add(m, platform, stages[1], old)
        written = stages[-1]
        if config.transpose:
            kept = Mux(stages[1].accumulate, old, 0)
            joined = later(m, "joined", (self.sums | kept)[:width], config.add_stages)
            results = Mux(written.moved, joined, results)
        for index, (write, _) in enumerate(banks):
            m.d.comb += [
                write.addr.eq(written.address.offset),
                write.data.eq(results),
                write.en.eq(written.valid & (written.address.bank == index)),
            ]
        m.d.comb += self.done.eq(written.valid & written.last)
        self._serve(m, adding, reading, read_data)
        return m

    def _add(self, m: Module, platform: Any, token: Any, old: Any) -> Signal:
        """``sums`` plus the old values, or plus -0, which changes no bit of any sum."""
        config = self.config
        before, results = Signal(len(self.sums)), Signal(len(self.sums))
        m.d.comb += before.eq(Mux(token.accumulate, old, Const(NEUTRAL, FP32.width).replicate(config.columns)))
        for column in range(config.columns):
            adder = Add(AddConfig(stages=config.add_stages))
            m.submodules[f"add_{column}"] = place(adder, platform)
            m.d.comb += [
                adder.a.as_value().eq(self.sums.word_select(column, FP32.width)),
                adder.b.as_value().eq(before.word_select(column, FP32.width)),
                results.word_select(column, FP32.width).eq(adder.result),
            ]
        return results

    def _serve(self, m: Module, adding: Any, reading: Any, read_data: list[Any]) -> None:
        """Offer what was read; keep it when it is not taken, because the bank's output may change."""
        config, token = self.config, self.token
        fetched, kept = Signal(), Signal()
        bank = Signal(address_layout(config)["bank"].shape)
        store = Signal(len(self.sums), reset_less=True)
        out = self.data
        m.d.comb += [
            self.reads.ready.eq(
                ~(adding & (token.address.bank == self.reads.payload.bank)) & ~(out.valid & ~out.ready)
            ),
            out.valid.eq(fetched | kept),
            out.payload.eq(Mux(kept, store, Array(read_data)[bank])),
        ]
        m.d.sync += [
            fetched.eq(reading),
            bank.eq(self.reads.payload.bank),
            kept.eq(out.valid & ~out.ready),
        ]
        with m.If(fetched):
            m.d.sync += store.eq(Array(read_data)[bank])
