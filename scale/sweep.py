"""Many steps: a grid of points on all cores, or on a Dask cluster; what is finished is never computed twice.

Each finished point is one line of a JSON-lines file, written at once. A sweep that was interrupted skips the points
whose lines are there; half a line, left by a crash, is dropped. A lost worker costs only the points it was working on:
they are tried again, and what stays lost is reported and not written, so the next run computes it. A point carries
the efficiencies it was computed with: other efficiencies are other points, and workers elsewhere need no bench files.
"""

import concurrent.futures
import dataclasses
import hashlib
import itertools
import json
import multiprocessing
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

from scale.fabric import Fabric, machine_scope
from scale.measured import Value
from scale.report import figures
from scale.step import Step
from spec.models import model_named
from spec.parallelism import ParallelConfig, WorkloadConfig
from spec.parameters import ParameterError

PATIENCE_SECONDS = 20.0
"""How long a cluster may stand still; a worker that is restarted takes a few seconds."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Point:
    """One step, in the words of the command line."""

    preset: str
    model: str
    parallel: str
    batch: int
    sequence: int = 8192
    kind: str = "train"
    weight_bytes: int = 2
    servers: int = 1
    values: tuple[tuple[str, float, str, str], ...] = ()
    """Efficiencies: ``(name, value, unit, source)``."""

    @property
    def key(self) -> str:
        """Sixteen hexadecimal digits that identify the point."""
        return hashlib.sha256(json.dumps(dataclasses.asdict(self), sort_keys=True).encode()).hexdigest()[:16]


def evaluate(point: Point) -> dict[str, Any]:
    """The figures of a point, or why it is refused."""
    outcome: dict[str, Any] = {"key": point.key, "point": dataclasses.asdict(point)}
    try:
        machine, scope = machine_scope(point.preset)
        values = {name: Value(value, unit, source) for name, value, unit, source in point.values}
        workload = WorkloadConfig(
            kind=point.kind, batch=point.batch, sequence=point.sequence, weight_bytes=point.weight_bytes
        )
        parallel = ParallelConfig.parse(point.parallel)
        step = Step(Fabric(machine, scope, values), model_named(point.model), parallel, workload, servers=point.servers)
        records = figures(point.model, step.run(), values)
    except ParameterError as refused:
        return outcome | {"refused": str(refused)}
    return outcome | {"figures": {record.figure: record.value for record in records}}


def layouts(chips: int, microbatches: Sequence[int] = (1,)) -> Iterator[str]:
    """Every way to write ``chips`` as tp x dp x pp, with each number of microbatches where there are stages."""
    divisors = [number for number in range(1, chips + 1) if chips % number == 0]
    for tp, pp in itertools.product(divisors, divisors):
        if chips % (tp * pp) == 0:
            for parts in microbatches:
                yield f"tp={tp},dp={chips // tp // pp},pp={pp},microbatches={parts}"


def finished(path: Path) -> dict[str, dict[str, Any]]:
    """Outcomes already in a file, by key; a torn last line is cut off so that the next one starts clean."""
    if not path.exists():
        return {}
    known: dict[str, dict[str, Any]] = {}
    whole = 0
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            outcome = json.loads(line)
            known[outcome["key"]] = outcome
        except (ValueError, KeyError, TypeError):
            if line.endswith(b"\n"):
                raise ParameterError(f"{path}: a line that is no outcome of a sweep; name another file") from None
            break
        whole += len(line)
    with path.open("r+b") as file:
        file.truncate(whole)
    return known


Submit = Callable[[Sequence[Point]], Iterable[tuple[Point, dict[str, Any] | None]]]
"""Gives points to workers; yields each with its outcome as it is done, or with None when its worker was lost."""


def sweep(
    points: Sequence[Point],
    path: Path,
    submit: Submit,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[list[dict[str, Any]], list[Point]]:
    """Outcomes of all points in their order, and the points that were lost; outcomes are appended to ``path``."""
    known = finished(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    todo = [point for point in dict.fromkeys(points) if point.key not in known]
    done, total = len(set(points)) - len(todo), len(set(points))
    if progress:
        progress(done, total)
    with path.open("a") as file:
        for point, outcome in submit(todo) if todo else ():
            if outcome is None:
                continue
            known[point.key] = outcome
            file.write(json.dumps(outcome) + "\n")
            file.flush()
            done += 1
            if progress:
                progress(done, total)
    lost = [point for point in todo if point.key not in known]
    return [known[point.key] for point in dict.fromkeys(points) if point.key in known], lost


def _patient(together: Submit) -> Submit:
    """All points at once, then the lost ones again, one by one: whom a dying worker took along is innocent."""

    def submit(points: Sequence[Point]) -> Iterator[tuple[Point, dict[str, Any] | None]]:
        again = []
        for point, outcome in together(points):
            if outcome is None:
                again.append(point)
            else:
                yield point, outcome
        for point in again:
            yield from together([point])

    return submit


def on_cores(workers: int | None = None, work: Callable[[Point], dict[str, Any]] = evaluate) -> Submit:
    """Workers on this machine, one a core."""

    def together(points: Sequence[Point]) -> Iterator[tuple[Point, dict[str, Any] | None]]:
        context = multiprocessing.get_context("spawn")  # threads of a parent do not survive a fork
        with concurrent.futures.ProcessPoolExecutor(workers, mp_context=context) as pool:
            futures = {pool.submit(work, point): point for point in points}
            for future in concurrent.futures.as_completed(futures):
                lost = isinstance(future.exception(), BrokenProcessPool)
                yield futures[future], None if lost else future.result()

    return _patient(together)


def on_dask(client: Any, work: Callable[[Point], dict[str, Any]] = evaluate) -> Submit:
    """Workers of a Dask cluster (a ``distributed.Client``); the package must be importable there.

    A cluster in which nobody works for :data:`PATIENCE_SECONDS` has lost its workers, one whose scheduler no longer
    answers everything; the rest of the points is lost with either.
    """
    gone = False

    def together(points: Sequence[Point]) -> Iterator[tuple[Point, dict[str, Any] | None]]:
        import distributed

        nonlocal gone
        if gone:
            yield from ((point, None) for point in points)
            return
        futures = {client.submit(work, point, pure=False): point for point in points}
        waiting = set(futures)
        while waiting:
            try:
                done = distributed.wait(waiting, timeout=PATIENCE_SECONDS, return_when="FIRST_COMPLETED").done
            except TimeoutError:
                if any(client.processing().values()):
                    continue
                client.cancel(list(waiting))
                gone = True
            except concurrent.futures.CancelledError:  # the connection to the scheduler is lost
                gone = True
            if gone:
                yield from ((futures[future], None) for future in waiting)
                return
            waiting -= done
            for future in done:
                lost = future.cancelled() or isinstance(future.exception(), distributed.KilledWorker)
                yield futures[future], None if lost else future.result()

    return _patient(together)
