"""Beats of DMA on the banks of SBUF."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.layouts import answer, beat_layout, beat_request, row_layout, sbuf_request
from spec.core import CoreConfig

PICKED = 8
"""Banks of one :class:`Pick`: the rows of more would be more inputs than Amaranth numbers, at 128 partitions."""


class Pick(Block):
    """Of the rows that ``banks`` banks answer: the word of one lane of each, and the whole row of one. Latency 0."""

    config: CoreConfig

    def __init__(self, config: CoreConfig, banks: int) -> None:
        self.banks = banks
        ports: dict[str, Any] = {
            "lane": In(range(config.partitions)),
            "bank": In(range(max(2, banks))),
            "row": Out(row_layout(config)),
        }
        for bank in range(banks):
            ports |= {f"row_{bank}": In(row_layout(config)), f"word_{bank}": Out(32)}
        super().__init__(config, ports)

    @property
    def module_name(self) -> str:
        """The number of banks is part of what it is."""
        return f"{super().module_name}_{self.banks}"

    def elaborate(self, platform: Any) -> Module:
        """Two choices."""
        m = Module()
        rows = [getattr(self, f"row_{bank}") for bank in range(self.banks)]
        m.d.comb += self.row.as_value().eq(Array(row.as_value() for row in rows)[self.bank])
        for bank, row in enumerate(rows):
            m.d.comb += getattr(self, f"word_{bank}").eq(row.as_value().word_select(self.lane, 32))
        return m


class Spread(Block):
    """Words of one partition in successive rows lie in as many banks: ``row_n`` asks for the n-th of them, in whatever
    bank that is; words across partitions lie in one row, that of ``row_0``.

    What the banks answer comes through ``picks``: of each bank the word of ``lane``, and the row of bank ``first``.

    ``beats`` takes a request when every bank it needs has taken its part; banks that are busy hold it up, each for
    itself. The words of a read are there two cycles later, at ``answer``, as those of a row are; bytes between them are
    undefined. Requests and answers are in order. Nothing is held but the parts of the request that is not yet taken;
    reset drops them.
    """

    config: CoreConfig

    def __init__(self, config: CoreConfig) -> None:
        ports: dict[str, Any] = {
            "beats": In(stream.Signature(beat_request(config))),
            "answer": Out(answer(beat_layout(config))),
            "lane": Out(range(config.partitions)),
            "first": Out(range(max(2, config.sbuf_banks))),
            "across": In(row_layout(config)),
        }
        ports |= {f"row_{word}": Out(stream.Signature(sbuf_request(config))) for word in range(config.dma_lanes)}
        ports |= {f"word_{bank}": In(answer(32)) for bank in range(config.sbuf_banks)}
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """Which words are asked for; what is still missing."""
        m = Module()
        config, request = self.config, self.beats.payload
        lanes, bank_bits = config.dma_lanes, config.sbuf_banks.bit_length() - 1
        done, got, needed = (Signal(lanes, name=name) for name in ("done", "got", "needed"))
        complete = Signal()
        m.d.comb += [
            complete.eq(self.beats.valid & (got | done | ~needed).all()),
            self.beats.ready.eq(complete),
        ]
        m.d.sync += done.eq(Mux(complete, 0, got | done))
        masks = [request.mask.word_select(word, 4) for word in range(lanes)]
        across = self._across(m, Array(masks), max(1, (lanes - 1).bit_length()))
        for word, mask in enumerate(masks):
            port = getattr(self, f"row_{word}")
            row = port.payload
            m.d.comb += [
                needed[word].eq(Mux(request.across, word == 0, mask.any())),
                port.valid.eq(self.beats.valid & needed[word] & ~done[word]),
                got[word].eq(port.valid & port.ready),
                row.write.eq(request.write),
                row.row.eq(request.row + word),
            ]
            for partition, (data, bytes_) in enumerate(across):
                own = Mux(request.lane == partition, mask, 0)
                crossing = request.across if word == 0 else 0
                m.d.comb += [
                    row.data[partition].eq(Mux(crossing, data, request.data[word])),
                    row.mask.word_select(partition, 4).eq(Mux(crossing, bytes_, own)),
                ]
        self._answer(m, complete & ~request.write, request.row[:bank_bits])
        return m

    def _across(self, m: Module, masks: Any, lane_bits: int) -> list[tuple[Any, Any]]:
        """Word and mask of each partition if the words go across, whatever the bank."""
        config, request = self.config, self.beats.payload
        found = []
        for partition in range(config.partitions):
            place = Signal(range(config.partitions), name=f"place_{partition}")
            data, mask = Signal(32, name=f"across_{partition}"), Signal(4, name=f"across_mask_{partition}")
            own = place[:lane_bits]
            m.d.comb += [
                place.eq(partition - request.lane),
                data.eq(Array(request.data)[own]),
                mask.eq(Mux(place < config.dma_lanes, masks[own], 0)),
            ]
            found.append((data, mask))
        return found

    def _answer(self, m: Module, reads: Any, first: Any) -> None:
        """Words that came early are kept until the last one is there."""
        config = self.config
        lanes, count = config.dma_lanes, config.sbuf_banks
        about = Cat(reads, self.beats.payload.across, self.beats.payload.lane, first)
        before, now = Signal(len(about)), Signal(len(about))
        m.d.sync += [before.eq(about), now.eq(before)]
        lane_end = 2 + len(self.beats.payload.lane)
        m.d.comb += [self.lane.eq(now[2:lane_end]), self.first.eq(now[lane_end:])]
        kept = Signal(beat_layout(config))
        words = [getattr(self, f"word_{bank}") for bank in range(count)]
        valid, picked = Array(word.valid for word in words), Array(word.data for word in words)
        across = self.across.as_value()
        wrapped = Cat(across, across[: 32 * (lanes - 1)])
        m.d.comb += self.answer.valid.eq(now[0])
        for word in range(lanes):
            bank = (self.first + word)[: len(self.first)] if count > 1 else 0
            found = Signal(32, name=f"found_{word}")
            m.d.comb += [
                found.eq(Mux(valid[bank], picked[bank], kept[word])),
                self.answer.data[word].eq(Mux(now[1], wrapped[32 * word :].word_select(self.lane, 32), found)),
            ]
            m.d.sync += kept[word].eq(found)


def picks(m: Module, platform: Any, name: str, spread: Spread, rows: list[Any], valid: Any) -> None:
    """Let ``spread`` have what it needs of the rows of all banks; ``valid``: for each, whether it answers it."""
    parts = []
    for first in range(0, len(rows), PICKED):
        banks = rows[first : first + PICKED]
        pick = Pick(spread.config, len(banks))
        m.submodules[f"{name}_{first}"] = place(pick, platform)
        m.d.comb += [pick.lane.eq(spread.lane), pick.bank.eq(spread.first)]
        for number, row in enumerate(banks):
            word = getattr(spread, f"word_{first + number}")
            m.d.comb += [
                getattr(pick, f"row_{number}").eq(row),
                word.valid.eq(valid[first + number]),
                word.data.eq(getattr(pick, f"word_{number}")),
            ]
        parts.append(pick.row.as_value())
    m.d.comb += spread.across.as_value().eq(Array(parts)[spread.first // PICKED])
