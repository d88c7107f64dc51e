"""The way of a core's requests: to the memory of its own chip, or to other chips."""

from typing import Any

from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.layouts import LINE_BITS, UPDATE, answer, bits, line_request
from hdl.fifo import Fifo
from hdl.system.layouts import addressed_layout, body_of, message_layout
from spec.core import LINE_BYTES
from spec.fifo import FifoConfig
from spec.system import OPERATIONS, SystemConfig

WAITING = 255
"""Reads of one core under way."""


class Gate(Block):
    """Between one core and the rest of the system.

    ``lines`` and ``answer`` are the core's memory port: requests are taken in order and answered in order; ``own`` and
    ``own_answer`` lead to the chip's memory, ``away`` to other chips, ``away_answer`` back from there. Reads wait until
    those of another chip have been answered; writes do not wait, and to one chip nothing overtakes anything. ``sent``
    are the core's updates of semaphores: to ``near`` for cores of this chip, otherwise ``away``, behind what was
    written before. What is meant for a chip or core that does not exist is dropped, ``lost`` for a cycle; such a read
    is answered with zeros.

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
            "own": Out(stream.Signature(line_request(config.own))),
            "own_answer": In(answer(LINE_BITS)),
            "near": Out(stream.Signature(addressed_layout(config))),
            "away": Out(stream.Signature(message_layout(config))),
            "away_answer": In(answer(LINE_BITS)),
            "lost": Out(1),
        }
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """Where to, what waits, and the messages."""
        m = Module()
        config = self.config
        layout = message_layout(config)
        away = Fifo(FifoConfig(width=layout.size, depth=2), layout)
        m.submodules.queue = place(away, platform)
        m.d.comb += [
            self.away.valid.eq(away.o.valid),
            self.away.payload.eq(away.o.payload),
            away.o.ready.eq(self.away.ready),
        ]
        # The core may choose another update while none is taken: the queue takes whatever comes first.
        sent = Fifo(FifoConfig(width=UPDATE.size, depth=2), UPDATE)
        m.submodules.sent_queue = place(sent, platform)
        m.d.comb += [
            sent.i.valid.eq(self.sent.valid),
            sent.i.payload.eq(self.sent.payload),
            self.sent.ready.eq(sent.i.ready),
        ]
        updates, dropped = self._updates(m, sent.o, away)
        request = self.lines.payload
        line_bits = (config.chip_lines - 1).bit_length()
        where = request.line[line_bits:]
        place_, waiting = Signal(bits(config.chips)), Signal(range(WAITING + 1))
        target, exists = Signal(bits(config.chips)), Signal()
        m.d.comb += [target.eq(where), exists.eq(where < config.chips)]
        own = exists & (target == self.chip)
        nothing = Signal()
        reads = (waiting == 0) | ((place_ == target) & exists & (waiting != WAITING))
        may = self.lines.valid & (request.write | reads & ~nothing)
        goes, asked = Signal(), Signal()
        m.d.comb += [
            self.own.valid.eq(may & own),
            self.own.payload.write.eq(request.write),
            self.own.payload.line.eq(request.line[:line_bits]),
            self.own.payload.data.eq(request.data),
            self.own.payload.mask.eq(request.mask),
            goes.eq(may & exists & ~own & ~updates),
            self.lines.ready.eq(may & Mux(own, self.own.ready, ~exists | (goes & away.i.ready))),
            asked.eq(self.lines.ready & ~request.write),
            self.lost.eq(dropped | self.lines.ready & ~exists),
        ]
        with m.If(goes):
            m.d.comb += [
                away.i.valid.eq(1),
                away.i.payload.peer.eq(target),
                away.i.payload.operation.eq(OPERATIONS.index("read")),
            ]
            read, write = (body_of(away.i.payload, config, name) for name in ("read", "write"))
            with m.If(request.write):
                m.d.comb += [
                    away.i.payload.operation.eq(OPERATIONS.index("write")),
                    write.line.eq(request.line[:line_bits]),
                    write.mask.eq(request.mask),
                    write.data.eq(request.data),
                ]
            with m.Else():
                m.d.comb += [read.line.eq(request.line[:line_bits]), read.core.eq(self.number)]
        answered = self.own_answer.valid | self.away_answer.valid | nothing
        m.d.comb += [
            self.answer.valid.eq(answered),
            self.answer.data.eq(
                Mux(nothing, 0, Mux(self.own_answer.valid, self.own_answer.data, self.away_answer.data))
            ),
        ]
        m.d.sync += [waiting.eq(waiting + asked - answered), nothing.eq(asked & ~exists)]
        with m.If(asked):
            m.d.sync += place_.eq(target)
        assert len(request.mask) == LINE_BYTES
        return m

    def _updates(self, m: Module, sent: Any, away: Fifo) -> tuple[Any, Any]:
        """The core's updates go first, they are few. Returns: one wants to leave the chip; one is dropped."""
        config, update = self.config, sent.payload
        core_bits = (config.cores - 1).bit_length()
        number = Signal(16)
        chip, core = number[core_bits:], number[:core_bits] if core_bits else 0
        exists, own, leaves = Signal(), Signal(), Signal()
        m.d.comb += [
            number.eq(update.core - 1),
            exists.eq(chip < config.chips),
            own.eq(chip == self.chip),
            leaves.eq(sent.valid & exists & ~own),
            self.near.valid.eq(sent.valid & own),
            self.near.payload.core.eq(core),
            self.near.payload.update.eq(update),
            self.near.payload.update.core.eq(0),
            sent.ready.eq(Mux(own, self.near.ready, ~exists | away.i.ready)),
        ]
        with m.If(leaves):
            body = body_of(away.i.payload, config, "update")
            m.d.comb += [
                away.i.valid.eq(1),
                away.i.payload.peer.eq(chip),
                away.i.payload.operation.eq(OPERATIONS.index("update")),
                body.kind.eq(update.kind),
                body.semaphore.eq(update.semaphore),
                body.value.eq(update.value),
                body.core.eq(core),
            ]
        return leaves, sent.valid & ~exists
