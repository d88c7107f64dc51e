"""One DMA engine: a transfer at a time, a beat of elements a cycle."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, signed
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.check import format_size
from hdl.core.lanes import LATENCY, LaneQueue, TransferLane
from hdl.core.layouts import (
    EXTENT,
    FAULT,
    LINE_BITS,
    LINE_INDEX_BITS,
    UPDATE,
    answer,
    beat_layout,
    beat_request,
    bits,
    line_request,
    psum_request,
    psum_store,
    row_layout,
    transfer_layout,
)
from hdl.core.run import HBM, PSUM, SBUF, Run
from hdl.core.walk import Walk
from hdl.fifo import Fifo
from spec.core import LINE_BYTES, CoreConfig
from spec.fifo import FifoConfig
from spec.isa import ADDRESS_BITS, INDEXED, REASON, UPDATES

NONE = UPDATES.index("none")
BYTE_BITS = LINE_BYTES.bit_length() - 1
"""Of a byte in a line."""


class TransferEngine(Block):
    """Moves the elements of one transfer after another, in the order of its pattern, as many a cycle as one access of
    each side moves (:class:`hdl.core.run.Run`): a beat of up to ``dma_lanes``.

    ``transfers`` in; ``done`` is 1 for a cycle at the end of each, after its ``update`` has been taken; ``fault`` is
    valid in that cycle if an index led outside. A line of HBM is read once for all successive elements in it, and
    written once. Accumulation reads target and source in turn, so it takes two cycles a beat; beats whose targets
    ascend overlap, one that goes back waits until what is under way has been written: so an element may be a target
    twice. Rows of a transfer start at least ``dma_row`` cycles apart. Memory ports: ``lines`` (reads), ``stores``
    (writes) of HBM, ``sbuf_read``, ``sbuf_write``, ``psum`` (reads), ``psum_write``.
    """

    config: CoreConfig

    def __init__(self, config: CoreConfig) -> None:
        ports = {
            "transfers": In(stream.Signature(transfer_layout())),
            "lines": Out(stream.Signature(line_request(config))),
            "answer": In(answer(LINE_BITS)),
            "stores": Out(stream.Signature(line_request(config))),
            "sbuf_read": Out(stream.Signature(beat_request(config))),
            "sbuf_answer": In(answer(beat_layout(config))),
            "sbuf_write": Out(stream.Signature(beat_request(config))),
            "psum": Out(stream.Signature(psum_request(config))),
            "psum_answer": In(answer(row_layout(config))),
            "psum_write": Out(stream.Signature(psum_store(config))),
            "update": Out(stream.Signature(UPDATE)),
            "fault": Out(FAULT),
            "done": Out(1),
            "busy": Out(1),
        }
        self.depth = 1 << (config.hbm_latency + 15).bit_length()
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """Walk the source, read, convert, walk the target, write."""
        m = Module()
        config = self.config
        held = Signal(transfer_layout())
        self.held, self.word = held, held.word
        word = self.word
        self.sizes = [format_size(m, config, getattr(word, f"{side}_format"), side) for side in ("source", "target")]
        self.walks = [Walk(m, name, EXTENT, signed(32), 20) for name in ("source", "target", "past")]
        """Of the source, of the target as it is written and, for accumulation, as it is read."""
        source, target = self.sizes
        spaces = (word.source_space, word.target_space, word.target_space)
        sized = zip(("source", "target", "past"), self.walks, spaces, (source, target, target), strict=True)
        self.runs = [Run(m, name, config, walk, space, size) for name, walk, space, size in sized]
        self.reading, self.running, self.all_taken = Signal(), Signal(), Signal()
        self.full, self.flying = Signal(), Signal(range(self.depth * config.dma_lanes + 1))
        """A line waits to be written; elements read and not yet taken to be written."""
        results = LaneQueue(config, self.depth)
        m.submodules.results = place(results, platform)
        tags = self._read(m, platform)
        self._convert(m, platform, tags, results)
        self._write(m, results)
        finished = self.running & self.all_taken & ~self.full
        self._lead(m, finished)
        return m

    def _place(self, space: Any, address: Any) -> tuple[Any, Any]:
        """Row or location of an address in SBUF or PSUM, and its partition."""
        low = [pitch.bit_length() - 1 for pitch in (self.config.sbuf_pitch, self.config.psum_pitch)]
        lane = bits(self.config.partitions)
        row = Mux(space == SBUF, address[2 : low[0]], address[2 : low[1]])
        return row, Mux(space == SBUF, address[low[0] : low[0] + lane], address[low[1] : low[1] + lane])

    def _mask(self, count: Any, size: Any, byte: Any, across: Any) -> Any:
        """Bytes of the words of a beat that its elements take, from ``byte`` of the first word on, or of each."""
        lanes = self.config.dma_lanes
        run = (((1 << (count << size)) - 1) << byte)[: 4 * lanes]
        one = (((1 << (1 << size)) - 1) << byte)[:4]
        return Mux(across, Cat(Mux(index < count, one, 0) for index in range(lanes)), run)

    def _read(self, m: Module, platform: Any) -> Fifo:
        """Ask for what is not there yet; tags say where each beat's elements are found in what comes."""
        config, word = self.config, self.word
        lanes = config.dma_lanes
        source, _, past = self.walks
        about = data.StructLayout(
            {"new": 1, "old": 1, "across": 1, "space": 2, "count": range(lanes + 1), "byte": BYTE_BITS}
        )
        tags = Fifo(FifoConfig(width=about.size, depth=self.depth), about)
        m.submodules.queue_tags = place(tags, platform)
        second, highest = Signal(), Signal(EXTENT)
        old, count, address, space, across = (Signal(), Signal(range(lanes + 1)), Signal(EXTENT), Signal(2), Signal())
        ours, theirs = self.runs[0], self.runs[2]
        together, agreed = Mux(ours.count < theirs.count, ours.count, theirs.count), Signal(range(lanes + 1))
        fresh, line = [Signal(init=1, name=f"fresh_{side}") for side in range(2)], Signal(LINE_INDEX_BITS)
        last = [Signal(LINE_INDEX_BITS, name=f"last_{side}") for side in range(2)]
        back, quiet, needs, may, want, ready = (
            Signal(name=n) for n in ("back", "quiet", "needs", "may", "want", "ready")
        )
        size = Mux(old, self.sizes[1], self.sizes[0])
        row, lane = self._place(space, address)
        pace = Signal(range(config.dma_row))
        m.d.comb += [
            old.eq(word.accumulate & ~second),
            count.eq(Mux(old, together, Mux(second, agreed, ours.count))),
            address.eq(Mux(old, past.offset, source.offset)),
            space.eq(Mux(old, word.target_space, word.source_space)),
            across.eq(Mux(old, theirs.across, ours.across)),
            line.eq(address[BYTE_BITS:ADDRESS_BITS]),
            back.eq(old & (address < highest)),
            quiet.eq((self.flying == 0) & ~self.full),
            needs.eq((space != HBM) | back | Mux(old, fresh[1] | (line != last[1]), fresh[0] | (line != last[0]))),
            may.eq(
                self.reading
                & tags.i.ready
                & (self.flying <= (self.depth - 1) * lanes)
                & (~back | quiet)
                & ((pace == 0) | (source.indices[0] != 0) | second)
            ),
            want.eq(may & needs),
            self.lines.payload.line.eq(line),
            self.sbuf_read.valid.eq(want & (space == SBUF)),
            self.sbuf_read.payload.row.eq(row),
            self.sbuf_read.payload.lane.eq(lane),
            self.sbuf_read.payload.across.eq(across),
            self.sbuf_read.payload.mask.eq(self._mask(count, size, address[:2], across)),
            self.psum.valid.eq(want & (space == PSUM)),
            self.psum.payload.location.eq(row),
            ready.eq(Mux(space == HBM, self.lines.ready, Mux(space == SBUF, self.sbuf_read.ready, self.psum.ready))),
            tags.i.valid.eq(may & (~needs | ready)),
            tags.i.payload.new.eq(needs),
            tags.i.payload.old.eq(old),
            tags.i.payload.across.eq(across),
            tags.i.payload.space.eq(space),
            tags.i.payload.count.eq(count),
            tags.i.payload.byte.eq(Mux(space == HBM, address[:BYTE_BITS], address[:2])),
        ]
        self.ask_line = want & (space == HBM)
        self.emitted = Signal(range(lanes + 1))
        with m.If(tags.i.valid):
            m.d.sync += [second.eq(old), agreed.eq(count)]
            with m.If(old):
                m.d.sync += [highest.eq(theirs.end(count)), last[1].eq(line), fresh[1].eq(0)]
                past.advance(count, theirs.distance(count))
            with m.Else():
                m.d.comb += self.emitted.eq(count)
                m.d.sync += [last[0].eq(line), fresh[0].eq(0), self.reading.eq(~source.ends(count))]
                source.advance(count, ours.distance(count))
        with m.If(~self.reading):
            m.d.sync += [*(flag.eq(1) for flag in fresh), second.eq(0)]
        if config.dma_row > 1:
            with m.If(pace != 0):
                m.d.sync += pace.eq(pace - 1)
            with m.If(tags.i.valid & (source.indices[0] == 0) & ~second):
                m.d.sync += pace.eq(config.dma_row - 1)
        self._arrive(m, platform, self.psum.valid & self.psum.ready, lane)
        return tags

    def _arrive(self, m: Module, platform: Any, asked_psum: Any, lane: Any) -> None:
        """Queues of what came; of a location of PSUM only the words from the partition on that was asked for."""
        config = self.config
        width = 32 * config.dma_lanes
        widths = {"lines": LINE_BITS, "beats": width, "rows": width, "places": bits(config.partitions)}
        self.queues = {name: Fifo(FifoConfig(width=size, depth=self.depth)) for name, size in widths.items()}
        for name, queue in self.queues.items():
            m.submodules[f"queue_{name}"] = place(queue, platform)
        places, flat = self.queues["places"], self.psum_answer.data.as_value()
        beyond = Cat(flat, flat[: width - 32])
        found = Cat(beyond[32 * index :].word_select(places.o.payload, 32) for index in range(config.dma_lanes))
        m.d.comb += [places.i.valid.eq(asked_psum), places.i.payload.eq(lane)]
        m.d.comb += places.o.ready.eq(self.psum_answer.valid)
        answers = (
            ("lines", self.answer.valid, self.answer.data),
            ("beats", self.sbuf_answer.valid, self.sbuf_answer.data.as_value()),
            ("rows", self.psum_answer.valid, found),
        )
        for name, valid, payload in answers:
            entry = self.queues[name].i
            m.d.comb += [entry.valid.eq(self.running & valid), entry.payload.eq(payload)]

    def _convert(self, m: Module, platform: Any, tags: Fifo, results: LaneQueue) -> None:
        """Pick the elements of a beat and convert them side by side."""
        config, word, tag = self.config, self.word, tags.o.payload
        lanes, queues = config.dma_lanes, self.queues
        kept = [Signal(LINE_BITS, name=f"line_{side}") for side in range(2)]
        line, words, go = Signal(LINE_BITS), Signal(32 * lanes), Signal()
        here = Mux(tag.space == HBM, queues["lines"].o.valid,
                   Mux(tag.space == SBUF, queues["beats"].o.valid, queues["rows"].o.valid))  # fmt: skip
        size = Mux(tag.old, self.sizes[1], self.sizes[0])
        shift = tag.byte << 3
        m.d.comb += [
            go.eq(tags.o.valid & (~tag.new | here)),
            tags.o.ready.eq(go),
            line.eq(Mux(tag.new, queues["lines"].o.payload, Mux(tag.old, kept[1], kept[0]))),
            words.eq(Mux(tag.space == SBUF, queues["beats"].o.payload, queues["rows"].o.payload)),
        ]
        for name, space in (("lines", HBM), ("beats", SBUF), ("rows", PSUM)):
            m.d.comb += queues[name].o.ready.eq(go & tag.new & (tag.space == space))
        for side in range(2):
            with m.If(go & (tag.space == HBM) & (tag.old == side)):
                m.d.sync += kept[side].eq(line)
        row = Signal(32 * lanes)
        m.d.comb += row.eq(Mux(tag.space == HBM, line >> shift, words >> shift))
        same = (word.source_format == word.target_format) & ~word.accumulate
        for index in range(lanes):
            lane = TransferLane(config)
            m.submodules[f"lane_{index}"] = place(lane, platform)
            whole = Mux(tag.across, words.word_select(index, 32) >> shift[:5], row.word_select(index, 32))
            half = Mux(tag.across, whole[:16], row.word_select(index, 16))
            byte = Mux(tag.across, whole[:8], row.word_select(index, 8))
            m.d.comb += [
                lane.element.eq(Mux(size == 2, whole, Mux(size == 1, half, byte))),
                lane.old.eq(go & tag.old),
                lane.add.eq(word.accumulate),
                lane.same.eq(same),
                getattr(results, f"i_{index}").eq(lane.result),
            ]
            if len(config.vector.formats) > 1:
                source = Mux(tag.old, word.target_format, word.source_format)
                m.d.comb += [lane.source.eq(source), lane.target.eq(word.target_format)]
        counts = [Mux(go & ~tag.old, tag.count, 0)]
        for stage in range(LATENCY):
            counts.append(Signal(range(lanes + 1), name=f"count_{stage}"))
            m.d.sync += counts[-1].eq(counts[-2])
        m.d.comb += results.put.eq(counts[-1])

    def _write(self, m: Module, results: LaneQueue) -> None:
        """Beats go to their rows; those of one line of HBM are gathered, and written when another one comes."""
        config, word, run = self.config, self.word, self.runs[1]
        lanes, size, target = config.dma_lanes, self.sizes[1], self.walks[1]
        space, address = word.target_space, target.offset
        elements = [getattr(results, f"o_{index}") for index in range(lanes)]
        packed, words, mask = Signal(32 * lanes), Signal(32 * lanes), Signal(4 * lanes)
        wide = [Mux(size == 2, e, Mux(size == 1, e[:16].replicate(2), e[:8].replicate(4))) for e in elements]
        byte = address[:BYTE_BITS]
        offset = Mux(space == HBM, byte, address[:2])
        m.d.comb += [
            packed.eq(
                Mux(
                    size == 2,
                    Cat(elements),
                    Mux(size == 1, Cat(e[:16] for e in elements), Cat(e[:8] for e in elements)),
                )
            ),
            words.eq(Mux(run.across, Cat(wide), packed << (offset[:2] << 3))),
            mask.eq(self._mask(run.count, size, offset[:2], run.across)),
        ]
        there, take = Signal(), Signal()
        line, kept_line = address[BYTE_BITS:ADDRESS_BITS], Signal(LINE_INDEX_BITS)
        kept, held = Signal(LINE_BITS), Signal(LINE_BYTES)
        flush, flushed = Signal(), Signal()
        row, lane = self._place(space, address)
        store, beat, location = self.stores.payload, self.sbuf_write.payload, self.psum_write.payload
        m.d.comb += [
            there.eq(results.level >= run.count),
            flush.eq(
                self.full & ((there & (line != kept_line)) | self.all_taken | (word.accumulate & (self.flying == 0)))
            ),
            flushed.eq(flush & self.stores.ready),
            self.stores.valid.eq(flush),
            store.write.eq(1),
            store.line.eq(kept_line),
            store.data.eq(kept),
            store.mask.eq(held),
            self.sbuf_write.valid.eq(self._due(there, space, SBUF)),
            beat.write.eq(1),
            beat.across.eq(run.across),
            beat.row.eq(row),
            beat.lane.eq(lane),
            beat.data.as_value().eq(words),
            beat.mask.eq(mask),
            self.psum_write.valid.eq(self._due(there, space, PSUM)),
            location.write.eq(1),
            location.location.eq(row),
            take.eq(
                self._due(there, space, HBM) & (~self.full | flushed | (line == kept_line))
                | (self.sbuf_write.valid & self.sbuf_write.ready)
                | (self.psum_write.valid & self.psum_write.ready)
            ),
            results.take.eq(Mux(take, run.count, 0)),
        ]
        for partition in range(config.partitions):
            index = Signal(range(config.partitions), name=f"index_{partition}")
            m.d.comb += [
                index.eq(partition - lane),
                location.data[partition].eq(words.word_select(index[: bits(lanes)], 32)),
                location.mask.word_select(partition, 4).eq(
                    Mux(index < lanes, mask.word_select(index[: bits(lanes)], 4), 0)
                ),
            ]
        with m.If(flushed):
            m.d.sync += [self.full.eq(0), held.eq(0)]
        written, placed = Signal(LINE_BYTES), Signal(LINE_BITS)
        m.d.comb += [
            written.eq(((1 << (run.count << size)) - 1)[: 4 * lanes] << byte),
            placed.eq(packed << (byte << 3)),
        ]
        with m.If(take):
            target.advance(run.count, run.distance(run.count))
            m.d.sync += self.all_taken.eq(target.ends(run.count))
            with m.If(space == HBM):
                m.d.sync += [self.full.eq(1), kept_line.eq(line), held.eq(Mux(flushed, 0, held) | written)]
                for number in range(LINE_BYTES):
                    with m.If(written[number]):
                        m.d.sync += kept[8 * number : 8 * number + 8].eq(placed[8 * number : 8 * number + 8])
        m.d.sync += self.flying.eq(self.flying + self.emitted - results.take)

    def _due(self, there: Any, space: Any, memory: int) -> Any:
        """Whether a beat waits to be written into a memory."""
        return self.running & ~self.all_taken & there & (space == memory)

    def _lead(self, m: Module, finished: Any) -> None:
        """Take a transfer, run its block or its blocks, report."""
        config, held, word = self.config, self.held, self.word
        number, index = Signal(20), Signal(signed(32))
        firsts = [Signal(EXTENT, name=f"block_{side}") for side in ("source", "target")]
        indexed = word.indexed != INDEXED.index("none")
        place_ = word.list_address + (number << 2)
        outside = Signal()
        wrong = []
        for first, extent, size, space in (
            (firsts[0], held.source, self.sizes[0], word.source_space),
            (firsts[1], held.target, self.sizes[1], word.target_space),
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
                for walk, first, side in zip(
                    self.walks, (*firsts, firsts[1]), ("source", "target", "target"), strict=True
                ):
                    walk.load(first, [getattr(word, f"{side}_step{d}") for d in range(4)], nums)
                m.d.sync += [self.reading.eq(1), self.all_taken.eq(0)]
                m.next = "RUN"
            with m.State("RUN"):
                m.d.comb += self.running.eq(1)
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
