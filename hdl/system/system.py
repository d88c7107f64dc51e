"""Chips and the fabric between them: an instance, an UltraServer."""

from typing import Any

from amaranth.hdl import Module, Shape
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect, flipped

from hdl.block import Block, place
from hdl.core.layouts import LINE_BITS, PROGRAMS, REPORT, answer, line_request
from hdl.core.unit import pass_on
from hdl.link.fabric import Fabric
from hdl.system.beats import Gather, Scatter
from hdl.system.chip import HOST, Chip
from spec.system import BeatsConfig, SystemConfig


class System(Block):
    """Every chip of the torus with its ports, which end in ``_<chip>``: ``start_<core>``, ``report_<core>``, ``host``,
    ``lines``, ``lost``, and ``memory`` where that is outside.

    With ``beat`` the streams of the host come and go in beats; a core starts in the cycle after its last one, so that a
    host that holds the last beats back starts all at once. One chip and one router are emitted once and instantiated
    for each node. Reset of the whole drops all that is under way; memories keep their contents.
    """

    config: SystemConfig

    def __init__(self, config: SystemConfig) -> None:
        self.streams: dict[str, tuple[bool, Any]] = {"host": (True, HOST), "lines": (False, LINE_BITS)}
        """Of the host and each chip: name -> (whether it comes from the host, payload)."""
        for core in range(config.cores):
            self.streams |= {f"start_{core}": (True, PROGRAMS), f"report_{core}": (False, REPORT)}
        ports: dict[str, Any] = {}
        for chip in range(config.chips):
            for name, (into, shape) in self.streams.items():
                ports[f"{name}_{chip}"] = (In if into else Out)(stream.Signature(config.beat or shape))
            ports[f"lost_{chip}"] = Out(32)
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
            for name, (into, shape) in self.streams.items():
                outside, inside = getattr(self, f"{name}_{number}"), getattr(chip, name)
                ends = (outside, inside) if into else (inside, outside)
                if config.beat:
                    beats = BeatsConfig(width=Shape.cast(shape).width, beat=config.beat)
                    block: Any = Gather(beats) if into else Scatter(beats)
                    m.submodules[f"{name}_{number}"] = place(block, platform)
                    pass_on(m, ends[0], block.i)
                    pass_on(m, block.o, ends[1])
                else:
                    pass_on(m, *ends)
            if config.memory == "port":
                connect(m, chip.memory, flipped(getattr(self, f"memory_{number}")))
                m.d.comb += chip.memory_answer.eq(getattr(self, f"memory_answer_{number}"))
        return m
