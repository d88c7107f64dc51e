"""A chip's memory without banks and rows: what simulations of many chips have in the place of HBM."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib.wiring import In

from hdl.block import Block, place
from hdl.core.layouts import LINE_BITS, line_request
from hdl.core.share import Share
from hdl.core.system import LineMemory
from hdl.core.unit import join, serve
from hdl.system.layouts import MemoryPort
from spec.core import ShareConfig
from spec.system import SystemConfig


class PlainMemory(Block):
    """A line a cycle, ``ports`` in turn, answers after ``hbm_latency`` cycles; a write is done when it is taken."""

    config: SystemConfig

    def __init__(self, config: SystemConfig) -> None:
        super().__init__(config, {"ports": In(MemoryPort(config)).array(config.askers)})

    def elaborate(self, platform: Any) -> Module:
        """One memory, shared."""
        m = Module()
        config = self.config
        pins: Any = self
        layout = line_request(config.own)
        share = Share(
            ShareConfig(ports=config.askers, request=layout.size, response=LINE_BITS, depth=config.core.hbm_latency + 2)
        )
        memory = LineMemory(config.own)
        m.submodules.share = place(share, platform)
        m.submodules.memory = place(memory, platform)
        serve(m, share, memory.request, memory.answer)
        for index, port in enumerate(pins.ports):
            join(m, share, index, port.request)
            back = getattr(share, f"answer_{index}")
            m.d.comb += [
                port.answer.valid.eq(back.valid),
                port.answer.data.data.eq(back.data),
                port.done.valid.eq(port.request.valid & port.request.ready & port.request.payload.write),
            ]
        return m
