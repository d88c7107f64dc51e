"""Figures of vector and scalar engine: cycles, errors of functions, tables, throughput of golden."""

import dataclasses
import functools
import time
from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np

from golden.scalar.activation import Instruction as Activation
from golden.scalar.activation import ScalarEngine
from golden.scalar.activation import cycles as scalar_cycles
from golden.scalar.functions import Evaluator, evaluate
from golden.vector.instructions import Instruction, cycles, error_of, interval
from golden.vector.operations import ARITHMETIC, RAW, apply
from golden.vector.power import power, rsqrt
from hdl.scalar.lane import ScalarLane
from hdl.vector.lane import VectorLane
from spec import tables
from spec.functions import FUNCTIONS, TABULATED
from spec.results import Record
from spec.scalar import ScalarConfig
from spec.vector import VectorConfig
from verif.bench.area import modules
from verif.scalar.generate_tables import DIGITS, bf16_errors, generate, tail_rows
from verif.scalar.references import reference, ulp_error

LENGTH = 512
STRIDE = 4_099
"""A prime: about a million of the 2**32 arguments. ``errors`` in the tables holds a denser measurement."""
ULP_TARGET = 2
THROUGHPUT = 50
"""Million elements a second."""
SIZE = 1 << 20

PUBLISHED: dict[str, float] = {
    "tensor_copy": 1,
    "tensor_scalar": 1,
    "tensor_tensor": 2,
    "scalar_tensor_tensor": 2,
    "tensor_tensor_scan": 2,
    "tensor_reduce": 1,
    "tensor_copy_predicated": 2,
    "memset": 1,
    "reciprocal": 8,
    "max8": 1,
    "nc_find_index8": 1,
    "nc_match_replace8": 1,
    "nc_stream_shuffle": 1,
    "nc_transpose": 1,
    "range_select": 1,
    "bn_stats": 1,
    "bn_aggr": 13 / 3,
    "quantize_mx": 1 / 4,
}
"""Published cycles for each element; the least is 64 an instruction (aws-neuron-sdk, tag v2.26.0)."""
PACKED = {
    "tensor_copy": (2, 1 / 4),
    "tensor_scalar": (2, 1 / 4),
    "tensor_tensor": (1, 1),
    "scalar_tensor_tensor": (1, 1),
}
"""Of instructions on 16-bit elements: how they pack, and published cycles for each element."""
BEYOND = 20
"""Cycles that an instruction may take beyond one for each element."""

TRADE = "tanh"


def bench_vector() -> list[Record]:
    """All figures that need no simulation; the benches of the engines prove the cycle functions on RTL."""
    return [*_cycles(), *_roots(), *_functions(), *_trade(_cells()), *_throughput()]


def _cycles() -> list[Record]:
    config = VectorConfig(ways=4)
    records = []
    for opcode, each in PUBLISHED.items():
        records += _cost(config, opcode, LENGTH - LENGTH % (3 if opcode == "bn_aggr" else 1), each, 0)
    for opcode, (packed, each) in PACKED.items():
        records += _cost(config, opcode, LENGTH, each, packed)
    rows, _ = cycles(config, [Instruction(opcode="tensor_copy", length=1)])
    records.append(Record("vector.engine", "latency, instruction to result", rows[0], "cycles", 20, None, "lower"))
    scalar = ScalarConfig()
    ends = scalar_cycles(scalar, [Activation(function="tanh", length=LENGTH)] * 3)
    figure = f"activation, {LENGTH} elements, cycles between instructions"
    records.append(Record("scalar.engine", figure, ends[2] - ends[1], "cycles", LENGTH, "aws-neuron-sdk", "lower"))
    last = scalar_cycles(scalar, [Activation(length=1)])[0] - 1
    records.append(Record("scalar.engine", "latency, instruction to result", last, "cycles", 20, None, "lower"))
    return records


def _cost(config: VectorConfig, opcode: str, length: int, each: float, packed: int) -> list[Record]:
    """Cycles of one instruction among its like, and how many more than one an element, where it takes more."""
    names = ("is_ge", "is_le") if opcode == "range_select" else ("add", "add")
    formats: dict[str, Any] = {}
    if opcode == "quantize_mx":
        formats = {"output_format": "fp8_e4m3fn"}
    if packed:
        formats = dict.fromkeys(("left_format", "right_format", "output_format"), "bf16")
    entry = Instruction(opcode=opcode, op0=names[0], op1=names[1], length=length, packed=packed, **formats)
    assert error_of(config, entry) == "done", entry
    _, ends = cycles(config, [entry] * 3)
    found = ends[2] - ends[1]
    label = f"{opcode}, {length} elements" + (f" of 16 bits, {entry.ways} a cycle" if packed else "")
    published = round(max(64, each * length))
    records = [Record("vector.engine", f"{label}, cycles", found, "cycles", published, "aws-neuron-sdk", "lower")]
    beyond = found - length // entry.ways * interval(config, entry)
    if beyond > 0:
        figure = f"{label}, cycles beyond one an element"
        records.append(Record("vector.engine", figure, beyond, "cycles", BEYOND, None, "lower"))
    return records


def _roots() -> list[Record]:
    """Error of ``rsqrt`` for every significand with both parities of the exponent, of ``power`` for random operands."""
    worst = 0.0
    for start in range(127 << 23, 129 << 23, 1 << 20):
        x = np.arange(start, start + (1 << 20), dtype=np.uint32).view(np.float32)
        worst = max(worst, float(ulp_error(rsqrt(x), 1 / np.sqrt(x.astype(np.float64))).max()))
    rng = np.random.default_rng(2)
    base = np.exp2(rng.uniform(-126, 128, SIZE)).astype(np.float32)
    base[::2] = 1 + rng.normal(0, 1, SIZE // 2) * np.exp2(rng.uniform(-24, -2, SIZE // 2))
    with np.errstate(all="ignore"):
        exponent = (rng.uniform(-151, 128, SIZE) / np.log2(base.astype(np.float64))).astype(np.float32)
        base, exponent = base[np.isfinite(exponent)], exponent[np.isfinite(exponent)]
        truth = np.power(base.astype(np.longdouble), exponent.astype(np.longdouble)).astype(np.float64)
        error = float(ulp_error(power(base, exponent), truth).max())
    every, some = f"{2 << 23:,} significands and parities: all there are", f"{len(base):,} random operands"
    return [
        Record("vector.engine", "rsqrt, error in fp32", round(worst, 3), "ulp", ULP_TARGET, every, "lower"),
        Record("vector.engine", "power, error in fp32", round(error, 3), "ulp", ULP_TARGET, some, "lower"),
    ]


def arguments(name: str, stride: int = STRIDE) -> np.ndarray:
    """A strided sample of the fp32 patterns in a function's domain."""
    function = FUNCTIONS[name]
    x = np.arange(0, 1 << 32, stride, dtype=np.uint32).view(np.float32)
    inside = np.isfinite(x) & (x != 0) & (np.abs(x) <= function.limit)
    return x[inside & (x > 0)] if function.negative is not None else x[inside]


def _worst(name: str, function: Callable[[Any], Any]) -> float:
    x = arguments(name)
    return round(float(ulp_error(function(x), reference(name, x)).max()), 3)


def _functions() -> list[Record]:
    records = []
    for name in TABULATED:
        table = tables.table_of(name)
        worst = max(_worst(name, functools.partial(evaluate, name)), table.errors["ulp"])
        wrong = int(bf16_errors(name, Evaluator(table))[1].sum())
        records += [
            Record("scalar.engine", f"{name}, error in fp32", worst, "ulp", ULP_TARGET, "mpmath, float64", "lower"),
            Record("scalar.engine", f"{name}, wrong bf16 results", wrong, "of 65,536", 0, "mpmath, float64", "lower"),
            Record("scalar.engine", f"{name}, table", table.bits, "bits"),
        ]
    return records


def _cells() -> dict[str, int]:
    """Generic gates and flip-flops by kind of block: of lanes and what is in them, without their tables."""
    found = modules(ScalarLane(ScalarConfig())) | modules(VectorLane(VectorConfig()))
    return {name.rpartition("_")[0]: cells for name, cells in found.items()}


def _trade(cells: dict[str, int]) -> list[Record]:
    """Error, table and arithmetic of one function when the evaluation is made smaller."""
    full = tables.table_of(TRADE)
    no_low = tuple(dataclasses.replace(segment, lo=0) for segment in full.segments)
    with mpmath.workdps(DIGITS):
        square = generate(TRADE, tail_rows(), degree=2)
    low, third = (9 + tables.MANTISSA_BITS[name] for name in ("lo", "c3"))
    points = [
        ("cubic, two constants", full, 0, 3, 5),
        ("cubic, one constant", dataclasses.replace(full, segments=no_low), low, 3, 4),
        ("parabola, two constants", square, third, 2, 4),
    ]
    records = [
        Record("vector.engine", "lane without tables", cells["vector_lane"], "cells"),
        Record("scalar.engine", "exponential tail without its table", cells["tail"], "cells"),
    ]
    for label, table, saved, multipliers, adders in points:
        arithmetic = f"{multipliers} multipliers, {adders} adders in Horner's rule"
        # The lane is the shipped one; what a smaller evaluation leaves out is taken off.
        area = cells["scalar_lane"] - (3 - multipliers) * cells["multiply"] - (5 - adders) * cells["add"]
        bits = table.bits - saved * len(table.segments)
        worst = _worst(TRADE, Evaluator(table))
        records += [
            Record("scalar.engine", f"{TRADE}, {label}: error", worst, "ulp", None, arithmetic),
            Record("scalar.engine", f"{TRADE}, {label}: table", bits, "bits", None, arithmetic),
            Record("scalar.engine", f"{TRADE}, {label}: lane without tables", area, "cells", None, arithmetic),
        ]
    return records


def _throughput() -> list[Record]:
    rng = np.random.default_rng(1)
    a, b = (rng.normal(0, 3, SIZE).astype(np.float32) for _ in range(2))
    records = []
    for name in (*ARITHMETIC, *RAW):
        left, right = (a, b) if name in ARITHMETIC else (a.view(np.uint32), b.view(np.uint32))
        rate = _rate(functools.partial(apply, name, left, right))
        records.append(Record("golden.vector", f"{name}, throughput", rate, "M elements/s", THROUGHPUT))
    rate = _rate(functools.partial(apply, "power", np.abs(a), b))
    records.append(Record("golden.vector", "power of positive bases, throughput", rate, "M elements/s", THROUGHPUT))
    codes = rng.integers(0, 1 << 16, (SIZE // 128, 128)).astype(np.uint16)
    engine = ScalarEngine(ScalarConfig())
    for name in TABULATED:
        entry = Activation(function=name, input_format="bf16", length=len(codes))
        bf16 = _rate(functools.partial(engine.execute, entry, codes))
        wide = _rate(functools.partial(evaluate, name, np.abs(a)))
        records += [
            Record("golden.scalar", f"{name} of bf16, throughput", bf16, "M elements/s", THROUGHPUT),
            Record("golden.scalar", f"{name} of fp32, throughput", wide, "M elements/s", THROUGHPUT),
        ]
    return records


def _rate(run: Callable[[], Any]) -> float:
    """Million elements a second of processor time, best of ten: what else the machine does slows each of them."""
    run()
    best = float("inf")
    for _ in range(10):
        started = time.process_time()
        run()
        best = min(best, time.process_time() - started)
    return round(SIZE / best / 1e6, 1)
