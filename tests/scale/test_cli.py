import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scale.sweep import Point, Submit, evaluate
from sdk.cli import main
from spec import results

ASSUME = "hbm=0.95,link=0.9,hop_cycles=3"
SMALL = ["--preset", "trn2-instance", "--model", "tiny-dense", "--batch", "16", "--sequence", "64"]


@pytest.fixture(autouse=True)
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(results, "BUILD", tmp_path)
    return tmp_path


def _run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def test_scale_prints_a_table_and_writes_figures_and_trace(build: Path) -> None:
    trace = build / "step.pftrace"
    shown = _run("scale", *SMALL, "--parallel", "tp=4,dp=4", "--assume", f"{ASSUME},watts=500", "--trace", str(trace))
    assert shown.exit_code == 0, shown.output
    for word in ("step time", "tokens/s", "MFU", "MBU", "links, busiest", "energy of a step", "assumed", "published"):
        assert word in shown.output
    written = json.loads(next((build / "scale").glob("*.json")).read_text())
    assert set(written["parameters"]) == {"machine", "model", "parallel", "workload"}
    assert trace.stat().st_size > 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--parallel", "tp=3", "--assume", ASSUME], "heads = 4 does not divide by tp = 3"),
        (["--parallel", "tp=4,dp=4"], "hbm.json: not there; run `systola bench --block hbm`"),
        (["--parallel", "zz=4", "--assume", ASSUME], "parallel 'zz=4'"),
        (["--preset", "trn7", "--assume", ASSUME], "preset 'trn7': legal is one of"),
        (["--model", "llama9", "--assume", ASSUME], "model 'llama9': legal is one of"),
        (["--parallel", "tp=16", "--model", "llama3.1-405b", "--assume", ASSUME], "memory: a chip needs"),
        (["--servers", "0", "--assume", ASSUME], "servers = 0: legal is at least 1"),
        (["--assume", "hbm=2"], "assume hbm = 2"),
    ],
)
def test_scale_refuses_with_one_line_and_writes_nothing(build: Path, arguments: list[str], message: str) -> None:
    shown = _run("scale", *SMALL, *arguments)
    assert shown.exit_code == 2
    assert message in shown.output
    assert len(shown.output.strip().splitlines()) == 1
    assert not list(build.rglob("*"))


def test_sweep_finds_the_fastest_layout_and_resumes(build: Path) -> None:
    arguments = [
        "sweep",
        *SMALL,
        "--parallel",
        "tp=4,dp=4",
        "--parallel",
        "tp=2,dp=8",
        "--assume",
        ASSUME,
        "--workers",
        "1",
    ]
    first = _run(*arguments)
    assert first.exit_code == 0, first.output
    assert "2 of 2 points are legal" in first.output
    lines = (build / "sweep" / "sweep.jsonl").read_text()
    assert _run(*arguments).output == first.output
    assert (build / "sweep" / "sweep.jsonl").read_text() == lines


def test_sweep_says_why_when_nothing_is_legal() -> None:
    shown = _run("sweep", *SMALL, "--parallel", "tp=3", "--assume", ASSUME, "--workers", "1")
    assert shown.exit_code == 1
    assert "all refused, the first: parallel: heads = 4 does not divide by tp = 3" in shown.output


@pytest.mark.parametrize("command", ["scale", "sweep"])
def test_a_broken_bench_is_refused_with_one_line(build: Path, command: str) -> None:
    (build / "bench").mkdir()
    (build / "bench" / "hbm.json").write_text('{"records": [')
    shown = _run(command, *SMALL, "--parallel", "tp=4,dp=4", "--assume", "link=0.9,hop_cycles=3")
    assert shown.exit_code == 2
    assert "hbm.json: not a results file (JSONDecodeError" in shown.output
    assert "run `systola bench --block hbm`, or state it with `--assume hbm=...`" in shown.output
    assert len(shown.output.strip().splitlines()) == 1


def test_points_lost_with_their_workers_are_one_message_and_what_is_finished_stays(
    build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(_: int | None) -> Submit:
        def submit(points: Sequence[Point]) -> Iterator[tuple[Point, dict[str, Any] | None]]:
            for point in points:
                yield point, None if point.parallel == "tp=2,dp=8" else evaluate(point)

        return submit

    parts = ["--parallel", "tp=4,dp=4", "--parallel", "tp=2,dp=8", "--parallel", "tp=1,dp=16"]
    with monkeypatch.context() as patch:
        patch.setattr("scale.sweep.on_cores", forgetful)
        shown = _run("sweep", *SMALL, *parts, "--assume", ASSUME)
    assert shown.exit_code == 2
    assert "2 of 2 points are legal" in shown.stdout
    assert shown.stderr == (
        "systola: 1 of 3 points lost with their workers, the first: trn2-instance tiny-dense tp=2,dp=8; "
        "what is finished is kept: run the same sweep again\n"
    )
    path = build / "sweep" / "sweep.jsonl"
    kept = path.read_text()
    assert len(kept.splitlines()) == 2
    again = _run("sweep", *SMALL, *parts, "--assume", ASSUME, "--workers", "1")
    assert again.exit_code == 0
    assert path.read_text().startswith(kept)
    assert len(path.read_text().splitlines()) == 3


@pytest.mark.long
def test_a_scheduler_that_does_not_answer_is_refused() -> None:
    shown = _run("sweep", *SMALL, "--parallel", "tp=4,dp=4", "--assume", ASSUME, "--scheduler", "tcp://127.0.0.1:9")
    assert shown.exit_code == 2
    assert "scheduler 'tcp://127.0.0.1:9'" in shown.output
