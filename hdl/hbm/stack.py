"""An HBM stack: requesters, a crossbar each way, and a controller for each pseudo channel."""

from typing import Any

from amaranth.hdl import Module, Signal
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.hbm.lane import DeviceSide, HbmLane
from hdl.hbm.onehot import any_of
from hdl.hbm.port import HbmPort
from hdl.hbm.stack_layouts import StackLayouts
from spec.hbm_stack import HbmStackConfig


class HbmStack(Block):
    """``requesters`` ports before all pseudo channels of a stack; one cycle is one slot of two CK.

    ``request``, ``written``, ``response``   of each requester, see ``HbmPort``
    ``device``   of each pseudo channel (index ``channel * pseudo_channels + pseudo channel``)
    ``scrubbed``   one bit a pseudo channel: a corrected line was written back

    Order: lines of one requester reach their pseudo channels in order of its requests, and accesses to one place are
    done in the order in which its pseudo channel took them; so a requester reads what it wrote before, and what anybody
    wrote whose response it could have known of. Each pseudo channel serves the requesters in turn, ``streak`` lines at
    a time; each requester takes what pseudo channels return in turn. Reset forgets all requests.
    """

    config: HbmStackConfig

    def __init__(self, config: HbmStackConfig) -> None:
        self.layouts = shapes = StackLayouts(config)
        self.ports: list[Any] = [HbmPort(config) for _ in range(config.requesters)]
        self.lanes: list[Any] = [HbmLane(config) for _ in range(config.pseudo_channels)]
        signature = {
            "request": In(stream.Signature(shapes.request)).array(config.requesters),
            "written": In(stream.Signature(shapes.written)).array(config.requesters),
            "response": Out(stream.Signature(shapes.response)).array(config.requesters),
            "device": Out(DeviceSide(config)).array(config.pseudo_channels),
            "scrubbed": Out(config.pseudo_channels),
        }
        super().__init__(config, signature)

    def elaborate(self, platform: Any) -> Module:
        """Only wires between the parts, and the slot counter that tells even from odd."""
        m = Module()
        pins: Any = self
        for index, port in enumerate(self.ports):
            m.submodules[f"port_{index}"] = place(port, platform)
            ways = ((pins.request[index], port.request), (pins.written[index], port.written))
            for source, sink in (*ways, (port.response, pins.response[index])):
                m.d.comb += [sink.valid.eq(source.valid), sink.payload.eq(source.payload), source.ready.eq(sink.ready)]

        odd, pair = Signal(), self.config.controller.geometry.pseudo_channels
        m.d.sync += odd.eq(~odd)
        for number, lane in enumerate(self.lanes):
            m.submodules[f"lane_{number}"] = place(lane, platform)
            device = pins.device[number]
            m.d.comb += [
                lane.even.eq(odd if number % pair else ~odd),
                lane.partner.eq(self.lanes[number ^ 1].writing if pair > 1 else 0),
                pins.scrubbed[number].eq(lane.scrubbed),
                *(getattr(device, name).eq(getattr(lane.device, name)) for name in ("column", "row", "write_data")),
                lane.device.read_data.eq(device.read_data),
            ]
        for index, port in enumerate(self.ports):
            line: Any = port.lines.payload
            mine: Any = Signal(self.layouts.line, name=f"line_{index}")
            m.d.comb += [
                mine.port.eq(index),
                *(mine[name].eq(line[name]) for name in ("write", "place", "data", "inject", "slot")),
                port.lines.ready.eq(
                    any_of(lane.i[index].ready & (line.target == number) for number, lane in enumerate(self.lanes))
                ),
            ]
            for number, lane in enumerate(self.lanes):
                m.d.comb += [
                    lane.i[index].valid.eq(port.lines.valid & (line.target == number)),
                    lane.i[index].payload.eq(mine),
                    port.returned[number].valid.eq(lane.o.valid & (lane.o.payload.port == index)),
                    port.returned[number].payload.eq(lane.o.payload.line),
                ]
        for number, lane in enumerate(self.lanes):
            takers = (port.returned[number].ready & (lane.o.payload.port == at) for at, port in enumerate(self.ports))
            m.d.comb += lane.o.ready.eq(any_of(takers))
        return m
