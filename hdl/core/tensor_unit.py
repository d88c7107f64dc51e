"""The tensor engine on the memories: stationaries and moving columns from SBUF, results in PSUM."""

from typing import Any

from amaranth.hdl import C, Cat, Module, Mux, Signal
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.check import BESIDE_SIZE, marks, tensor_size
from hdl.core.columns import gather_moving, gather_stationary
from hdl.core.layouts import (
    COUNTER_BITS,
    FAULT,
    UPDATE,
    answer,
    issue_layout,
    psum_request,
    psum_store,
    row_layout,
    sbuf_request,
)
from hdl.core.reader import Reader
from hdl.core.unit import NONE, drive_job, drive_update
from hdl.fifo import Fifo
from hdl.tensor.engine import TensorEngine
from spec.core import ENGINES, CoreConfig
from spec.fifo import FifoConfig
from spec.isa import DIMENSIONS, FIRST_OF_ENGINE, MOMENTS, TENSOR_BASE
from spec.tensor import SCALE, Operation

READ = MOMENTS.index("read")
DEPTH = 32
"""Instructions under way."""
AHEAD = 4
"""Instructions whose operands are fetched before the engine can take them: so it never waits for the first column."""
KINDS = 16
"""Loads, and matmuls, whose columns are on their way."""
RECORD = data.StructLayout({"counter": COUNTER_BITS, "update": UPDATE, "at": 1})


class TensorUnit(Block):
    """Instructions go to the engine in order, their patterns to readers: ``load_columns`` for loads, one for matmuls.

    A stationary comes a group of ``load_columns`` columns a cycle where the rows of its pattern are whole groups, each
    reader with a column of its own; otherwise, and where it has scales or tags, a column a cycle, gathered into groups.
    A moving column comes a cycle, its planes, of which a sparse stationary needs several, at the same time. The first
    ports ``sbuf_n`` are those of a group's columns, then come those of planes, of what is beside a load and beside a
    matmul, as far as the engine has them. Instructions complete in order.
    ``updates_0`` carries those at completion, ``updates_1`` and ``updates_2`` those of loads and matmuls at their last
    read. Rows beyond a pattern's partitions are neutral: +0 in a stationary, what multiplies to -0 in moving columns.
    ``psum`` reads results, ``psum_write`` is for those of other engines; ``fault`` is valid for a cycle for each
    refused instruction. ``busy`` while any is under way.
    """

    config: CoreConfig

    def __init__(self, config: CoreConfig) -> None:
        ports: dict[str, Any] = {
            "issue": In(stream.Signature(issue_layout("tensor"))),
            "psum": In(stream.Signature(psum_request(config))),
            "psum_answer": Out(answer(row_layout(config))),
            "psum_write": In(stream.Signature(psum_store(config))),
            "fault": Out(FAULT),
            "busy": Out(1),
        }
        for index in range(config.operand_ports):
            ports[f"sbuf_{index}"] = Out(stream.Signature(sbuf_request(config)))
            ports[f"sbuf_answer_{index}"] = In(answer(row_layout(config)))
        for index in range(3):
            ports[f"updates_{index}"] = Out(stream.Signature(UPDATE))
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """Engine, readers, queues of what is under way."""
        m = Module()
        config = self.config
        engine = TensorEngine(config.tensor)
        m.submodules.engine = place(engine, platform)
        readers = [Reader(config) for _ in range(config.operand_ports)]
        count = config.tensor.load_columns
        loads, moving = readers[:count], readers[count : count + config.tensor.planes]
        beside = readers[count + len(moving) :]
        queues = [Fifo(FifoConfig(width=RECORD.size, depth=DEPTH)) for _ in range(3)]
        for index, queue in enumerate(queues):
            m.submodules[f"queue_{index}"] = place(queue, platform)
        for index, reader in enumerate(readers):
            m.submodules[f"reader_{index}"] = place(reader, platform)
            outside, back = getattr(self, f"sbuf_{index}"), getattr(self, f"sbuf_answer_{index}")
            m.d.comb += [
                outside.valid.eq(reader.sbuf.valid),
                outside.payload.eq(reader.sbuf.payload),
                reader.sbuf.ready.eq(outside.ready),
                reader.sbuf_answer.eq(back),
            ]
        ahead = Fifo(FifoConfig(width=engine.requests.payload.shape().size, depth=AHEAD))
        m.submodules.ahead = place(ahead, platform)
        word = self.issue.payload.word
        matmul = Signal()
        m.d.comb += matmul.eq(word.opcode != TENSOR_BASE)
        together = Signal()
        scaled, tagged = marks(config, word)
        marked = Signal()
        m.d.comb += [marked.eq(scaled | tagged), together.eq(self._together(word) & ~marked)]
        kinds = Fifo(FifoConfig(width=2, depth=KINDS))
        shapes = Fifo(FifoConfig(width=len(moving) + 1, depth=KINDS))
        m.submodules.kinds = place(kinds, platform)
        m.submodules.shapes = place(shapes, platform)
        planes = [C(1)] + [word.sparse & (word.source.num3 > plane) for plane in range(1, len(moving))]
        wanted = [
            *(~matmul & (together | (index == 0)) for index in range(count)),
            *(matmul & plane for plane in planes),
        ]
        wanted += [~matmul & marked, matmul & marked][: len(beside)]
        mine = [~matmul, matmul]
        room = queues[0].i.ready & Mux(matmul, queues[2].i.ready & shapes.i.ready, queues[1].i.ready & kinds.i.ready)
        free = Cat(reader.jobs.ready | ~used for reader, used in zip(readers, wanted, strict=True)).all()
        request = Signal(engine.requests.payload.shape())
        depth = (config.tensor.bank_depth - 1).bit_length()
        moved = Signal()
        size, fill = tensor_size(m, word.format)
        record = Signal(RECORD)
        drive_update(m, record.update, word)
        m.d.comb += [
            request.operation.eq(Mux(matmul, Operation.MATMUL, Operation.LOAD_STATIONARY)),
            request.format.eq(word.format),
            request.columns.eq(word.columns),
            request.offset.eq(Mux(matmul, word.location[:depth], word.first)),
            request.bank.eq(Mux(matmul, word.location[depth:], 0)),
            request.sparse.eq(tagged),
            request.accumulate.eq(word.accumulate),
            request.split.eq(word.split),
            request.masked.eq(word.masked),
            request.result.eq(word.result),
            moved.eq(self.issue.valid & room & free & ahead.i.ready),
            ahead.i.valid.eq(moved),
            ahead.i.payload.eq(request.as_value()),
            engine.requests.valid.eq(ahead.o.valid),
            engine.requests.payload.as_value().eq(ahead.o.payload),
            ahead.o.ready.eq(engine.requests.ready),
            self.issue.ready.eq(moved),
            record.counter.eq(self.issue.payload.counter),
            record.at.eq(word.update_at),
            queues[0].i.valid.eq(moved),
            queues[0].i.payload.eq(record),
            kinds.i.valid.eq(moved & ~matmul),
            kinds.i.payload.eq(Cat(together, marked)),
            shapes.i.valid.eq(moved & matmul),
            shapes.i.payload.eq(Cat(*planes, marked)),
            *(reader.jobs.valid.eq(moved & used) for reader, used in zip(readers, wanted, strict=True)),
        ]
        for plane, reader in enumerate(moving):
            job, step = reader.jobs.payload, getattr(word.source, f"step{DIMENSIONS - 1}")
            drive_job(m, config, job, word.source, size, word.columns, fill)
            if len(moving) > 1:
                with m.If(word.sparse):
                    m.d.comb += [job.offset.eq(word.source.offset + ((step * plane) << size)), job.nums[-1].eq(1)]
        for reader in beside:
            blank = Mux(scaled, SCALE.bias, 0)
            drive_job(m, config, reader.jobs.payload, word.beside, C(BESIDE_SIZE, 2), word.columns, blank)
        shift = config.tensor.load_columns.bit_length() - 1
        for index, reader in enumerate(loads):
            job, step = reader.jobs.payload, word.source.step0
            drive_job(m, config, job, word.source, size, word.columns)
            with m.If(together):
                m.d.comb += [
                    job.offset.eq(word.source.offset + ((step * index) << size)),
                    job.steps[0].eq(step << shift),
                    job.nums[0].eq(word.source.num0 >> shift),
                    job.count.eq(word.columns >> shift),
                ]
        for index in range(2):
            m.d.comb += [
                queues[1 + index].i.valid.eq(moved & mine[index]),
                queues[1 + index].i.payload.eq(record),
            ]
        with_loads, with_matmuls = (*beside, None, None)[:2]
        gather_stationary(m, config.tensor, engine, loads, with_loads, kinds)
        gather_moving(m, config.tensor, engine, moving, with_matmuls, shapes)
        self._ends(m, engine, [loads[0], moving[0]], queues)
        self._psum(m, engine, depth)
        return m

    def _together(self, word: Any) -> Any:
        """Whether groups of columns are read at once: rows are whole groups, and the steps of each reader fit."""
        shift = self.config.tensor.load_columns.bit_length() - 1
        step = word.source.step0
        return ~Cat(word.columns[:shift], word.source.num0[:shift]).any() & (
            step[-1 - shift :].all() | ~step[-1 - shift :].any()
        )

    def _ends(self, m: Module, engine: Any, readers: list[Reader], queues: list[Fifo]) -> None:
        """Statuses and last reads become updates."""
        status = engine.status
        oldest = data.View(RECORD, queues[0].o.payload)
        refused = status.payload.status != 0
        due = ~refused & (oldest.update.kind != NONE) & (oldest.at != READ)
        m.d.comb += [
            self.updates_0.valid.eq(status.valid & due),
            self.updates_0.payload.eq(oldest.update),
            status.ready.eq(~due | self.updates_0.ready),
            queues[0].o.ready.eq(status.valid & status.ready),
            self.fault.engine.eq(ENGINES.index("tensor")),
            self.fault.counter.eq(oldest.counter),
            self.busy.eq(queues[0].o.valid | queues[1].o.valid | queues[2].o.valid),
        ]
        with m.If(status.valid & refused):
            m.d.comb += self.fault.reason.eq(FIRST_OF_ENGINE["tensor"] + status.payload.status)
        for index, reader in enumerate(readers):
            queue, update = queues[1 + index], getattr(self, f"updates_{1 + index}")
            record = data.View(RECORD, queue.o.payload)
            ended = Signal(range(DEPTH + 1), name=f"ended_{index}")
            due = (record.update.kind != NONE) & (record.at == READ)
            m.d.comb += [
                update.valid.eq((ended != 0) & due),
                update.payload.eq(record.update),
                queue.o.ready.eq((ended != 0) & (~due | update.ready)),
            ]
            last = reader.rows.valid & reader.rows.ready & reader.rows.payload.last
            m.d.sync += ended.eq(ended + last - (queue.o.valid & queue.o.ready))

    def _psum(self, m: Module, engine: Any, depth: int) -> None:
        """Reads of results; writes of others."""
        location, place_ = self.psum.payload.location, self.psum_write.payload.location
        m.d.comb += [
            engine.reads.valid.eq(self.psum.valid),
            engine.reads.payload.offset.eq(location[:depth]),
            engine.reads.payload.bank.eq(location[depth:]),
            self.psum.ready.eq(engine.reads.ready),
            engine.results.ready.eq(1),
            self.psum_answer.valid.eq(engine.results.valid),
            self.psum_answer.data.as_value().eq(engine.results.payload["values"].as_value()),
            engine.writes.valid.eq(self.psum_write.valid),
            engine.writes.payload.address.offset.eq(place_[:depth]),
            engine.writes.payload.address.bank.eq(place_[depth:]),
            engine.writes.payload.data.eq(self.psum_write.payload.data.as_value()),
            engine.writes.payload.mask.eq(self.psum_write.payload.mask),
            self.psum_write.ready.eq(engine.writes.ready),
        ]
