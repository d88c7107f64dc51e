"""What requesters, crossbar and pseudo channels of a stack hand to each other."""

from amaranth.lib import data

from hdl.hbm.layouts import ControllerLayouts, bits
from spec.hbm_stack import LENGTH_BITS, HbmOperation, HbmStackConfig, HbmStatus


class StackLayouts:
    """Payload layouts of one stack.

    ``request``   of a requester: operation, byte address, length in bytes, tag
    ``written``   a line of data for a write, and an error to plant into it (mask 0 in use)
    ``response``   a line read, or the outcome of a request without data; ``last`` ends the request
    ``routed``    a line and the pseudo channel it is for; ``line`` without that
    ``back``     a line read, for its requester; ``returned`` with whose it is
    """

    def __init__(self, config: HbmStackConfig) -> None:
        self.controller = ControllerLayouts(config.pseudo_channel)
        self.port, self.slot = bits(config.requesters), bits(config.port_lines)
        operation, status = (max(kind).bit_length() for kind in (HbmOperation, HbmStatus))
        self.status = status
        self.request = data.StructLayout(
            {"operation": operation, "address": config.address_bits, "length": LENGTH_BITS, "tag": config.tag_bits}
        )
        self.written = data.StructLayout({"data": self.controller.plain, "inject": self.controller.inject})
        self.response = data.StructLayout(
            {
                "tag": config.tag_bits,
                "status": status,
                "address": config.address_bits,
                "last": 1,
                "data": self.controller.plain,
            }
        )
        owner = {"port": self.port, "slot": self.slot}
        line = {
            "write": 1,
            "place": self.controller.place,
            "data": self.controller.plain,
            "inject": self.controller.inject,
        }
        self.line = data.StructLayout({**line, **owner})
        self.routed = data.StructLayout({"target": bits(config.pseudo_channels), **line, "slot": self.slot})
        self.back = data.StructLayout({"slot": self.slot, "data": self.controller.plain, "corrected": 1, "lost": 1})
        self.returned = data.StructLayout({"port": self.port, "line": self.back})
