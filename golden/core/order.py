"""What must wait for what: instructions in program order become queues of engines that semaphores order.

Every agent (an engine, a DMA queue) completes in order. Each has one semaphore that counts those of its instructions
that others wait for; an instruction that touches bytes another agent wrote, or writes bytes another agent touched,
waits for that count. An instruction waits for one semaphore, so each further one becomes a ``nop`` before it. What an
engine already knows, directly or through others, it does not wait for again.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from spec.core import ENGINES, CoreConfig
from spec.isa import INSTRUCTION_BYTES, encode


@dataclasses.dataclass(frozen=True)
class Box:
    """The smallest box around a view: partitions (of HBM: one) and bytes. What overlaps must be ordered."""

    memory: str
    partitions: range
    low: int
    high: int

    def overlaps(self, other: "Box") -> bool:
        """Whether the two may have a byte in common."""
        return (
            self.memory == other.memory
            and self.low < other.high
            and other.low < self.high
            and self.partitions.start < other.partitions.stop
            and other.partitions.start < self.partitions.stop
        )

    def covers(self, other: "Box") -> bool:
        """Whether ``other`` lies inside: whoever waits for this one has waited for the other."""
        return (
            self.low <= other.low
            and other.high <= self.high
            and self.partitions.start <= other.partitions.start
            and other.partitions.stop <= self.partitions.stop
        )


@dataclasses.dataclass
class Entry:
    """One instruction: who executes it, who issues it, and which bytes it reads and writes."""

    agent: str
    engine: str
    name: str
    fields: dict[str, Any]
    reads: tuple[Box, ...]
    writes: tuple[Box, ...]
    line: str


@dataclasses.dataclass
class _Plan:
    """An entry with its place among those of its agent, and what it waits for: agent -> index of its instruction."""

    entry: Entry
    index: int
    waits: dict[str, int]


def agents(config: CoreConfig) -> list[str]:
    """Everyone who completes instructions, by the number of its semaphore."""
    return [*ENGINES, *(f"queue {queue}" for queue in range(config.dma_queues))]


def ordered(entries: Sequence[Entry], config: CoreConfig) -> Iterator[Entry]:
    """The entries with waits and updates in their fields, nops between them where one waits for several."""
    numbers = {agent: number for number, agent in enumerate(agents(config))}
    plans = _plan(entries)
    needed: dict[str, set[int]] = {agent: set() for agent in numbers}
    for plan in plans:
        for agent, index in plan.waits.items():
            needed[agent].add(index)
    counts = {agent: {index: rank + 1 for rank, index in enumerate(sorted(found))} for agent, found in needed.items()}
    for plan in plans:
        entry = plan.entry
        waits = [(numbers[agent], counts[agent][index]) for agent, index in sorted(plan.waits.items())]
        for semaphore, value in waits[:-1]:
            fields: dict[str, Any] = {"wait": 1, "wait_semaphore": semaphore, "wait_value": value}
            yield Entry(entry.engine, entry.engine, "nop", fields, (), (), entry.line)
        fields = dict(entry.fields)
        if waits:
            fields |= {"wait": 1, "wait_semaphore": waits[-1][0], "wait_value": waits[-1][1]}
        if plan.index in needed[entry.agent]:
            prefix = "done" if entry.name in ("dma", "ring") else "update"
            fields |= {prefix: "increment", f"{prefix}_semaphore": numbers[entry.agent]}
        yield dataclasses.replace(entry, fields=fields)


def encoded(entries: Sequence[Entry], first: int) -> list[int]:
    """Words of one engine's ordered entries as they lie from byte ``first`` of HBM on, and a halt.

    A ``ring`` has its transfers' fields as ``descriptors``; they follow the halt, and what is done after the last of
    them is its own.
    """
    behind = len(entries) + 1
    words: list[int] = []
    descriptors: list[int] = []
    for entry in entries:
        fields = dict(entry.fields)
        if entry.name == "ring":
            inside = fields.pop("descriptors")
            done = {key: fields.pop(key) for key in ("done", "done_semaphore") if key in fields}
            address = first + (behind + len(descriptors)) * INSTRUCTION_BYTES
            fields |= {"address": address, "size": (len(inside) - 1).bit_length(), "count": len(inside)}
            descriptors += [encode("dma", one) for one in (*inside[:-1], inside[-1] | done)]
        words.append(encode(entry.name, fields))
    return [*words, encode("halt", {}), *descriptors]


def _plan(entries: Sequence[Entry]) -> list[_Plan]:
    """Find what each entry must wait for."""
    touched: dict[str, list[tuple[Box, bool, str, int]]] = {}
    last: dict[str, int] = {}
    known: dict[str, dict[str, int]] = {}  # by issuing engine: the newest completed instruction of each agent
    after: dict[tuple[str, int], dict[str, int]] = {}  # what an instruction's completion implies
    plans = []
    for entry in entries:
        index = last.get(entry.agent, -1) + 1
        last[entry.agent] = index
        have = known.setdefault(entry.engine, {})
        waits: dict[str, int] = {}
        touches = [*((box, False) for box in entry.reads), *((box, True) for box in entry.writes)]
        for box, writes in touches:
            for other, wrote, agent, at in touched.get(box.memory, []):
                if agent != entry.agent and (writes or wrote) and at > have.get(agent, -1) and box.overlaps(other):
                    waits[agent] = max(waits.get(agent, -1), at)
        for agent, at in list(waits.items()):
            if any(after[other, index_].get(agent, -1) >= at for other, index_ in waits.items() if other != agent):
                del waits[agent]
        for agent, at in waits.items():
            for one, value in (*after[agent, at].items(), (agent, at)):
                have[one] = max(have.get(one, -1), value)
        after[entry.agent, index] = dict(have)
        for box, writes in touches:
            held = touched.setdefault(box.memory, [])
            if writes:
                held[:] = [one for one in held if not box.covers(one[0])]
            held.append((box, writes, entry.agent, index))
        plans.append(_Plan(entry, index, waits))
    return plans
