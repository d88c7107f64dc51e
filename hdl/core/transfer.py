"""One DMA engine: a transfer at a time, an element a cycle."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.check import format_size
from hdl.core.layouts import (
    EXTENT,
    FAULT,
    LINE_BITS,
    LINE_INDEX_BITS,
    UPDATE,
    answer,
    bits,
    line_request,
    psum_request,
    row_layout,
    sbuf_request,
    transfer_layout,
)
from hdl.core.walk import Walk
from hdl.fifo import Fifo
from hdl.numerics import Add, Cast
from spec.core import LINE_BYTES, WORD_BYTES, CoreConfig
from spec.fifo import FifoConfig
from spec.isa import ADDRESS_BITS, INDEXED, REASON, SPACES, UPDATES
from spec.numerics import AddConfig, CastConfig

HBM, SBUF, PSUM = range(len(SPACES))
NONE = UPDATES.index("none")
LINE_WORDS = LINE_BYTES // WORD_BYTES


class TransferEngine(Block):
    """Moves the elements of one transfer after another, in the order of its pattern.

    ``transfers`` in; ``done`` is 1 for a cycle at the end of each, after its ``update`` has been taken; ``fault`` is
    valid in that cycle if an index led outside. Consecutive elements of one line of HBM, or of one row of SBUF or
    PSUM, are read and written together. Accumulation reads its target element by element, so an element may be a
    target twice. Memory ports: ``lines`` (reads), ``stores`` (writes) of HBM, ``sbuf_read``, ``sbuf_write``,
    ``psum``.
    """

    config: CoreConfig

    def __init__(self, config: CoreConfig) -> None:
        ports = {
            "transfers": In(stream.Signature(transfer_layout())),
            "lines": Out(stream.Signature(line_request(config))),
            "answer": In(answer(LINE_BITS)),
            "stores": Out(stream.Signature(line_request(config))),
            "sbuf_read": Out(stream.Signature(sbuf_request(config))),
            "sbuf_answer": In(answer(row_layout(config))),
            "sbuf_write": Out(stream.Signature(sbuf_request(config))),
            "psum": Out(stream.Signature(psum_request(config))),
            "psum_answer": In(answer(row_layout(config))),
            "update": Out(stream.Signature(UPDATE)),
            "fault": Out(FAULT),
            "done": Out(1),
            "busy": Out(1),
        }
        self.words = max(LINE_WORDS, config.partitions)
        self.depth = 1 << (config.hbm_latency + 15).bit_length()
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """Walk the source, read, convert, walk the target, write."""
        m = Module()
        config = self.config
        held = Signal(transfer_layout())
        word = held.word
        source = Walk(m, "source", EXTENT, signed(32), 20)
        target = Walk(m, "target", EXTENT, signed(32), 20)
        self.source_size = format_size(m, config, word.source_format, "source")
        self.target_size = format_size(m, config, word.target_format, "target")
        reading, flying = Signal(), Signal(range(self.depth + 1))
        outstanding = Signal(range(self.depth + 1))
        results = Fifo(FifoConfig(width=32, depth=self.depth))
        lines = Fifo(FifoConfig(width=32 * self.words, depth=self.depth))
        tags = Fifo(FifoConfig(width=bits(self.words) + 4, depth=self.depth))
        for name, queue in (("results", results), ("lines", lines), ("tags", tags)):
            m.submodules[f"queue_{name}"] = place(queue, platform)
        running = Signal()
        emitted, asked = self._read(m, word, source, target, reading, flying, outstanding, tags)
        arrived = running & (self.answer.valid | self.sbuf_answer.valid | self.psum_answer.valid)
        m.d.comb += [
            lines.i.valid.eq(arrived),
            lines.i.payload.eq(
                Mux(
                    self.answer.valid,
                    self.answer.data,
                    Mux(self.sbuf_answer.valid, self.sbuf_answer.data.as_value(), self.psum_answer.data.as_value()),
                )
            ),
        ]
        m.d.sync += outstanding.eq(outstanding + asked - arrived)
        self._convert(m, platform, word, lines, tags, results)
        all_taken, landed, written = self._write(m, word, target, results)
        m.d.sync += flying.eq(flying + emitted - landed)
        finished = running & all_taken & written
        self._lead(m, word, held, source, target, reading, running, finished, all_taken)
        return m

    def _split(self, space: Any, address: Any) -> tuple[Any, Any]:
        """Line or row of an address, and the word in it."""
        config = self.config
        sbuf, psum = (pitch.bit_length() - 1 for pitch in (config.sbuf_pitch, config.psum_pitch))
        line = Mux(
            space == HBM,
            address[LINE_BYTES.bit_length() - 1 : ADDRESS_BITS],
            Mux(space == SBUF, address[2:sbuf], address[2:psum]),
        )
        word = Mux(
            space == HBM,
            address[2 : LINE_BYTES.bit_length() - 1],
            Mux(space == SBUF, address[sbuf : sbuf + 10], address[psum : psum + 10]),
        )
        return line, word[: bits(self.words)]

    def _read(
        self, m: Module, word: Any, source: Walk, target: Walk, reading: Any, flying: Any, outstanding: Any, tags: Fifo
    ) -> tuple[Any, Any]:
        """Ask for lines, of an accumulation the target's first; whether an element is set out, a line asked for."""
        second, fresh = Signal(), Signal()
        last_line = Signal(LINE_INDEX_BITS)
        old = word.accumulate & ~second
        space = Mux(old, word.target_space, word.source_space)
        address = Signal(EXTENT, name="read_address")
        line, place_ = self._split(space, address)
        needs, may, ready, want = Signal(), Signal(), Signal(), Signal()
        m.d.comb += [
            address.eq(Mux(old, target.offset, source.offset)),
            needs.eq(word.accumulate | fresh | (line != last_line)),
            may.eq(
                reading
                & tags.i.ready
                & Mux(word.accumulate, Mux(second, outstanding == 0, flying == 0), flying != self.depth)
            ),
            want.eq(may & needs),
            self.lines.payload.line.eq(line),
            self.sbuf_read.payload.row.eq(line),
            self.psum.payload.location.eq(line),
            self.sbuf_read.valid.eq(want & (space == SBUF)),
            self.psum.valid.eq(want & (space == PSUM)),
            ready.eq(Mux(space == HBM, self.lines.ready, Mux(space == SBUF, self.sbuf_read.ready, self.psum.ready))),
        ]
        self.ask_line = want & (space == HBM)
        asked, emitted = Signal(), Signal()
        m.d.comb += [
            asked.eq(want & ready),
            emitted.eq(may & (~needs | ready)),
            tags.i.valid.eq(emitted),
            tags.i.payload.eq(Cat(needs, old, address[:2], place_)),
        ]
        with m.If(emitted):
            m.d.sync += [last_line.eq(line), fresh.eq(0)]
            with m.If(word.accumulate):
                m.d.sync += second.eq(~second)
            with m.If(~old):
                source.advance()
                with m.If(source.last):
                    m.d.sync += reading.eq(0)
        with m.If(~reading):
            m.d.sync += [fresh.eq(1), second.eq(0)]
        return emitted & ~second, asked

    def _convert(self, m: Module, platform: Any, word: Any, lines: Fifo, tags: Fifo, results: Fifo) -> None:
        """Pick the element, cast to fp32, add, cast to the target's format; bits as they are where nothing changes."""
        config = self.config
        formats = config.vector.formats
        tag = data.View(data.StructLayout({"new": 1, "old": 1, "byte": 2, "word": bits(self.words)}), tags.o.payload)
        current, line = Signal(32 * self.words), Signal(32 * self.words)
        go = Signal()
        element, whole = Signal(32), Signal(32)
        size = Mux(tag.old, self.target_size, self.source_size)
        m.d.comb += [
            go.eq(tags.o.valid & (~tag.new | lines.o.valid)),
            tags.o.ready.eq(go),
            lines.o.ready.eq(go & tag.new),
            line.eq(Mux(tag.new, lines.o.payload, current)),
            whole.eq(line.word_select(tag.word, 32)),
            element.eq(
                Mux(
                    size == 2,
                    whole,
                    Mux(size == 1, whole.word_select(tag.byte[1], 16), whole.word_select(tag.byte, 8)),
                )
            ),
        ]
        into = Cast(CastConfig(sources=formats, targets=("fp32",)))
        out = Cast(CastConfig(sources=("fp32",), targets=formats))
        adder = Add(AddConfig(stages=1))
        m.submodules.cast_in = place(into, platform)
        m.submodules.cast_out = place(out, platform)
        m.submodules.adder = place(adder, platform)
        first, old = Signal(32), Signal()
        stages = [Signal(33, name=f"raw_{index}") for index in range(3)]
        passed = Signal(32)
        m.d.sync += [
            current.eq(line),
            stages[0].eq(Cat(element, go & ~tag.old)),
            stages[1].eq(stages[0]),
            stages[2].eq(stages[1]),
            old.eq(go & tag.old),
            passed.eq(into.result),
        ]
        with m.If(old):
            m.d.sync += first.eq(into.result)
        m.d.comb += [
            into.code.eq(element),
            into.source.eq(Mux(tag.old, word.target_format, word.source_format)),
            adder.a.as_value().eq(first),
            adder.b.as_value().eq(into.result),
            out.code.eq(Mux(word.accumulate, adder.result.as_value(), passed)),
            out.target.eq(word.target_format),
        ]
        for cast in (into, out):
            m.d.comb += [cast.saturate.eq(0), cast.stochastic.eq(0), cast.random.eq(0)]
        same = (word.source_format == word.target_format) & ~word.accumulate
        m.d.comb += [
            results.i.valid.eq(stages[2][32]),
            results.i.payload.eq(Mux(same, stages[2][:32], out.result)),
        ]

    def _write(self, m: Module, word: Any, target: Walk, results: Fifo) -> tuple[Any, Any, Any]:
        """Gather elements of one line or row, write it when another one comes.

        Returns: all are taken, an element has landed (of an accumulation: is written), nothing is left to write.
        """
        full, all_taken = Signal(), Signal()
        kept_line, kept = Signal(LINE_INDEX_BITS), Signal(data.ArrayLayout(32, self.words))
        mask = Signal(4 * self.words)
        line, place_ = self._split(word.target_space, target.offset)
        size = self.target_size
        other = results.o.valid & (line != kept_line)
        to_hbm = word.target_space == HBM
        flush, flushed, take = Signal(), Signal(), Signal()
        byte = target.offset[:2]
        value = results.o.payload
        spread = Mux(size == 2, value, Mux(size == 1, value[:16].replicate(2), value[:8].replicate(4)))
        lanes = Mux(size == 2, 0b1111, Mux(size == 1, 0b0011 << byte, 0b0001 << byte))[:4]
        store, row = self.stores.payload, self.sbuf_write.payload
        m.d.comb += [
            flush.eq(full & (other | all_taken | word.accumulate)),
            self.stores.valid.eq(flush & to_hbm),
            self.sbuf_write.valid.eq(flush & ~to_hbm),
            flushed.eq(flush & Mux(to_hbm, self.stores.ready, self.sbuf_write.ready)),
            take.eq(results.o.valid & (~full | flushed | (~other & ~word.accumulate))),
            results.o.ready.eq(take),
            store.write.eq(1),
            store.line.eq(kept_line),
            store.data.eq(kept.as_value()),
            store.mask.eq(mask),
            row.write.eq(1),
            row.row.eq(kept_line),
            row.data.as_value().eq(kept.as_value()),
            row.mask.eq(mask),
        ]
        with m.If(flushed):
            m.d.sync += [full.eq(0), mask.eq(0)]
        with m.If(take):
            target.advance()
            m.d.sync += [full.eq(1), kept_line.eq(line), all_taken.eq(target.last)]
            for index in range(self.words):
                with m.If(place_ == index):
                    for lane in range(4):
                        with m.If(lanes[lane]):
                            m.d.sync += [
                                kept[index][8 * lane : 8 * lane + 8].eq(spread[8 * lane : 8 * lane + 8]),
                                mask[4 * index + lane].eq(1),
                            ]
        self.all_taken = all_taken
        return all_taken, Mux(word.accumulate, flushed, take), ~full

    def _lead(
        self,
        m: Module,
        word: Any,
        held: Any,
        source: Walk,
        target: Walk,
        reading: Any,
        running: Any,
        finished: Any,
        all_taken: Any,
    ) -> None:
        """Take a transfer, run its block or its blocks, report."""
        config = self.config
        number, index = Signal(20), Signal(signed(32))
        firsts = [Signal(EXTENT, name=f"block_{side}") for side in ("source", "target")]
        indexed = word.indexed != INDEXED.index("none")
        place_ = word.list_address + (number << 2)
        outside = Signal()
        wrong = []
        for first, extent, size, space in (
            (firsts[0], held.source, self.source_size, word.source_space),
            (firsts[1], held.target, self.target_size, word.target_space),
        ):
            pitch = Mux(space == SBUF, config.sbuf_pitch, config.psum_pitch)
            capacity = Mux(space == HBM, config.hbm_bytes, pitch * config.partitions)
            wrong += [first + extent.low < 0, first + extent.high + (1 << size) > capacity]
        nums = [word.num0, word.num1, word.num2, Mux(indexed, 1, word.num3)]
        m.d.comb += [
            outside.eq(Cat(wrong).any()),
            self.lines.valid.eq(self.ask_line),
            self.fault.counter.eq(held.counter),
            self.fault.engine.eq(held.engine),
            self.update.payload.kind.eq(word.done),
            self.update.payload.semaphore.eq(word.done_semaphore),
            self.update.payload.value.eq(word.done_value),
            self.update.payload.core.eq(word.done_core),
        ]
        with m.FSM() as machine:
            with m.State("IDLE"):
                m.d.comb += self.transfers.ready.eq(1)
                payload = self.transfers.payload
                m.d.sync += [
                    held.eq(payload),
                    number.eq(0),
                    firsts[0].eq(payload.source.first),
                    firsts[1].eq(payload.target.first),
                ]
                with m.If(self.transfers.valid):
                    m.next = "START"
            with m.State("START"):
                with m.If(indexed):
                    m.next = "ASK"
                with m.Else():
                    m.next = "BEGIN"
            with m.State("ASK"):
                m.d.comb += [
                    self.lines.valid.eq(1),
                    self.lines.payload.line.eq(place_ >> (LINE_BYTES.bit_length() - 1)),
                ]
                with m.If(self.lines.ready):
                    m.next = "INDEX"
            with m.State("INDEX"):
                m.d.sync += index.eq(self.answer.data.word_select(place_[2 : LINE_BYTES.bit_length() - 1], 32))
                with m.If(self.answer.valid):
                    m.next = "PLACE"
            with m.State("PLACE"):
                for side, first, extent, step in (
                    ("gather", firsts[0], held.source, word.source_step3),
                    ("scatter", firsts[1], held.target, word.target_step3),
                ):
                    factor = Mux(word.indexed == INDEXED.index(side), index, Cat(number, 0).as_signed())
                    m.d.sync += first.eq(extent.first + factor * step)
                m.next = "JUDGE"
            with m.State("JUDGE"):
                with m.If(outside):
                    m.next = "FAIL"
                with m.Else():
                    m.next = "BEGIN"
            with m.State("BEGIN"):
                source.load(firsts[0], [getattr(word, f"source_step{d}") for d in range(4)], nums)
                target.load(firsts[1], [getattr(word, f"target_step{d}") for d in range(4)], nums)
                m.d.sync += [reading.eq(1), all_taken.eq(0)]
                m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += running.eq(1)
                with m.If(finished):
                    m.d.sync += number.eq(number + 1)
                    with m.If(indexed & (number + 1 != word.num3)):
                        m.next = "ASK"
                    with m.Else():
                        m.next = "UPDATE"
            with m.State("UPDATE"):
                m.d.comb += self.update.valid.eq(word.done != NONE)
                with m.If((word.done == NONE) | self.update.ready):
                    m.d.comb += self.done.eq(1)
                    m.next = "IDLE"
            with m.State("FAIL"):
                m.d.comb += [self.fault.reason.eq(REASON["bad_address"]), self.done.eq(1)]
                m.next = "IDLE"
        m.d.comb += self.busy.eq(~machine.ongoing("IDLE"))
