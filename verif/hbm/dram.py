"""The other side of a stack, as hardware: memory that answers commands, for compiled models."""

from typing import Any

from amaranth.hdl import Array, Cat, Module, Signal
from amaranth.lib import data, memory, stream
from amaranth.lib.wiring import In, Out

from hdl.block import Block, place
from hdl.hbm.layouts import ControllerLayouts, RowKind
from hdl.hbm.stack import HbmStack
from spec.hbm_controller import HbmControllerConfig
from spec.hbm_stack import HbmStackConfig


class HbmDram(Block):
    """Banks of one pseudo channel: keeps what was written, bit for bit, and answers after ``read_latency`` slots.

    It does not judge commands: ``golden.hbm.device`` does, on a log of them. Codewords start as zeros, which is a
    codeword. ``write_data`` comes a slot after its command, ``read_data`` leaves ``read_latency`` slots after.
    """

    config: HbmControllerConfig

    def __init__(self, config: HbmControllerConfig) -> None:
        shapes = ControllerLayouts(config)
        command = data.StructLayout({"enable": 1, "write": 1, "bank": shapes.place["bank"].shape,
                                     "column": shapes.place["column"].shape})  # fmt: skip
        signature = {
            "column": In(command),
            "row": In(shapes.row),
            "write_data": In(shapes.access),
            "read_data": Out(shapes.access),
        }
        super().__init__(config, signature)
        self.access = shapes.access

    def elaborate(self, platform: Any) -> Module:
        """A memory of all rows and a register for the open row of each bank."""
        m = Module()
        g = self.config.geometry
        pins: Any = self
        column, row = pins.column, pins.row
        rows = Array(Signal(row.row.shape(), name=f"open_{bank}") for bank in range(g.all_banks))
        with m.If(row.kind == RowKind.ACT):
            m.d.sync += rows[row.bank].eq(row.row)
        depth = g.all_banks * g.rows * g.columns
        cells: Any = memory.Memory(shape=self.access, depth=depth, init=[])
        m.submodules.cells = cells
        put, get = cells.write_port(), cells.read_port()
        address, writes = Signal(range(depth)), Signal()
        m.d.comb += [
            get.addr.eq(Cat(column.column, rows[column.bank], column.bank)),
            get.en.eq(1),
            put.addr.eq(address),
            put.en.eq(writes),
            put.data.eq(pins.write_data),
        ]
        m.d.sync += [address.eq(get.addr), writes.eq(column.enable & column.write)]
        answer = get.data
        for stage in range(self.config.slots.read_latency - 1):
            behind = Signal(self.access, name=f"answer_{stage}")
            m.d.sync += behind.eq(answer)
            answer = behind
        m.d.comb += pins.read_data.eq(answer)
        return m


class HbmRig(Block):
    """A stack with its devices: the requesters' streams are its ports, ``commands`` of each pseudo channel to log."""

    config: HbmStackConfig

    def __init__(self, config: HbmStackConfig) -> None:
        self.stack: Any = HbmStack(config)
        shapes = self.stack.layouts
        self.command_shape = data.StructLayout({"column": shapes.controller.column, "row": shapes.controller.row})
        ports, channels = config.requesters, config.pseudo_channels
        signature = {
            "request": In(stream.Signature(shapes.request)).array(ports),
            "written": In(stream.Signature(shapes.written)).array(ports),
            "response": Out(stream.Signature(shapes.response)).array(ports),
            "commands": Out(self.command_shape).array(channels),
            "scrubbed": Out(channels),
        }
        super().__init__(config, signature)

    def elaborate(self, platform: Any) -> Module:
        """Wires."""
        m = Module()
        stack: Any = self.stack
        outer: Any = self
        m.submodules.stack = place(stack, platform)
        for index in range(self.config.requesters):
            for name, into in (("request", True), ("written", True), ("response", False)):
                source, sink = getattr(outer, name)[index], getattr(stack, name)[index]
                source, sink = (source, sink) if into else (sink, source)
                m.d.comb += [sink.valid.eq(source.valid), sink.payload.eq(source.payload), source.ready.eq(sink.ready)]
        for number, device in enumerate(stack.device):
            dram: Any = HbmDram(self.config.pseudo_channel)
            m.submodules[f"dram_{number}"] = place(dram, platform)
            m.d.comb += [
                *(dram.column[name].eq(device.column[name]) for name in ("enable", "write", "bank", "column")),
                dram.row.eq(device.row),
                dram.write_data.eq(device.write_data),
                device.read_data.eq(dram.read_data),
                outer.commands[number].column.eq(device.column),
                outer.commands[number].row.eq(device.row),
            ]
        m.d.comb += outer.scrubbed.eq(stack.scrubbed)
        return m
