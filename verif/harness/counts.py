"""How many items this process compared, how many differed, and which cover bins it met.

Scoreboards and cover groups count here. A simulation is a process of its own, so it leaves its counts in the file that
``SYSTOLA_COUNTS`` names.
"""

import atexit
import contextlib
import dataclasses
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path


@dataclasses.dataclass
class Counts:
    """Items compared, items that differed, hits of each cover bin."""

    vectors: int = 0
    mismatches: int = 0
    hits: Counter[str] = dataclasses.field(default_factory=Counter)


_TOTAL = Counts()


def add(vectors: int, mismatches: int) -> None:
    """Count a comparison."""
    _TOTAL.vectors += vectors
    _TOTAL.mismatches += mismatches


def cover(key: str) -> None:
    """Count one hit of a cover bin."""
    _TOTAL.hits[key] += 1


def hits() -> Counter[str]:
    """Hits of all cover bins so far."""
    return _TOTAL.hits


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """Comparisons that are meant to fail do not count."""
    before = snapshot()
    try:
        yield
    finally:
        _TOTAL.vectors, _TOTAL.mismatches, _TOTAL.hits = before.vectors, before.mismatches, before.hits


def snapshot() -> Counts:
    """The counts so far."""
    return dataclasses.replace(_TOTAL, hits=Counter(_TOTAL.hits))


def since(before: Counts) -> Counts:
    """What was added after ``before`` was taken."""
    hits = _TOTAL.hits - before.hits
    return Counts(_TOTAL.vectors - before.vectors, _TOTAL.mismatches - before.mismatches, hits)


def save() -> None:
    """Write the counts where the parent process looks for them."""
    path = os.environ.get("SYSTOLA_COUNTS")
    if path:
        Path(path).write_text(json.dumps(dataclasses.asdict(_TOTAL)))


def load(path: Path) -> Counts:
    """The counts a simulation left; zero if it left none."""
    if not path.exists():
        return Counts()
    content = json.loads(path.read_text())
    return Counts(content["vectors"], content["mismatches"], Counter(content["hits"]))


if "SYSTOLA_COUNTS" in os.environ:
    atexit.register(save)
