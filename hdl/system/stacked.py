"""A chip's memory as HBM: its stacks, and what stands between them and the chip's lines."""

from typing import Any

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import data
from amaranth.lib.wiring import In, Out, connect, flipped

from hdl.block import Block, place
from hdl.core.share import round_robin
from hdl.hbm.stack import HbmStack
from hdl.hbm.stack_layouts import StackLayouts
from hdl.system.layouts import MemoryPort
from hdl.system.requester import Requester
from spec.hbm import LINE_BYTES
from spec.hbm_stack import HbmOperation, HbmStackConfig, HbmStatus
from spec.system import SystemConfig

DEVICES = ("told_", "returned_")
"""How the names of a block's ports for devices begin."""
_TOLD = ("column", "row", "write_data")
"""What a pseudo channel tells its device in each slot."""


def device_layouts(stack: HbmStackConfig) -> tuple[data.ArrayLayout, data.ArrayLayout]:
    """What a stack's pseudo channels tell their devices, and what these return."""
    shapes = StackLayouts(stack).controller
    told = data.StructLayout(dict(zip(_TOLD, (shapes.column, shapes.row, shapes.access), strict=True)))
    return data.ArrayLayout(told, stack.pseudo_channels), data.ArrayLayout(shapes.access, stack.pseudo_channels)


class StackedMemory(Block):
    """``ports`` of a chip's memory before its stacks; ``told_n`` and ``returned_n`` lead to the devices of stack ``n``.

    Consecutive lines lie in one stack, ``STACK_LINES`` of them. Each asker has its own requester and its own port of
    every stack, so askers wait for each other only in the stacks' pseudo channels; and for a merge, a write of part of
    a line, which has the chip's writes for itself. ``damage`` is XORed to what is written (0 in use), ``corrected``
    counts lines read since reset of which a bit was repaired.
    """

    config: SystemConfig

    def __init__(self, config: SystemConfig) -> None:
        assert config.stack is not None
        self.stack: HbmStackConfig = config.stack
        told, returned = device_layouts(self.stack)
        inject = StackLayouts(self.stack).controller.inject
        ports: dict[str, Any] = {"ports": In(MemoryPort(config)).array(config.askers)}
        ports |= {"damage": In(inject), "corrected": Out(32)}
        for index in range(config.stacks):
            ports |= {f"told_{index}": Out(told), f"returned_{index}": In(returned)}
        super().__init__(config, ports)

    def elaborate(self, platform: Any) -> Module:
        """Requesters, stacks, and whose turn it is to merge."""
        m = Module()
        config = self.config
        pins: Any = self
        askers: list[Any] = [Requester(config) for _ in range(config.askers)]
        stacks: list[Any] = [HbmStack(self.stack) for _ in range(config.stacks)]
        for name, blocks in (("asker", askers), ("stack", stacks)):
            for index, block in enumerate(blocks):
                m.submodules[f"{name}_{index}"] = place(block, platform)
        wants, mends = Signal(len(askers)), []
        merging, owner = Signal(), Signal(range(len(askers)))
        chosen = round_robin(m, wants, len(askers), wants.any() & ~merging, "turn")
        quiet = Cat(asker.quiet for asker in askers).all()
        with m.If(merging):
            m.d.sync += merging.eq(wants.bit_select(owner, 1))
        with m.Else():
            m.d.sync += [merging.eq(wants.any()), owner.eq(chosen)]
        for index, asker in enumerate(askers):
            connect(m, asker.port, flipped(pins.ports[index]))
            m.d.comb += [
                wants[index].eq(asker.wants),
                asker.may.eq(merging & (owner == index) & quiet),
                asker.stop.eq(merging & (owner != index)),
            ]
            for number, stack in enumerate(stacks):
                mends.append(self._join(m, asker, number, stack, index))
        repaired = sum(mends[1:], start=mends[0])
        m.d.sync += self.corrected.eq(self.corrected + repaired)
        for number, stack in enumerate(stacks):
            told, returned = getattr(self, f"told_{number}"), getattr(self, f"returned_{number}")
            for channel, device in enumerate(stack.device):
                m.d.comb += [getattr(told[channel], name).eq(getattr(device, name)) for name in _TOLD]
                m.d.comb += device.read_data.eq(returned[channel])
        return m

    def _join(self, m: Module, asker: Any, number: int, stack: Any, index: int) -> Any:
        """An asker's requester and its port of a stack. Returns: a line comes back that was repaired."""
        ask, put, given = asker.ask[number], asker.put[number], asker.given[number]
        request, written, response = stack.request[index], stack.written[index], stack.response[index]
        m.d.comb += [
            request.valid.eq(ask.valid),
            request.payload.operation.eq(ask.payload.write),
            request.payload.address.eq(ask.payload.line * LINE_BYTES),
            request.payload.length.eq(LINE_BYTES),
            ask.ready.eq(request.ready),
            written.valid.eq(put.valid),
            written.payload.data.eq(put.payload),
            written.payload.inject.eq(self.damage),
            put.ready.eq(written.ready),
            given.valid.eq(response.valid),
            given.payload.data.eq(response.payload.data),
            given.payload.lost.eq(response.payload.status == HbmStatus.LOST),
            response.ready.eq(given.ready),
        ]
        return response.valid & response.ready & (response.payload.status == HbmStatus.CORRECTED)


assert (HbmOperation.READ, HbmOperation.WRITE) == (0, 1)
