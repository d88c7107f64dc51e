"""State buffer: rows of a word per partition, banks interleaved by row, SECDED on every word."""

from typing import Any

from amaranth.hdl import Array, C, Cat, Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.memory import Memory
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.layouts import answer, bits, row_layout, sbuf_request
from hdl.core.share import round_robin
from hdl.ecc import SecdedDecoder, SecdedEncoder
from spec.core import CoreConfig
from spec.ecc import SecdedConfig

SECDED = SecdedConfig(data=32, check_bits=7)


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
    """``ports`` askers; those of different banks are served in the same cycle, those of one bank in turn.

    ``request_n`` of port n is taken when its bank is free; the row of a read is answered two cycles later and cannot be
    held back. ``conflicts`` counts the cycles that requests waited, ``corrected`` repaired words, since reset; ``lost``
    is 1 in the cycle in which a word turns out to be.
    """

    config: CoreConfig

    def __init__(self, config: CoreConfig, ports: int) -> None:
        self.ports = ports
        signature: dict[str, Any] = {
            "inject": In(SECDED.width),
            "conflicts": Out(32),
            "corrected": Out(32),
            "lost": Out(1),
        }
        for index in range(ports):
            signature[f"request_{index}"] = In(stream.Signature(sbuf_request(config)))
            signature[f"answer_{index}"] = Out(answer(row_layout(config)))
        super().__init__(config, signature)

    @property
    def module_name(self) -> str:
        """The number of ports is part of what it is."""
        return f"{super().module_name}_{self.ports}"

    def elaborate(self, platform: Any) -> Module:
        """For each bank: who is next, what it answered."""
        m = Module()
        config = self.config
        requests = [getattr(self, f"request_{index}") for index in range(self.ports)]
        bank_bits = config.sbuf_banks.bit_length() - 1
        granted = Signal(self.ports)
        grants: list[list[Any]] = [[] for _ in requests]
        answers: list[list[Any]] = [[] for _ in requests]
        rows, corrected, lost = [], [], []
        for number in range(config.sbuf_banks):
            bank = SbufBank(config)
            m.submodules[f"bank_{number}"] = place(bank, platform)
            wants = Signal(self.ports, name=f"wants_{number}")
            m.d.comb += wants.eq(
                Cat(r.valid & (r.payload.row[:bank_bits] == number if bank_bits else 1) for r in requests)
            )
            chosen = round_robin(m, wants, self.ports, wants.any(), f"bank_{number}")
            payload = Array(request.payload.as_value() for request in requests)[chosen]
            m.d.comb += [
                bank.valid.eq(wants.any()),
                bank.request.as_value().eq(payload),
                bank.inject.eq(self.inject),
            ]
            first, second = Signal(self.ports, name=f"first_{number}"), Signal(self.ports, name=f"second_{number}")
            for index, request in enumerate(requests):
                mine = wants[index] & (chosen == index)
                grants[index].append(mine)
                m.d.sync += first[index].eq(mine & ~request.payload.write)
                answers[index].append(second[index])
            m.d.sync += second.eq(first)
            rows.append(bank.row)
            corrected.append(bank.corrected)
            lost.append(bank.lost)
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
        waits = Cat(request.valid & ~granted[index] for index, request in enumerate(requests))
        m.d.sync += [
            self.conflicts.eq(self.conflicts + sum(waits)),
            self.corrected.eq(self.corrected + sum(corrected)),
        ]
        return m
