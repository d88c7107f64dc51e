"""Chips on switches: one plane of them, which carries the messages of one class."""

from typing import Any

from amaranth.hdl import Const, Module, Value
from amaranth.lib import data, stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.core.unit import pass_on
from hdl.fifo import Fifo
from hdl.link.switch import Switch
from hdl.system.beats import Gather, Scatter
from hdl.system.layouts import cell_layout, message_layout
from spec.fifo import FifoConfig
from spec.link import SwitchConfig
from spec.system import BeatsConfig, SystemConfig
from spec.topology import SwitchedServers

LEAVING = 4
"""Cells between an output and its link: one that has come, one on its way, one that is being matched, one to spare."""

HERE = -1
"""In the place of a link: the chip itself."""


class Plane(Block):
    """``send[chip]`` in, ``come[chip]`` out: messages, whose ``peer`` is the chip they go to, then have come from.

    A message is a cell. Every vertex of ``config.switches`` is a :class:`~hdl.link.switch.Switch`, also at a chip: of
    its own way in and out, its link to the switches and its direct one. A cell goes the one way that the topology
    has for its target, so messages of a chip to another keep their order; waiting goes from direct links up to switches
    and down to chips, never in a circle. Between vertices a cell is cut into beats of ``config.wires``. Cells are never
    dropped; who does not take them holds up those behind. Reset empties all, which takes a cycle for each port of a
    switch.
    """

    config: SystemConfig

    def __init__(self, config: SystemConfig) -> None:
        assert config.switches is not None
        self.topology: SwitchedServers = config.switches
        self.cell = cell_layout(config)
        message = stream.Signature(message_layout(config))
        super().__init__(config, {"send": In(message).array(config.chips), "come": Out(message).array(config.chips)})

    def elaborate(self, platform: Any) -> Module:
        """A switch at every vertex, a link between two."""
        m = Module()
        pins: Any = self
        links, routes = self.topology.links, self._routes()
        beats = BeatsConfig(width=self.cell.size, beat=self.config.wires)
        ends: list[tuple[Any, Any]] = [(Scatter(beats), Gather(beats)) for _ in links]
        for number, (near, far) in enumerate(ends):
            m.submodules[f"near_{number}"] = place(near, platform)
            m.submodules[f"far_{number}"] = place(far, platform)
            pass_on(m, near.o, far.i)
        for vertex in range(1 + max(link.target for link in links)):
            ins: list[Any] = [far.o for (_, far), link in zip(ends, links, strict=True) if link.target == vertex]
            outs = [number for number, link in enumerate(links) if link.source == vertex]
            ports = {number: port for port, number in enumerate(outs)}
            if vertex < self.topology.nodes:
                ins.append(self._entry(m, vertex))
                ports[HERE] = len(outs)
            targets = [
                1 << ports[routes[vertex, target]] if (vertex, target) in routes else 0
                for target in range(self.topology.nodes)
            ]
            leaving = self._switch(m, platform, vertex, ins, targets)
            for number, port in ports.items():
                if number != HERE:
                    pass_on(m, leaving[port], ends[number][0].i)
                    continue
                come = pins.come[vertex]
                m.d.comb += [
                    come.valid.eq(leaving[port].valid),
                    come.payload.eq(leaving[port].payload.message),
                    leaving[port].ready.eq(come.ready),
                ]
        return m

    def _routes(self) -> dict[tuple[int, int], int]:
        """Of each vertex on the way to a target: the link that goes on."""
        topology = self.topology
        routes = {(node, node): HERE for node in range(topology.nodes)}
        for source in range(topology.nodes):
            for target in range(topology.nodes):
                at = source
                while (at, target) not in routes:
                    (channel,) = topology.moves(at, None, target)
                    routes[at, target] = channel.link
                    at = topology.links[channel.link].target
        return routes

    def _entry(self, m: Module, chip: int) -> Any:
        """What a chip sends, as cells that say where they come from."""
        pins: Any = self
        send, entry = pins.send[chip], stream.Signature(self.cell).create(path=(f"entry_{chip}",))
        cell: Any = entry.payload
        m.d.comb += [
            entry.valid.eq(send.valid),
            cell.target.eq(send.payload.peer),
            cell.message.eq(send.payload),
            send.ready.eq(entry.ready),
        ]
        m.d.comb += cell.message.peer.eq(chip)
        return entry

    def _switch(self, m: Module, platform: Any, vertex: int, ins: list[Any], targets: list[int]) -> list[Any]:
        """The switch of a vertex, ``targets`` being the output of each chip, one bit. Returns what leaves it."""
        count = max(2, len(ins))
        switch: Any = Switch(
            SwitchConfig(ports=count, cell_bits=self.cell.size, depth=self.config.cells, iterations=self.config.rounds)
        )
        m.submodules[f"switch_{vertex}"] = place(switch, platform)
        table = Const(sum(mask << count * target for target, mask in enumerate(targets)), count * len(targets))
        found = []
        for port, source in enumerate(ins):
            cell = data.View(self.cell, Value.cast(source.payload))
            leaving = Fifo(FifoConfig(width=self.cell.size, depth=LEAVING), self.cell)
            m.submodules[f"leaving_{vertex}_{port}"] = place(leaving, platform)
            found.append(leaving.o)
            m.d.comb += [
                switch.i[port].valid.eq(source.valid),
                switch.i[port].cell.eq(cell),
                switch.i[port].targets.eq(table.word_select(cell.target, count)),
                source.ready.eq(switch.i[port].ready),
                leaving.i.valid.eq(switch.valid[port]),
                leaving.i.payload.eq(switch.o[port]),
                switch.open[port].eq(leaving.level <= 1),
            ]
        return found
