"""How many items this process compared, and how many differed: the columns of ``make sim``.

Scoreboards count here. A simulation is a process of its own, so it leaves its counts in the file that
``SYSTOLA_COUNTS`` names.
"""

import atexit
import contextlib
import dataclasses
import json
import os
from collections.abc import Iterator
from pathlib import Path


@dataclasses.dataclass
class Counts:
    """Items compared, and items that differed."""

    vectors: int = 0
    mismatches: int = 0


_TOTAL = Counts()


def add(vectors: int, mismatches: int) -> None:
    """Count a comparison."""
    _TOTAL.vectors += vectors
    _TOTAL.mismatches += mismatches


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Comparisons that are meant to fail do not count."""
    before = snapshot()
    try:
        yield
    finally:
        _TOTAL.vectors, _TOTAL.mismatches = before.vectors, before.mismatches


def snapshot() -> Counts:
    """The counts so far."""
    return dataclasses.replace(_TOTAL)


def since(before: Counts) -> Counts:
    """What was added after ``before`` was taken."""
    return Counts(_TOTAL.vectors - before.vectors, _TOTAL.mismatches - before.mismatches)


def save() -> None:
    """Write the counts where the parent process looks for them."""
    path = os.environ.get("SYSTOLA_COUNTS")
    if path:
        Path(path).write_text(json.dumps(dataclasses.asdict(_TOTAL)))


def load(path: Path) -> Counts:
    """The counts a simulation left; zero if it left none."""
    return Counts(**json.loads(path.read_text())) if path.exists() else Counts()


if "SYSTOLA_COUNTS" in os.environ:
    atexit.register(save)
