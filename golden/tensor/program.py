"""Instructions of the tensor engine: what each means, which are refused, and how many cycles they take.

Cycle counts are exact: the bench asserts that the hardware takes as many when operands are always offered and statuses
always taken. Cycle 0 is the one in which the first instruction is taken.
"""

import dataclasses
from collections import deque
from collections.abc import Iterable

import numpy as np

from spec.tensor import OPERAND_CODES, Kind, Operation, ResultFormat, Status, TensorConfig, operand_kind


@dataclasses.dataclass(frozen=True, kw_only=True)
class Instruction:
    """One instruction, its fields as the hardware takes them: an illegal value is legal here and refused there."""

    operation: Operation
    format: int
    """Operand format, as :func:`spec.tensor.operand_code` numbers them."""
    columns: int
    """Columns of the stationary to load, or moving columns to multiply."""
    bank: int = 0
    offset: int = 0
    """First location in the bank, or first column of a load."""
    accumulate: bool = False
    sparse: bool = False
    """Whether each operand of a load has a tag, which says what it is multiplied with."""
    split: int = 0
    """Logarithm of the tiles that the rows are divided into: the result of each has a bank, from ``bank`` on."""
    masked: int = 0
    """A bit for each tile of columns whose results are not written."""
    result: int = ResultFormat.FP32


@dataclasses.dataclass(frozen=True, kw_only=True)
class Timing:
    """When one instruction was taken, its first and last operands were taken, and its status was given."""

    accepted: int
    first: int
    last: int
    done: int
    status: Status


class Judge:
    """Tells, instruction by instruction, which status each will have; holds the state that this depends on."""

    def __init__(self, config: TensorConfig) -> None:
        self.config = config
        self.kinds = {OPERAND_CODES[name]: operand_kind(name) for name in config.operands}
        """What each operand format is; others are not built in."""
        self.kind: Kind | None = None
        """What the stationary is."""
        self.written = np.zeros((config.tiles, config.psum_depth), dtype=np.bool_)
        """For each tile of columns, the locations overwritten since reset."""
        self.loaded = False
        """Whether there is a stationary to multiply with."""
        self.fresh = False
        """Whether the last stationary loaded has not been multiplied with yet."""

    def verdict(self, instruction: Instruction) -> Status:
        """The status that the instruction would have now."""
        loading = instruction.operation == Operation.LOAD_STATIONARY
        return self._load_status(instruction) if loading else self._matmul_status(instruction)

    def status(self, instruction: Instruction) -> Status:
        """The status of the next instruction, which takes effect on the state."""
        status = self.verdict(instruction)
        if instruction.operation == Operation.LOAD_STATIONARY:
            self.loaded = self.fresh = status == Status.OK
            self.kind = self.kinds.get(instruction.format)
            return status
        if status == Status.OK:
            for places in self.places(instruction):
                self.written[self.unmasked(instruction), places] = True
            self.fresh = False
        return status

    def places(self, instruction: Instruction) -> list[slice]:
        """The PSUM addresses of a matmul's results, one range for each tile of rows."""
        depth, start = self.config.bank_depth, self.address(instruction)
        starts = (start + tile * depth for tile in range(1 << instruction.split))
        return [slice(start, start + instruction.columns) for start in starts]

    def unmasked(self, instruction: Instruction) -> list[int]:
        """The tiles of columns that a matmul writes."""
        return [tile for tile in range(self.config.tiles) if not instruction.masked >> tile & 1]

    def address(self, instruction: Instruction) -> int:
        """PSUM address of the first column."""
        return instruction.bank * self.config.bank_depth + instruction.offset

    def _load_status(self, instruction: Instruction) -> Status:
        config = self.config
        kind = self.kinds.get(instruction.format)
        if kind is None or (instruction.sparse and not (config.sparsity and kind == Kind.NUMBER)):
            return Status.FORMAT
        if not 1 <= instruction.columns <= config.columns:
            return Status.COLUMNS
        inside = instruction.offset + instruction.columns <= config.columns
        return Status.OK if inside and not instruction.offset % config.load_columns else Status.ADDRESS

    def _matmul_status(self, instruction: Instruction) -> Status:
        config, columns = self.config, instruction.columns
        end_of_bank = instruction.offset + columns <= config.bank_depth
        kind = self.kinds.get(instruction.format)
        results = len(ResultFormat) if config.bf16_results and kind != Kind.BITS else 1
        if kind is None or instruction.result >= results:
            return Status.FORMAT
        if not 1 <= columns <= config.moving_columns:
            return Status.COLUMNS
        if instruction.bank >= config.psum_banks or instruction.offset >= config.bank_depth:
            return Status.ADDRESS
        if self.address(instruction) + columns > config.psum_depth or not (end_of_bank or config.whole_psum):
            return Status.ADDRESS
        if instruction.split >= config.splits or instruction.masked >> (config.tiles if config.tiles > 1 else 0):
            return Status.ADDRESS
        if instruction.split and not (end_of_bank and instruction.bank + (1 << instruction.split) <= config.psum_banks):
            return Status.ADDRESS
        if not self.loaded:
            return Status.STATIONARY
        tiles = self.unmasked(instruction)
        if instruction.accumulate and not all(self.written[tiles, part].all() for part in self.places(instruction)):
            return Status.UNWRITTEN
        if kind != self.kind:
            return Status.KIND
        return Status.OK


def timing(config: TensorConfig, instructions: Iterable[Instruction]) -> list[Timing]:
    """Cycles of a program for an engine fresh from reset, when nothing outside makes it wait.

    One instruction is taken a cycle at most, in order. A load is taken when the load before takes its last operands
    and the stationary loaded last is in use; it takes ``load_columns`` columns a cycle. A matmul is taken when the
    matmul before takes its last column; it takes one column a cycle, the first one after its stationary is loaded, and
    waits before a column that would accumulate onto a location that is still being written.
    """
    judge = Judge(config)
    timings: list[Timing] = []
    ports = dict.fromkeys(Operation, -1)  # last cycle each kind of operand was taken
    swapped = -1  # first column of the matmul that uses the last stationary claimed
    claimed = True
    recent: deque[Issued] = deque(maxlen=config.accumulate_distance - 1)
    for instruction in instructions:
        fresh = judge.fresh
        status = judge.status(instruction)
        operation = instruction.operation
        loading = operation == Operation.LOAD_STATIONARY
        accepted = max(timings[-1].accepted + 1 if timings else 0, ports[operation])
        if len(timings) >= config.queue_depth:
            accepted = max(accepted, timings[-config.queue_depth].done + 1)
        if loading and claimed:
            accepted = max(accepted, swapped)
        takes = -(-instruction.columns // config.load_columns) if loading else instruction.columns
        first, ready = accepted + 1, accepted + 1
        if loading or status != Status.OK:
            last = first + takes - 1
            if loading and status == Status.OK:
                ready, claimed = last + 1, False
        else:
            if fresh:
                first = max(first, ports[Operation.LOAD_STATIONARY] + 1)
            first, last = _issue(config, first, instruction, recent)
            if fresh:
                swapped, claimed = first, True
            ready = last + config.latency
        if takes:
            ports[operation] = last
        done = max(ready, timings[-1].done + 1 if timings else 0)
        timings.append(Timing(accepted=accepted, first=first, last=last, done=done, status=status))
    return timings


@dataclasses.dataclass(frozen=True)
class Issued:
    """A moving column on its way to PSUM."""

    cycle: int
    bank: int
    offset: int
    split: bool

    def meets(self, other: "Issued") -> bool:
        """Whether both may have a location in common: those of split rows count for all banks."""
        return self.offset == other.offset and (self.bank == other.bank or self.split or other.split)


def _issue(config: TensorConfig, first: int, instruction: Instruction, recent: deque[Issued]) -> tuple[int, int]:
    """Cycles of the first and last column, given the columns issued before, which it extends."""
    distance = config.accumulate_distance
    checked = min(instruction.columns, distance - 1)  # later ones have only columns of their own matmul in flight

    def column(index: int, cycle: int) -> Issued:
        bank, offset = divmod(instruction.bank * config.bank_depth + instruction.offset + index, config.bank_depth)
        return Issued(cycle, bank, offset, instruction.split > 0)

    cycles: list[int] = []
    for index in range(checked):
        one = column(index, cycles[-1] + 1 if cycles else first)
        if instruction.accumulate:
            ready = max((other.cycle + distance for other in recent if other.meets(one)), default=0)
            one = dataclasses.replace(one, cycle=max(one.cycle, ready))
        cycles.append(one.cycle)
        recent.append(one)
    last = cycles[-1] + instruction.columns - checked
    for index in range(max(checked, instruction.columns - distance + 1), instruction.columns):
        recent.append(column(index, last - (instruction.columns - 1 - index)))
    return cycles[0], last
