"""The link layer in numbers: cycle-exact ends of a link with go-back-N replay, and the bound on goodput."""

import dataclasses

from spec.link import CRC_POLYNOMIALS, LinkConfig


def crc(value: int, bits: int, width: int) -> int:
    """CRC of the ``bits`` low bits of ``value``, most significant first, register preset to ones; bit by bit."""
    register, top = (1 << width) - 1, 1 << (width - 1)
    for index in reversed(range(bits)):
        feedback = bool(register & top) != bool(value >> index & 1)
        register = (register << 1) & ((1 << width) - 1) ^ (CRC_POLYNOMIALS[width] if feedback else 0)
    return register


@dataclasses.dataclass
class End:
    """One end, a cycle at a time. Sequence numbers count without bound here and are cut only on the wire."""

    config: LinkConfig
    expected: int = 0
    again: bool = False
    oldest: int = 0
    following: int = 0
    asked_before: bool = False
    timer: int = 0
    failures: int = 0
    dead: bool = False
    replays: int = 0
    damaged: int = 0
    quiet: int = 0

    def __post_init__(self) -> None:
        self.buffer: list[int] = []
        self.transmit = self._frame()[0] & 0

    @property
    def newest(self) -> int:
        """Number of the next payload taken."""
        return self.oldest + len(self.buffer)

    @property
    def ready(self) -> bool:
        """Whether a payload would be taken in this cycle."""
        return self.dead or len(self.buffer) < self.config.window

    def _frame(self) -> tuple[int, bool]:
        """The frame that goes out next, and whether it carries a payload."""
        more = self.following != self.newest and not self.dead
        values = {
            "payload": self.buffer[self.following - self.oldest] if more else 0,
            "data": int(more),
            "sequence": self.following,
            "expected": self.expected,
            "again": int(self.again),
        }
        frame = offset = 0
        for name, width in self.config.frame[:-1]:
            frame |= (values[name] & ((1 << width) - 1)) << offset
            offset += width
        return frame | crc(frame, offset, self.config.crc_bits) << offset, more

    def step(self, receive: int, offer: int | None) -> int | None:
        """One cycle: ``receive`` is on the wire, ``offer`` is a payload put in (only if :attr:`ready`).

        Afterwards :attr:`transmit` is the frame on the outgoing wire in the next cycle. Returns the payload that stands
        at the output in the next cycle, if any.
        """
        config = self.config
        fields, offset = {}, 0
        for name, width in config.frame:
            fields[name] = receive >> offset & ((1 << width) - 1)
            offset += width
        body = offset - config.crc_bits
        was_dead = self.dead
        whole = not was_dead and fields["crc"] == crc(receive & ((1 << body) - 1), body, config.crc_bits)
        transmit, more = self._frame()
        count = 1 << config.sequence_bits

        acknowledged = (fields["expected"] - self.oldest) % count
        progress = whole and 0 < acknowledged <= len(self.buffer)
        advance = acknowledged if progress else 0
        asked = whole and bool(fields["again"]) and acknowledged <= len(self.buffer)
        asked = asked and (not self.asked_before or progress)
        late = self.timer == config.timeout - 1 and not progress
        idle = not self.buffer
        if (asked or late) and self.following != self.oldest:
            self.replays = min(self.replays + 1, 0xFFFF)
        if asked or late or advance > self.following - self.oldest:
            self.following = self.oldest + advance
        else:
            self.following += more
        self.timer = 0 if progress or late or idle else self.timer + 1
        if progress:
            self.failures = 0
        elif late:
            self.failures += 1
        self.quiet = 0 if whole or was_dead else self.quiet + 1
        self.dead = was_dead or self.failures == config.retries or self.quiet == config.silence
        if offer is not None and not was_dead:
            self.buffer.append(offer)
        self.buffer = self.buffer[advance:]
        self.oldest += advance
        if whole:
            self.asked_before = bool(fields["again"])

        output = None
        ahead = (fields["sequence"] - self.expected) % count
        if whole and fields["data"] and ahead == 0:
            output, self.expected, self.again = fields["payload"], self.expected + 1, False
        elif not whole or (fields["data"] and ahead < config.window):
            self.again = True
        self.damaged = min(self.damaged + (not whole and not was_dead), 0xFFFF)
        self.transmit = 0 if was_dead else transmit
        return output


def goodput_bound(config: LinkConfig, error_rate: float) -> float:
    """Payloads a cycle of go-back-N at a bit error rate, if a loss is always noticed and asked for at once.

    A frame survives with ``p = (1 - rate) ** bits``; each loss repeats a round trip's worth of frames:
    ``p / (p + (1 - p) * round_trip)``.
    """
    whole = (1 - error_rate) ** config.frame_bits
    return float(whole / (whole + (1 - whole) * config.round_trip))
