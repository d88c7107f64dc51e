"""Parameters of NeuronLink: router, link layer and switch, and the layout of a packet's first flit.

A flit is ``flit_bits`` of data with a ``first`` and a ``last`` mark. The data of a first flit is the header,
:attr:`RouterConfig.header`, lowest field first; the rest of it and all later flits are the payload.
"""

import dataclasses
import enum
import math

from spec.parameters import Parameters, parameter, refuse
from spec.topology import Torus


def bits_for(largest: int) -> int:
    """Bits that hold 0 to ``largest``; at least one."""
    return max(1, largest.bit_length())


class Status(enum.IntEnum):
    """What a packet is; two bits of its header. All but the first are answers of one flit that the network gives.

    An answer comes back to the chip that sent the packet, with that packet's tag.
    """

    GOOD = 0
    NO_CHIP = 1
    """The target does not exist."""
    MALFORMED = 2
    """A source that is not the sender, a length of zero, beyond the maximum, or unlike the packet's marks."""
    UNREACHABLE = 3
    """A link on the way is dead."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RouterConfig(Parameters):
    """One torus router and the chip's side of it. Both ends of every link are built from the same object.

    Each of ``classes`` message classes (requests, responses) has ``channels`` virtual channels of its own at each port.
    The first ``escape_channels`` of them are the two dateline classes (see :meth:`spec.topology.Torus.levels`);
    the others serve adaptive packets only.
    """

    torus: Torus
    flit_bits: int = parameter(128, unit="bits", low=8, high=2048, doc="data of a flit")
    classes: int = parameter(1, unit="classes", low=1, high=4, doc="message classes that never wait for each other")
    channels: int = parameter(4, unit="channels", low=1, high=16, doc="virtual channels of one message class")
    escape_channels: int = parameter(4, unit="channels", low=1, high=16, doc="channels that obey the dateline")
    depth: int = parameter(8, unit="flits", low=1, high=256, doc="buffer of one channel")
    max_flits: int = parameter(8, unit="flits", low=1, high=255, doc="longest packet")
    tag_bits: int = parameter(4, unit="bits", low=1, high=32, doc="field of the header the network carries untouched")

    def check(self) -> None:
        """Refuse what could deadlock or not hold a header."""
        if self.escape_channels > self.channels:
            raise refuse("RouterConfig", "escape_channels", self.escape_channels, f"1 to channels = {self.channels}")
        rings = [self.torus.ring(d) and self.torus.sizes[d] > 1 for d in range(self.torus.dimensions)]
        if any(rings) and self.escape_channels < 2:
            raise refuse(
                "RouterConfig", "escape_channels", self.escape_channels, "at least 2 where a dimension is a ring"
            )
        if self.header_bits > self.flit_bits:
            raise refuse(
                "RouterConfig", "flit_bits", self.flit_bits, f"at least {self.header_bits}, one header", "bits"
            )

    @property
    def ports(self) -> int:
        """Ports, the local one (port 0) included."""
        return self.torus.ports

    @property
    def lanes(self) -> int:
        """Virtual channels of a port over all message classes; lane ``class * channels + channel``."""
        return self.classes * self.channels

    @property
    def lower_channels(self) -> int:
        """Escape channels of dateline class 0: the first ones; the rest of the escape channels are class 1."""
        return (self.escape_channels + 1) // 2

    @property
    def coordinate_bits(self) -> tuple[int, ...]:
        """Width of a coordinate of each dimension."""
        return tuple(bits_for(size - 1) for size in self.torus.sizes)

    @property
    def header(self) -> tuple[tuple[str, int], ...]:
        """Name and width of the header's fields, lowest first."""
        target = tuple((f"target_{d}", width) for d, width in enumerate(self.coordinate_bits))
        source = tuple((f"source_{d}", width) for d, width in enumerate(self.coordinate_bits))
        flits, tag = ("flits", bits_for(self.max_flits)), ("tag", self.tag_bits)
        return (("kind", 2), *target, *source, flits, tag, ("status", 2))

    @property
    def header_bits(self) -> int:
        """Width of the header."""
        return sum(width for _, width in self.header)

    @property
    def field_offsets(self) -> dict[str, tuple[int, int]]:
        """First bit and width of each field of the header."""
        offsets, start = {}, 0
        for name, width in self.header:
            offsets[name] = (start, width)
            start += width
        return offsets

    @property
    def lane_bits(self) -> int:
        """Width of a lane's number."""
        return bits_for(self.lanes - 1)

    @property
    def wire_bits(self) -> int:
        """All wires of a link in both directions of its flow: a flit with marks, lane and valid, a credit a lane."""
        return self.flit_bits + 2 + self.lane_bits + 1 + self.lanes

    @property
    def multicast(self) -> bool:
        """Whether packets may be multicast: each must fit in one buffer, from which its copies are read one by one."""
        return self.max_flits <= self.depth


@dataclasses.dataclass(frozen=True, kw_only=True)
class OutputConfig(Parameters):
    """One output of a router and its link; ``cycles`` is the time of a flit on it (2: half the wires)."""

    router: RouterConfig
    cycles: int = parameter(1, unit="cycles", low=1, high=8, doc="time of one flit on the link")

    @property
    def part_bits(self) -> int:
        """Wires of the link: a flit with its marks and its lane, divided by the cycles."""
        return -(-(self.router.flit_bits + 2 + self.router.lane_bits) // self.cycles)


ERROR_RATE = 1e-3
"""Bit error rate that cables are made for."""
FALSE_DEATH = 1e-9
"""Chance, for each payload, that a cable of that rate may be declared dead though it is not."""
CRC_POLYNOMIALS = {8: 0x07, 16: 0x1021, 32: 0x04C11DB7}
"""Generator polynomial by width: CRC-8, CRC-16-CCITT, CRC-32."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LinkConfig(Parameters):
    """The serial link between two chips: what one frame carries and how much may be under way."""

    payload_bits: int = parameter(32, unit="bits", low=1, high=4096, doc="payload of one frame")
    sequence_bits: int = parameter(
        5, unit="bits", low=2, high=12, doc="sequence number; half its range may be under way"
    )
    crc_bits: int = parameter(16, unit="bits", choices=tuple(CRC_POLYNOMIALS), doc="check sum of a frame")
    wire_cycles: int = parameter(2, unit="cycles", low=0, high=64, doc="time on the wire, beyond the sender's register")
    timeout: int = parameter(
        32, unit="cycles", low=4, high=65535, doc="cycles without progress before all is sent again"
    )
    retries: int = parameter(15, unit="retries", low=1, high=255, doc="timeouts in a row after which the link is dead")

    def check(self) -> None:
        """Refuse a timeout in which no acknowledgement can come."""
        if self.timeout <= self.round_trip:
            raise refuse(
                "LinkConfig", "timeout", self.timeout, f"more than the round trip of {self.round_trip}", "cycles"
            )

    @property
    def window(self) -> int:
        """Frames that may be under way: the depth of the replay buffer."""
        return 1 << (self.sequence_bits - 1)

    @property
    def round_trip(self) -> int:
        """Cycles from sending a frame to its acknowledgement having an effect."""
        return 2 * (self.wire_cycles + 1) + 1

    @property
    def silence(self) -> int:
        """Cycles without one whole frame after which the other end counts as dead."""
        return self.timeout * self.retries

    @property
    def frame(self) -> tuple[tuple[str, int], ...]:
        """Name and width of a frame's fields, lowest first. ``expected`` acknowledges what is before it."""
        sequence = self.sequence_bits
        return (
            ("payload", self.payload_bits),
            ("data", 1),
            ("sequence", sequence),
            ("expected", sequence),
            ("again", 1),
            ("crc", self.crc_bits),
        )

    @property
    def frame_bits(self) -> int:
        """Width of a frame."""
        return sum(width for _, width in self.frame)

    def fruitless(self, error_rate: float) -> float:
        """Bound on the chance that a timeout passes without progress though the cable has only bit errors.

        The oldest payload is damaged, or it is whole and all acknowledgements that still come in time are damaged.
        """
        damaged = -math.expm1(self.frame_bits * math.log1p(-error_rate))
        return min(1.0, damaged + damaged ** (self.timeout - self.round_trip))

    def false_death(self, error_rate: float) -> float:
        """Bound on the chance, for each payload, that bit errors alone let the link count as dead."""
        return self.fruitless(error_rate) ** self.retries


@dataclasses.dataclass(frozen=True, kw_only=True)
class CableConfig(Parameters):
    """A router whose links are noisy cables: each frame carries a flit one way and credits for the other."""

    router: RouterConfig
    link: LinkConfig = LinkConfig()
    """The payload is as wide as the router's wires, whatever ``link.payload_bits`` says."""

    def check(self) -> None:
        """Refuse a cable that noise alone would end."""
        layer = self.layer
        if layer.false_death(ERROR_RATE) > FALSE_DEATH:
            raise refuse(
                "CableConfig",
                "link.retries",
                layer.retries,
                f"enough for frames of {layer.frame_bits} bits: at a bit error rate of {ERROR_RATE} a healthy cable "
                f"would be given up with a chance of {layer.false_death(ERROR_RATE):.0e} a payload, "
                f"more than {FALSE_DEATH}",
            )

    @property
    def layer(self) -> LinkConfig:
        """The link layer of one cable."""
        return self.link.replace(payload_bits=self.router.wire_bits)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SwitchConfig(Parameters):
    """NeuronSwitch: an input-queued crossbar with a queue for each output at every input."""

    ports: int = parameter(16, unit="ports", low=2, high=144, doc="inputs and outputs")
    cell_bits: int = parameter(32, unit="bits", low=1, high=2048, doc="payload of a cell")
    depth: int = parameter(16, unit="cells", low=2, high=4096, doc="cells one queue holds")
    iterations: int = parameter(4, unit="iterations", low=1, high=8, doc="rounds of iSLIP in a cycle")

    @property
    def slot_cycles(self) -> int:
        """Cycles of a slot, in which each port passes one cell: one to move it, one for each round of matching."""
        return self.iterations + 1
