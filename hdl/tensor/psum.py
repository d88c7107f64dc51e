"""PSUM: banks of fp32 results that accumulate where they lie."""

from typing import Any

from amaranth.hdl import Array, Cat, Const, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block, place
from hdl.numerics import Add
from hdl.tensor.later import later
from hdl.tensor.layouts import address_layout, column_token, write_layout
from hdl.tensor.narrow import Narrow
from spec.formats import FP32
from spec.numerics import AddConfig
from spec.tensor import TensorConfig, first_state

NEUTRAL = 1 << (FP32.width - 1)
"""-0: the fp32 number whose sum with any other is that other."""


class Psum(Block):
    """``psum_banks`` banks, each one read and one write port, and an fp32 adder for each column of the array.

    ``token`` announces ``sums``, which follow one cycle later. They are written to the token's address, or added to
    what lies there (moved bits: joined with it by or), one location each cycle; the result can be read, and accumulated
    onto, ``accumulate_distance`` cycles after its token. Closer accumulation would lose a sum: the sequencer keeps that
    distance. ``done`` is 1 in the cycle before the last column of a matmul can be read.

    Where the array's rows are split, there are as many sums at a time, each with adders of its own: they go to the
    token's bank and the ones behind it, to the same offset. Masked tiles of columns are not written. Sums that the
    token wants narrow are rounded to bf16 in a cycle more; ``reseed`` and ``seed`` are those of
    :class:`hdl.tensor.narrow.Narrow`.

    ``reads`` takes one address a cycle; its values are offered at ``data`` in order, the first time one cycle later. A
    bank that is being accumulated onto is not read: ``reads`` waits, accumulation never does. ``writes`` takes some
    bytes of a location a cycle; they can be read in the next. It waits while a result is written into that bank.
    Contents survive reset, what is in flight does not.
    """

    config: TensorConfig

    def __init__(self, config: TensorConfig) -> None:
        ports = {
            "token": In(column_token(config)),
            "sums": In(config.tiles * config.columns * FP32.width),
            "done": Out(1),
            "reads": In(stream.Signature(address_layout(config))),
            "data": Out(stream.Signature(config.columns * FP32.width)),
            "writes": In(stream.Signature(write_layout(config))),
        }
        if config.bf16_results:
            ports |= {"reseed": In(1), "seed": In(FP32.width)}
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
            banks.append((memory.write_port(granularity=8), memory.read_port()))
            read_data.append(banks[-1][1].data)

        # One cycle later: the old values and the sums meet; when they are added and rounded, the results are written.
        stages = [token]
        for stage in range(config.accumulate_distance - 1):
            following = Signal(column_token(config), name=f"token_{stage}")
            m.d.sync += following.eq(stages[-1])
            stages.append(following)

        busy = [token.accumulate & self._goes(token, index) for index in range(config.psum_banks)]
        reading = Signal()
        m.d.comb += reading.eq(self.reads.valid & self.reads.ready)
        for index, (_, port) in enumerate(banks):
            mine = Signal(name=f"adding_{index}")
            m.d.comb += [
                mine.eq(busy[index]),
                port.addr.eq(Mux(mine, token.address.offset, self.reads.payload.offset)),
                port.en.eq(mine | (reading & (self.reads.payload.bank == index))),
            ]
        old = Array(read_data)
        results = []
        for way in range(config.tiles):
            before = old[(stages[1].address.bank + way)[: len(stages[1].address.bank)]]
            results.append(self._add(m, platform, way, stages, before))
        written, outside = stages[-1], self.writes.payload
        filled = Signal(config.psum_banks)
        m.d.comb += self.writes.ready.eq(~filled.bit_select(outside.address.bank, 1))
        for index, (write, _) in enumerate(banks):
            way = (index - written.address.bank)[: config.splits - 1]
            mask = written.masked if config.tiles > 1 else Const(0, 1)
            bytes_ = Cat(tile.replicate(len(write.en) // config.tiles) for tile in ~mask)
            mine = self.writes.valid & (outside.address.bank == index)
            m.d.comb += [
                filled[index].eq(self._goes(written, index)),
                write.addr.eq(Mux(filled[index], written.address.offset, outside.address.offset)),
                write.data.eq(
                    Mux(filled[index], Array(results)[way] if config.tiles > 1 else results[0], outside.data)
                ),
                write.en.eq(Mux(filled[index], bytes_, Mux(mine, outside.mask, 0))),
            ]
        m.d.comb += self.done.eq(written.valid & written.last)
        self._serve(m, busy, reading, read_data)
        return m

    def _active(self, token: Any, way: int) -> Any:
        """Whether the token brings a result ``way``."""
        return token.valid & (token.split >= way.bit_length()) if way else token.valid

    def _goes(self, token: Any, bank: int) -> Any:
        """Whether one of the token's results belongs to the bank."""
        ways = range(min(self.config.tiles, bank + 1))
        return Cat(self._active(token, way) & (token.address.bank == bank - way) for way in ways).any()

    def _add(self, m: Module, platform: Any, way: int, stages: list[Any], old: Any) -> Any:
        """The sums of one way plus the ``old`` values, or plus -0, which changes no bit of any sum."""
        config, token = self.config, stages[1]
        width = config.columns * FP32.width
        sums = self.sums.word_select(way, width)
        before = Signal(width, name=f"before_{way}")
        results: Any = Signal(width, name=f"results_{way}")
        m.d.comb += before.eq(Mux(token.accumulate, old, Const(NEUTRAL, FP32.width).replicate(config.columns)))
        for column in range(config.columns):
            adder = Add(AddConfig(stages=config.add_stages))
            m.submodules[f"add_{way}_{column}"] = place(adder, platform)
            m.d.comb += [
                adder.a.as_value().eq(sums.word_select(column, FP32.width)),
                adder.b.as_value().eq(before.word_select(column, FP32.width)),
                results.word_select(column, FP32.width).eq(adder.result),
            ]
        added = stages[1 + config.add_stages]
        if config.transpose:
            kept = Mux(token.accumulate, old, 0)
            joined = later(m, f"joined_{way}", (sums | kept)[:width], config.add_stages)
            results = Mux(added.moved, joined, results)
        return self._narrow(m, platform, way, added, results) if config.bf16_results else results

    def _narrow(self, m: Module, platform: Any, way: int, token: Any, sums: Any) -> Any:
        """The rounding of one way, with generators that begin apart."""
        columns = self.config.columns
        first = [Const(first_state(way * columns + column), FP32.width) for column in range(columns)]
        narrow = Narrow(self.config)
        m.submodules[f"narrow_{way}"] = place(narrow, platform)
        m.d.comb += [
            narrow.sums.eq(sums),
            narrow.valid.eq(self._active(token, way)),
            narrow.narrow.eq(token.narrow),
            narrow.stochastic.eq(token.stochastic),
            narrow.first.eq(Cat(first)),
            narrow.reseed.eq(self.reseed),
            narrow.seed.eq(self.seed),
        ]
        return narrow.results

    def _serve(self, m: Module, busy: list[Any], reading: Any, read_data: list[Any]) -> None:
        """Offer what was read; keep it when it is not taken, because the bank's output may change."""
        fetched, kept = Signal(), Signal()
        bank = Signal(address_layout(self.config)["bank"].shape)
        out = self.data
        store = Signal(len(out.payload), reset_less=True)
        mine = Array(busy)[self.reads.payload.bank]
        m.d.comb += [
            self.reads.ready.eq(~mine & ~(out.valid & ~out.ready)),
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
