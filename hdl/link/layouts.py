"""What the wires of NeuronLink carry."""

from typing import Any

from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from spec.link import RouterConfig


def flit_layout(config: RouterConfig) -> data.StructLayout:
    """One flit: data, and whether it is the first or the last of its packet."""
    return data.StructLayout({"data": config.flit_bits, "first": 1, "last": 1})


def header_layout(config: RouterConfig) -> data.StructLayout:
    """The low bits of a first flit's data."""
    return data.StructLayout(dict(config.header))


def position_layout(config: RouterConfig) -> data.ArrayLayout:
    """Coordinates of a router, one of equal width for each dimension."""
    return data.ArrayLayout(max(config.coordinate_bits), config.torus.dimensions)


class FlitLink(wiring.Signature):
    """A link as its sender sees it. A flit on it (``valid``) cannot be refused: the sender has spent a credit for it.

    ``credit`` is a pulse for each lane: one flit of it has left the buffer at the far end. Pulses cannot get stuck, and
    lanes that drain in the same cycle do not wait for each other.
    """

    def __init__(self, config: RouterConfig) -> None:
        self.config = config
        members: dict[str, Any] = {
            "valid": Out(1),
            "lane": Out(range(config.lanes)),
            "flit": Out(flit_layout(config)),
            "credit": In(config.lanes),
        }
        super().__init__(members)
