"""A stack of HBM channels behind many requesters: what may be asked for, how addresses are spread, who waits where."""

import dataclasses
import enum
import functools

from spec.hbm import LINE_BYTES
from spec.hbm_controller import CHANNELS, SMALL_CHANNEL, HbmControllerConfig, controller_of
from spec.machine import ChipConfig
from spec.parameters import Parameters, parameter, refuse


class HbmOperation(enum.IntEnum):
    """What a request asks for. A barrier is answered when all earlier requests of its requester are done."""

    READ = 0
    WRITE = 1
    BARRIER = 2


class HbmStatus(enum.IntEnum):
    """Outcome of a line of a read, or of a whole request; of several refusals the one listed first is reported."""

    OK = 0
    CORRECTED = 1
    """One wrong bit of a word was repaired; the data is right."""
    LOST = 2
    """Two bits of a word were wrong: the data is not to be used."""
    OPERATION = 3
    """The operation is unknown."""
    EMPTY = 4
    """The length is zero."""
    MISALIGNED = 5
    """Address or length is no multiple of a line."""
    OUTSIDE = 6
    """The burst does not lie within the stack."""


DEFAULT = HbmControllerConfig()

LENGTH_BITS = 16
"""Bits of a burst's length in bytes: bursts are shorter than 64 KiB."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class HbmStackConfig(Parameters):
    """``requesters`` ports before ``channels`` channels. Depths count lines (64 B)."""

    controller: HbmControllerConfig = DEFAULT
    channels: int = parameter(
        CHANNELS, unit="channels", low=1, high=64, power_of_two=True, doc="channels", source="JESD238: 16"
    )
    requesters: int = parameter(16, unit="ports", low=1, high=64, doc="requesters, one DMA engine each")
    interleave: int = parameter(
        256, unit="bytes", low=LINE_BYTES, high=1 << 16, power_of_two=True, doc="consecutive bytes kept in one channel"
    )
    port_lines: int = parameter(64, unit="lines", low=2, high=1024, doc="responses one requester may have under way")
    return_lines: int = parameter(80, unit="lines", low=2, high=256, doc="reads one pseudo channel may have under way")
    streak: int = parameter(8, unit="lines", low=1, high=256, doc="lines in a row from one requester while others wait")
    tag_bits: int = parameter(8, unit="bits", low=1, high=32, doc="tag of a request, returned with its responses")
    address_bits: int = parameter(40, unit="bits", low=8, high=56, doc="width of a request's byte address")
    ordered: bool = parameter(True, choices=(False, True), doc="responses of a requester in order of its requests")

    def check(self) -> None:
        """Refuse addresses that do not reach beyond the stack and interleaving by more than a channel."""
        name = type(self).__name__
        if self.address_bits <= self.stack_bits:
            raise refuse(name, "address_bits", self.address_bits, f"at least {self.stack_bits + 1}", "bits")
        if self.interleave * 2 > self.controller.geometry.channel_bytes:
            limit = self.controller.geometry.channel_bytes // 2
            raise refuse(name, "interleave", self.interleave, f"at most half a channel: {limit}", "bytes")

    @property
    def pseudo_channels(self) -> int:
        """Pseudo channels of the stack: the index is ``channel * geometry.pseudo_channels + pseudo channel``."""
        return self.channels * self.controller.geometry.pseudo_channels

    @property
    def stack_bytes(self) -> int:
        """Bytes of the stack."""
        return self.channels * self.controller.geometry.channel_bytes

    @property
    def stack_bits(self) -> int:
        """Bits of a byte address within the stack."""
        return (self.stack_bytes - 1).bit_length()

    @functools.cached_property
    def pseudo_channel(self) -> HbmControllerConfig:
        """The controller of one pseudo channel: its tags are the slots of the store of returning lines."""
        return self.controller.replace(tag_bits=max((self.return_lines - 1).bit_length(), 1))

    @functools.cached_property
    def masks(self) -> dict[str, tuple[int, ...]]:
        """Like ``HbmMap.masks``, of stack addresses: ``channel`` (with the pseudo channel as its lowest bit), ``bank``,
        ``row``, ``column``.

        The channel's bits lie above ``interleave`` and each is folded with every ``log2(channels)``-th bit above it, so
        that no power-of-two stride stays in one channel. Without them the address is the channel's own.
        """
        low, count = self.interleave.bit_length() - 1, self.channels.bit_length() - 1
        channel = tuple(sum(1 << bit for bit in range(low + index, self.stack_bits, count)) for index in range(count))
        below = (1 << low) - 1

        def spread(mask: int) -> int:
            return (mask & below) | (mask & ~below) << count

        inner = {name: tuple(map(spread, masks)) for name, masks in self.controller.map.masks.items()}
        return {
            "channel": inner["pseudo_channel"] + channel,
            "bank": inner["bank"],
            "row": inner["row"],
            "column": inner["column"],
        }


SMALL_STACK = HbmStackConfig(
    controller=HbmControllerConfig(
        geometry=SMALL_CHANNEL, read_lines=4, write_lines=8, high_water=7, low_water=1, prepare=2
    ),
    channels=2,
    requesters=3,
    interleave=128,
    port_lines=12,
    return_lines=6,
    streak=4,
    address_bits=18,
)
"""128 KiB in four pseudo channels behind three requesters: everything there is more than once of, to simulate."""


def stack_of(chip: ChipConfig) -> HbmStackConfig:
    """One stack of a chip; a small one for a chip with little memory."""
    controller = controller_of(chip)
    if controller.geometry == SMALL_CHANNEL:
        return SMALL_STACK.replace(controller=controller)
    return HbmStackConfig(controller=controller)
