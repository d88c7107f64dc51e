"""Coverage: what the stimulus met (cover points and crosses, declared by a bench) and what code it ran (Verilator's).

>>> met = CoverGroup("fifo", {"level": ("empty", "some", "full"), "stall": ("never", "half")}, [("level", "stall")])
>>> met.hit(level="full", stall="half")
>>> int(met.percent), met.unhit()[:2]
(27, ['fifo.level: empty', 'fifo.level: some'])

A bin that was not declared is refused: a typing error in a bench must not look like a hole. Hits of a simulation that
runs in a process of its own are carried to the parent (:mod:`~.counts`).
"""

import dataclasses
import itertools
import re
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from verif.harness import counts

KINDS = ("line", "branch", "toggle", "expr")


class CoverGroup:
    """Cover points with their bins, and crosses of points, of one block."""

    def __init__(
        self, name: str, points: Mapping[str, Sequence[object]], crosses: Iterable[Sequence[str]] = ()
    ) -> None:
        self.name = name
        self.points = {point: tuple(map(str, bins)) for point, bins in points.items()}
        self.crosses = [tuple(cross) for cross in crosses]
        for point in itertools.chain.from_iterable(self.crosses):
            if point not in self.points:
                raise KeyError(f"{name}: cross of {point}: legal is one of {', '.join(self.points)}")
        self.declared = [self._key((point,), (value,)) for point, bins in self.points.items() for value in bins]
        for cross in self.crosses:
            combinations = itertools.product(*(self.points[point] for point in cross))
            self.declared += [self._key(cross, values) for values in combinations]

    def hit(self, **values: object) -> None:
        """Count one observation: a bin for some or all points; crosses count when all their points are given."""
        for point, value in values.items():
            if point not in self.points or str(value) not in self.points[point]:
                legal = ", ".join(self.points.get(point, self.points))
                raise KeyError(f"{self.name}.{point}: {value}: legal is one of {legal}")
            counts.cover(self._key((point,), (value,)))
        for cross in self.crosses:
            if all(point in values for point in cross):
                counts.cover(self._key(cross, [values[point] for point in cross]))

    def _key(self, points: Sequence[str], values: Sequence[object]) -> str:
        return f"{self.name}.{' x '.join(points)}: {', '.join(map(str, values))}"

    def unhit(self, hits: Mapping[str, int] | None = None) -> list[str]:
        """Bins that were never met, in this process or in the given ``hits``."""
        found = counts.hits() if hits is None else hits
        return [key for key in self.declared if not found.get(key)]

    @property
    def percent(self) -> float:
        """Bins met so far in this process."""
        return 100 * (1 - len(self.unhit()) / len(self.declared))


PLACES = 12
"""Lines that a record names."""
COPY = "__"
"""Before what Verilator adds to the name of a copy of a module, one for each set of its parameters."""


@dataclasses.dataclass(frozen=True)
class Point:
    """One thing Verilator counts. ``kind`` is line, branch, toggle or expr."""

    module: str
    kind: str
    line: int
    column: int
    comment: str


@dataclasses.dataclass(frozen=True)
class Exclusion:
    """Points that need no hit, with the reason. ``module`` and ``comment`` are patterns."""

    module: str
    reason: str
    kind: str = ""
    comment: str = ""

    def covers(self, point: Point) -> bool:
        """Whether ``point`` is excluded."""
        return bool(
            re.fullmatch(self.module, point.module.partition(COPY)[0])
            and self.kind in ("", point.kind)
            and (not self.comment or re.search(self.comment, point.comment))
        )


def read_dat(paths: Iterable[Path]) -> Counter[Point]:
    """Points with their counts, merged over runs and over instances of a module."""
    merged: Counter[Point] = Counter()
    for path in paths:
        for line in path.read_text(errors="replace").splitlines():
            found = re.match(r"C '(.*)' (\d+)$", line)
            if found is None:
                continue
            fields = dict(part.split("\x02", 1) for part in found[1].split("\x01") if "\x02" in part)
            page, _, module = fields.get("page", "").partition("/")
            kind = page.removeprefix("v_")
            if kind in KINDS:
                point = Point(module, kind, int(fields.get("l", 0)), int(fields.get("n", 0)), fields.get("o", ""))
                merged[point] += int(found[2])
    return merged


def read_exclusions(path: Path) -> list[Exclusion]:
    """The exclusions of a TOML file: ``[[exclude]]`` tables with module, reason and optionally kind and comment."""
    entries = tomllib.loads(path.read_text()).get("exclude", []) if path.exists() else []
    exclusions = [Exclusion(**entry) for entry in entries]
    for exclusion in exclusions:
        if not exclusion.reason.strip():
            raise ValueError(f"{path}: exclusion of {exclusion.module} without a reason")
    return exclusions


@dataclasses.dataclass(frozen=True)
class Tally:
    """Points of one module and kind: how many there are and which were never met."""

    total: int
    missed: tuple[Point, ...]

    @property
    def percent(self) -> float:
        """Points met; a module without points of a kind is fully covered."""
        return 100.0 if not self.total else 100 * (1 - len(self.missed) / self.total)

    @property
    def places(self) -> str:
        """The lines of ``design.v``, beside the compiled model, that were never met, the first few."""
        lines = sorted({point.line for point in self.missed})
        return ", ".join(map(str, lines[:PLACES])) + (f" and {len(lines) - PLACES} more" if len(lines) > PLACES else "")


def tallies(points: Mapping[Point, int], exclusions: Sequence[Exclusion] = ()) -> dict[tuple[str, str], Tally]:
    """Coverage by module and kind, excluded points left out. Specialised copies of a module count as one."""
    groups: dict[tuple[str, str], dict[Point, int]] = defaultdict(dict)
    for point, count in points.items():
        if not any(exclusion.covers(point) for exclusion in exclusions):
            groups[point.module.partition(COPY)[0], point.kind][point] = count
    return {
        key: Tally(len(group), tuple(point for point, count in group.items() if not count))
        for key, group in sorted(groups.items())
    }
