"""Area and depth of one processing element, by what it can do, from Yosys."""

from hdl.tensor.processing_element import ProcessingElement
from spec.formats import FP32
from spec.results import Record
from spec.tensor import TensorConfig
from verif.bench.area import ecp5, generic

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

SPIKE = "naive spike: 4,866 cells, 201 levels; Berkeley HardFloat with 12-bit significands: 3,759 and 166"
"""HardFloat: ``mulAddRecFN`` at 7baad14, nearest even, no flags, by the same commands; see the docs page."""

REGISTER = FP32.width
"""Flip-flops of the sum from above: they stand beside the element, in its row."""


def bench_element() -> list[Record]:
    """Generic cells, flip-flops among them, the longest path in gates, and what ECP5 needs."""
    records = []
    for index, (name, config) in enumerate(ELEMENTS.items()):
        element = ProcessingElement(config)
        gates, cells = generic(element), ecp5(element)
        goal = index == 1
        records += [
            _record(name, "generic cells", gates.cells + REGISTER, "cells", CELLS if goal else None, SPIKE),
            _record(name, "flip-flops", gates.flip_flops + REGISTER, "flip-flops"),
            _record(name, "longest stage", gates.levels, "gate levels", LEVELS if goal else None, SPIKE),
            _record(name, "ECP5", cells.lut4, "LUT4"),
            _record(name, "ECP5", cells.multipliers, "MULT18X18D"),
        ]
    return records


def _record(
    name: str, figure: str, value: int, unit: str, target: int | None = None, reference: str | None = None
) -> Record:
    return Record("tensor.processing_element", f"{name}: {figure}", value, unit, target, reference, "lower")
