"""`systola scale` and `systola sweep`: the time model of whole machines on the command line."""

import contextlib
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from spec import results
from spec.parallelism import KINDS
from spec.parameters import ParameterError

Command = Callable[..., None]

if TYPE_CHECKING:
    from scale.measured import Value

PRESET_HELP = "Machine: PRESET-chip, PRESET-instance or PRESET-ultraserver, such as trn2-ultraserver."
ASSUME_HELP = (
    "Efficiencies in place of measured ones, such as hbm=0.95,link=0.9,hop_cycles=3; also watts=, usd_hour=. "
    "Each table shows them as assumptions."
)
FORMATS = {"bf16": 2, "fp8": 1, "fp32": 4}
"""Bytes of a weight or activation by the name the command line takes."""


@contextlib.contextmanager
def progress(title: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar on stderr; nothing where that is no terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task(title)
        yield lambda done, total: bars.update(task, completed=done, total=total)


def efficiencies(assume: str) -> "dict[str, Value]":
    """Measured, published and assumed efficiencies."""
    from scale.measured import load, parse_assumptions

    return load(parse_assumptions(assume))


def slug(*words: object) -> str:
    """A file name from words."""
    return re.sub(r"[^a-z0-9.]+", "-", "-".join(map(str, words)).lower()).strip("-")


@click.command()
@click.option("--preset", default="trn2-ultraserver", show_default=True, help=PRESET_HELP)
@click.option("--model", default="llama3.1-405b", show_default=True, help="Model, by its name in spec.models.")
@click.option("--kind", type=click.Choice(KINDS), default="train", show_default=True, help="What a step is.")
@click.option("--batch", type=int, required=True, help="Sequences of a step, all chips together.")
@click.option("--sequence", type=int, default=8192, show_default=True, help="Tokens of a sequence (decode: context).")
@click.option("--parallel", default="", help="Ranks of each axis: tp=,cp=,dp=,pp=,ep=,microbatches=.")
@click.option("--servers", type=int, default=1, show_default=True, help="Machines that share dp over EFA.")
@click.option("--format", "number", type=click.Choice(list(FORMATS)), default="bf16", help="Weights and activations.")
@click.option("--optimizer-bytes", type=int, default=8, show_default=True, help="Optimizer state of a parameter.")
@click.option("--recompute/--no-recompute", default=True, show_default=True, help="Run forward again in backward.")
@click.option("--assume", default="", help=ASSUME_HELP)
@click.option("--every-chip", is_flag=True, help="Simulate each chip, not one for each stage; same result, slower.")
@click.option("--trace", type=click.Path(path_type=Path), default=None, help="Perfetto trace to write.")
def scale(
    preset: str,
    model: str,
    kind: str,
    batch: int,
    sequence: int,
    parallel: str,
    servers: int,
    number: str,
    optimizer_bytes: int,
    recompute: bool,
    assume: str,
    every_chip: bool,
    trace: Path | None,
) -> None:
    """Time one step of a model on a machine."""
    from scale.fabric import Fabric, machine_scope
    from scale.report import figures, sources, write_trace
    from scale.step import Step
    from sdk.cli import records_table, table
    from spec.models import model_named
    from spec.parallelism import ParallelConfig, WorkloadConfig

    machine, scope = machine_scope(preset)
    shape, layout = model_named(model), ParallelConfig.parse(parallel)
    workload = WorkloadConfig(
        kind=kind,
        batch=batch,
        sequence=sequence,
        weight_bytes=FORMATS[number],
        optimizer_bytes=optimizer_bytes,
        recompute=recompute,
    )
    if servers < 1:
        raise ParameterError(f"servers = {servers}: legal is at least 1")
    values = efficiencies(assume)
    step = Step(Fabric(machine, scope, values), shape, layout, workload, servers=servers, every_chip=every_chip)
    with progress("laying out") as report:
        result = step.run(report)
    records = figures(f"{model} {kind}", result, values)
    records_table(f"{model} {kind} on {servers} x {preset}, {parallel or 'one chip'}, {number}", records)
    exchanged = [(*key, seconds * 1e3) for key, seconds in result.collectives.items()]
    if exchanged:
        table("Collectives of a stage", ("operation", "axis", "algorithm", "ms"), exchanged)
    table("Efficiencies", ("name", "value", "unit", "source"), sources(values))
    digests = {"machine": machine.digest(), "model": shape.digest(), "parallel": layout.digest()}
    name = slug(preset, model, kind, parallel, f"b{batch}", f"s{sequence}", number, f"x{servers}")
    click.echo(results.write("scale", name, records, parameters=digests | {"workload": workload.digest()}))
    if trace is not None:
        write_trace(trace, result.timeline)
        click.echo(trace)


def _many(*names: str, default: list[Any], help: str, kind: Any = str) -> Callable[[Command], Command]:
    """An option that may be given several times."""
    return click.option(*names, multiple=True, type=kind, default=default, show_default=True, help=help)


@click.command()
@_many("--preset", default=["trn2-ultraserver"], help=PRESET_HELP)
@_many("--model", default=["llama3.1-405b"], help="Model, by its name in spec.models.")
@_many("--kind", default=["train"], kind=click.Choice(KINDS), help="What a step is.")
@_many("--batch", default=[64], kind=int, help="Sequences of a step.")
@_many("--sequence", default=[8192], kind=int, help="Tokens of a sequence.")
@_many("--parallel", default=["all"], help="Ranks of each axis; all: every tp x dp x pp.")
@_many("--microbatches", default=[1], kind=int, help="Microbatches tried with --parallel all.")
@_many("--format", "number", default=["bf16"], kind=click.Choice(list(FORMATS)), help="Weights and activations.")
@_many("--servers", default=[1], kind=int, help="Machines that share dp over EFA.")
@click.option("--assume", default="", help=ASSUME_HELP)
@click.option("--out", type=click.Path(path_type=Path), default=None, help="Outcomes [build/sweep/sweep.jsonl].")
@click.option("--scheduler", default=None, metavar="ADDRESS", help="Dask scheduler; without it, the cores here.")
@click.option("--workers", type=int, default=None, help="Processes on this machine [one a core].")
@click.option("--best", type=int, default=20, show_default=True, help="Rows to print, fastest first.")
def sweep(
    preset: tuple[str, ...],
    model: tuple[str, ...],
    kind: tuple[str, ...],
    batch: tuple[int, ...],
    sequence: tuple[int, ...],
    parallel: tuple[str, ...],
    microbatches: tuple[int, ...],
    number: tuple[str, ...],
    servers: tuple[int, ...],
    assume: str,
    out: Path | None,
    scheduler: str | None,
    workers: int | None,
    best: int,
) -> None:
    """Time a grid of steps; each option may be given several times. A sweep that was interrupted goes on."""
    from scale.fabric import Fabric, machine_scope
    from scale.measured import Value
    from scale.sweep import Point, layouts, on_cores
    from scale.sweep import sweep as run
    from sdk.cli import table
    from spec.models import model_named

    values = efficiencies(assume)
    stated = tuple((name, value.value, value.unit, value.source) for name, value in values.items())
    for name in model:
        model_named(name)
    points = []
    for machine_name, machines in itertools.product(preset, servers):
        machine, scope = machine_scope(machine_name)
        chips = Fabric(machine, scope, dict[str, Value](values)).chips * machines
        given = [text for text in parallel if text != "all"]
        tried = given + (list(layouts(chips, microbatches)) if "all" in parallel else [])
        points += [
            Point(
                preset=machine_name,
                model=name,
                parallel=layout,
                batch=sequences,
                sequence=length,
                kind=what,
                weight_bytes=FORMATS[form],
                servers=machines,
                values=stated,
            )
            for name, layout, sequences, length, what, form in itertools.product(
                model, tried, batch, sequence, kind, number
            )
        ]
    path = out or results.BUILD / "sweep" / "sweep.jsonl"
    with contextlib.ExitStack() as stack:
        submit = on_cores(workers)
        if scheduler is not None:
            submit = _cluster(stack, scheduler)
        outcomes, lost = run(points, path, submit, stack.enter_context(progress("sweeping")))
    timed = sorted((o for o in outcomes if "figures" in o), key=lambda o: -o["figures"]["tokens of a chip"])
    columns = ("preset", "model", "kind", "batch", "parallel", "servers", "step ms", "tokens/s a chip", "MFU", "MBU")
    shown = ("step time", "tokens of a chip", "MFU", "MBU")
    rows = [
        [*(outcome["point"][name] for name in columns[:6]), *(outcome["figures"][name] for name in shown)]
        for outcome in timed[:best]
    ]
    table(f"{len(timed)} of {len(outcomes)} points are legal; fastest first", columns, rows)
    if not timed and outcomes:
        click.echo(f"all refused, the first: {outcomes[0]['refused']}", err=True)
    click.echo(path)
    if lost:
        first = f"{lost[0].preset} {lost[0].model} {lost[0].parallel}"
        count = f"{len(lost)} of {len(lost) + len(outcomes)} points"
        raise ParameterError(
            f"{count} lost with their workers, the first: {first}; what is finished is kept: run the same sweep again"
        )
    sys.exit(0 if timed else 1)


def _cluster(stack: contextlib.ExitStack, address: str) -> Any:
    """Workers of the Dask cluster at an address; one that does not answer is refused."""
    import distributed

    from scale.sweep import on_dask

    try:
        client = stack.enter_context(distributed.Client(address, timeout="10s"))
    except (OSError, ValueError, TimeoutError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ParameterError(f"scheduler {address!r}: {reason}: legal is a running one, as tcp://host:8786") from None
    return on_dask(client)
