"""Operand streams: rows of elements that patterns name, from SBUF or PSUM."""

from typing import Any

from amaranth.hdl import Array, C, Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.layouts import answer, job_layout, psum_request, psum_store, row_layout, sbuf_request
from hdl.core.walk import Walk
from hdl.fifo import Fifo
from spec.core import QUARTERS, CoreConfig
from spec.fifo import FifoConfig

DEPTH = 8
"""Rows on their way or waiting: more than a request takes to come back."""


class Reader(Block):
    """Executes jobs in order, one row a cycle, back to back where the memories allow it.

    ``jobs`` in; ``rows`` out, for each job ``count`` rows of element codes, lane 0 the job's first partition; lanes
    beyond the job's partitions hold its ``fill``. ``last`` marks a job's last row. ``sbuf`` and ``psum`` are memory
    ports. Jobs that follow each other directly must be of one memory: answers of the two are not ordered. ``busy``
    until every row has been taken. ``clear`` drops the job and whatever comes of it while it is 1; hold it until
    ``busy`` falls. First row 4 cycles after its job is taken from SBUF, 3 from PSUM.
    """

    config: CoreConfig

    def __init__(self, config: CoreConfig) -> None:
        ports = {
            "jobs": In(stream.Signature(job_layout(config))),
            "rows": Out(stream.Signature(data.StructLayout({"row": row_layout(config), "last": 1}))),
            "sbuf": Out(stream.Signature(sbuf_request(config))),
            "sbuf_answer": In(answer(row_layout(config))),
            "psum": Out(stream.Signature(psum_request(config))),
            "psum_answer": In(answer(row_layout(config))),
            "clear": In(1),
            "busy": Out(1),
        }
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """Walk, ask, take apart, queue."""
        m = Module()
        config = self.config
        job, take = self.jobs.payload, Signal()
        active, left = Signal(), Signal(job.count.shape())
        about = Signal(data.StructLayout({"psum": 1, "quarter": 2, "partitions": job.partitions.shape(),
                                          "size": 2, "fill": 32}))  # fmt: skip
        walk = Walk(m, "walk", signed(32), signed(20), 16)
        room = Signal(range(DEPTH + 1), init=DEPTH)
        asked, final = Signal(), Signal()
        want = active & (room != 0) & ~self.clear
        m.d.comb += [
            final.eq(left == 1),
            self.sbuf.valid.eq(want & ~about.psum),
            self.psum.valid.eq(want & about.psum),
            self.sbuf.payload.row.eq(walk.offset[2:]),
            self.psum.payload.location.eq(walk.offset[2:]),
            asked.eq((self.sbuf.valid & self.sbuf.ready) | (self.psum.valid & self.psum.ready)),
            self.jobs.ready.eq(~self.clear & (~active | (asked & final))),
            take.eq(self.jobs.valid & self.jobs.ready),
        ]
        with m.If(asked):
            walk.advance()
            m.d.sync += [left.eq(left - 1), active.eq(~final)]
        with m.If(take):
            walk.load(job.offset, [step << job.size for step in job.steps], list(job.nums))
            m.d.sync += [
                left.eq(job.count),
                active.eq(job.count != 0),
                about.psum.eq(job.psum),
                about.quarter.eq(job.quarter),
                about.partitions.eq(job.partitions),
                about.size.eq(job.size),
                about.fill.eq(job.fill),
            ]
        with m.If(self.clear):
            m.d.sync += active.eq(0)

        tags = Fifo(FifoConfig(width=len(about.as_value()) + 3, depth=DEPTH))
        rows = Fifo(FifoConfig(width=32 * config.partitions + 1, depth=DEPTH))
        m.submodules.tags = place(tags, platform)
        m.submodules.rows = place(rows, platform)
        arrived, words = Signal(), Signal(row_layout(config))
        tag = data.View(data.StructLayout({"about": about.shape(), "byte": 2, "last": 1}), tags.o.payload)
        m.d.comb += [
            tags.i.valid.eq(asked),
            tags.i.payload.eq(Cat(about.as_value(), walk.offset[:2], final)),
            arrived.eq(self.sbuf_answer.valid | self.psum_answer.valid),
            words.eq(Mux(self.sbuf_answer.valid, self.sbuf_answer.data, self.psum_answer.data)),
            tags.o.ready.eq(arrived),
            rows.i.valid.eq(arrived),
            rows.i.payload.eq(Cat(self._elements(m, words, tag.about, tag.byte), tag.last)),
            self.rows.valid.eq(rows.o.valid & ~self.clear),
            self.rows.payload.as_value().eq(rows.o.payload),
            rows.o.ready.eq(self.rows.ready | self.clear),
            self.busy.eq(active | (room != DEPTH)),
        ]
        m.d.sync += room.eq(room - asked + (rows.o.valid & rows.o.ready))
        return m

    def _elements(self, m: Module, words: Any, about: Any, byte: Any) -> Signal:
        """The lanes' elements: turned by quarters, bytes picked, what is not used filled."""
        config = self.config
        quarter = 32 * config.quarter
        flat = words.as_value()
        turned = Signal(row_layout(config))
        m.d.comb += turned.as_value().eq(
            Array(Cat(flat[quarter * index :], flat[: quarter * index]) for index in range(QUARTERS))[about.quarter]
        )
        found = Signal(row_layout(config), name="elements")
        for index in range(config.partitions):
            word = turned[index]
            narrow = Mux(about.size == 0, word.word_select(byte, 8), word.word_select(byte[1], 16))
            element = Mux(about.size == 2, word, narrow)
            m.d.comb += found[index].eq(Mux(index < about.partitions, element, about.fill))
        return found


class Writer(Block):
    """Writes rows where a pattern says, as fast as the memory takes them.

    ``start`` loads ``job``; rows taken afterwards go to its elements in order, through ``sbuf`` or ``psum``. A row is
    taken in the cycle in which the memory takes it, so who sees a row taken knows that it is written. Only lanes of
    ``written`` below the job's partitions change anything.
    """

    config: CoreConfig

    def __init__(self, config: CoreConfig) -> None:
        ports = {
            "start": In(1),
            "job": In(job_layout(config)),
            "rows": In(stream.Signature(data.StructLayout({"row": row_layout(config), "written": config.partitions}))),
            "sbuf": Out(stream.Signature(sbuf_request(config))),
            "psum": Out(stream.Signature(psum_store(config))),
        }
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """Walk, turn, place bytes."""
        m = Module()
        config, job = self.config, self.job
        quarter, partitions, size, psum = Signal(2), Signal(job.partitions.shape()), Signal(2), Signal()
        walk = Walk(m, "walk", signed(32), signed(20), 16)
        request, lanes = self.sbuf.payload, config.partitions
        byte = walk.offset[:2]
        values, masks = [], []
        for index in range(lanes):
            word = self.rows.payload.row[index]
            narrow = Mux(size == 0, word[:8].replicate(4), word[:16].replicate(2))
            values.append(Mux(size == 2, word, narrow))
            mask = Mux(size == 2, C(0b1111, 4), Mux(size == 1, C(0b0011, 4) << byte, C(0b0001, 4) << byte))
            masks.append(Mux(self.rows.payload.written[index] & (index < partitions), mask[:4], 0)[:4])
        turns = [lanes - config.quarter * index for index in range(QUARTERS)]
        m.d.comb += [
            self.sbuf.valid.eq(self.rows.valid & ~psum),
            self.psum.valid.eq(self.rows.valid & psum),
            self.rows.ready.eq(Mux(psum, self.psum.ready, self.sbuf.ready)),
            self.psum.payload.write.eq(1),
            self.psum.payload.location.eq(walk.offset[2:]),
            self.psum.payload.data.eq(request.data),
            self.psum.payload.mask.eq(request.mask),
            request.write.eq(1),
            request.row.eq(walk.offset[2:]),
            request.data.as_value().eq(
                Array(Cat(*values[turn:], *values[:turn]) for turn in (t % lanes for t in turns))[quarter]
            ),
            request.mask.eq(Array(Cat(*masks[turn:], *masks[:turn]) for turn in (t % lanes for t in turns))[quarter]),
        ]
        with m.If(self.rows.valid & self.rows.ready):
            walk.advance()
        with m.If(self.start):
            walk.load(job.offset, [step << job.size for step in job.steps], list(job.nums))
            m.d.sync += [quarter.eq(job.quarter), partitions.eq(job.partitions), size.eq(job.size), psum.eq(job.psum)]
        return m
