"""HBM controller of one pseudo channel: the scheduler and the data that its commands move."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.ecc import SecdedDecoder, SecdedEncoder
from hdl.hbm.layouts import SECDED, WORDS, ControllerLayouts
from hdl.hbm.scheduler import HbmScheduler
from hdl.hbm.scrub import HbmScrubber
from spec.hbm import LINE_ACCESSES
from spec.hbm_controller import HbmControllerConfig


class HbmController(Block):
    """Scheduler, store of write data, SECDED, read return, scrubbing.

    ``request``   lines of 64 B with their data; ``inject`` plants an error into a write's codewords (mask 0 in use)
    ``even``, ``partner``, ``writing``, ``column``, ``row``, ``owed``, ``waiting``   as the scheduler has them
    ``write_data``   codewords of the write command of the slot before (the PHY delays them to tCWL)
    ``read_data``    codewords of the read command ``read_latency`` slots before
    ``response``   one a read access, ``read_latency`` slots after its command, in order of commands; ``last`` marks the
                second half of the line. It cannot be held back: whoever asked has room for what it asked for.
                ``corrected``: a single error was repaired; ``lost``: the data is wrong. Both come with the place, and
                the controller carries on.
    ``scrubbed``   a corrected line was written back (see ``HbmScrubber``). Lines of scrubbing go before requests; a
                request to a place under scrub waits.

    Reset forgets lines and responses in flight.
    """

    config: HbmControllerConfig

    def __init__(self, config: HbmControllerConfig) -> None:
        self.layouts = ControllerLayouts(config)
        self.scheduler = HbmScheduler(config)
        self.scrubber = HbmScrubber(config)
        shapes = self.layouts
        signature = {
            "request": In(stream.Signature(shapes.stored)),
            "even": In(1),
            "partner": In(1),
            "writing": Out(1),
            "column": Out(shapes.column),
            "row": Out(shapes.row),
            "owed": Out(self.scheduler.owed.shape()),
            "waiting": Out(1),
            "write_data": Out(shapes.access),
            "read_data": In(shapes.access),
            "response": Out(data.StructLayout({"valid": 1, "payload": shapes.response})),
            "scrubbed": Out(1),
        }
        super().__init__(config, signature)

    def elaborate(self, platform: Any) -> Module:
        """Data of writes waits in a memory under the slot number that the scheduler carries as tag."""
        m = Module()
        scheduler: Any = self.scheduler
        scrub: Any = self.scrubber
        m.submodules.scheduler = place(scheduler, platform)
        m.submodules.scrubber = place(scrub, platform)
        for name in ("even", "partner"):
            m.d.comb += getattr(scheduler, name).eq(getattr(self, name))
        for name in ("writing", "column", "row", "owed", "waiting"):
            m.d.comb += getattr(self, name).eq(getattr(scheduler, name))
        line: Any = self.request.payload
        write, where = Signal(), Signal(self.layouts.place)
        m.d.comb += [
            write.eq(Mux(scrub.offer, scrub.write, line.write)),
            where.eq(Mux(scrub.offer, scrub.place.as_value(), line.place.as_value())),
        ]
        slot, has_room = self._write_data(m, platform, write)
        free, refused = Signal(), Signal()
        tag = Cat(Mux(scrub.offer, 0, line.tag), Signal(self.layouts.tag_bits - self.layouts.tag - 1), scrub.offer)
        m.d.comb += [
            free.eq(has_room & ~scrub.offer & ~(scrub.guard & (line.place == scrub.place))),
            scheduler.request.valid.eq((self.request.valid & free) | (scrub.offer & has_room)),
            scheduler.request.payload.write.eq(write),
            scheduler.request.payload.place.eq(where),
            scheduler.request.payload.tag.eq(Mux(write, slot, tag)),
            self.request.ready.eq(scheduler.request.ready & free),
            scrub.may_offer.eq(~refused),
            scrub.taken.eq(scheduler.request.ready & scrub.offer & has_room),
            self.scrubbed.eq(scrub.done),
        ]
        m.d.sync += refused.eq(self.request.valid & free & ~scheduler.request.ready)
        self._read_data(m, platform)
        return m

    def _write_data(self, m: Module, platform: Any, write: Signal) -> tuple[Signal, Any]:
        """Free slots, encoders, memory; returns the slot for the next write and whether there is one.

        One slot more than the buffer has lines: the line in the scheduler's register has its data here too.
        """
        scrub: Any = self.scrubber
        count = self.config.write_lines + 1
        used = Signal(count)
        slot = Signal(range(count))
        for index in reversed(range(count)):
            with m.If(~used[index]):
                m.d.comb += slot.eq(index)
        line: Any = self.request.payload
        column: Any = self.column
        taken = ((self.request.valid & self.request.ready) | scrub.taken) & write
        freed = column.enable & column.write & column.last
        m.d.sync += used.eq((used | Mux(taken, 1 << slot, 0)) & ~Mux(freed, 1 << column.tag, 0))

        words = []
        for half in range(LINE_ACCESSES):
            for index in range(WORDS):
                encoder: Any = SecdedEncoder(SECDED)
                m.submodules[f"encoder_{half}_{index}"] = place(encoder, platform)
                m.d.comb += encoder.data.eq(Mux(scrub.offer, scrub.data[half][index], line.data[half][index]))
                hit = ~scrub.offer & (line.inject.word == half * WORDS + index)
                words.append(encoder.codeword ^ Mux(hit, line.inject.mask, 0))
        store: Any = memory.Memory(shape=data.ArrayLayout(self.layouts.access, LINE_ACCESSES), depth=count, init=[])
        m.submodules.store = store
        put, get = store.write_port(), store.read_port()
        second = Signal()
        m.d.sync += second.eq(column.last)
        m.d.comb += [
            put.addr.eq(slot),
            put.data.as_value().eq(Cat(words)),
            put.en.eq(taken),
            get.en.eq(1),
            get.addr.eq(column.tag),
            self.write_data.eq(get.data[second]),
        ]
        return slot, ~write | ~used.all()

    def _read_data(self, m: Module, platform: Any) -> None:
        """A read's tag travels beside its data: as many stages as the latency has slots."""
        column: Any = self.column
        flight = {"valid": 1, "scrub": 1, "tag": self.layouts.tag, "place": self.layouts.place, "last": 1}
        flying = Signal(data.StructLayout(flight), name="flying_0")
        m.d.comb += [
            flying.valid.eq(column.enable & ~column.write),
            flying.scrub.eq(column.tag[-1]),
            flying.tag.eq(column.tag),
            flying.place.bank.eq(column.bank),
            flying.place.row.eq(column.row),
            flying.place.column.eq(column.column & -LINE_ACCESSES),
            flying.last.eq(column.last),
        ]
        for stage in range(self.config.slots.read_latency):
            behind = Signal.like(flying, name=f"flying_{stage + 1}")
            m.d.sync += behind.eq(flying)
            flying = behind
        payload: Any = self.response.payload
        corrected, lost = [], []
        for index in range(WORDS):
            decoder: Any = SecdedDecoder(SECDED)
            m.submodules[f"decoder_{index}"] = place(decoder, platform)
            m.d.comb += [decoder.codeword.eq(self.read_data[index]), payload.data[index].eq(decoder.data)]
            corrected.append(decoder.corrected)
            lost.append(decoder.lost)
        m.d.comb += [
            self.response.valid.eq(flying.valid & ~flying.scrub),
            payload.tag.eq(flying.tag),
            payload.place.eq(flying.place),
            payload.last.eq(flying.last),
            payload.corrected.eq(Cat(corrected).any()),
            payload.lost.eq(Cat(lost).any()),
        ]
        scrub: Any = self.scrubber
        m.d.comb += [
            scrub.found.eq(self.response.valid & payload.corrected & ~payload.lost),
            scrub.found_place.eq(payload.place),
            scrub.answer.valid.eq(flying.valid & flying.scrub),
            *(scrub.answer[name].eq(payload[name]) for name in ("data", "corrected", "lost", "last")),
        ]
