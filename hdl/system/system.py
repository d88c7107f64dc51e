"""Chips and the fabric between them: an instance, an UltraServer."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped

from hdl.block import Block, place
from hdl.core.layouts import LINE_BITS, PROGRAMS, REPORT, answer, line_request
from hdl.link.fabric import Fabric
from hdl.system.chip import HOST, Chip
from spec.system import SystemConfig


class System(Block):
    """Every chip of the torus with its ports, which end in ``_<chip>``: ``start_<core>``, ``report_<core>``, ``host``,
    ``lines``, ``lost``, and ``memory`` where that is outside.

    One chip and one router are emitted once and instantiated for each node. Reset of the whole drops all that is under
    way; memories keep their contents.
    """

    config: SystemConfig

    def __init__(self, config: SystemConfig) -> None:
        ports: dict[str, Any] = {}
        for chip in range(config.chips):
            for core in range(config.cores):
                ports[f"start_{core}_{chip}"] = In(stream.Signature(PROGRAMS))
                ports[f"report_{core}_{chip}"] = Out(stream.Signature(REPORT))
            ports |= {
                f"host_{chip}": In(stream.Signature(HOST)),
                f"lines_{chip}": Out(stream.Signature(LINE_BITS)),
                f"lost_{chip}": Out(32),
            }
            if config.memory == "port":
                ports[f"memory_{chip}"] = Out(stream.Signature(line_request(config.own)))
                ports[f"memory_answer_{chip}"] = In(answer(LINE_BITS))
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """Chips beside the fabric, each at its node."""
        m = Module()
        config = self.config
        fabric = Fabric(config.router, probes=False)
        m.submodules.fabric = place(fabric, platform)
        for number in range(config.chips):
            chip = Chip(config)
            m.submodules[f"chip_{number}"] = place(chip, platform)
            connect(m, chip.o, fabric.chips[number])
            connect(m, fabric.routers[number], chip.i)
            m.d.comb += [chip.chip.eq(number), getattr(self, f"lost_{number}").eq(chip.lost)]
            for core in range(config.cores):
                connect(m, flipped(getattr(self, f"start_{core}_{number}")), getattr(chip, f"start_{core}"))
                connect(m, getattr(chip, f"report_{core}"), flipped(getattr(self, f"report_{core}_{number}")))
            connect(m, flipped(getattr(self, f"host_{number}")), chip.host)
            connect(m, chip.lines, flipped(getattr(self, f"lines_{number}")))
            if config.memory == "port":
                connect(m, chip.memory, flipped(getattr(self, f"memory_{number}")))
                m.d.comb += chip.memory_answer.eq(getattr(self, f"memory_answer_{number}"))
        return m
