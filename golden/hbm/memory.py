"""What requesters of a stack read: a plain memory with the ordering rules, no time.

Requests of one requester act in their order, on lines of 64 B. What several requesters do to the same line acts in the
order in which its pseudo channel takes them; the caller gives requests in such an order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from golden.ecc import decode, encode
from spec.ecc import SecdedConfig
from spec.hbm import LINE_BYTES
from spec.hbm_stack import HbmOperation, HbmStackConfig, HbmStatus

SECDED = SecdedConfig()
WORD_BYTES = SECDED.data // 8
EMPTY = bytes(LINE_BYTES)


class Request(NamedTuple):
    """As a requester gives it; ``operation`` may be any number."""

    operation: int
    address: int
    length: int = 0
    tag: int = 0


class Line(NamedTuple):
    """A line of write data, and the error planted into it: ``mask`` XORed to codeword ``word``."""

    data: bytes
    word: int = 0
    mask: int = 0


@dataclass(frozen=True)
class Response:
    """``data`` is None where it means nothing. With ``scrubbed`` OK may stand for CORRECTED."""

    tag: int
    status: HbmStatus
    address: int
    last: bool
    data: bytes | None = None
    scrubbed: bool = False


class Memory:
    """The contents of a stack."""

    def __init__(self, config: HbmStackConfig) -> None:
        self.config = config
        self.lines: dict[int, Line] = {}
        self.seen: set[int] = set()
        """Lines in which a read has met a correctable error. Scrubbing may write one back at any time from then on. If
        the line was written meanwhile, the new data is written back, and its error may be gone before a read."""

    def verdict(self, request: Request) -> HbmStatus:
        """OK, or why the request is refused."""
        if request.operation not in list(HbmOperation):
            return HbmStatus.OPERATION
        if request.operation == HbmOperation.BARRIER:
            return HbmStatus.OK
        if request.length == 0:
            return HbmStatus.EMPTY
        if request.address % LINE_BYTES or request.length % LINE_BYTES:
            return HbmStatus.MISALIGNED
        return HbmStatus.OUTSIDE if request.address + request.length > self.config.stack_bytes else HbmStatus.OK

    @staticmethod
    def lines_taken(request: Request) -> int:
        """Lines of write data a request takes, refused or not."""
        return -(-request.length // LINE_BYTES) if request.operation == HbmOperation.WRITE else 0

    def respond(self, request: Request, data: Sequence[Line] = ()) -> Iterator[Response]:
        """Do the request; its responses in order. ``data`` has ``lines_taken`` lines."""
        status = self.verdict(request)
        if status != HbmStatus.OK or request.operation == HbmOperation.BARRIER:
            yield Response(request.tag, status, request.address, True)
            return
        end = request.address + request.length
        addresses = range(request.address, end, LINE_BYTES)
        if request.operation == HbmOperation.WRITE:
            for address, line in zip(addresses, data, strict=True):
                self.lines[address] = line
            yield Response(request.tag, HbmStatus.OK, end - LINE_BYTES, True)
            return
        for address in addresses:
            status, content = self.read(address)
            scrubbed = address in self.seen
            if status == HbmStatus.CORRECTED:
                self.seen.add(address)
            yield Response(request.tag, status, address, address + LINE_BYTES == end, content, scrubbed)

    def read(self, address: int) -> tuple[HbmStatus, bytes | None]:
        """Status and data of one line."""
        line = self.lines.get(address, Line(EMPTY))
        if not line.mask:
            return HbmStatus.OK, line.data
        start = line.word * WORD_BYTES
        stored = encode(SECDED, int.from_bytes(line.data[start : start + WORD_BYTES], "little")) ^ line.mask
        word, corrected, lost = decode(SECDED, stored)
        if lost:
            return HbmStatus.LOST, None
        whole = line.data[:start] + word.to_bytes(WORD_BYTES, "little") + line.data[start + WORD_BYTES :]
        return (HbmStatus.CORRECTED if corrected else HbmStatus.OK), whole
