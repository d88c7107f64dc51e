"""The long regression: every configuration of every bench, over many seeds, here or on a Dask cluster.

Writes ``build/regress/``: figures as JSON, ``junit.xml`` with one case a bench, configuration and seed, and
``summary.html``. A worker of a cluster needs this checkout installed; a lost worker's jobs run again elsewhere.
"""

import concurrent.futures
import multiprocessing
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from rich.console import Console
from rich.progress import track
from rich.table import Table

from spec.results import BUILD, Record, write
from verif.catalog import BENCHES, bench_named
from verif.harness.bench import Row
from verif.harness.runner import new_seed

Job = tuple[str, str, int]
"""Bench, digest of the configuration, seed: small enough to travel."""


def jobs_of(seeds: int, first: int) -> list[Job]:
    """Every bench on every configuration, ``seeds`` times; neighbouring jobs share a compiled model."""
    return [
        (bench.name, config.digest(), first + index)
        for bench in BENCHES
        for config in bench.configurations(long=True)
        for index in range(seeds)
    ]


def run_job(job: Job) -> Row:
    """One bench on one configuration with one seed; an exception is a failure of that job alone."""
    name, digest, seed = job
    bench = bench_named(name)
    config = next(config for config in bench.configurations(long=True) if config.digest() == digest)
    try:
        return bench.run(config, seed=seed, long=True)
    except Exception as error:  # a regression reports what broke and goes on
        return Row(name, digest, seed=seed, failures=[f"{type(error).__name__}: {error}"])


def run_regression(
    seeds: int, *, first: int | None = None, scheduler: str | None = None, console: Console | None = None
) -> list[Row]:
    """Run all jobs on this machine's cores, or on the Dask cluster at ``scheduler``, and write the reports."""
    first = new_seed() if first is None else first
    work = jobs_of(seeds, first)
    console = console or Console()
    console.print(f"{len(work)} jobs, seeds {first} to {first + seeds - 1}")
    outcome = _on_cluster(work, scheduler) if scheduler else _here(work)
    rows = list(track(outcome, "regression", total=len(work), console=console, transient=True))
    rows.sort(key=lambda row: (row.block, row.parameters, row.seed))
    report(rows, first)
    return rows


def _here(work: Sequence[Job]) -> Iterator[Row]:
    context = multiprocessing.get_context("spawn")  # a forked copy would share file positions and locks
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count() or 1, mp_context=context) as pool:
        futures = [pool.submit(run_job, job) for job in work]
        for future in concurrent.futures.as_completed(futures):
            yield future.result()


def _on_cluster(work: Sequence[Job], scheduler: str) -> Iterator[Row]:
    from distributed import Client, as_completed

    with Client(scheduler) as client:
        for future in as_completed(client.map(run_job, work, retries=2, pure=False)):
            yield future.result()


def report(rows: Sequence[Row], first: int, folder: Path | None = None) -> None:
    """Write JSON, JUnit XML and the HTML summary of ``rows``."""
    folder = folder or BUILD / "regress"
    folder.mkdir(parents=True, exist_ok=True)
    failed = [row for row in rows if row.verdict != "pass"]
    records = [
        Record("regression", "jobs", len(rows)),
        Record("regression", "jobs failed", len(failed), target=0, better="lower"),
        Record("regression", "vectors", sum(row.vectors for row in rows)),
        Record("regression", "cycles", sum(row.cycles for row in rows), "cycles"),
    ]
    write("regress", "regress", records, seed=first, build=folder.parent)
    suite = ElementTree.Element("testsuite", name="regress", tests=str(len(rows)), failures=str(len(failed)))
    for row in rows:
        name = f"{row.parameters} seed {row.seed}"
        case = ElementTree.SubElement(suite, "testcase", classname=row.block, name=name, time=f"{row.seconds:.3f}")
        if row.verdict != "pass":
            failure: Any = ElementTree.SubElement(case, "failure", message=row.repeat)
            failure.text = "\n".join(row.failures)
    ElementTree.ElementTree(suite).write(folder / "junit.xml", encoding="utf-8", xml_declaration=True)
    with Path(os.devnull).open("w") as nowhere:
        page = Console(record=True, width=140, file=nowhere)
        page.print(summary(rows))
        for row in failed:
            page.print(row.repeat, *row.failures, sep="\n", markup=False, highlight=False)
        page.save_html(str(folder / "summary.html"))


def summary(rows: Sequence[Row]) -> Table:
    """One line a bench and configuration: seeds, vectors, cycles, failures."""
    shown = Table(title="Regression")
    for heading in ("block", "parameters"):
        shown.add_column(heading)
    for heading in ("seeds", "vectors", "cycles", "failed"):
        shown.add_column(heading, justify="right")
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.block, row.parameters), []).append(row)
    for (block, parameters), group in groups.items():
        failed = sum(row.verdict != "pass" for row in group)
        figures = (len(group), sum(row.vectors for row in group), sum(row.cycles for row in group), failed)
        shown.add_row(block, parameters, *(f"{figure:,}" for figure in figures), style="red" if failed else "")
    return shown
