"""State buffer: rows of a word per partition, banks interleaved by row, SECDED on every word."""

from typing import Any

from amaranth.hdl import Array, C, Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.layouts import answer, beat_layout, beat_request, bits, row_layout, sbuf_request
from hdl.core.share import round_robin
from hdl.core.spread import Spread, picks
from hdl.core.unit import pass_on
from hdl.ecc import SecdedDecoder, SecdedEncoder
from spec.core import CoreConfig
from spec.ecc import SecdedConfig

SECDED = SecdedConfig(data=32, check_bits=7)
TURNS = 8
"""Of so many accesses at least one is of those who come after, where they wait."""


class SbufBank(Block):
    """One bank: an access a cycle, a read's row two cycles later.

    A write of part of a word reads the word first, in the cycle in which a read would; a read in the cycle after sees
    the bytes written. ``inject`` is XORed to the codeword of the first partition of a write (0 in use).
    ``corrected``: a word that was read had one wrong bit; ``lost``: it had two, and is as it came. Contents survive
    reset.
    """

    config: CoreConfig

    def __init__(self, config: CoreConfig) -> None:
        ports = {
            "valid": In(1),
            "request": In(sbuf_request(config)),
            "inject": In(SECDED.width),
            "row": Out(row_layout(config)),
            "corrected": Out(1),
            "lost": Out(1),
        }
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """Read; a cycle later check, merge, write."""
        m = Module()
        config = self.config
        depth = config.sbuf_rows // config.sbuf_banks
        memory: Memory = Memory(shape=SECDED.width * config.partitions, depth=depth, init=[])
        m.submodules.memory = memory
        write = memory.write_port(granularity=SECDED.width)
        read = memory.read_port(transparent_for=(write,))
        place_ = self.request.row >> (config.sbuf_banks.bit_length() - 1)
        valid, writes = Signal(), Signal()
        mask = Signal(4 * config.partitions)
        new = Signal(row_layout(config))
        address = Signal(bits(depth))
        m.d.comb += [read.addr.eq(place_), read.en.eq(self.valid), write.addr.eq(address)]
        m.d.sync += [
            valid.eq(self.valid),
            writes.eq(self.valid & self.request.write),
            mask.eq(self.request.mask),
            new.eq(self.request.data),
            address.eq(place_),
        ]
        words, corrected, lost = [], [], []
        for index in range(config.partitions):
            decoder, encoder = SecdedDecoder(SECDED), SecdedEncoder(SECDED)
            m.submodules[f"decoder_{index}"] = place(decoder, platform)
            m.submodules[f"encoder_{index}"] = place(encoder, platform)
            part = mask[4 * index : 4 * index + 4]
            m.d.comb += [
                decoder.codeword.eq(read.data.word_select(index, SECDED.width)),
                encoder.data.eq(
                    Cat(
                        Mux(part[byte], new[index].word_select(byte, 8), decoder.data.word_select(byte, 8))
                        for byte in range(4)
                    )
                ),
                write.en[index].eq(writes & part.any()),
            ]
            injected = self.inject if index == 0 else C(0, SECDED.width)
            words.append(encoder.codeword ^ injected)
            counts = valid & Mux(writes, part.any() & ~part.all(), 1)
            corrected.append(counts & decoder.corrected)
            lost.append(counts & decoder.lost)
            m.d.sync += self.row[index].eq(decoder.data)
        m.d.comb += [
            write.data.eq(Cat(words)),
            self.corrected.eq(Cat(corrected).any()),
            self.lost.eq(Cat(lost).any()),
        ]
        return m


class Sbuf(Block):
    """Askers of rows and of beats; those of different banks are served in the same cycle, those of one bank in turn.

    ``request_n`` of port n is taken when its bank is free; the row of a read is answered two cycles later and cannot be
    held back. ``beat_n`` is a port of DMA, whose words may lie in several banks (:class:`hdl.core.spread.Spread`); its
    answer comes as soon. The first ``moving`` ports go before the other rows, and those before beats: the array loses
    each cycle that its columns come late, an element-wise engine the same, where a DMA engine has a queue. Whoever
    comes after has one of ``TURNS`` accesses at least, so nobody waits for ever. ``conflicts`` counts the cycles that
    requests waited, ``corrected`` repaired words, since reset; ``lost`` is 1 in the cycle in which a word turns
    out to be.
    """

    config: CoreConfig

    def __init__(self, config: CoreConfig, moving: int, ports: int, beats: int) -> None:
        self.moving, self.ports, self.beats = moving, ports, beats
        signature: dict[str, Any] = {
            "inject": In(SECDED.width),
            "conflicts": Out(32),
            "corrected": Out(32),
            "lost": Out(1),
        }
        for index in range(ports):
            signature[f"request_{index}"] = In(stream.Signature(sbuf_request(config)))
            signature[f"answer_{index}"] = Out(answer(row_layout(config)))
        for index in range(beats):
            signature[f"beat_{index}"] = In(stream.Signature(beat_request(config)))
            signature[f"beat_answer_{index}"] = Out(answer(beat_layout(config)))
        super().__init__(config, signature)

    @property
    def module_name(self) -> str:
        """The number of ports is part of what it is."""
        return f"{super().module_name}_{self.moving}_{self.ports}_{self.beats}"

    def elaborate(self, platform: Any) -> Module:
        """For each bank: who is next, what it answered."""
        m = Module()
        config = self.config
        spreads = [Spread(config) for _ in range(self.beats)]
        for index, spread in enumerate(spreads):
            m.submodules[f"spread_{index}"] = place(spread, platform)
            pass_on(m, getattr(self, f"beat_{index}"), spread.beats)
            m.d.comb += getattr(self, f"beat_answer_{index}").eq(spread.answer)
        requests = [getattr(self, f"request_{index}") for index in range(self.ports)]
        bank_bits = config.sbuf_banks.bit_length() - 1
        granted = Signal(self.ports)
        grants: list[list[Any]] = [[] for _ in requests]
        answers: list[list[Any]] = [[] for _ in requests]
        come: list[list[Any]] = [[] for _ in spreads]
        taken = [Signal(config.sbuf_banks, name=f"taken_{index}") for index in range(self.beats)]
        rows, corrected, lost = [], [], []
        held_up = []
        for number in range(config.sbuf_banks):
            bank = SbufBank(config)
            m.submodules[f"bank_{number}"] = place(bank, platform)
            parts = [self._part(m, spread, number, f"{index}_{number}") for index, spread in enumerate(spreads)]
            count = self.ports + self.beats
            wants = Signal(count, name=f"wants_{number}")
            rows_here = [r.valid & (r.payload.row[:bank_bits] == number if bank_bits else 1) for r in requests]
            m.d.comb += wants.eq(Cat(*rows_here, *(valid for valid, _ in parts)))
            groups = [wants[: self.moving], wants[self.moving : self.ports], wants[self.ports :]]
            chosen = Signal(range(count), name=f"chosen_{number}")
            m.d.comb += chosen.eq(self._choose(m, groups, f"bank_{number}", C(1)))
            asked = [*(request.payload.as_value() for request in requests), *(payload for _, payload in parts)]
            m.d.comb += [
                bank.valid.eq(wants.any()),
                bank.request.as_value().eq(Array(asked)[chosen]),
                bank.inject.eq(self.inject),
            ]
            first, second = Signal(count, name=f"first_{number}"), Signal(count, name=f"second_{number}")
            for index, request in enumerate(requests):
                mine = wants[index] & (chosen == index)
                grants[index].append(mine)
                m.d.sync += first[index].eq(mine & ~request.payload.write)
                answers[index].append(second[index])
            for index, (spread, (valid, _)) in enumerate(zip(spreads, parts, strict=True)):
                beat = self.ports + index
                mine = wants[beat] & (chosen == beat)
                m.d.comb += taken[index][number].eq(mine)
                come[index].append(second[beat])
                m.d.sync += first[beat].eq(mine & ~spread.row_0.payload.write)
                held_up.append(valid & ~mine)
            m.d.sync += second.eq(first)
            rows.append(bank.row)
            corrected.append(bank.corrected)
            lost.append(bank.lost)
        for index, spread in enumerate(spreads):
            picks(m, platform, f"pick_{index}", spread, rows, come[index])
            for word in range(config.dma_lanes):
                port = getattr(spread, f"row_{word}")
                place_ = port.payload.row[:bank_bits]
                m.d.comb += port.ready.eq(taken[index].bit_select(place_, 1) if bank_bits else taken[index])
        for index, request in enumerate(requests):
            back = getattr(self, f"answer_{index}")
            m.d.comb += [
                granted[index].eq(Cat(grants[index]).any()),
                request.ready.eq(granted[index]),
                back.valid.eq(Cat(answers[index]).any()),
            ]
            for row, mine in zip(rows, answers[index], strict=True):
                with m.If(mine):
                    m.d.comb += back.data.eq(row)
        m.d.comb += self.lost.eq(Cat(lost).any())
        waits = Cat(*(request.valid & ~granted[index] for index, request in enumerate(requests)), *held_up)
        m.d.sync += [
            self.conflicts.eq(self.conflicts + sum(waits)),
            self.corrected.eq(self.corrected + sum(corrected)),
        ]
        return m

    def _part(self, m: Module, spread: Spread, bank: int, name: str) -> tuple[Any, Any]:
        """Of a beat what lies in a bank: whether there is something, and the request."""
        lanes, bank_bits = self.config.dma_lanes, self.config.sbuf_banks.bit_length() - 1
        words = [getattr(spread, f"row_{word}") for word in range(lanes)]
        if not bank_bits:
            return words[0].valid, words[0].payload.as_value()
        word = Signal(bank_bits, name=f"word_{name}")
        m.d.comb += word.eq(bank - words[0].payload.row[:bank_bits])
        valid = Array([*(port.valid for port in words), *[C(0)] * (self.config.sbuf_banks - lanes)])[word]
        return valid, Array(port.payload.as_value() for port in words)[word[: max(1, (lanes - 1).bit_length())]]

    def _choose(self, m: Module, groups: list[Any], name: str, moves: Any) -> Any:
        """Who of all groups has a bank: those of the first in turn, unless the others have waited too long."""
        first, *others = groups
        if not others:
            return round_robin(m, first, len(first), moves & first.any(), name)
        waits = Cat(*others).any()
        passed, over = Signal(range(TURNS), name=f"{name}_passed"), Signal(name=f"{name}_over")
        m.d.comb += over.eq(waits & (~first.any() | (passed == TURNS - 1)))
        with m.If(moves):
            m.d.sync += passed.eq(Mux(waits & ~over, passed + 1, 0))
        mine = round_robin(m, first, len(first), moves & first.any() & ~over, name)
        return Mux(over, self._choose(m, others, f"{name}_over", moves & over) + len(first), mine)
