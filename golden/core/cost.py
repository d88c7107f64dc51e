"""When things happen in a core, in cycles: sequencers, engines, semaphores, DMA, HBM.

Every constant counts registers or states of the hardware from one event to the next; nothing is fitted. What is left
out: conflicts of SBUF banks and of ports, which delay the hardware by a few cycles here and there.
"""

import dataclasses

from golden.core.dma import Transfer
from golden.core.units import Work
from golden.scalar import activation
from golden.vector import instructions as vector
from spec.core import CoreConfig
from spec.isa import DIMENSIONS

CHECK = DIMENSIONS + 1
"""From decode to hand-over of an instruction that is checked."""
SBUF_ROW = 4
"""From a reader's job to the cycle in which an engine can take the row: one to ask, two in SBUF, one in the queue."""
PSUM_ROW = SBUF_ROW - 1
ENGINE_START = 2
"""From hand-over to the readers' jobs in an element unit: the instruction is held, the engine takes it."""
CONSTANT = 2
"""From a row of constants to the first row of operands in the engine."""
CONSTANT_FIRST = 5
"""The same where the reader of the constants reads the operand too."""
ENDS = {"vector": 1, "scalar": 1}
"""From the last row taken, plus the engine's latency, to its status."""
AHEAD = 8
"""Rows that a reader has asked for and its engine has not taken, at most."""
STATUS = 2
"""From an element unit's status to the change of a semaphore; the unit is free then too."""
ELEMENT = 4
"""From a line in the queue of a DMA engine to its element in the queue of results."""
DRAIN = 1
"""From the element in the queue of results to the next request, where an accumulation goes back."""
DMA_START = 3
"""From the queue's head to the first request."""
DMA_END = 2
"""From the last beat written to the update; what is written to HBM is gathered first, a cycle more."""
INDEX = 5
"""States of a DMA engine for each index, its read left out."""


@dataclasses.dataclass(frozen=True)
class Times:
    """Of one engine instruction: hand-over, last operand read, complete (semaphores change), and engine free again."""

    start: int
    read: int
    done: int


class Costs:
    """Times of one core; remembers when each engine is free."""

    update = 1
    """From an update to the change that everyone hears."""

    def __init__(self, config: CoreConfig) -> None:
        self.config = config
        self.free = {"vector": 0, "scalar": 0}
        self.columns = {"load_stationary": -1, "matmul": -1}
        """Cycle in which each port of the tensor engine takes its last column."""
        self.asked = {"load_stationary": 0, "matmul": 0}
        """Cycle in which each reader asks for its last row, and can take the next pattern."""
        self.swapped = -1
        self.tensor_done = 0
        self.active = 1
        """Sequencers that fetch at the start."""

    def first_word(self, turn: int, active: int) -> int:
        """When the first instruction of the sequencer that is ``turn`` of ``active`` is there: two lines, in turns."""
        self.active = active
        return 2 + turn + active + self.config.hbm_latency

    def next_word(self, word: int, taken: list[int]) -> int:
        """When the instruction after ``taken`` is there: two lines behind the one before, if there was room for it."""
        number, depth = len(taken), self.config.fetch_depth
        if number < depth:
            return word + 2 * self.active  # at the start all fetch at once
        return max(word + 2, taken[number - depth] + self.config.hbm_latency + 3)

    def jump(self, word: int, time: int, after: int, kept: int = 0) -> int:
        """When the instruction at the end of a jump is there: what was asked for comes first, and leaves one a cycle.

        ``after``: instructions that follow the jump in its program; ``kept``: 1 if the jump itself is not yet taken.
        """
        ahead = min(self.config.fetch_depth - 1, after)
        drained = max(time + ahead + kept, word + 2 * (ahead - 1) - 1 if ahead else 0)
        return drained + self.config.hbm_latency + 4

    def engine(self, engine: str, name: str, work: Work, hand: int) -> Times:
        """Of an instruction of a compute engine that is checked at ``hand``."""
        if engine == "tensor":
            return self._tensor(name, work, hand)
        hand = max(hand, self.free[engine])
        job = hand + ENGINE_START
        if work.reason != "none":
            done = job + 4 + STATUS + self._latency(engine)
            self.free[engine] = done
            return Times(hand, done, done)
        entry = work.instruction
        first = job + (SBUF_ROW if any(memory == "sbuf" for memory, _ in work.reads) else PSUM_ROW)
        ahead = 0
        if not work.reads:
            first = job + 1
        if work.constants:
            reads_both = len(work.reads) == 2 or engine == "scalar"
            row = job + SBUF_ROW + work.constants - 1
            if reads_both and work.reads:
                first, ahead = row + CONSTANT_FIRST, CONSTANT_FIRST - 1
                first -= all(memory == "psum" for memory, _ in work.reads)
            else:
                first = max(first, row + CONSTANT + work.constants - 1)
        rows = max((count for _, count in work.reads), default=work.writes)
        ported = sum(count for memory, count in work.reads if memory == "sbuf") - min(ahead, rows)
        pace = vector.interval(self.config.vector, entry) if engine == "vector" else 1
        issued = vector.issues(self.config.vector, entry)[0] if engine == "vector" else activation.rows_of(entry)
        last = first + max(ported if len(work.reads) == 2 else 0, rows * pace, issued * pace, 1) - 1
        done = last + self._latency(engine) + ENDS[engine] + STATUS
        self.free[engine] = done
        return Times(hand, last, done)

    def _latency(self, engine: str) -> int:
        return self.config.vector.latency if engine == "vector" else self.config.scalar.latency

    def _tensor(self, name: str, work: Work, hand: int) -> Times:
        """Readers fetch ahead, as many rows as they have room for, while the engine takes the columns before."""
        config = self.config.tensor
        rows = max((count for _, count in work.reads), default=1)
        hand = max(hand, self.asked[name])
        if name == "matmul":
            rows *= max(1, work.groups[0])
        if name == "load_stationary":
            most, always = work.groups
            if most:
                rows = -(-rows // config.load_columns) * (most if always else 1)
                last = self._groups(hand + SBUF_ROW + most - 1, rows)
            else:
                last = self._load(hand + SBUF_ROW, rows)
            done = last + 1
        else:
            loaded = self.columns["load_stationary"]
            first = max(hand + SBUF_ROW, self.columns[name] + 1, loaded + 1)
            if loaded > self.swapped:
                self.swapped = first
            last = first + rows - 1
            done = last + config.latency
        self.columns[name] = last
        self.asked[name] = max(hand + rows, last - AHEAD)
        self.tensor_done = max(done, self.tensor_done + 1)
        return Times(hand, last, self.tensor_done + self.update)

    def _load(self, arrives: int, columns: int) -> int:
        """When the last group of columns is taken: they come one a cycle, and wait for the stationary before."""
        group = self.config.tensor.load_columns
        taken = max(self.swapped, self.columns["load_stationary"])
        for start in range(0, columns, group):
            size = min(group, columns - start)
            taken = max(taken + (1 if start == 0 else size), arrives + start + size - 1)
        return taken

    def _groups(self, arrives: int, groups: int) -> int:
        """The same where they come in groups."""
        return max(self.swapped + groups, self.columns["load_stationary"] + groups, arrives + groups - 1)

    def transfer(self, transfer: Transfer, time: int) -> "Moving":
        """A transfer that an engine takes at ``time``, when nothing else uses the port of HBM."""
        config, values = self.config, transfer.values
        latency = (config.hbm_latency, 2, 1)
        source = latency[values["source_space"]]
        to_hbm = values["target_space"] == 0
        beats = max(transfer.beats, transfer.count // transfer.nums[0] * config.dma_row)
        fill = source + 1 + ELEMENT - 1 + DMA_END + to_hbm
        blocks = transfer.nums[3] if transfer.indexed else 1
        rest = blocks * fill + (blocks * (INDEX + config.hbm_latency) - 2 if transfer.indexed else 0)
        if values["accumulate"]:
            beats = 2 * beats + transfer.drains * (source + ELEMENT + DRAIN + to_hbm)
        return Moving(time + DMA_START, beats, (transfer.lines, transfer.words / config.sbuf_banks), rest)


@dataclasses.dataclass
class Moving:
    """A transfer under way: a beat a cycle, or as fast as the port of HBM and the banks of SBUF let it, in turns."""

    start: int
    beats: int
    needs: tuple[float, ...]
    """Cycles of the port of HBM, and of all banks of SBUF."""
    rest: int
    """Cycles that depend on neither."""
    between: list[float] = dataclasses.field(default_factory=lambda: [0.0, 0.0])
    """Cycles in which others had them meanwhile."""
    late: float = 0
    """Cycles that beats have waited for rows of engines."""

    @property
    def moved(self) -> int:
        """When its last beat has moved."""
        held = (round(need + others) for need, others in zip(self.needs, self.between, strict=True))
        return self.start + max(round(self.beats + self.late), *held)

    @property
    def end(self) -> int:
        """When its update is taken."""
        return self.moved + self.rest

    def wait_for(self, rows: int) -> None:
        """An engine uses rows of SBUF meanwhile: one whose bank is a beat's holds it up, but not a second time."""
        share = self.needs[1] / max(1, self.beats)
        self.late += rows * share / (1 + share)

    def meet(self, other: "Moving") -> None:
        """Another one starts: from now on both take turns, until one of them needs no more."""
        left = min(1.0, max(0, self.moved - other.start) / max(1, self.moved - self.start))
        for index, need in enumerate(self.needs):
            shared = min(need * left, other.needs[index])
            self.between[index] += shared
            other.between[index] += shared
