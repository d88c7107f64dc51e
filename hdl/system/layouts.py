"""What the parts of a chip hand to each other."""

from typing import Any

from amaranth.hdl import Mux, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from hdl.core.layouts import LINE_BITS, UPDATE, answer, bits, line_request
from spec.isa import REASON
from spec.system import ERRORS, OPERATIONS, SystemConfig

ERROR_BITS = bits(len(ERRORS))
LINE = data.StructLayout({"data": LINE_BITS, "error": ERROR_BITS})
"""A line that was read, and what is wrong with it (one of ``spec.system.ERRORS``)."""

REPLY = data.StructLayout({"line": LINE, "read": 1})
"""An answer of another chip: to a read, or that something is done; then only the error counts."""


class MemoryPort(wiring.Signature):
    """A port of a chip's memory, as its asker sees it: lines of this chip.

    ``answer`` gives each line read, in order. ``done`` says, in order, that a write is: whoever asks from now on reads
    it; ``data`` is what went wrong. Neither can be held back. ``done`` may come in the cycle of its request.
    """

    def __init__(self, config: SystemConfig) -> None:
        members: dict[str, Any] = {
            "request": Out(stream.Signature(line_request(config.own))),
            "answer": In(answer(LINE)),
            "done": In(answer(ERROR_BITS)),
        }
        super().__init__(members)


def body_layout(config: SystemConfig, operation: str) -> data.StructLayout:
    """What follows the header of one kind of packet."""
    return data.StructLayout(dict(config.bodies[operation]))


def tag_layout(config: SystemConfig) -> data.StructLayout:
    """The tag of a packet."""
    return data.StructLayout({"operation": bits(len(OPERATIONS)), "core": bits(config.cores)})


def message_layout(config: SystemConfig) -> data.StructLayout:
    """A packet without its header. ``peer`` is the chip it goes to, or has come from; ``core`` asks, or has asked."""
    width = max(body_layout(config, operation).size for operation in OPERATIONS)
    return data.StructLayout({**tag_layout(config).members, "peer": bits(config.chips), "body": width})


def body_of(message: Any, config: SystemConfig, operation: str) -> Any:
    """The body of a message as one kind of packet lays it out."""
    layout = body_layout(config, operation)
    return data.View(layout, message.body[: layout.size])


def addressed_layout(config: SystemConfig) -> data.StructLayout:
    """An update of a semaphore for one of the chip's own cores."""
    return data.StructLayout({"core": bits(config.cores), "update": UPDATE})


def cell_layout(config: SystemConfig) -> data.StructLayout:
    """A message between switches: the chip it goes to, and what that gets, ``peer`` being where it comes from."""
    return data.StructLayout({"target": bits(config.chips), "message": message_layout(config)})


def reason_of(error: Any) -> Value:
    """The reason of ``spec.isa.REASONS`` that an error's code stands for; 0 for none."""
    reason: Any = 0
    for code, name in enumerate(ERRORS):
        reason = Mux(error == code, REASON[name], reason)
    return Value.cast(reason)
