"""Runs benches beside each other, one process each, and returns one row a bench and configuration.

A model that was compiled once is not compiled again (``verif.harness.compile``), so a run that was interrupted goes on
where the builds stopped. Rows are also written to ``build/sim``, one file a bench.
"""

import concurrent.futures
import multiprocessing
import os
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from spec.parameters import Parameters, refuse
from spec.results import Record, write
from verif.catalog import BENCHES, bench_named
from verif.harness.bench import Bench, Row
from verif.harness.runner import chosen_seed, wanted

HEADINGS = (
    "block",
    "parameters",
    "tests",
    "vectors",
    "mismatches",
    "cycles",
    "utilisation",
    "cycles/s",
    "verdict",
)


def run_benches(
    names: Sequence[str] | None = None,
    *,
    seed: int | None = None,
    waves: bool | None = None,
    coverage: bool | None = None,
    long: bool = False,
    jobs: int | None = None,
    console: Console | None = None,
) -> list[Row]:
    """Run the named benches (all without a name) and return their rows in the order of the catalogue.

    A name is a bench (``tensor.array``) or a bench and a configuration's digest (``tensor.array:1a2b3c4d``).
    """
    seed = chosen_seed(seed)
    work = _selected(names, long)
    console = console or Console()
    console.print(f"seed {seed}: repeat with SEED={seed}")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    rows: dict[int, Row] = {}
    settings = {"seed": seed, "waves": wanted("WAVES", waves), "coverage": wanted("COVERAGE", coverage), "long": long}
    context = multiprocessing.get_context("spawn")  # a forked copy would share file positions and locks
    with (
        Progress(*columns, console=console, transient=True) as progress,
        concurrent.futures.ProcessPoolExecutor(jobs or os.cpu_count() or 1, mp_context=context) as pool,
    ):
        task = progress.add_task("simulating", total=len(work))
        futures = {pool.submit(_run, bench.name, config, settings): index for index, (bench, config) in enumerate(work)}
        for future in concurrent.futures.as_completed(futures):
            index = futures[future]
            rows[index] = future.result()
            progress.update(task, advance=1, description=f"simulated {work[index][0].name}")
    found = [rows[index] for index in sorted(rows)]
    _write(found, seed)
    return found


def _run(name: str, config: Parameters, settings: dict[str, Any]) -> Row:
    return bench_named(name).run(config, **settings)


def _selected(names: Sequence[str] | None, long: bool) -> list[tuple[Bench, Parameters]]:
    if not names:
        return [(bench, config) for bench in BENCHES for config in bench.configurations(long=long)]
    work = []
    for text in names:
        name, _, digest = text.partition(":")
        bench = bench_named(name)
        configs = {config.digest(): config for config in bench.configurations(long=long or bool(digest))}
        if digest and digest not in configs:
            raise refuse("bench", name, digest, "one of " + ", ".join(configs))
        work += [(bench, config) for key, config in configs.items() if digest in ("", key)]
    return work


def _write(rows: Iterable[Row], seed: int) -> None:
    by_bench: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_bench[row.block].append(row)
    for name, group in by_bench.items():
        records = []
        for row in group:
            label = f"{row.block} {row.parameters}"
            records += [
                Record(label, "configuration", row.summary or "defaults"),
                Record(label, "tests", row.tests),
                Record(label, "vectors", row.vectors),
                Record(label, "mismatches", row.mismatches, target=0, better="lower"),
                Record(label, "failures", len(row.failures), target=0, better="lower"),
                Record(label, "cycles", row.cycles, "cycles"),
                Record(label, "simulation speed", round(row.speed), "cycles/s"),
            ]
            if row.utilisation is not None:
                records.append(Record(label, "utilisation", round(100 * row.utilisation, 2), "%"))
            records += [Record(label, figure, value) for figure, value in row.figures.items()]
        parameters = {f"{row.block} {row.parameters}": row.parameters for row in group}
        write("sim", name, records, parameters=parameters, seed=seed)


def table(rows: Iterable[Row]) -> Table:
    """The rows as the one table of ``make sim``: a line each; parameters that find no room are in ``build/sim``."""
    shown = Table(title="Every block against golden", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), expand=True)
    lines = [_cells(row) for row in rows]
    for column, heading in enumerate(HEADINGS):
        if heading == "parameters":
            shown.add_column(heading, no_wrap=True, ratio=1)
            continue
        width = max(cell_len(line[column]) for line in [HEADINGS, *lines])
        left = heading in ("block", "verdict")
        shown.add_column(heading, justify="left" if left else "right", no_wrap=True, width=width)
    for line in lines:
        colour = "green" if line[-1] == "pass" else "bold red"
        shown.add_row(*line[:-1], f"[{colour}]{line[-1]}[/]")
    return shown


def _cells(row: Row) -> tuple[str, ...]:
    """What stands under each of :data:`HEADINGS`."""
    return (
        row.block,
        row.summary or "defaults",
        f"{row.tests:,}",
        f"{row.vectors:,}",
        f"{row.mismatches:,}",
        f"{row.cycles:,}",
        "" if row.utilisation is None else f"{row.utilisation:.1%}",
        f"{row.speed:,.0f}" if row.cycles else "",
        row.verdict,
    )
