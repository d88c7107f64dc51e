"""The `systola` command line, which the Makefile calls.

A command imports what it needs when it runs, so that `systola --help` and refusals are immediate. Exit codes: 0 done,
1 a check failed, 2 a bad input (one line on stderr, nothing written).
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from sdk.scale_cli import scale, sweep
from spec import results
from spec.parameters import ParameterError

if TYPE_CHECKING:
    from spec.results import Record

ROOT = Path(__file__).parent.parent
"""The checkout: tests, docs and examples lie there."""

CONSOLE = Console(width=None if sys.stdout.isatty() else 160)


class Commands(click.Group):
    """A group in which every refused input ends as one line and exit code 2."""

    def invoke(self, context: click.Context) -> Any:
        """Run the command; turn a refusal into a message."""
        try:
            return super().invoke(context)
        except ParameterError as refused:
            click.echo(f"systola: {refused}", err=True)
            context.exit(2)


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print one table; numbers to the right, everything else to the left."""
    cells = [list(row) for row in rows]
    view = Table(title=title, title_justify="left", title_style="bold")
    for index, column in enumerate(columns):
        numeric = bool(cells) and all(isinstance(row[index], int | float) for row in cells)
        view.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in cells:
        view.add_row(*map(shown, row))
    CONSOLE.print(view)


def shown(value: object) -> str:
    """A cell: thousands separated, four significant digits, yes/no, blank for nothing."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "[red]no[/red]"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"
    return str(value)


def records_table(title: str, records: "Iterable[Record]") -> None:
    """Figures beside their targets."""
    columns = ("block", "figure", "value", "unit", "target", "met", "reference")
    rows = [
        (entry.block, entry.figure, entry.value, entry.unit, entry.target, entry.met, entry.reference)
        for entry in records
    ]
    table(title, columns, rows)


def python(*arguments: str) -> int:
    """Run this environment's Python in the checkout, its output passed through; returns the exit code."""
    return subprocess.call([sys.executable, *arguments], cwd=ROOT)


block_option = click.option("--block", default="all", show_default=True, help="Dotted block name, or all.")
seed_option = click.option("--seed", type=int, default=None, help="Seed of every random choice; SEED or 1 otherwise.")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="systola")
def main() -> None:
    """An open, verified, Trainium-class machine-learning accelerator."""


@main.command()
def doctor() -> None:
    """Show each tool: version, where it was found, usable or why not."""
    from verif.tools import doctor as look

    tools = look()
    columns = ("tool", "version", "found", "usable", "why not")
    table(
        "Tools",
        columns,
        [(t.name, t.version, t.where, t.usable or None if t.optional else t.usable, t.why_not) for t in tools],
    )
    sys.exit(0 if all(tool.usable or tool.optional for tool in tools) else 1)


@main.command()
@block_option
@click.option("--preset", default="SMALL", show_default=True, help="Named machine: TINY, SMALL, TRN1, TRN2, TRN3.")
@click.option("--out", type=click.Path(path_type=Path), default=None, help="Folder to write [build/verilog/PRESET].")
def verilog(block: str, preset: str, out: Path | None) -> None:
    """Write one Verilog file and one description a block."""
    from sdk.verilog import write_verilog

    for path in write_verilog(block, preset, out):
        click.echo(path)


@main.command()
def claims() -> None:
    """Recompute the published figures of the machine from its description."""
    from scale.claims import CLAIMS, records

    notes = list(dict.fromkeys(claim.explanation for claim in CLAIMS if claim.explanation))
    columns = ("machine", "claim", "stated", "computed", "unit", "deviation", "computed from", "note")
    rows = []
    for c in CLAIMS:
        note = f"({notes.index(c.explanation) + 1})" if c.explanation else ""
        figures = (f"{c.stated:g}", f"{c.computed:.4g}", c.unit, f"{c.deviation:+.1%}")
        rows.append((c.machine, c.what, *figures, c.inputs, note))
    table("Published figures, recomputed", columns, rows)
    for number, note in enumerate(notes, 1):
        CONSOLE.print(f"({number}) {note}", highlight=False)
    results.write("claims", "claims", records())
    sys.exit(0 if all(claim.holds for claim in CLAIMS) else 1)


@main.command()
@click.argument("names", nargs=-1)
@block_option
@seed_option
@click.option("--long", is_flag=True, help="Also the configurations that only the regression runs.")
@click.option("--readme", is_flag=True, help="Renew the README's transcript and status table from this run.")
def sim(names: tuple[str, ...], block: str, seed: int | None, long: bool, readme: bool) -> None:
    """Simulate blocks against golden and print one table; WAVES=1 writes FST files.

    NAMES (or --block) are benches, `tensor.engine`, or one configuration of a bench, `tensor.engine:1a2b3c4d`.
    """
    from verif.simulate import run_benches
    from verif.simulate import table as bench_table

    chosen = names or (() if block == "all" else (block,))
    rows = run_benches(chosen or None, seed=seed, long=long, console=CONSOLE)
    CONSOLE.print(bench_table(rows))
    failed = [row for row in rows if row.verdict != "pass"]
    for row in failed:
        for failure in row.failures:
            CONSOLE.print(f"{row.block}: {failure}", highlight=False, markup=False)
        CONSOLE.print(f"repeat with waves: {row.repeat}", highlight=False, markup=False)
    if readme:
        from sdk.readme import write_readme

        with Path(os.devnull).open("w") as nowhere:
            page = Console(record=True, width=132, file=nowhere)
            page.print(bench_table(rows))
        write_readme(page.export_text())
    sys.exit(1 if failed else 0)


@main.command()
@click.option("--block", "name", default="all", show_default=True, help="Name of a proof, or all.")
def formal(name: str) -> None:
    """Prove the properties with sby."""
    from verif.formal.catalog import run_proofs
    from verif.formal.catalog import table as proof_table

    verdicts = run_proofs(None if name == "all" else (name,), console=CONSOLE)
    CONSOLE.print(proof_table(verdicts))
    sys.exit(0 if all(verdict.result == "pass" for verdict in verdicts) else 1)


@main.command()
@block_option
@seed_option
def coverage(block: str, seed: int | None) -> None:
    """Measure functional and code coverage of the benches."""
    from verif.measure import run_coverage

    records_table("Coverage", run_coverage(None if block == "all" else (block,), seed=seed, console=CONSOLE))


@main.command()
@block_option
@click.option("--count", default=200, show_default=True, type=click.IntRange(1), help="Mutants of each block.")
def mutation(block: str, count: int) -> None:
    """Plant netlist mutants and count those the benches notice."""
    from verif.measure import run_mutation

    reports = run_mutation(None if block == "all" else (block,), count=count, console=CONSOLE)
    columns = ("block", "mutants", "killed %", "proven equivalent", "alive")
    rows = [(r.block, len(r.mutants.commands), 100 * r.score, len(r.equivalent), len(r.survivors)) for r in reports]
    table("Mutants", columns, rows)


@main.command()
@click.option("--seeds", default=4, show_default=True, type=click.IntRange(1), help="Seeds of each configuration.")
@click.option("--seed", type=int, default=None, help="First seed; printed when drawn.")
@click.option("--scheduler", default=None, help="Address of a Dask scheduler; without one, this machine's cores.")
def regress(seeds: int, seed: int | None, scheduler: str | None) -> None:
    """Run every bench on every configuration and seed, then the long tests."""
    from verif.regress import run_regression, summary

    rows = run_regression(seeds, first=seed, scheduler=scheduler, console=CONSOLE)
    CONSOLE.print(summary(rows))
    for row in rows:
        if row.verdict != "pass":
            CONSOLE.print(
                f"{row.block}: {'; '.join(row.failures)}", row.repeat, sep="\n", highlight=False, markup=False
            )
    passed = all(row.verdict == "pass" for row in rows)
    tests = python(
        "-m", "pytest", "-n", "auto", "-m", "long", "--junit-xml", str(results.BUILD / "regress" / "long.xml")
    )
    sys.exit(0 if passed and tests == 0 else 1)


@main.command()
@click.option("--block", default="all", show_default=True, help="Name of a bench, or all.")
def bench(block: str) -> None:
    """Measure every figure beside its target."""
    from sdk.bench import BENCHES, LONG, bench_named, digests

    for name in [name for name in BENCHES if name not in LONG] if block == "all" else [block]:
        function = bench_named(name)
        with CONSOLE.status(f"measuring {name}"):
            records = function()
        records_table(f"Bench: {name}", records)
        results.write("bench", name, records, parameters=digests(name))


@main.command()
def status() -> None:
    """Print every figure measured so far as one table."""
    rows = results.read()
    if not rows:
        raise ParameterError("no results below build/: run `make sim`, `make bench` or `make claims` first")
    columns = ("made by", "block", "figure", "value", "unit", "target", "met", "reference")
    keys = ("made_by", "block", "figure", "value", "unit", "target", "met", "reference")
    table("Figures", columns, [[row[key] for key in keys] for row in rows])


@main.command()
@seed_option
@click.option("--long", is_flag=True, help="Also the tests that only the regression runs.")
@click.argument("arguments", nargs=-1)
def test(seed: int | None, long: bool, arguments: tuple[str, ...]) -> None:
    """Run the test suite on all cores; ARGUMENTS go to pytest."""
    options = ["-n", "auto", "--dist", "worksteal", "--junit-xml", str(results.BUILD / "test" / "junit.xml")]
    if not long:
        options += ["-m", "not long"]
    if seed is not None:
        os.environ["SEED"] = str(seed)
    sys.exit(python("-m", "pytest", *options, *arguments))


@main.command()
def lint() -> None:
    """Check style and types of the source, and the generated Verilog with every front end."""
    from verif.lint import lint_all

    steps: list[tuple[str, Callable[[], int]]] = [
        ("format", lambda: python("-m", "ruff", "format", "--check", "--quiet", ".")),
        ("style", lambda: python("-m", "ruff", "check", "--quiet", ".")),
        ("types", lambda: python("-m", "mypy")),
        ("verilog", lambda: int(bool(lint_all()))),
    ]
    outcome = []
    for name, step in steps:
        started = time.perf_counter()
        outcome.append((name, step() == 0, time.perf_counter() - started))
    table("Lint", ("check", "passed", "seconds"), outcome)
    sys.exit(0 if all(passed for _, passed, _ in outcome) else 1)


@main.command()
def docs() -> None:
    """Build the site into build/docs; a warning is an error."""
    sys.exit(python("-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", "build/docs"))


main.add_command(scale)
main.add_command(sweep)
