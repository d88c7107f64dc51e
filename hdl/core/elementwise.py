"""Units of vector and scalar engine: operands fetched, results written, one instruction after the other."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.check import CONSTANT_USERS, READ_ACCUMULATOR, format_size, vector_entry, vector_size
from hdl.core.layouts import FAULT, UPDATE, answer, issue_layout, psum_request, psum_store, row_layout, sbuf_request
from hdl.core.reader import Reader, Writer
from hdl.core.share import Share
from hdl.core.unit import NONE, drive_constant, drive_job, drive_update, join, pass_on
from hdl.scalar.engine import ScalarEngine
from hdl.vector.decode import needs_of
from hdl.vector.engine import VectorEngine
from spec.core import ENGINES, CoreConfig, ShareConfig
from spec.isa import FIRST_OF_ENGINE, MOMENTS
from spec.scalar import INSTRUCTION as SCALAR_INSTRUCTION
from spec.vector import SEARCH_SLOTS

READ = MOMENTS.index("read")


class ElementUnit(Block):
    """An engine of one element a lane and cycle, on the memories; what vector and scalar unit have in common.

    ``issue`` takes an instruction when the one before is complete, so its operands are what that one wrote.
    ``sbuf_read``, ``sbuf_write``, ``psum`` (reads) and ``psum_write``, each one row a cycle, are memory ports; all
    operands in SBUF share one. ``update``: what instructions do to semaphores; ``fault`` is valid for a cycle when the
    engine refuses one. ``busy`` while there is an instruction. Rows of constants are read before the last operand, by
    its reader.
    """

    config: CoreConfig
    name: str
    operands: int
    """Readers."""

    def __init__(self, config: CoreConfig) -> None:
        ports: dict[str, Any] = {
            "issue": In(stream.Signature(issue_layout(self.name))),
            "sbuf_read": Out(stream.Signature(sbuf_request(config))),
            "sbuf_answer": In(answer(row_layout(config))),
            "sbuf_write": Out(stream.Signature(sbuf_request(config))),
            "psum": Out(stream.Signature(psum_request(config))),
            "psum_answer": In(answer(row_layout(config))),
            "psum_write": Out(stream.Signature(psum_store(config))),
            "update": Out(stream.Signature(UPDATE)),
            "fault": Out(FAULT),
            "busy": Out(1),
        }
        super().__init__(config, ports)

    def engine(self, m: Module, platform: Any, word: Any) -> tuple[Any, list[Any]]:
        """Place the engine and drive its instruction; returns it and its operand streams, in the order of readers."""
        raise NotImplementedError

    def needs(self, m: Module, word: Any, jobs: list[Any]) -> tuple[list[Any], list[tuple[Any, Any]]]:
        """Drive the jobs, the writer's last; which operands are used, and ``(word, used)`` of the constants."""
        raise NotImplementedError

    def elaborate(self, platform: Any) -> Module:
        """Readers, engine, writer, and the state machine that leads them."""
        m = Module()
        config = self.config
        held = Signal(issue_layout(self.name))
        word = held.word
        readers = [Reader(config) for _ in range(self.operands)]
        writer = Writer(config)
        for index, reader in enumerate(readers):
            m.submodules[f"reader_{index}"] = place(reader, platform)
        m.submodules.writer = place(writer, platform)
        self._ports(m, platform, readers)
        engine, streams = self.engine(m, platform, word)
        jobs = [Signal(reader.jobs.payload.shape(), name=f"job_{i}") for i, reader in enumerate(readers)]
        uses, constants = self.needs(m, word, [*jobs, writer.job])

        clear = Signal()
        todo, want, coming = Signal(len(readers)), Signal(2), Signal(2)
        constant = Signal(jobs[0].shape())
        drive_constant(m, config, constant, Mux(want[0], constants[0][0], constants[1][0]))
        last = len(readers) - 1
        for index, reader in enumerate(readers):
            operand = streams[index]
            due = todo[index] & (coming == 0) if index == last else todo[index]
            m.d.comb += [
                reader.clear.eq(clear),
                reader.jobs.valid.eq(due),
                reader.jobs.payload.eq(jobs[index]),
                operand.valid.eq(reader.rows.valid),
                operand.payload.eq(reader.rows.payload.row),
                reader.rows.ready.eq(operand.ready),
            ]
            with m.If(due & reader.jobs.ready):
                m.d.sync += todo[index].eq(0)
        reader, operand = readers[-1], streams[-1]
        m.d.comb += engine.constants.payload.eq(reader.rows.payload.row)
        with m.If(coming != 0):
            m.d.comb += [
                reader.jobs.valid.eq(want.any()),
                reader.jobs.payload.eq(constant),
                engine.constants.valid.eq(reader.rows.valid),
                operand.valid.eq(0),
                reader.rows.ready.eq(engine.constants.ready),
            ]
            with m.If(reader.jobs.valid & reader.jobs.ready):
                m.d.sync += want.eq(want & (want - 1))
            with m.If(reader.rows.valid & reader.rows.ready):
                m.d.sync += coming.eq(coming - 1)

        sent, code = Signal(), Signal(engine.status.payload.code.shape())
        idle = ~Cat(reader.busy for reader in readers).any()
        drive_update(m, self.update.payload, word)
        m.d.comb += [
            self.fault.counter.eq(held.counter),
            self.fault.engine.eq(ENGINES.index(self.name)),
            writer.rows.valid.eq(engine.results.valid),
            engine.results.ready.eq(writer.rows.ready),
        ]
        pass_on(m, writer.sbuf, self.sbuf_write)
        pass_on(m, writer.psum, self.psum_write)
        self.results(m, engine, writer)
        with m.If(self.update.valid & self.update.ready):
            m.d.sync += sent.eq(1)
        with m.FSM() as machine:
            with m.State("IDLE"):
                m.d.comb += self.issue.ready.eq(1)
                m.d.sync += [held.eq(self.issue.payload), sent.eq(self.issue.payload.word.update == NONE)]
                with m.If(self.issue.valid):
                    m.next = "ISSUE"
            with m.State("ISSUE"):
                m.d.comb += [engine.instructions.valid.eq(1), writer.start.eq(1)]
                m.d.sync += [
                    todo.eq(Cat(*uses)),
                    want.eq(Cat(used for _, used in constants)),
                    coming.eq(constants[0][1] + constants[1][1]),
                ]
                with m.If(engine.instructions.ready):
                    m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += [
                    self.update.valid.eq(~sent & (word.update_at == READ) & ~todo.any() & (coming == 0) & idle),
                    engine.status.ready.eq(1),
                ]
                m.d.sync += code.eq(engine.status.payload.code)
                with m.If(engine.status.valid):
                    m.next = "END"
            with m.State("END"):
                m.d.comb += clear.eq(1)
                m.d.sync += [todo.eq(0), want.eq(0), coming.eq(0)]
                with m.If(code != 0):
                    m.d.comb += self.fault.reason.eq(FIRST_OF_ENGINE[self.name] + code)
                    with m.If(idle):
                        m.next = "IDLE"
                with m.Else():
                    m.d.comb += self.update.valid.eq(~sent)
                    with m.If(idle & (sent | self.update.ready)):
                        m.next = "IDLE"
        m.d.comb += self.busy.eq(~machine.ongoing("IDLE"))
        return m

    def results(self, m: Module, engine: Any, writer: Writer) -> None:
        """Connect the payload of results."""
        raise NotImplementedError

    def _ports(self, m: Module, platform: Any, readers: list[Reader]) -> None:
        """The readers' ports become one to each memory."""
        config = self.config
        for name, outside, back in (
            ("sbuf", self.sbuf_read, self.sbuf_answer),
            ("psum", self.psum, self.psum_answer),
        ):
            shape = sbuf_request(config) if name == "sbuf" else psum_request(config)
            share = Share(
                ShareConfig(ports=len(readers), request=shape.size, response=32 * config.partitions, depth=16)
            )
            m.submodules[f"share_{name}"] = place(share, platform)
            for index, reader in enumerate(readers):
                join(m, share, index, getattr(reader, name), getattr(reader, f"{name}_answer"))
            m.d.comb += [
                outside.valid.eq(share.request.valid),
                outside.payload.as_value().eq(share.request.payload),
                share.request.ready.eq(outside.ready),
                share.answer.valid.eq(back.valid),
                share.answer.data.eq(back.data.as_value()),
            ]


class VectorUnit(ElementUnit):
    """The vector engine; see :class:`ElementUnit`."""

    name = "vector"
    operands = 2

    def engine(self, m: Module, platform: Any, word: Any) -> tuple[Any, list[Any]]:
        """The engine's own fields are those of our word."""
        engine = VectorEngine(self.config.vector)
        m.submodules.engine = place(engine, platform)
        m.d.comb += engine.instructions.payload.eq(vector_entry(m, word, "engine"))
        return engine, [engine.left, engine.right]

    def needs(self, m: Module, word: Any, jobs: list[Any]) -> tuple[list[Any], list[tuple[Any, Any]]]:
        """Left, right, output; searches take eight rows more."""
        needs = needs_of(vector_entry(m, word))
        rows = word.length >> word.packed
        counts = (rows + needs.loads * SEARCH_SLOTS, rows, 0)
        for job, name, count in zip(jobs, ("left", "right", "output"), counts, strict=True):
            size = vector_size(m, self.config, word, name)
            drive_job(m, self.config, job, getattr(word, name), size, count)
        return [needs.left, needs.right], [(word.c0, word.c0_per_lane), (word.c1, word.c1_per_lane)]

    def results(self, m: Module, engine: Any, writer: Writer) -> None:
        """Rows and which lanes are written."""
        m.d.comb += writer.rows.payload.eq(engine.results.payload)


class ScalarUnit(ElementUnit):
    """The scalar engine; see :class:`ElementUnit`."""

    name = "scalar"
    operands = 1

    def engine(self, m: Module, platform: Any, word: Any) -> tuple[Any, list[Any]]:
        """The engine's own fields are those of our word."""
        engine = ScalarEngine(self.config.scalar)
        m.submodules.engine = place(engine, platform)
        entry = engine.instructions.payload
        for name, _ in SCALAR_INSTRUCTION:
            m.d.comb += getattr(entry, name).eq(getattr(word, name))
        return engine, [engine.operands]

    def needs(self, m: Module, word: Any, jobs: list[Any]) -> tuple[list[Any], list[tuple[Any, Any]]]:
        """Input and output; scale and bias only where they count."""
        opcode = word.opcode[:3]
        for job, name, count in zip(jobs, ("input", "output"), (word.length, 0), strict=True):
            size = format_size(m, self.config, getattr(word, f"{name}_format"), name)
            drive_job(m, self.config, job, getattr(word, name), size, count)
        takes = opcode.matches(*CONSTANT_USERS)
        constants = [(word.scale, word.scale_per_lane & takes), (word.bias, word.bias_per_lane & takes)]
        return [opcode != READ_ACCUMULATOR], constants

    def results(self, m: Module, engine: Any, writer: Writer) -> None:
        """All lanes are written."""
        m.d.comb += [
            writer.rows.payload.row.eq(engine.results.payload),
            writer.rows.payload.written.eq(~0),
        ]
