"""Where the memory devices of a chip are mounted."""

from typing import Any

from amaranth.hdl import Module
from amaranth.lib.wiring import In, Out

from hdl.block import Block
from hdl.system.stacked import device_layouts
from spec.hbm_stack import HbmStackConfig


class DeviceSocket(Block):
    """The devices of one stack, empty: a module of its own for whoever has a model of them, or pins, in its place.

    ``told`` is what the pseudo channels tell, ``returned`` what comes back: nothing, zeros, from an empty socket.
    """

    config: HbmStackConfig

    def __init__(self, stack: HbmStackConfig) -> None:
        told, returned = device_layouts(stack)
        super().__init__(stack, {"told": In(told), "returned": Out(returned)})

    def elaborate(self, platform: Any) -> Module:
        """No hardware but the wires of the ports."""
        m = Module()
        m.d.comb += self.returned.as_value().eq(0)
        return m
