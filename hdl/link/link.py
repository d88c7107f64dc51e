"""The link layer: frames with a check sum, sequence numbers and replay, so that a noisy wire looks like a clean one."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import data, memory, stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.link.crc import crc
from spec.link import LinkConfig


def frame_layout(config: LinkConfig) -> data.StructLayout:
    """One frame on the wire, check sum last."""
    return data.StructLayout(dict(config.frame))


class LinkEnd(Block):
    """One end of a link: what is put into ``i`` comes out of the other end's ``o``, once and in order.

    A frame is on ``transmit`` in every cycle: with payload if there is one to send, and always with the
    acknowledgement of the other direction. A payload taken in cycle t is on ``transmit`` in cycle t + 2 at the
    earliest; one that is on ``receive`` in cycle t is on ``o`` in cycle t + 1, for that cycle only.
    Go-back-N: a frame that is damaged or not the expected one is dropped and asked for again; the sender then repeats
    everything from there on. A lost request is made up for by ``timeout`` cycles without progress. After ``retries`` of
    these in a row, or as long without one whole frame, the link is ``dead`` until reset: it takes and drops what comes,
    so nobody hangs, and sends nothing, so that the other end follows.
    ``o`` has no ready: the taker holds credits for what it asked for. ``replays`` and ``damaged`` count events.
    Backpressure: ``i.ready`` falls with ``window`` payloads unacknowledged. Both ends are reset together; the reset of
    one alone lasts ``config.silence`` cycles, by which the other is dead, or their numbers could match by chance.
    """

    config: LinkConfig

    def __init__(self, config: LinkConfig) -> None:
        super().__init__(
            config,
            {
                "i": In(stream.Signature(config.payload_bits)),
                "o": Out(stream.Signature(config.payload_bits, always_ready=True)),
                "transmit": Out(frame_layout(config)),
                "receive": In(frame_layout(config)),
                "dead": Out(1),
                "replays": Out(16),
                "damaged": Out(16),
            },
        )

    def elaborate(self, platform: Any) -> Module:
        """Receiver, then sender."""
        m = Module()
        sequence = self.config.sequence_bits
        body = len(self.receive.as_value()) - self.config.crc_bits
        whole = Signal()
        expected, again = Signal(sequence), Signal()
        arrived, wanted = Signal(), Signal()
        m.d.comb += [
            whole.eq(~self.dead & (crc(self.receive.as_value()[:body], self.config.crc_bits) == self.receive.crc)),
            arrived.eq(whole & self.receive.data),
            wanted.eq(arrived & (self.receive.sequence == expected)),
        ]
        m.d.sync += self.o.valid.eq(wanted)
        with m.If(wanted):
            m.d.sync += [self.o.payload.eq(self.receive.payload), expected.eq(expected + 1), again.eq(0)]
        with m.Elif(~whole):
            m.d.sync += again.eq(1)
        with m.Elif(arrived & ((self.receive.sequence - expected)[:sequence] < self.config.window)):
            m.d.sync += again.eq(1)
        with m.If(~whole & ~self.dead & ~self.damaged.all()):
            m.d.sync += self.damaged.eq(self.damaged + 1)
        quiet = Signal(range(self.config.silence + 1))
        m.d.sync += quiet.eq(Mux(whole | self.dead, 0, quiet + 1))
        with m.If(~whole & (quiet == self.config.silence - 1)):
            m.d.sync += self.dead.eq(1)
        self._send(m, whole, expected, again)
        return m

    def _send(self, m: Module, whole: Signal, expected: Signal, again: Signal) -> None:
        """``oldest`` is unacknowledged, ``following`` is sent next, ``newest`` will number the next payload taken."""
        sequence, window = self.config.sequence_bits, self.config.window
        oldest, following, newest = (Signal(sequence, name=name) for name in ("oldest", "following", "newest"))
        rows: Any = memory.Memory(shape=self.config.payload_bits, depth=window, init=[])
        m.submodules.rows = rows
        write, read = rows.write_port(), rows.read_port(domain="comb")
        take, more = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(((newest - oldest)[:sequence] != window) | self.dead),
            take.eq(self.i.valid & self.i.ready & ~self.dead),
            write.en.eq(take),
            write.addr.eq(newest[: sequence - 1]),
            write.data.eq(self.i.payload),
            read.addr.eq(following[: sequence - 1]),
            more.eq((following != newest) & ~self.dead),
        ]
        m.d.sync += newest.eq(newest + take)
        frame = Signal(frame_layout(self.config))
        body = len(frame.as_value()) - self.config.crc_bits
        m.d.comb += [
            frame.payload.eq(Mux(more, read.data, 0)),
            frame.data.eq(more),
            frame.sequence.eq(following),
            frame.expected.eq(expected),
            frame.again.eq(again),
            frame.crc.eq(crc(frame.as_value()[:body], self.config.crc_bits)),
        ]
        m.d.sync += self.transmit.as_value().eq(Mux(self.dead, 0, frame.as_value()))

        # Acknowledgements beyond what was sent can only be damage the check sum missed; they are ignored.
        acknowledged, sent, advance = (Signal(sequence, name=name) for name in ("acknowledged", "sent", "advance"))
        progress, asked, late = Signal(), Signal(), Signal()
        asked_before = Signal()
        timer, failures = Signal(range(self.config.timeout)), Signal(range(self.config.retries + 1))
        m.d.comb += [
            acknowledged.eq(self.receive.expected - oldest),
            sent.eq(newest - oldest),
            progress.eq(whole & (acknowledged != 0) & (acknowledged <= sent)),
            advance.eq(Mux(progress, acknowledged, 0)),
            asked.eq(whole & self.receive.again & (acknowledged <= sent) & (~asked_before | progress)),
            late.eq((timer == self.config.timeout - 1) & ~progress),
        ]
        m.d.sync += [oldest.eq(oldest + advance), following.eq(following + more)]
        with m.If(whole):
            m.d.sync += asked_before.eq(self.receive.again)
        with m.If(asked | late):
            m.d.sync += following.eq(oldest + advance)
            with m.If((following != oldest) & ~self.replays.all()):
                m.d.sync += self.replays.eq(self.replays + 1)
        with m.Elif(advance > (following - oldest)[:sequence]):
            m.d.sync += following.eq(oldest + advance)
        m.d.sync += timer.eq(Mux(progress | late | (sent == 0), 0, timer + 1))
        with m.If(progress):
            m.d.sync += failures.eq(0)
        with m.Elif(late):
            m.d.sync += failures.eq(failures + 1)
            with m.If(failures == self.config.retries - 1):
                m.d.sync += self.dead.eq(1)


class LinkPair(Block):
    """Two ends and the wires between them, ``wire_cycles`` long each way; ``flips`` inverts bits at the far end.

    For benches, and as the example of how two ends are joined. ``cut`` holds both wires at zero: a broken cable.
    """

    config: LinkConfig

    def __init__(self, config: LinkConfig) -> None:
        payload = stream.Signature(config.payload_bits)
        received = stream.Signature(config.payload_bits, always_ready=True)
        super().__init__(
            config,
            {
                "i": In(payload).array(2),
                "o": Out(received).array(2),
                "flips": In(config.frame_bits).array(2),
                "cut": In(1),
                "dead": Out(1).array(2),
                "replays": Out(16).array(2),
                "damaged": Out(16).array(2),
            },
        )
        self.ends = [LinkEnd(config), LinkEnd(config)]

    def elaborate(self, platform: Any) -> Module:
        """``o[0]`` is what was put into ``i[0]``; it arrives at end 1."""
        m = Module()
        for number, end in enumerate(self.ends):
            m.submodules[f"end_{number}"] = place(end, platform)
            other = self.ends[1 - number]
            wire = end.transmit.as_value()
            for hop in range(self.config.wire_cycles):
                later = Signal(len(wire), name=f"wire_{number}_{hop}")
                m.d.sync += later.eq(wire)
                wire = later
            m.d.comb += [
                other.receive.as_value().eq(Mux(self.cut, 0, wire ^ self.flips[number])),
                end.i.payload.eq(self.i[number].payload),
                end.i.valid.eq(self.i[number].valid),
                self.i[number].ready.eq(end.i.ready),
                self.o[number].valid.eq(other.o.valid),
                self.o[number].payload.eq(other.o.payload),
                self.dead[number].eq(end.dead),
                self.replays[number].eq(end.replays),
                self.damaged[number].eq(other.damaged),
            ]
        return m
