"""HBM controller of one pseudo channel: the scheduler and the data that its commands move."""

from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.ecc import SecdedDecoder, SecdedEncoder
from hdl.hbm.layouts import Layouts, bits
from hdl.hbm.scheduler import HbmScheduler
from spec.ecc import SecdedConfig
from spec.hbm import ACCESS_BYTES, LINE_ACCESSES
from spec.hbm_controller import HbmControllerConfig

SECDED = SecdedConfig()
WORDS = ACCESS_BYTES * 8 // SECDED.data
"""SECDED words of one access."""


class ControllerLayouts(Layouts):
    """Adds what carries data. ``access`` is what the device stores of 32 B: data words with their check bits."""

    def __init__(self, config: HbmControllerConfig) -> None:
        super().__init__(config)
        self.tag = config.tag_bits
        self.access = data.ArrayLayout(SECDED.width, WORDS)
        self.line = data.StructLayout(
            {
                "write": 1,
                "place": self.place,
                "tag": config.tag_bits,
                "data": data.ArrayLayout(data.ArrayLayout(SECDED.data, WORDS), LINE_ACCESSES),
                "inject": data.ArrayLayout(self.access, LINE_ACCESSES),
            }
        )
        self.response = data.StructLayout(
            {
                "tag": config.tag_bits,
                "place": data.StructLayout(
                    {"bank": bits(config.geometry.all_banks), "column": bits(config.geometry.columns)}
                ),
                "data": data.ArrayLayout(SECDED.data, WORDS),
                "corrected": 1,
                "lost": 1,
            }
        )


class HbmController(Block):
    """Scheduler, write data store, SECDED and read return.

    ``request``   lines of 64 B with their data; ``inject`` is XORed to a write's codewords (0 in use)
    ``even``, ``partner``, ``writing``, ``column``, ``row``, ``owed``, ``waiting``   as the scheduler has them
    ``write_data``   codewords of the write command of the slot before (the PHY delays them to tCWL)
    ``read_data``    codewords of the read command ``read_latency`` slots before
    ``response``   one a read access, ``read_latency`` slots after its command, in order of commands; bit 0 of the
                column tells the half of the line. It cannot be held back: whoever asked has room for what it asked
                for. ``corrected``: a single error was repaired; ``lost``: the data is wrong. Both carry the place, and
                the controller carries on.

    ``request``   lines of 64 B with their data; ``inject`` is XORed to the codewords of a write (0 in use)
    there. Reset forgets lines and responses in flight.
    """

    def __init__(self, config: HbmControllerConfig) -> None:
        self.layouts = ControllerLayouts(config)
        self.scheduler = HbmScheduler(config)
        shapes = self.layouts
        signature = {
            "request": In(stream.Signature(shapes.line)),
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
        }
        super().__init__(config, signature)

    def elaborate(self, platform: Any) -> Module:
        """Data of writes waits in a memory under the slot number that the scheduler carries as tag."""
        m = Module()
        scheduler: Any = self.scheduler
        m.submodules.scheduler = place(scheduler, platform)
        for name in ("even", "partner"):
            m.d.comb += getattr(scheduler, name).eq(getattr(self, name))
        for name in ("writing", "column", "row", "owed", "waiting"):
            m.d.comb += getattr(self, name).eq(getattr(scheduler, name))
        slot, has_room = self._write_data(m, platform)
        line = self.request.payload
        m.d.comb += [
            scheduler.request.valid.eq(self.request.valid & has_room),
            scheduler.request.payload.write.eq(line.write),
            scheduler.request.payload.place.eq(line.place),
            scheduler.request.payload.tag.eq(Mux(line.write, slot, line.tag)),
            self.request.ready.eq(scheduler.request.ready & has_room),
        ]
        self._read_data(m, platform)
        return m

    def _write_data(self, m: Module, platform: Any) -> tuple[Signal, Any]:
        """Free slots, encoders, memory; returns the slot for the next write and whether there is one.

        One slot more than the buffer has lines: the line in the scheduler's register has its data here too.
        """
        config: Any = self.config
        count = config.write_lines + 1
        used = Signal(count)
        slot = Signal(range(count))
        for index in reversed(range(count)):
            with m.If(~used[index]):
                m.d.comb += slot.eq(index)
        line, column = self.request.payload, self.column
        taken = self.request.valid & self.request.ready & line.write
        freed = column.enable & column.write & column.last
        m.d.sync += used.eq((used | Mux(taken, 1 << slot, 0)) & ~Mux(freed, 1 << column.tag, 0))

        words = []
        for half in range(LINE_ACCESSES):
            for index in range(WORDS):
                encoder: Any = SecdedEncoder(SECDED)
                m.submodules[f"encoder_{half}_{index}"] = place(encoder, platform)
                m.d.comb += encoder.data.eq(line.data[half][index])
                words.append(encoder.codeword ^ line.inject[half][index])
        store: Any = memory.Memory(shape=data.ArrayLayout(self.layouts.access, LINE_ACCESSES), depth=count, init=[])
        m.submodules.store = store
        write, read = store.write_port(), store.read_port()
        second = Signal()
        m.d.sync += second.eq(column.last)
        m.d.comb += [
            write.addr.eq(slot),
            write.data.as_value().eq(Cat(words)),
            write.en.eq(taken),
            read.en.eq(1),
            read.addr.eq(column.tag),
            self.write_data.eq(read.data[second]),
        ]
        return slot, ~line.write | ~used.all()

    def _read_data(self, m: Module, platform: Any) -> None:
        """A read's tag travels beside its data: as many stages as the latency has slots."""
        config: Any = self.config
        column: Any = self.column
        flying = Signal(data.StructLayout({"valid": 1, "tag": self.layouts.tag, "bank": column.bank.shape(),
                                           "column": column.column.shape()}), name="flying_0")  # fmt: skip
        m.d.comb += [
            flying.valid.eq(column.enable & ~column.write),
            flying.tag.eq(column.tag),
            flying.bank.eq(column.bank),
            flying.column.eq(column.column),
        ]
        for stage in range(config.slots.read_latency):
            behind = Signal.like(flying, name=f"flying_{stage + 1}")
            m.d.sync += behind.eq(flying)
            flying = behind
        payload = self.response.payload
        corrected, lost = [], []
        for index in range(WORDS):
            decoder: Any = SecdedDecoder(SECDED)
            m.submodules[f"decoder_{index}"] = place(decoder, platform)
            m.d.comb += [decoder.codeword.eq(self.read_data[index]), payload.data[index].eq(decoder.data)]
            corrected.append(decoder.corrected)
            lost.append(decoder.lost)
        m.d.comb += [
            self.response.valid.eq(flying.valid),
            payload.tag.eq(flying.tag),
            payload.place.bank.eq(flying.bank),
            payload.place.column.eq(flying.column),
            payload.corrected.eq(Cat(corrected).any()),
            payload.lost.eq(Cat(lost).any()),
        ]
