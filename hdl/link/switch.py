"""NeuronSwitch: an input-queued crossbar that is matched by iSLIP."""

from functools import reduce
from operator import or_
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import data, memory, wiring
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from spec.link import SwitchConfig


class CellLink(wiring.Signature):
    """Cells on their way in, as their sender sees them: taken in each cycle in which ``valid`` and ``ready`` meet.

    ``targets`` has a bit for each output that shall get a copy; a cell without one is taken and counted as bad.
    """

    def __init__(self, config: SwitchConfig) -> None:
        members: dict[str, Any] = {
            "valid": Out(1),
            "ready": In(1),
            "cell": Out(config.cell_bits),
            "targets": Out(config.ports),
        }
        super().__init__(members)


class SwitchInput(Block):
    """One input: a queue for each output in one memory, one cell in and one out a cycle.

    A cell taken in cycle t is copied into one queue a cycle from t + 1 on, lowest output first; the next is taken when
    all copies are made. A full queue holds its input up. ``wants`` shows which queues hold something, in the cycle
    after the copy. ``take`` (one bit) removes the front cell of that queue, which is on ``front`` in the same cycle.
    After a reset the queues are cleared one a cycle, with ``i.ready`` low. ``bad`` counts cells without a target.
    """

    config: SwitchConfig

    def __init__(self, config: SwitchConfig) -> None:
        super().__init__(
            config,
            {
                "i": In(CellLink(config)),
                "wants": Out(config.ports),
                "take": In(config.ports),
                "front": Out(config.cell_bits),
                "bad": Out(16),
            },
        )

    def elaborate(self, platform: Any) -> Module:
        """Pointers of all queues lie in two small memories, so that the number of queues costs next to nothing."""
        m = Module()
        ports, depth = self.config.ports, self.config.depth
        cells: Any = memory.Memory(shape=self.config.cell_bits, depth=ports * depth, init=[])
        heads: Any = memory.Memory(shape=range(depth), depth=ports, init=[])
        tails: Any = memory.Memory(shape=range(depth), depth=ports, init=[])
        m.submodules.cells, m.submodules.heads, m.submodules.tails = cells, heads, tails
        put, get = cells.write_port(), cells.read_port(domain="comb")
        head_write, head_in, head_out = (
            heads.write_port(),
            heads.read_port(domain="comb"),
            heads.read_port(domain="comb"),
        )
        tail_write, tail_in, tail_out = (
            tails.write_port(),
            tails.read_port(domain="comb"),
            tails.read_port(domain="comb"),
        )

        clearing, ready = Signal(range(ports)), Signal()
        cell, pending, chosen = Signal(self.config.cell_bits), Signal(ports), Signal(ports)
        into, source = Signal(range(ports)), Signal(range(ports))
        full, copy = Signal(), Signal()
        m.d.comb += [
            chosen.eq(pending & -pending),
            into.eq(reduce(or_, (Mux(bit, index, 0) for index, bit in enumerate(chosen)))),
            source.eq(reduce(or_, (Mux(bit, index, 0) for index, bit in enumerate(self.take)))),
            head_in.addr.eq(into),
            tail_in.addr.eq(into),
            head_out.addr.eq(source),
            tail_out.addr.eq(source),
            full.eq((self.wants & chosen).any() & (head_in.data == tail_in.data)),
            copy.eq(pending.any() & ~full),
            self.i.ready.eq(ready & ~pending.any()),
            put.en.eq(copy),
            put.addr.eq(into * depth + tail_in.data),
            put.data.eq(cell),
            get.addr.eq(source * depth + head_out.data),
            self.front.eq(get.data),
            tail_write.en.eq(copy | ~ready),
            tail_write.addr.eq(Mux(ready, into, clearing)),
            tail_write.data.eq(Mux(ready, self._after(tail_in.data), 0)),
            head_write.en.eq(self.take.any() | ~ready),
            head_write.addr.eq(Mux(ready, source, clearing)),
            head_write.data.eq(Mux(ready, self._after(head_out.data), 0)),
        ]
        with m.If(~ready):
            m.d.sync += [clearing.eq(clearing + 1), ready.eq(clearing == ports - 1)]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [cell.eq(self.i.cell), pending.eq(self.i.targets)]
            with m.If((self.i.targets == 0) & ~self.bad.all()):
                m.d.sync += self.bad.eq(self.bad + 1)
        with m.If(copy):
            m.d.sync += pending.eq(pending & ~chosen)
        emptied = (self._after(head_out.data) == tail_out.data) & self.take.any()
        stays = self.wants & ~Mux(emptied, self.take, 0)
        m.d.sync += self.wants.eq(stays | Mux(copy, chosen, 0))
        return m

    def _after(self, pointer: Any) -> Any:
        return Mux(pointer == self.config.depth - 1, 0, pointer + 1)


class Turn(Block):
    """Round-robin choice among ``ask``: the first at or behind the pointer; ``advance`` puts it behind the choice.

    Combinational from ``ask`` to ``grant``; reset puts the pointer to 0.
    """

    config: SwitchConfig

    def __init__(self, config: SwitchConfig) -> None:
        super().__init__(config, {"ask": In(config.ports), "grant": Out(config.ports), "advance": In(1)})

    def elaborate(self, platform: Any) -> Module:
        """The pointer is a mask of what lies at or behind it."""
        m = Module()
        behind = Signal(self.config.ports, init=-1)
        first = Signal(self.config.ports)
        m.d.comb += [
            first.eq(Mux((self.ask & behind).any(), self.ask & behind, self.ask)),
            self.grant.eq(first & -first),
        ]
        with m.If(self.advance):
            m.d.sync += behind.eq(~(self.grant | (self.grant - 1)[: len(behind)]))
        return m


class Column(Block):
    """One output of the crossbar: the cell of the selected input; combinational."""

    config: SwitchConfig

    def __init__(self, config: SwitchConfig) -> None:
        cells = data.ArrayLayout(config.cell_bits, config.ports)
        super().__init__(config, {"select": In(config.ports), "cells": In(cells), "cell": Out(config.cell_bits)})

    def elaborate(self, platform: Any) -> Module:
        """And, or."""
        m = Module()
        chosen = (Mux(bit, self.cells[index], 0) for index, bit in enumerate(self.select))
        m.d.comb += self.cell.eq(reduce(or_, chosen))
        return m


class Switch(Block):
    """Every slot of ``config.slot_cycles`` cycles a matching of inputs and outputs; one cell a slot and port.

    In the slot's first cycle the cells matched in the slot before leave their queues; they are on ``o`` in the cycle
    after, with ``valid``. In each other cycle one iteration of iSLIP adds to the next matching: every free output
    grants one free input that wants it, every input accepts one grant. Pointers advance only with a match of the first
    iteration, which is what makes them part (McKeown 1999): no cell waits for ever.
    ``open[output]`` says that the output may be matched. Cells from one input to one output stay in order. Multicast:
    copies are made at the input. Reset empties all queues and takes a cycle for each port.
    """

    config: SwitchConfig

    def __init__(self, config: SwitchConfig) -> None:
        super().__init__(
            config,
            {
                "i": In(CellLink(config)).array(config.ports),
                "open": In(config.ports),
                "valid": Out(config.ports),
                "o": Out(config.cell_bits).array(config.ports),
            },
        )
        ports = range(config.ports)
        self.inputs = [SwitchInput(config) for _ in ports]
        self.grants = [Turn(config) for _ in ports]
        self.accepts = [Turn(config) for _ in ports]
        self.columns = [Column(config) for _ in ports]

    def elaborate(self, platform: Any) -> Module:
        """Phase 0 moves cells; phases from 1 on match."""
        m = Module()
        ports, slot = self.config.ports, self.config.slot_cycles
        phase = Signal(range(slot))
        moving, first = Signal(), Signal()
        m.d.comb += [moving.eq(phase == 0), first.eq(phase == 1)]
        m.d.sync += phase.eq(Mux(phase == slot - 1, 0, phase + 1))

        matched = [Signal(ports, name=f"matched_{index}") for index in range(ports)]
        taken = Signal(ports)
        granted = [Signal(ports, name=f"granted_{index}") for index in range(ports)]
        for index, (queue, accept) in enumerate(zip(self.inputs, self.accepts, strict=True)):
            m.submodules[f"input_{index}"] = place(queue, platform)
            m.submodules[f"accept_{index}"] = place(accept, platform)
            wiring.connect(m, wiring.flipped(self.i[index]), queue.i)
            m.d.comb += [
                granted[index].eq(Cat(grant.grant[index] for grant in self.grants)),
                accept.ask.eq(Mux(moving, 0, granted[index])),
                accept.advance.eq(first & granted[index].any()),
                queue.take.eq(Mux(moving, matched[index], 0)),
            ]
            m.d.sync += matched[index].eq(Mux(moving, 0, matched[index] | accept.grant))
        m.d.sync += taken.eq(Mux(moving, 0, taken | reduce(or_, (accept.grant for accept in self.accepts))))

        free = Signal(ports)
        m.d.comb += free.eq(Cat(~lane.any() for lane in matched))
        for output, (grant, column) in enumerate(zip(self.grants, self.columns, strict=True)):
            m.submodules[f"grant_{output}"] = place(grant, platform)
            m.submodules[f"column_{output}"] = place(column, platform)
            may = ~moving & self.open[output] & ~taken[output]
            wanted = Cat(queue.wants[output] for queue in self.inputs)
            m.d.comb += [
                grant.ask.eq(Mux(may, wanted & free, 0)),
                grant.advance.eq(first & Cat(accept.grant[output] for accept in self.accepts).any()),
                column.select.eq(Cat(lane[output] for lane in matched)),
                Cat(column.cells.as_value()).eq(Cat(queue.front for queue in self.inputs)),
            ]
            m.d.sync += self.valid[output].eq(moving & column.select.any())
            with m.If(moving):
                m.d.sync += self.o[output].eq(column.cell)
        return m
