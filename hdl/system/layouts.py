"""What the parts of a chip hand to each other on the way to other chips."""

from typing import Any

from amaranth.lib import data

from hdl.core.layouts import UPDATE, bits
from spec.system import OPERATIONS, SystemConfig


def body_layout(config: SystemConfig, operation: str) -> data.StructLayout:
    """What follows the header of one kind of packet."""
    return data.StructLayout(dict(config.bodies[operation]))


def message_layout(config: SystemConfig) -> data.StructLayout:
    """A packet without its header. ``peer`` is the number of the chip it goes to, or has come from."""
    width = max(body_layout(config, operation).size for operation in OPERATIONS)
    return data.StructLayout({"operation": bits(len(OPERATIONS)), "peer": bits(config.chips), "body": width})


def body_of(message: Any, config: SystemConfig, operation: str) -> Any:
    """The body of a message as one kind of packet lays it out."""
    layout = body_layout(config, operation)
    return data.View(layout, message.body[: layout.size])


def addressed_layout(config: SystemConfig) -> data.StructLayout:
    """An update of a semaphore for one of the chip's own cores."""
    return data.StructLayout({"core": bits(config.cores), "update": UPDATE})
