"""Chips around a fabric's RTL, in Python: they hold credits, send packets however bad, and take what comes.

Comparing every wire with the cycle-exact model needs well-formed traffic. These chips need not be nice: they
show what the fabric does with bad packets, dead links and nodes that are reset.
"""

import dataclasses
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from golden.link.guard import Flit, pack, unpack
from spec.link import RouterConfig, bits_for
from verif.harness.model import Model


@dataclasses.dataclass(frozen=True)
class Packet:
    """What a chip sends: flits of one lane, whose marks need not make sense, from ``cycle`` on at the earliest."""

    node: int
    lane: int
    data: tuple[int, ...]
    marks: tuple[tuple[bool, bool], ...]
    cycle: int = 0


@dataclasses.dataclass(frozen=True)
class Received:
    """What a chip got: the header's fields, all flits, and whether the packet was broken off."""

    node: int
    lane: int
    header: dict[str, int]
    data: tuple[int, ...]
    broken: bool
    cycle: int


def packet(config: RouterConfig, node: int, target: int, lane: int, body: Sequence[int], **fields: int) -> Packet:
    """A good packet, unless ``fields`` say otherwise: header, then ``body``, marked as it should be."""
    torus = config.torus
    header = {f"source_{d}": at for d, at in enumerate(torus.coordinates(node))}
    header |= {f"target_{d}": at for d, at in enumerate(torus.coordinates(target))}
    cycle = fields.pop("cycle", 0)
    header |= {"kind": 1, "flits": 1 + len(body)} | fields
    count = 1 + len(body)
    marks = tuple((index == 0, index == count - 1) for index in range(count))
    return Packet(node, lane, (pack(config, header), *body), marks, cycle)


class Chips:
    """All chips of a fabric model, a cycle at a time; ``stall`` is how often one does not return a credit at once."""

    def __init__(self, model: Model, config: RouterConfig, rng: np.random.Generator, *, stall: float = 0.2) -> None:
        self.model, self.config, self.rng, self.stall = model, config, rng, stall
        nodes = config.torus.nodes
        self.credits = [[config.depth] * config.lanes for _ in range(nodes)]
        self.owed = [[0] * config.lanes for _ in range(nodes)]
        self.queues: list[list[deque[Packet]]] = [[deque() for _ in range(config.lanes)] for _ in range(nodes)]
        self.at = [[0] * config.lanes for _ in range(nodes)]
        self.open: list[list[list[int]]] = [[[] for _ in range(config.lanes)] for _ in range(nodes)]
        self.received: list[Received] = []
        self.off: set[int] = set()
        """Chips that are switched off: they send nothing, and what reaches them is nobody's concern."""
        self.cycle = 0
        self.samples: dict[str, Any] = {}
        self.fullest = 0
        """Most credits of one lane that a chip has held back."""

    def put(self, packets: Sequence[Packet]) -> None:
        """Queue packets at their chips."""
        for one in packets:
            self.queues[one.node][one.lane].append(one)

    @property
    def idle(self) -> bool:
        """Whether everything was sent and every credit has come home, on both sides; packets may still be under way."""
        on = [node for node in range(self.config.torus.nodes) if node not in self.off]
        sent = not any(queue for node in on for queue in self.queues[node])
        held = any(count for node in on for count in self.owed[node])
        return sent and not held and all(count == self.config.depth for node in on for count in self.credits[node])

    def switch_off(self, node: int) -> None:
        """Nothing more comes from this chip, not even a credit."""
        self.off.add(node)
        self.owed[node] = [0] * self.config.lanes

    def run(
        self, cycles: int, *, watch: Sequence[str] = (), drive: Callable[[int], dict[str, int]] | None = None
    ) -> bool:
        """At most ``cycles`` cycles, until idle for a while; whether it became idle. ``drive`` sets other inputs."""
        calm = 0
        for _ in range(cycles):
            self._cycle(watch, drive(self.cycle) if drive else {})
            calm = calm + 1 if self.idle else 0
            if calm > CALM:
                return True
        return False

    def _cycle(self, watch: Sequence[str], other: dict[str, int]) -> None:
        nodes = range(self.config.torus.nodes)
        hold = dict(other)
        for node in nodes:
            back = 0
            for lane, count in enumerate(self.owed[node]):
                if count and self.rng.random() >= self.stall:
                    self.owed[node][lane] -= 1
                    back |= 1 << lane
            flit = self._offer(node)
            hold[f"routers__{node}__credit"] = back
            hold[f"chips__{node}__valid"] = flit is not None
            if flit is not None:
                hold[f"chips__{node}__lane"] = flit.lane
                hold[f"chips__{node}__flit"] = flit.data | (flit.first | flit.last << 1) << self.config.flit_bits
        wanted = [f"{name}__{node}__{wire}" for node in nodes for name, wire in WIRES]
        found = self.model.run(hold=hold, sample=[*wanted, *watch], limit=1)
        self.samples = {name: found.samples[name][0] for name in watch}
        for node in nodes:
            credit = int(found.samples[f"chips__{node}__credit"][0][0])
            for lane in range(self.config.lanes):
                self.credits[node][lane] += credit >> lane & 1
            if found.samples[f"routers__{node}__valid"][0][0]:
                words = found.samples[f"routers__{node}__flit"][0]
                word = sum(int(part) << 32 * index for index, part in enumerate(words))
                self._take(node, int(found.samples[f"routers__{node}__lane"][0][0]), word)
        self.cycle += 1

    def _offer(self, node: int) -> Flit | None:
        """The next flit of any lane that has one, a credit, and luck."""
        for lane in self.rng.permutation(self.config.lanes):
            queue = self.queues[node][lane]
            if node in self.off or not queue or queue[0].cycle > self.cycle or not self.credits[node][lane]:
                continue
            at = self.at[node][lane]
            self.credits[node][lane] -= 1
            flit = Flit(int(lane), queue[0].data[at], *queue[0].marks[at])
            self.at[node][lane] = at + 1
            if at + 1 == len(queue[0].data):
                queue.popleft()
                self.at[node][lane] = 0
            return flit
        return None

    def _take(self, node: int, lane: int, word: int) -> None:
        if node in self.off:
            return
        self.owed[node][lane] += 1
        self.fullest = max(self.fullest, self.owed[node][lane])
        bits = self.config.flit_bits
        data, first, last = word & ((1 << bits) - 1), word >> bits & 1, word >> bits + 1 & 1
        flits = self.open[node][lane]
        broken = bool(flits and first)
        assert bool(first) == (not flits) or (broken and last), "marks of a packet make no sense"
        flits.append(data)
        if last:
            header = unpack(self.config, flits[0])
            self.received.append(Received(node, lane, header, tuple(flits), broken, self.cycle))
            self.open[node][lane] = []


CALM = 150
"""Cycles without a flit at any chip after which nothing is under way any more."""

WIRES = (("chips", "credit"), ("routers", "valid"), ("routers", "lane"), ("routers", "flit"))


def mixed(
    config: RouterConfig, count: int, rng: np.random.Generator, bad: float = 0.4
) -> tuple[list[Packet], list[str]]:
    """Random packets and what is to become of each: ``good``, ``no_chip``, ``malformed`` or ``broken``."""
    nodes, packets, fates = config.torus.nodes, [], []
    holes = [d for d, size in enumerate(config.torus.sizes) if size & (size - 1)]
    for number in range(count):
        node, target = (int(n) for n in rng.integers(0, nodes, 2))
        lane = int(rng.integers(config.lanes))
        body = tuple(int(rng.integers(1 << min(62, config.flit_bits))) for _ in range(rng.integers(config.max_flits)))
        one = packet(config, node, target, lane, body, tag=number % (1 << config.tag_bits), kind=int(rng.integers(3)))
        fate = "good"
        if rng.random() < bad:
            fate, one = _spoiled(config, one, target, holes, rng)
        packets.append(one)
        fates.append(fate)
    return packets, fates


def _spoiled(
    config: RouterConfig, one: Packet, target: int, holes: list[int], rng: np.random.Generator
) -> tuple[str, Packet]:
    """The packet with one thing wrong."""
    header, body, count = unpack(config, one.data[0]), one.data[1:], len(one.data)
    longest = (1 << bits_for(config.max_flits)) - 1
    wrong = ["length zero", "source", "no first", "early", "late"]
    wrong += ["beyond the maximum"] * (longest > config.max_flits) + ["no chip"] * bool(holes)
    how = wrong[rng.integers(len(wrong))]
    marks = list(one.marks)
    if how == "no chip":
        dimension = holes[rng.integers(len(holes))]
        header[f"target_{dimension}"] = config.torus.sizes[dimension]
    elif how == "length zero":
        header["flits"] = 0
    elif how == "beyond the maximum":
        header["flits"] = longest
    elif how == "source":
        header["source_0"] = (header["source_0"] + 1) % config.torus.sizes[0]
    elif how == "no first":
        marks[0] = (False, marks[0][1])
    elif how == "early" and 1 < count < config.max_flits:
        header["flits"] = count + 1
    elif how == "late" and count > 2:
        header["flits"] = count - 1
    else:
        header["flits"] = 1 if count > 1 else 2
        how = "marks"
    fate = {"no chip": "no_chip", "early": "broken", "late": "broken"}.get(how, "malformed")
    return fate, Packet(one.node, one.lane, (pack(config, header), *body), tuple(marks))
