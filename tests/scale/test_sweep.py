import contextlib
import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import scale.sweep
from scale.measured import load
from scale.sweep import Point, evaluate, finished, layouts, on_cores, on_dask, sweep
from spec.parameters import ParameterError

VALUES = tuple(
    (name, value.value, value.unit, value.source)
    for name, value in load({"hbm": 0.95, "link": 0.9, "hop_cycles": 3.0}).items()
)
POINTS = [
    Point(preset="trn2-instance", model="tiny-dense", parallel=layout, batch=16, sequence=64, values=VALUES)
    for layout in ("tp=4,dp=4", "tp=2,dp=8", "tp=3,dp=5", "tp=2,dp=4,pp=2")
]


def _here(points: Sequence[Point]) -> Iterator[tuple[Point, dict[str, Any] | None]]:
    for point in points:
        yield point, evaluate(point)


def _dies(point: Point) -> dict[str, Any]:
    """A worker that is lost on one point."""
    if point.parallel == "tp=2,dp=8":
        os._exit(9)
    return {"key": point.key, "figures": {}}


def test_a_sweep_times_what_is_legal_and_keeps_why_the_rest_is_refused(tmp_path: Path) -> None:
    outcomes, lost = sweep(POINTS, tmp_path / "sweep.jsonl", _here)
    assert not lost
    assert ["figures" in outcome for outcome in outcomes] == [True, True, False, True]
    assert "tp = 3" in outcomes[2]["refused"]


def test_an_interrupted_sweep_computes_only_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"

    def interrupted(points: Sequence[Point]) -> Iterator[tuple[Point, dict[str, Any] | None]]:
        yield from _here(points[:2])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(POINTS, path, interrupted)
    asked: list[Point] = []

    def counted(points: Sequence[Point]) -> Iterator[tuple[Point, dict[str, Any] | None]]:
        asked.extend(points)
        yield from _here(points)

    outcomes, _ = sweep(POINTS, path, counted)
    assert asked == POINTS[2:]
    assert [outcome["key"] for outcome in outcomes] == [point.key for point in POINTS]


def test_half_a_line_is_dropped_and_the_file_goes_on_whole(tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    sweep(POINTS[:2], path, _here)
    text = path.read_text()
    path.write_text(text[: len(text) - 20])
    outcomes, _ = sweep(POINTS, path, _here)
    assert len(outcomes) == len([json.loads(line) for line in path.read_text().splitlines()]) == 4


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sweep.jsonl").write_text("hello\nworld\n")
    with pytest.raises(ParameterError, match="no outcome of a sweep"):
        finished(tmp_path / "sweep.jsonl")


def test_other_efficiencies_are_other_points() -> None:
    changed = Point(preset="a", model="b", parallel="", batch=1, values=(("hbm", 0.5, "", "assumed"),))
    assert changed.key != Point(preset="a", model="b", parallel="", batch=1).key


def test_a_lost_process_costs_only_its_own_point(tmp_path: Path) -> None:
    outcomes, lost = sweep(POINTS, tmp_path / "sweep.jsonl", on_cores(2, _dies))
    assert lost == [POINTS[1]]
    assert len(outcomes) == 3
    assert sweep(POINTS, tmp_path / "sweep.jsonl", _here)[1] == []


def test_processes_give_what_this_process_gives(tmp_path: Path) -> None:
    there, _ = sweep(POINTS, tmp_path / "there.jsonl", on_cores(2))
    here, _ = sweep(POINTS, tmp_path / "here.jsonl", _here)
    for one, other in zip(there, here, strict=True):
        assert one.get("refused") == other.get("refused")
        assert one.get("figures", {}).get("step time") == other.get("figures", {}).get("step time")


@contextlib.contextmanager
def _cluster(workers: int) -> Iterator[Any]:
    import dask
    import distributed

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 1}),
        distributed.LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


class _LostScheduler:
    """A client of a cluster whose scheduler goes away, as ``distributed`` reports it."""

    def submit(self, work: Callable[[Point], dict[str, Any]], point: Point, *, pure: bool) -> object:
        """A future."""
        return object()


def test_a_scheduler_that_goes_away_costs_what_was_not_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import distributed

    asked = []

    def wait(waiting: set[object], **_: Any) -> None:
        asked.append(len(waiting))
        raise distributed.client.FuturesCancelledError([])

    monkeypatch.setattr(distributed, "wait", wait)
    assert sweep(POINTS, tmp_path / "sweep.jsonl", on_dask(_LostScheduler())) == ([], POINTS)
    assert asked == [4], "a cluster that is gone is asked again"


@pytest.mark.long
def test_a_dask_cluster_that_loses_workers_keeps_what_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "sweep.jsonl"
    with _cluster(2) as client:
        outcomes, lost = sweep(POINTS, path, on_dask(client, _dies))
    assert POINTS[1] in lost
    assert len(outcomes) + len(lost) == 4
    assert len(path.read_text().splitlines()) == len(outcomes)
    with _cluster(1) as client:
        outcomes, lost = sweep(POINTS, path, on_dask(client))
    assert (len(outcomes), lost) == (4, [])


@pytest.mark.long
def test_a_dask_cluster_without_workers_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale.sweep, "PATIENCE_SECONDS", 1.0)
    with _cluster(0) as client:
        assert sweep(POINTS[:2], tmp_path / "sweep.jsonl", on_dask(client)) == ([], POINTS[:2])


def test_layouts_multiply_to_the_chips() -> None:
    found = list(layouts(16, (1, 2)))
    assert len(set(found)) == len(found) == 2 * 15
    assert "tp=4,dp=2,pp=2,microbatches=2" in found
