"""Figures of systems of chips: what their Verilog costs, and the time model of collectives against compiled chips."""

import os
import resource
import time
from collections.abc import Iterator, Sequence

import numpy as np

from golden.system.system import System as Golden
from hdl.emit import emit
from hdl.system.system import System
from scale.chips import cycles
from sdk.collectives import Ring
from sdk.system import Machine, SystemProgram
from spec.core import LINE_BYTES
from spec.presets import machine_named
from spec.results import Record
from spec.system import SystemConfig, instance_of, ultraserver_of
from verif.system.driver import RtlSystem
from verif.system.programs import SIXTEEN
from verif.system.system import SQUARE

SECONDS = 600
MEGABYTES = 50
SYSTEMS: dict[str, SystemConfig] = {
    "TRN2 instance": instance_of(machine_named("TRN2")),
    "TRN2 UltraServer": ultraserver_of(machine_named("TRN2")),
    "TRN3 UltraServer": ultraserver_of(machine_named("TRN3")),
}
"""What is emitted whole. Chips of TRN3 have no instance of their own: switches join those of an UltraServer."""
WITHIN = 0.05
OPERATIONS = ("reduce_scatter", "all_gather", "all_reduce", "all_to_all")
LINES = (1, 2, 4, 8, 16)
"""Chunks that are timed."""
WORDS = LINE_BYTES // 4


def bench_system() -> list[Record]:
    """Every figure."""
    return [*bench_emission(), *bench_collectives()]


def cpu_seconds() -> float:
    """Of this process and of those it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def bench_emission(names: Sequence[str] = tuple(SYSTEMS)) -> list[Record]:
    """All chips of a preset: wall time, bytes, distinct modules and their instances."""
    records = []
    for name in names:
        config = SYSTEMS[name]
        started, used = time.perf_counter(), cpu_seconds()
        emission = emit(System(config))
        seconds, used = time.perf_counter() - started, cpu_seconds() - used
        modules = emission.description["modules"]
        about = (
            f"{config.chips} chips, {config.cores} cores and {config.stacks} stacks each; parameters {config.digest()}"
        )
        busy = f"{used:.0f} s of processor time, load average of the host {os.getloadavg()[0]:.1f}"
        figures: list[tuple[str, float, str, int | None, str]] = [
            ("elaboration and Verilog", round(seconds, 1), "s", SECONDS, busy),
            ("Verilog", round(len(emission.verilog) / 1e6, 2), "MB", MEGABYTES, about),
            ("distinct modules", len(modules), "modules", None, about),
            ("instances of modules", sum(entry["count"] for entry in modules), "instances", None, about),
        ]
        records += [
            Record("system.system", f"{name}: {figure}", value, unit, target, reference, "lower")
            for figure, value, unit, target, reference in figures
        ]
    return records


def collective_cycles(machine: Machine, config: SystemConfig, ring: Sequence[int], operation: str, lines: int) -> int:
    """How long chips take for a collective around ``ring`` with chunks of so many lines: the slowest core's cycles."""
    program = SystemProgram(config)
    shape = (config.chips * lines, WORDS)
    for core in program.programs:
        core.hbm("x", shape, "fp32")
    Ring([program.programs[core] for core in ring], ring, "x").run(operation)
    results = program.run(machine, [{"x": np.ones(shape, np.float32)} for _ in program.programs])
    return max(result.cycles for result in results)


def around(sizes: Sequence[int]) -> list[int]:
    """The chips of a torus of an even number of rows in an order in which neighbours follow each other."""
    rows, columns = sizes
    return [
        columns * row + (column if row % 2 == 0 else columns - 1 - column)
        for row in range(rows)
        for column in range(columns)
    ]


def deviations(
    chips: RtlSystem, ring: Sequence[int], lines: Sequence[int] = LINES
) -> Iterator[tuple[str, int, float, int]]:
    """``(operation, lines, cycles of the time model, cycles of compiled chips)``."""
    config = chips.config
    for operation in OPERATIONS:
        first = collective_cycles(Golden(config), config, ring, operation, 1)
        for count in lines:
            measured = collective_cycles(chips, config, ring, operation, count)
            yield operation, count, cycles(config, ring, operation, count, first), measured


def bench_collectives(systems: Sequence[SystemConfig] = (SQUARE, SIXTEEN)) -> list[Record]:
    """The time model of :mod:`scale.chips` beside compiled chips."""
    records = []
    for config in systems:
        sizes = config.torus_router.torus.sizes
        chips = RtlSystem(config)
        for operation, lines, model, rtl in deviations(chips, around(sizes)):
            size = config.chips * lines * LINE_BYTES
            figure = f"{sizes[0]}x{sizes[1]} chips, {operation} of {size:,} B: deviation of the time model from RTL"
            reference = f"model {model:.0f} cycles, RTL {rtl}"
            records.append(
                Record("scale.collectives", figure, round(abs(model / rtl - 1), 4), "", WITHIN, reference, "lower")
            )
        chips.model.close()
    return records
