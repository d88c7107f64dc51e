"""Instructions of the tensor engine: what each means, which are refused, and how many cycles they take.

Cycle counts are exact: the bench asserts that the hardware takes as many when operands are always offered and statuses
always taken. Cycle 0 is the one in which the first instruction is taken.
"""

import dataclasses
from collections import deque
from collections.abc import Iterable

import numpy as np

from spec.tensor import OPERAND_CODES, Kind, Operation, Status, TensorConfig, operand_kind


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
    accumulate: bool = False


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
        self.written = np.zeros(config.psum_depth, dtype=np.bool_)
        """Locations overwritten since reset."""
        self.loaded = False
        """Whether there is a stationary to multiply with."""
        self.fresh = False
        """Whether the last stationary loaded has not been multiplied with yet."""

    def status(self, instruction: Instruction) -> Status:
        """The status of the next instruction, which takes effect on the state."""
        if instruction.operation == Operation.LOAD_STATIONARY:
            status = self._load_status(instruction)
            self.loaded = self.fresh = status == Status.OK
            self.kind = self.kinds.get(instruction.format)
            return status
        status = self._matmul_status(instruction)
        if status == Status.OK:
            start = self.address(instruction)
            self.written[start : start + instruction.columns] = True
            self.fresh = False
        return status

    def address(self, instruction: Instruction) -> int:
        """PSUM address of the first column."""
        return instruction.bank * self.config.bank_depth + instruction.offset

    def _load_status(self, instruction: Instruction) -> Status:
        if instruction.format not in self.kinds:
            return Status.FORMAT
        return Status.OK if 1 <= instruction.columns <= self.config.columns else Status.COLUMNS

    def _matmul_status(self, instruction: Instruction) -> Status:
        config, columns = self.config, instruction.columns
        start = self.address(instruction)
        end_of_bank = instruction.offset + columns <= config.bank_depth
        if instruction.format not in self.kinds:
            return Status.FORMAT
        if not 1 <= columns <= config.moving_columns:
            return Status.COLUMNS
        if instruction.bank >= config.psum_banks or instruction.offset >= config.bank_depth:
            return Status.ADDRESS
        if start + columns > config.psum_depth or not (end_of_bank or config.whole_psum):
            return Status.ADDRESS
        if not self.loaded:
            return Status.STATIONARY
        if instruction.accumulate and not self.written[start : start + columns].all():
            return Status.UNWRITTEN
        if self.kinds[instruction.format] != self.kind:
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
    recent: deque[tuple[int, int]] = deque(maxlen=config.accumulate_distance - 1)
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
            start = judge.address(instruction)
            first, last = _issue(config, first, start, instruction, recent)
            if fresh:
                swapped, claimed = first, True
            ready = last + config.latency
        if takes:
            ports[operation] = last
        done = max(ready, timings[-1].done + 1 if timings else 0)
        timings.append(Timing(accepted=accepted, first=first, last=last, done=done, status=status))
    return timings


def _issue(
    config: TensorConfig, first: int, start: int, instruction: Instruction, recent: deque[tuple[int, int]]
) -> tuple[int, int]:
    """Cycles of the first and last column, given the ``(cycle, address)`` of the columns before; extends these."""
    distance = config.accumulate_distance
    checked = min(instruction.columns, distance - 1)  # later ones have only columns of their own matmul in flight
    cycles: list[int] = []
    for index in range(checked):
        cycle = cycles[-1] + 1 if cycles else first
        if instruction.accumulate:
            cycle = max([cycle, *(before + distance for before, other in recent if other == start + index)])
        cycles.append(cycle)
        recent.append((cycle, start + index))
    last = cycles[-1] + instruction.columns - checked
    for index in range(max(checked, instruction.columns - distance + 1), instruction.columns):
        recent.append((last - (instruction.columns - 1 - index), start + index))
    return cycles[0], last
