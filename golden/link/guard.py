"""What a chip's flits become before they enter the network: good packets as they are, bad ones as answers."""

import dataclasses

from spec.link import RouterConfig, Status
from spec.topology import Kind

COUNT = (1 << 16) - 1
"""Where the counters stop."""


@dataclasses.dataclass(frozen=True)
class Flit:
    """One flit on a lane."""

    lane: int
    data: int
    first: bool
    last: bool


def pack(config: RouterConfig, fields: dict[str, int]) -> int:
    """A header as an integer; fields that are not given are zero."""
    return sum(fields.get(name, 0) << offset for name, (offset, _) in config.field_offsets.items())


def unpack(config: RouterConfig, word: int) -> dict[str, int]:
    """The fields of a header."""
    return {name: word >> offset & ((1 << width) - 1) for name, (offset, width) in config.field_offsets.items()}


class Guard:
    """The guard of one chip, a cycle at a time. ``left`` counts the flits a lane's open packet still needs."""

    def __init__(self, config: RouterConfig, node: int) -> None:
        self.config = config
        self.position = config.torus.coordinates(node)
        self.left = [0] * config.lanes
        self.skips = [False] * config.lanes
        self.owed = [0] * config.lanes
        self.bad = self.broken = 0

    def credits(self, router: int) -> int:
        """Credits the chip sees in this cycle, of the ones on the router's wires; call it before :meth:`step`."""
        given = router
        for lane, owed in enumerate(self.owed):
            if owed:
                given |= 1 << lane
                self.owed[lane] -= not router >> lane & 1
        return given

    def verdict(self, flit: Flit) -> Status:
        """Whether a first flit's header says something sensible."""
        config, sizes = self.config, self.config.torus.sizes
        header = unpack(config, flit.data)
        source = tuple(header[f"source_{d}"] for d in range(len(sizes)))
        multicast = header["kind"] == Kind.MULTICAST
        legal = 1 <= header["flits"] <= config.max_flits and (header["flits"] == 1) == flit.last
        if not flit.first or source != self.position or not legal or (multicast and not config.multicast):
            return Status.MALFORMED
        if not multicast and any(header[f"target_{d}"] >= size for d, size in enumerate(sizes)):
            return Status.NO_CHIP
        return Status.GOOD

    def step(self, flit: Flit) -> Flit | None:
        """What goes into the router in the cycle in which the chip sends ``flit``; None: it is consumed."""
        lane = flit.lane
        if lane >= self.config.lanes:
            self.bad = min(self.bad + 1, COUNT)
            return None
        if self.left[lane]:
            self.left[lane] -= 1
            whole = not flit.first and flit.last == (self.left[lane] == 0)
            ends = not whole or flit.last
            if ends:
                self.left[lane] = 0
                self.skips[lane] = not flit.last
            self.broken = min(self.broken + (not whole), COUNT)
            return Flit(lane, flit.data, not whole, ends)
        if self.skips[lane] and not flit.first:
            self.skips[lane] = not flit.last
            self.owed[lane] += 1
            return None
        self.skips[lane] = False
        header, status = unpack(self.config, flit.data), self.verdict(flit)
        if status == Status.GOOD:
            self.left[lane] = header["flits"] - 1
            return Flit(lane, flit.data, True, flit.last)
        self.skips[lane] = not flit.last
        self.bad = min(self.bad + 1, COUNT)
        here = {f"{end}_{d}": at for end in ("target", "source") for d, at in enumerate(self.position)}
        answer = {"kind": int(Kind.FREE), "flits": 1, "tag": header["tag"], "status": int(status), **here}
        return Flit(lane, pack(self.config, answer), True, True)
