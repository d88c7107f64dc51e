"""Chips and the fabric between them: an instance, an UltraServer."""

from collections.abc import Iterator
from typing import Any

from amaranth.hdl import ClockDomain, ClockSignal, DomainRenamer, Module, ResetSignal, Shape
from amaranth.lib import stream
from amaranth.lib.wiring import In, Out, connect

from hdl.block import Block, place
from hdl.core.host import HOST
from hdl.core.layouts import PROGRAMS, REPORT
from hdl.core.unit import pass_on
from hdl.link.cabled import CabledFabric
from hdl.link.fabric import Fabric
from hdl.system.beats import Gather, Scatter
from hdl.system.chip import Chip
from hdl.system.endpoint import CLASSES
from hdl.system.layouts import LINE
from hdl.system.switched import add_plane, routes_of, switches_of
from spec.system import BeatsConfig, SystemConfig

CABLES = ("flips", "cut", "restart", "dead")
"""Ports of a cabled fabric that are the system's."""


class System(Block):
    """Every chip of a torus, or on switches, with its ports, which end in ``_<chip>``: ``start_<core>``,
    ``report_<core>``, ``host``, ``lines``, ``lost``, and those of its memory's devices.

    With ``beat`` the streams of the host come and go in beats; a core starts in the cycle after its last one, so that a
    host that holds the last beats back starts all at once. One chip and one router are emitted once and instantiated
    for each node. Reset of the whole drops all that is under way; memories keep their contents.

    With cables, ``flips``, ``cut`` and ``dead`` are those of :class:`~hdl.link.cabled.CabledFabric`, and a bit of
    ``restart`` resets one chip with its router, which has to last until its neighbours have noticed: all others go on.
    """

    config: SystemConfig

    def __init__(self, config: SystemConfig) -> None:
        self.streams: dict[str, tuple[bool, Any]] = {"host": (True, HOST), "lines": (False, LINE)}
        """Of the host and each chip: name -> (whether it comes from the host, payload)."""
        for core in range(config.cores):
            self.streams |= {f"start_{core}": (True, PROGRAMS), f"report_{core}": (False, REPORT)}
        self.chips = [Chip(config) for _ in range(config.chips)]
        ports: dict[str, Any] = {}
        for chip in range(config.chips):
            for name, (into, shape) in self.streams.items():
                ports[f"{name}_{chip}"] = (In if into else Out)(stream.Signature(config.beat or shape))
            ports[f"lost_{chip}"] = Out(32)
            ports |= {f"{name}_{chip}": self.chips[0].signature.members[name] for name in self.chips[0].outside}
        self.fabric: Any = None
        if config.cables is not None:
            self.fabric = CabledFabric(config.cables)
            ports |= {name: self.fabric.signature.members[name] for name in CABLES}
        elif config.router is not None:
            self.fabric = Fabric(config.router, probes=False)
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """Chips beside the fabric, each at its node."""
        m = Module()
        config = self.config
        pins: Any = self
        if config.switches is None:
            self._torus(m, platform)
        else:
            self._planes(m, platform)
        for number, chip in enumerate(self.chips):
            placed = place(chip, platform)
            if config.cables is not None:
                domain = f"chip_{number}"
                m.domains += ClockDomain(domain, local=True)
                m.d.comb += [
                    ClockSignal(domain).eq(ClockSignal()),
                    ResetSignal(domain).eq(ResetSignal() | pins.restart[number]),
                ]
                placed = DomainRenamer(domain)(placed)
            m.submodules[f"chip_{number}"] = placed
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
            for name in chip.outside:
                outer, inner = getattr(self, f"{name}_{number}"), getattr(chip, name)
                m.d.comb += outer.eq(inner) if chip.signature.members[name].flow == Out else inner.eq(outer)
        return m

    def _torus(self, m: Module, platform: Any) -> None:
        """Routers, with cables between them or without."""
        pins: Any = self
        fabric = self.fabric
        m.submodules.fabric = place(fabric, platform)
        for number, chip in enumerate(self.chips):
            connect(m, chip.o, fabric.chips[number])
            connect(m, fabric.routers[number], chip.i)
        if self.config.cables is not None:
            m.d.comb += fabric.restart.eq(pins.restart)
            m.d.comb += [inner.eq(outer) for name in ("flips", "cut") for inner, outer in _pairs(fabric, pins, name)]
            m.d.comb += [outer.eq(inner) for inner, outer in _pairs(fabric, pins, "dead")]

    def _planes(self, m: Module, platform: Any) -> None:
        """Switches, a plane of them for each message class, so that answers never wait for requests."""
        for name in CLASSES:
            ends = [(getattr(chip, f"i_{name}"), getattr(chip, f"o_{name}")) for chip in self.chips]
            add_plane(m, platform, self.config, name, ends)
        for chip, routes in zip(self.chips, routes_of(switches_of(self.config)), strict=False):
            m.d.comb += chip.routes.eq(routes)


def _pairs(fabric: Any, pins: Any, name: str) -> Iterator[tuple[Any, Any]]:
    """A port of the fabric and that of the system, or each of an array of them."""
    inner, outer = getattr(fabric, name), getattr(pins, name)
    yield from zip(inner, outer, strict=True) if isinstance(inner, list | tuple) else ((inner, outer),)
