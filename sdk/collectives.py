"""Collectives as programs: what the sync sequencer of each chip's first core does with DMA and semaphores.

Reduction happens in the receiver's DMA while it moves data, in the order of the ring, so results are reproducible in
every bit: chunk ``c`` is ``x[c] + x[c + 1] + ...`` around the ring, each sum rounded once.

Every chip has its data at the same place of its memory and an inbox behind it; the program follows.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from golden.core.core import Start
from spec.core import LINE_BYTES
from spec.formats import float_named
from spec.isa import INSTRUCTION_BYTES, encode
from spec.parameters import lookup, refuse
from spec.system import SystemConfig

REDUCED, GATHERED, EXCHANGED = range(3)
"""Semaphores: chunks that came to be added, final chunks that came, blocks of an exchange that came."""


@dataclasses.dataclass(frozen=True)
class Place:
    """A collective on one chip: its number, its position in the ring, and the instructions it executes."""

    chip: int
    words: list[int]


@dataclasses.dataclass(frozen=True)
class Collective:
    """``elements`` of ``format`` on each chip, on the ring of chips ``ring``.

    ``elements`` must be a multiple of the number of chips, and a chunk of each a whole number of lines, so that no two
    chips write the same line.
    """

    config: SystemConfig
    elements: int
    ring: Sequence[int] = ()
    format: str = "fp32"

    def __post_init__(self) -> None:
        ring = self.ring or range(self.config.chips)
        object.__setattr__(self, "ring", tuple(ring))
        if len(set(self.ring)) != len(self.ring) or not all(0 <= chip < self.config.chips for chip in self.ring):
            raise refuse("Collective", "ring", self.ring, f"different chips of 0 to {self.config.chips - 1}")
        quantum = len(self.ring) * LINE_BYTES // self.element
        if self.elements < 1 or self.elements % quantum:
            raise refuse("Collective", "elements", self.elements, f"a multiple of {quantum}: lines for each chip")
        if self.code_line * LINE_BYTES > self.config.chip_bytes:
            raise refuse(
                "Collective", "elements", self.elements, f"what fits twice into {self.config.chip_bytes} bytes"
            )

    @property
    def element(self) -> int:
        """Bytes of an element."""
        return float_named(self.format).width // 8

    @property
    def chunk(self) -> int:
        """Bytes of a chunk: one chip's share."""
        return self.elements * self.element // len(self.ring)

    @property
    def inbox(self) -> int:
        """Where in a chip's memory its inbox begins: a chunk for each position of the ring."""
        return self.elements * self.element

    @property
    def code_line(self) -> int:
        """Line of a chip's memory at which the program begins."""
        return 2 * self.inbox // LINE_BYTES

    def run(self, operation: str) -> list[Place]:
        """The programs of ``all_reduce``, ``reduce_scatter``, ``all_gather`` or ``all_to_all``."""
        build: Callable[[int], list[int]] = lookup(
            "collective",
            {
                "reduce_scatter": self._reduce_scatter,
                "all_gather": lambda r: self._all_gather(r, own=0),
                "all_reduce": lambda r: [*self._reduce_scatter(r), *self._all_gather(r, own=1)],
                "all_to_all": self._all_to_all,
            },
            operation,
        )
        return [Place(chip, [*build(r), encode("halt", {})]) for r, chip in enumerate(self.ring)]

    def start(self, place: Place) -> dict[str, Start]:
        """Where the core finds its program."""
        first = place.chip * self.config.chip_lines + self.code_line
        if (self.code_line * LINE_BYTES) + len(place.words) * INSTRUCTION_BYTES > self.config.chip_bytes:
            raise refuse("Collective", "elements", self.elements, "what leaves room for its program")
        return {"sync": Start(first, len(place.words))}

    def owned(self, position: int) -> int:
        """The chunk that is complete on a position of the ring after a reduce-scatter."""
        return (position + 1) % len(self.ring)

    def _reduce_scatter(self, r: int) -> list[int]:
        """Chunks go once around and grow; the chip at position r ends with chunk r + 1."""
        count, words = len(self.ring), []
        for step in range(count - 1):
            out, into = (r - step) % count, (r - step - 1) % count
            words.append(self._move(r, self._data(r, out), self._box(r + 1, step), signal=(r + 1, REDUCED)))
            words.append(self._move(r, self._box(r, step), self._data(r, into), add=True, wait=(REDUCED, step + 1)))
        return words

    def _all_gather(self, r: int, own: int) -> list[int]:
        """Chunks go once around as they are; position r starts with chunk r + own."""
        count, words = len(self.ring), []
        for step in range(count - 1):
            place = (r + own - step) % count
            wait = (GATHERED, step) if step else None
            words.append(
                self._move(r, self._data(r, place), self._data(r + 1, place), signal=(r + 1, GATHERED), wait=wait)
            )
        return [*words, *self._wait(GATHERED, count - 1)]

    def _all_to_all(self, r: int) -> list[int]:
        """Block j of each goes to the inbox of position j; an own block is copied."""
        count = len(self.ring)
        order = [(r + step) % count for step in range(1, count + 1)]
        words = [self._move(r, self._data(r, j), self._box(j, r), signal=(j, EXCHANGED)) for j in order]
        return [*words, *self._wait(EXCHANGED, count)]

    def _data(self, position: int, chunk: int) -> int:
        return self._base(position) + chunk * self.chunk

    def _box(self, position: int, slot: int) -> int:
        return self._base(position) + self.inbox + slot * self.chunk

    def _base(self, position: int) -> int:
        return self.ring[position % len(self.ring)] * self.config.chip_bytes

    def _core(self, position: int) -> int:
        return self.ring[position % len(self.ring)] * self.config.cores

    def _move(
        self,
        r: int,
        source: int,
        target: int,
        *,
        add: bool = False,
        signal: tuple[int, int] | None = None,
        wait: tuple[int, int] | None = None,
    ) -> int:
        """A transfer of one chunk in queue 0; ``signal`` is a position and the semaphore that counts there."""
        fields: dict[str, Any] = {"queue": 0, "accumulate": int(add), "num1": 1, "num2": 1, "num3": 1}
        fields["num0"] = self.chunk // self.element
        for side, address in (("source", source), ("target", target)):
            fields |= {f"{side}_space": "hbm", f"{side}_address": address, f"{side}_format": self.format}
            fields[f"{side}_step0"] = self.element
        if signal is not None:
            position, semaphore = signal
            other = self._core(position) + 1 if position % len(self.ring) != r else 0
            fields |= {"done": "increment", "done_semaphore": semaphore, "done_core": other}
        if wait is not None:
            fields |= {"wait": 1, "wait_semaphore": wait[0], "wait_value": wait[1]}
        return encode("dma", fields)

    def _wait(self, semaphore: int, value: int) -> list[int]:
        return [encode("nop", {"wait": 1, "wait_semaphore": semaphore, "wait_value": value})]
