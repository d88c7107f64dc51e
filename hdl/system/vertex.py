"""One vertex of a plane of switches: a switch among its chip and its links, or among links alone."""

from typing import Any

from amaranth.hdl import Module, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.layouts import bits
from hdl.core.unit import pass_on
from hdl.fifo import Fifo
from hdl.link.switch import Switch
from hdl.system.beats import Gather, Scatter
from hdl.system.layouts import cell_layout, message_layout
from spec.fifo import FifoConfig
from spec.link import SwitchConfig
from spec.system import BeatsConfig, SystemConfig

LEAVING = 4
"""Cells between an output and its link: one that has come, one on its way, one that is being matched, one to spare."""


class Vertex(Block):
    """``i[link]`` in and ``o[link]`` out, cells in beats of ``config.wires``; of a ``chip`` also its messages.

    ``send`` takes messages whose ``peer`` is the chip they go to, ``come`` gives those whose ``peer`` they are from;
    ``chip`` is its own number. ``routes`` has for each chip of the system one bit of the output towards it, the links
    in their order and then the vertex' own chip: a constant of its place. Cells to one chip keep their order, and are
    never dropped; who does not take them holds up those behind. Reset empties all, in a cycle for each port.
    """

    config: SystemConfig

    def __init__(self, config: SystemConfig, ins: int, outs: int, *, chip: bool) -> None:
        self.ins, self.outs, self.own = ins, outs, chip
        self.cell = cell_layout(config)
        beats = stream.Signature(config.wires)
        ports: dict[str, Any] = {
            "i": In(beats).array(ins),
            "o": Out(beats).array(outs),
            "routes": In(data.ArrayLayout(outs + chip, config.chips)),
        }
        if chip:
            message = stream.Signature(message_layout(config))
            ports |= {"send": In(message), "come": Out(message), "chip": In(bits(config.chips))}
        super().__init__(config, ports)

    @property
    def module_name(self) -> str:
        """Also by its ways in and out."""
        return f"{super().module_name}_{'chip_' * self.own}{self.ins}_{self.outs}"

    def elaborate(self, platform: Any) -> Module:
        """A switch whose inputs gather beats, and whose outputs scatter them, behind a queue."""
        m = Module()
        pins: Any = self
        config, width = self.config, self.cell.size
        beats = BeatsConfig(width=width, beat=config.wires)
        gathers: list[Any] = [Gather(beats) for _ in range(self.ins)]
        for link, gather in enumerate(gathers):
            m.submodules[f"gather_{link}"] = place(gather, platform)
            pass_on(m, pins.i[link], gather.i)
        ins = [gather.o for gather in gathers] + ([self._entry(m)] if self.own else [])
        ports = max(2, len(ins), self.outs + self.own)
        switch: Any = Switch(SwitchConfig(ports=ports, cell_bits=width, depth=config.cells, iterations=config.rounds))
        m.submodules.switch = place(switch, platform)
        for port, source in enumerate(ins):
            cell = data.View(self.cell, Value.cast(source.payload))
            m.d.comb += [
                switch.i[port].valid.eq(source.valid),
                switch.i[port].cell.eq(cell),
                switch.i[port].targets.eq(pins.routes[cell.target]),
                source.ready.eq(switch.i[port].ready),
            ]
        for port in range(self.outs + self.own):
            leaving: Any = Fifo(FifoConfig(width=width, depth=LEAVING), self.cell)
            m.submodules[f"leaving_{port}"] = place(leaving, platform)
            m.d.comb += [
                leaving.i.valid.eq(switch.valid[port]),
                leaving.i.payload.eq(switch.o[port]),
                switch.open[port].eq(leaving.level <= 1),
            ]
            if port == self.outs:
                m.d.comb += [
                    pins.come.valid.eq(leaving.o.valid),
                    pins.come.payload.eq(leaving.o.payload.message),
                    leaving.o.ready.eq(pins.come.ready),
                ]
            else:
                scatter: Any = Scatter(beats)
                m.submodules[f"scatter_{port}"] = place(scatter, platform)
                pass_on(m, leaving.o, scatter.i)
                pass_on(m, scatter.o, pins.o[port])
        return m

    def _entry(self, m: Module) -> Any:
        """What the chip sends, as cells that say where they come from."""
        pins: Any = self
        send, entry = pins.send, stream.Signature(self.cell).create(path=("entry",))
        cell: Any = entry.payload
        m.d.comb += [
            entry.valid.eq(send.valid),
            cell.target.eq(send.payload.peer),
            cell.message.eq(send.payload),
            send.ready.eq(entry.ready),
        ]
        m.d.comb += cell.message.peer.eq(pins.chip)
        return entry
