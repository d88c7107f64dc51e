"""The end of an engine's pipeline: rows in order, and behind the last of an instruction its status."""

from typing import Any

from amaranth.hdl import Cat, Module
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block, place
from hdl.fifo import Fifo
from spec.fifo import FifoConfig

CODE_BITS = 3


class Delivery(Block):
    """A queue of ``config.depth`` items that is never full: whoever gives with ``valid`` counts its free places.

    An item may have a row of ``config.width`` bits (``has_row``), and may be the ``last`` of an instruction, which ends
    with ``code``. ``results`` gives the rows, ``status`` the codes, each a cycle after its instruction's last row was
    taken. ``returned``: an item leaves, its place is free. Reset empties both.
    """

    config: FifoConfig

    def __init__(self, config: FifoConfig) -> None:
        ports = {
            "valid": In(1),
            "row": In(config.width),
            "has_row": In(1),
            "last": In(1),
            "code": In(CODE_BITS),
            "returned": Out(1),
            "results": Out(stream.Signature(config.width)),
            "status": Out(stream.Signature(CODE_BITS)),
        }
        super().__init__(config, Signature(ports))

    def elaborate(self, platform: Any) -> Module:
        """The queue of items, and a short one of codes behind it."""
        m = Module()
        width = self.config.width
        items = Fifo(FifoConfig(width=width + 2 + CODE_BITS, depth=self.config.depth))
        codes = Fifo(FifoConfig(width=CODE_BITS, depth=2))
        m.submodules.items = place(items, platform)
        m.submodules.codes = place(codes, platform)
        payload = items.o.payload
        has_row, last, code = payload[width], payload[width + 1], payload[width + 2 :]
        free = ~last | codes.i.ready
        m.d.comb += [
            items.i.valid.eq(self.valid),
            items.i.payload.eq(Cat(self.row, self.has_row, self.last, self.code)),
            self.results.payload.eq(payload[:width]),
            self.results.valid.eq(items.o.valid & has_row & free),
            items.o.ready.eq(free & (~has_row | self.results.ready)),
            codes.i.valid.eq(items.o.valid & last & (~has_row | self.results.ready)),
            codes.i.payload.eq(code),
            self.returned.eq(items.o.valid & items.o.ready),
            self.status.valid.eq(codes.o.valid),
            self.status.payload.eq(codes.o.payload),
            codes.o.ready.eq(self.status.ready),
        ]
        return m


def deliver(m: Module, engine: Any, delivery: Delivery, control: Any) -> None:
    """Connect ``delivery`` to an engine's streams and its control's credit."""
    m.d.comb += [
        control.returned.eq(delivery.returned),
        engine.results.payload.as_value().eq(delivery.results.payload),
        engine.results.valid.eq(delivery.results.valid),
        delivery.results.ready.eq(engine.results.ready),
        engine.status.payload.as_value().eq(delivery.status.payload),
        engine.status.valid.eq(delivery.status.valid),
        delivery.status.ready.eq(engine.status.ready),
    ]
