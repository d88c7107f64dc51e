"""The way of a core's requests: to the memory of its own chip, or to other chips."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.layouts import LINE_BITS, REASON_BITS, UPDATE, answer, bits, line_request
from hdl.core.unit import pass_on
from hdl.fifo import Fifo
from hdl.system.layouts import ERROR_BITS, REPLY, MemoryPort, addressed_layout, body_of, message_layout, reason_of
from spec.core import LINE_BYTES
from spec.fifo import FifoConfig
from spec.system import ASKS, ERRORS, SystemConfig

WAITING = 255
"""Reads, and writes, of one core under way."""
WRITE, READ, UPDATE_ = range(len(ASKS))
UNREACHABLE, NOWHERE = ERRORS.index("unreachable"), ERRORS.index("bad_address")


class Gate(Block):
    """Between one core and the rest of the system.

    ``lines`` and ``answer`` are the core's memory port: requests are taken in order and answered in order; ``own`` is a
    port of the chip's memory, ``away`` leads to other chips, ``back`` are answers from there. Reads wait until those of
    another chip have been answered; writes do not wait, and to one chip nothing overtakes anything. ``sent`` are the
    core's updates of semaphores: to ``near`` for cores of this chip, otherwise ``away``, behind what was written before
    to that chip or the own one.

    ``pending`` while a write or an update is not done. ``error`` is a reason for the cycle in which one turns out: of
    an answer, of a line of no chip, or unreachable: when the network says so, and when ``patience`` cycles bring no
    answer though there should be one. Then the way to other chips is closed until reset: what waits is answered with
    zeros, what comes is dropped, both an error. ``lost`` is 1 for an update of a core that does not exist, or a line.

    ``number`` is the core's within the chip, ``chip`` that of the chip, both constant. Latency: none to the own memory,
    one cycle to ``away`` and ``near``.
    """

    config: SystemConfig

    def __init__(self, config: SystemConfig) -> None:
        ports = {
            "chip": In(bits(config.chips)),
            "number": In(bits(config.cores)),
            "lines": In(stream.Signature(line_request(config.core))),
            "answer": Out(answer(LINE_BITS)),
            "sent": In(stream.Signature(UPDATE)),
            "own": Out(MemoryPort(config)),
            "near": Out(stream.Signature(addressed_layout(config))),
            "away": Out(stream.Signature(message_layout(config))),
            "back": In(answer(REPLY)),
            "pending": Out(1),
            "error": Out(REASON_BITS),
            "lost": Out(1),
        }
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """Where to, what waits, and the messages."""
        m = Module()
        config = self.config
        pins: Any = self
        own, layout = pins.own, message_layout(config)
        away = Fifo(FifoConfig(width=layout.size, depth=2), layout)
        m.submodules.queue = place(away, platform)
        pass_on(m, away.o, self.away)
        # The core may choose another update while none is taken: the queue takes whatever comes first.
        sent = Fifo(FifoConfig(width=UPDATE.size, depth=2), UPDATE)
        m.submodules.sent_queue = place(sent, platform)
        pass_on(m, self.sent, sent.i)

        closed, writes, unacknowledged = Signal(), Signal(range(WAITING + 1)), Signal(range(WAITING + 1))
        leaves, dropped = self._updates(m, sent.o, away, closed, (writes == 0) & (unacknowledged != WAITING))
        request = self.lines.payload
        line_bits = (config.chip_lines - 1).bit_length()
        where = request.line[line_bits:]
        place_, waiting = Signal(bits(config.chips)), Signal(range(WAITING + 1))
        target, exists, mine, nowhere = Signal(bits(config.chips)), Signal(), Signal(), Signal()
        nothing, flush = Signal(), Signal()
        # Where writes take time, an update that waits for them lets no more go first.
        fenced = (sent.o.valid if config.stack is not None else 0) | (writes == WAITING)
        read_may = (waiting == 0) | ((place_ == target) & ~nowhere & (waiting != WAITING))
        may, goes, asked = Signal(), Signal(), Signal()
        m.d.comb += [
            target.eq(where),
            exists.eq(where < config.chips),
            mine.eq(exists & (target == self.chip)),
            nowhere.eq(~mine & (closed | ~exists)),
            may.eq(self.lines.valid & Mux(request.write, ~(mine & fenced), read_may & ~nothing)),
            own.request.valid.eq(may & mine),
            own.request.payload.write.eq(request.write),
            own.request.payload.line.eq(request.line[:line_bits]),
            own.request.payload.data.eq(request.data),
            own.request.payload.mask.eq(request.mask),
            goes.eq(may & ~mine & ~nowhere & ~leaves & (unacknowledged != WAITING)),
            self.lines.ready.eq(may & Mux(mine, own.request.ready, nowhere | (goes & away.i.ready))),
            asked.eq(self.lines.ready & ~request.write),
            self.lost.eq(dropped | (self.lines.ready & ~exists)),
        ]
        with m.If(goes):
            self._message(m, away.i, request, target, line_bits)
        back, answers, acknowledges, said = pins.back.data, Signal(), Signal(), Signal(ERROR_BITS)
        comes = pins.back.valid & ~closed
        m.d.comb += [
            answers.eq(comes & back.read),
            acknowledges.eq(comes & ~back.read),
            said.eq(Mux(comes, back.line.error, 0)),
            flush.eq(closed & (waiting != 0) & (place_ != self.chip) & ~nothing),
            self.answer.valid.eq(own.answer.valid | answers | nothing | flush),
            self.answer.data.eq(
                Mux(
                    own.answer.valid,
                    own.answer.data.data,
                    Mux(answers, back.line.data, 0),
                )
            ),
            self.pending.eq((writes != 0) | (unacknowledged != 0) | sent.o.valid),
        ]
        wrote = own.request.valid & own.request.ready & request.write
        sends = away.i.valid & away.i.ready & (away.i.payload.operation != READ)
        m.d.sync += [
            waiting.eq(waiting + asked - self.answer.valid),
            nothing.eq(asked & nowhere),
            writes.eq(writes + wrote - own.done.valid),
            unacknowledged.eq(Mux(closed, 0, unacknowledged + sends - acknowledges)),
        ]
        with m.If(asked):
            m.d.sync += place_.eq(target)
        silence, silent = Signal(range(config.patience)), Signal()
        expected = (unacknowledged != 0) | ((waiting != 0) & (place_ != self.chip) & ~nothing)
        m.d.comb += silent.eq(~closed & (silence == config.patience - 1))
        m.d.sync += silence.eq(Mux(expected & ~pins.back.valid & ~closed, silence + 1, 0))
        with m.If(silent):
            m.d.sync += closed.eq(1)
        gone = closed & ((self.lines.ready & exists & ~mine) | (leaves & sent.o.ready))
        self._error(m, said, silent | gone, self.lines.ready & ~exists)
        assert len(request.mask) == LINE_BYTES
        return m

    def _message(self, m: Module, message: Any, request: Any, target: Any, line_bits: int) -> None:
        """A request to another chip."""
        config, payload = self.config, message.payload
        read, write = (body_of(payload, config, name) for name in ("read", "write"))
        m.d.comb += [
            message.valid.eq(1),
            payload.peer.eq(target),
            payload.core.eq(self.number),
            payload.operation.eq(Mux(request.write, WRITE, READ)),
        ]
        with m.If(request.write):
            m.d.comb += [
                write.line.eq(request.line[:line_bits]),
                write.mask.eq(request.mask),
                write.data.eq(request.data),
            ]
        with m.Else():
            m.d.comb += read.line.eq(request.line[:line_bits])

    def _error(self, m: Module, said: Any, unreachable: Any, nowhere: Any) -> None:
        """The reason of this cycle; of several the first."""
        pins: Any = self
        errors = (
            (pins.own.answer.valid, pins.own.answer.data.error),
            (pins.own.done.valid, pins.own.done.data),
            (said != 0, said),
            (unreachable, UNREACHABLE),
            (nowhere, NOWHERE),
        )
        code = Signal(ERROR_BITS)
        for happens, error in reversed(errors):
            with m.If(happens & (error != 0)):
                m.d.comb += code.eq(error)
        m.d.comb += self.error.eq(reason_of(code))

    def _updates(self, m: Module, sent: Any, away: Fifo, closed: Any, may: Any) -> tuple[Any, Any]:
        """The core's updates go first, they are few. Returns: one leaves the chip, if it can; one is dropped."""
        config, update = self.config, sent.payload
        core_bits = (config.cores - 1).bit_length()
        number = Signal(16)
        chip, core = number[core_bits:], number[:core_bits] if core_bits else 0
        exists, own, leaves = Signal(), Signal(), Signal()
        m.d.comb += [
            number.eq(update.core - 1),
            exists.eq(chip < config.chips),
            own.eq(chip == self.chip),
            leaves.eq(sent.valid & exists & ~own & may),
            self.near.valid.eq(sent.valid & own & may),
            self.near.payload.core.eq(core),
            self.near.payload.update.eq(update),
            self.near.payload.update.core.eq(0),
            sent.ready.eq(Mux(own, self.near.ready & may, ~exists | (may & (away.i.ready | closed)))),
        ]
        with m.If(leaves & ~closed):
            body = body_of(away.i.payload, config, "update")
            m.d.comb += [
                away.i.valid.eq(1),
                away.i.payload.peer.eq(chip),
                away.i.payload.core.eq(self.number),
                away.i.payload.operation.eq(UPDATE_),
                body.kind.eq(update.kind),
                body.semaphore.eq(update.semaphore),
                body.value.eq(update.value),
                body.core.eq(core),
            ]
        return leaves, sent.valid & ~exists
