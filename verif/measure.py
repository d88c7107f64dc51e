"""How good the benches are: coverage of code and stimulus, and mutants killed. ``make coverage``, ``make mutation``."""

import concurrent.futures
import multiprocessing
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import track

from spec.results import BUILD, Record, write
from verif.catalog import BENCHES, bench_named
from verif.harness.bench import Bench
from verif.harness.coverage import KINDS, read_dat, read_exclusions, tallies
from verif.harness.mutation import MutationReport, mutate
from verif.simulate import run_benches

EXCLUSIONS = Path(__file__).with_name("coverage.toml")
GOALS = {"line": 95, "branch": 95}
"""Percent; toggles and expressions are reported without a goal."""

MUTANTS = 200
KILLED_GOAL = 95


def run_coverage(
    names: Sequence[str] | None = None, *, seed: int | None = None, long: bool = False, console: Console | None = None
) -> list[Record]:
    """Run the benches with coverage, merge what they met, write ``build/coverage`` and return the records.

    The file is called ``coverage``, or as the named benches are, so that blocks can be measured one by one.
    Code coverage counts every module below the blocks of the benches that ran; a bin of a cover group that nobody met
    is named in the record.
    """
    for stale in (BUILD / "coverage").glob("*.dat"):
        stale.unlink()
    name = "-".join(names) if names else "coverage"
    rows = run_benches(names, seed=seed, coverage=True, long=long, console=console)
    hits: Counter[str] = Counter()
    for row in rows:
        hits.update(row.hits)
    ran = {row.block for row in rows}
    records = _functional([bench for bench in BENCHES if bench.name in ran], hits)
    points = read_dat(sorted((BUILD / "coverage").glob("*.dat")))
    for (module, kind), tally in tallies(points, read_exclusions(EXCLUSIONS)).items():
        goal = GOALS.get(kind)
        missed = f"not met in design.v: {tally.places}" if goal and tally.percent < goal else None
        records.append(Record(module, f"{kind} coverage", round(tally.percent, 2), "%", goal, missed))
    records += _overall(records)
    write("coverage", name, records, seed=rows[0].seed if rows else None)
    return records


def _functional(benches: Sequence[Bench], hits: Mapping[str, int]) -> list[Record]:
    records = []
    for bench in benches:
        if bench.cover is not None:
            missed = bench.cover.unhit(hits)
            percent = round(100 * (1 - len(missed) / len(bench.cover.declared)), 2)
            records.append(Record(bench.name, "functional coverage", percent, "%", 100))
            records += [Record(bench.name, "cover bin never met", key) for key in missed]
    return records


def _overall(records: Sequence[Record]) -> list[Record]:
    overall = []
    for kind in KINDS:
        values = [float(record.value) for record in records if record.figure == f"{kind} coverage"]
        if values:
            overall.append(Record("all", f"worst {kind} coverage of a module", min(values), "%", GOALS.get(kind)))
    return overall


def run_mutation(
    names: Sequence[str] | None = None, *, count: int = MUTANTS, seed: int = 1, console: Console | None = None
) -> list[MutationReport]:
    """Mutate the block of each named bench (all that can be, without a name); each writes its ``build/mutation`` file.

    A file is written as soon as its block is done, so that a run that is stopped keeps what it has found.
    """
    able = [bench.name for bench in BENCHES if bench.block is not None and bench.check is not None]
    chosen = list(names) if names else able
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count() or 1, mp_context=context) as pool:
        futures = [pool.submit(_mutate, name, count, seed) for name in chosen]
        done = concurrent.futures.as_completed(futures)
        reports = []
        for future in track(done, "mutating", total=len(futures), console=console, transient=True):
            reports.append(future.result())
            write("mutation", reports[-1].block, _mutation_records(reports[-1]), seed=seed)
    return sorted(reports, key=lambda report: chosen.index(report.block))


def _mutation_records(report: MutationReport) -> list[Record]:
    return [
        Record(report.block, "mutants", len(report.mutants.commands)),
        Record(report.block, "mutants killed", round(100 * report.score, 2), "%", KILLED_GOAL),
        Record(report.block, "mutants proven equivalent", len(report.equivalent)),
        *(Record(report.block, "mutant alive", report.mutants.commands[n - 1]) for n in report.survivors),
    ]


def _mutate(name: str, count: int, seed: int) -> MutationReport:
    return mutate(bench_named(name), count=count, seed=seed)
