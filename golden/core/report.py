"""What a run of a core tells: how it ended, how long it took, who did what when."""

import dataclasses

from spec.core import ENGINES


@dataclasses.dataclass(frozen=True)
class Wait:
    """One engine that waits: at which instruction, for which semaphore, for which value, and what it holds."""

    engine: str
    counter: int
    semaphore: int
    value: int
    holds: int


@dataclasses.dataclass(frozen=True)
class Fault:
    """Why a program stopped: engine and program counter of the instruction, and one of ``spec.isa.REASONS``."""

    engine: str
    counter: int
    reason: str
    waits: tuple[Wait, ...] = ()

    def __str__(self) -> str:
        text = f"{self.engine} instruction {self.counter}: {self.reason}"
        return text + "".join(
            f"; {w.engine} {w.counter} waits for semaphore {w.semaphore} >= {w.value}, it is {w.holds}"
            for w in self.waits
        )


@dataclasses.dataclass(frozen=True)
class Span:
    """One instruction or transfer on a track of the timeline, in cycles."""

    track: str
    name: str
    start: int
    end: int


@dataclasses.dataclass
class Report:
    """The outcome of one program."""

    cycles: int = 0
    fault: Fault | None = None
    busy: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(ENGINES, 0))
    """Cycles in which each engine had an instruction."""
    issued: dict[str, int] = dataclasses.field(default_factory=lambda: dict.fromkeys(ENGINES, 0))
    """Instructions each engine issued."""
    spans: list[Span] = dataclasses.field(default_factory=list)
    values: list[tuple[int, int, int]] = dataclasses.field(default_factory=list)
    """``(cycle, semaphore, value)`` of each update."""
    sent: list[tuple[int, int, str, int]] = dataclasses.field(default_factory=list)
    """``(core, semaphore, update, value)`` of updates that leave this core."""
