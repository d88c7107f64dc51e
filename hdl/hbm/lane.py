"""One pseudo channel of a stack: requesters in turn, the controller, lines on their way back."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, Signature

from hdl.block import Block, place
from hdl.hbm.controller import HbmController
from hdl.hbm.merge import HbmMerge
from hdl.hbm.returns import HbmReturns
from hdl.hbm.stack_layouts import StackLayouts
from spec.hbm_stack import HbmStackConfig


class DeviceSide(Signature):
    """What a pseudo channel and its device exchange; see ``HbmController`` for the slots."""

    def __init__(self, config: HbmStackConfig) -> None:
        shapes = StackLayouts(config).controller
        members: dict[str, Any] = {
            "column": Out(shapes.column),
            "row": Out(shapes.row),
            "write_data": Out(shapes.access),
            "read_data": In(shapes.access),
        }
        super().__init__(members)


class HbmLane(Block):
    """``i``: lines of each requester, served in turn, ``streak`` at a time. ``o``: lines read, with their owner.

    ``device``, ``even``, ``partner``, ``writing``, ``scrubbed`` are the controller's. Reset forgets all lines.
    """

    config: HbmStackConfig

    def __init__(self, config: HbmStackConfig) -> None:
        shapes = StackLayouts(config)
        self.merge: Any = HbmMerge(config, shapes.line, config.requesters, config.streak)
        self.returns: Any = HbmReturns(config)
        self.controller: Any = HbmController(config.pseudo_channel)
        signature = {
            "i": In(stream.Signature(shapes.line)).array(config.requesters),
            "o": Out(stream.Signature(shapes.returned)),
            "device": Out(DeviceSide(config)),
            "even": In(1),
            "partner": In(1),
            "writing": Out(1),
            "scrubbed": Out(1),
        }
        super().__init__(config, signature)

    def elaborate(self, platform: Any) -> Module:
        """Wires."""
        m = Module()
        pins: Any = self
        merge, returns, controller = self.merge, self.returns, self.controller
        m.submodules.merge = place(merge, platform)
        m.submodules.returns = place(returns, platform)
        m.submodules.controller = place(controller, platform)
        ways = [*zip(pins.i, merge.i, strict=True), (merge.o, returns.i), (returns.request, controller.request)]
        for source, sink in [*ways, (returns.o, pins.o)]:
            m.d.comb += [sink.valid.eq(source.valid), sink.payload.eq(source.payload), source.ready.eq(sink.ready)]
        answer = controller.response
        names = ("tag", "data", "corrected", "lost", "last")
        m.d.comb += [
            returns.response.valid.eq(answer.valid),
            *(returns.response[name].eq(answer.payload[name]) for name in names),
            *(getattr(controller, name).eq(getattr(pins, name)) for name in ("even", "partner")),
            *(getattr(pins, name).eq(getattr(controller, name)) for name in ("writing", "scrubbed")),
            *(getattr(pins.device, name).eq(getattr(controller, name)) for name in ("column", "row", "write_data")),
            controller.read_data.eq(pins.device.read_data),
        ]
        return m
