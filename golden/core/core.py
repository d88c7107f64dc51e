"""A NeuronCore in numpy: sequencers, semaphores and DMA as events in time, values through the engines' golden models.

Only semaphores order the engines, so a program without races has one outcome, whatever the times. Times are those of
``golden.core.cost``; the values do not depend on them.
"""

import dataclasses
import functools
import heapq
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from golden.core.cost import CHECK, Costs, Moving
from golden.core.dma import Transfer
from golden.core.report import Fault, Report, Span, Wait
from golden.core.units import Units, worst
from spec.core import ENGINES, LINE_BYTES, WORD_BYTES, CoreConfig
from spec.isa import ALU, BY_OPCODE, COMPARE, INSTRUCTION_BYTES, UPDATES, decode


@dataclasses.dataclass(frozen=True)
class Start:
    """Where the program of one engine lies: the HBM line of its first instruction, and how many there are."""

    line: int = 0
    count: int = 0


@functools.lru_cache(maxsize=1 << 16)
def decoded(word: bytes) -> tuple[str, dict[str, int]]:
    """Name and fields of an instruction in memory; an unknown one has no name."""
    number = int.from_bytes(word, "little")
    return decode(number) if number & 0xFF in BY_OPCODE else ("", {})


@dataclasses.dataclass
class Ring:
    """Descriptors that a sequencer is processing: where they lie, which is next, how many are left, what follows."""

    address: int
    size: int
    number: int
    left: int
    values: Mapping[str, int]

    @property
    def place(self) -> int:
        """Byte of the next descriptor."""
        return self.address + self.number % (1 << self.size) * INSTRUCTION_BYTES


def wrap(value: int) -> int:
    """Low 32 bits as a signed number."""
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


class Sequencer:
    """State of one engine's program."""

    def __init__(self, engine: str, start: Start, registers: int) -> None:
        self.engine, self.start = engine, start
        self.counter = 0
        self.registers = np.zeros(registers, np.int32)
        self.halted = start.count == 0
        self.waiting: tuple[int, int] | None = None
        self.ring: Ring | None = None
        self.word = 0
        """When the next instruction is there."""
        self.busy = 0
        """Until when the engine has an instruction."""
        self.taken: list[int] = []
        """When those since the last jump were finished: room for others to be fetched."""


Deliver = Callable[[int, int, str, int, int], None]
"""Called with core, semaphore, kind, operand and time of an update for another core."""


class Agenda:
    """What happens when; of two things at the same time, first what was said first."""

    def __init__(self) -> None:
        self._events: list[tuple[int, int, Callable[[int], None]]] = []
        self._number = 0

    def at(self, time: int, action: Callable[[int], None]) -> None:
        """Do something at a time, which it is told."""
        self._number += 1
        heapq.heappush(self._events, (time, self._number, action))

    def run(self) -> None:
        """Until nothing is left to happen."""
        while self._events:
            time, _, action = heapq.heappop(self._events)
            action(time)


class Core:
    """Memories and engines outlive a program; sequencers and semaphores start afresh with each :meth:`run`."""

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        self.units = Units(config)
        self.memories = self.units.memories

    def run(self, starts: Mapping[str, Start]) -> Report:
        """Run a program whose instructions lie in HBM until it ends, faults or deadlocks."""
        agenda = Agenda()
        run = Run(self, starts, agenda)
        agenda.run()
        return run.finished()


class Run:
    """One program of one core, as events of an agenda; updates for other cores go to ``deliver``."""

    def __init__(self, core: Core, starts: Mapping[str, Start], agenda: Agenda, deliver: Deliver | None = None) -> None:
        self.core, self.config = core, core.config
        self.agenda, self.deliver = agenda, deliver
        self.report = Report()
        self.costs = Costs(core.config)
        self.semaphores = np.zeros(self.config.semaphores, np.int32)
        self.sequencers = {
            engine: Sequencer(engine, starts.get(engine, Start()), self.config.registers) for engine in ENGINES
        }
        self.queues: list[deque[tuple[Transfer, str, int]]] = [deque() for _ in range(self.config.dma_queues)]
        self.busy_queues: set[int] = set()
        self.free_engines = self.config.dma_engines
        self.turn = 0
        self.moving: dict[int, Moving] = {}
        self.blocked: dict[int, list[tuple[Sequencer, Callable[[int], None]]]] = {}
        active = [sequencer for sequencer in self.sequencers.values() if not sequencer.halted]
        for turn, sequencer in enumerate(active):
            sequencer.word = self.costs.first_word(turn, len(active))
            self.at(sequencer.word, functools.partial(self.step, sequencer))

    def finished(self) -> Report:
        """How it ended, when nothing is left to happen: who still waits then waits forever."""
        waiting = [s for s in self.sequencers.values() if s.waiting]
        if waiting and self.report.fault is None:
            waits = tuple(Wait(s.engine, s.counter, *(s.waiting or (0, 0)), self.holds(s)) for s in waiting)
            self.report.fault = Fault(waiting[0].engine, waiting[0].counter, "deadlock", waits)
        self.report.cycles += 1
        return self.report

    def holds(self, sequencer: Sequencer) -> int:
        """The semaphore that a sequencer waits for."""
        return int(self.semaphores[(sequencer.waiting or (0, 0))[0]])

    def at(self, time: int, action: Callable[[int], None]) -> None:
        """Do something at a time, which counts as one of this program."""

        def happen(now: int) -> None:
            self.report.cycles = max(self.report.cycles, now)
            action(now)

        self.agenda.at(time, happen)

    def fail(self, sequencer_name: str, counter: int, reason: str, _time: int) -> None:
        """The first fault is reported; nothing is issued after it."""
        if self.report.fault is None:
            self.report.fault = Fault(sequencer_name, counter, reason)

    def step(self, s: Sequencer, time: int) -> None:
        """Fetch and decode the next instruction, and wait for its semaphore."""
        if s.halted or self.report.fault:
            return
        if s.counter >= s.start.count and s.ring is None:
            self.fail(s.engine, s.counter, "bad_program", time)
            return
        first = s.start.line * LINE_BYTES + s.counter * INSTRUCTION_BYTES if s.ring is None else s.ring.place
        name, values = decoded(self.core.memories.hbm[first : first + INSTRUCTION_BYTES].tobytes())
        legal = name and s.engine in BY_OPCODE[self.core.memories.hbm[first]].engines
        if not legal or (s.ring is not None and name != "dma"):
            self.fail(s.engine, s.counter, "bad_opcode", time)
            return
        if self.bad_semaphore(values):
            self.fail(s.engine, s.counter, "bad_semaphore", time)
            return
        if not values["wait"]:
            self.at(time + 1, functools.partial(self.issue, s, name, values))
            return
        self.at(time + 2, functools.partial(self.judge, s, name, values))

    def judge(self, s: Sequencer, name: str, values: dict[str, int], time: int) -> None:
        """The semaphore's value is heard: go on, or listen."""
        if self.report.fault:
            return
        semaphore, value = values["wait_semaphore"], values["wait_value"]
        if self.semaphores[semaphore] >= value:
            self.at(time + 1, functools.partial(self.issue, s, name, values))
            return
        s.waiting = (semaphore, value)

        def wake(at: int) -> None:
            s.waiting = None
            self.at(at + 1, functools.partial(self.issue, s, name, values))

        self.blocked.setdefault(semaphore, []).append((s, wake))

    def bad_semaphore(self, values: Mapping[str, int]) -> bool:
        """Whether a semaphore is named that does not exist, or an update that does not."""
        limit = self.config.semaphores
        found = bool(values["wait"]) and values["wait_semaphore"] >= limit
        for prefix in ("update", "done"):
            kind = values.get(prefix, 0)
            own = values.get(f"{prefix}_core", 0) == 0
            found |= kind >= len(UPDATES) or (kind > 0 and own and values[f"{prefix}_semaphore"] >= limit)
        return found

    def issue(self, s: Sequencer, name: str, values: dict[str, int], time: int) -> None:
        """Execute an instruction whose wait is over; ``time`` is that of its decoding."""
        if self.report.fault:
            return
        counter = s.counter
        if name == "ring":
            self.enter(s, values, time + 1)
            return
        if name in ("load", "store"):
            self.at(time + 1, functools.partial(self.reach, s, name, values))
            return
        if name in ("halt", "nop", "alu", "branch"):
            self.finish(s, counter + 1, time + 1)
            jumps = self.control(s, name, values)
            self.update("update", values, time + 1)
            self.at(time + 1, lambda _: None)
            if jumps:
                s.word, s.taken = self.costs.jump(s.word, time + 1, s.start.count - counter - 1), []
            if not s.halted:
                self.at(max(time + 2, s.word), functools.partial(self.step, s))
            return
        hand = time + CHECK
        if name == "dma":
            transfer = Transfer(self.config, values, s.registers.copy())
            found = transfer.faults()
            if found:
                self.at(hand, functools.partial(self.fail, s.engine, counter, worst(found)))
                return
            self.queues[values["queue"]].append((transfer, s.engine, counter))
            self.finish(s, counter + (s.ring is None), hand + 1)
            self.update("update", values, hand + 1)
            self.at(hand + 1, self.dispatch)
            following = hand + 2
            if s.ring is not None:
                s.ring.number, s.ring.left = s.ring.number + 1, s.ring.left - 1
                if not s.ring.left:
                    self.update("update", s.ring.values, hand + 2)
                    s.ring = None
                    self.finish(s, counter + 1, hand + 2)
                    s.word, s.taken = self.costs.jump(s.word, hand + 2, 0), []
                    following = hand + 3
            self.at(max(following, s.word), functools.partial(self.step, s))
            return
        work = self.core.units.execute(name, values, s.registers)
        if work.reason != "none" and work.instruction is None:
            self.at(hand, functools.partial(self.fail, s.engine, counter, work.reason))
            return
        times = self.costs.engine(s.engine, name, work, hand)
        self.report.spans.append(Span(s.engine, name, times.start, times.done))
        for moving in self.moving.values():
            moving.wait_for(work.rows)
        ends = times.done - self.costs.update
        self.report.busy[s.engine] += max(0, ends - max(times.start, s.busy))
        s.busy = max(s.busy, ends)
        if work.reason != "none":
            self.at(times.done, functools.partial(self.fail, s.engine, counter, work.reason))
        else:
            self.update("update", values, times.read + 1 if values["update_at"] else times.done - self.costs.update)
        self.at(ends, lambda _: None)
        self.finish(s, counter + 1, times.start)
        self.at(max(times.start + 1, s.word), functools.partial(self.step, s))

    def reach(self, s: Sequencer, name: str, values: Mapping[str, int], time: int) -> None:
        """The sequencer asks for a word of HBM, or writes one."""
        right = values["value"] if values["immediate"] else int(s.registers[values["right"] % len(s.registers)])
        address = values["address"] + right
        if address % WORD_BYTES or not 0 <= address <= self.config.hbm_bytes - WORD_BYTES:
            self.fail(s.engine, s.counter, "bad_address", time)
            return
        word = self.core.memories.hbm[address : address + WORD_BYTES].view(np.int32)
        end = time + 1
        if name == "load":
            s.registers[values["target"] % len(s.registers)] = word[0]
            end += self.config.hbm_latency
        else:
            word[0] = s.registers[values["left"] % len(s.registers)]
        self.finish(s, s.counter + 1, end)
        self.update("update", values, end)
        self.at(max(end + 1, s.word), functools.partial(self.step, s))

    def enter(self, s: Sequencer, values: Mapping[str, int], time: int) -> None:
        """The sequencer turns to a ring."""
        address, size, count = values["address"], values["size"], values["count"]
        found = set() if count else {"bad_pattern"}
        if address % LINE_BYTES or address + (INSTRUCTION_BYTES << size) > self.config.hbm_bytes:
            found.add("bad_address")
        if found:
            self.at(time, functools.partial(self.fail, s.engine, s.counter, worst(found)))
            return
        register = values["left"] % len(s.registers)
        first = int(s.registers[register])
        s.registers[register] = wrap(first + count)
        s.ring = Ring(address, size, first % (1 << size), count, values)
        s.word, s.taken = self.costs.jump(s.word, time, s.start.count - s.counter - 1, kept=1), []
        self.at(max(time + 1, s.word), functools.partial(self.step, s))

    def finish(self, s: Sequencer, counter: int, time: int) -> None:
        """An instruction leaves the sequencer; when the next one is there."""
        self.report.issued[s.engine] += 1
        s.counter = counter
        s.taken.append(time)
        if s.counter + self.config.fetch_depth <= s.start.count:
            for moving in self.moving.values():
                if time < moving.moved:
                    moving.between[0] += INSTRUCTION_BYTES // LINE_BYTES  # another one is fetched in its place
        s.word = self.costs.next_word(s.word, s.taken)

    def control(self, s: Sequencer, name: str, values: Mapping[str, int]) -> bool:
        """Registers and program counter; whether a branch is taken."""
        if name == "halt":
            s.halted = True
            return False
        if name == "nop":
            return False
        left = int(s.registers[values["left"] % len(s.registers)])
        right = values["value"] if values["immediate"] else int(s.registers[values["right"] % len(s.registers)])
        if name == "branch":
            kind = COMPARE[values["compare"]] if values["compare"] < len(COMPARE) else ""
            outcomes = {
                "always": True,
                "equal": left == right,
                "not_equal": left != right,
                "less": left < right,
                "greater_equal": left >= right,
            }
            taken = outcomes.get(kind, False)
            if taken:
                s.counter = values["destination"]
            return taken
        kind = ALU[values["operation"]] if values["operation"] < len(ALU) else "move"
        s.registers[values["target"] % len(s.registers)] = wrap(arithmetic(kind, left, right))
        return False

    def update(self, prefix: str, values: Mapping[str, int], time: int) -> None:
        """Let a semaphore change at a time."""
        kind = UPDATES[values[prefix]]
        if kind == "none":
            return
        semaphore, operand = values[f"{prefix}_semaphore"], values[f"{prefix}_value"]
        if values[f"{prefix}_core"]:
            core = values[f"{prefix}_core"] - 1
            self.report.sent.append((core, semaphore, kind, operand))
            if self.deliver is not None:
                self.deliver(core, semaphore, kind, operand, time)
            return
        self.at(time + self.costs.update, functools.partial(self.change, semaphore, kind, operand))

    def change(self, semaphore: int, kind: str, operand: int, time: int) -> None:
        """A semaphore changes; who waited for it goes on."""
        old = int(self.semaphores[semaphore])
        changes = {"increment": old + 1, "decrement": old - 1, "add": old + operand, "subtract": old - operand}
        new = wrap(changes.get(kind, operand))
        self.semaphores[semaphore] = new
        self.report.values.append((time, semaphore, new))
        kept = []
        for s, wake in self.blocked.pop(semaphore, []):
            if s.waiting and new >= s.waiting[1]:
                wake(time)
            else:
                kept.append((s, wake))
        if kept:
            self.blocked[semaphore] = kept

    def dispatch(self, time: int) -> None:
        """Give waiting transfers to free engines: the lowest class first, queues in turn."""
        while self.free_engines:
            ready = [queue for queue, entries in enumerate(self.queues) if entries and queue not in self.busy_queues]
            if not ready:
                return
            count = len(self.queues)
            first = min(ready, key=lambda q: (self.queues[q][0][0].values["priority"], (q - self.turn) % count))
            self.turn = (first + 1) % count
            self.free_engines -= 1
            self.busy_queues.add(first)
            transfer, engine, counter = self.queues[first].popleft()
            legal = transfer.run(self.core.memories)
            moving = self.costs.transfer(transfer, time)
            for other in self.moving.values():
                other.meet(moving)
            self.moving[first] = moving
            self.at(moving.end, functools.partial(self.ended, first, transfer, engine, counter, legal))

    def ended(self, queue: int, transfer: Transfer, engine: str, counter: int, legal: bool, time: int) -> None:
        """A transfer ends, unless others have held it up."""
        moving = self.moving[queue]
        if moving.end > time:
            self.at(moving.end, functools.partial(self.ended, queue, transfer, engine, counter, legal))
            return
        del self.moving[queue]
        self.report.spans.append(Span(f"dma {queue}", "transfer", moving.start, time))
        self.free_engines += 1
        self.busy_queues.discard(queue)
        if legal:
            self.update("done", transfer.values, time)
        else:
            self.fail(engine, counter, "bad_address", time)
        if any(self.queues):
            self.at(time + 1, self.dispatch)


def arithmetic(kind: str, left: int, right: int) -> int:
    """The sequencer's arithmetic, before it wraps; shifts by the low five bits, to the right with the sign."""
    results: dict[str, Any] = {
        "move": lambda: right,
        "add": lambda: left + right,
        "subtract": lambda: left - right,
        "multiply": lambda: left * right,
        "and": lambda: left & right,
        "or": lambda: left | right,
        "xor": lambda: left ^ right,
        "shift_left": lambda: left << (right & 31),
        "shift_right": lambda: left >> (right & 31),
    }
    return int(results[kind]())
