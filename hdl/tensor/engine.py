"""The tensor engine."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, Signature, connect, flipped

from hdl.block import Block, place
from hdl.tensor.array import Array
from hdl.tensor.layouts import (
    COUNTERS,
    STATUS,
    column_layout,
    group_layout,
    read_layout,
    request_layout,
    result_layout,
    write_layout,
)
from hdl.tensor.psum import Psum
from hdl.tensor.sequencer import Sequencer
from hdl.tensor.written import WrittenMap
from spec.formats import FP32
from spec.tensor import TensorConfig


class TensorEngine(Block):
    """Matrix products: ``psum[m, n] = (psum[m, n] +) sum over k of stationary[k, m] * moving[k, n]``, k ascending.

    ========================  =================================================================================
    ``requests``              ``load_stationary`` and ``matmul``, see :class:`hdl.tensor.sequencer.Sequencer`
    ``stationary``            operands of the loads, ``load_columns`` columns of ``rows`` elements a cycle
    ``moving``                operands of the matmuls, one column of ``rows`` elements a cycle
    ``status``                one for each instruction, in order; a matmul's result can be read once it is given
    ``reads``, ``results``    reads of PSUM: one location, all columns of the array, and whether it was written
    ``writes``                of others into PSUM: some bytes of one location, which then counts as written
    ``counters``              cycles with a moving column, without one, and held
    ========================  =================================================================================

    Every stream may pause at any time. A matmul takes one cycle a column, back to back with the one before, and its
    status follows ``config.latency`` cycles after its last column. A load takes whole groups of ``load_columns``
    columns; columns beyond its last group keep the weights they had. Rows that a product does not need get +0 as
    stationary and -0 as moving operands: their product, -0, changes no sum.

    Beyond that, as far as they are built in: stationaries that are ``sparse``; rows ``split`` into tiles that multiply
    side by side, each into a bank of its own; tiles of columns ``masked`` from being written; results rounded to bf16,
    for which a pulse of ``reseed``, while no matmul is under way, restarts the random generators with ``seed``.

    Reset drops what is in flight. PSUM then counts as never written.
    """

    config: TensorConfig

    def __init__(self, config: TensorConfig) -> None:
        ports = {
            "requests": In(stream.Signature(request_layout(config))),
            "stationary": In(stream.Signature(group_layout(config))),
            "moving": In(stream.Signature(column_layout(config))),
            "status": Out(stream.Signature(STATUS)),
            "reads": In(stream.Signature(read_layout(config))),
            "results": Out(stream.Signature(result_layout(config))),
            "writes": In(stream.Signature(write_layout(config))),
            "counters": Out(COUNTERS),
        }
        if config.bf16_results:
            ports |= {"reseed": In(1), "seed": In(FP32.width)}
        super().__init__(config, Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """Connect sequencer, array and PSUM."""
        m = Module()
        sequencer, array = Sequencer(self.config), Array(self.config)
        psum = Psum(self.config)
        written = [WrittenMap(self.config) for _ in range(self.config.tiles)]
        m.submodules.sequencer = place(sequencer, platform)
        m.submodules.array = place(array, platform)
        m.submodules.psum = place(psum, platform)
        for tile, part in enumerate(written):
            m.submodules[f"map_{tile}"] = place(part, platform)

        masks = [(part, self.requests.payload.masked[tile]) for tile, part in enumerate(written)]
        connect(m, flipped(self.requests), sequencer.requests)
        connect(m, sequencer.status, flipped(self.status))
        m.d.comb += [
            sequencer.stationary_valid.eq(self.stationary.valid),
            self.stationary.ready.eq(sequencer.stationary_ready),
            sequencer.moving_valid.eq(self.moving.valid),
            self.moving.ready.eq(sequencer.moving_ready),
            array.control.eq(sequencer.control),
            array.stationary.eq(self.stationary.payload),
            array.moving.eq(self.moving.payload),
            psum.token.eq(array.token),
            psum.sums.eq(array.sums),
            sequencer.done.eq(psum.done),
            sequencer.all_written.eq(Cat(part.all_written | mask for part, mask in masks).all()),
            self.counters.eq(sequencer.counters),
        ]
        for part, mask in masks:
            m.d.comb += [
                part.start.eq(sequencer.start),
                part.columns.eq(sequencer.columns),
                part.mark.eq(sequencer.mark & ~mask),
                part.filled.eq(self.writes.payload.address),
            ]
            if self.config.tiles > 1:
                m.d.comb += part.split.eq(self.requests.payload.split)
        if self.config.bf16_results:
            m.d.comb += [psum.reseed.eq(self.reseed), psum.seed.eq(self.seed)]
        connect(m, flipped(self.writes), psum.writes)
        touched = self.writes.payload.mask
        for tile, part in enumerate(written):
            own = touched.word_select(tile, len(touched) // len(written)).any()
            m.d.comb += part.fill.eq(self.writes.valid & self.writes.ready & own)
        self._read(m, psum, written)
        return m

    def _read(self, m: Module, psum: Psum, written: list[WrittenMap]) -> None:
        """Reads of PSUM, each with its bits of the maps; Psum offers one result at a time, so one word is kept."""
        bits = Signal(len(written))
        m.d.comb += [
            psum.reads.valid.eq(self.reads.valid),
            psum.reads.payload.offset.eq(self.reads.payload.offset),
            psum.reads.payload.bank.eq(self.reads.payload.bank),
            self.reads.ready.eq(psum.reads.ready),
            *(part.location.eq(self.reads.payload) for part in written),
            self.results.valid.eq(psum.data.valid),
            self.results.payload.values.as_value().eq(psum.data.payload),
            self.results.payload.written.eq(bits),
            psum.data.ready.eq(self.results.ready),
        ]
        with m.If(self.reads.valid & self.reads.ready):
            m.d.sync += bits.eq(Cat(part.one_written for part in written))
